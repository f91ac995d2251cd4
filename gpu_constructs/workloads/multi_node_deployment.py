"""A model that is served by the GPUs of several nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import aws_cdk as cdk
import cdk8s
from cdk8s_plus_28 import k8s
from constructs import Construct

from gpu_constructs.exposure.load_balancer import (
    Exposure,
    LoadBalancer,
    configure_graceful_shutdown,
    refuse_unless_exposure,
)
from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import apply_after_controller, apply_manifests
from gpu_constructs.installing.registry import Applied, PathOf
from gpu_constructs.pools.pool import Pool, refuse_unless_pool
from gpu_constructs.workloads.deployment_manifests import HTTP, http_probes
from gpu_constructs.workloads.gpu_deployment import refuse_unless_path
from gpu_constructs.workloads.gpu_pod import GpuPod
from gpu_constructs.workloads.init_container import command_words
from gpu_constructs.workloads.kai_queue import KaiQueue, apply_after_queue, refuse_unless_queue
from gpu_constructs.workloads.models import refuse_early_image_volumes
from gpu_constructs.workloads.names import unique_name
from gpu_constructs.workloads.overlay import with_overlay
from gpu_constructs.workloads.pod_spec import Probes, pod_spec, with_parts
from gpu_constructs.workloads.pool_room import PodClaim, pod_claim
from gpu_facts.charts import LEADER_WORKER_SET
from gpu_facts.kubernetes import QUALIFIED_NAME, queued_pod, refuse_unless_object_name
from gpu_facts.labels import (
    APP_NAME,
    EXCLUSIVE_GROUPS,
    GROUPS_NAME,
    KUEUE_PODSET_GROUP,
    KUEUE_QUEUE,
    KUEUE_TOPOLOGY,
    WORKER_INDEX,
)
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import INT32, refuse_unless_whole_number

# A label of pods has the name of their StatefulSet, which ends in a group's number, and a hash. A group in a queue of
# Kueue has one more hash.
_MAX_NAME = 44
_MAX_QUEUED_NAME = _MAX_NAME - len("-12345678")


def leader_template(
    who: object, *, pool: Pool, name: str, pod: GpuPod, command: Sequence[str], port: int, probes: Probes
) -> dict[str, Any]:
    """Return the pod that answers; it alone is ready when the model is."""
    ports = [k8s.ContainerPort(name=HTTP, container_port=port)]
    made = pod_spec(who, replace(pod, command=command), pool, name=name, ports=ports, probes=probes)
    return _template(who, name, pod, made)


def worker_template(who: object, *, pool: Pool, name: str, pod: GpuPod, command: Sequence[str]) -> dict[str, Any]:
    """Return the pods that lend the leader their GPUs."""
    return _template(who, name, pod, pod_spec(who, replace(pod, command=command), pool, name=name))


def _template(who: object, name: str, pod: GpuPod, made: k8s.PodSpec) -> dict[str, Any]:
    chart = cdk8s.Chart(cdk8s.App(), name)
    k8s.KubePod(chart, "Pod", spec=made)
    spec = chart.to_json()[0]["spec"]
    return {"metadata": {"labels": {APP_NAME: name}}, "spec": with_parts(who, spec, pod)}


def finish(
    who: object, template: dict[str, Any], *, pod: GpuPod, claim: PodClaim | None, expose: Exposure | None
) -> None:
    """Put into a template what the typed classes do not know, the overlay last.

    Workers live as long as their leader, which answers nothing without them.
    """
    if expose is not None:
        configure_graceful_shutdown(template["spec"], expose)
    if claim is not None:
        claim.configure_workload({"spec": {"template": template}})
    template["spec"] = with_overlay(who, template["spec"], pod.overlay)


def queued_name(scope: Construct, name: str, *, nodes: int, templates: Sequence[dict[str, Any]], queue: str) -> str:
    """Return a name with the hash of what Kueue rejects to change, so that a change of it makes another object."""
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
    """Return the LeaderWorkerSet. An update ends a group before it starts the next: there are no nodes to spare.

    Source: kubernetes-sigs/lws 060ab4da1 api/leaderworkerset/v1/leaderworkerset_types.go (2026-11)
    """
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "labels": {APP_NAME: workload}}
    made = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": metadata,
        "spec": {
            "replicas": replicas,
            # All of a group at once: a scheduler that places groups whole sees the whole of it.
            "startupPolicy": "LeaderCreated",
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {"maxUnavailable": 1, "maxSurge": 0},
            },
            "leaderWorkerTemplate": {
                "size": nodes,
                # Those that are left would wait for one that has lost its part of the model.
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


def service(*, name: str, workload: str, groups: str, namespace: str, port: int) -> dict[str, Any]:
    """Return the Service of the leaders; one of the groups' own name is their controller's."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "labels": {APP_NAME: workload}},
        "spec": {
            "selector": {GROUPS_NAME: groups, WORKER_INDEX: "0"},
            "ports": [{"name": HTTP, "port": port, "targetPort": HTTP}],
        },
    }


