"""`check` and the simulated EC2 each build a graph of the network, and both find the planted network faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.cluster import network
from gpu_rehearsal.assemblies import read
from gpu_rehearsal.aws.server import Aws
from gpu_rehearsal.cloudformation.stack import Stack
from gpu_rehearsal.cloudformation.template import bootstrap
from gpu_rehearsal.credentials import Source
from tests.rehearsal.faults.apps import ACCOUNT, P5, REGION, STACK
from tests.rehearsal.faults.assembly import CloudAssembly
from tests.rehearsal.faults.catalogue import FAULTS, faultless, planted_faults
from tools.planted import Finding, answer, check

CLUSTER = "mine"
# Faults of the nodes of the p5 group, each with its static rule where that isn't older than this test.
NETWORKS: Mapping[str, Callable[[], bool]] = {
    "private-subnets-without-route": lambda: True,
    "p5-in-isolated-subnets": lambda: True,
    "endpoint-for-an-office-only": lambda: True,
    "template-with-control-plane-group": lambda: hasattr(network, "shut_out"),
}
_CREATED = ("AWS::EC2::", "AWS::EKS::Cluster", "AWS::IAM::", "AWS::KMS::")


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> CloudAssembly:
    return faultless(tmp_path_factory.mktemp("faults"))


@pytest.fixture(scope="module")
def known(app: CloudAssembly) -> list[Finding]:
    """What `check` reports without a fault."""
    return check(app.folder)[0]


def why_unreached(folder: Path, work: Path) -> str:
    """Return why the nodes of the p5 group don't reach what they need, after only the network was created."""
    app, [assembly] = CloudAssembly(folder, STACK), read(folder, region=REGION)
    with Aws(region=REGION, account=ACCOUNT) as aws:
        bootstrap(aws)
        aws.serve_cluster(CLUSTER, endpoint="https://127.0.0.1:6443", certificate_authority=b"the authority")
        stack = Stack(
            assembly.template,
            name=STACK,
            assembly=assembly.folder,
            aws=aws,
            skip=lambda id, kind, properties: "" if kind.startswith(_CREATED) else "it isn't part of the network",
            folder=work,
        )
        events = stack.create()
        assert [each for each in events if each.status == "CREATE_FAILED"] == []
        group = app.node_group(P5)
        subnets = [stack.resources[each["Ref"]].physical.ref for each in group["Subnets"]]
        groups = _groups(aws, stack.resources[group["LaunchTemplate"]["Id"]["Ref"]].physical.ref)
        sources = (Source(name="p5", subnet=each, groups=groups) for each in subnets)
        return next((why for each in sources if (why := aws.unreachable(each, CLUSTER, "ec2", "ecr"))), "")


def _groups(aws: Aws, template: str) -> tuple[str, ...]:
    """Return the groups of a launch template, or the cluster's own one."""
    found = aws.client("ec2").describe_launch_template_versions(LaunchTemplateId=template, Versions=["$Latest"])
    data: dict[str, Any] = found["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    interfaces = data.get("NetworkInterfaces") or [{}]
    described = aws.client("eks").describe_cluster(name=CLUSTER)["cluster"]["resourcesVpcConfig"]
    return tuple(data.get("SecurityGroupIds") or interfaces[0].get("Groups") or [described["clusterSecurityGroupId"]])


def test_the_app_without_a_fault_is_reached(app: CloudAssembly, tmp_path: Path) -> None:
    assert why_unreached(app.folder, tmp_path) == ""


@pytest.mark.parametrize("id", NETWORKS)
def test_both_report_a_fault(id: str, app: CloudAssembly, known: list[Finding], tmp_path: Path) -> None:
    work = app.folder.parents[1]
    [(fault, folder)] = planted_faults(work, [id])

    assert fault.is_named_in(f"p5 {why_unreached(folder, tmp_path)}")
    if not NETWORKS[id]():
        pytest.skip(f"no static rule reports {id}")
    found = answer(FAULTS[id], *check(folder), known)
    assert found.named
