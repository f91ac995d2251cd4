"""What is known of a DaemonSet that no template shows, and what it comes to with somebody's values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final

from gpu_facts import labels
from gpu_facts.light import dataclass
from gpu_facts.quantities import total

Toleration = Mapping[str, str]
NodeSelectorTerm = Mapping[str, Any]
# Dotted path into the values. Of several the first that is set counts; without one nothing changes the default.
ValuePath = str | tuple[str, ...]
LINUX: Final = {labels.OS: "linux"}
EVERYTHING: Final[Toleration] = {"operator": "Exists"}
GPU: Final[Toleration] = {"key": labels.GPU_TAINT, "operator": "Exists", "effect": "NoSchedule"}
CRITICAL_ADDONS: Final[Toleration] = {"key": "CriticalAddonsOnly", "operator": "Exists"}
FOR_FIVE_MINUTES: Final[Toleration] = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": "300"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Switch:
    """A value on which a DaemonSet depends.

    Attributes:
        path: Where it stands.
        on: The value with which the DaemonSet is there.
        default: The value where none is set.
    """

    path: ValuePath
    on: bool | str = True
    default: bool | str = True


def enabled(key: str, *, default: bool = True) -> Switch:
    """Return the switch ``enabled`` of a part."""
    return Switch(path=f"{key}.enabled", default=default)


@dataclass(frozen=True, kw_only=True, slots=True)
class Container:
    """What a container asks for. Init containers that ask for less than the others together are left out.

    Attributes:
        requests: CPU, memory and ephemeral storage, as the pod says them.
        path: Path of its ``resources``, which Helm merges with the default.
        replacing_path: Path of ``resources`` that take the place of those and of the default, unless empty.
        switches: Values it depends on; a DaemonSet that has containers is there when one of them is.
    """

    requests: Mapping[str, str] = field(default_factory=dict)
    path: ValuePath = ()
    replacing_path: ValuePath = ()
    switches: tuple[Switch, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Tolerations:
    """What a DaemonSet tolerates. Helm replaces lists, so tolerations from the values replace the default.

    Attributes:
        default: Its tolerations where the values say nothing.
        path: Path of the tolerations.
        replacing_path: Path of tolerations that take the place of those and of the default, unless empty.
        added: Whether those from the values come on top of the default.
        kept_when_empty: Whether an empty list leaves the default.
        all_path: Path of a boolean, true by default, with which it has the default, whatever `path` says.
        unless_all: Its tolerations where that is false, to which `path` adds.
    """

    default: tuple[Toleration, ...] = ()
    path: ValuePath = ()
    replacing_path: ValuePath = ()
    added: bool = False
    kept_when_empty: bool = False
    all_path: ValuePath = ()
    unless_all: tuple[Toleration, ...] = ()

    @classmethod
    def from_part(cls, part: str, *default: Toleration) -> Tolerations:
        """Return tolerations that stand where charts have them: below the part of the values, or at their top."""
        return cls(default=default, path=_below(part, "tolerations"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Nodes:
    """Which nodes a DaemonSet selects. Helm merges mappings, so a selector from the values adds to the default.

    Attributes:
        selector: Default node selector.
        selector_path: Path of the node selector.
        replacing_selector_path: Path of one that takes the place of that one, unless empty.
        affinity: Default ``nodeSelectorTerms`` of the required node affinity.
        affinity_path: Path of the affinity.
        replacing_affinity_path: Path of one that takes the place of that one and of the default, unless empty.
        labels_path: Path of ``keys`` and ``values``: labels of which a node must have one, in place of the first
            expression of the default affinity.
    """

    selector: Mapping[str, str] = field(default_factory=dict)
    selector_path: ValuePath = ()
    replacing_selector_path: ValuePath = ()
    affinity: tuple[NodeSelectorTerm, ...] = ()
    affinity_path: ValuePath = ()
    replacing_affinity_path: ValuePath = ()
    labels_path: ValuePath = ()

    @classmethod
    def from_part(cls, part: str, *affinity: NodeSelectorTerm, selector: Mapping[str, str] | None = None) -> Nodes:
        """Return nodes that are selected where charts do it: below the part of the values, or at their top."""
        return cls(
            selector=selector or {},
            selector_path=_below(part, "nodeSelector"),
            affinity=affinity,
            affinity_path=_below(part, "affinity"),
        )


def _below(part: str, name: str) -> str:
    return f"{part}.{name}" if part else name


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownDaemonSet:
    """A DaemonSet of a chart or add-on, with its defaults and what changes them.

    Attributes:
        name: Its name when the release has the name of the chart.
        tolerations: What it tolerates.
        nodes: Which nodes it selects.
        containers: What its containers ask for.
        advertises: Extended resources it registers, before sharing or MIG rename them.
        switches: Values it depends on; it is there when all are on.
        inexact_paths: Values that change it in a way that is not modelled.
        source: Where it was read.
        as_of: Day of what was read, ISO 8601.
    """

    name: str
    tolerations: Tolerations = Tolerations()
    nodes: Nodes = Nodes()
    containers: tuple[Container, ...] = ()
    advertises: tuple[str, ...] = ()
    switches: tuple[Switch, ...] = ()
    inexact_paths: tuple[str, ...] = ()
    source: str
    as_of: str

    @property
    def requests(self) -> Mapping[str, str]:
        """What its containers ask for together by default."""
        return total([each.requests for each in self.containers])


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownSoftware:
    """A chart or add-on whose DaemonSets are known.

    Attributes:
        name: Name of the chart or add-on.
        versions: Versions it was read for, without leading ``v`` or build; empty when it holds for any.
        daemon_sets: Its DaemonSets on Linux, possibly none.
        opaque_paths: Values that install what was not read: the whole is unknown when one is set and not false.
        source: Where it was read.
        as_of: Day of what was read, ISO 8601.
    """

    name: str
    versions: tuple[str, ...] = ()
    daemon_sets: tuple[KnownDaemonSet, ...] = ()
    opaque_paths: tuple[str, ...] = ()
    source: str
    as_of: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DaemonSetSpec:
    """A DaemonSet as it will be in the cluster.

    Attributes:
        name: Its name when the release has the name of the chart.
        tolerations: Its tolerations.
        node_selector: Its node selector.
        node_affinity: ``nodeSelectorTerms`` of its required node affinity, empty without one.
        requests: What its containers ask for together: cpu, memory, ephemeral-storage.
        advertises: Extended resources it registers, before sharing or MIG rename them.
        exact: Whether its version was read and every value that bears on it was understood.
        source: Where its defaults were read.
    """

    name: str
    tolerations: tuple[Toleration, ...]
    node_selector: Mapping[str, str]
    node_affinity: tuple[NodeSelectorTerm, ...]
    requests: Mapping[str, str]
    advertises: tuple[str, ...]
    exact: bool
    source: str


def expression(key: str, operator: str, values: Iterable[str]) -> dict[str, object]:
    """Return one requirement of a node selector term."""
    return {"key": key, "operator": operator, "values": sorted(values)}


def term(*expressions: dict[str, object]) -> NodeSelectorTerm:
    """Return a term that holds where all requirements do."""
    return {"matchExpressions": list(expressions)}


def exclude_compute_types(*compute_types: str) -> dict[str, object]:
    """Return the requirement that a node is none of some compute types of EKS."""
    return expression(labels.COMPUTE_TYPE, "NotIn", compute_types)


def any_label(*pairs: str) -> tuple[NodeSelectorTerm, ...]:
    """Return terms of which one holds where a node has one of some ``key=value`` labels."""
    split = (each.split("=") for each in pairs)
    return tuple(term(expression(key, "In", [value])) for key, value in split)


def tolerates(key: str, **more: str) -> Toleration:
    """Return the toleration of a key, whatever its value."""
    return {"key": key, "operator": "Exists", **more}
