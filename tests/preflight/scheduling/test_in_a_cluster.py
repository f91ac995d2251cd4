"""The results of Deployments on the groups and NodePools of one small cluster, each of one zone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_facts.labels import HOSTNAME, ZONE
from gpu_facts.resources import GPU
from gpu_preflight.judging.check import check
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.scheduling.verdict import Verdict

YES, NO, UNKNOWN = Answer.YES, Answer.NO, Answer.UNKNOWN


def group(name: str, zone: str, least: int, most: int | None = None, kind: str = "g6.xlarge") -> dict[str, Any]:
    """A managed group of eksctl."""
    there = {"name": name, "instanceType": kind, "availabilityZones": [f"us-east-1{zone}"]}
    return {**there, "minSize": least, "desiredCapacity": least, "maxSize": least if most is None else most}


def deployment(name: str, replicas: int, spec: Any = None, labels: Any = None) -> dict[str, Any]:
    """Pods of one GPU each."""
    has = {"app": name, **(labels or {})}
    pod = {"containers": [{"name": "main", "image": "busybox", "resources": {"limits": {GPU: 1}}}], **(spec or {})}
    template = {"metadata": {"labels": has}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def spread(key: str, of: str, **more: Any) -> dict[str, Any]:
    """A spread of skew 1 over the domains of a label."""
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", **more}
    return {"topologySpreadConstraints": [{**constraint, "labelSelector": {"matchLabels": {"app": of}}}]}


def apart(labels: dict[str, str], key: str = HOSTNAME) -> dict[str, Any]:
    """Required anti-affinity, on a node or in another domain, to pods with some labels."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def verdicts(folder: Path, groups: list[dict[str, Any]], *objects: dict[str, Any]) -> dict[str, Verdict]:
    """The verdict on each workload, by its name."""
    config = {
        "apiVersion": "eksctl.io/v1alpha5",
        "kind": "ClusterConfig",
        "metadata": {"name": "demo", "region": "us-east-1", "version": "1.36"},
        "managedNodeGroups": groups,
    }
    (folder / "all.yaml").write_text(yaml.safe_dump_all([config, *objects]))
    report = check(read_input([str(folder / "all.yaml")]))
    found = report.explanation(report.cases[0]).verdicts
    return {each.workload.owner.name: each for each in found}


def answers(folder: Path, groups: list[dict[str, Any]], *objects: dict[str, Any]) -> dict[str, Answer]:
    """The answer to each workload, by its name."""
    return {name: each.answer for name, each in verdicts(folder, groups, *objects).items()}


@pytest.mark.parametrize(("of", "expected"), [("chat", NO), ("other", YES)])
def test_a_spread_binds_pods_that_it_counts(tmp_path: Path, of: str, expected: Answer) -> None:
    groups = [group("a", "a", 1), group("b", "b", 1, kind="g6.12xlarge")]

    found = answers(tmp_path, groups, deployment("chat", 4, spread(ZONE, of)))

    assert found == {"chat": expected}


def test_pods_that_keep_apart_leave_room_to_others(tmp_path: Path) -> None:
    groups = [group("a", "a", 2, kind="g6.12xlarge")]

    found = answers(tmp_path, groups, deployment("plain", 5), deployment("apart", 2, apart({"app": "apart"})))

    assert NO not in found.values()


def test_what_may_not_run_takes_no_place_for_certain(tmp_path: Path) -> None:
    gated = deployment("gated", 4, {"schedulingGates": [{"name": "example.com/quota"}]})

    found = answers(tmp_path, [group("a", "a", 1, kind="g6.12xlarge")], gated, deployment("plain", 2))

    assert found == {"gated": UNKNOWN, "plain": UNKNOWN}


def test_whether_a_node_that_a_pod_names_is_there_is_not_known(tmp_path: Path) -> None:
    found = answers(tmp_path, [group("a", "a", 1)], deployment("named", 1, {"nodeName": "ip-10-0-1-2.ec2.internal"}))

    assert found == {"named": UNKNOWN}


@pytest.mark.parametrize(
    ("system", "policy", "expected"),
    [
        (group("system", "b", 2, kind="m6i.large"), {}, NO),
        (group("system", "b", 0, 2, kind="m6i.large"), {}, UNKNOWN),
        (group("system", "a", 2, kind="m6i.large"), {}, YES),
        (group("system", "b", 2, kind="m6i.large") | {"labels": {"tier": "web"}}, {}, YES),
        (group("system", "b", 2, kind="m6i.large") | {"labels": {"tier": "web"}}, {"nodeAffinityPolicy": "Ignore"}, NO),
    ],
)
def test_a_zone_of_other_nodes_counts_as_one_without_pods(
    tmp_path: Path, system: dict[str, Any], policy: dict[str, str], expected: Answer
) -> None:
    gpus = group("gpus", "a", 1, kind="g6.12xlarge") | {"labels": {"tier": "gpu"}}
    selector = {"nodeSelector": {"tier": "gpu"}} if "labels" in system else {}

    found = answers(tmp_path, [gpus, system], deployment("chat", 4, spread(ZONE, "chat", **policy) | selector))

    assert found == {"chat": expected}


