"""Preflight and the real kube-scheduler are asked the same, thousands of times."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings

from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.label_values import Selection
from gpu_preflight.node.nodes import nodes_to_be, reaches
from gpu_preflight.reading.inputs import Input
from gpu_preflight.scheduling import fitting
from tests.e2e.case import Case
from tests.e2e.judges import EXAMPLES, Judges
from tests.e2e.questions import daemon_pod, fate, label_choices, node_manifest, questions
from tests.e2e.rig import Rig
from tests.preflight.scheduling.decided import CASES, Decided
from tests.preflight.strategies.vocabulary import Json
from tests.preflight.strategies.worlds import worlds
from tests.preflight.world_files import read

# The average of each example.
DECISIONS = 4


def test_preflight_says_what_becomes_of_pods(rig: Rig) -> None:
    judges = Judges(rig)

    judges.ask()

    told = judges.told
    print(dict(told))
    assert told.total() >= DECISIONS * EXAMPLES
    # Not by saying no to everything, nor nothing.
    assert told["runs", "runs"] >= 0.1 * told.total()
    assert told["refused", "refused"] >= 0.05 * told.total()
    assert sum(count for (said, _), count in told.items() if said == "unknown") <= 0.05 * told.total()


def test_a_wrong_judge_is_found(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A preflight that sees no taints fails soon, and on little."""
    monkeypatch.setattr(fitting, "untolerated", lambda *_: [])
    judges = Judges(rig, shrink_seconds=60)

    with pytest.raises(AssertionError, match="keep it in"):
        judges.ask(40, most=2)

    found = judges.smallest
    assert "runs" not in found["decided"].values()
    assert len(found["resources"]) <= 5
    assert set(found["pod"]["spec"]) == {"containers"}


@pytest.mark.parametrize("name", CASES)
def test_what_is_kept_was_decided_so(rig: Rig, name: str) -> None:
    kept = Decided.read(name)
    asked = questions(kept.world, [kept.pod], room=kept.room)

    decisions = rig.decide([each.case for each in asked])

    found = {each.place: fate(decision) for each, decision in zip(asked, decisions, strict=True)}
    assert {place: found[place] for place in kept.decided} == kept.decided


def test_daemon_sets_reach_the_nodes_that_the_scheduler_lets_them_reach(rig: Rig) -> None:
    asked: list[tuple[Case, Answer]] = []

    @settings(max_examples=EXAMPLES // 2)
    @given(worlds())
    def collect(world: Json) -> None:
        cluster = read(world)
        for pool in (each for each in cluster.pools if each.is_group):
            [node] = nodes_to_be(pool, cluster)
            for daemon in cluster.daemon_sets:
                [labels, *_] = label_choices(node, Selection())
                manifest = node_manifest("node", node, labels, cluster.daemon_sets, 100)
                asked.append((Case(node=manifest, pod=daemon_pod(daemon, cluster)), reaches(daemon, pool, cluster)))

    collect()
    decisions = rig.decide([case for case, _ in asked])

    told = Counter((said.value, fate(decision)) for (_, said), decision in zip(asked, decisions, strict=True))
    print(dict(told))
    assert set(told) <= {("yes", "runs"), ("no", "waits"), ("unknown", "runs"), ("unknown", "waits")}
    assert told["yes", "runs"] + told["no", "waits"] >= 0.9 * len(asked)


def test_an_empty_cluster_has_no_case() -> None:
    assert [each.pools for each in clusters(Input({}, (), ()))] == [()]
