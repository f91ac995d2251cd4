"""Known DaemonSets that no template shows, and the result of a release's values for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final

from gpu_facts import labels
from gpu_facts.light import dataclass
from gpu_facts.quantities import total

Toleration = Mapping[str, str]
NodeSelectorTerm = Mapping[str, Any]
# Dotted path into the values. The first of several that is set applies. Without a path, the default always applies.
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
        path: Its path.
        on: The value that enables the DaemonSet.
        default: The value if none is set.
    """

    path: ValuePath
    on: bool | str = True
    default: bool | str = True


def enabled(key: str, *, default: bool = True) -> Switch:
    """Return the switch ``enabled`` of a part."""
    return Switch(path=f"{key}.enabled", default=default)


@dataclass(frozen=True, kw_only=True, slots=True)
class Container:
    """Requests of a container. Init containers with smaller requests than the other containers together are left out.

    Attributes:
        requests: CPU, memory and ephemeral storage, in the pod's spelling.
        path: Path of its ``resources``, which Helm merges with the default.
        replacing_path: Path of ``resources`` that replace both, unless they are empty.
        switches: Values on which it depends. A DaemonSet with containers exists if one of them is on.
    """

    requests: Mapping[str, str] = field(default_factory=dict)
    path: ValuePath = ()
    replacing_path: ValuePath = ()
    switches: tuple[Switch, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Tolerations:
    """Tolerations of a DaemonSet. Helm replaces lists, so tolerations in the values replace the default.

    Attributes:
        default: Its tolerations if the values set none.
        path: Path of the tolerations.
        replacing_path: Path of tolerations that replace both, unless they are empty.
        added: Whether tolerations in the values are added to the default.
        kept_when_empty: Whether an empty list keeps the default.
        all_path: Path of a boolean, true by default, that selects the default and overrides `path`.
        unless_all: Its tolerations if that is false, to which `path` adds.
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
        """Return tolerations at the usual path of charts: below the part of the values, or at their top."""
        return cls(default=default, path=_below(part, "tolerations"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Nodes:
    """Nodes that a DaemonSet selects. Helm merges mappings, so a selector in the values adds to the default.

    Attributes:
        selector: Default node selector.
        selector_path: Path of the node selector.
        replacing_selector_path: Path of a selector that replaces it, unless it is empty.
        affinity: Default ``nodeSelectorTerms`` of the required node affinity.
        affinity_path: Path of the affinity.
        replacing_affinity_path: Path of an affinity that replaces it and the default, unless it is empty.
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
        """Return selected nodes at the usual path of charts: below the part of the values, or at their top."""
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
    """A DaemonSet of a chart or add-on, with its defaults and the values that change them.

    Attributes:
        name: Its name if the release has the name of the chart.
        tolerations: Its tolerations.
        nodes: Nodes that it selects.
        containers: Requests of its containers.
        advertises: Extended resources that it registers, before sharing or MIG rename them.
        switches: Values on which it depends. It exists if all are on.
        inexact_paths: Values that change it in a way that isn't modelled.
        source: Place where it was read.
        as_of: Day on which it was read, ISO 8601.
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
        """Total requests of its containers by default."""
        return total([each.requests for each in self.containers])


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownSoftware:
    """A chart or add-on whose DaemonSets are known.

    Attributes:
        name: Name of the chart or add-on.
        versions: Versions for which it was read, without leading ``v`` or build, or empty if it applies to any.
        daemon_sets: Its DaemonSets on Linux, possibly none.
        opaque_paths: Values that install unknown objects. If one is set and not false, the whole result is unknown.
        source: Place where it was read.
        as_of: Day on which it was read, ISO 8601.
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
        name: Its name if the release has the name of the chart.
        tolerations: Its tolerations.
        node_selector: Its node selector.
        node_affinity: ``nodeSelectorTerms`` of its required node affinity, empty without one.
        requests: Total requests of its containers: cpu, memory, ephemeral-storage.
        advertises: Extended resources that it registers, before sharing or MIG rename them.
        exact: Whether its version was read and every value that affects it was understood.
        source: Place where its defaults were read.
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
    """Return a term that requires all expressions."""
    return {"matchExpressions": list(expressions)}


def exclude_compute_types(*compute_types: str) -> dict[str, object]:
    """Return the requirement that a node has none of some compute types of EKS."""
    return expression(labels.COMPUTE_TYPE, "NotIn", compute_types)


def any_label(*pairs: str) -> tuple[NodeSelectorTerm, ...]:
    """Return terms that match a node with one of some ``key=value`` labels."""
    split = (each.split("=") for each in pairs)
    return tuple(term(expression(key, "In", [value])) for key, value in split)


def tolerates(key: str, **more: str) -> Toleration:
    """Return the toleration of a key with any value."""
    return {"key": key, "operator": "Exists", **more}
