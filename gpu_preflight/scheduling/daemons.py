"""DaemonSets that ask for GPUs: their controller makes a pod for each node that there is, and nobody makes a node.

The controller looks at the template as it is written, to which the API server has added nothing yet.
Source: kubernetes/kubernetes v1.36.2 pkg/controller/daemon/daemon_controller.go ``NodeShouldRunDaemonPod``
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpu_facts.quantities import Resources, add
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.reason import Reason, worst
from gpu_preflight.model.taints import untolerated
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.scheduling.demand import Demand
from gpu_preflight.scheduling.fitting import by_labels, by_ports, by_resources, evictions
from gpu_preflight.scheduling.verdict import PoolVerdict


def on_each_node(wanted: Demand, pool: Pool, nodes: tuple[NodeToBe, ...]) -> PoolVerdict:
    """Say whether the nodes of a pool run the pod of a DaemonSet.

    Args:
        wanted: The pod as it is written.
        pool: The pool.
        nodes: Its nodes-to-be, which count what the DaemonSet takes where it runs.
    """
    of_taints = [
        Reason(answer, "taint", f"does not tolerate taint {taint}, and EKS adds nothing to a DaemonSet; add it", 1)
        for taint, answer in untolerated(wanted.pod.tolerations, pool.taints, daemon=True)
    ]
    of_taints += evictions(wanted.pod.tolerations, pool.taints)
    reasons = dict.fromkeys([*of_taints, *(each for node in nodes for each in _reasons(wanted, node, pool, of_taints))])
    types = tuple(node.instance_type for node in nodes if node.instance_type)
    return PoolVerdict(pool, worst(reasons), tuple(reasons), types, per_node=1, nodes_taking=nodes)


def _reasons(wanted: Demand, node: NodeToBe, pool: Pool, of_taints: list[Reason]) -> list[Reason]:
    of_labels = by_labels(wanted, node, pool).reasons
    runs = worst((*of_taints, *of_labels))
    alone = _without_itself(node, wanted.requests, runs)
    return [*of_labels, *by_resources(wanted, alone, pool).reasons, *by_ports(wanted, alone, pool).reasons]


def _without_itself(node: NodeToBe, takes: Resources, runs: Answer) -> NodeToBe:
    """Return a node as it is without the DaemonSet's own pod."""
    least = node.least if runs is Answer.NO else _back(node.least, takes)
    most = _back(node.most, takes) if runs is Answer.YES else node.most
    return replace(node, least=least, most=most, ports=frozenset(), unsure_ports=frozenset())


def _back(have: Mapping[str, int], takes: Resources) -> dict[str, int]:
    return {name: amount for name, amount in add(have, takes).items() if name in have}
