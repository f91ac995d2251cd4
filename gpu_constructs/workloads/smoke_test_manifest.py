"""The job that tests whether a pool can run GPU pods."""

from __future__ import annotations

from typing import Any

import cdk8s
from cdk8s_plus_28 import k8s
from constructs import Construct

from gpu_constructs.pools.pool import Pool
from gpu_constructs.workloads.names import unique_name
from gpu_constructs.workloads.pod_spec import typed_tolerations
from gpu_facts.labels import APP_NAME, POOL

SMOKE_TEST = "gpu-smoke-test"
# Scaling a node from zero takes about 5 minutes, a p5 or p6 up to 30.
_SMOKE_TEST_SECONDS = 2_700
_SMOKE_TEST_KEPT_SECONDS = 86_400
_SMOKE_TEST_MEMORY = "2Gi"


def smoke_test_chart(
    *, scope: Construct, pool: Pool, image: str, cuda_image: str | None, namespace: str
) -> cdk8s.Chart:
    """Return the job. Its name contains a hash of its pod, because Kubernetes never changes a job's pod."""
    pod = _smoke_test_pod(pool, image, cuda_image)
    name = unique_name(scope, SMOKE_TEST, _spec_in_yaml(pod))
    labels = {APP_NAME: SMOKE_TEST}
    chart = cdk8s.Chart(cdk8s.App(), SMOKE_TEST)
    k8s.KubeJob(
        chart,
        "Job",
        metadata=k8s.ObjectMeta(name=name, namespace=namespace, labels=labels),
        spec=k8s.JobSpec(
            backoff_limit=0,
            active_deadline_seconds=_SMOKE_TEST_SECONDS,
            ttl_seconds_after_finished=_SMOKE_TEST_KEPT_SECONDS,
            template=k8s.PodTemplateSpec(metadata=k8s.ObjectMeta(labels=labels), spec=pod),
        ),
    )
    return chart


def _spec_in_yaml(pod: k8s.PodSpec) -> dict[str, Any]:
    chart = cdk8s.Chart(cdk8s.App(), SMOKE_TEST)
    k8s.KubePod(chart, "Pod", spec=pod)
    spec: dict[str, Any] = chart.to_json()[0]["spec"]
    return spec


def _smoke_test_pod(pool: Pool, image: str, cuda_image: str | None) -> k8s.PodSpec:
    # If a GPU is in partitions of several kinds, the first kind.
    resource = next(iter(pool.shape.gpu_resources(1)))
    lists = _smoke_test_container("nvidia-smi", image, resource, command=["nvidia-smi"])
    # It gets the GPU of the container before it.
    computes = _smoke_test_container("vector-add", cuda_image, resource) if cuda_image is not None else None
    return k8s.PodSpec(
        restart_policy="Never",
        automount_service_account_token=False,
        node_selector={POOL: pool.name},
        tolerations=typed_tolerations(pool),
        security_context=k8s.PodSecurityContext(seccomp_profile=k8s.SeccompProfile(type="RuntimeDefault")),
        init_containers=[lists] if computes is not None else None,
        containers=[computes if computes is not None else lists],
    )


def _smoke_test_container(name: str, image: str, resource: str, *, command: list[str] | None = None) -> k8s.Container:
    memory = "128Mi" if command else "1Gi"
    return k8s.Container(
        name=name,
        image=image,
        command=command,
        resources=k8s.ResourceRequirements(
            requests={"cpu": k8s.Quantity.from_string("100m"), "memory": k8s.Quantity.from_string(memory)},
            limits={
                resource: k8s.Quantity.from_number(1),
                # CUDA's context alone may need more than the usual request of a small container.
                "memory": k8s.Quantity.from_string(_SMOKE_TEST_MEMORY),
            },
        ),
        security_context=k8s.SecurityContext(
            allow_privilege_escalation=False, capabilities=k8s.Capabilities(drop=["ALL"])
        ),
    )
