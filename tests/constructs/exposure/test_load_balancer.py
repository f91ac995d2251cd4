"""A deployment is exposed by a load balancer that comes after the controller and goes before it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from gpu_constructs import GpuDeployment, GpuPod, ManagedNodeGroup, NodeShape
from gpu_constructs.exposure import Internal, LoadBalancerController, Public
from gpu_constructs.installing.cluster_ref import AnyCluster
from gpu_constructs.teams import Team
from tests.clusters import imported_cluster, imported_vpc
from tests.templates import CHART, MANIFEST, depends_on, manifest, of_type, resources_of

PATCH = "Custom::AWSCDK-EKS-KubernetesPatch"


def deployment(stack: cdk.Stack, cluster: AnyCluster, id: str = "Chat", **changes: Any) -> GpuDeployment:
    """A valid exposed deployment, with ``changes`` applied."""
    pool = stack.node.try_find_child("Pool") or ManagedNodeGroup(
        stack, "Pool", cluster=cluster, name="l4", shape=NodeShape(instance_types=("g6.xlarge",)), max_nodes=2
    )
    says: dict[str, Any] = {"pool": pool, "name": id.lower(), "pod": GpuPod(image="example.com/chat:1"), "port": 8000}
    says |= {"namespace": "serve", "expose": Internal()}
    return GpuDeployment(stack, id, cluster=cluster, **says | changes)


def ids_of(resources: dict[str, Any], kind: str) -> list[str]:
    return [
        id
        for id, each in of_type(resources, MANIFEST).items()
        if isinstance(each["Properties"]["Manifest"], str)
        and any(one["kind"] == kind for one in json.loads(each["Properties"]["Manifest"]))
    ]


@pytest.mark.parametrize("controller_first", [True, False])
def test_the_load_balancer_goes_before_what_could_delete_it(
    stack: cdk.Stack, cluster: eks.ICluster, controller_first: bool
) -> None:
    steps: list[Callable[[], Construct]] = [
        lambda: LoadBalancerController(stack, "Lb", cluster=cluster),
        lambda: deployment(stack, cluster),
    ]
    for step in steps if controller_first else reversed(steps):
        step()

    resources = resources_of(stack)
    [ingress], [release], [serving] = (
        ids_of(resources, "Ingress"),
        of_type(resources, CHART),
        ids_of(resources, "Deployment"),
    )
    assert {release, serving} <= depends_on(resources, ingress)


def test_ingress_service_and_pod_agree(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    deployment(stack, cluster, health_path="/ready")

    resources = resources_of(stack)
    ingress, service = manifest(resources, "Ingress"), manifest(resources, "Service")
    assert ingress["metadata"]["namespace"] == service["metadata"]["namespace"] == "serve"
    assert ingress["spec"]["defaultBackend"]["service"] == {
        "name": service["metadata"]["name"],
        "port": {"name": service["spec"]["ports"][0]["name"]},
    }
    assert ingress["metadata"]["annotations"]["alb.ingress.kubernetes.io/healthcheck-path"] == "/ready"
    pod = manifest(resources, "Deployment")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 1230


def test_an_overlay_has_the_last_word_on_how_long_a_pod_lives(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    pod = GpuPod(image="example.com/chat:1", overlay={"terminationGracePeriodSeconds": 3600})
    deployment(stack, cluster, pod=pod)

    spec = manifest(resources_of(stack), "Deployment")["spec"]["template"]["spec"]
    assert spec["terminationGracePeriodSeconds"] == 3600


def test_pods_of_the_namespace_get_gates_once(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    for id in ("Chat", "Code"):
        deployment(stack, cluster, id)

    resources = resources_of(stack)
    [patch] = of_type(resources, PATCH).values()
    assert patch["Properties"]["ResourceName"] == "namespace/serve"
    assert json.loads(patch["Properties"]["ApplyPatchJson"]) == {
        "metadata": {"labels": {"elbv2.k8s.aws/pod-readiness-gate-inject": "enabled"}}
    }
    # A namespace that is gone would fail it.
    assert patch["DeletionPolicy"] == "Retain"


def test_files_for_argo_cd_leave_the_namespace_to_its_owner(tmp_path: Path) -> None:
    context = {"gpu-constructs:delivery": "argocd", "gpu-constructs:manifests": str(tmp_path)}
    stack = cdk.Stack(cdk.App(context=context, analytics_reporting=False), "Test")
    deployment(stack, imported_cluster(stack, imported_vpc(stack)))

    resources = resources_of(stack)
    assert of_type(resources, PATCH) == {}
    assert "kind: Ingress" in "".join(each.read_text() for each in tmp_path.rglob("*.yaml"))


def test_a_cluster_made_here_needs_the_controller(stack: cdk.Stack, created_cluster: eks.Cluster) -> None:
    deployment(stack, created_cluster)

    with pytest.raises(
        RuntimeError, match=r"Test/Chat/LoadBalancer: cluster must have a LoadBalancerController, got none"
    ):
        cdk.App.of(stack).synth()  # type: ignore[union-attr]


def test_nothing_is_exposed_by_default(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    deployment(stack, cluster, expose=None)

    resources = resources_of(stack)
    assert ids_of(resources, "Ingress") == []
    assert "lifecycle" not in json.dumps(manifest(resources, "Deployment"))


def test_a_certificate_of_another_region_is_refused_before_anything_is_made(
    stack: cdk.Stack, cluster: eks.ICluster
) -> None:
    arn = "arn:aws:acm:eu-west-1:111122223333:certificate/0a1b2c3d"

    with pytest.raises(ValueError, match=r"^Test/Chat: expose must have a certificate of region 'us-east-1'"):
        deployment(stack, cluster, expose=Public(allow=("0.0.0.0/0",), certificate_arn=arn))


@pytest.mark.parametrize("team_first", [True, False])
def test_gates_come_after_the_namespace_of_a_team(stack: cdk.Stack, cluster: eks.ICluster, team_first: bool) -> None:
    LoadBalancerController(stack, "LoadBalancers", cluster=cluster)
    if team_first:
        Team(stack, "Team", cluster=cluster, namespace="serve")
    deployment(stack, cluster)
    if not team_first:
        Team(stack, "Team", cluster=cluster, namespace="serve")

    resources = resources_of(stack)
    [gates] = of_type(resources, PATCH)
    [namespace] = ids_of(resources, "Namespace")
    assert namespace in depends_on(resources, gates)
