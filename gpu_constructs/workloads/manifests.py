"""The Kubernetes objects of workloads: Deployments, LeaderWorkerSets, Jobs and the smoke test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import cdk8s
from cdk8s_plus_28 import k8s
from constructs import Construct

from gpu_constructs.exposure.load_balancer import Exposure, configure_graceful_shutdown
from gpu_constructs.pools.pool import Pool
from gpu_constructs.workloads.gpu_pod import GpuPod, with_overlay
from gpu_constructs.workloads.placement import KaiQueue, PodClaim, unique_name
from gpu_constructs.workloads.pod_spec import DO_NOT_DISRUPT, Probes, pod_spec, typed_tolerations, with_parts
from gpu_facts.kubernetes import queued_pod
from gpu_facts.labels import (
    APP_NAME,
    EXCLUSIVE_GROUPS,
    GROUPS_NAME,
    KUEUE_PODSET_GROUP,
    KUEUE_QUEUE,
    KUEUE_TOPOLOGY,
    POOL,
    WORKER_INDEX,
    ZONE,
)

_SMOKE_TEST = "gpu-smoke-test"
# Scaling a node from zero takes about 5 minutes, a p5 or p6 up to 30.
_SMOKE_TEST_SECONDS = 2_700
_SMOKE_TEST_KEPT_SECONDS = 86_400
_SMOKE_TEST_MEMORY = "2Gi"
# Fields of a Job that may change while it runs.
# Source: kubernetes/kubernetes v1.36.3 pkg/apis/batch/validation/validation.go ValidateJobSpecUpdate
_CHANGED_IN_PLACE = ("activeDeadlineSeconds", "backoffLimit", "parallelism", "ttlSecondsAfterFinished")
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


def leader_template(
    who: object, *, pool: Pool, name: str, pod: GpuPod, command: Sequence[str], port: int, probes: Probes
) -> dict[str, Any]:
    """Return the leader pod, which answers requests. Only the leader becomes ready when the model is loaded."""
    ports = [k8s.ContainerPort(name=HTTP, container_port=port)]
    made = pod_spec(who, replace(pod, command=command), pool, name=name, ports=ports, probes=probes)
    return _group_template(who, name, pod, made)


def worker_template(who: object, *, pool: Pool, name: str, pod: GpuPod, command: Sequence[str]) -> dict[str, Any]:
    """Return the worker pods, which provide their GPUs to the leader."""
    return _group_template(who, name, pod, pod_spec(who, replace(pod, command=command), pool, name=name))


def _group_template(who: object, name: str, pod: GpuPod, made: k8s.PodSpec) -> dict[str, Any]:
    chart = cdk8s.Chart(cdk8s.App(), name)
    k8s.KubePod(chart, "Pod", spec=made)
    spec = chart.to_json()[0]["spec"]
    return {"metadata": {"labels": {APP_NAME: name}}, "spec": with_parts(who, spec, pod)}


def finish_group_template(
    who: object, template: dict[str, Any], *, pod: GpuPod, claim: PodClaim | None, expose: Exposure | None
) -> None:
    """Add fields to a template that the typed classes don't support, the overlay last.

    Workers run as long as their leader, which can't answer without them.
    """
    if expose is not None:
        configure_graceful_shutdown(template["spec"], expose)
    if claim is not None:
        claim.configure_workload({"spec": {"template": template}})
    template["spec"] = with_overlay(who, template["spec"], pod.overlay)


def queued_name(scope: Construct, name: str, *, nodes: int, templates: Sequence[dict[str, Any]], queue: str) -> str:
    """Return a name with a hash of the fields that Kueue makes immutable, so that a change creates another object."""
    return unique_name(scope, name, [queue, nodes, *(queued_pod(each["spec"]) for each in templates)])


def leader_worker_set(
    *,
    name: str,
    workload: str,
    namespace: str,
    nodes: int,
    replicas: int,
    leader: dict[str, Any],
    worker: dict[str, Any],
    queue: str | KaiQueue | None,
    topology: str | None,
) -> dict[str, Any]:
    """Return the LeaderWorkerSet. An update deletes a group before it starts the next: there are no spare nodes.

    Source: kubernetes-sigs/lws 060ab4da1 api/leaderworkerset/v1/leaderworkerset_types.go (2026-11)
    """
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "labels": {APP_NAME: workload}}
    made = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": metadata,
        "spec": {
            "replicas": replicas,
            # All pods of a group at once: a scheduler that places whole groups needs all pods.
            "startupPolicy": "LeaderCreated",
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {"maxUnavailable": 1, "maxSurge": 0},
            },
            "leaderWorkerTemplate": {
                "size": nodes,
                # The remaining pods would wait for a pod that has lost its part of the model.
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": leader,
                "workerTemplate": worker,
            },
        },
    }
    if isinstance(queue, KaiQueue):
        queue.put_on(made, leader, worker)
    elif queue is not None:
        metadata["labels"][KUEUE_QUEUE] = queue
    if topology is not None and queue is not None:
        for each in (leader, worker):
            each["metadata"]["annotations"] = {KUEUE_TOPOLOGY: topology, KUEUE_PODSET_GROUP: workload}
    elif topology is not None:
        metadata["annotations"] = {EXCLUSIVE_GROUPS: topology}
    return made


def leaders_service(*, name: str, workload: str, groups: str, namespace: str, port: int) -> dict[str, Any]:
    """Return the Service of the leaders. The controller creates a Service with the groups' own name."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "labels": {APP_NAME: workload}},
        "spec": {
            "selector": {GROUPS_NAME: groups, WORKER_INDEX: "0"},
            "ports": [{"name": HTTP, "port": port, "targetPort": HTTP}],
        },
    }


