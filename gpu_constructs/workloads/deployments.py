"""Pods that serve on GPUs: each on one node, or in groups over several nodes."""

from __future__ import annotations

import re
from collections.abc import Sequence

import aws_cdk as cdk
from constructs import Construct

from gpu_constructs.exposure.load_balancer import Exposure, LoadBalancer, refuse_unless_exposure
from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import apply_after_controller, apply_manifests
from gpu_constructs.installing.registry import Applied, PathOf
from gpu_constructs.pools.pool import Pool, refuse_unless_pool
from gpu_constructs.workloads.gpu_pod import GpuPod
from gpu_constructs.workloads.init_container import command_words
from gpu_constructs.workloads.model_files import Place
from gpu_constructs.workloads.models import Model, refuse_early_image_volumes, with_model
from gpu_constructs.workloads.placement import (
    KaiQueue,
    apply_after_queue,
    pod_claim,
    refuse_early_number,
    refuse_more_pods_than_room,
    refuse_unless_queue,
)
from gpu_facts.charts import LEADER_WORKER_SET
from gpu_facts.kubernetes import QUALIFIED_NAME, refuse_unless_object_name
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import INT32, refuse_unless_bool, refuse_unless_whole_number
from gpu_facts.versions import DEFAULT_KUBERNETES

# The older name of the value, for API servers that don't support the newer one.
# Source: https://github.com/kubernetes/enhancements/tree/master/keps/sig-network/3015-prefer-same-node
_PREFER_CLOSE = ("1.33",)
_PATH = re.compile(r"/[!-~]*")
# A label of pods contains the name of their StatefulSet, which ends with a group's number, and a hash. A group in a
# queue of Kueue has another hash.
_MAX_NAME = 44
_MAX_QUEUED_NAME = _MAX_NAME - len("-12345678")


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
        _refuse_unless_path(who, health_path)
        version = ref.kubernetes_version(kubernetes_version, who=who) if same_zone else DEFAULT_KUBERNETES
        refuse_early_number(who, name, kubernetes_version or ref.stated_version)
        place = Place(scope=self, who=who, cluster=ref, name=name, namespace=namespace, pod=pod, shape=pool.shape)
        brought = with_model(place, model)
        pod = brought.pod
        refuse_early_image_volumes(who, pod, ref, kubernetes_version)

        self.name, self.namespace, self.pool, self.pod = name, namespace, pool, pod
        self.replicas = replicas
        claim = pod_claim(who, pod, pool, name=name, namespace=namespace)
        # Imported here because cdk8s-plus takes a quarter of a second to load.
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


def _refuse_unless_path(who: object, health_path: object) -> None:
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


