"""The GPU pools of an assembly, as preflight reads them: what a pod must ask for to run there, and who makes nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpu_constructs.facts.labels import NODE_POOL
from gpu_constructs.facts.labels import POOL as POOL_LABEL
from gpu_constructs.facts.resources import NVIDIA
from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.cluster.clusters import clusters
from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.cluster import Pool
from gpu_constructs.preflight.model.label_values import LabelValues
from gpu_constructs.preflight.reading.inputs import read_input
from gpu_constructs.rehearsal.assemblies import Assembly


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A pool, and what a pod asks for that shall run there.

    Attributes:
        pool: Name of the pool.
        kind: Who makes its nodes.
        resource: The device of which it asks for one; empty where preflight knows none that can be counted.
        selector: Labels that hold it to the pool; empty where no label names it.
        tolerations: For the taints that the pool keeps others off with, and for no others.
        daemons: Whether each DaemonSet runs on its nodes, by name; those of which it is not known are left out.
    """

    pool: str
    kind: str
    resource: str
    selector: dict[str, str]
    tolerations: list[dict[str, str]]
    daemons: dict[str, bool]


def asked_of(assemblies: Iterable[Assembly]) -> list[Asked]:
    """Return what to ask of each GPU pool of some stacks and their files.

    What they refer to is read in other stacks of their app too; pools of those are not asked.
    """
    played = [each for assembly in assemblies for each in (assembly.file, assembly.files) if each]
    inputs = {each.parent if each.is_file() else each for each in played}
    cases = (Case(cluster) for cluster in clusters(read_input(sorted(map(str, inputs)))))
    return [_asked(case, pool) for case in cases for pool in case.gpu_pools if _is_of(pool, played)]


def _is_of(pool: Pool, played: Iterable[Path]) -> bool:
    return any(Path(pool.origin.file).is_relative_to(each) for each in played)


def _asked(case: Case, pool: Pool) -> Asked:
    devices = sorted(name for node in case.nodes(pool) for name in node.most if name.startswith(NVIDIA))
    reached = {each.name: case.reaches(each, pool) for each in case.cluster.daemon_sets}
    return Asked(
        pool=pool.name,
        kind=pool.kind,
        resource=devices[0] if devices else "",
        selector=_selector(pool),
        tolerations=[{"key": each.key, "operator": "Exists", "effect": each.effect} for each in pool.taints],
        daemons={name: each is Answer.YES for name, each in reached.items() if each is not Answer.UNKNOWN},
    )


def _selector(pool: Pool) -> dict[str, str]:
    """Return a label that only nodes of a pool have; nothing where none is known."""
    if pool.kind == "karpenter":
        return {NODE_POOL: pool.name}
    own = pool.labels.get(POOL_LABEL)
    named = own.only if isinstance(own, LabelValues) else None
    return {POOL_LABEL: named} if named else {}
