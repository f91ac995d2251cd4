"""ClusterAutoscaler runs with the right image, flags and permissions."""

from __future__ import annotations

import re
from typing import Any

import aws_cdk as cdk
import pytest
import yaml
from aws_cdk import aws_eks_v2 as eks
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import ClusterAutoscaler, ManagedNodeGroup, NodeShape, Spot
from gpu_constructs.autoscaling.cluster_autoscaler import flags
from gpu_constructs.autoscaling.cluster_autoscaler_manifests import CLUSTER_RULES, cluster_autoscaler_manifests
from gpu_constructs.nodes import ZonalNodeGroups
from tests.templates import (
    depends_on,
    manifest,
    manifests_of,
    object_id,
    of_type,
    only,
    resources_of,
    resources_under,
)


def autoscaler(stack: cdk.Stack, cluster: eks.ICluster, /, **changes: Any) -> ClusterAutoscaler:
    return ClusterAutoscaler(stack, "Autoscaler", **{"cluster": cluster, "kubernetes_version": "1.36"} | changes)


def image_of(stack: cdk.Stack) -> str:
    [container] = manifest(resources_of(stack), "Deployment")["spec"]["template"]["spec"]["containers"]
    return str(container["image"])


def test_manifests(snapshot_yaml: SnapshotAssertion) -> None:
    manifests = cluster_autoscaler_manifests(
        region="us-east-1",
        image="registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.1",
        command=flags("demo"),
    )

    assert manifests == snapshot_yaml


def test_identity(stack: cdk.Stack, cluster: eks.ICluster, snapshot_yaml: SnapshotAssertion) -> None:
    autoscaler(stack, cluster)

    assert resources_under(stack, "Autoscaler/Identity") == snapshot_yaml


@pytest.mark.parametrize("minor", ["1.33", "1.34", "1.35", "1.36"])
def test_image_has_the_minor_of_the_cluster(stack: cdk.Stack, cluster: eks.ICluster, minor: str) -> None:
    autoscaler(stack, cluster, kubernetes_version=minor)

    assert image_of(stack).startswith(f"registry.k8s.io/autoscaling/cluster-autoscaler:v{minor}.")


def test_a_created_clusters_minor_is_its_own(stack: cdk.Stack, created_cluster: eks.Cluster) -> None:
    ClusterAutoscaler(stack, "Autoscaler", cluster=created_cluster)

    assert ":v1.35." in image_of(stack)


def test_finds_groups_by_both_tags_in_one_flag() -> None:
    [discovery] = [flag for flag in flags("demo") if flag.startswith("--node-group-auto-discovery")]

    assert discovery.endswith("=asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/demo")


def test_lists_and_watches_everything_its_informers_need() -> None:
    storage = {"csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments"}
    volumes = {"persistentvolumes", "persistentvolumeclaims"}
    devices = {"deviceclasses", "resourceclaims", "resourceslices"}
    workloads = {"daemonsets", "jobs", "pods", "replicasets", "replicationcontrollers", "statefulsets"}
    others = {"namespaces", "nodes", "poddisruptionbudgets", "services"}

    for resource in storage | volumes | devices | workloads | others:
        verbs = {verb for _, names, verbs, _ in CLUSTER_RULES if resource in names.split() for verb in verbs.split()}
        assert {"list", "watch"} <= verbs, resource


def command_of(stack: cdk.Stack) -> list[str]:
    [container] = manifest(resources_of(stack), "Deployment")["spec"]["template"]["spec"]["containers"]
    return list(container["command"])


def node_group(stack: cdk.Stack, cluster: eks.ICluster, id: str, **changes: Any) -> ManagedNodeGroup:
    says = {"cluster": cluster, "name": id.lower(), "shape": NodeShape(instance_types=("g6.xlarge",)), "max_nodes": 1}
    return ManagedNodeGroup(stack, id, **says | changes)


