"""NodePools of reserved capacity: Karpenter launches some only where the class selects a reservation."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_facts.labels import CAPACITY_TYPE
from gpu_preflight.case import Case
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.label_values import Requirement
from gpu_preflight.model.launch import class_launch
from gpu_preflight.model.software import Autoscaler
from gpu_preflight.reading.unknown import Unknown
from tests.preflight.readers import ORIGIN, pool, workload

TERMS = "capacityReservationSelectorTerms"


def against(capacity: tuple[str, ...], node_class: dict[str, Any], selected: str | None = None) -> set[str]:
    """The certain reasons against a NodePool for a pod, by kind."""
    types = (Requirement("node.kubernetes.io/instance-type", "In", ("g6.xlarge",)),)
    launch = class_launch({"role": "nodes", **node_class})
    nodes = pool(kind="karpenter", requirements=types, capacity_types=capacity, launch=launch)
    chosen = {CAPACITY_TYPE: selected} if selected else {}
    spec = {"nodeSelector": chosen, "containers": [{"name": "main", "image": "busybox"}]}
    pods = workload("Deployment", {"replicas": 1, "template": {"spec": spec}})
    karpenter = Autoscaler("karpenter", ORIGIN, {"clusterName": "demo"}, "1.15.1")
    verdict = Case(Cluster(name="demo", pools=(nodes,), autoscalers=(karpenter,), workloads=(pods,))).verdict(pods)
    return {each.kind for judged in verdict.pools for each in judged.reasons if each.answer is Answer.NO}


@pytest.mark.parametrize(
    ("capacity", "node_class", "expected"),
    [
        (("reserved",), {}, {"autoscaler"}),
        (("reserved",), {TERMS: [{"id": "cr-0123456789abcdef0"}]}, set()),
        (("reserved",), {TERMS: Unknown("${later}")}, set()),
        (("reserved", "on-demand"), {}, set()),
    ],
)
def test_reserved_capacity_is_that_which_the_class_selects(
    capacity: tuple[str, ...], node_class: dict[str, Any], expected: set[str]
) -> None:
    assert against(capacity, node_class) == expected


def test_no_node_is_labelled_reserved_where_the_class_selects_none() -> None:
    both = ("reserved", "on-demand")

    assert against(both, {}, selected="reserved") == {"label"}
    assert against(both, {TERMS: [{"id": "cr-0123456789abcdef0"}]}, selected="reserved") == set()
