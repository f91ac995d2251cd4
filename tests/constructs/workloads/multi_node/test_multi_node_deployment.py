"""A group serves as a whole or not at all, on its own nodes, behind its leader."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import GpuPod, ManagedNodeGroup, NodeShape
from gpu_constructs.exposure import Internal, LoadBalancerController
from gpu_constructs.installing.cluster_ref import AnyCluster
from gpu_constructs.queueing import GpuQueues, KaiQueues, KaiScheduler, Kueue, LeaderWorkerSets, TeamQueue
from gpu_constructs.workloads import KaiQueue, MultiNodeDeployment
from gpu_facts.labels import GROUPS_NAME
from tests.clusters import imported_cluster, imported_vpc
from tests.schemas import validate, validate_custom
from tests.templates import CHART, MANIFEST, depends_on, manifest, of_type, resources_of

P5 = NodeShape(instance_types=("p5.48xlarge",), efa=True)
POD = GpuPod(image="example.com/vllm:1", gpus=8, efa=32, shm_gib=64)
QUEUE, LAYER = "research", "topology.k8s.aws/network-node-layer-3"


def pool(stack: cdk.Stack, cluster: AnyCluster) -> ManagedNodeGroup:
    found = stack.node.try_find_child("Pool")
    if isinstance(found, ManagedNodeGroup):
        return found
    vpc = cluster.vpc  # type: ignore[union-attr]
    return ManagedNodeGroup(
        stack, "Pool", cluster=cluster, name="p5", shape=P5, max_nodes=4, subnets=[vpc.private_subnets[0]]
    )


def serve(stack: cdk.Stack, cluster: AnyCluster, **changes: Any) -> MultiNodeDeployment:
    """A valid deployment over two nodes, with ``changes`` applied."""
    says: dict[str, Any] = {
        "pool": pool(stack, cluster),
        "name": "r1",
        "pod": POD,
        "nodes": 2,
        "leader": ("sh", "-c", "serve --nodes $(LWS_GROUP_SIZE)"),
        "worker": ("sh", "-c", "join $(LWS_LEADER_ADDRESS)"),
        "port": 8000,
        "namespace": "research",
    }
    return MultiNodeDeployment(stack, "R1", cluster=cluster, **says | changes)


def groups(stack: cdk.Stack, kind: str = "LeaderWorkerSet") -> dict[str, Any]:
    return manifest(resources_of(stack), kind)


def test_manifest(stack: cdk.Stack, cluster: eks.ICluster, snapshot_yaml: SnapshotAssertion) -> None:
    serve(stack, cluster, queue=QUEUE)

    assert groups(stack) == snapshot_yaml


def name_in_a_queue(**changes: Any) -> str:
    """Return the name of the groups, without the hash in other parts of the app."""
    stack = cdk.Stack(cdk.App(), "Test", env=cdk.Environment(region="us-east-1"))
    cluster = imported_cluster(stack, imported_vpc(stack))
    made = serve(stack, cluster, **{"queue": QUEUE, **changes})
    assert groups(stack)["metadata"]["name"] == made.name
    assert groups(stack, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == {GROUPS_NAME: made.name}
    assert groups(stack, "Service")["metadata"]["name"] == made.service == "r1-leader"
    return made.name


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"replicas": 2}, True),
        ({"pod": replace(POD, image="example.com/vllm:2")}, True),
        ({"health_path": "/ready", "startup_minutes": 5}, True),
        ({"queue": "nlp"}, False),
        ({"nodes": 3}, False),
        ({"port": 9000}, False),
        ({"pod": replace(POD, cpus=8)}, False),
    ],
    ids=["replicas", "image", "probes", "queue", "nodes", "port", "cpus"],
)
def test_what_kueue_rejects_to_change_makes_other_groups(changes: dict[str, Any], same: bool) -> None:
    assert (name_in_a_queue(**changes) == name_in_a_queue()) is same


def test_a_name_leaves_room_for_the_hash(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    with pytest.raises(ValueError, match="Test/R1: name must begin with a letter and be at most 35 characters"):
        serve(stack, cluster, queue=QUEUE, name="r" * 36)


@pytest.mark.parametrize("queue", [None, QUEUE, KaiQueue("research")], ids=["none", "kueue", "kai"])
def test_the_objects_are_valid(stack: cdk.Stack, cluster: eks.ICluster, crds: Path, queue: Any) -> None:
    serve(stack, cluster, queue=queue, expose=Internal())

    validate_custom(groups(stack), crds)
    for kind in ("Service", "PodDisruptionBudget", "Ingress"):
        validate(groups(stack, kind), "1.36")


def test_the_leader_alone_answers(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    made = serve(stack, cluster)

    template = groups(stack)["spec"]["leaderWorkerTemplate"]
    [leader] = template["leaderTemplate"]["spec"]["containers"]
    [worker] = template["workerTemplate"]["spec"]["containers"]
    assert leader["readinessProbe"]["httpGet"]["path"] == "/health"
    assert leader["startupProbe"]["failureThreshold"] * leader["startupProbe"]["periodSeconds"] == 3600
    assert not [key for key in worker if key.endswith("Probe")]
    service = groups(stack, "Service")
    assert service["metadata"]["name"] == made.service == "r1-leader"
    assert service["spec"]["selector"] == {
        "leaderworkerset.sigs.k8s.io/name": "r1",
        "leaderworkerset.sigs.k8s.io/worker-index": "0",
    }


def test_both_have_all_of_a_node_and_their_own_command(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    serve(stack, cluster)

    template = groups(stack)["spec"]["leaderWorkerTemplate"]
    for part, word in (("leaderTemplate", "LWS_GROUP_SIZE"), ("workerTemplate", "LWS_LEADER_ADDRESS")):
        [container] = template[part]["spec"]["containers"]
        assert word in container["command"][-1]
        assert container["resources"]["limits"].items() >= {("nvidia.com/gpu", "8"), ("vpc.amazonaws.com/efa", "32")}
        assert {"mountPath": "/dev/shm", "name": "shm"} in container["volumeMounts"]


def test_an_update_needs_no_spare_nodes(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    serve(stack, cluster)

    rolling = groups(stack)["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"]
    assert rolling == {"maxUnavailable": 1, "maxSurge": 0}


def test_workers_live_as_long_as_the_answers_of_their_leader(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    serve(stack, cluster, expose=Internal(idle_seconds=120))

    template = groups(stack)["spec"]["leaderWorkerTemplate"]
    assert [
        template[each]["spec"]["terminationGracePeriodSeconds"] for each in ("leaderTemplate", "workerTemplate")
    ] == [
        270,
        270,
    ]
    assert groups(stack, "Ingress")["spec"]["defaultBackend"]["service"]["name"] == "r1-leader"


def test_a_topology_is_kueues_with_a_queue_and_the_groups_own_without(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    serve(stack, cluster, topology=LAYER)

    assert groups(stack)["metadata"]["annotations"] == {"leaderworkerset.sigs.k8s.io/exclusive-topology": LAYER}


def test_with_a_queue_kueue_keeps_leader_and_workers_together(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    serve(stack, cluster, topology=LAYER, queue=QUEUE)

    made = groups(stack)
    assert "annotations" not in made["metadata"]
    for part in ("leaderTemplate", "workerTemplate"):
        assert made["spec"]["leaderWorkerTemplate"][part]["metadata"]["annotations"] == {
            "kueue.x-k8s.io/podset-required-topology": LAYER,
            "kueue.x-k8s.io/podset-group-name": "r1",
        }


def ids_of(resources: dict[str, Any], kind: str) -> list[str]:
    return [
        id
        for id, each in of_type(resources, MANIFEST).items()
        if isinstance(each["Properties"]["Manifest"], str)
        and any(one["kind"] == kind for one in json.loads(each["Properties"]["Manifest"]))
    ]


def releases(resources: dict[str, Any]) -> dict[str, str]:
    return {each["Properties"]["Chart"]: id for id, each in of_type(resources, CHART).items()}


@pytest.mark.parametrize("first", [True, False], ids=["first", "last"])
def test_it_comes_after_its_controller_its_queue_and_kueue(
    stack: cdk.Stack, cluster: eks.ICluster, first: bool
) -> None:
    def queues() -> Construct:
        team = TeamQueue(name=QUEUE, namespace="research", nodes={"p5": 4})
        kueue = Kueue(stack, "Kueue", cluster=cluster)
        return GpuQueues(stack, "Queues", cluster=cluster, kueue=kueue, pools=[pool(stack, cluster)], teams=[team])

    steps: list[Callable[[], Construct]] = [
        lambda: serve(stack, cluster, queue=QUEUE),
        queues,
        lambda: LeaderWorkerSets(stack, "Groups", cluster=cluster),
    ]
    for step in steps if first else reversed(steps):
        step()

    resources = resources_of(stack)
    [made], [queue] = ids_of(resources, "LeaderWorkerSet"), ids_of(resources, "LocalQueue")
    assert {queue, releases(resources)["lws"], releases(resources)["kueue"]} <= depends_on(resources, made)


def test_kai_places_every_pod_of_a_group(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    scheduler = KaiScheduler(stack, "Kai", cluster=cluster)
    team = TeamQueue(name="research", namespace="research", nodes={"p5": 4})
    queues = KaiQueues(
        stack, "Queues", cluster=cluster, scheduler=scheduler, pools=[pool(stack, cluster)], teams=[team]
    )
    serve(stack, cluster, queue=queues.queue("research"))

    resources = resources_of(stack)
    made = groups(stack)
    for part in (made, *(made["spec"]["leaderWorkerTemplate"][each] for each in ("leaderTemplate", "workerTemplate"))):
        assert part["metadata"]["labels"]["kai.scheduler/queue"] == "research"
    for part in ("leaderTemplate", "workerTemplate"):
        assert made["spec"]["leaderWorkerTemplate"][part]["spec"]["schedulerName"] == "kai-scheduler"
    # The whole group is what the scheduler then waits for.
    assert made["spec"]["startupPolicy"] == "LeaderCreated"
    [id] = ids_of(resources, "LeaderWorkerSet")
    assert releases(resources)["kai-scheduler"] in depends_on(resources, id)


def test_the_load_balancer_goes_before_the_pods_and_the_controllers(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    serve(stack, cluster, expose=Internal())
    LoadBalancerController(stack, "Lb", cluster=cluster)

    resources = resources_of(stack)
    [ingress], [pods], [service] = (ids_of(resources, each) for each in ("Ingress", "LeaderWorkerSet", "Service"))
    assert {pods, service, releases(resources)["aws-load-balancer-controller"]} <= depends_on(resources, ingress)


def test_a_cluster_made_here_needs_the_controller_of_groups(stack: cdk.Stack, created_cluster: eks.Cluster) -> None:
    serve(stack, created_cluster)

    with pytest.raises(
        RuntimeError, match=r"Test/R1: cluster must have a LeaderWorkerSets, got none; create LeaderWorkerSets\(stack"
    ):
        cdk.App.of(stack).synth()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": 1}, r"^Test/R1: nodes must be at least 2, got 1; use a GpuDeployment for one node$"),
        (
            {"nodes": 3, "replicas": 2},
            "^Test/R1: nodes times replicas must be at most the 4 nodes of pool 'p5', got 3 times 2; reduce one, "
            "because an",
        ),
        ({"pod": GpuPod(image="example.com/vllm:1", gpus=4)}, r"got 4, and 2 pods fit on one; write gpus=8$"),
        ({"pod": GpuPod(image="example.com/vllm:1", gpus=8, command=("serve",))}, r"pod must have no command, got"),
        ({"leader": ()}, r"^Test/R1: leader must be a command, got \(\); write"),
        ({"worker": "join"}, r"^Test/R1: worker must be a list of strings, got 'join'"),
        ({"name": "1r"}, r"^Test/R1: name must begin with a letter and be at most 44 characters, got '1r'; rename it$"),
        ({"name": "r" * 45}, r"name must begin with a letter and be at most 44 characters"),
        (
            {"topology": "a zone"},
            "^Test/R1: topology must be a node label, got 'a zone'; write one such as 'topology.kubernetes.io/zone'",
        ),
        ({"topology": LAYER, "queue": KaiQueue("a")}, r"^Test/R1: topology must be left out with a queue of KAI"),
        (
            {"health_path": "health"},
            r"^Test/R1: health_path must begin with '/' and have no spaces, got 'health'; write '/health'$",
        ),
        ({"queue": 7}, r"^Test/R1: queue must be a string, got 7"),
        ({"pod": "vllm"}, r"^Test/R1: pod must be a GpuPod, got 'vllm'; write GpuPod"),
    ],
)
def test_refuses_what_never_serves(
    stack: cdk.Stack, cluster: eks.ICluster, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        serve(stack, cluster, **changes)


def test_the_nearest_legal_values_are_taken(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    serve(stack, cluster, nodes=2, replicas=2, name="r" * 44)

    assert groups(stack)["spec"]["replicas"] == 2
