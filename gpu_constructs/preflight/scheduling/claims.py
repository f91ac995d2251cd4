"""Devices that a pod claims: which nodes have them, and which autoscaler makes a node for them.

Sources: aws/karpenter-provider-aws v1.15.1 charts/karpenter/values.yaml, https://karpenter.sh/docs/tasks/dra/
(2026-11), kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/FAQ.md
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_constructs.facts.resources import DEVICE_CLASS
from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.cluster import Cluster, Pool
from gpu_constructs.preflight.model.reason import Reason
from gpu_constructs.preflight.model.software import Autoscaler
from gpu_constructs.preflight.model.workload import Workload
from gpu_constructs.preflight.node.nodes import NodeToBe, minor
from gpu_constructs.preflight.reading.objects import Object
from gpu_constructs.preflight.reading.unknown import Unknown, dig, is_true, known_number, known_text, mapping, mappings

# Karpenter can make nodes for claims from here on, when its gates are on.
_CLAIMS_FROM = (1, 15)
_NO_FIRST_NODE = "cluster autoscaler makes no first node for claimed devices; keep one node in the group"
_NOT_OF_AUTO_MODE = "EKS Auto Mode makes no nodes for claimed devices; use a managed group"


@dataclass(frozen=True, slots=True)
class ClaimedGpus:
    """GPUs that a pod claims.

    Attributes:
        count: How many; ``None`` where it is not known.
        selected: Whether the claim asks for more than their number, which only the driver can tell.
    """

    count: int | None
    selected: bool = False


def requests_of(claim: Object) -> list[dict[str, Any]]:
    """Return what a claim or a template of one asks for, in the spelling of v1 or of the betas."""
    spec = mapping(claim.spec.get("spec")) if claim.kind == "ResourceClaimTemplate" else dict(claim.spec)
    listed = mappings(dig(spec, "devices", "requests"))
    return [mapping(each.get("exactly")) or each for each in listed]


def count_of(request: Mapping[str, Any]) -> int | None:
    """Return how many devices a request is for."""
    if request.get("allocationMode") == "All":
        return None
    return 1 if request.get("count") is None else known_number(request.get("count"))


def claimed_gpus(workload: Workload, cluster: Cluster) -> ClaimedGpus | None:
    """Return the GPUs that a pod claims, ``None`` where it claims none that the input says."""
    wanted = [each for claim in _claims_of(workload, cluster) for each in requests_of(claim)]
    of_gpus = [each for each in wanted if each.get("deviceClassName") == DEVICE_CLASS]
    if not of_gpus:
        return None
    counts = [count_of(each) for each in of_gpus]
    selected = any(each.get("selectors") for each in of_gpus)
    return ClaimedGpus(None if None in counts else sum(each or 0 for each in counts), selected)


def _claims_of(workload: Workload, cluster: Cluster) -> Iterable[Object]:
    named = {("ResourceClaim", known_text(each.claim)) for each in workload.pod.claims}
    named |= {("ResourceClaimTemplate", known_text(each.template)) for each in workload.pod.claims}
    for each in cluster.of_kind("ResourceClaim", "ResourceClaimTemplate"):
        if each.namespace == workload.namespace and (each.kind, each.name) in named:
            yield each


def without_devices(claimed: ClaimedGpus, nodes: Iterable[NodeToBe]) -> list[Reason]:
    """Return why no node of a pool has the GPUs that a pod claims."""
    every = list(nodes)
    if any(each.instance_type is None for each in every):
        return []
    most = max((each.row.gpus if each.row else 0 for each in every), default=0)
    if most and (claimed.count is None or claimed.count <= most):
        return []
    types = ", ".join(str(each.instance_type) for each in every[:3])
    asked = "GPUs" if claimed.count is None else f"{claimed.count} GPU{'s' if claimed.count != 1 else ''}"
    return [Reason(Answer.NO, "claim", f"claims {asked}, {types} has {most or 'none'}", 3)]


def not_made_for(pool: Pool, cluster: Cluster, claimed: ClaimedGpus | None) -> list[Reason]:
    """Return why the autoscaler of a pool makes no node for pods that claim devices."""
    if pool.kind == "auto-mode":
        return [Reason(Answer.NO, "claim", _NOT_OF_AUTO_MODE, 4)]
    if pool.kind == "karpenter":
        return _of_karpenter(cluster.autoscaler("karpenter"), claimed)
    return [Reason(Answer.NO, "claim", _NO_FIRST_NODE, 2)]


def _of_karpenter(karpenter: Autoscaler | None, claimed: ClaimedGpus | None) -> list[Reason]:
    if karpenter is None or karpenter.version is None:
        text = "whether Karpenter makes nodes for claimed devices depends on its version and its feature gates"
        return [Reason(Answer.UNKNOWN, "claim", text)]
    late = minor(karpenter.version) >= _CLAIMS_FROM
    sees = _sees_claims(karpenter) if late else Answer.NO
    if sees is Answer.NO:
        gate = " without settings.enableDRA" if late else ""
        text = f"Karpenter {karpenter.version} makes no nodes for claimed devices{gate}; use a managed node group"
        return [Reason(Answer.NO, "claim", text, 4)]
    if sees is Answer.UNKNOWN:
        text = "whether Karpenter makes nodes for claimed devices depends on its feature gates"
        return [Reason(Answer.UNKNOWN, "claim", text)]
    if claimed is None or claimed.selected:
        text = "what the claim selects is known to its driver, and whether Karpenter expects it of a node is not known"
        return [Reason(Answer.UNKNOWN, "claim", text)]
    return []


def _sees_claims(karpenter: Autoscaler) -> Answer:
    """Say whether a Karpenter of 1.15 or later looks at claims of NVIDIA's GPUs."""
    flags = karpenter.flags
    if "clusterName" not in flags:
        # Not the values of its chart: what its environment says is not read.
        return Answer.UNKNOWN
    both, gate = flags.get("enableDRA"), dig(flags, "awsFeatureGates", "draNVIDIAGPU")
    if any(isinstance(each, Unknown) for each in (both, gate)):
        return Answer.UNKNOWN
    return Answer.YES if is_true(both) or is_true(gate) else Answer.NO
