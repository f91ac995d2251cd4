"""How a pod claims the GPUs of a pool whose GPUs are claimed."""

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


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class PodClaim:
    """What a pod names.

    Attributes:
        name: Name of the claim that several pods share, or of the template of claims.
        template: The template, for claims of each pod's own; ``None`` for the shared one.
    """

    name: str
    template: dict[str, Any] | None

    def configure_workload(self, workload: dict[str, Any]) -> None:
        """Add it to the pods of a Job or Deployment: the typed classes know only its first shape."""
        kind = "resourceClaimName" if self.template is None else "resourceClaimTemplateName"
        workload["spec"]["template"]["spec"]["resourceClaims"] = [{"name": REQUEST, kind: self.name}]

    def apply(self, scope: Construct, cluster: ClusterRef, workload: Construct) -> None:
        """Apply the template before the workload, and have the driver outlive both."""
        apply_after_dra_driver(workload, cluster=cluster)
        if self.template is not None:
            # Nobody can change a template: another one is another resource, and the old one is deleted after it.
            made = apply_manifests(scope, f"Claim-{self.name}", cluster=cluster, manifests=[self.template])
            workload.node.add_dependency(made)


def pod_claim(who: object, pod: GpuPod, pool: Pool, *, name: str, namespace: str) -> PodClaim | None:
    """Return how the pod gets its GPUs; ``None`` where it asks for a resource.

    Raises:
        ValueError: No node of the pool has what it claims, or GPUs of the pool are not claimed.
    """
    claim = pod.gpu_claim(who, pool.shape)
    if claim is None:
        return None
    if pod.claim is not None:
        return PodClaim(name=pod.claim, template=None)
    says = json.dumps(claim.template(name=name, namespace=namespace))
    unique = f"{name}-{hashlib.sha256(says.encode()).hexdigest()[:8]}"
    return PodClaim(name=unique, template=claim.template(name=unique, namespace=namespace))
