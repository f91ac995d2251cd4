"""What a pod names and the cluster does not have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.cluster import Cluster
from gpu_constructs.preflight.model.reason import Reason
from gpu_constructs.refusals import did_you_mean


def missing(
    text: str, name: str, known: Iterable[str], cluster: Cluster, rule: str, answer: Answer = Answer.NO
) -> Iterator[Reason]:
    """Yield why a pod is refused that names what is not there, where the input says all that is there.

    Args:
        text: What is not there.
        name: Its name.
        known: Names of what is there.
        cluster: The cluster.
        rule: The rule that finds it.
        answer: What it means for the pod, where no name comes near.
    """
    there = list(known)
    if cluster.sees_objects and name not in there:
        hint = did_you_mean(name, there)
        yield Reason(Answer.NO if hint else answer, "refused", f"{text}{hint}", rule=rule)
