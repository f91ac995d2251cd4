"""Updates of groups of pods for which there are no nodes."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_preflight.case import Case
from gpu_preflight.cluster.objects.storage import is_ebs
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, known_number
from gpu_preflight.rules.rule import Problem, rule

_ONE_NODE = "ReadWriteOnce"


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


@rule(
    "GPU493", "warning", source="https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#max-unavailable"
)
def update_of_a_deployment_that_needs_a_spare_gpu(case: Case) -> Iterator[Problem]:
    """Rolling update of a Deployment needs a spare GPU that no pool has.

    The update starts a new pod before it ends an old one. The new pod stays Pending, the old one keeps its GPU, and the
    update never ends. Kubernetes updates a Deployment without a strategy this way if it has three replicas or fewer.

    Fix: Set strategy.type: Recreate, or rollingUpdate with maxSurge: 0 and maxUnavailable: 1, or raise the limit of the
    pool.
    """
    for workload in case.gpu_workloads:
        rolling = dig(dict(workload.owner.spec), "strategy", "rollingUpdate")
        if not _surge_without_end(workload) or not workload.replicas or workload.suspended:
            continue
        if _has_no_room(case, workload, workload.replicas) or not _has_no_room(case, workload, workload.replicas + 1):
            continue
        gone = "0" if dig(rolling, "maxUnavailable") is not None else "0: the default of 25%, rounded down"
        text = f"a rolling update starts pod {workload.replicas + 1} before it ends one (maxUnavailable {gone}),"
        text += " and the pools"
        yield Problem.of(workload, f"{text} have room for {workload.replicas}", unknown=not case.cluster.whole)


@rule("GPU494", "warning", source="https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes")
def update_of_a_deployment_whose_disk_is_in_use(case: Case) -> Iterator[Problem]:
    """Rolling update of a Deployment needs a disk that the old pod still uses.

    The new pod starts on another node and hangs in ContainerCreating with a Multi-Attach error. The old pod stays until
    the new one is ready, so that the update never ends.

    Fix: Set strategy.type: Recreate, or use a volume that several nodes can mount.
    """
    for workload, claim in case.gpu_claims:
        if not _surge_without_end(workload) or workload.replicas != 1 or claim.name is None or claim.spec is None:
            continue
        if claim.modes != [_ONE_NODE] or not is_ebs(claim, case.cluster):
            continue
        # On a node with room for both pods, the update works.
        rooms = [each.per_node for each in case.verdict(workload).pools if each.answer is not Answer.NO]
        alone = bool(rooms) and all(each == 1 for each in rooms)
        text = f"a rolling update starts a second pod, and {claim.title} is {_ONE_NODE}"
        yield Problem.of(workload, text, unknown=not alone)


def _surge_without_end(workload: Workload) -> int:
    """Return how many pods an update starts before it ends any; 0 where it ends one first, or it isn't known.

    Source: kubernetes/kubernetes v1.36.3 pkg/controller/deployment/util/deployment_util.go ``ResolveFenceposts``:
    maxSurge rounds up and maxUnavailable down, each 25 % by default.
    """
    owner, replicas = workload.owner, workload.replicas
    kind = dig(dict(owner.spec), "strategy", "type")
    if owner.kind != "Deployment" or kind not in (None, "RollingUpdate") or replicas is None:
        return 0
    rolling = dig(dict(owner.spec), "strategy", "rollingUpdate")
    surge = _pods(dig(rolling, "maxSurge"), replicas, up=True)
    gone = _pods(dig(rolling, "maxUnavailable"), replicas, up=False)
    return surge if surge and gone == 0 else 0


def _pods(value: object, replicas: int, *, up: bool) -> int | None:
    """Return a number of pods that is written as a number or as a share; ``None`` where it is not known."""
    text = "25%" if value is None else str(value)
    if isinstance(value, Unknown) or not text.removesuffix("%").isdigit():
        return None
    if not text.endswith("%"):
        return int(text)
    amount = int(text[:-1]) * replicas
    return -(-amount // 100) if up else amount // 100


def _alike(case: Case, owner: Object) -> Workload | None:
    """Return pods of a set, where all are alike in what they ask for and where they may run."""
    parts = case.cluster.workloads_of(owner)
    if not parts or not parts[0].asks_for_gpu:
        return None
    asks = [(each.pod.requests, each.pod.selection, each.pod.tolerations) for each in parts]
    return parts[0] if all(each == asks[0] for each in asks) else None


def _has_no_room(case: Case, pods: Workload, number: int) -> bool:
    """Whether the pools surely have no room for so many pods."""
    verdict = case.with_replicas(pods, number)
    return any(each.rule == "GPU121" and each.answer is Answer.NO for each in verdict.reasons)
