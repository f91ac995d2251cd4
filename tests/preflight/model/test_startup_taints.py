"""Which taints of a pool last, and which its autoscaler only takes to last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.case import Case
from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.cluster_autoscaler import with_startup_taints
from gpu_preflight.model.software import Autoscaler
from gpu_preflight.model.taints import Taint, node_group_taints
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.reading.objects import Origin
from tests.preflight.rule_cases import FIXTURES

HERE = Origin("app.yaml", "Gpu")
S3 = Taint("s3.csi.aws.com/agent-not-ready", "true", "NoExecute")
OWN = Taint("example.com/warming", "true", "NoSchedule")
GPU = Taint("nvidia.com/gpu", "true", "NoSchedule")
RULES = FIXTURES / "GPU420"


def autoscaler(**flags: Any) -> Autoscaler:
    return Autoscaler("cluster-autoscaler", HERE, {name.replace("_", "-"): value for name, value in flags.items()})


def group(*taints: Taint) -> Pool:
    """A managed group that writes its taints, each with its value."""
    effects = {"NoExecute": "NO_EXECUTE", "NoSchedule": "NO_SCHEDULE"}
    written = [{"Key": each.key, "Value": each.value, "Effect": effects[each.effect]} for each in taints]
    properties = {"Taints": written}
    return Pool("gpu", "managed", HERE, taints=node_group_taints(properties), properties=properties)


def split(pool: Pool, *autoscalers: Autoscaler) -> tuple[tuple[Taint, ...], tuple[Taint, ...], tuple[Taint, ...]]:
    [made] = with_startup_taints([pool], autoscalers)
    return made.taints, made.startup_taints, made.mistaken_taints


def test_a_drivers_taint_does_not_last() -> None:
    assert split(group(GPU, S3)) == ((GPU,), (S3,), ())


def test_no_group_is_wrong_without_an_autoscaler() -> None:
    assert split(group(S3))[2] == ()


def test_an_autoscaler_that_is_not_configured_is_wrong() -> None:
    assert split(group(GPU, S3), autoscaler()) == ((GPU,), (S3,), (S3,))


@pytest.mark.parametrize(
    "flags",
    [
        {"startup_taint": S3.key},
        {"startup_taint": f"{OWN.key} {S3.key}"},
        {"startup_taint": [OWN.key, S3.key]},
        {"ignore_taint": S3.key},
        {"startup_taint_prefix": "s3.csi.aws.com/"},
        {"startup_taint": "${Key}"},
    ],
)
def test_an_autoscaler_that_is_or_may_be_configured_is_not(flags: dict[str, Any]) -> None:
    assert split(group(S3), autoscaler(**flags)) == ((), (S3,), ())


def test_another_key_tells_it_nothing() -> None:
    assert split(group(S3), autoscaler(startup_taint="ebs.csi.aws.com/agent-not-ready"))[2] == (S3,)


def test_a_taint_that_only_the_autoscaler_names_does_not_last() -> None:
    assert split(group(GPU, OWN), autoscaler(startup_taint=OWN.key)) == ((GPU,), (OWN,), ())
    assert split(group(GPU, OWN), autoscaler()) == ((GPU, OWN), (), ())


def test_karpenter_takes_what_is_listed_among_taints_to_last() -> None:
    pool = Pool("gpu", "karpenter", HERE, taints=(GPU, S3), startup_taints=(OWN,))

    assert split(pool) == ((GPU,), (OWN, S3), (S3,))


def test_karpenter_knows_startup_taints() -> None:
    pool = Pool("gpu", "karpenter", HERE, taints=(GPU,), startup_taints=(S3,))

    assert split(pool) == ((GPU,), (S3,), ())


# A pod that tolerates the taint of GPUs and no other.
POD = """---
apiVersion: v1
kind: Pod
metadata: {name: serve}
spec:
  tolerations: [{key: nvidia.com/gpu, operator: Exists}]
  containers:
  - name: serve
    image: registry.example.com/serve:1
    resources: {limits: {nvidia.com/gpu: 1}}
"""


@pytest.mark.parametrize(
    ("fixture", "answer"),
    [
        ("fails_group_and_an_autoscaler_that_is_not_told", Answer.NO),
        ("passes_group_and_an_autoscaler_that_is_told", Answer.YES),
        ("passes_group_that_is_never_empty", Answer.YES),
        ("fails_tag_of_a_self_managed_group", Answer.NO),
        ("fails_taint_among_those_that_stay", Answer.NO),
        ("passes_startup_taint_of_a_nodepool", Answer.YES),
    ],
)
def test_pods_need_not_tolerate_what_does_not_last(fixture: str, answer: Answer, tmp_path: Path) -> None:
    file = tmp_path / "app.yaml"
    file.write_text((RULES / f"{fixture}.yaml").read_text() + POD)
    [cluster] = clusters(read_input([str(file)]))

    [verdict] = Case(cluster).verdicts
    [of_gpus] = [each for each in verdict.pools if each.pool.startup_taints]
    assert of_gpus.answer is answer
    assert any("startup taint" in each.text for each in of_gpus.reasons) is (answer is Answer.NO)


@pytest.mark.parametrize(
    "goes",
    [
        Taint("node.kubernetes.io/not-ready", "true", "NoSchedule"),
        Taint("node.kubernetes.io/unreachable", "true", "NoExecute"),
        Taint("node.kubernetes.io/network-unavailable", "true", "NoSchedule"),
        Taint("node.cloudprovider.kubernetes.io/uninitialized", "true", "NoSchedule"),
    ],
    ids=str,
)
def test_a_taint_of_a_condition_goes_once_the_node_is_ready(goes: Taint) -> None:
    assert split(group(GPU, goes), autoscaler()) == ((GPU,), (goes,), ())


def test_kubernetes_removes_a_taint_of_a_condition_with_its_own_effect_only() -> None:
    kept = Taint("node.kubernetes.io/network-unavailable", "true", "NoExecute")

    assert split(group(kept), autoscaler())[0] == (kept,)