@pytest.mark.parametrize(("replicas", "expected"), [(1, YES), (3, UNKNOWN), (5, UNKNOWN), (6, NO)])
def test_more_nodes_than_run_need_an_autoscaler(tmp_path: Path, replicas: int, expected: Answer) -> None:
    found = answers(tmp_path, [group("a", "a", 1, 5)], deployment("chat", replicas))

    assert found == {"chat": expected}


def test_a_cluster_without_an_autoscaler_is_reported(tmp_path: Path) -> None:
    found = verdicts(tmp_path, [group("a", "a", 1, 5)], deployment("chat", 3))

    assert [each.text for each in found["chat"].reasons] == [
        "it is unknown whether more than 1 of 3 pods find room "
        "(pool a: 1 node runs, but it is unknown whether cluster autoscaler runs in the cluster)"
    ]


def test_nodes_that_run_are_shared_where_no_autoscaler_is_known(tmp_path: Path) -> None:
    found = answers(tmp_path, [group("a", "a", 1, 5)], deployment("chat", 1), deployment("code", 1))

    assert UNKNOWN in found.values()
    assert NO not in found.values()


@pytest.mark.parametrize(
    ("replicas", "others", "policy", "expected"),
    [
        (8, [], {}, YES),
        (2, [group("system", "b", 1, kind="m6i.large")], {}, YES),
        (3, [group("system", "b", 1, kind="m6i.large")], {}, NO),
        (4, [group("system", "b", 1, kind="m6i.large")], {"maxSkew": 2}, YES),
        (5, [group("system", "b", 1, kind="m6i.large")], {"maxSkew": 2}, NO),
        (3, [group("system", "b", 0, 1, kind="m6i.large")], {}, UNKNOWN),
        (3, [group("system", "b", 1, kind="m6i.large")], {"nodeTaintsPolicy": "Honor"}, NO),
        (3, [group("small", "b", 1)], {}, YES),
        (5, [group("small", "b", 1)], {}, YES),
        (6, [group("small", "b", 1)], {}, NO),
        (6, [group("small", "b", 0, 1)], {}, UNKNOWN),
        (3, [], {"minDomains": 3}, UNKNOWN),
        (2, [], {"minDomains": 3}, YES),
    ],
)
def test_the_emptiest_node_holds_the_others_back(
    tmp_path: Path, replicas: int, others: list[Any], policy: dict[str, Any], expected: Answer
) -> None:
    groups = [group("gpus", "a", 2, kind="g6.12xlarge"), *others]

    found = answers(tmp_path, groups, deployment("chat", replicas, spread(HOSTNAME, "chat", **policy)))

    assert found == {"chat": expected}


@pytest.mark.parametrize("apart", [{"labels": {"tier": "web"}}, {"taints": [{"key": "web", "effect": "NoSchedule"}]}])
def test_nodes_that_do_not_count_hold_none_back(tmp_path: Path, apart: dict[str, Any]) -> None:
    groups = [
        group("gpus", "a", 2, kind="g6.12xlarge") | {"labels": {"tier": "gpu"}},
        group("system", "b", 1, kind="m6i.large") | apart,
    ]
    even = spread(HOSTNAME, "chat", nodeTaintsPolicy="Honor") | {"nodeSelector": {"tier": "gpu"}}

    assert answers(tmp_path, groups, deployment("chat", 8, even)) == {"chat": YES}


@pytest.mark.parametrize(
    ("nodes", "of", "replicas", "expected"),
    [
        (1, {"app": "code"}, 1, {"chat": YES, "code": NO}),
        (1, {"app": "other"}, 1, {"chat": YES, "code": YES}),
        (2, {"app": "code"}, 1, {"chat": YES, "code": YES}),
        (2, {"app": "code"}, 2, {"chat": UNKNOWN, "code": UNKNOWN}),
        (2, {"app": "code"}, 4, {"chat": UNKNOWN, "code": UNKNOWN}),
        (2, {"app": "code"}, 5, {"chat": YES, "code": NO}),
        (6, {"app": "code"}, 5, {"chat": YES, "code": YES}),
    ],
)
def test_anti_affinity_holds_both_ways(
    tmp_path: Path, nodes: int, of: dict[str, str], replicas: int, expected: dict[str, Answer]
) -> None:
    groups = [group("a", "a", nodes, kind="g6.12xlarge")]

    found = answers(tmp_path, groups, deployment("chat", 1, apart(of)), deployment("code", replicas))

    assert found == expected


