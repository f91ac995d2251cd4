"""What a pod names and the cluster does not have."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache

from gpu_facts.refusals import near
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.reason import Reason
from gpu_preflight.schema.fault import is_typo_of


def missing(
    text: str, name: str, known: Collection[str], cluster: Cluster, rule: str, answer: Answer = Answer.NO
) -> Iterator[Reason]:
    """Yield why a pod is refused that names what is not there, where the input tells of such things.

    Args:
        text: What is not there.
        name: Its name.
        known: Names of what is there.
        cluster: The cluster.
        rule: The rule that finds it.
        answer: What it means for the pod where it is no slip for a name that is there.
    """
    if name not in known and cluster.sees_objects:
        nearest = _nearest(name, frozenset(known))
        hint = f"; did you mean {nearest!r}?" if nearest is not None else ""
        # A name that only comes near, trainer-b beside trainer-a, may be that of another.
        slip = nearest is not None and is_typo_of(name, nearest)
        yield Reason(Answer.NO if slip else answer, "refused", f"{text}{hint}", rule=rule)


@lru_cache(maxsize=1024)
def _nearest(name: str, there: frozenset[str]) -> str | None:
    """Return the name that one is most likely a slip for: many pods may share it."""
    return near(name, sorted(there))
