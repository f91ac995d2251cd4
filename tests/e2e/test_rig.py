"""The rig returns the decision of a scheduler about each pair alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gpu_rehearsal.cluster.client import Object
from tests.e2e.case import Case, Decision
from tests.e2e.rig import Rig

FITS = Decision(scheduled=True)
OTHER_LABELS = "node(s) didn't match Pod's node affinity/selector"


def node(**changes: Any) -> Object:
    """A GPU node, with ``changes`` applied to its spec."""
    labels = {"kubernetes.io/arch": "amd64", "kubernetes.io/hostname": "gpu", "generation": "5"}
    allocatable = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1", "pods": "10"}
    return {
        "metadata": {"name": "gpu", "labels": labels},
        "spec": changes,
        "status": {"allocatable": allocatable, "capacity": allocatable},
    }


def pod(requests: dict[str, str] | None = None, *, port: int | None = None, **changes: Any) -> Object:
    """A pod that asks for one CPU, with ``changes`` applied to its spec."""
    asked = {"cpu": "1"} if requests is None else requests
    ports = [] if port is None else [{"containerPort": port, "hostPort": port}]
    container = {"name": "main", "image": "none", "resources": {"requests": asked, "limits": asked}, "ports": ports}
    return {"metadata": {"labels": {"app": "demo"}}, "spec": {"containers": [container]} | changes}


def on_nodes(*terms: Object) -> Object:
    """Affinity to nodes, as alternatives."""
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def generation(operator: str, *values: str) -> Object:
    return {"matchExpressions": [{"key": "generation", "operator": operator, "values": list(values)}]}


def named(name: str) -> Object:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}


def alone(key: str) -> Object:
    """Refusal to share a domain with pods of the same app."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "demo"}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


TAINT = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}
ELSEWHERE = pod() | {"metadata": {"namespace": "kube-system", "labels": {"app": "demo"}}}


def no(reason: str) -> Decision:
    return Decision(scheduled=False, message=reason)


PAIRS: dict[str, tuple[Case, Decision]] = {
    "nothing special": (Case(node=node(), pod=pod()), FITS),
    "all CPU": (Case(node=node(), pod=pod({"cpu": "4"})), FITS),
    "too much CPU": (Case(node=node(), pod=pod({"cpu": "4001m"})), no("Insufficient cpu")),
    "CPU that a bound pod has": (Case(node=node(), pod=pod({"cpu": "4"}), bound=[pod()]), no("Insufficient cpu")),
    "its GPU": (Case(node=node(), pod=pod({"nvidia.com/gpu": "1"})), FITS),
    "two GPUs": (Case(node=node(), pod=pod({"nvidia.com/gpu": "2"})), no("Insufficient nvidia.com/gpu")),
    "a device that no node has": (Case(node=node(), pod=pod({"example.com/a": "1"})), no("Insufficient example.com/a")),
    "a taint": (Case(node=node(taints=[TAINT]), pod=pod()), no("node(s) had untolerated taint(s)")),
    "a tolerated taint": (Case(node=node(taints=[TAINT]), pod=pod(tolerations=[{"operator": "Exists"}])), FITS),
    "greater": (Case(node=node(), pod=pod(affinity=on_nodes(generation("Gt", "4")))), FITS),
    "not greater": (Case(node=node(), pod=pod(affinity=on_nodes(generation("Gt", "5")))), no(OTHER_LABELS)),
    "not less": (Case(node=node(), pod=pod(affinity=on_nodes(generation("Lt", "5")))), no(OTHER_LABELS)),
    "not among": (Case(node=node(), pod=pod(affinity=on_nodes(generation("NotIn", "4")))), FITS),
    "among those left out": (Case(node=node(), pod=pod(affinity=on_nodes(generation("NotIn", "5")))), no(OTHER_LABELS)),
    "one of two alternatives": (
        Case(node=node(), pod=pod(affinity=on_nodes(generation("Lt", "5"), generation("In", "5")))),
        FITS,
    ),
    "a term that says nothing": (Case(node=node(), pod=pod(affinity=on_nodes({}))), no(OTHER_LABELS)),
    "its node by name": (Case(node=node(), pod=pod(affinity=on_nodes(named("gpu")))), FITS),
    "another node by name": (
        Case(node=node(), pod=pod(affinity=on_nodes(named("cpu")))),
        no("pod affinity terms conflict"),
    ),
    "its architecture": (Case(node=node(), pod=pod(nodeSelector={"kubernetes.io/arch": "amd64"})), FITS),
    "another": (Case(node=node(), pod=pod(nodeSelector={"kubernetes.io/arch": "arm64"})), no(OTHER_LABELS)),
    "a free port": (Case(node=node(), pod=pod(port=8080), bound=[pod(port=8081)]), FITS),
    "a taken port": (
        Case(node=node(), pod=pod(port=8080), bound=[pod(port=8080)]),
        no("node(s) didn't have free ports for the requested pod ports"),
    ),
    "company it refuses": (
        Case(node=node(), pod=pod(affinity=alone("kubernetes.io/hostname")), bound=[pod()]),
        no("node(s) didn't match pod anti-affinity rules"),
    ),
    "the same in another namespace": (
        Case(node=node(), pod=pod(affinity=alone("kubernetes.io/hostname")), bound=[ELSEWHERE]),
        FITS,
    ),
    "a cordoned node": (Case(node=node(unschedulable=True), pod=pod()), no("node(s) were unschedulable")),
}


@pytest.fixture(scope="module")
def decisions(rig: Rig) -> dict[str, Decision]:
    """The scheduler's decision about all pairs, side by side in one cluster."""
    return dict(zip(PAIRS, rig.decide([case for case, _ in PAIRS.values()]), strict=True))


@pytest.mark.parametrize("pair", PAIRS)
def test_the_scheduler_says(pair: str, decisions: dict[str, Decision]) -> None:
    assert decisions[pair] == PAIRS[pair][1]


def test_a_pod_that_is_none_is_refused(rig: Rig) -> None:
    [typo, negative] = rig.decide([Case(node=node(), pod=pod(tolerate=[])), Case(node=node(), pod=pod({"cpu": "-1"}))])

    assert 'unknown field "spec.tolerate"' in typo.refused
    assert "must be greater than or equal to 0" in negative.refused
    assert not typo.scheduled
    assert not negative.scheduled


def rounds(times: int) -> Sequence[Case]:
    return [case for case, _ in PAIRS.values()] * times


def test_pairs_of_several_batches_do_not_see_each_other(rig: Rig) -> None:
    with Rig(rig.plane, batch=40) as small:
        decided = small.decide(rounds(4))

    assert decided == [decision for _, decision in PAIRS.values()] * 4


def test_nothing_is_left_behind(rig: Rig) -> None:
    rig.decide(rounds(1))

    for kind in ("pods", "nodes"):
        assert rig.client.get(f"/api/v1/{kind}")["items"] == []
