"""What `check` finds, `explain` knows: an error of a pool, an autoscaler or a cluster ends the "runs" of a GPU pod."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.cluster.kueue import QueuedJob
from gpu_preflight.cluster.scalers import Signal
from gpu_preflight.judging.check import Report, check
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.pod import Workload
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.reading.objects import Object
from gpu_preflight.rule import Subject
from tests.preflight.rule_cases import FIXTURES
from tests.preflight.test_rules import fixtures, name_of

# Objects that pools and their GPUs are made of.
SHARED = ("NodePool", "EC2NodeClass", "NodeClass", "NodeOverlay", "DaemonSet")
# Errors beside which a pod runs all the same, and why.
BESIDE = {
    "GPU170/fails_only_group_is_for_gpu_pods": "the group always has a node, which takes the pod",
    "GPU207/fails_namespace_without_the_label": "the pod is in no queue",
    "GPU179/fails_overlay_and_gate_off": "the overlay is for shares of a GPU, and the pod asks for a whole one",
    "GPU165/fails_accelerator_label_and_claimed_gpus": "the group always has a node, which takes the pod",
    "GPU168/fails_group_and_node_pool_alike": "either autoscaler would do",
}


def probe(name: str, resource: str) -> dict[str, Any]:
    """A pod that tolerates everything and asks for one device."""
    container = {"name": "main", "image": "example.com/main:1", "resources": {"limits": {resource: 1}}}
    spec = {"tolerations": [{"operator": "Exists"}], "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="module")
def probes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pods = [probe("probe-whole", "nvidia.com/gpu"), probe("probe-shared", "nvidia.com/gpu.shared")]
    file = tmp_path_factory.mktemp("probes") / "probes.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
    return file


def with_probes(fixture: Path, probes: Path) -> Report:
    """Check by the rules that `explain` uses, which `of_the_cluster` selects. `test_rules` uses all rules."""
    return check(read_input([str(fixture), str(probes)]), every_rule=False)


def of_the_cluster(report: Report, *, unknown: bool = False) -> set[str]:
    """Errors, certain or not, about the needs of every GPU pod: pools, autoscalers, device managers, the cluster."""
    return {
        each.rule.id
        for each in report.findings
        if each.rule.severity == "error" and each.acknowledged is None and each.problem.unknown is unknown
        if each.rule.stops and _is_shared(each.problem.subject)
    }


def _is_shared(subject: Subject) -> bool:
    if isinstance(subject, Object):
        return subject.kind in SHARED
    return not isinstance(subject, (Workload, QueuedJob, Signal))


@pytest.mark.parametrize("fixture", fixtures("fails_*"), ids=name_of)
def test_no_pod_runs_for_certain_next_to_an_error_of_what_it_needs(fixture: Path, probes: Path) -> None:
    report = with_probes(fixture, probes)
    certain, possible = of_the_cluster(report), of_the_cluster(report, unknown=True)

    for case in report.cases if (certain or possible) and name_of(fixture) not in BESIDE else ():
        for verdict in report.explanation(case).verdicts:
            if "probe-" in verdict.workload.name and verdict.answer is Answer.YES:
                assert not certain
                unsaid = {
                    rule for rule in possible if not any(f"unless {rule} is" in text for text in verdict.rests_on)
                }
                assert not unsaid


def test_what_stops_is_the_reason(probes: Path) -> None:
    report = with_probes(FIXTURES / "GPU001" / "fails_cpu_image_on_an_l4.yaml", probes)

    [explanation] = [report.explanation(case) for case in report.cases]
    reasons = [each for verdict in explanation.verdicts for pool in verdict.pools for each in pool.reasons]

    assert "GPU001" in {each.rule for each in reasons}


@pytest.mark.parametrize(
    ("line", "stopped"),
    [
        ({"reason": "it is fixed next week"}, True),
        ({"reason": "Not true for us until May"}, True),
        ({"reason": "the size is set elsewhere", "not_true": True}, False),
    ],
)
def test_an_accepted_error_stops_pods_unless_it_is_not_true(
    tmp_path: Path, line: dict[str, Any], stopped: bool
) -> None:
    fixture = FIXTURES / "GPU058" / "fails_more_nodes_wanted_than_allowed.yaml"
    pod = probe("probe-whole", "nvidia.com/gpu")
    (tmp_path / "probe.json").write_text(json.dumps(pod))
    lines = {"acknowledgements": [{"id": "GPU058", **line}]}
    (tmp_path / "accepted.json").write_text(json.dumps(lines))

    report = check(read_input([str(fixture), str(tmp_path)]))

    [told] = [report.explanation(each) for each in report.cases]
    [verdict] = [each for each in told.verdicts if "probe-" in each.workload.name]
    rules = {each.rule for pool in verdict.pools for each in pool.reasons}
    assert not report.fails
    assert (verdict.answer is Answer.NO) is stopped
    assert ("GPU058" in rules) is stopped


def ray_cluster(**workers: dict[str, int]) -> dict[str, Any]:
    def template(requests: dict[str, int]) -> dict[str, Any]:
        limits = {"nvidia.com/gpu": 1}
        container = {"name": "ray", "image": "example.com/ray:2", "resources": {"limits": limits, "requests": requests}}
        return {"spec": {"tolerations": [{"operator": "Exists"}], "containers": [container]}}

    groups = [{"groupName": name, "replicas": 1, "template": template(each)} for name, each in workers.items()]
    spec = {"headGroupSpec": {"template": template({})}, "workerGroupSpecs": groups}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "ray"}, "spec": spec}


def test_an_error_of_one_group_stops_no_other(tmp_path: Path) -> None:
    (tmp_path / "ray.json").write_text(json.dumps(ray_cluster(right={}, wrong={"nvidia.com/gpu": 2})))
    fixture = FIXTURES / "GPU363" / "passes_bounds_in_order.yaml"

    report = check(read_input([str(fixture), str(tmp_path)]))

    [told] = [report.explanation(each) for each in report.cases]
    held = [each.workload.name for each in told.verdicts if "GPU122" in {one.rule for one in each.reasons}]
    assert held == ["RayCluster default/ray wrong"]


def test_beside_an_error_that_may_be_it_is_not_known_whether_a_pod_runs() -> None:
    report = check(read_input([str(FIXTURES / "GPU203" / "fails_configuration_that_is_not_seen.yaml")]))

    [told] = [report.explanation(each) for each in report.cases]
    answers = [each.answer for each in told.verdicts if "GPU203" in {one.rule for one in each.reasons}]
    assert answers == [Answer.UNKNOWN]


def test_a_pool_that_may_be_broken_leaves_open_whether_a_pod_runs(probes: Path) -> None:
    report = with_probes(FIXTURES / "GPU075" / "fails_nat_gateway_perhaps_not_among_the_callers.yaml", probes)

    [told] = [report.explanation(each) for each in report.cases]
    [verdict] = [each for each in told.verdicts if "probe-whole" in each.workload.name]
    assert verdict.answer is Answer.UNKNOWN
    assert "GPU075" in {each.rule for pool in verdict.pools for each in pool.reasons}


def test_a_no_of_the_pools_in_a_file_rests_on_there_being_no_others(tmp_path: Path) -> None:
    whole = (FIXTURES / "GPU120" / "fails_more_gpus_than_a_node_of_karpenter.yaml").read_text()
    told = {}
    for name, text in {"whole": whole, "pools": whole.partition("\n---\n")[2]}.items():
        file = tmp_path / f"{name}.yaml"
        file.write_text(text)
        report = check(read_input([str(file)]))
        told[name] = [each for case in report.cases for each in report.explanation(case).verdicts]

    assert {each.answer for verdicts in told.values() for each in verdicts} == {Answer.NO}
    assert [bool(each.rests_on) for each in told["whole"]] == [False]
    assert ["isn't in the input" in each.rests_on[0] for each in told["pools"]] == [True]


@pytest.mark.parametrize(("replicas", "rests"), [(1, False), (2, True)])
def test_a_result_depends_on_the_autoscaler_where_nodes_that_run_do_not_do(
    tmp_path: Path, replicas: int, rests: bool
) -> None:
    text = (Path(__file__).parent / "kept_and_grown.yaml").read_text()
    file = tmp_path / "stack.yaml"
    file.write_text(text.replace("replicas: 2", f"replicas: {replicas}"))

    report = check(read_input([str(file)]))

    [told] = [report.explanation(each) for each in report.cases]
    [verdict] = told.verdicts
    assert verdict.answer is (Answer.UNKNOWN if rests else Answer.YES)
    assert bool(verdict.runs_if) is rests


def test_which_node_a_shared_claim_is_of_is_not_known() -> None:
    report = check(read_input([str(Path(__file__).parent / "shared_claim.yaml")]))

    [told] = [report.explanation(each) for each in report.cases]
    assert [each.answer for each in told.verdicts] == [Answer.UNKNOWN]


def test_a_queue_that_is_shut_to_one_namespace_stops_no_job_of_another(tmp_path: Path) -> None:
    text = (FIXTURES / "GPU207" / "fails_namespace_without_the_label.yaml").read_text()
    place = text.index("apiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue")
    beside = text[place:].replace("team-x", "team-y")
    labelled = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team-y, labels: {quota: gpu}}\n"
    (tmp_path / "stack.yaml").write_text(f"{text}---\n{labelled}---\n{beside}")

    report = check(read_input([str(tmp_path)]))

    [told] = [report.explanation(each) for each in report.cases]
    assert {each.workload.namespace: each.answer for each in told.verdicts} == {
        "team-x": Answer.NO,
        "team-y": Answer.YES,
    }


def test_an_error_of_a_group_stops_pods_that_a_limit_range_gives_gpus(tmp_path: Path) -> None:
    """That ask for none by themselves."""
    kind = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "all", "namespace": "ml"}}
    limits = [{"type": "Container", "default": {"nvidia.com/gpu": 1}, "defaultRequest": {"nvidia.com/gpu": 1}}]
    pod = probe("probe-given", "cpu")
    pod["metadata"]["namespace"] = "ml"
    objects = {"apiVersion": "v1", "kind": "List", "items": [pod, {**kind, "spec": {"limits": limits}}]}
    (tmp_path / "all.json").write_text(json.dumps(objects))
    fixture = FIXTURES / "GPU058" / "fails_more_nodes_wanted_than_allowed.yaml"

    report = check(read_input([str(fixture), str(tmp_path)]))

    [told] = [report.explanation(each) for each in report.cases]
    assert [each.answer for each in told.verdicts if "probe-given" in each.workload.name] == [Answer.NO]


def test_a_taint_assumed_to_stay_is_reported_once(tmp_path: Path) -> None:
    pod = probe("probe-whole", "nvidia.com/gpu")
    del pod["spec"]["tolerations"]
    (tmp_path / "pod.json").write_text(json.dumps(pod))

    report = check(read_input([str(FIXTURES / "GPU420" / "fails_taint_among_those_that_stay.yaml"), str(tmp_path)]))

    [told] = [report.explanation(each) for each in report.cases]
    [against] = [pool.reasons for each in told.verdicts for pool in each.pools if pool.pool.mistaken_taints]
    assert len({each.text for each in against}) == len(against) > 0


def test_an_error_of_a_group_says_nothing_of_a_pod_that_asks_for_no_gpu(tmp_path: Path) -> None:
    pod = probe("probe-none", "nvidia.com/gpu")
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 0}}
    (tmp_path / "pod.json").write_text(json.dumps(pod))
    fixture = FIXTURES / "GPU058" / "fails_more_nodes_wanted_than_allowed.yaml"

    report = check(read_input([str(fixture), str(tmp_path)]))

    [told] = [report.explanation(each) for each in report.cases]
    assert not [each for each in told.verdicts if "probe-none" in each.workload.name]
    assert not [each for each in report.findings if "probe-none" in each.problem.message and each.rule.id == "GPU120"]
