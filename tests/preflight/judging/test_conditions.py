"""A result on a partial input states its assumptions and conditions, and no headline passes over what is undecided."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_preflight.judging.check import Report, check
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.report.view import check_view, explain_view
from gpu_preflight.report.wording import headline
from gpu_preflight.scheduling.verdict import Verdict

YES, NO, UNKNOWN = Answer.YES, Answer.NO, Answer.UNKNOWN
PLUGIN = "a device plugin advertises nvidia.com/gpu"


def pod(gpus: int = 1, replicas: int = 1, **spec: Any) -> dict[str, Any]:
    """A Deployment of pods with GPUs."""
    container = {"name": "a", "resources": {"limits": {"nvidia.com/gpu": gpus}}, **spec.pop("container", {})}
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container], **spec}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "a"}}, "template": template},
    }


def pool(*types: str) -> dict[str, Any]:
    """A NodePool of some types."""
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": list(types)}
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"}
    made = {"requirements": [requirement], "nodeClassRef": reference}
    spec = {"limits": {"nvidia.com/gpu": 8}, "template": {"spec": made}}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "gpu"}, "spec": spec}


def plugin() -> dict[str, Any]:
    """NVIDIA's device plugin on every node."""
    container = {"name": "plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"}
    template = {
        "metadata": {"labels": {"app": "p"}},
        "spec": {"containers": [container], "tolerations": [{"operator": "Exists"}]},
    }
    spec = {"selector": {"matchLabels": {"app": "p"}}, "template": template}
    metadata = {"name": "plugin", "namespace": "kube-system"}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec}


def report_of(folder: Path, *objects: Any) -> Report:
    """The report on one file."""
    (folder / "all.yaml").write_text(yaml.safe_dump_all(objects))
    return check(read_input([str(folder / "all.yaml")]))


def verdict(folder: Path, *objects: Any) -> Verdict:
    """The verdict on its one workload."""
    report = report_of(folder, *objects)
    [found] = report.explanation(report.cases[0]).verdicts
    return found


def test_a_component_that_is_not_in_the_input_is_a_condition(tmp_path: Path) -> None:
    found = verdict(tmp_path, pod(), pool("g6.xlarge"))

    assert (found.answer, found.runs_if) == (UNKNOWN, (PLUGIN,))


def test_with_every_component_it_runs(tmp_path: Path) -> None:
    found = verdict(tmp_path, pod(), pool("g6.xlarge"), plugin())

    assert (found.answer, found.runs_if) == (YES, ())


def test_an_assumed_component_satisfies_its_condition(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all([pod(), pool("g6.xlarge")]))
    given = read_input([str(tmp_path / "all.yaml")], assumed=frozenset(("device-plugin",)))

    [found] = check(given).explanation(check(given).cases[0]).verdicts

    assert found.answer is YES
    assert "assumed: device-plugin" in found.rests_on


def test_something_else_unknown_leaves_no_condition(tmp_path: Path) -> None:
    found = verdict(tmp_path, pod(schedulingGates=[{"name": "example.com/gate"}]), pool("g6.xlarge"))

    assert (found.answer, found.runs_if) == (UNKNOWN, ())


@pytest.mark.parametrize(
    ("spec", "gpus", "smallest"),
    [
        ({}, 1, "g4dn.xlarge"),
        ({"nodeSelector": {"node.kubernetes.io/instance-type": "p5.48xlarge"}}, 8, "p5.48xlarge"),
        (
            {"nodeSelector": {"karpenter.k8s.aws/instance-gpu-name": "l4", "team": "ml"}},
            4,
            "g6.12xlarge and labels team",
        ),
    ],
)
def test_without_a_pool_the_smallest_type_is_named(tmp_path: Path, spec: Any, gpus: int, smallest: str) -> None:
    found = verdict(tmp_path, pod(gpus, **spec))

    assert found.answer is UNKNOWN
    assert smallest in found.runs_if[0]


def test_no_pool_takes_what_no_type_has(tmp_path: Path) -> None:
    found = verdict(tmp_path, pod(8, nodeSelector={"node.kubernetes.io/instance-type": "g5.xlarge"}))

    assert found.answer is NO


def test_a_yes_lists_the_objects_that_it_relies_on(tmp_path: Path) -> None:
    wanted = pod(
        runtimeClassName="nvidia",
        serviceAccountName="llm",
        priorityClassName="high",
        container={"envFrom": [{"secretRef": {"name": "token"}}]},
        volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "weights"}}],
    )

    found = verdict(tmp_path, wanted, pool("g6.xlarge"), plugin())

    assert found.answer is YES
    for each in ("RuntimeClass nvidia", "ServiceAccount default/llm", "PriorityClass high", "Secret default/token"):
        assert f"{each} exists" in found.rests_on
    assert any("weights" in each for each in found.rests_on)
    assert any("IAM role" in each for each in found.rests_on)


@pytest.mark.parametrize(
    ("objects", "outcome", "words"),
    [
        ((pod(), pool("g6.xlarge"), plugin()), "pass", "GPU check passes"),
        ((pod(), pool("g6.xlarge")), "unknown", "1 of 1 GPU workload was not decided"),
        ((pod(), pool("m6i.xlarge"), plugin()), "fail", "GPU check fails: 1 workload would stay Pending"),
    ],
)
def test_check_and_explain_agree(tmp_path: Path, objects: Any, outcome: str, words: str) -> None:
    report = report_of(tmp_path, *objects)
    checked = check_view(report)
    explained = explain_view([report.explanation(each) for each in report.cases], report.unread)

    assert (checked.outcome, explained.outcome) == (outcome, outcome)
    assert words in headline(checked)


def test_types_that_are_too_small_don_t_count_where_the_plugin_is_not_in_the_input(tmp_path: Path) -> None:
    objects = pool("g6e.xlarge", "g6e.12xlarge"), pod(gpus=4, replicas=2)

    fits = verdict(tmp_path, *objects)
    too_many = verdict(tmp_path, objects[0], pod(gpus=4, replicas=3))

    assert fits.runs_if == (PLUGIN,)
    assert [each.nodes for each in fits.pools] == [2]
    assert {node.instance_type for each in fits.pools for node in each.nodes_taking} == {"g6e.12xlarge"}
    assert too_many.answer is NO


def test_an_assumed_autoscaler_counts_next_to_an_application_of_other_software(tmp_path: Path) -> None:
    source = {"repoURL": "https://grafana.github.io/helm-charts", "chart": "grafana", "targetRevision": "10.0.0"}
    grafana = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "grafana", "namespace": "argocd"},
        "spec": {"source": source, "destination": {"namespace": "grafana"}},
    }
    node_class = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "gpu"},
        "spec": {
            "role": "nodes",
            "amiSelectorTerms": [{"alias": "al2023@v20260903"}],
            "subnetSelectorTerms": [{"tags": {"a": "b"}}],
            "securityGroupSelectorTerms": [{"tags": {"a": "b"}}],
        },
    }
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all([pool("g6e.12xlarge"), pod(), plugin(), grafana, node_class]))

    def answer(*assumed: str) -> Answer:
        report = check(read_input([str(tmp_path / "all.yaml")], assumed=frozenset(assumed)))
        [explanation] = [report.explanation(case) for case in report.cases]
        return explanation.verdicts[0].answer

    assert (answer(), answer("karpenter")) == (UNKNOWN, YES)