def group_disruption_budget(*, name: str, groups: str, namespace: str) -> dict[str, Any]:
    """Return the budget that allows a drain of one group at a time. The loss of a pod means the loss of its group."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace, "labels": {APP_NAME: name}},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {GROUPS_NAME: groups}}},
    }


def job_manifest(
    who: object,
    *,
    scope: Construct,
    pool: Pool,
    name: str,
    pod: GpuPod,
    namespace: str,
    queue: str | KaiQueue | None,
    limits: Mapping[str, int | None],
    claim: PodClaim | None,
    gang: bool,
) -> dict[str, Any]:
    """Return the Job without its pod's overlay. Its name contains a hash of its immutable fields."""
    chart = cdk8s.Chart(cdk8s.App(), name)
    named = {APP_NAME: name}
    spec = pod_spec(who, pod, pool, name=name, restart_policy="Never")
    template = k8s.PodTemplateSpec(metadata=k8s.ObjectMeta(labels=named, annotations=DO_NOT_DISRUPT), spec=spec)
    job = k8s.JobSpec(template=template, **limits)  # type: ignore[arg-type]
    queued = {KUEUE_QUEUE: queue} if isinstance(queue, str) else {}
    metadata = k8s.ObjectMeta(name=name, namespace=namespace, labels=named | queued)
    k8s.KubeJob(chart, "Job", metadata=metadata, spec=job)
    made: dict[str, Any]
    [made] = chart.to_json()
    made["spec"]["template"]["spec"] = with_parts(who, made["spec"]["template"]["spec"], pod)
    if claim is not None:
        claim.configure_workload(made)
    if isinstance(queue, KaiQueue):
        queue.put_on(made, made["spec"]["template"])
    if gang:
        made["spec"]["completionMode"] = "Indexed"
    overlay = {"overlay": dict(pod.overlay)} if pod.overlay else {}
    # Kueue doesn't allow a running job to change its queue.
    waits = {"queue": queue} if isinstance(queue, str) else {}
    fixed = {key: each for key, each in made["spec"].items() if key not in _CHANGED_IN_PLACE}
    made["metadata"]["name"] = unique_name(scope, name, fixed | overlay | waits)
    return made


def smoke_test_chart(
    *, scope: Construct, pool: Pool, image: str, cuda_image: str | None, namespace: str
) -> cdk8s.Chart:
    """Return the job. Its name contains a hash of its pod, because Kubernetes never changes a job's pod."""
    pod = _smoke_test_pod(pool, image, cuda_image)
    name = unique_name(scope, _SMOKE_TEST, _spec_in_yaml(pod))
    labels = {APP_NAME: _SMOKE_TEST}
    chart = cdk8s.Chart(cdk8s.App(), _SMOKE_TEST)
    k8s.KubeJob(
        chart,
        "Job",
        metadata=k8s.ObjectMeta(name=name, namespace=namespace, labels=labels),
        spec=k8s.JobSpec(
            backoff_limit=0,
            active_deadline_seconds=_SMOKE_TEST_SECONDS,
            ttl_seconds_after_finished=_SMOKE_TEST_KEPT_SECONDS,
            template=k8s.PodTemplateSpec(metadata=k8s.ObjectMeta(labels=labels), spec=pod),
        ),
    )
    return chart


def _spec_in_yaml(pod: k8s.PodSpec) -> dict[str, Any]:
    chart = cdk8s.Chart(cdk8s.App(), _SMOKE_TEST)
    k8s.KubePod(chart, "Pod", spec=pod)
    spec: dict[str, Any] = chart.to_json()[0]["spec"]
    return spec


def _smoke_test_pod(pool: Pool, image: str, cuda_image: str | None) -> k8s.PodSpec:
    # If a GPU is in partitions of several kinds, the first kind.
    resource = next(iter(pool.shape.gpu_resources(1)))
    lists = _smoke_test_container("nvidia-smi", image, resource, command=["nvidia-smi"])
    # It gets the GPU of the container before it.
    computes = _smoke_test_container("vector-add", cuda_image, resource) if cuda_image is not None else None
    return k8s.PodSpec(
        restart_policy="Never",
        automount_service_account_token=False,
        node_selector={POOL: pool.name},
        tolerations=typed_tolerations(pool),
        security_context=k8s.PodSecurityContext(seccomp_profile=k8s.SeccompProfile(type="RuntimeDefault")),
        init_containers=[lists] if computes is not None else None,
        containers=[computes if computes is not None else lists],
    )


def _smoke_test_container(name: str, image: str, resource: str, *, command: list[str] | None = None) -> k8s.Container:
    memory = "128Mi" if command else "1Gi"
    return k8s.Container(
        name=name,
        image=image,
        command=command,
        resources=k8s.ResourceRequirements(
            requests={"cpu": k8s.Quantity.from_string("100m"), "memory": k8s.Quantity.from_string(memory)},
            limits={
                resource: k8s.Quantity.from_number(1),
                # CUDA's context alone may need more than the usual request of a small container.
                "memory": k8s.Quantity.from_string(_SMOKE_TEST_MEMORY),
            },
        ),
        security_context=k8s.SecurityContext(
            allow_privilege_escalation=False, capabilities=k8s.Capabilities(drop=["ALL"])
        ),
    )