def test_groups_are_taken_by_rank_and_the_others_last(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    spot, on_demand = node_group(stack, cluster, "Spot", capacity=Spot()), node_group(stack, cluster, "OnDemand")
    zonal = ZonalNodeGroups(
        stack,
        "Zonal",
        cluster=cluster,
        name="zonal",
        shape=NodeShape(instance_types=("g5.xlarge",)),
        max_nodes_per_zone=1,
    )
    autoscaler(stack, cluster, priorities={10: [on_demand, "^mine-"], 50: [spot], 30: [zonal]})

    assert "--expander=priority,least-waste" in command_of(stack)
    ranks = manifest(resources_of(stack), "ConfigMap")
    assert ranks["metadata"]["name"] == "cluster-autoscaler-priority-expander"
    read = yaml.safe_load(ranks["data"]["priorities"])
    assert list(read) == [50, 30, 10, 1]
    assert read[1] == [".*"]
    [first] = read[50]
    name = re.sub(r"\$\{[^}]+\}", "Spot1234-AbCdEfGh", first)
    assert re.search(name, "eks-Spot1234-AbCdEfGh-cec6c5bb-1a2b-3c4d-5e6f-001122334455")
    assert not re.search(name, "eks-Spot1234-AbCdEfGh2-cec6c5bb-1a2b-3c4d-5e6f-001122334455")
    assert read[10][1] == "^mine-"
    assert read[30][0].count("|") == 1


def test_without_ranks_the_least_waste_decides(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    autoscaler(stack, cluster)

    assert "--expander=least-waste" in command_of(stack)
    assert "ConfigMap" not in {each["kind"] for each in manifests_of(resources_of(stack))}


def test_equal_groups_are_balanced_on_request(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    autoscaler(stack, cluster, balance_similar=True)

    assert "--balance-similar-node-groups=true" in command_of(stack)
    assert "--balance-similar-node-groups=false" in flags("demo")


@pytest.mark.parametrize(("minor", "given"), [("1.34", True), ("1.35", False), ("1.36", False)])
def test_claims_are_counted_by_flag_where_the_release_needs_one(
    stack: cdk.Stack, cluster: eks.ICluster, minor: str, given: bool
) -> None:
    autoscaler(stack, cluster, kubernetes_version=minor, dynamic_resource_allocation=True)

    assert ("--enable-dynamic-resource-allocation=true" in command_of(stack)) == given


def test_claims_are_refused_where_the_api_server_knows_none(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    with pytest.raises(ValueError, match=r"dynamic_resource_allocation must be False on Kubernetes 1.33"):
        autoscaler(stack, cluster, kubernetes_version="1.33", dynamic_resource_allocation=True)


@pytest.mark.parametrize(
    ("priorities", "error", "message"),
    [
        ({}, TypeError, r"priorities must map ranks to node groups, got \{\}"),
        ([], TypeError, r"priorities must map ranks to node groups"),
        ({1: ["a"]}, ValueError, r"priorities must be at least 2, got 1; ranks are positive"),
        ({"high": ["a"]}, TypeError, r"priorities must be a whole number, got 'high'"),
        ({5: "a"}, TypeError, r"priorities\[5\] must be a list of node groups, got 'a'"),
        ({5: [7]}, TypeError, r"priorities\[5\] must contain node groups or regular expressions, got 7"),
        ({5: ["("]}, ValueError, r"priorities\[5\] must be a regular expression, got '\('"),
    ],
)
def test_refuses_ranks(
    stack: cdk.Stack, cluster: eks.ICluster, priorities: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"Test/Autoscaler: {message}"):
        autoscaler(stack, cluster, priorities=priorities)


def scale_condition(stack: cdk.Stack) -> Any:
    role = only(resources_under(stack, "Autoscaler/Identity"), "AWS::IAM::Role")
    [policy] = role["Policies"]
    [scale] = [each for each in policy["PolicyDocument"]["Statement"] if each["Sid"] == "Scale"]
    return scale["Condition"]


def test_scales_only_what_carries_both_discovery_tags(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    autoscaler(stack, cluster)

    assert scale_condition(stack) == {
        "StringEquals": {
            "aws:ResourceTag/k8s.io/cluster-autoscaler/enabled": "true",
            "aws:ResourceTag/k8s.io/cluster-autoscaler/demo": "owned",
        }
    }


def test_the_tags_can_be_others(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    autoscaler(stack, cluster, scaling_tags={"eks:cluster-name": "demo"})

    assert scale_condition(stack) == {"StringEquals": {"aws:ResourceTag/eks:cluster-name": "demo"}}


def test_a_name_known_only_at_deployment_goes_through_cfn_json(stack: cdk.Stack, created_cluster: eks.Cluster) -> None:
    ClusterAutoscaler(stack, "Autoscaler", cluster=created_cluster)

    [json_id] = of_type(resources_of(stack), "Custom::AWSCDKCfnJson")
    assert scale_condition(stack) == {"StringEquals": {"Fn::GetAtt": [json_id, "Value"]}}


def test_pods_start_after_their_role_and_stop_before_it_goes(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    autoscaler(stack, cluster)

    resources = resources_of(stack)
    account, deployment = object_id(resources, "ServiceAccount"), object_id(resources, "Deployment")
    needed = {resources[id]["Type"] for id in depends_on(resources, account)}
    assert needed == {"AWS::EKS::PodIdentityAssociation", "AWS::IAM::Role"}
    assert {account, object_id(resources, "ClusterRoleBinding")} <= depends_on(resources, deployment)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"kubernetes_version": None}, ValueError, "must be given for an imported cluster, got None; pass one of 1.33"),
        (
            {"kubernetes_version": "1.32"},
            ValueError,
            r"must be one of 1.33, 1.34, 1.35, 1.36, 1.37, got '1.32'; EKS ended its standard support on 2026-03-23",
        ),
        ({"kubernetes_version": 1.36}, TypeError, r"must be one of 1.33, .* got 1.36, a number; quote it: '1.36'"),
        ({"image": "autoscaler"}, ValueError, r"image must end in a tag"),
        (
            {"scaling_tags": {}},
            ValueError,
            "scaling_tags must name at least one tag, got none; add one, because without a condition",
        ),
        ({"scaling_tags": ["a"]}, TypeError, r"scaling_tags must map tag keys to values"),
        ({"cluster": None}, TypeError, r"Test/Autoscaler: cluster must be a GpuCluster or a cluster"),
    ],
)
def test_refuses(
    stack: cdk.Stack, cluster: eks.ICluster, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        autoscaler(stack, cluster, **changes)

    assert stack.node.find_child("Autoscaler").node.children == []


def test_refuses_a_second_autoscaler(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    autoscaler(stack, cluster)

    with pytest.raises(ValueError, match=r"Test/Again: cluster must have one cluster autoscaler, .*'Test/Autoscaler'"):
        ClusterAutoscaler(stack, "Again", cluster=cluster, kubernetes_version="1.36")


def test_refuses_another_minor_than_the_clusters(stack: cdk.Stack, created_cluster: eks.Cluster) -> None:
    with pytest.raises(
        ValueError, match=r"kubernetes_version must be the cluster's own '1.35', got '1.36'; leave it out"
    ):
        ClusterAutoscaler(stack, "Autoscaler", cluster=created_cluster, kubernetes_version="1.36")
