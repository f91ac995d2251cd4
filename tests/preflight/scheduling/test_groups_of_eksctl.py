"""Groups of eksctl that are not seen whole: the launch template that it makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from gpu_facts.resources import EFA, GPU
from gpu_preflight.judging.check import check
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.scheduling.verdict import Verdict

P5 = {"name": "p5", "instanceType": "p5.48xlarge", "efaEnabled": True, "minSize": 2, "maxSize": 2}
TEMPLATE = {
    "name": "p5",
    "instanceTypes": ["p5.48xlarge"],
    "launchTemplate": {"id": "lt-0123456789abcdef0"},
    "minSize": 2,
    "maxSize": 2,
}
G6 = {"name": "g6", "instanceType": "g6.xlarge", "minSize": 1, "maxSize": 1}
SYSTEM = {"name": "system", "instanceType": "m6i.large", "minSize": 1, "maxSize": 1}


def verdict(folder: Path, limits: dict[str, int], **groups: list[dict[str, Any]]) -> Verdict:
    config = {
        "apiVersion": "eksctl.io/v1alpha5",
        "kind": "ClusterConfig",
        "metadata": {"name": "demo", "region": "us-east-1", "version": "1.36"},
        **groups,
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train"},
        "spec": {"containers": [{"name": "main", "image": "example.com/train:1", "resources": {"limits": limits}}]},
    }
    (folder / "all.yaml").write_text(yaml.safe_dump_all([config, pod]))
    report = check(read_input([str(folder / "all.yaml")]))
    [found] = report.explanation(report.cases[0]).verdicts
    return found


def test_eksctl_brings_efa_and_its_plugin_where_a_group_asks_for_it(tmp_path: Path) -> None:
    assert verdict(tmp_path, {GPU: 8, EFA: 32}, managedNodeGroups=[P5]).answer is Answer.YES


def test_efa_of_a_launch_template_that_is_not_seen_is_not_known(tmp_path: Path) -> None:
    found = verdict(tmp_path, {GPU: 8, EFA: 32}, managedNodeGroups=[TEMPLATE])

    assert found.answer is Answer.UNKNOWN
    [pool] = found.pools
    assert f"requests 32 {EFA}, and it is unknown how much the node has" in [each.text for each in pool.reasons]


def test_a_type_without_efa_has_none(tmp_path: Path) -> None:
    found = verdict(tmp_path, {GPU: 1, EFA: 1}, managedNodeGroups=[G6])

    assert found.answer is Answer.NO


def test_a_group_that_eksctl_rejects_stops_every_group(tmp_path: Path) -> None:
    rejected = {**G6, "name": "other", "ami": "auto"}

    found = verdict(tmp_path, {GPU: 1}, managedNodeGroups=[G6, rejected])

    assert found.answer is Answer.NO
    assert {"GPU461"} == {reason.rule for pool in found.pools for reason in pool.reasons}


def test_wrong_sizes_of_one_group_stop_every_group(tmp_path: Path) -> None:
    wrong = {"name": "other", "instanceType": "m6i.large", "minSize": 5, "maxSize": 2}

    found = verdict(tmp_path, {GPU: 1}, managedNodeGroups=[{**G6, "name": "gpus"}, wrong])

    assert found.answer is Answer.NO
    assert "eksctl rejects the whole config: pool other: MinSize 5 is above MaxSize 2" in found.pools[0].refusing


def test_a_field_that_eksctl_does_not_have_stops_every_group(tmp_path: Path) -> None:
    assert verdict(tmp_path, {GPU: 1}, managedNodeGroups=[{**G6, "instanceTyp": "g6.xlarge"}]).answer is Answer.NO


def test_user_data_that_eksctl_cannot_read_stops_its_group_only(tmp_path: Path) -> None:
    scripted = {**G6, "name": "other", "overrideBootstrapCommand": "#!/bin/bash\n/etc/eks/bootstrap.sh demo"}

    found = verdict(tmp_path, {GPU: 1}, managedNodeGroups=[G6, scripted])

    assert {each.pool.name: each.answer for each in found.pools} == {"g6": Answer.YES, "other": Answer.NO}


def test_pods_run_unless_eksctl_rejects_what_is_filled_in(tmp_path: Path) -> None:
    later = {**G6, "name": "other", "volumeThroughput": "${THROUGHPUT}"}

    found = verdict(tmp_path, {GPU: 1}, managedNodeGroups=[later])

    assert found.answer is Answer.UNKNOWN
    assert any("Throughput" in each for each in found.runs_if)
