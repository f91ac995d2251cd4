"""Two constructs never apply one object to one cluster."""

from __future__ import annotations

import re
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from gpu_constructs.installing.cluster_ref import cluster_ref
from gpu_constructs.installing.delivery import apply_manifests
from tests.templates import MANIFEST, of_type, resources_of


def config(name: str = "one", *, kind: str = "ConfigMap", version: str = "v1", **where: str) -> dict[str, Any]:
    """An object in the namespace ``gpu``, or elsewhere."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **({"namespace": "gpu"} | where)}}


def apply(stack: cdk.Stack, cluster: eks.ICluster | eks.Cluster, id: str, *manifests: dict[str, Any]) -> None:
    """Apply objects by a construct of their own."""
    scope = Construct(stack, id)
    apply_manifests(scope, "Resource", cluster=cluster_ref("who", cluster), manifests=manifests)


def test_refuses_a_second_object_of_one_name(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    apply(stack, cluster, "First", config())

    message = (
        "Test/Second: ConfigMap must have a unique name in namespace 'gpu' of the cluster, got 'one', which belongs "
        "to 'Test/First'; rename one of them, because kubectl apply would overwrite one with the other [GPU452]"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        apply(stack, cluster, "Second", config("other"), config())

    # A rejected claim leaves nothing claimed.
    apply(stack, cluster, "Third", config("other"))


def test_refuses_another_version_of_an_object_of_the_whole_cluster(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    first, second = (
        {"apiVersion": f"karpenter.sh/{version}", "kind": "NodePool", "metadata": {"name": "l4"}}
        for version in ("v1", "v1beta1")
    )
    apply(stack, cluster, "First", first)

    with pytest.raises(ValueError, match="NodePool must have a unique name in the cluster, got 'l4', which belongs"):
        apply(stack, cluster, "Second", second)


@pytest.mark.parametrize(
    "other",
    [config("two"), config(namespace="research"), config(kind="Secret"), config(version="example.com/v1")],
    ids=["name", "namespace", "kind", "group"],
)
def test_what_differs_in_one_is_another_object(stack: cdk.Stack, cluster: eks.ICluster, other: dict[str, Any]) -> None:
    apply(stack, cluster, "First", config())
    apply(stack, cluster, "Second", other)

    assert len(of_type(resources_of(stack), MANIFEST)) == 2


def test_two_clusters_have_an_object_each(
    stack: cdk.Stack, cluster: eks.ICluster, created_cluster: eks.Cluster
) -> None:
    apply(stack, cluster, "First", config())
    apply(stack, created_cluster, "Second", config())

    assert len(of_type(resources_of(stack), MANIFEST)) == 2


def test_refuses_an_object_that_a_construct_applies_twice(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    scope, ref = Construct(stack, "One"), cluster_ref("who", cluster)
    apply_manifests(scope, "First", cluster=ref, manifests=[config()])

    with pytest.raises(ValueError, match="which belongs to 'Test/One'"):
        apply_manifests(scope, "Second", cluster=ref, manifests=[config()])


def test_names_known_only_at_deployment_are_compared_within_a_stack(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    other = cdk.Stack(cdk.App.of(stack), "Other")
    apply(stack, cluster, "First", config(f"of-{cdk.Aws.STACK_NAME}"))
    apply(other, cluster, "First", config(f"of-{cdk.Aws.STACK_NAME}"))

    with pytest.raises(ValueError, match="ConfigMap must have a unique name in the cluster"):
        apply(stack, cluster, "Second", config(f"of-{cdk.Aws.STACK_NAME}"))
