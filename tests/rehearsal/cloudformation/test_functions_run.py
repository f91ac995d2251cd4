"""A function runs as a process with the environment that Lambda sets, and ends at its timeout."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpu_rehearsal.cloudformation import assets
from gpu_rehearsal.cloudformation.assets import Assets, merge_layers, search_path
from gpu_rehearsal.cloudformation.changes import Answers
from gpu_rehearsal.cloudformation.invocation import Function, Invocation
from gpu_rehearsal.credentials import Authority, FunctionError

NODE = shutil.which("node") and assets.are_installed()
# Sends an answer as the CDK's handlers do: without the port of its address.
ANSWERS = """
const https = require("https"), url = require("url");
exports.handler = (event, context) => new Promise((resolve, reject) => {
  require("@aws-sdk/client-lambda");
  const { hostname, path } = url.parse(event.ResponseURL);
  const request = https.request({ hostname, path, method: "PUT", headers: { "content-type": "" } }, (response) =>
    resolve({ status: response.statusCode, name: context.functionName }));
  request.on("error", reject);
  request.end(JSON.stringify(event.Answer));
});
"""


def function(folder: Path, code: str, **changes: Any) -> Function:
    """Return a function of inline code, with `changes` applied."""
    source = folder / "code"
    source.mkdir()
    (source / "index.py").write_text(code)
    (source / "index.js").write_text(code)
    settings: dict[str, Any] = {
        "name": "echo",
        "arn": "arn:aws:lambda:us-east-1:123456789012:function:echo",
        "role": "arn:aws:iam::123456789012:role/echo",
        "runtime": "python3.13",
        "handler": "index.handler",
        "code": source,
        "opt": merge_layers([], folder / "opt"),
        "variables": {"TAG": "a"},
        "timeout": 60,
        "memory_mb": 128,
        "log_group": "/aws/lambda/echo",
    }
    return Function(**(settings | changes))


def run(folder: Path, made: Function, event: Any, environment: Mapping[str, str] | None = None) -> Any:
    """Run a function once and return what it answers."""
    place = folder / "run"
    place.mkdir()
    return json.loads(Invocation(made, place, environment or {}).run(json.dumps(event).encode()))


def test_a_function_gets_its_event_its_variables_and_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THIS_PROCESS", "secret")
    code = """
import os
def handler(event, context):
    print("printed")
    variables = {key: os.environ.get(key) for key in ("TAG", "AWS_ACCESS_KEY_ID", "OF_THIS_PROCESS", "HOME", "PATH")}
    left = context.get_remaining_time_in_millis()
    return {"event": event, "name": context.function_name, "variables": variables, "left": left}
"""

    result = run(tmp_path, function(tmp_path, code), {"a": [1]}, {"AWS_ACCESS_KEY_ID": "AKIA"})

    assert (result["event"], result["name"]) == ({"a": [1]}, "echo")
    assert result["variables"] == {
        "TAG": "a",
        "AWS_ACCESS_KEY_ID": "AKIA",
        "OF_THIS_PROCESS": None,
        "HOME": str(tmp_path / "run" / "tmp"),
        "PATH": str(tmp_path / "opt" / ".starters"),
    }
    assert 0 < result["left"] <= 60_000
    assert (tmp_path / "run" / "log.txt").read_text() == "printed\n"


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        ("def handler(event, context):\n    raise KeyError('a')", "KeyError", "'a'"),
        ("def handle(event, context): pass", "AttributeError", "handler"),
        ("import absent", "ModuleNotFoundError", "absent"),
        ("import os\ndef handler(event, context):\n    os._exit(3)", "Runtime.ExitError", "exit status 3"),
        (
            "import time\ndef handler(event, context):\n    time.sleep(60)",
            "Sandbox.Timedout",
            "timed out after 1.00 sec",
        ),
    ],
)
def test_a_function_ends_without_an_answer(tmp_path: Path, code: str, kind: str, message: str) -> None:
    with pytest.raises(FunctionError) as raised:
        run(tmp_path, function(tmp_path, code, timeout=1 if "sleep" in code else 60), {})

    payload = json.loads(raised.value.payload)
    assert payload["errorType"] == kind
    assert message in payload["errorMessage"]


def test_programs_of_layers_come_first_and_none_of_this_machine(tmp_path: Path) -> None:
    layers = [tmp_path / "kubectl-layer", tmp_path / "aws-layer"]
    program(layers[0] / "kubectl" / "kubectl", "#!/bin/sh\necho kubectl of the layer\n")
    program(layers[1] / "awscli" / "aws", "#!/var/lang/bin/python\nimport sys; print('aws', sys.argv[1:])\n")
    opt = merge_layers(layers, tmp_path / "merged")
    code = """
import os, subprocess
os.environ["PATH"] = "/opt/kubectl:/opt/awscli:" + os.environ["PATH"]
def handler(event, context):
    return [subprocess.run(each, capture_output=True, text=True).stdout.strip() for each in event]
"""

    result = run(tmp_path, function(tmp_path, code, opt=opt), [["kubectl"], ["aws", "eks"]])

    assert result == ["kubectl of the layer", "aws ['eks']"]
    assert "/usr/bin" not in search_path(opt)


def test_refuses_layers_with_the_same_entry(tmp_path: Path) -> None:
    for layer in ("one", "other"):
        program(tmp_path / layer / "bin" / "tool", "#!/bin/sh\n")

    with pytest.raises(ValueError, match=r"entries must have names of their own, got 'bin' twice"):
        merge_layers([tmp_path / "one", tmp_path / "other"], tmp_path / "opt")


def test_assets_are_found_by_their_keys_and_keep_their_modes(tmp_path: Path) -> None:
    program(tmp_path / "asset.folder" / "index.py", "")
    with zipfile.ZipFile(tmp_path / "asset.zip", "w") as archive:
        archive.write(tmp_path / "asset.folder" / "index.py", "kubectl/kubectl")
    files = {
        "1": {"source": {"path": "asset.folder"}, "destinations": {"here": {"objectKey": "1.zip"}}},
        "2": {"source": {"path": "asset.zip"}, "destinations": {"here": {"objectKey": "2.zip"}}},
    }
    (tmp_path / "Test.assets.json").write_text(json.dumps({"files": files}))
    assets = Assets(tmp_path)

    assert (assets.unpack("1.zip", tmp_path / "made") / "index.py").exists()
    unzipped = assets.unpack("2.zip", tmp_path / "made")
    assert (unzipped / "kubectl" / "kubectl").stat().st_mode & 0o111
    assert assets.unpack("2.zip", tmp_path / "made") == unzipped
    with pytest.raises(LookupError, match=r"asset 3.zip: must be named by an asset manifest"):
        assets.unpack("3.zip", tmp_path / "made")


@pytest.mark.skipif(not NODE, reason="needs node and the packages that tools/build_rehearsal.py installs")
def test_a_function_of_node_answers_over_tls(tmp_path: Path) -> None:
    request = {"StackId": "a", "RequestId": "b", "LogicalResourceId": "c"}
    answer = {**request, "Status": "SUCCESS", "PhysicalResourceId": "d"}
    authority = Authority(tmp_path)
    with Answers(authority) as answers:
        event = {"ResponseURL": answers.expect("b"), "Answer": answer}

        result = run(tmp_path, function(tmp_path, ANSWERS, runtime="nodejs24.x"), event, authority.environment())

        assert result == {"status": 200, "name": "echo"}
        assert answers.wait(request, 1) == answer


def program(path: Path, text: str) -> None:
    """Write a program."""
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(0o755)
