"""Jobs that test the GPUs of a pool: a smoke test, and a test of NCCL between nodes with the MPI operator."""

from __future__ import annotations

from constructs import Construct

from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import apply_chart, apply_manifests
from gpu_constructs.installing.registry import Applied, PathOf
from gpu_constructs.pools.pool import Pool, refuse_unless_pool
from gpu_constructs.pools.sharing import Exclusive
from gpu_constructs.workloads.placement import KaiQueue, apply_after_queue, refuse_unless_queue
from gpu_facts.kubernetes import refuse_unless_object_name
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_image, refuse_unless_whole_number
from gpu_facts.versions import CUDA_SAMPLE, MPI_OPERATOR, NCCL_TESTS, SMOKE_TEST


@named_arguments
class MpiOperator(Construct):
    """The controller of MPIJobs, with the CRD.

    The project's own CRD is 320 kB. It is too large for ``kubectl apply``, which stores a copy in an annotation of at
    most 256 KiB. This CRD has the same fields, but doesn't validate pods. The controller does.

    Source: https://github.com/kubeflow/mpi-operator/tree/v0.8.0

    Args:
        cluster: Cluster to install into. It needs a kubectl provider.
        image: Image with tag or digest.

    Raises:
        TypeError: ``cluster`` isn't a cluster of ``aws_eks_v2``.
        ValueError: The cluster already has the controller from this library, it has no kubectl provider, or the image
            isn't pinned.
    """

    def __init__(self, scope: Construct, id: str, *, cluster: AnyCluster, image: str = MPI_OPERATOR.reference) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        refuse_unless_image(who, "image", image)
        ref.claim(who, "MPI operator", why="both would start every job")

        # Imported here because cdk8s-plus takes a quarter of a second to load.
        from gpu_constructs.workloads import mpi_manifests as manifests

        definition = apply_manifests(self, "Definition", cluster=ref, manifests=[manifests.mpi_job_definition()])
        self.resource = apply_chart(self, "Resource", cluster=ref, chart=manifests.operator_chart(image))
        self.resource.node.add_dependency(definition)
        ref.wait_for_foundation(self.resource)


@named_arguments
class NcclTest(Construct):
    """An all-reduce over every GPU of several nodes, through EFA if they have it.

    The log of its launcher ends with the bandwidth. ``Selected provider is efa`` in it means that EFA was used.
    ``NET/Socket`` means that it wasn't. The test runs again whenever its definition changes.

    Args:
        cluster: Cluster to run on. It needs a kubectl provider.
        operator: Controller of this app.
        pool: Pool whose nodes are tested.
        nodes: Number of nodes.
        image: Image with tag or digest: NCCL's tests at ``/opt/nccl-tests``, Open MPI, SSH, and EFA's libraries.
        namespace: Existing namespace.
        queue: Name of a local queue of Kueue, or the value of ``KaiQueues.queue(...)``. A queue of the same stack is
            created first. Default: the test starts at once.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The pool has fewer nodes, shares its GPUs, or runs on arm64, for which there is no image.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        operator: MpiOperator,
        pool: Pool,
        nodes: int = 2,
        image: str | None = None,
        namespace: str = "default",
        queue: str | KaiQueue | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        if not isinstance(operator, MpiOperator):
            raise TypeError(f"{who}: operator must be a MpiOperator, got {operator!r}; create MpiOperator(stack, ...)")
        refuse_unless_pool(who, pool)
        refuse_unless_whole_number(
            who, "nodes", nodes, least=2, fix="test more nodes, because one node uses only NVLink"
        )
        refuse_unless_object_name(who, "namespace", namespace)
        refuse_unless_queue(who, queue)
        _refuse_unless_testable(who, pool, nodes, image)
        image = NCCL_TESTS.reference if image is None else image
        refuse_unless_image(who, "image", image)

        # Imported here because cdk8s-plus takes a quarter of a second to load.
        from gpu_constructs.workloads.mpi_manifests import mpi_job

        made = mpi_job(who, scope=self, pool=pool, nodes=nodes, image=image, namespace=namespace, queue=queue)
        self.resource = apply_manifests(self, "Resource", cluster=ref, manifests=[made])
        for needed in (operator, pool):
            self.resource.node.add_dependency(needed)
        apply_after_queue(Applied(self.resource, [made]), cluster=ref, namespace=namespace, queue=queue)


def _refuse_unless_testable(who: object, pool: Pool, nodes: int, image: str | None) -> None:
    shape = pool.shape
    if not isinstance(shape.sharing, Exclusive) or shape.managed_by.by_claim:
        raise ValueError(
            f"{who}: pool must offer whole GPUs as a resource, got {pool.name!r} with {shape.sharing!r} and "
            f"device_manager={shape.managed_by.name!r}; use another pool"
        )
    if isinstance(pool.max_nodes, int) and nodes > pool.max_nodes:
        raise ValueError(
            f"{who}: nodes must be at most the {pool.max_nodes} of pool {pool.name!r}, got {nodes}; test fewer, or "
            "raise max_nodes"
        )
    if image is None and shape.architecture != "x86_64":
        raise ValueError(
            f"{who}: image must be given for {shape.architecture} nodes, got None; build one, because the default is "
            "for x86_64"
        )


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
        # Imported here because cdk8s-plus takes a quarter of a second to load.
        from gpu_constructs.workloads.manifests import smoke_test_chart

        chart = smoke_test_chart(scope=self, pool=pool, image=image, cuda_image=cuda_image, namespace=namespace)
        self.resource = apply_chart(self, "Resource", cluster=ref, chart=chart)
        self.resource.node.add_dependency(pool)
        ref.jobs.ask(self.resource)
