"""System nodes get the same host settings of the company as GPU nodes."""

from __future__ import annotations

import base64
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2

from gpu_constructs import GpuCluster, SystemNodes
from gpu_constructs.pools import BottlerocketSettings, Host
from tests.hosts import everything
from tests.templates import of_type, only, resources_of
from tests.user_data import parts_of


def data_of(stack: cdk.Stack, vpc: ec2.IVpc, host: Host) -> dict[str, Any]:
    GpuCluster(stack, "Gpu", vpc=vpc, system_nodes=SystemNodes(host=host))
    data: dict[str, Any] = only(resources_of(stack), "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    return data


def test_nodes_get_all_of_it(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    data = data_of(stack, vpc, everything("al2023"))

    told = base64.b64decode(data["UserData"]).decode()
    assert [kind for kind, _ in parts_of(told)] == ["application/node.eks.aws", *["text/x-shellscript"] * 2]
    assert data["MetadataOptions"]["HttpPutResponseHopLimit"] == 2
    own, extra = data["SecurityGroupIds"]
    assert "ClusterSecurityGroupId" in str(own)
    assert extra == "sg-0123456789abcdef9"


def test_without_a_host_eks_own_suffices(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    data = data_of(stack, vpc, Host())

    assert data.keys().isdisjoint({"UserData", "SecurityGroupIds"})


def test_session_manager_opens_their_role(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    data_of(stack, vpc, Host(session_manager=True))

    roles = of_type(resources_of(stack), "AWS::IAM::Role")
    assert ["NodeRole" in id for id, each in roles.items() if "AmazonSSMManagedInstanceCore" in str(each)] == [True]


def test_they_run_al2023() -> None:
    host = Host(user_data=(BottlerocketSettings(settings={"motd": "hello"}),))

    with pytest.raises(ValueError, match=r"system nodes: host must have user_data for al2023, got a BottlerocketSett"):
        SystemNodes(host=host)


def test_a_host_is_a_host() -> None:
    with pytest.raises(TypeError, match=r"system nodes: host must be a Host, got 'bastion'; write Host\("):
        SystemNodes(host="bastion")  # type: ignore[arg-type]
