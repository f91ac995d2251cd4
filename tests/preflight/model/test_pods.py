"""The requests of pods, their choice of nodes, and their owners."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_facts.labels import ZONE
from gpu_preflight.cluster.clusters import workloads
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.container import ports_clash
from gpu_preflight.model.label_values import exactly, selection
from gpu_preflight.model.pod import read_pod
from gpu_preflight.reading.unknown import Unknown
from gpu_preflight.scheduling.topology import topology
from tests.preflight.readers import manifest, workload

YES, NO, UNKNOWN = Answer.YES, Answer.NO, Answer.UNKNOWN
LATER = Unknown("${Later}")


def asks(**limits: Any) -> dict[str, Any]:
    return {"resources": {"limits": limits}}


@pytest.mark.parametrize(
    ("pod", "cpu"),
    [
        ({"containers": [asks(cpu="1"), asks(cpu="2")]}, 3000),
        ({"containers": [{"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}}]}, 1000),
        ({"containers": [asks(cpu="1")], "initContainers": [asks(cpu="5")]}, 5000),
        ({"containers": [asks(cpu="6")], "initContainers": [asks(cpu="5")]}, 6000),
        ({"containers": [asks(cpu="1")], "initContainers": [{**asks(cpu="5"), "restartPolicy": "Always"}]}, 6000),
        (
            {
                "containers": [asks(cpu="1")],
                "initContainers": [{**asks(cpu="2"), "restartPolicy": "Always"}, asks(cpu="5")],
            },
            7000,
        ),
        ({"containers": [asks(cpu="1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [asks(cpu="1")], "resources": {"requests": {"cpu": "4"}}}, 4000),
        # A limit of the pod is a request where no container has one.
        ({"containers": [asks(cpu="1")], **asks(cpu="64")}, 1000),
        ({"containers": [asks(cpu="1")], **asks(memory="1Gi")}, 1000),
        ({"containers": [{}], **asks(cpu="64")}, 64000),
    ],
)
def test_requests_are_added_up_as_the_scheduler_does(pod: Any, cpu: int) -> None:
    assert read_pod(pod).requests["cpu"] == cpu


def test_a_pod_takes_one_place_for_a_pod() -> None:
    assert read_pod({}).requests == {"pods": 1}


@pytest.mark.parametrize(
    ("pod", "unknown"),
    [
        ({"containers": [asks(cpu=LATER)]}, True),
        ({"containers": [{"resources": {"requests": LATER}}]}, True),
        ({"initContainers": [asks(cpu=LATER)]}, True),
        ({"resources": {"requests": {"cpu": LATER}}}, True),
        ({"overhead": {"cpu": LATER}}, True),
        ({"containers": [asks(cpu="1")]}, False),
    ],
)
def test_a_request_that_is_not_known(pod: Any, unknown: bool) -> None:
    assert read_pod(pod).is_open is unknown


def test_host_ports() -> None:
    ports = [{"hostPort": 80}, {"containerPort": 81}, {"hostPort": 82, "protocol": "UDP", "hostIP": "10.0.0.1"}]

    assert read_pod({"containers": [{"ports": ports}]}).host_ports == {("0.0.0.0", "TCP", 80), ("10.0.0.1", "UDP", 82)}


def test_every_port_of_a_pod_on_the_host_network_is_the_hosts() -> None:
    assert read_pod({"hostNetwork": True, "containers": [{"ports": [{"containerPort": 81}]}]}).host_ports == {
        ("0.0.0.0", "TCP", 81)
    }


@pytest.mark.parametrize(
    ("left", "right", "clash"),
    [
        (("0.0.0.0", "TCP", 1), ("0.0.0.0", "TCP", 1), True),
        (("0.0.0.0", "TCP", 1), ("10.0.0.1", "TCP", 1), True),
        (("10.0.0.2", "TCP", 1), ("10.0.0.1", "TCP", 1), False),
        (("0.0.0.0", "TCP", 1), ("0.0.0.0", "UDP", 1), False),
        (("0.0.0.0", "TCP", 1), ("0.0.0.0", "TCP", 2), False),
    ],
)
def test_ports_clash(left: Any, right: Any, clash: bool) -> None:
    assert ports_clash([left], [right]) is clash


def affine(*terms: Any, **more: Any) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}, **more}


def wants(*values: Any, operator: Any = "In", key: Any = "a") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("pod", "answer"),
    [
        ({}, YES),
        ({"nodeSelector": {"a": "b"}}, YES),
        ({"nodeSelector": {"a": "c"}}, NO),
        ({"nodeSelector": {"a": LATER}}, UNKNOWN),
        (affine(wants("b")), YES),
        (affine(wants("c"), wants("b")), YES),
        (affine(wants("c"), wants(LATER)), UNKNOWN),
        (affine(wants("b"), nodeSelector={"a": "c"}), NO),
        (affine({}), NO),
        (affine(), NO),
        (affine({}, wants("b", operator=LATER)), UNKNOWN),
        (affine({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}), NO),
        (affine({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}]}), YES),
        ({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": LATER}}}, UNKNOWN),
    ],
)
def test_selection(pod: Any, answer: Answer) -> None:
    chosen = selection(pod)
    labels = {"a": exactly("b")}

    assert chosen.takes(labels) is answer
    reasons = {answer for _, answer in chosen.unmet(labels)}
    assert reasons == set() if answer is YES else answer in reasons
    assert NO not in reasons or answer is NO


def spread(**changes: Any) -> dict[str, Any]:
    return {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **changes}


@pytest.mark.parametrize(
    ("constraint", "answers"),
    [
        (spread(), []),
        (spread(topologyKey="rack"), [NO]),
        (spread(topologyKey="rack", whenUnsatisfiable="ScheduleAnyway"), []),
        (spread(topologyKey="rack", whenUnsatisfiable=LATER), [UNKNOWN]),
        (spread(topologyKey=LATER), [UNKNOWN]),
    ],
)
def test_spread(constraint: Any, answers: list[Answer]) -> None:
    pods = workload("Pod", {"topologySpreadConstraints": [constraint]})

    problems = topology(pods, Cluster("demo")).problems({ZONE: exactly("a", "b")})

    assert [answer for answer, _ in problems] == answers


@pytest.mark.parametrize(
    ("kind", "spec", "pods"),
    [
        ("Pod", {}, [1]),
        ("Deployment", {}, [1]),
        ("Deployment", {"replicas": 0}, [0]),
        ("Deployment", {"replicas": "3"}, [3]),
        ("Deployment", {"replicas": LATER}, [None]),
        ("Job", {"parallelism": 4}, [4]),
        ("Job", {"parallelism": 4, "completions": 2}, [2]),
        ("Job", {"parallelism": 0, "completions": 2}, [0]),
        ("CronJob", {"jobTemplate": {"spec": {"parallelism": 2}}}, [2]),
        ("JobSet", {"replicatedJobs": [{"name": "a", "replicas": 2, "template": {"spec": {"parallelism": 3}}}]}, [6]),
        ("LeaderWorkerSet", {"replicas": 2, "leaderWorkerTemplate": {"size": 4, "workerTemplate": {}}}, [8]),
        (
            "LeaderWorkerSet",
            {"replicas": 2, "leaderWorkerTemplate": {"size": 4, "leaderTemplate": {"spec": {}}, "workerTemplate": {}}},
            [2, 6],
        ),
        (
            "RayCluster",
            {"workerGroupSpecs": [{"groupName": "g", "replicas": 1, "minReplicas": 3, "numOfHosts": 2}]},
            [1, 6],
        ),
        ("PyTorchJob", {"pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 3}}}, [1, 3]),
        ("DaemonSet", {}, []),
        ("Service", {}, []),
    ],
)
def test_how_many_pods_a_kind_makes(kind: str, spec: Any, pods: list[int | None]) -> None:
    assert [each.replicas for each in workloads([manifest(kind, spec)])] == pods


def test_gangs_run_together() -> None:
    assert workload("JobSet", {"replicatedJobs": [{"name": "a"}]}).together
    assert workload("Job", {"completionMode": "Indexed"}).together
    assert not workload("Deployment", {}).together


def test_priority_comes_from_the_class() -> None:
    classes = manifest("PriorityClass", {}, name="high")
    high = type(classes)({**classes.content, "value": 100}, classes.origin)
    pods = [manifest("Pod", {"priorityClassName": name}) for name in ("high", "system-node-critical", "missing")]

    assert [each.priority for each in workloads([high, *pods])] == [100, 2_000_001_000, None]
