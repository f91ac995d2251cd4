"""The Kubernetes objects of pod groups that serve one model together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import cdk8s
from cdk8s_plus_28 import k8s
from constructs import Construct

from gpu_constructs.exposure.load_balancer import Exposure, configure_graceful_shutdown
from gpu_constructs.pools.pool import Pool
from gpu_constructs.workloads.deployment_manifests import HTTP
from gpu_constructs.workloads.gpu_pod import GpuPod
from gpu_constructs.workloads.kai_queue import KaiQueue
from gpu_constructs.workloads.names import unique_name
from gpu_constructs.workloads.overlay import with_overlay
from gpu_constructs.workloads.pod_spec import Probes, pod_spec, with_parts
from gpu_constructs.workloads.pool_room import PodClaim
from gpu_facts.kubernetes import queued_pod
from gpu_facts.labels import (
    APP_NAME,
    EXCLUSIVE_GROUPS,
    GROUPS_NAME,
    KUEUE_PODSET_GROUP,
    KUEUE_QUEUE,
    KUEUE_TOPOLOGY,
    WORKER_INDEX,
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