@pytest.mark.parametrize(
    ("zones", "expected"),
    [("a", {"chat": YES, "code": NO}), ("ab", {"chat": UNKNOWN, "code": UNKNOWN})],
)
def test_anti_affinity_over_zones(tmp_path: Path, zones: str, expected: dict[str, Answer]) -> None:
    groups = [group(each, each, 2, kind="g6.12xlarge") for each in zones]

    found = answers(tmp_path, groups, deployment("chat", 1, apart({"app": "code"}, ZONE)), deployment("code", 1))

    assert found == expected


def test_a_job_waits_for_no_other_job_to_keep_apart_from(tmp_path: Path) -> None:
    jobs = [deployment("one", 1, apart({"team": "ml"}), {"team": "ml"}), deployment("two", 1, None, {"team": "ml"})]
    for each in jobs:
        each |= {"apiVersion": "batch/v1", "kind": "Job"}
        del each["spec"]["replicas"], each["spec"]["selector"]
        each["spec"]["template"]["spec"]["restartPolicy"] = "Never"

    assert answers(tmp_path, [group("a", "a", 1, kind="g6.12xlarge")], *jobs) == {"one": YES, "two": YES}


def job_set(jobs: int, pods: int, key: str) -> dict[str, Any]:
    """Jobs of so many pods each, with one GPU a pod, of which each has a domain to itself."""
    template = deployment("train", 1)["spec"]["template"]
    job = {"parallelism": pods, "completions": pods, "template": template}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", "annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": key}},
        "spec": {"replicatedJobs": [{"name": "worker", "replicas": jobs, "template": {"spec": job}}]},
    }


def leader_workers(groups: int, size: int, key: str) -> dict[str, Any]:
    """Groups of so many pods each, with one GPU a pod, of which each has a domain to itself."""
    template = deployment("serve", 1)["spec"]["template"]
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "serve", "annotations": {"leaderworkerset.sigs.k8s.io/exclusive-topology": key}},
        "spec": {"replicas": groups, "leaderWorkerTemplate": {"size": size, "workerTemplate": template}},
    }


@pytest.mark.parametrize("made", [job_set, leader_workers])
@pytest.mark.parametrize(
    ("groups", "pods", "key", "expected"),
    [
        (2, 4, ZONE, YES),
        (2, 8, ZONE, YES),
        (2, 9, ZONE, NO),
        (3, 1, ZONE, NO),
        (4, 4, HOSTNAME, YES),
        (5, 1, HOSTNAME, NO),
        (1, 5, HOSTNAME, NO),
        (2, 8, "eks.amazonaws.com/nodegroup", YES),
        (3, 1, "eks.amazonaws.com/nodegroup", NO),
        (1, 1, "example.com/rack", NO),
        (1, 1, "topology.k8s.aws/network-node-layer-3", UNKNOWN),
        (1, 1, "topology.kubernetes.io/region", YES),
        (2, 1, "topology.kubernetes.io/region", NO),
    ],
)
def test_groups_want_a_domain_each(
    tmp_path: Path, made: Any, groups: int, pods: int, key: str, expected: Answer
) -> None:
    there = [group("a", "a", 2, kind="g6.12xlarge"), group("b", "b", 2, kind="g6.12xlarge")]

    [found] = verdicts(tmp_path, there, made(groups, pods, key)).values()

    # The controller of such jobs is not in the input.
    installed = UNKNOWN if expected is YES else expected
    assert (found.answer, bool(found.runs_if)) == (installed, expected is YES)


def test_jobs_of_two_parts_want_domains_of_their_own(tmp_path: Path) -> None:
    both = job_set(1, 1, ZONE)
    [part] = both["spec"]["replicatedJobs"]
    both["spec"]["replicatedJobs"] = [part, part | {"name": "other", "replicas": 2}]

    found = answers(tmp_path, [group("a", "a", 2), group("b", "b", 2)], both)

    assert set(found.values()) == {UNKNOWN}


def test_a_spread_that_leaves_nodes_empty_is_the_reason(tmp_path: Path) -> None:
    groups = [group("a", "a", 4), group("b", "b", 1)]

    spared = verdicts(tmp_path, groups, deployment("chat", 4, spread(ZONE, "chat")))["chat"]
    full = verdicts(tmp_path, groups, deployment("chat", 6, spread(ZONE, "chat")))["chat"]

    why = "Pending, because the spread over zones allows a zone 1 more than the emptiest that has nodes"
    assert [each.text.partition(" (")[0] for each in spared.reasons] == [f"at least 1 of 4 pods stays {why}"]
    assert [each.text.partition(" (")[0] for each in full.reasons] == [f"at least 3 of 6 pods stay {why}"]
