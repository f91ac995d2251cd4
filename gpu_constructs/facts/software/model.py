"""What is known of a DaemonSet that no template shows, and what it comes to with somebody's values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_constructs.facts.software.quantities import total

Toleration = Mapping[str, str]
NodeSelectorTerm = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Switch:
    """A value on which a DaemonSet depends.

    Attributes:
        path: Dotted path into the values. Several, separated by commas: the first that is set counts.
        on: The value with which the DaemonSet is there.
        default: The value where none is set.
    """

    path: str
    on: bool | str = True
    default: bool | str = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Container:
    """What a container asks for. Init containers that ask for less than the others together are left out.

    Attributes:
        requests: CPU, memory and ephemeral storage, as the pod says them.
        path: Dotted path of its ``resources``, which Helm merges with the default; empty when fixed.
        replacing_path: Path of ``resources`` that take the place of those and of the default, unless empty.
    """

    requests: Mapping[str, str] = field(default_factory=dict)
    path: str = ""
    replacing_path: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownDaemonSet:
    """A DaemonSet of a chart or add-on, with its defaults and what changes them.

    Helm merges mappings and replaces lists, so a selector adds to the default and tolerations replace it.
    An empty path means that nothing changes the default. Several paths, separated by commas: the first set counts.

    Attributes:
        name: Its name when the release has the name of the chart.
        tolerations: Default tolerations.
        node_selector: Default node selector.
        node_affinity: Default ``nodeSelectorTerms`` of the required node affinity.
        containers: What its containers ask for.
        advertises: Extended resources it registers, before sharing or MIG rename them.
        switches: Values it depends on; it is there when all are on.
        tolerations_path: Path of the tolerations.
        tolerations_added: Whether tolerations from the values come on top of the default.
        tolerations_kept_when_empty: Whether an empty list leaves the default.
        tolerate_all_path: Path of a boolean, true by default, with which it tolerates everything.
        tolerations_unless_all: Its tolerations where that is false, to which `tolerations_path` adds.
        selector_path: Path of the node selector.
        affinity_path: Path of the affinity.
        labels_path: Path of ``keys`` and ``values``: labels of which a node must have one, in place of the first
            expression of the default affinity.
        inexact_paths: Values that change it in a way that is not modelled.
        source: Where it was read.
        as_of: Day of what was read, ISO 8601.
    """

    name: str
    tolerations: tuple[Toleration, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_affinity: tuple[NodeSelectorTerm, ...] = ()
    containers: tuple[Container, ...] = ()
    advertises: tuple[str, ...] = ()
    switches: tuple[Switch, ...] = ()
    tolerations_path: str = ""
    tolerations_added: bool = False
    tolerations_kept_when_empty: bool = False
    tolerate_all_path: str = ""
    tolerations_unless_all: tuple[Toleration, ...] = ()
    selector_path: str = ""
    affinity_path: str = ""
    labels_path: str = ""
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
