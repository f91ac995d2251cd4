"""Creation stacks: the line of an app's own code that created a construct."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import gpu_preflight
from gpu_preflight.judging.check import check
from gpu_preflight.reading import creation_stacks
from gpu_preflight.reading.creation_stacks import HINT, CreationStacks
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.reading.objects import Origin, Position
from gpu_preflight.report import text
from gpu_preflight.report.view import check_view
from tests.conftest import ROOT

# A checkout, or where the wheel is installed.
LIBRARY = Path(gpu_preflight.__file__).parents[1]
_APP = """\
import aws_cdk as cdk
from aws_cdk import aws_s3 as s3
from gpu_constructs import GpuCluster, Spot

app = cdk.App(analytics_reporting=False, outdir="cdk.out")
stack = cdk.Stack(app, "Inference")
gpu = GpuCluster(stack, "Gpu")


def small_pool(name):
    gpu.add_pool(name, "g6.xlarge", max_nodes=8, capacity=Spot())


small_pool("l4")
app.synth()
"""


def _assembly(folder: Path, metadata: Any, *, template: str = "App.template.json") -> Path:
    properties = {"templateFile": "App.template.json"}
    artifact = {"type": "aws:cloudformation:stack", "properties": properties, "additionalMetadataFile": "App.json"}
    (folder / "manifest.json").write_text(json.dumps({"artifacts": {"App": artifact}}))
    (folder / "App.json").write_text(json.dumps(metadata))
    return folder / template


def _resource(trace: Any, logical_id: str = "Group1") -> list[dict[str, Any]]:
    return [{"type": "aws:cdk:logicalId", "data": logical_id}, {"type": "aws:cdk:creationStack", "data": trace}]


def _find(file: Path, path: str = "App/Group", resource: str | None = "App/Group1") -> Position | None:
    return CreationStacks().find(Origin(str(file), path, resource))


@pytest.mark.parametrize(
    ("frame", "position"),
    [
        ("<module> (/src/app.py:9)", Position("/src/app.py", 9, None)),
        ("new Pool (/src (1)/lib/pool.ts:12:5)", Position("/src (1)/lib/pool.ts", 12, 5)),
        ("Object.<anonymous> (C:\\src\\app.ts:1:2)", Position("C:\\src\\app.ts", 1, 2)),
        ("    at file:///src/app.mjs:5:1", Position("/src/app.mjs", 5, 1)),
        ("add_pool (/venv/lib/python3.11/site-packages/company/pools.py:9)", None),
        ("wraps (/usr/lib/python3.11/functools.py:9)", None),
        ("new Stack (/src/node_modules/company/lib/stack.js:9:9)", None),
        (".../tmp/jsii-kernel-Wl3/node_modules/aws-cdk-lib/vpc.js:1:287 in aws-cdk-lib...", None),
        (f"add_pool ({LIBRARY}/gpu_constructs/cluster/gpu_cluster.py:379)", None),
        (f"call ({LIBRARY}/gpu_facts/named_arguments.py:53)", None),
        ("_call (<frozen importlib._bootstrap>:241)", None),
        ("require (node:internal/main:9:9)", None),
        ("Array.forEach (:)", None),
        ("(no user code in 10 frames, use --stack-trace-limit to capture more)", None),
        ("f (a.py:99999999999999999999)", None),
        ("f (:9)", None),
        (9, None),
    ],
)
def test_frames_of_the_app_itself(frame: Any, position: Position | None, tmp_path: Path) -> None:
    trace = ["...aws-cdk-lib, jsii runtime...", frame]

    assert _find(_assembly(tmp_path, {"/App/Group/Resource": _resource(trace)})) == position


def test_traces_of_older_versions(tmp_path: Path) -> None:
    entry = {"type": "aws:cdk:logicalId", "data": "Group1", "trace": ["new Pool (/src/pool.ts:3:4)"]}

    assert _find(_assembly(tmp_path, {"/App/Group/Resource": [entry]})) == Position("/src/pool.ts", 3, 4)


def test_synthesis_creates_nothing_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text("\nStack(app)\napp.synth()\n")
    frames = {line: [f"<module> ({tmp_path}/app.py:{line})"] for line in (2, 3)}
    metadata = {"/App": _resource(frames[2], "none"), "/App/Group/Resource": _resource(frames[3])}

    assert _find(_assembly(tmp_path, metadata)) == Position("app.py", 2, None)


def test_objects_and_nested_stacks_are_found_by_their_logical_id(tmp_path: Path) -> None:
    paths = {
        "/App/Group/Resource": "Group1",
        "/App/A.NestedStack/A.NestedStackResource": "A1",
        "/App/A/Group/Resource": "Group1",
        "/App/A/B.NestedStack/B.NestedStackResource": "B1",
        "/App/A/B/Group/Resource": "Group1",
        "/App/One": "Twice",
        "/App/Two": "Twice",
    }
    metadata = {path: _resource([f"f (/a.py:{line})"], id) for line, (path, id) in enumerate(paths.items(), 1)}
    file = _assembly(tmp_path, metadata)
    nested = tmp_path / "AppA1.nested.template.json"

    lines = [_find(file, "Pod a"), _find(nested, "x", "App.A1/Group1"), _find(nested, "x", "App.A1.B1/Group1")]
    assert lines == [Position("/a.py", line, None) for line in (1, 3, 5)]
    assert _find(file, "App/One", "App/Twice") is None
    assert _find(nested, "x", "App.A2/Group1") is None
    # A template that isn't one of the assembly's.
    assert _find(tmp_path / "mine.json", "Pod a", "mine/Group1") is None


@pytest.mark.parametrize(
    "metadata", [[], {"/App/Group/Resource": 3}, {"/App/Group/Resource": [_resource({}), {}]}, "[" * 1000]
)
def test_metadata_of_another_form_has_no_traces(metadata: Any, tmp_path: Path) -> None:
    assert _find(_assembly(tmp_path, metadata)) is None


def test_hostile_metadata_ends(tmp_path: Path) -> None:
    nested = {
        f"/App/{n}.NestedStack/{n}.NestedStackResource": _resource([" (" * 99 + ":1" * 99], "N1") for n in range(9999)
    }
    same = {f"/App/{n}/Group": _resource([]) for n in range(9999)}
    file = _assembly(tmp_path, {**nested, **same, "/" * 999_999: _resource([], "Long1")})

    assert [_find(file), _find(file, "x", "App.N1/Group1"), _find(file, "x", "App/Long1")] == [None] * 3


def test_files_that_are_gone_have_no_traces(tmp_path: Path) -> None:
    file = _assembly(tmp_path, {})
    (tmp_path / "App.json").unlink()

    assert _find(file) is None
    assert _find(tmp_path / "gone" / "a.json") is None
    assert _find(Path("a\0b/a.json")) is None


def _report() -> str:
    return text.render(check_view(check(read_input(["cdk.out"]))))


@pytest.mark.skipif(find_spec("aws_cdk") is None, reason="needs the CDK")
def test_an_app_in_python_with_and_without_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text(_APP)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JSII_HOST_STACK_TRACES": "1", "CDK_VALIDATION": "false"}
    subprocess.run([sys.executable, "app.py"], env=environment, check=True, capture_output=True)

    traced = _report()
    # Without the variable, only the frames of Python are missing.
    metadata = Path("cdk.out/Inference.metadata.json")
    metadata.write_text(re.sub(r'"[^"]+\.py:\d+\)"', '"...jsii runtime..."', metadata.read_text()))
    plain = _report()

    assert "at      Inference/Gpu/Cluster in app.py:7\n" in traced
    assert "at      Inference/Gpu/Pool-l4 in app.py:11\n" in traced
    assert HINT not in traced
    assert "at      Inference/Gpu/Pool-l4 in cdk.out/Inference.template.json\n" in plain
    assert plain.count(HINT) == 1


def test_an_app_in_typescript_has_lines_in_its_stack_and_in_a_nested_one() -> None:
    """The assembly of aws-cdk-lib 2.275.0 and Node.js 24, without what no finding is about (2026-11)."""
    report = check(read_input([str(Path(__file__).parent / "typescript_app")]))
    view = check_view(report)

    lines = {each.origin.path: str(each.origin.code) for each in view.findings if each.id in ("GPU001", "GPU293")}

    assert lines == {
        "Inference/Cluster": "/home/dev/inference/lib/pools.ts:38:21",
        "Inference/Own/Group": "/home/dev/inference/lib/pools.ts:16:5",
        "Inference/Inner/g6/Group": "/home/dev/inference/lib/pools.ts:16:5",
        "Inference/Inner/g5/Group": "/home/dev/inference/lib/pools.ts:16:5",
    }
    assert not view.hints


def test_the_library_itself_has_no_lines_wherever_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The app's frame is the first outside of the library, in a checkout next to the app as in site-packages."""
    app = "<module> (/home/dev/inference/app.py:9)"
    checkout, installed = "/home/dev/inference/gpu-constructs", "/venv/lib/python3.12/site-packages"
    for folder in (checkout, installed):
        monkeypatch.setattr(creation_stacks, "_OWN", creation_stacks.own_folders(Path(folder)))
        frames = [f"add_pool ({folder}/gpu_constructs/pools/pool.py:7)", f"call ({folder}/gpu_facts/named.py:5)", app]

        position = _find(_assembly(tmp_path, {"/App/Group/Resource": _resource(frames)}))

        assert position == Position("/home/dev/inference/app.py", 9, None)