def disruption_budget(*, name: str, groups: str, namespace: str) -> dict[str, Any]:
    """Return the budget by which nodes are drained of one group at a time: the loss of a pod is that of its group."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace, "labels": {APP_NAME: name}},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {GROUPS_NAME: groups}}},
    }


@named_arguments
class MultiNodeDeployment(Construct):
    """Groups of pods, one on each of several nodes, that serve one model together, as LeaderWorkerSets.

    The leader of a group answers, and its workers lend it their GPUs. A pod that ends takes its group with it, which
    starts anew. An update ends a group before it starts the next, because there are no nodes to spare.

    Kueue's webhook rejects changes of a group that has a queue: its nodes, the requests, ports and pool of its pods,
    and ``queue`` itself. So the name of a LeaderWorkerSet in a queue of Kueue ends in a hash of them, and such a change
    creates new groups. They wait in the queue until the old ones are deleted, and nothing serves until they have
    loaded the model.

    Source: https://lws.sigs.k8s.io/docs/ (2026-11)

    Args:
        cluster: Cluster to run on, with `LeaderWorkerSets`; needs a kubectl provider.
        pool: Pool whose nodes run it.
        name: Name of the LeaderWorkerSet, or what it begins with in a queue of Kueue.
        pod: What each pod is, without command; it takes so many GPUs that a node has room for one.
        nodes: Nodes of a group.
        leader: Command of the leader; ``$(LWS_GROUP_SIZE)`` is the number of nodes.
        worker: Command of the workers; ``$(LWS_LEADER_ADDRESS)`` is the leader's host name, and
            ``$(LWS_WORKER_INDEX)`` the number of each, from 1.
        port: Port that leaders serve on.
        namespace: Existing namespace.
        replicas: Groups.
        health_path: HTTP path of the leader that answers when the model is loaded on all nodes.
        startup_minutes: How long loading may take.
        queue: Name of a local queue of Kueue, or what ``KaiQueues.queue(...)`` returns: the pods of a group then start
            together or not at all. A queue of the same stack is made first. Default: they start one by one.
        topology: Node label within one value of which a group stays, such as a zone's or a part of the network's. With
            a queue of Kueue it is one of the ``topology_levels`` of `GpuQueues`; without a queue each value takes one
            group. Default: any nodes of the pool.
        expose: Clients outside the cluster that reach the leaders through a load balancer, `Internal` or `Public`.
            Default: pods of the cluster only.
        kubernetes_version: Minor version of an imported cluster; only for images as volumes.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: No node of the pool can run the pod, several fit on one, the pool has fewer nodes than there are
            pods, KAI Scheduler is to keep a topology, or the cluster has no kubectl provider; and, when the CDK
            synthesizes, the cluster has no `LeaderWorkerSets`, or none that makes its load balancer.

    Attributes:
        name: Name of the LeaderWorkerSet.
        service: Name of the Service of its leaders.
        namespace: Their namespace.
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
        nodes: int,
        leader: Sequence[str],
        worker: Sequence[str],
        port: int,
        namespace: str = "default",
        replicas: int = 1,
        health_path: str = "/health",
        startup_minutes: int = 60,
        queue: str | KaiQueue | None = None,
        topology: str | None = None,
        expose: Exposure | None = None,
        kubernetes_version: str | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        refuse_unless_pool(who, pool)
        _refuse_unless_name(who, name, queue)
        refuse_unless_object_name(who, "namespace", namespace)
        _refuse_unless_numbers(who, nodes=nodes, replicas=replicas, port=port, startup_minutes=startup_minutes)
        _refuse_unless_pod(who, pod, pool, nodes, replicas)
        commands = {
            "leader": command_words(str(who), "leader", leader),
            "worker": command_words(str(who), "worker", worker),
        }
        _refuse_without_commands(who, commands)
        refuse_unless_path(who, health_path)
        refuse_unless_queue(who, queue)
        _refuse_unless_topology(who, topology, queue)
        refuse_unless_exposure(who, expose, region=cdk.Stack.of(self).region, ipv6=ref.ip_family == "ipv6")

        self.name, self.namespace, self.service = name, namespace, f"{name}-leader"
        refuse_early_image_volumes(who, pod, ref, kubernetes_version)
        claim = pod_claim(who, pod, pool, name=name, namespace=namespace)
        probes = http_probes(health_path, port, startup_minutes)
        leads = leader_template(
            who, pool=pool, name=name, pod=pod, command=commands["leader"], port=port, probes=probes
        )
        works = worker_template(who, pool=pool, name=name, pod=pod, command=commands["worker"])
        for template in (leads, works):
            finish(who, template, pod=pod, claim=claim, expose=expose)
        if isinstance(queue, str):
            self.name = queued_name(self, name, nodes=nodes, templates=(leads, works), queue=queue)
        groups = leader_worker_set(
            name=self.name,
            workload=name,
            namespace=namespace,
            nodes=nodes,
            replicas=replicas,
            leader=leads,
            worker=works,
            queue=queue,
            topology=topology,
        )
        self.resource = apply_manifests(self, "Resource", cluster=ref, manifests=[groups])
        beside = [
            service(name=self.service, workload=name, groups=self.name, namespace=namespace, port=port),
            disruption_budget(name=name, groups=self.name, namespace=namespace),
        ]
        served = apply_manifests(self, "Service", cluster=ref, manifests=beside)
        self.resource.node.add_dependency(pool)
        apply_after_controller(self.resource, cluster=ref, chart=LEADER_WORKER_SET, kind="LeaderWorkerSets")
        apply_after_queue(Applied(self.resource, [groups]), cluster=ref, namespace=namespace, queue=queue)
        if claim is not None:
            claim.apply(self, ref, self.resource)
        if expose is not None:
            exposed = LoadBalancer(
                self,
                "LoadBalancer",
                cluster=ref,
                name=name,
                service=self.service,
                namespace=namespace,
                port=HTTP,
                health_path=health_path,
                expose=expose,
                workload=self.resource,
            )
            exposed.node.add_dependency(served)


