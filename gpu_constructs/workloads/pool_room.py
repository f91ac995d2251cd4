"""A pod's claim of GPUs of a pool, and the number of pods that fit on the nodes of a pool at once."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from constructs import Construct

from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.delivery import apply_after_dra_driver, apply_manifests
from gpu_constructs.pools.pool import Pool
from gpu_constructs.pools.sharing import REQUEST
from gpu_constructs.workloads.gpu_pod import GpuPod
from gpu_facts.named_arguments import named_arguments


def pods_at_most(who: object, pod: GpuPod, pool: Pool) -> int | None:
    """Return the max number of such pods on all nodes of a pool.

    It is ``None`` if the arguments don't determine it: the number of nodes is known only at deployment, an overlay
    changes the requests or the placement of the pod, or pods share a claimed GPU.

    Raises:
        ValueError: No node of the pool has the resources that the pod requests.
    """
    if not isinstance(pool.max_nodes, int) or pod.overlay or pod.claim is not None:
        return None
    return pool.max_nodes * max(pod.room_on(who, pool.shape, row) for row in pool.shape.rows)


def refuse_unexpected_memory(who: object, pod: GpuPod, pool: Pool) -> None:
    """Reject more memory than EKS Auto Mode expects of a node before it launches one.

    Self-managed Karpenter has a setting for the hypervisor's share, ``vmMemoryOverheadPercent``. Auto Mode has no
    documented setting, and the checker assumes the default of 7.5 % there.

    Raises:
        ValueError: The autoscaler launches no node for the pod.
    """
    if not pool.expects_less_memory or pod.overlay:
        return
    rows = [row for row in pool.shape.rows if row.memory_mib is not None]
    most = max((pool.shape.kubelet.expected_memory_gib_left(row) for row in rows), default=None)
    requested = pod.memory_request(who, pool.shape)
    if most is not None and len(rows) == len(pool.shape.rows) and requested > most:
        raise ValueError(
            f"{who}: memory_gib must be at most {most} with sidecars, the memory that EKS Auto Mode expects of a node "
            f"of pool {pool.name!r} before launch, got {requested}; request less, or add a larger instance type to the "
            "pool"
        )


def refuse_more_pods_than_room(who: object, argument: str, pods: int, pod: GpuPod, pool: Pool, *, fix: str) -> None:
    """Reject a number of pods that can never all run at once.

    Args:
        who: Name of the construct in messages.
        argument: Argument with the number of pods.
        pods: The number.
        pod: Spec of each pod.
        pool: Pool that they run on.
        fix: Suggested fix.

    Raises:
        ValueError: The pool has room for fewer.
    """
    most = pods_at_most(who, pod, pool)
    if most is not None and pods > most:
        raise ValueError(
            f"{who}: {argument} must be at most {most}, which fit on the {pool.max_nodes} nodes of pool {pool.name!r}, "
            f"got {pods}; {fix} [GPU121]"
        )


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class PodClaim:
    """Reference of a pod to a claim.

    Attributes:
        name: Name of the claim that several pods share, or of the claim template.
        template: The template, for a separate claim of each pod, or ``None`` for a shared claim.
    """

    name: str
    template: dict[str, Any] | None

    def configure_workload(self, workload: dict[str, Any]) -> None:
        """Add it to the pods of a Job or Deployment. The typed classes support only the first version of the field."""
        kind = "resourceClaimName" if self.template is None else "resourceClaimTemplateName"
        workload["spec"]["template"]["spec"]["resourceClaims"] = [{"name": REQUEST, kind: self.name}]

    def apply(self, scope: Construct, cluster: ClusterRef, workload: Construct) -> None:
        """Apply the template before the workload, and keep the driver until both are deleted."""
        apply_after_dra_driver(workload, cluster=cluster)
        if self.template is not None:
            # A template is immutable. A changed one is another resource, and the old one is deleted after it.
            made = apply_manifests(scope, f"Claim-{self.name}", cluster=cluster, manifests=[self.template])
            workload.node.add_dependency(made)


def pod_claim(who: object, pod: GpuPod, pool: Pool, *, name: str, namespace: str) -> PodClaim | None:
    """Return the pod's claim of GPUs, or ``None`` if it requests an extended resource.

    Raises:
        ValueError: No node of the pool has the devices that the pod claims, or GPUs of the pool aren't claimed.
    """
    claim = pod.gpu_claim(who, pool.shape)
    if claim is None:
        return None
    if pod.claim is not None:
        return PodClaim(name=pod.claim, template=None)
    says = json.dumps(claim.template(name=name, namespace=namespace))
    unique = f"{name}-{hashlib.sha256(says.encode()).hexdigest()[:8]}"
    return PodClaim(name=unique, template=claim.template(name=unique, namespace=namespace))
