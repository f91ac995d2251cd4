"""Updates of groups of pods for which there are no nodes."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.workload import Workload
from gpu_constructs.preflight.reading.objects import Object
from gpu_constructs.preflight.reading.unknown import dig, known_number
from gpu_constructs.preflight.rules.rule import Problem, rule


@rule("GPU442", "warning", source="https://lws.sigs.k8s.io/docs/concepts/rollout-strategy/")
def update_of_groups_that_needs_spare_nodes(case: Case) -> Iterator[Problem]:
    """Update of groups that needs spare nodes.

    maxSurge starts whole groups before others end; their pods stay Pending and hold what nodes there are.

    Fix: Set rolloutStrategy.rollingUpdateConfiguration.maxSurge: 0, with maxUnavailable: 1.
    """
    for owner in case.cluster.of_kind("LeaderWorkerSet"):
        rolling = dig(owner.spec, "rolloutStrategy", "rollingUpdateConfiguration")
        surge, groups = known_number(dig(rolling, "maxSurge")), known_number(owner.spec.get("replicas", 1))
        size = known_number(dig(owner.spec, "leaderWorkerTemplate", "size"))
        if not surge or groups is None or size is None:
            continue
        pods = _alike(case, owner)
        if (
            pods is None
            or _has_no_room(case, pods, groups * size)
            or not _has_no_room(case, pods, (groups + surge) * size)
        ):
            continue
        who = f"LeaderWorkerSet {owner.namespace}/{owner.name}"
        nodes = f"{(groups + surge) * size} pods, for {groups * size} of which the pools have room"
        yield Problem(owner, f"{who}: an update makes {nodes}", unknown=not case.cluster.whole)


def _alike(case: Case, owner: Object) -> Workload | None:
    """Return pods of a set, where all are alike in what they ask for and where they may run."""
    parts = [each for each in case.cluster.workloads if each.owner is owner]
    if not parts or not parts[0].asks_for_gpu:
        return None
    asks = [(each.pod.requests, each.pod.selection, each.pod.tolerations) for each in parts]
    return parts[0] if all(each == asks[0] for each in asks) else None


def _has_no_room(case: Case, pods: Workload, number: int) -> bool:
    """Whether the pools surely have no room for so many pods."""
    verdict = case.with_replicas(pods, number)
    return any(each.rule == "GPU121" and each.answer is Answer.NO for each in verdict.reasons)
