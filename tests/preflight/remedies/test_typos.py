"""A typo in a label that a pod selects is corrected, together with the other cheap changes that the pod needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_facts.labels import REGION
from gpu_preflight.judging.check import check
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.remedies.remedy import Remedy, fixes_by_workload
from gpu_preflight.remedies.workloads import _label_meant

_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_TOLERATE = "tolerate dedicated=gpu:NoSchedule"
_POOL: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "gpu"},
    "spec": {
        "template": {
            "metadata": {"labels": {"team": "inference"}},
            "spec": {
                "taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
                "requirements": [{"key": _INSTANCE_TYPE, "operator": "In", "values": ["g6.xlarge", "g6.2xlarge"]}],
            },
        }
    },
}


def _fixes(folder: Path, limits: dict[str, Any], **pod: Any) -> tuple[Remedy, ...]:
    container = {"name": "main", "image": "a/b:1", "resources": {"limits": {"nvidia.com/gpu": 1, **limits}}}
    workload = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "llm"},
        "spec": {
            "selector": {"matchLabels": {"app": "llm"}},
            "template": {"metadata": {"labels": {"app": "llm"}}, "spec": {"containers": [container], **pod}},
        },
    }
    (folder / "all.yaml").write_text(yaml.safe_dump_all([_POOL, workload]))
    given = read_input([str(folder / "all.yaml")], assumed=frozenset({"karpenter", "device-plugin"}))
    [case] = check(given).cases
    [(found, _)] = fixes_by_workload(given, case, case.verdicts).values()
    return found


def _affinity(key: str, *values: str) -> dict[str, Any]:
    expression = {"key": key, "operator": "In", "values": list(values)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        ({"nodeSelector": {"team": "infernce"}}, "select team=inference instead of team=infernce"),
        ({"nodeSelector": {"taem": "inference"}}, "select team=inference instead of taem=inference"),
        (
            {"nodeSelector": {_INSTANCE_TYPE: "g6.xlagre"}},
            f"select {_INSTANCE_TYPE}=g6.xlarge instead of {_INSTANCE_TYPE}=g6.xlagre",
        ),
        (_affinity("team", "infernce"), "require team In (inference) instead of team In (infernce)"),
        (_affinity("taem", "inference"), "require team In (inference) instead of taem In (inference)"),
    ],
    ids=["value", "key", "type", "value of an affinity", "key of an affinity"],
)
def test_a_typo_and_a_missing_toleration_are_fixed_together(pod: dict[str, Any], text: str, tmp_path: Path) -> None:
    [first, *_] = _fixes(tmp_path, {}, **pod)

    assert first.text == f"{text}, and {_TOLERATE}"
    assert all(not each.of_pool for each in first.changes)


def test_a_larger_type_of_the_same_pool_comes_with_the_corrected_label(tmp_path: Path) -> None:
    [first, *_] = _fixes(tmp_path, {"memory": "200Gi"}, **_affinity("team", "infernce"))

    assert [each.of_pool for each in first.changes] == [True, False, False]
    assert "require team In (inference) instead of team In (infernce)" in first.text
    assert _TOLERATE in first.text


def test_a_label_is_not_added_to_the_pool_and_corrected_in_the_pod(tmp_path: Path) -> None:
    for each in _fixes(tmp_path, {}, nodeSelector={"taem": "inference"}):
        assert not ("label the nodes" in each.text and "instead of" in each.text)


@pytest.mark.parametrize(
    ("key", "value", "have"),
    [
        (_INSTANCE_TYPE, "g6.4xlarge", "g6.xlarge"),
        ("kubernetes.io/arch", "arm64", "amd64"),
        ("nvidia.com/gpu.product", "NVIDIA-L4", "NVIDIA-L40S"),
    ],
)
def test_a_value_that_ec2_has_is_no_typo(
    key: str, value: str, have: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(_POOL["spec"]["template"]["metadata"]["labels"], key, have)

    for each in _fixes(tmp_path, {}, nodeSelector={key: value}):
        assert "instead of" not in each.text


def test_another_region_is_no_typo() -> None:
    assert _label_meant(REGION, ["us-east-1"], {REGION: {"us-west-1"}}) is None
    assert _label_meant(REGION, ["us-west1"], {REGION: {"us-west-1"}}) == (REGION, ["us-west-1"])
