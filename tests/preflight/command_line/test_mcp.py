"""An agent gets the commands' answers, about files below one folder, and changes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra mcp isn't installed")

import anyio
import click
import mcp_types
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from gpu_preflight.command_line import mcp_server
from gpu_preflight.command_line.cli import cli
from gpu_preflight.command_line.mcp_server import COMMANDS, LEFT_OUT, command_line, parameters
from gpu_preflight.reading.rendering.programs import program
from tests.preflight.command_line.test_cli import as_process

SECRET = "secret-outside-the-root"
POOL = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g6.xlarge]}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  containers:
    - {name: main, image: "busybox:1.37", resources: {limits: {nvidia.com/gpu: 2}}}
"""
CHART = {"Chart.yaml": "apiVersion: v2\nname: own\nversion: 1.0.0\n"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a pool and a pod, next to a file outside."""
    (tmp_path / "secret.yaml").write_text(POD.replace("train", SECRET))
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "pool.yaml").write_text(POOL)
    (folder / "pod.yaml").write_text(POD)
    return folder


def texts(result: Any) -> list[str]:
    """The texts of an answer."""
    return [each.text for each in result.content if isinstance(each, mcp_types.TextContent)]


def ask(root: Path, *calls: tuple[str, Mapping[str, Any]]) -> list[Any]:
    """Call the server in this process, which runs each command in a subprocess."""

    async def run() -> list[Any]:
        async with Client(mcp_server.server(cli, root)) as client:
            return [await client.call_tool(name, dict(arguments)) for name, arguments in calls]

    return anyio.run(run)


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a confined command."""
    scratch = root.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    line = [sys.executable, "-m", "gpu_preflight.command_line.confinement", str(root), str(scratch), *arguments]
    return subprocess.run(line, cwd=root, capture_output=True, text=True, check=False)


def test_client_of_the_sdk_lists_and_calls_the_tools_of_the_command(root: Path) -> None:
    start = StdioServerParameters(
        command=sys.executable,
        args=["-m", "gpu_preflight.command_line.cli", "mcp"],
        cwd=root,
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )

    async def talk() -> tuple[Any, Any, Any]:
        async with Client(stdio_client(start)) as client:
            listed = await client.list_tools()
            return client.server_info, listed.tools, await client.call_tool("explain", {"paths": ["."]})

    info, tools, answer = anyio.run(talk)
    own = as_process("explain", "--format=markdown", ".", cwd=root)

    assert info.name == "gpu-constructs"
    assert [each.name for each in tools] == [*COMMANDS]
    assert all(each.annotations.read_only_hint for each in tools)
    assert texts(answer)[0] == own.stdout
    assert "train" in own.stdout
    assert texts(answer)[1].startswith("Exit code 1:")


def test_each_option_of_a_command_is_an_argument_or_left_out() -> None:
    known = {each.name for name in COMMANDS for each in cli.commands[name].params}
    offered = {each.name for name in COMMANDS for each in parameters(cli.commands[name]).values()}

    assert known - offered <= LEFT_OUT
    assert {"parameter", "as_of", "assume", "fail_on", "paths", "format"} <= set(parameters(cli.commands["check"]))


def test_no_file_of_the_root_runs_as_code(root: Path) -> None:
    for name in ("click.py", "yaml.py", "gpu_preflight.py", "json.py"):
        (root / name).write_text(f"open({str(root / 'ran')!r}, 'w').close()\n")

    [answer] = ask(root, ("explain", {"paths": ["pool.yaml", "pod.yaml"]}))

    assert "train" in texts(answer)[0]
    assert not (root / "ran").exists()


def test_versions_of_a_review_are_told_apart_by_name(root: Path) -> None:
    (root / "one").mkdir()
    (root / "one" / "pool.yaml").write_text(POOL)
    (root / "two").mkdir()
    (root / "two" / "pool.yaml").write_text(POOL + "  limits: {nvidia.com/gpu: 4}\n")

    [forth, again] = ask(root, ("review", {"old": "one", "new": "two"}), ("review", {"new": "two", "old": "one"}))

    assert texts(forth)[0] == texts(again)[0]
    assert command_line(cli.commands["review"], {"new": "two", "old": "one"}, root)[-2:] == ["one", "two"]


def test_paths_and_links_outside_the_root_are_not_read(root: Path) -> None:
    (root / "link.yaml").symlink_to(root.parent / "secret.yaml")

    paths = (str(root.parent / "secret.yaml"), "..", "link.yaml")

    answers = ask(root, *(("check", {"paths": [path]}) for path in paths), ("explain", {"file": [paths[0]]}))

    for answer, path in zip(answers, (*paths, paths[0]), strict=True):
        assert answer.is_error
        assert texts(answer)[0].startswith(f"a path must be below {root}, got {path!r}")


def test_a_confined_command_cannot_open_what_is_outside(root: Path) -> None:
    (root / "link.yaml").symlink_to(root.parent / "secret.yaml")

    for path in ("link.yaml", "../secret.yaml"):
        done = run(root, "check", path)

        assert done.returncode == 2
        assert f"{path}: must be a readable file or folder, got a path outside {root}" in done.stderr


def write_chart(folder: Path) -> Path:
    """Write a chart with a pod."""
    (folder / "templates").mkdir(parents=True)
    for name, text in CHART.items():
        (folder / name).write_text(text)
    (folder / "templates" / "pod.yaml").write_text(POD.replace("train", "of-the-chart"))
    return folder


def test_a_chart_is_rendered_as_outside_the_confinement(root: Path) -> None:
    if program("helm") is None:
        pytest.skip("no helm: install a kubectl layer, or helm")
    write_chart(root / "chart")

    [answer] = ask(root, ("explain", {"paths": ["."]}))

    assert "of-the-chart" in texts(answer)[0]


@pytest.mark.parametrize("kind", ["link", "second link", "folder with =", "packed chart"])
def test_a_chart_that_leads_outside_the_root_is_not_rendered(root: Path, kind: str) -> None:
    chart = write_chart(root / ("a=b" if kind == "folder with =" else "") / "chart")
    outside = root.parent / "secret.yaml"
    if kind == "second link":
        (root / "other").mkdir()
        (root / "other" / "pod.yaml").symlink_to(outside)
        (chart / "templates" / "more").symlink_to("../../other")
    elif kind == "packed chart":
        (chart / "charts").mkdir()
        (chart / "charts" / "more-1.0.0.tgz").write_bytes(b"")
    else:
        (chart / "templates" / "more.yaml").symlink_to(outside)

    [answer] = ask(root, ("explain", {"paths": [str(chart.relative_to(root))], "format": "json"}))

    assert SECRET not in texts(answer)[0]
    assert "of-the-chart" not in texts(answer)[0]


@pytest.mark.parametrize(
    "call",
    [
        "open('made', 'w')",
        "os.mkdir('made')",
        "os.rename('pod.yaml', '/tmp/made')",
        "os.rename(os.path.join(scratch, 'own'), 'made')",
        "os.symlink('pod.yaml', 'made')",
        "os.link('pod.yaml', 'made')",
        "os.remove('pod.yaml')",
        "open('../secret.yaml')",
        "os.listdir('..')",
        "os.system('true')",
        "socket.create_connection(('127.0.0.1', 9))",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'', ('127.0.0.1', 9))",
    ],
)
def test_the_hook_rejects(root: Path, call: str) -> None:
    scratch = root.parent / "scratch"
    scratch.mkdir()
    (scratch / "own").write_text("")
    program = f"""
import os, socket
from pathlib import Path
from gpu_preflight.command_line.confinement import confine
scratch = {str(scratch)!r}
confine(Path("."), Path(scratch))
try:
    {call}
except PermissionError:
    print("rejected")
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr) == ("rejected\n", "")
    assert sorted(each.name for each in root.iterdir()) == ["pod.yaml", "pool.yaml"]


@pytest.mark.parametrize("option", ["--output=made.txt", "--html=made.html", "--also=json=made.json"])
def test_nothing_below_the_root_is_changed(root: Path, option: str) -> None:
    before = {each: each.read_bytes() for each in root.iterdir()}

    done = run(root, "check", option, ".")

    assert done.returncode == 2
    assert "must be a file that can be written, got a file that must not be changed" in done.stderr
    assert {each: each.read_bytes() for each in root.iterdir()} == before


def test_confined_commands_answer_as_others_do(root: Path) -> None:
    done = run(root, "check", "--format=json", ".")
    free = as_process("check", "--format=json", ".", cwd=root)

    assert (done.returncode, done.stdout) == (free.returncode, free.stdout)


def test_long_answers_are_cut_and_continue_at_an_offset(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_server, "MAX_CHARACTERS", 2_000)

    [whole, first, second] = ask(
        root,
        ("rules", {"rule": "GPU010", "format": "json"}),
        ("instances", {"format": "json"}),
        ("instances", {"format": "json", "offset": 2_000}),
    )

    assert "Ask again" not in texts(whole)[1]
    assert len(texts(first)[0]) == 2_000
    assert "Ask again with offset=2000" in texts(first)[1]
    assert not texts(second)[0].startswith("{")
    assert "Ask again with offset=4000" in texts(second)[1]


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        (
            "chek",
            {},
            "tool must be one of check, explain, review, doctor, instances, rules, got 'chek'; did you mean 'check'?",
        ),
        ("doctor", {}, "paths must name a dump below"),
        ("doctor", {"paths": ["train"]}, "got ['train']; a tool can't read a running cluster"),
        ("check", {"pats": ["."]}, "got 'pats'; did you mean 'paths'?"),
        ("check", {"output": "made.txt"}, "got 'output'"),
        ("check", {"offset": -1}, "check: offset must be an integer of at least 0, got -1"),
        ("check", {"paths": ["-"]}, "a path must be a file or folder, got '-'; the protocol uses standard input"),
        (
            "check",
            {"paths": ["--output=made.txt"]},
            "gpu-constructs: --output=made.txt: must be a readable file or folder",
        ),
        ("explain", {"cluster": "--html=made.html", "paths": ["."]}, "got '--html=made.html'"),
        ("explain", {"cluster": "a\0b"}, "argument 'cluster' must be text that a command line can have"),
        ("explain", {"cluster": "a\ud800"}, "argument 'cluster' must be text that a command line can have"),
        ("check", {"offset": True}, "check: offset must be an integer of at least 0, got True"),
        ("rules", {"rule": "GPU9"}, "ID must be a rule's id, got 'GPU9'"),
    ],
)
def test_wrong_arguments_are_one_line(root: Path, tool: str, arguments: dict[str, Any], message: str) -> None:
    [answer] = ask(root, (tool, arguments))

    assert answer.is_error
    assert message in texts(answer)[0]
    assert "\n" not in texts(answer)[0]
    assert sorted(each.name for each in root.iterdir()) == ["pod.yaml", "pool.yaml"]


def test_a_command_that_takes_too_long_is_stopped(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_server, "MAX_SECONDS", 0.01)

    [answer] = ask(root, ("check", {"paths": ["."]}))

    assert answer.is_error
    assert texts(answer) == ["check: must end within 0.01 seconds, and was stopped; name fewer paths"]


def test_arguments_become_options_and_paths(root: Path) -> None:
    arguments = {"paths": ["a", "b"], "strict": True, "parameter": ["K=V"], "format": "json", "as_of": None}

    assert command_line(cli.commands["check"], arguments, root) == [
        *("check", "--strict", "--parameter=K=V", "--format=json"),
        *("--", "a", "b"),
    ]


def test_without_the_extra_the_command_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    monkeypatch.delitem(sys.modules, "gpu_preflight.command_line.mcp_server")

    with pytest.raises(click.UsageError, match=r"mcp needs the extra mcp, got no mcp_types; run pip install"):
        cli.main(["mcp"], standalone_mode=False)


def test_the_root_must_be_a_folder() -> None:
    with pytest.raises(click.UsageError, match="--root must be a folder, got 'absent'"):
        cli.main(["mcp", "--root", "absent"], standalone_mode=False)
