"""The facts about a cluster are found where the construct tree has it, and are collected with the tree."""

from __future__ import annotations

import gc
from typing import Any, cast
from weakref import ref

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct
from jsii import _reference_map

from gpu_constructs import ClusterAutoscaler, DevicePlugin, ManagedNodeGroup, NodeShape, TimeSlicing
from gpu_constructs.installing.cluster_ref import cluster_ref
from gpu_constructs.installing.context import DELIVERY
from gpu_constructs.installing.gitops import FILES
from gpu_constructs.installing.registry import PathOf
from tests.clusters import imported_cluster, imported_vpc
from tests.conftest import FLAGS

L4 = NodeShape(instance_types=("g6.xlarge",), sharing=TimeSlicing(4))
# Everything that Python ever made, by its number: jsii cannot know whether the other side still needs it.
JSIIS_OWN = _reference_map._refs._refs


def plain_cluster(scope: Construct, id: str) -> eks.ICluster:
    """Import a cluster of which nothing but the name is known."""
    return eks.Cluster.from_cluster_attributes(scope, id, cluster_name=id.lower())


def test_a_cluster_is_known_once(cluster: eks.ICluster) -> None:
    assert cluster_ref("who", cluster) is cluster_ref("another", cluster)


def test_a_cluster_is_known_by_its_place_and_not_by_an_object_in_python(
    stack: cdk.Stack, cluster: eks.ICluster
) -> None:
    another = cast("eks.ICluster", stack.node.find_child("Cluster"))

    assert another is not cluster
    assert cluster_ref("who", another) is cluster_ref("who", cluster)


def test_what_a_stack_shares_of_a_cluster_is_a_child_of_the_stack(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    assert cluster_ref("who", cluster).shared(stack) is stack.node.try_find_child("Cluster-shared")


def test_to_be_known_takes_no_resource(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    cluster_ref("who", cluster)

    assert stack.node.try_find_child("Cluster-shared") is None


def test_another_stack_has_its_own_share(cluster: eks.ICluster) -> None:
    known = cluster_ref("who", cluster)
    other = cdk.Stack(cast("Construct", cluster.node.root), "Other")

    assert known.shared(other) is known.shared(other)
    assert known.shared(other) is not known.shared(known.stack)


def test_clusters_whose_paths_are_one_name_are_two(stack: cdk.Stack) -> None:
    deep, flat = plain_cluster(Construct(stack, "A"), "B"), plain_cluster(stack, "A-B")

    names = [cluster_ref("who", each).name for each in (deep, flat, deep)]

    assert names == ["b", "a-b", "b"]


def test_another_construct_in_its_place_is_no_share(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    Construct(stack, "Cluster-shared")

    with pytest.raises(RuntimeError, match="already a Construct with name 'Cluster-shared'"):
        cluster_ref("who", cluster).claim(PathOf(stack), "device manager", why="two advertise every GPU twice")


def in_another_stack(cluster: eks.ICluster, **env: str) -> PathOf:
    """Return the path of a construct in another stack than its cluster, which is in us-east-1 of 111122223333."""
    scope = cast("Construct", cluster.node.root)
    return PathOf(Construct(cdk.Stack(scope, "Other", env=cdk.Environment(**env)), "Who"))


@pytest.mark.parametrize("kubectl", [True, False])
def test_a_cluster_of_another_region_is_refused(cluster: eks.ICluster, kubectl: bool) -> None:
    who = in_another_stack(cluster, region="eu-west-1")

    with pytest.raises(
        ValueError,
        match=r"^Other/Who: cluster must be in the region of the construct's stack, 'eu-west-1', got 'Test/Cluster' in "
        r"'us-east-1'; create the construct in a stack of the cluster's region$",
    ):
        cluster_ref(who, cluster, kubectl=kubectl)


def test_a_cluster_of_another_account_is_refused(cluster: eks.ICluster) -> None:
    who = in_another_stack(cluster, region="us-east-1", account="444455556666")

    with pytest.raises(ValueError, match=r"account of the construct's stack, '444455556666', got .* in '111122223333'"):
        cluster_ref(who, cluster)


@pytest.mark.parametrize("env", [{}, {"region": "us-east-1"}, {"account": "111122223333"}])
def test_a_stack_that_does_not_say_where_it_is_is_taken(cluster: eks.ICluster, env: dict[str, str]) -> None:
    assert cluster_ref(in_another_stack(cluster, **env), cluster).path == "Test/Cluster"


def test_files_for_others_are_written_in_any_region() -> None:
    app = cdk.App(context=FLAGS | {DELIVERY: "argocd"}, analytics_reporting=False)
    there = plain_cluster(cdk.Stack(app, "Test", env=cdk.Environment(region="us-east-1")), "Cluster")
    who = in_another_stack(there, region="eu-west-1")

    assert cluster_ref(who, there, kubectl=True).path == "Test/Cluster"
    with pytest.raises(ValueError, match="cluster must be in the region"):
        cluster_ref(who, there)


def make(delivery: str) -> list[ref[Any]]:
    """Make an app with GPU nodes, and return the objects that only the app should reference."""
    app = cdk.App(context=FLAGS | {DELIVERY: delivery}, analytics_reporting=False)
    stack = cdk.Stack(app, "Test", env=cdk.Environment(account="111122223333", region="us-east-1"))
    vpc = imported_vpc(stack)
    cluster = imported_cluster(stack, vpc)
    DevicePlugin(stack, "Plugin", cluster=cluster)
    ClusterAutoscaler(stack, "Autoscaler", cluster=cluster, kubernetes_version="1.36")
    ManagedNodeGroup(stack, "Nodes", cluster=cluster, name="l4", shape=L4, max_nodes=2)
    subnet = vpc.private_subnets[0]
    known = cluster_ref("who", cluster)
    kept = [app, stack, cluster, subnet, known, known.shared(stack)]
    files = stack.node.try_find_child(FILES)
    return [ref(each) for each in (kept if files is None else [*kept, files])]


@pytest.mark.parametrize(("delivery", "parts"), [("kubectl", 6), ("argocd", 7)])
def test_nothing_outlives_the_app(delivery: str, parts: int) -> None:
    before = set(JSIIS_OWN)
    made = make(delivery)
    for number in JSIIS_OWN.keys() - before:
        del JSIIS_OWN[number]

    gc.collect()

    assert [each() for each in made] == [None] * parts
