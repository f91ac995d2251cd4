"""A report has one line for instances that join the cluster, and one for kubelets that are reached."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from gpu_rehearsal.play import check_network
from gpu_rehearsal.report import Outcome
from gpu_rehearsal.stage import Stage


def lines(*, kubelets: dict[str, str] | None = None, never: dict[str, str] | None = None) -> list[tuple[Outcome, str]]:
    nodes = SimpleNamespace(kubelets=kubelets or {}, never=never or {})
    return [(each.outcome, each.text) for each in check_network(cast("Stage", SimpleNamespace(nodes=nodes)))]


def test_without_an_instance_nothing_was_tried() -> None:
    assert lines() == []


def test_nodes_that_joined_and_are_reached() -> None:
    joined, reached, unchecked = lines(kubelets={"i-1": "", "i-2": ""})

    assert (joined, reached) == ((Outcome.HELD, "2 of 2"), (Outcome.HELD, "2 of 2"))
    assert unchecked[0] is Outcome.NOT_PLAYED
    assert unchecked[1].startswith("network ACLs, ")


def test_an_instance_that_never_joins_and_a_kubelet_that_is_not_reached() -> None:
    joined, reached, _ = lines(kubelets={"i-1": "closed"}, never={"i-2": "no route", "i-3": "no route"})

    assert (joined, reached) == ((Outcome.FAILED, "no route"), (Outcome.FAILED, "closed"))
