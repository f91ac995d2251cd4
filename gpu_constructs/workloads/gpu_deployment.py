"""Pods on GPUs that serve."""

from __future__ import annotations

from typing import Any

from constructs import Construct

from gpu_constructs.facts.versions import DEFAULT_KUBERNETES
from gpu_constructs.installing.cluster_ref import AnyCluster, PathOf, cluster_ref
from gpu_constructs.installing.delivery import apply_manifests
from gpu_constructs.pools.kubernetes_names import refuse_unless_object_name
from gpu_constructs.pools.pool import Pool, refuse_unless_pool
from gpu_constructs.refusals import refuse_unless_whole_number
from gpu_constructs.workloads.gpu_pod import GpuPod
from gpu_constructs.workloads.pod_claim import PodClaim, pod_claim
from gpu_constructs.workloads.pod_spec import Probes, pod_spec

_PROBE_SECONDS = 10
# A server that is busy with a long batch answers late; a restart loads the model anew.
_FAILURES_TO_RESTART = 6
# Its older spelling, for API servers that do not know the newer one.
# Source: https://github.com/kubernetes/enhancements/tree/master/keps/sig-network/3015-prefer-same-node
_PREFER_CLOSE = ("1.33",)


class GpuDeployment(Construct):
    """A Deployment on a pool, with a Service, a disruption budget, and probes that wait for a model to load.

    An update ends a pod before it starts the next, because there is no GPU to spare.

    Args:
        cluster: Cluster to run on; needs a kubectl provider.
        pool: Pool whose nodes run it.
        name: Name of the Deployment and the Service.
        pod: What each pod is.
        port: Port that it serves on.
        namespace: Existing namespace.
        replicas: Pods. Default: none stated, because a `GpuHorizontalAutoscaler` has them.
        health_path: HTTP path that answers when the model is loaded.
        startup_minutes: How long loading may take.
        same_zone: Route a client to pods in its own zone, where there are any; it suits several pods in every zone.
        kubernetes_version: Minor version of an imported cluster; only for ``same_zone``. Default: the cluster's own.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: No node of the pool can run the pod, or the cluster has no kubectl provider.

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
        same_zone: bool = False,
        kubernetes_version: str | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        refuse_unless_pool(who, pool)
        refuse_unless_object_name(who, "name", name)
        refuse_unless_object_name(who, "namespace", namespace)
        if not isinstance(pod, GpuPod):
            raise TypeError(f"{who}: pod must be a GpuPod, got {pod!r}")
        refuse_unless_whole_number(who, "port", port, least=1)
        refuse_unless_whole_number(who, "startup_minutes", startup_minutes, least=1)
        if replicas is not None:
            refuse_unless_whole_number(who, "replicas", replicas, least=0)
        if not isinstance(health_path, str) or not health_path.startswith("/"):
            raise ValueError(f"{who}: health_path must begin with '/', got {health_path!r}")
        version = ref.kubernetes_version(kubernetes_version, who=who) if same_zone else DEFAULT_KUBERNETES

        self.name, self.namespace, self.pool, self.pod = name, namespace, pool, pod
        self.replicas = replicas
        claim = pod_claim(who, pod, pool, name=name, namespace=namespace)
        manifests = deployment_manifests(
            who,
            claim=claim,
            pool=pool,
            name=name,
            pod=pod,
            port=port,
            namespace=namespace,
            replicas=replicas,
            probes=_probes(health_path, port, startup_minutes),
            traffic=traffic_distribution(version) if same_zone else None,
        )
        self.resource = apply_manifests(self, "Resource", cluster=ref, manifests=manifests)
        self.resource.node.add_dependency(pool)
        if claim is not None:
            claim.apply(self, ref, self.resource)


def traffic_distribution(kubernetes_version: str) -> str:
    """Return how a Service is told to prefer pods in the client's zone."""
    return "PreferClose" if kubernetes_version in _PREFER_CLOSE else "PreferSameZone"


def deployment_manifests(
    who: object,
    *,
    pool: Pool,
    name: str,
    pod: GpuPod,
    port: int,
    namespace: str,
    replicas: int | None,
    probes: Probes,
    traffic: str | None,
    claim: PodClaim | None,
) -> list[dict[str, Any]]:
    """Return Deployment, Service and disruption budget."""
    import cdk8s
    from cdk8s_plus_28 import k8s

    chart = cdk8s.Chart(cdk8s.App(), name)
    labels = {"app.kubernetes.io/name": name}
    selector = k8s.LabelSelector(match_labels=labels)
    metadata = k8s.ObjectMeta(name=name, namespace=namespace, labels=labels)
    one, none = k8s.IntOrString.from_number(1), k8s.IntOrString.from_number(0)
    over_zones = k8s.TopologySpreadConstraint(
        max_skew=1,
        topology_key="topology.kubernetes.io/zone",
        when_unsatisfiable="ScheduleAnyway",
        label_selector=selector,
    )
    spec = pod_spec(
        who,
        pod,
        pool,
        name=name,
        ports=[k8s.ContainerPort(name="http", container_port=port)],
        probes=probes,
        spread=[over_zones],
    )
    k8s.KubeDeployment(
        chart,
        "Deployment",
        metadata=metadata,
        spec=k8s.DeploymentSpec(
            replicas=replicas,
            selector=selector,
            strategy=k8s.DeploymentStrategy(
                type="RollingUpdate",
                rolling_update=k8s.RollingUpdateDeployment(max_surge=none, max_unavailable=one),
            ),
            template=k8s.PodTemplateSpec(metadata=k8s.ObjectMeta(labels=labels), spec=spec),
        ),
    )
    k8s.KubeService(
        chart,
        "Service",
        metadata=metadata,
        spec=k8s.ServiceSpec(
            selector=labels,
            ports=[k8s.ServicePort(name="http", port=port, target_port=k8s.IntOrString.from_string("http"))],
        ),
    )
    k8s.KubePodDisruptionBudget(
        chart,
        "PodDisruptionBudget",
        metadata=metadata,
        spec=k8s.PodDisruptionBudgetSpec(max_unavailable=one, selector=selector),
    )
    # What is newer than the typed classes, which drop even what a patch adds.
    made: dict[str, dict[str, Any]] = {each["kind"]: each for each in chart.to_json()}
    if traffic is not None:
        made["Service"]["spec"]["trafficDistribution"] = traffic
    if claim is not None:
        claim.put_on(made["Deployment"])
    return list(made.values())


def _probes(path: str, port: int, startup_minutes: int) -> Probes:
    from cdk8s_plus_28 import k8s

    ask = k8s.HttpGetAction(path=path, port=k8s.IntOrString.from_number(port))
    loading = startup_minutes * 60 // _PROBE_SECONDS
    return Probes(
        startup=k8s.Probe(http_get=ask, period_seconds=_PROBE_SECONDS, failure_threshold=loading),
        readiness=k8s.Probe(http_get=ask, period_seconds=_PROBE_SECONDS),
        liveness=k8s.Probe(http_get=ask, period_seconds=_PROBE_SECONDS, failure_threshold=_FAILURES_TO_RESTART),
    )
