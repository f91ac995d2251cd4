"""The Kubernetes objects of serving pods."""

from __future__ import annotations

from typing import Any

import cdk8s
from cdk8s_plus_28 import k8s

from gpu_constructs.exposure.load_balancer import Exposure, configure_graceful_shutdown
from gpu_constructs.pools.pool import Pool
from gpu_constructs.workloads.gpu_pod import GpuPod
from gpu_constructs.workloads.overlay import with_overlay
from gpu_constructs.workloads.pod_spec import Probes, pod_spec, with_parts
from gpu_constructs.workloads.pool_room import PodClaim
from gpu_facts.labels import APP_NAME, ZONE

# Name of the port of the container and the Service.
HTTP = "http"
_PROBE_SECONDS = 10
# A server that is busy with a long batch answers late, and a restart would load the model again.
_FAILURES_TO_RESTART = 6


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
    expose: Exposure | None,
) -> list[dict[str, Any]]:
    """Return the Deployment, the Service and the disruption budget."""
    chart = cdk8s.Chart(cdk8s.App(), name)
    labels = {APP_NAME: name}
    selector = k8s.LabelSelector(match_labels=labels)
    metadata = k8s.ObjectMeta(name=name, namespace=namespace, labels=labels)
    one, none = k8s.IntOrString.from_number(1), k8s.IntOrString.from_number(0)
    over_zones = k8s.TopologySpreadConstraint(
        max_skew=1,
        topology_key=ZONE,
        when_unsatisfiable="ScheduleAnyway",
        label_selector=selector,
    )
    spec = pod_spec(
        who,
        pod,
        pool,
        name=name,
        ports=[k8s.ContainerPort(name=HTTP, container_port=port)],
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
            ports=[k8s.ServicePort(name=HTTP, port=port, target_port=k8s.IntOrString.from_string(HTTP))],
        ),
    )
    k8s.KubePodDisruptionBudget(
        chart,
        "PodDisruptionBudget",
        metadata=metadata,
        spec=k8s.PodDisruptionBudgetSpec(max_unavailable=one, selector=selector),
    )
    # Fields that are newer than the typed classes. Those drop even fields that a patch adds.
    made: dict[str, dict[str, Any]] = {each["kind"]: each for each in chart.to_json()}
    template = made["Deployment"]["spec"]["template"]
    template["spec"] = with_parts(who, template["spec"], pod)
    if expose is not None:
        configure_graceful_shutdown(template["spec"], expose)
    if traffic is not None:
        made["Service"]["spec"]["trafficDistribution"] = traffic
    if claim is not None:
        claim.configure_workload(made["Deployment"])
    template["spec"] = with_overlay(who, template["spec"], pod.overlay)
    return list(made.values())


def http_probes(path: str, port: int, startup_minutes: int) -> Probes:
    """Return probes of an HTTP path that answers when the model is loaded."""
    ask = k8s.HttpGetAction(path=path, port=k8s.IntOrString.from_number(port))
    loading = startup_minutes * 60 // _PROBE_SECONDS
    return Probes(
        startup=k8s.Probe(http_get=ask, period_seconds=_PROBE_SECONDS, failure_threshold=loading),
        readiness=k8s.Probe(http_get=ask, period_seconds=_PROBE_SECONDS),
        liveness=k8s.Probe(http_get=ask, period_seconds=_PROBE_SECONDS, failure_threshold=_FAILURES_TO_RESTART),
    )
