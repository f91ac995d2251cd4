"""What becomes of Deployments on the groups and NodePools of one small cluster, each of one zone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_constructs.facts.labels import HOSTNAME, ZONE
from gpu_constructs.facts.resources import GPU
from gpu_constructs.preflight.judging.check import check
from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.reading.inputs import read_input

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


def apart(labels: dict[str, str]) -> dict[str, Any]:
    """Required anti-affinity on a node to pods with some labels."""
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": labels}}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def answers(folder: Path, groups: list[dict[str, Any]], *objects: dict[str, Any]) -> dict[str, Answer]:
    """The answer to each Deployment, by its name."""
    config = {
        "apiVersion": "eksctl.io/v1alpha5",
        "kind": "ClusterConfig",
        "metadata": {"name": "demo", "region": "us-east-1", "version": "1.36"},
        "managedNodeGroups": groups,
    }
    (folder / "all.yaml").write_text(yaml.safe_dump_all([config, *objects]))
    report = check(read_input([str(folder / "all.yaml")]))
    found = report.explanation(report.cases[0]).verdicts
    return {each.workload.owner.name: each.answer for each in found}


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
