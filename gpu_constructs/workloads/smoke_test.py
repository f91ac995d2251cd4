"""A job that tests whether a pool can run GPU pods."""

from __future__ import annotations

from constructs import Construct

from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import apply_chart
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.pools.pool import Pool, refuse_unless_pool
from gpu_facts.kubernetes import refuse_unless_object_name
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_image
from gpu_facts.versions import CUDA_SAMPLE, SMOKE_TEST


@named_arguments
class GpuSmokeTest(Construct):
    """A job that lists one GPU of a pool and computes on it. It scales the pool up from zero.

    The deployment starts the job and doesn't wait for it. To wait, run ``kubectl wait --for=condition=complete job -l
    app.kubernetes.io/name=gpu-smoke-test``. The job runs again whenever its definition changes.

    Args:
        cluster: Cluster to run on. It needs a kubectl provider.
        pool: Pool whose nodes are tested.
        image: Image with tag or digest. Any image with glibc works, because the node provides ``nvidia-smi``.
        cuda_image: Image that computes on the GPU and fails if it can't. Default: on x86_64 NVIDIA's sample that adds
            vectors. On arm64 none, because no source names one.
        namespace: Existing namespace of the job.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster has no kubectl provider, or the image isn't pinned.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        pool: Pool,
        image: str = SMOKE_TEST.reference,
        cuda_image: str | None = None,
        namespace: str = "default",
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        refuse_unless_image(who, "image", image)
        if cuda_image is not None:
            refuse_unless_image(who, "cuda_image", cuda_image)
        refuse_unless_object_name(who, "namespace", namespace)
        refuse_unless_pool(who, pool)
        if pool.shape.managed_by.by_claim:
            raise ValueError(
                f"{who}: pool must offer GPUs as a resource, got {pool.name!r} with device_manager='dra'; run a GpuJob "
                "instead"
            )

        if cuda_image is None and pool.shape.architecture == "x86_64":
            cuda_image = CUDA_SAMPLE.reference
        # Imported here because cdk8s takes a second to load.
        from gpu_constructs.workloads.smoke_test_manifest import smoke_test_chart

        chart = smoke_test_chart(scope=self, pool=pool, image=image, cuda_image=cuda_image, namespace=namespace)
        self.resource = apply_chart(self, "Resource", cluster=ref, chart=chart)
        self.resource.node.add_dependency(pool)
        ref.jobs.ask(self.resource)
