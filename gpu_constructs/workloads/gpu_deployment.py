"""Serving pods on GPUs."""

from __future__ import annotations

import re

import aws_cdk as cdk
from constructs import Construct

from gpu_constructs.exposure.load_balancer import Exposure, LoadBalancer, refuse_unless_exposure
from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import apply_manifests
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.pools.pool import Pool, refuse_unless_pool
from gpu_constructs.workloads.gpu_pod import GpuPod
from gpu_constructs.workloads.model_files import Place
from gpu_constructs.workloads.models import Model, refuse_early_image_volumes, with_model
from gpu_constructs.workloads.placement import pod_claim, refuse_early_number, refuse_more_pods_than_room
from gpu_facts.kubernetes import refuse_unless_object_name
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import INT32, refuse_unless_bool, refuse_unless_whole_number
from gpu_facts.versions import DEFAULT_KUBERNETES

# The older name of the value, for API servers that don't support the newer one.
# Source: https://github.com/kubernetes/enhancements/tree/master/keps/sig-network/3015-prefer-same-node
_PREFER_CLOSE = ("1.33",)
_PATH = re.compile(r"/[!-~]*")


@named_arguments
class GpuDeployment(Construct):
    """A Deployment on a pool, with a Service, a disruption budget, and probes that wait for a model to load.

    An update deletes a pod before it starts the next, because there is no spare GPU.

    Args:
        cluster: Cluster to run on. It needs a kubectl provider.
        pool: Pool whose nodes run it.
        name: Name of the Deployment and the Service.
        pod: Spec of each pod.
        port: Port of the server.
        namespace: Existing namespace.
        replicas: Number of pods. Default: not set, so that a `GpuHorizontalAutoscaler` can set it.
        health_path: HTTP path that answers when the model is loaded.
        startup_minutes: Max time to load the model.
        expose: Clients outside the cluster that may connect through a load balancer, `Internal` or `Public`.
            `LoadBalancerController` creates it. An update then waits until the load balancer sends requests to a new
            pod, and a terminating pod first finishes its answers. Default: only pods of the cluster may connect.
        same_zone: Route a client to pods in its own zone, if there are any. It is useful with several pods in every
            zone.
        kubernetes_version: Minor version of an imported cluster. It is needed only for ``same_zone``, image volumes,
            and a name that begins with a digit. Default: the cluster's own.
        model: Model to serve, and its delivery: `CopiedModel`, `MountedModel`, `StreamedModel`, `ImageModel`,
            `HubModel`. Pass ``model.location`` to the server in the pod's ``args``. Default: the pod gets its model
            itself.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: No node of the pool can run the pod, or the cluster has no kubectl provider. At synth, the CDK
            reports an exposed Deployment in a cluster without `LoadBalancerController`.

    Attributes:
        name: Name of the Deployment.
        namespace: Its namespace.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        pool: Pool,
        name: str,
        pod: GpuPod,
        port: int,
        namespace: str = "default",
        replicas: int | None = None,
        health_path: str = "/health",
        startup_minutes: int = 20,
        expose: Exposure | None = None,
        same_zone: bool = False,
        kubernetes_version: str | None = None,
        model: Model | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        refuse_unless_pool(who, pool)
        refuse_unless_object_name(who, "name", name)
        refuse_unless_object_name(who, "namespace", namespace)
        if not isinstance(pod, GpuPod):
            raise TypeError(f"{who}: pod must be a GpuPod, got {pod!r}; write GpuPod(image=..., gpus=...)")
        refuse_unless_whole_number(who, "port", port, least=1, most=65535)
        refuse_unless_whole_number(who, "startup_minutes", startup_minutes, least=1, most=INT32 // 60)
        refuse_unless_bool(who, "same_zone", same_zone)
        refuse_unless_exposure(who, expose, region=cdk.Stack.of(self).region, ipv6=ref.ip_family == "ipv6")
        if replicas is not None:
            refuse_unless_whole_number(who, "replicas", replicas, least=0)
        refuse_unless_path(who, health_path)
        version = ref.kubernetes_version(kubernetes_version, who=who) if same_zone else DEFAULT_KUBERNETES
        refuse_early_number(who, name, kubernetes_version or ref.stated_version)
        place = Place(scope=self, who=who, cluster=ref, name=name, namespace=namespace, pod=pod, shape=pool.shape)
        brought = with_model(place, model)
        pod = brought.pod
        refuse_early_image_volumes(who, pod, ref, kubernetes_version)

        self.name, self.namespace, self.pool, self.pod = name, namespace, pool, pod
        self.replicas = replicas
        claim = pod_claim(who, pod, pool, name=name, namespace=namespace)
        # Imported here because cdk8s takes a second to load.
        from gpu_constructs.workloads.manifests import HTTP, deployment_manifests, http_probes

        manifests = deployment_manifests(
            who,
            claim=claim,
            pool=pool,
            name=name,
            pod=pod,
            port=port,
            namespace=namespace,
            replicas=replicas,
            probes=http_probes(health_path, port, startup_minutes),
            traffic=traffic_distribution(version) if same_zone else None,
            expose=expose,
        )
        if replicas is not None:
            raise_it = "raise the pool's size, or run fewer pods"
            refuse_more_pods_than_room(who, "replicas", replicas, pod, pool, fix=raise_it)
        self.resource = apply_manifests(self, "Resource", cluster=ref, manifests=manifests)
        self.resource.node.add_dependency(pool, *brought.needs)
        if claim is not None:
            claim.apply(self, ref, self.resource)
        if expose is not None:
            LoadBalancer(
                self,
                "LoadBalancer",
                cluster=ref,
                name=name,
                service=name,
                namespace=namespace,
                port=HTTP,
                health_path=health_path,
                expose=expose,
                workload=self.resource,
            )


def refuse_unless_path(who: object, health_path: object) -> None:
    """Reject a value that isn't a path for health checks.

    Raises:
        ValueError: The value isn't a path.
    """
    if not isinstance(health_path, str) or not _PATH.fullmatch(health_path):
        raise ValueError(
            f"{who}: health_path must begin with '/' and have no spaces, got {health_path!r}; write '/health'"
        )


def traffic_distribution(kubernetes_version: str) -> str:
    """Return the value with which a Service prefers pods in the client's zone."""
    return "PreferClose" if kubernetes_version in _PREFER_CLOSE else "PreferSameZone"
