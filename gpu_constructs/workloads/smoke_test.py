"""A job that shows whether a pool really runs GPU pods."""

from __future__ import annotations

from typing import Any

import cdk8s
from cdk8s_plus_28 import k8s
from constructs import Construct

from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import apply_chart
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.pools.pool import Pool, refuse_unless_pool
from gpu_constructs.workloads.names import unique_name
from gpu_constructs.workloads.pod_spec import typed_tolerations
from gpu_facts.kubernetes import refuse_unless_object_name
from gpu_facts.labels import APP_NAME, POOL
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_image
from gpu_facts.versions import CUDA_SAMPLE, SMOKE_TEST

NAME = "gpu-smoke-test"
# A node from zero needs about 5 minutes, a p5 or p6 up to 30.
_DEADLINE_SECONDS = 2_700
_KEEP_SECONDS = 86_400
_MEMORY_LIMIT = "2Gi"


def smoke_test_chart(
    *, scope: Construct, pool: Pool, image: str, cuda_image: str | None, namespace: str
) -> cdk8s.Chart:
    """Return the job. Its name contains a hash of its pod, because Kubernetes never changes a job's pod."""
    pod = _pod(pool, image, cuda_image)
    name = unique_name(scope, NAME, _written(pod))
    labels = {APP_NAME: NAME}
    chart = cdk8s.Chart(cdk8s.App(), NAME)
    k8s.KubeJob(
        chart,
        "Job",
        metadata=k8s.ObjectMeta(name=name, namespace=namespace, labels=labels),
        spec=k8s.JobSpec(
            backoff_limit=0,
            active_deadline_seconds=_DEADLINE_SECONDS,
            ttl_seconds_after_finished=_KEEP_SECONDS,
            template=k8s.PodTemplateSpec(metadata=k8s.ObjectMeta(labels=labels), spec=pod),
        ),
    )
    return chart


def _written(pod: k8s.PodSpec) -> dict[str, Any]:
    chart = cdk8s.Chart(cdk8s.App(), NAME)
    k8s.KubePod(chart, "Pod", spec=pod)
    spec: dict[str, Any] = chart.to_json()[0]["spec"]
    return spec


def _pod(pool: Pool, image: str, cuda_image: str | None) -> k8s.PodSpec:
    # Of a GPU in partitions, the first kind.
    resource = next(iter(pool.shape.gpu_resources(1)))
    lists = _container("nvidia-smi", image, resource, command=["nvidia-smi"])
    # It gets the GPU that the one before it had.
    computes = _container("vector-add", cuda_image, resource) if cuda_image is not None else None
    return k8s.PodSpec(
        restart_policy="Never",
        automount_service_account_token=False,
        node_selector={POOL: pool.name},
        tolerations=typed_tolerations(pool),
        security_context=k8s.PodSecurityContext(seccomp_profile=k8s.SeccompProfile(type="RuntimeDefault")),
        init_containers=[lists] if computes is not None else None,
        containers=[computes if computes is not None else lists],
    )


def _container(name: str, image: str, resource: str, *, command: list[str] | None = None) -> k8s.Container:
    memory = "128Mi" if command else "1Gi"
    return k8s.Container(
        name=name,
        image=image,
        command=command,
        resources=k8s.ResourceRequirements(
            requests={"cpu": k8s.Quantity.from_string("100m"), "memory": k8s.Quantity.from_string(memory)},
            limits={
                resource: k8s.Quantity.from_number(1),
                # CUDA's context alone may take more than a container of its size asks for.
                "memory": k8s.Quantity.from_string(_MEMORY_LIMIT),
            },
        ),
        security_context=k8s.SecurityContext(
            allow_privilege_escalation=False, capabilities=k8s.Capabilities(drop=["ALL"])
        ),
    )


@named_arguments
class GpuSmokeTest(Construct):
    """A job that lists one GPU of a pool and computes on it, scaling the pool up from zero for it.

    Deploying starts the job and does not wait for it; ``kubectl wait --for=condition=complete job -l
    app.kubernetes.io/name=gpu-smoke-test`` does. It runs again whenever its definition changes.

    Args:
        cluster: Cluster to run on; needs a kubectl provider.
        pool: Pool whose nodes are tested.
        image: Image with tag or digest; any with glibc will do, the node brings ``nvidia-smi`` along.
        cuda_image: Image that computes on the GPU and fails where it cannot. Default: NVIDIA's sample that adds
            vectors, on x86_64; none on arm64, for which no source states one.
        namespace: Existing namespace of the job.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster has no kubectl provider, or the image is not pinned.
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
                f"{who}: pool must offer GPUs as a resource, got {pool.name!r} with device_manager='dra'; run a GpuJob"
            )

        if cuda_image is None and pool.shape.architecture == "x86_64":
            cuda_image = CUDA_SAMPLE.reference

        chart = smoke_test_chart(scope=self, pool=pool, image=image, cuda_image=cuda_image, namespace=namespace)
        self.resource = apply_chart(self, "Resource", cluster=ref, chart=chart)
        self.resource.node.add_dependency(pool)
        ref.jobs.ask(self.resource)