def _refuse_unless_name(who: object, name: object, queue: object) -> None:
    refuse_unless_object_name(who, "name", name)
    text, most = str(name), _MAX_QUEUED_NAME if isinstance(queue, str) else _MAX_NAME
    if text[0].isdigit() or len(text) > most:
        raise ValueError(f"{who}: name must begin with a letter and be at most {most} characters, got {name!r}")


def _refuse_unless_numbers(
    who: object, *, nodes: object, replicas: object, port: object, startup_minutes: object
) -> None:
    refuse_unless_whole_number(who, "nodes", nodes, least=2, fix="one node is a GpuDeployment")
    refuse_unless_whole_number(who, "replicas", replicas, least=0)
    refuse_unless_whole_number(who, "port", port, least=1, most=65535)
    refuse_unless_whole_number(who, "startup_minutes", startup_minutes, least=1, most=INT32 // 60)


def _refuse_unless_pod(who: object, pod: object, pool: Pool, nodes: int, replicas: int) -> None:
    if not isinstance(pod, GpuPod):
        raise TypeError(f"{who}: pod must be a GpuPod, got {pod!r}")
    for argument in ("command", "args"):
        if said := getattr(pod, argument):
            raise ValueError(f"{who}: pod must have no {argument}, got {said!r}; write leader and worker")
    per_node = pod.per_node(who, pool.shape)
    if per_node > 1:
        raise ValueError(
            f"{who}: pod must have so many GPUs that a node takes one pod, got {pod.gpus}, and {per_node} pods fit "
            f"on one; write gpus={pod.gpus * per_node}"
        )
    if isinstance(pool.max_nodes, int) and nodes * replicas > pool.max_nodes:
        raise ValueError(
            f"{who}: nodes times replicas must be at most the {pool.max_nodes} nodes of pool {pool.name!r}, got "
            f"{nodes} times {replicas}; a group that is not whole holds its GPUs for nothing"
        )


def _refuse_without_commands(who: object, commands: dict[str, tuple[str, ...]]) -> None:
    for argument, said in commands.items():
        if not said:
            raise ValueError(f"{who}: {argument} must be a command, got ()")


def _refuse_unless_topology(who: object, topology: object, queue: object) -> None:
    if topology is None:
        return
    if not isinstance(topology, str) or not QUALIFIED_NAME.fullmatch(topology):
        raise ValueError(
            f"{who}: topology must be a label of nodes such as 'topology.kubernetes.io/zone', got {topology!r}"
        )
    if isinstance(queue, KaiQueue):
        raise ValueError(
            f"{who}: topology must be left out with a queue of KAI Scheduler, got {topology!r}; it places groups by "
            "Topology objects of its own, which are not made here"
        )
