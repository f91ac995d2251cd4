"""What cluster autoscaler makes of a group of several types that has no node: a node of the first.

Source: kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/cloudprovider/aws/aws_manager.go
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpu_constructs.facts.quantities import show
from gpu_constructs.preflight.cluster.pools import desired_nodes, desired_size
from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.cluster import Cluster, Pool
from gpu_constructs.preflight.model.reason import Reason
from gpu_constructs.preflight.scheduling.demand import Demand
from gpu_constructs.preflight.scheduling.fitting import Fit


def first_type_is_too_small(wanted: Demand, pool: Pool, judged: Sequence[Fit], cluster: Cluster) -> Iterator[Reason]:
    """Yield what the first type of a group without nodes lacks for a pod that another of its types takes.

    A group that starts with nodes is taken for what they are, and in which order deployment names types is not known.
    """
    starts_empty = desired_size(pool) is None or desired_nodes(pool) == 0
    if not starts_empty or pool.undecided or cluster.autoscaler("cluster-autoscaler") is None:
        return
    taking = [str(each.node.instance_type) for each in judged if each.answer is Answer.YES]
    first = next((each for each in judged if each.node.instance_type == pool.instance_types[0]), None)
    if first is not None and taking and (lacks := _lacks(wanted, first)):
        text = f"cluster autoscaler takes every node of the group for {pool.instance_types[0]}, its first type, {lacks}"
        yield Reason(Answer.NO, "autoscaler", f"{text}; name {taking[0]} first, or give it a group of its own", 1)


def _lacks(wanted: Demand, first: Fit) -> str:
    """Return what the autoscaler sees that the first type lacks: not what only kubelet keeps for itself."""
    for name, asked in wanted.requests.items():
        have = first.node.believed.get(name)
        if have is not None and asked > have:
            return f"which has {show(name, have)} {name} of {show(name, asked)}"
    refusing = (each.text for each in first.reasons if each.kind == "label" and each.answer is Answer.NO)
    return next((f"and the pod {each}" for each in refusing), "")
