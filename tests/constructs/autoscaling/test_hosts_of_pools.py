"""Pools of Karpenter and Auto Mode give machines what the host of their shape says, or refuse it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam

from gpu_constructs import AutoModeNodePool, Karpenter, KarpenterNodePool, NodeShape, UpTo
from gpu_constructs.pools import Host, ShellScript
from tests.schemas import validate_custom
from tests.templates import manifest, of_type, resources_of

EXTRA = "sg-0123456789abcdef9"


def shape(**host: Any) -> NodeShape:
    return NodeShape(instance_types=("g6.xlarge",), host=Host(**host))


def karpenter_pool(stack: cdk.Stack, cluster: eks.ICluster, shape: NodeShape, **changes: Any) -> KarpenterNodePool:
    if "karpenter" not in changes and "node_role" not in changes:
        changes["node_role"] = iam.Role.from_role_name(stack, "Nodes", "karpenter-nodes")
    return KarpenterNodePool(stack, "Pool", cluster=cluster, name="l4", shape=shape, size=UpTo(gpus=8), **changes)


def auto_mode_pool(stack: cdk.Stack, cluster: eks.ICluster, shape: NodeShape, **changes: Any) -> AutoModeNodePool:
    return AutoModeNodePool(stack, "Pool", cluster=cluster, name="l4", shape=shape, size=UpTo(gpus=8), **changes)


@pytest.mark.parametrize(("make", "kind"), [(karpenter_pool, "EC2NodeClass"), (auto_mode_pool, "NodeClass")])
@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (None, "sg-0123456789abcdef0"),
        (["sg-0123456789abcdef1"], "sg-0123456789abcdef1"),
    ],
)
def test_groups_are_added_to_the_groups_of_the_pool(
    stack: cdk.Stack, cluster: eks.ICluster, make: Any, kind: str, said: list[str] | None, kept: str
) -> None:
    make(stack, cluster, shape(security_group_ids=(EXTRA,)), security_group_ids=said)

    terms = manifest(resources_of(stack), kind)["spec"]["securityGroupSelectorTerms"]
    assert terms == [{"id": kept}, {"id": EXTRA}]


def test_a_group_is_named_once(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    karpenter_pool(stack, cluster, shape(security_group_ids=(EXTRA,)), security_group_ids=[EXTRA])

    spec = manifest(resources_of(stack), "EC2NodeClass")["spec"]
    assert spec["securityGroupSelectorTerms"] == [{"id": EXTRA}]


def test_two_hops_are_valid_for_the_definition(stack: cdk.Stack, cluster: eks.ICluster, crds: Path) -> None:
    karpenter_pool(stack, cluster, shape(metadata_hop_limit=2))

    made = manifest(resources_of(stack), "EC2NodeClass")
    assert made["spec"]["metadataOptions"]["httpPutResponseHopLimit"] == 2
    validate_custom(made, crds)


def test_session_manager_opens_the_role_of_karpenters_nodes(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    karpenter = Karpenter(stack, "Karpenter", cluster=cluster)
    karpenter_pool(stack, cluster, shape(session_manager=True), karpenter=karpenter)

    roles = of_type(resources_of(stack), "AWS::IAM::Role")
    [role] = [each for id, each in roles.items() if id.startswith("NodeRoleKarpenter")]
    assert "AmazonSSMManagedInstanceCore" in str(role["Properties"]["ManagedPolicyArns"])


@pytest.mark.parametrize("given_to", ["pool", "karpenter"])
def test_a_given_role_is_opened_by_its_owner(stack: cdk.Stack, cluster: eks.ICluster, given_to: str) -> None:
    role = iam.Role.from_role_name(stack, "Mine", "mine")
    karpenter = Karpenter(stack, "Karpenter", cluster=cluster, node_role=role if given_to == "karpenter" else None)
    of_pool = {"node_role": role} if given_to == "pool" else {}

    with pytest.raises(ValueError, match=r"Test/Pool: shape must be without host.session_manager if you pass the role"):
        karpenter_pool(stack, cluster, shape(session_manager=True), karpenter=karpenter, **of_pool)


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ({"metadata_hop_limit": 2}, "host.metadata_hop_limit, got 2"),
        ({"session_manager": True}, "host.session_manager"),
        ({"user_data": (ShellScript(text="#!/bin/sh"),)}, "host.user_data"),
        ({"registry_mirrors": {"docker.io": "https://a"}}, "host.registry_mirrors"),
    ],
)
def test_auto_mode_refuses_what_its_nodes_have_not(
    stack: cdk.Stack, cluster: eks.ICluster, host: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=f"Test/Pool: shape must be without {said}.*Auto Mode doesn't support it"):
        auto_mode_pool(stack, cluster, shape(**host))
