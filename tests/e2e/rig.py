"""The real scheduler's decision about a pod on one node, or on some, and no other, for thousands of pairs.

    with control_plane(folder, controllers=(), scheduler=UNDISTURBED) as plane, Rig(plane) as rig:
        [decision] = rig.decide([Case(node=node, pod=pod, bound=[daemon])])

Many pairs share a cluster, and none sees another. A pod is held to its node by the node's name, which is added to every
term of its node affinity: terms are alternatives, so each of them then means that node and nothing else changes. And
each pair has its own namespaces, so that affinity between pods, which looks into the pod's own namespace, counts only
its pods. Only a pod that names other namespaces in such a term would see too little. Objects for admission, such as
limit ranges and classes, are created first, for one pair alone.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import TypeVar

from gpu_rehearsal.cluster.client import THREADS, ApiError, Object
from gpu_rehearsal.cluster.control_plane import ControlPlane
from gpu_rehearsal.processes import wait_until
from tests.e2e.case import ASKED, Case, Decision, Pair, decision_on, last_pair

DECIDE_SECONDS = 60.0
POLL_SECONDS = 0.02
# Statuses with which the API server rejects an object.
REFUSALS = (400, 403, 409, 422)
# A scheduler that decides by the room next to existing pods, doesn't wait before it tries again, and doesn't
# preempt.
UNDISTURBED: Object = {
    "podInitialBackoffSeconds": 1,
    "podMaxBackoffSeconds": 1,
    "profiles": [{"plugins": {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}}],
}

Given = TypeVar("Given")
Made = TypeVar("Made")


class Rig:
    """A control plane that decides on pairs.

    Args:
        plane: The control plane; nothing else should make pods and nodes in it.
        batch: Pairs that are in it at once.
    """

    def __init__(self, plane: ControlPlane, *, batch: int = 200) -> None:
        self.plane, self.client, self.batch = plane, plane.client, batch
        self._numbers = itertools.count()
        self._namespaces: set[str] = set()
        self._threads = ThreadPoolExecutor(THREADS)

    def __enter__(self) -> Rig:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown()

    def decide(self, cases: Sequence[Case]) -> list[Decision]:
        """Return what the scheduler decides on each pair, in their order.

        Raises:
            ApiError: The API server takes no such node or bound pod.
            RuntimeError: The scheduler decided nothing, with the end of its log.
        """
        decisions: list[Decision] = []
        for start in range(0, len(cases), self.batch):
            decisions += self._decide(cases[start : start + self.batch])
        return decisions

    def _decide(self, cases: Sequence[Case]) -> list[Decision]:
        pairs = [Pair(case, slot=slot, number=next(self._numbers)) for slot, case in enumerate(cases)]
        last = last_pair(next(self._numbers))
        try:
            self._in_threads(self._place, pairs)
            self._wait_for_the_scheduler(last)
            refused = dict(zip(pairs, self._in_threads(self._ask, pairs), strict=True))
            decided = self._decisions([pair for pair in pairs if refused[pair] is None])
        finally:
            self._remove([*pairs, last])
        return [refused[pair] or decided[pair.namespace] for pair in pairs]

    def _place(self, pair: Pair) -> None:
        """Create the nodes, the pods on them, and the objects that exist before the pod."""
        for node in pair.nodes:
            self.client.create(node)
        described = {each["metadata"]["name"]: each for each in pair.objects if each["kind"] == "Namespace"}
        for namespace in pair.namespaces - self._namespaces:
            bare = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            self.client.apply(described.get(namespace, bare))
            self._namespaces.add(namespace)
        for each in pair.objects:
            self.client.apply(each)
        for name in (each["metadata"]["name"] for each in pair.objects if each["kind"] == "PriorityClass"):
            wait_until(partial(self._knows_priority, name), "a priority class")
        for pod in pair.bound:
            self.client.create(pod)

    def _knows_priority(self, name: str) -> bool:
        """Whether the server lets pods of a priority class in: of these alone it does not ask its store again."""
        spec = {"priorityClassName": name, "containers": [{"name": "main", "image": "none"}]}
        metadata = {"name": "probe", "namespace": "default"}
        try:
            self.client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, dryRun="All")
        except ApiError:
            return False
        return True

    def _wait_for_the_scheduler(self, last: Pair) -> None:
        """Return when it knows all nodes and bound pods: it hears of them in order, so when it knows the last."""
        self._place(last)
        self._ask(last)
        self._decisions([last], until=lambda decision: decision.scheduled)

    def _ask(self, pair: Pair) -> Decision | None:
        """Create the pod, and return the error if the server rejects it."""
        try:
            self.client.create(pair.pod, fieldValidation="Strict")
        except ApiError as refused:
            if refused.status not in REFUSALS:
                raise
            return Decision(scheduled=False, refused=refused.message)
        return None

    def _decisions(
        self, pairs: Sequence[Pair], until: Callable[[Decision], bool] = lambda decision: True
    ) -> dict[str, Decision]:
        """Return the first decision on each pair that will do, by its pod's namespace."""
        found: dict[str, Decision] = {}
        wanted = {pair.namespace for pair in pairs}
        deadline = time.monotonic() + DECIDE_SECONDS
        while wanted - found.keys():
            if time.monotonic() > deadline:
                left = sorted(wanted - found.keys())
                raise RuntimeError(f"no decision on {len(left)} pods, {left[:3]}\n{self.plane.scheduler.tail()}")
            time.sleep(POLL_SECONDS)
            for pod in self.client.get("/api/v1/pods", fieldSelector=f"metadata.name={ASKED}")["items"]:
                decision = decision_on(pod)
                if decision is not None and until(decision):
                    found.setdefault(pod["metadata"]["namespace"], decision)
        return found

    def _remove(self, pairs: Sequence[Pair]) -> None:
        """Delete all pods and nodes; the namespaces stay for the next batch."""
        namespaces = set().union(*(pair.namespaces for pair in pairs)) & self._namespaces
        self._in_threads(lambda name: self.client.delete(f"/api/v1/namespaces/{name}/pods"), sorted(namespaces))
        self.client.delete("/api/v1/nodes")

    def _in_threads(self, do: Callable[[Given], Made], on: Iterable[Given]) -> list[Made]:
        doing = [self._threads.submit(do, each) for each in on]
        # Wait for all, even if one fails: an object created after the removal would stay.
        wait(doing)
        return [each.result() for each in doing]
