"""The controller of MPIJobs: programs that start each other over SSH on several nodes."""

from __future__ import annotations

from constructs import Construct

from gpu_constructs.installing.claims import PathOf
from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import apply_chart, apply_manifests
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_image
from gpu_facts.versions import MPI_OPERATOR


@named_arguments
class MpiOperator(Construct):
    """The controller with its definition of MPIJob.

    The project's own definition is 320 kB and too large for ``kubectl apply``, which keeps a copy in an annotation of
    at most 256 KiB. This one has the same fields, and leaves what pods look like to the controller.

    Source: https://github.com/kubeflow/mpi-operator/tree/v0.8.0

    Args:
        cluster: Cluster to install into; needs a kubectl provider.
        image: Image with tag or digest.

    Raises:
        TypeError: ``cluster`` is no cluster of ``aws_eks_v2``.
        ValueError: The cluster has the controller from this library or no kubectl provider, or the image is not pinned.
    """

    def __init__(self, scope: Construct, id: str, *, cluster: AnyCluster, image: str = MPI_OPERATOR.reference) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        refuse_unless_image(who, "image", image)
        ref.claim(who, "MPI operator", why="both would start every job")

        # Not above: it loads cdk8s, which takes a second.
        from gpu_constructs.workloads.mpi import mpi_operator_manifests as manifests

        definition = apply_manifests(self, "Definition", cluster=ref, manifests=[manifests.mpi_job_definition()])
        self.resource = apply_chart(self, "Resource", cluster=ref, chart=manifests.operator_chart(image))
        self.resource.node.add_dependency(definition)
        ref.wait_for_foundation(self.resource)
