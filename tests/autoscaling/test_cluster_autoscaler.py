"""ClusterAutoscaler runs with the right image, flags and permissions."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import ClusterAutoscaler
from gpu_constructs.autoscaling.cluster_autoscaler_manifests import CLUSTER_RULES, cluster_autoscaler_chart, flags
from tests.templates import MANIFEST, depends_on, manifest, of_type, only, resources_of, slice_of


def autoscaler(stack: cdk.Stack, cluster: eks.ICluster, /, **changes: Any) -> ClusterAutoscaler:
    return ClusterAutoscaler(stack, "Autoscaler", **{"cluster": cluster, "kubernetes_version": "1.36"} | changes)


def image_of(stack: cdk.Stack) -> str:
    [container] = manifest(resources_of(stack), "Deployment")["spec"]["template"]["spec"]["containers"]
    return str(container["image"])


def test_manifests(snapshot_yaml: SnapshotAssertion) -> None:
    chart = cluster_autoscaler_chart(
        cluster_name="demo", region="us-east-1", image="registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.1"
    )

    assert chart.to_json() == snapshot_yaml


def test_identity(stack: cdk.Stack, cluster: eks.ICluster, snapshot_yaml: SnapshotAssertion) -> None:
    autoscaler(stack, cluster)

    assert slice_of(resources_of(stack), "AutoscalerIdentity") == snapshot_yaml


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
        verbs = {verb for _, resources, verbs, _ in CLUSTER_RULES if resource in resources for verb in verbs}
        assert {"list", "watch"} <= verbs, resource


def scale_condition(stack: cdk.Stack) -> Any:
    role = only(slice_of(resources_of(stack), "AutoscalerIdentity"), "AWS::IAM::Role")
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
    [applied] = of_type(resources, MANIFEST)
    needed = {resources[id]["Type"] for id in depends_on(resources, applied)}
    assert needed == {"AWS::EKS::PodIdentityAssociation", "AWS::IAM::Role"}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"kubernetes_version": None}, ValueError, r"must be given for an imported cluster, got None; one of 1.33"),
        (
            {"kubernetes_version": "1.32"},
            ValueError,
            r"must be one of 1.33, 1.34, 1.35, 1.36, got '1.32'; did you mean",
        ),
        ({"kubernetes_version": 1.36}, ValueError, r"must be one of 1.33, .* got 1.36"),
        ({"image": "autoscaler"}, ValueError, r"image must end in a tag"),
        ({"scaling_tags": {}}, ValueError, r"scaling_tags must name at least one tag, got none; without a condition"),
        ({"scaling_tags": ["a"]}, TypeError, r"scaling_tags must map tag keys to values"),
        ({"cluster": None}, TypeError, r"Test/Autoscaler: cluster must be a cluster"),
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
