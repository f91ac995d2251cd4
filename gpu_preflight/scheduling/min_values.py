"""How many different nodes Karpenter must be able to choose among before it makes one.

Source: sigs.k8s.io/karpenter v1.14.1 pkg/cloudprovider/types.go SatisfiesMinValues, over the types that meet a pod's
requirements and requests; pkg/controllers/provisioning/scheduling/nodeclaim.go
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpu_preflight.model.answer import Answer, Reason
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.label_values import LabelValues
from gpu_preflight.node.autoscaler_view import option
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.reading.unknown import Unknown, dig, known_number, known_text, mappings

_POLICY = "minValuesPolicy"


def too_few_values(pool: Pool, taking: Iterable[NodeToBe], cluster: Cluster) -> Iterator[Reason]:
    """Yield which requirement of a NodePool has fewer values among the nodes that take a pod than it wants."""
    if pool.kind != "karpenter":
        return
    nodes = list(taking)
    for key, least in least_values(pool):
        values = _values(key, nodes)
        if values is None or len(values) >= least:
            continue
        policy = option(cluster, _POLICY)
        if policy == "BestEffort":
            return
        text = f"minValues of {key} is {least}, and the pod fits {len(values)}: {', '.join(sorted(values))}"
        if isinstance(policy, Unknown):
            yield Reason(Answer.UNKNOWN, "label", f"{text}; whether settings.{_POLICY} is BestEffort is not known")
        else:
            yield Reason(Answer.NO, "label", f"{text}; lower it, or set settings.{_POLICY} to BestEffort")


def least_values(pool: Pool) -> Iterator[tuple[str, int]]:
    """Yield the labels of which a NodePool wants a least number of values, and that number."""
    for each in mappings(dig(pool.properties, "template", "spec", "requirements")):
        key, least = known_text(each.get("key")), known_number(each.get("minValues"))
        if key and least:
            yield key, least


def _values(key: str, nodes: Iterable[NodeToBe]) -> set[str] | None:
    """Return the values that a label has on some nodes, ``None`` where one may have others."""
    found: set[str] = set()
    for each in nodes:
        value = each.believed_labels.get(key)
        if not isinstance(value, LabelValues) or value.all_but:
            return None
        found |= value.values
    return found
