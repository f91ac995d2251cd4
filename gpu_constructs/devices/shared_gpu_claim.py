"""A GPU that several pods claim together."""

from __future__ import annotations

from constructs import Construct

from gpu_constructs.installing.claims import PathOf
from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import apply_after_dra_driver, apply_manifests
from gpu_constructs.pools.gpu_claim import GpuClaim
from gpu_facts.kubernetes import refuse_unless_object_name
from gpu_facts.named_arguments import named_arguments


@named_arguments
class SharedGpuClaim(Construct):
    """A claim that every pod with ``GpuPod(claim=<its name>)`` uses, all of them on the node that it was given.

    The pods take turns on the GPU. Each sees all of its memory, and nothing keeps one from taking it.

    Kubernetes never changes a claim. If you change ``gpu``, change ``name`` in the same deployment.

    Args:
        cluster: Cluster of the pods; needs a kubectl provider.
        name: Name of the claim.
        namespace: Existing namespace, the pods' own.
        gpu: What is claimed.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster has no kubectl provider. At synth: the app makes the cluster and installs no DRA driver.

    Attributes:
        name: Name of the claim.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        name: str,
        namespace: str = "default",
        gpu: GpuClaim = GpuClaim(),  # noqa: B008 - frozen value
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        if not isinstance(gpu, GpuClaim):
            raise TypeError(f"{who}: gpu must be a GpuClaim, got {gpu!r}")
        refuse_unless_object_name(who, "name", name)
        refuse_unless_object_name(who, "namespace", namespace)

        self.name = name
        self.resource = apply_manifests(
            self, "Resource", cluster=ref, manifests=[gpu.claim(name=name, namespace=namespace)]
        )
        apply_after_dra_driver(self.resource, cluster=ref)
