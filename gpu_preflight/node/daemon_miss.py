"""Why a DaemonSet does not run on nodes of a pool."""

from __future__ import annotations

from collections.abc import Iterable

from gpu_facts.light import dataclass
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.software import DaemonSet
from gpu_preflight.model.taints import Taint
from gpu_preflight.node.daemon_reach import refusing_taints
from gpu_preflight.node.nodes import NodeToBe


@dataclass(frozen=True, slots=True)
class Miss:
    """Why a DaemonSet does not run on some nodes, as far as that is sure.

    Attributes:
        daemon: The DaemonSet.
        taints: Taints that it does not tolerate.
        unselected: Nodes that it does not select; not asked where taints keep it off.
    """

    daemon: DaemonSet
    taints: tuple[Taint, ...]
    unselected: tuple[NodeToBe, ...]

    @property
    def intolerance(self) -> str:
        """The taints in words; empty where it tolerates all."""
        taints = ", ".join(map(str, self.taints))
        return f"{self.daemon.name} does not tolerate {taints}" if taints else ""

    @property
    def unmet(self) -> tuple[str, ...]:
        """What it asks of labels that the first of the nodes does not have."""
        first = (self.daemon.pod.selection.unmet(node.labels) for node in self.unselected[:1])
        return tuple(str(each) for unmet in first for each, answer in unmet if answer is Answer.NO)


def miss(daemon: DaemonSet, taints: Iterable[Taint], nodes: Iterable[NodeToBe]) -> Miss:
    """Return why a DaemonSet does not run on nodes with some taints."""
    refusing = tuple(refusing_taints(daemon, taints))
    selection = daemon.pod.selection
    unselected = (each for each in nodes if selection.takes(each.labels) is Answer.NO)
    return Miss(daemon, refusing, () if refusing else tuple(unselected))
