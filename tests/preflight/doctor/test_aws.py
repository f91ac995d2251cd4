"""Doctor asks AWS about node groups only, and lists what it couldn't ask. Moto answers as AWS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from gpu_facts.doctor_reads import CALLS, Call
from gpu_preflight.doctor.aws import Aws, is_needed
from gpu_preflight.doctor.dump import Dump

pytest.importorskip("moto", reason="moto isn't installed")
from botocore.exceptions import ConnectTimeoutError

PROGRAM = {"command": "aws", "args": ["--region", "us-west-2", "eks", "get-token", "--cluster-name", "prod"]}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the endpoint of a cluster with a node group."""
    from botocore.session import Session
    from moto import mock_aws

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    ask = Aws._ask

    def without_what_moto_lacks(self: Aws, call: Call, each: str = "") -> None:
        with suppress(NotImplementedError):
            ask(self, call, each)

    monkeypatch.setattr(Aws, "_ask", without_what_moto_lacks)
    with mock_aws():
        session = Session()
        ec2, eks = (session.create_client(name, region_name="us-west-2") for name in ("ec2", "eks"))
        vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.1.0/24")["Subnet"]["SubnetId"]
        role = "arn:aws:iam::123456789012:role/nodes"
        made = eks.create_cluster(name="prod", roleArn=role, resourcesVpcConfig={"subnetIds": [subnet]})
        eks.create_nodegroup(
            clusterName="prod", nodegroupName="gpu", nodeRole=role, subnets=[subnet], instanceTypes=["g6.xlarge"]
        )
        yield made["cluster"]["endpoint"]


def collected(server: str, program: dict[str, Any] = PROGRAM) -> tuple[Aws, Dump]:
    """Return what was read."""
    aws, dump = Aws(program), Dump()
    aws.collect(server)
    aws.extend_dump(dump)
    return aws, dump


def test_node_groups_and_subnets_of_the_cluster_are_read(server: str) -> None:
    _, dump = collected(server)
    assert [answer["nodegroupName"] for _, answer in dump.aws["nodegroup"]] == ["gpu"]
    assert dump.aws["cluster"][0][1]["name"] == "prod"
    assert "Activities" not in dump.aws or dump.aws["AutoScalingGroups"]


def test_a_call_that_fails_is_not_looked_at(server: str) -> None:
    _, dump = collected(server)
    assert "aws service-quotas get-service-quota" in {each.what for each in dump.refused}


def test_another_endpoint_reads_nothing_else(server: str) -> None:
    aws, dump = collected("https://other.example")
    assert not aws.answers
    assert [each.what for each in dump.refused] == ["aws"]
    assert "another endpoint than the context, https://other.example" in dump.refused[0].why


def test_a_context_without_the_aws_program_is_listed() -> None:
    _, dump = collected("https://x", {})
    assert "the cluster's name isn't known" in dump.refused[0].why


def test_without_credentials_the_first_call_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    _, dump = collected("https://x")
    assert [(each.what, each.why) for each in dump.refused] == [
        ("aws eks describe-cluster", "Unable to locate credentials")
    ]


def test_aws_is_asked_only_for_a_pod_without_a_node_or_a_node_that_is_not_ready() -> None:
    assert not is_needed(Dump())


class _Pages:
    """A client of AWS whose lists have two pages, and whose autoscaling can't be reached."""

    def __init__(self, service: str, calls: list[str]) -> None:
        self.service, self.calls = service, calls

    def can_paginate(self, operation: str) -> bool:
        """Whether it is a list."""
        return operation.startswith("list_") or self.service in ("autoscaling", "ec2")

    def get_paginator(self, operation: str) -> Any:
        """Return an object that joins the pages."""
        self.calls.append(operation)
        if self.service == "ec2":
            raise ConnectTimeoutError(endpoint_url="https://ec2.example")
        answers: dict[str, dict[str, Any]] = {
            "list_nodegroups": {"nodegroups": ["gpu", "system"]},
            "list_access_entries": {"accessEntries": ["a", "b"]},
            "describe_auto_scaling_groups": {"AutoScalingGroups": [{"AutoScalingGroupName": "team/gpu"}]},
        }

        class Paginator:
            def paginate(self, **_: Any) -> Any:
                return self

            def build_full_result(self) -> dict[str, Any]:
                return answers.get(operation, {"Activities": []})

        return Paginator()

    def describe_cluster(self, name: str) -> dict[str, Any]:
        """Return the cluster."""
        return {"cluster": {"name": name, "endpoint": "https://x", "resourcesVpcConfig": {"vpcId": "vpc-1"}}}

    def describe_nodegroup(self, clusterName: str, nodegroupName: str) -> dict[str, Any]:
        """Return a node group."""
        return {"nodegroup": {"nodegroupName": nodegroupName, "clusterName": clusterName}}

    def get_service_quota(self, **_: str) -> dict[str, Any]:
        """Return a quota with a field that may hold a secret."""
        return {"Quota": {"Value": 1.0, "UserData": "secret"}}


def test_all_pages_are_read_and_a_service_that_does_not_answer_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(Aws, "_client", lambda self, service: _Pages(service, calls))
    aws, dump = collected("https://x")
    assert [answer["nodegroupName"] for _, answer in dump.aws["nodegroup"]] == ["gpu", "system"]
    assert dump.aws["accessEntries"][0][1] == ["a", "b"]
    assert "aws-activities-team_gpu" in aws.answers
    assert calls.count("describe_instances") == 1
    assert "describe_subnets" not in calls
    missed = {each.what for each in dump.refused}
    assert missed == {f"aws {each.command}" for each in CALLS if each.command.startswith("ec2")}
    assert all("https://ec2.example" in each.why for each in dump.refused)
    assert "secret" not in str(aws.answers)


def test_a_cluster_without_an_endpoint_is_not_called_that_of_the_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Aws, "_client", lambda self, service: _Pages(service, []))
    monkeypatch.setattr(_Pages, "describe_cluster", lambda self, name: {"cluster": {"name": name}})
    aws, dump = collected("https://x")
    assert not aws.answers
    assert "has another endpoint than the context" in dump.refused[0].why
