"""`cdk synth` of a checked app fails where a GPU pod would stay Pending, and reports it the CDK way."""

from __future__ import annotations

import gc
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import Acknowledgment, Validations
from aws_cdk import aws_eks as eks
from constructs import Construct

from gpu_constructs import check_gpus
from gpu_preflight.judging.check import check
from gpu_preflight.reading.inputs import read_input


class Nodes(Construct):
    """A cluster and a node group without anything of this library."""

    def __init__(self, scope: Construct, id: str, *, ami_type: str) -> None:
        super().__init__(scope, id)
        network = eks.CfnCluster.ResourcesVpcConfigProperty(subnet_ids=["subnet-0123456789abcdef0"])
        role = "arn:aws:iam::111122223333:role/demo"
        cluster = eks.CfnCluster(self, "Cluster", resources_vpc_config=network, role_arn=role, version="1.36")
        eks.CfnNodegroup(
            self,
            "Resource",
            cluster_name=cluster.ref,
            node_role=role,
            subnets=["subnet-0123456789abcdef0"],
            ami_type=ami_type,
            instance_types=["g6.xlarge"],
        )


def checked_app(outdir: Path, *, ami_type: str, reason: str = "") -> cdk.App:
    app = cdk.App(outdir=str(outdir))
    stack = cdk.Stack(app, "Theirs")
    nodes = Nodes(stack, "Nodes", ami_type=ami_type)
    if reason:
        Validations.of(nodes).acknowledge(Acknowledgment(id="gpu-constructs::GPU001", reason=reason))
    check_gpus(app)
    return app


def findings(outdir: Path) -> dict[str, dict[str, Any]]:
    report = json.loads((outdir / "validation-report.json").read_text())
    [ours] = [each for each in report["pluginReports"] if each["pluginName"] == "gpu-constructs"]
    return {each["ruleName"]: each for each in ours["violations"]}


@pytest.fixture(autouse=True)
def plugins_are_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CDK_VALIDATION", raising=False)


def test_an_error_stops_the_synthesis_and_names_the_construct(tmp_path: Path) -> None:
    app = checked_app(tmp_path, ami_type="AL2023_x86_64_STANDARD")

    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()

    found = findings(tmp_path)["GPU001"]
    assert found["severity"] == "error"
    assert "g6.xlarge start from AL2023_x86_64_STANDARD" in found["description"]
    [where] = found["violatingConstructs"]
    assert where["constructPath"] == "Theirs/Nodes/Resource"


def test_an_acknowledged_error_does_not(tmp_path: Path) -> None:
    app = checked_app(tmp_path, ami_type="AL2023_x86_64_STANDARD", reason="the driver is in our AMI fork")

    app.synth()

    [finding] = [each for each in check(read_input([str(tmp_path)])).findings if each.rule.id == "GPU001"]
    assert finding.acknowledged == "the driver is in our AMI fork"


def test_notes_are_not_said_at_every_synth(tmp_path: Path) -> None:
    checked_app(tmp_path, ami_type="AL2023_x86_64_NVIDIA").synth()

    assert [each.rule.id for each in check(read_input([str(tmp_path)])).findings if each.rule.severity == "note"]
    report = tmp_path / "validation-report.json"
    assert not report.exists() or '"GPU020"' not in report.read_text()


@pytest.mark.parametrize("ami_type", ["AL2023_x86_64_NVIDIA", "AL2023_x86_64_STANDARD"])
def test_a_check_leaves_garbage_collection_as_it_was(
    ami_type: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switched: list[str] = []
    monkeypatch.setattr(gc, "isenabled", lambda: True)
    monkeypatch.setattr(gc, "disable", lambda: switched.append("off"))
    monkeypatch.setattr(gc, "enable", lambda: switched.append("on"))

    with suppress(RuntimeError):
        checked_app(tmp_path, ami_type=ami_type).synth()

    assert switched
    assert switched == ["off", "on"] * (len(switched) // 2)
