"""Preflight and the real kube-scheduler are asked the same, thousands of times."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

from gpu_constructs.facts.quantities import add
from gpu_constructs.preflight.admission.admission import Admission
from gpu_constructs.preflight.cluster.clusters import clusters
from gpu_constructs.preflight.cluster.workloads import workloads
from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.cluster import Cluster, DaemonSet, Pool
from gpu_constructs.preflight.model.label_values import LabelValues
from gpu_constructs.preflight.model.taints import DAEMON_SET_TOLERATIONS
from gpu_constructs.preflight.node.nodes import NodeToBe, nodes_to_be, reaches
from gpu_constructs.preflight.reading.inputs import Input
from gpu_constructs.preflight.reading.objects import Object, Origin
from gpu_constructs.preflight.reading.unknown import Unknown, dig, mapping
from gpu_constructs.preflight.scheduling.demand import demand
from gpu_constructs.preflight.scheduling.fitting import fits
from gpu_constructs.preflight.scheduling.memory import Memory
from tests.e2e.case import Case, Decision
from tests.e2e.rig import Rig
from tests.preflight import generated
from tests.preflight.generated import Json

CLUSTERS = 60
PODS = 48
DAEMONS = 400
SEED = 20_261_121


def node_manifest(node: NodeToBe, daemons: list[DaemonSet], random: Random) -> Json:
    """A node that is as preflight says, somewhere between the least and the most it may have."""
    taken = add(*(each.pod.requests for each in daemons))
    allocatable = {
        name: str(random.randint(node.least.get(name, 0), most) + taken.get(name, 0)) + ("m" if name == "cpu" else "")
        for name, most in node.most.items()
    }
    labels = {key: value_of(value, random) for key, value in node.labels.items()}
    taints = [{"key": each.key, "value": each.value or "", "effect": each.effect} for each in node.taints]
    return {
        "metadata": {"name": "node", "labels": labels},
        "spec": {"taints": taints},
        "status": {"allocatable": allocatable, "capacity": allocatable},
    }


def value_of(value: LabelValues | Unknown, random: Random) -> str:
    if isinstance(value, Unknown):
        return f"known-later-{random.randint(0, 9)}"
    return random.choice(sorted(value.values))


def daemon_pod(daemon: DaemonSet, cluster: Cluster) -> Json:
    """The pod that the DaemonSet controller makes for a node."""
    [owner] = [each for each in cluster.of_kind("DaemonSet") if each.origin == daemon.origin]
    written = mapping(dig(owner.content, "spec", "template", "spec"))
    added = [{"key": each.key, "operator": each.operator, "effect": each.effect} for each in DAEMON_SET_TOLERATIONS]
    spec = {**written, "tolerations": [*written.get("tolerations", ()), *added]}
    return {"metadata": {"name": daemon.name, "namespace": "kube-system"}, "spec": without_volumes(spec)}


def without_volumes(spec: Json) -> Json:
    containers = [{key: each[key] for key in each if key != "volumeMounts"} for each in spec["containers"]]
    return {key: value for key, value in spec.items() if key != "volumes"} | {"containers": containers}


def running(cluster: Cluster, pool: Pool) -> list[DaemonSet]:
    return [each for each in cluster.daemon_sets if reaches(each, pool, cluster) is Answer.YES]


def answer(cluster: Cluster, pool: Pool, node: NodeToBe, pod: Json, memory: Memory) -> Answer:
    """What production answers: from memory where it has judged the like before."""
    [workload] = workloads([Object(pod, Origin("generated", "pod"))])
    admitted = Admission(cluster).of(workload).workload
    return fits(demand(admitted, cluster), node, pool, memory.ask).answer


def cases(folder: Path) -> list[tuple[Case, Answer]]:
    found = []
    for number in range(CLUSTERS):
        random = Random(SEED + number)
        cluster = generated.cluster(random, folder)
        nodes = [(pool, node) for pool in cluster.pools for node in nodes_to_be(pool, cluster)]
        memory = Memory()
        for _ in range(PODS):
            pool, node = random.choice(nodes)
            pod, daemons = generated.pod(random), running(cluster, pool)
            bound = [daemon_pod(each, cluster) for each in daemons]
            case = Case(node=node_manifest(node, daemons, random), pod=pod, bound=bound)
            found.append((case, answer(cluster, pool, node, pod, memory)))
    return found


def test_preflight_says_what_the_scheduler_does(rig: Rig, tmp_path: Path) -> None:
    asked = cases(tmp_path)

    decisions = rig.decide([case for case, _ in asked])

    told = Counter(outcome(said, decision) for (_, said), decision in zip(asked, decisions, strict=True))
    disagreements = [
        f"preflight {said.value}, scheduler {decision}: {case.pod['spec']} on {case.node}"
        for (case, said), decision in zip(asked, decisions, strict=True)
        if outcome(said, decision) == "disagree"
    ]
    print(dict(told), Counter(each.refused[-90:] for each in decisions).most_common(6))
    assert not disagreements, f"{told}\n" + "\n".join(disagreements[:5])
    assert told["agree"] >= 2_000, told
    # Not by saying no to everything.
    assert sum(said is Answer.YES for _, said in asked) >= 300
    assert told["refused"] <= 0.02 * len(asked), told


def outcome(said: Answer, decision: Decision) -> str:
    if decision.refused:
        return "refused"
    if said is Answer.UNKNOWN:
        return "unknown"
    return "agree" if decision.scheduled is (said is Answer.YES) else "disagree"


def test_daemon_sets_reach_the_nodes_that_the_scheduler_lets_them_reach(rig: Rig, tmp_path: Path) -> None:
    random = Random(SEED)
    asked: list[tuple[Case, Answer]] = []
    while len(asked) < DAEMONS:
        cluster = generated.cluster(random, tmp_path)
        for pool in cluster.pools:
            [node] = nodes_to_be(pool, cluster)
            for daemon in cluster.daemon_sets:
                case = Case(
                    node=node_manifest(node, list(cluster.daemon_sets), random), pod=daemon_pod(daemon, cluster)
                )
                asked.append((case, reaches(daemon, pool, cluster)))

    decisions = rig.decide([case for case, _ in asked])

    told = Counter(outcome(said, decision) for (_, said), decision in zip(asked, decisions, strict=True))
    print(dict(told))
    assert told["disagree"] == 0, told
    assert told["agree"] >= 0.9 * len(asked), told


def test_an_empty_cluster_has_no_case() -> None:
    assert [each.pools for each in clusters(Input({}, (), ()))] == [()]
