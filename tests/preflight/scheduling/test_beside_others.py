"""The results of Deployments next to others: on one node with them, apart from them, before or behind them."""

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
from tests.preflight.scheduling.test_in_a_cluster import NO, UNKNOWN, YES, answers, apart, deployment, group, spread


def beside(key: str, of: str = "chat") -> dict[str, Any]:
    """Required affinity, on a node or in a zone, to pods of an app."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": of}}}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


@pytest.mark.parametrize(
    ("replicas", "key", "expected"),
    [(4, HOSTNAME, YES), (5, HOSTNAME, NO), (4, ZONE, YES), (5, ZONE, UNKNOWN), (8, ZONE, UNKNOWN), (9, ZONE, NO)],
)
def test_pods_that_keep_together_have_one_node_or_zone(
    tmp_path: Path, replicas: int, key: str, expected: Answer
) -> None:
    groups = [group("a", "a", 1, kind="g6.12xlarge"), group("b", "b", 2, kind="g6.12xlarge")]

    assert answers(tmp_path, groups, deployment("chat", replicas, beside(key))) == {"chat": expected}


def test_pods_that_keep_together_may_follow_others(tmp_path: Path) -> None:
    groups = [group("a", "a", 2, kind="g6.12xlarge")]
    of_team = [deployment(name, count, labels={"team": "a"}) for name, count in (("chat", 3), ("other", 1))]
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"team": "a"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    of_team[0]["spec"]["template"]["spec"]["affinity"] = affinity

    found = answers(tmp_path, groups, *of_team)

    assert found == {"chat": UNKNOWN, "other": YES}


def priority_class(name: str, value: int, **more: Any) -> dict[str, Any]:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    return {**kind, "value": value, **more}


@pytest.mark.parametrize(("policy", "expected"), [("Never", NO), ("PreemptLowerPriority", YES)])
@pytest.mark.parametrize("by_default", [True, False])
def test_a_job_that_never_preempts_waits_for_services_of_lower_priority(
    tmp_path: Path, policy: str, expected: Answer, by_default: bool
) -> None:
    job = deployment("train", 1, {"restartPolicy": "Never"} | ({} if by_default else {"priorityClassName": "high"}))
    job |= {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": job["spec"]["template"]}}
    high = priority_class("high", 9, preemptionPolicy=policy, globalDefault=by_default)
    low = deployment("chat", 1, {"priorityClassName": "low"})

    found = answers(tmp_path, [group("a", "a", 1)], high, priority_class("low", -5), job, low)

    assert found["train"] is expected


def without_gpus(made: dict[str, Any]) -> dict[str, Any]:
    """The same pods, which ask for nothing."""
    made["spec"]["template"]["spec"]["containers"] = [{"name": "main", "image": "busybox"}]
    return made


@pytest.mark.parametrize("by_service", [True, False])
@pytest.mark.parametrize(("nodes", "services", "expected"), [(1, 1, UNKNOWN), (3, 2, YES), (3, 3, UNKNOWN)])
def test_pods_keep_apart_from_services_without_gpus_on_their_nodes(
    tmp_path: Path, by_service: bool, nodes: int, services: int, expected: Answer
) -> None:
    of = [apart({"app": "chat"}), {}] if by_service else [{}, apart({"app": "web"})]
    web, chat = without_gpus(deployment("web", services, of[0])), deployment("chat", 1, of[1])

    assert answers(tmp_path, [group("a", "a", nodes)], web, chat) == {"chat": expected}


def test_pods_that_preempt_a_service_need_not_keep_apart(tmp_path: Path) -> None:
    web = without_gpus(deployment("web", 1))
    chat = deployment("chat", 1, apart({"app": "web"}) | {"priorityClassName": "high"})

    assert answers(tmp_path, [group("a", "a", 1)], priority_class("high", 9), web, chat) == {"chat": YES}


@pytest.mark.parametrize(("port", "expected"), [(8080, NO), (8081, YES)])
def test_pods_with_ports_of_the_node_share_one_where_these_differ(tmp_path: Path, port: int, expected: Answer) -> None:
    both = [deployment(name, 1) for name in ("chat", "other")]
    for each, number in zip(both, (8080, port), strict=True):
        each["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": number}]
    web = without_gpus(deployment("web", 1))

    found = answers(tmp_path, [group("a", "a", 1, kind="g6.12xlarge")], *both, web)

    assert found == {"chat": YES, "other": expected}


@pytest.mark.parametrize(("nodes", "expected"), [(2, UNKNOWN), (3, YES)])
def test_pods_that_keep_apart_take_one_place_of_a_node_that_others_opened(
    tmp_path: Path, nodes: int, expected: Answer
) -> None:
    full, half = deployment("full", 1), deployment("half", 1)
    for each, gpus in ((full, 4), (half, 2)):
        each["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {GPU: gpus}}

    found = answers(
        tmp_path,
        [group("a", "a", nodes, kind="g6.12xlarge")],
        *(full, half, deployment("chat", 2, apart({"app": "chat"}))),
    )

    assert found == {"full": YES, "half": YES, "chat": expected}


def test_eksctl_brings_a_device_plugin_to_each_of_two_clusters(tmp_path: Path) -> None:
    config = {"apiVersion": "eksctl.io/v1alpha5", "kind": "ClusterConfig", "managedNodeGroups": [group("a", "a", 2)]}
    configs = [{**config, "metadata": {"name": name, "region": "us-east-1"}} for name in ("first", "second")]
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all([*configs, deployment("chat", 2)]))

    report = check(read_input([str(tmp_path / "all.yaml")]))

    assert [each.answer for case in report.cases for each in report.explanation(case).verdicts] == [YES, YES]


def test_pods_that_keep_together_and_are_spread_may_be_torn(tmp_path: Path) -> None:
    groups = [group("a", "a", 4), group("b", "b", 4)]

    assert answers(tmp_path, groups, deployment("chat", 3, beside(ZONE) | spread(ZONE, "chat"))) == {"chat": UNKNOWN}


def test_auto_mode_without_a_pool_for_gpus_is_an_error_as_well(tmp_path: Path) -> None:
    meta = {"name": "lab", "region": "us-east-1", "version": "1.36"}
    config = {"apiVersion": "eksctl.io/v1alpha5", "kind": "ClusterConfig", "metadata": meta}
    (tmp_path / "all.yaml").write_text(
        yaml.safe_dump_all([{**config, "autoModeConfig": {"enabled": True}}, deployment("chat", 1)])
    )

    report = check(read_input([str(tmp_path / "all.yaml")]))

    assert [each.answer for each in report.explanation(report.cases[0]).verdicts] == [NO]
    assert [each.problem.unknown for each in report.findings if each.rule.id == "GPU120"] == [False]


@pytest.mark.parametrize(("least", "expected"), [(3, False), (2, None)])
def test_a_gang_that_is_too_large_is_certain(tmp_path: Path, least: int, expected: bool | None) -> None:
    task = {"name": "w", "replicas": 3, "template": deployment("w", 1, {"restartPolicy": "Never"})["spec"]["template"]}
    gang = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "train"}}
    meta = {"name": "demo", "region": "us-east-1", "version": "1.36"}
    config = {"apiVersion": "eksctl.io/v1alpha5", "kind": "ClusterConfig", "metadata": meta}
    (tmp_path / "all.yaml").write_text(
        yaml.safe_dump_all(
            [
                {**config, "managedNodeGroups": [group("a", "a", 2)]},
                {**gang, "spec": {"minAvailable": least, "tasks": [task]}},
            ]
        )
    )

    report = check(read_input([str(tmp_path / "all.yaml")]))

    found = [each.problem.unknown for each in report.findings if each.rule.id == "GPU121"]
    assert found == ([] if expected is None else [expected])