@named_arguments
class MultiNodeDeployment(Construct):
    """Groups of pods, one on each of several nodes, that serve one model together, as LeaderWorkerSets.

    The leader of a group answers requests, and its workers provide their GPUs. If a pod ends, the controller restarts
    the whole group. An update deletes a group before it starts the next, because there are no spare nodes.

    Kueue's webhook rejects changes of a group that has a queue: its nodes, the requests, ports and pool of its pods,
    and ``queue`` itself. So the name of a LeaderWorkerSet in a queue of Kueue ends with a hash of them, and such a
    change creates new groups. They wait in the queue until the old ones are deleted, and no group serves until the new
    ones have loaded the model.

    Source: https://lws.sigs.k8s.io/docs/ (2026-11)

    Args:
        cluster: Cluster to run on, with `LeaderWorkerSets`. It needs a kubectl provider.
        pool: Pool whose nodes run it.
        name: Name of the LeaderWorkerSet, or its prefix in a queue of Kueue.
        pod: Spec of each pod, without command. It must use so many GPUs that a node has room for only one.
        nodes: Number of nodes of a group.
        leader: Command of the leader; ``$(LWS_GROUP_SIZE)`` is the number of nodes.
        worker: Command of the workers; ``$(LWS_LEADER_ADDRESS)`` is the leader's host name, and
            ``$(LWS_WORKER_INDEX)`` the number of each, from 1.
        port: Port of the leaders.
        namespace: Existing namespace.
        replicas: Number of groups.
        health_path: HTTP path of the leader that answers when the model is loaded on all nodes.
        startup_minutes: Max time to load the model.
        queue: Name of a local queue of Kueue, or the value of ``KaiQueues.queue(...)``. The pods of a group then start
            together or not at all. A queue of the same stack is created first. Default: they start one by one.
        topology: Node label whose value is the same for all nodes of a group, such as a zone or a part of the network.
            With a queue of Kueue it is one of the ``topology_levels`` of `GpuQueues`. Without a queue, each value gets
            one group. Default: any nodes of the pool.
        expose: Clients outside the cluster that may connect to the leaders through a load balancer, `Internal` or
            `Public`. Default: only pods of the cluster may connect.
        kubernetes_version: Minor version of an imported cluster; only for images as volumes.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: No node of the pool can run the pod, several pods fit on one node, or the pool has fewer nodes than
            pods. Or a topology is set with KAI Scheduler, or the cluster has no kubectl provider. At synth, the CDK
            reports a cluster without `LeaderWorkerSets`, or without the controller of its load balancer.

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
        _refuse_unless_path(who, health_path)
        refuse_unless_queue(who, queue)
        _refuse_unless_topology(who, topology, queue)
        refuse_unless_exposure(who, expose, region=cdk.Stack.of(self).region, ipv6=ref.ip_family == "ipv6")

        self.name, self.namespace, self.service = name, namespace, f"{name}-leader"
        refuse_early_image_volumes(who, pod, ref, kubernetes_version)
        claim = pod_claim(who, pod, pool, name=name, namespace=namespace)
        # Imported here because cdk8s-plus takes a quarter of a second to load.
        from gpu_constructs.workloads import manifests

        probes = manifests.http_probes(health_path, port, startup_minutes)
        leads = manifests.leader_template(
            who, pool=pool, name=name, pod=pod, command=commands["leader"], port=port, probes=probes
        )
        works = manifests.worker_template(who, pool=pool, name=name, pod=pod, command=commands["worker"])
        for template in (leads, works):
            manifests.finish_group_template(who, template, pod=pod, claim=claim, expose=expose)
        if isinstance(queue, str):
            self.name = manifests.queued_name(self, name, nodes=nodes, templates=(leads, works), queue=queue)
        groups = manifests.leader_worker_set(
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
            manifests.leaders_service(
                name=self.service, workload=name, groups=self.name, namespace=namespace, port=port
            ),
            manifests.group_disruption_budget(name=name, groups=self.name, namespace=namespace),
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
                port=manifests.HTTP,
                health_path=health_path,
                expose=expose,
                workload=self.resource,
            )
            exposed.node.add_dependency(served)


def _refuse_unless_name(who: object, name: object, queue: object) -> None:
    refuse_unless_object_name(who, "name", name)
    text, most = str(name), _MAX_QUEUED_NAME if isinstance(queue, str) else _MAX_NAME
    if text[0].isdigit() or len(text) > most:
        raise ValueError(
            f"{who}: name must begin with a letter and be at most {most} characters, got {name!r}; rename it"
        )


def _refuse_unless_numbers(
    who: object, *, nodes: object, replicas: object, port: object, startup_minutes: object
) -> None:
    refuse_unless_whole_number(who, "nodes", nodes, least=2, fix="use a GpuDeployment for one node")
    refuse_unless_whole_number(who, "replicas", replicas, least=0)
    refuse_unless_whole_number(who, "port", port, least=1, most=65535)
    refuse_unless_whole_number(who, "startup_minutes", startup_minutes, least=1, most=INT32 // 60)


def _refuse_unless_pod(who: object, pod: object, pool: Pool, nodes: int, replicas: int) -> None:
    if not isinstance(pod, GpuPod):
        raise TypeError(f"{who}: pod must be a GpuPod, got {pod!r}; write GpuPod(image=..., gpus=...)")
    for argument in ("command", "args"):
        if said := getattr(pod, argument):
            raise ValueError(f"{who}: pod must have no {argument}, got {said!r}; write leader and worker")
    per_node = pod.per_node(who, pool.shape)
    if per_node > 1:
        raise ValueError(
            f"{who}: pod must have so many GPUs that a node has room for one pod, got {pod.gpus}, and {per_node} pods "
            f"fit on one; write gpus={pod.gpus * per_node}"
        )
    if isinstance(pool.max_nodes, int) and nodes * replicas > pool.max_nodes:
        raise ValueError(
            f"{who}: nodes times replicas must be at most the {pool.max_nodes} nodes of pool {pool.name!r}, got "
            f"{nodes} times {replicas}; reduce one, because an incomplete group holds its GPUs without serving"
        )


def _refuse_without_commands(who: object, commands: dict[str, tuple[str, ...]]) -> None:
    for argument, said in commands.items():
        if not said:
            raise ValueError(f"{who}: {argument} must be a command, got (); write ['program', 'argument']")


def _refuse_unless_topology(who: object, topology: object, queue: object) -> None:
    if topology is None:
        return
    if not isinstance(topology, str) or not QUALIFIED_NAME.fullmatch(topology):
        raise ValueError(
            f"{who}: topology must be a node label, got {topology!r}; write one such as 'topology.kubernetes.io/zone'"
        )
    if isinstance(queue, KaiQueue):
        raise ValueError(
            f"{who}: topology must be left out with a queue of KAI Scheduler, got {topology!r}; remove it, because KAI "
            "needs its own Topology objects, which this library doesn't create"
        )
