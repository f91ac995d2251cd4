"""Pods on GPUs that run to completion."""

from __future__ import annotations

from typing import Any

from constructs import Construct

from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import apply_manifests
from gpu_constructs.installing.registry import Applied, PathOf
from gpu_constructs.pools.pool import Pool, refuse_unless_pool
from gpu_constructs.workloads.gpu_pod import GpuPod, with_overlay
from gpu_constructs.workloads.model_files import Place
from gpu_constructs.workloads.models import Model, refuse_early_image_volumes, with_model
from gpu_constructs.workloads.placement import (
    KaiQueue,
    apply_after_queue,
    pod_claim,
    refuse_early_number,
    refuse_more_pods_than_room,
    refuse_unless_queue,
)
from gpu_facts.kubernetes import refuse_unless_object_name
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import INT32, refuse_unless_bool, refuse_unless_whole_number

# Prefix of the environment variables that set torchrun's options, and its default port.
# Source: https://github.com/pytorch/pytorch/blob/v2.9.0/torch/distributed/argparse_util.py, run.py
_TORCHRUN = "PET_"
_PORT = 29500
_INDEX = "batch.kubernetes.io/job-completion-index"
_MAX_HOST_NAME = 63
# Room for a job's name and a hash.
_MAX_NAME = 54


def _refuse_unless_gang(who: object, *, job: str, pods: int, parallel: int | None, pool: Pool, pod: GpuPod) -> None:
    """Reject a gang whose pods can never all run at once, or whose host names are too long.

    Raises:
        ValueError: The gang is invalid.
    """
    if pods < 2:
        raise ValueError(f"{who}: pods must be at least 2 with gang=True, got {pods}; leave gang out for one pod")
    if parallel not in (None, pods):
        raise ValueError(
            f"{who}: parallel must be left out with gang=True, got {parallel}; remove it, because all pods run at once"
        )
    fix = "raise the pool's size, or run fewer pods, because pods that started would hold their GPUs permanently"
    refuse_more_pods_than_room(who, "pods", pods, pod, pool, fix=fix)
    longest = f"{job}-{pods - 1}"
    if len(longest) > _MAX_HOST_NAME:
        raise ValueError(
            f"{who}: name must be {len(longest) - _MAX_HOST_NAME} characters shorter with gang=True, got {job!r} plus "
            f"its hash; shorten it, because a pod's host name, {longest!r}, has at most {_MAX_HOST_NAME} characters"
        )


def _make_gang(job: dict[str, Any]) -> dict[str, Any]:
    """Give the pods of an indexed Job host names and a rendezvous address. Return the Service that the names need."""
    metadata, spec = job["metadata"], job["spec"]
    name, namespace = metadata["name"], metadata["namespace"]
    pod = spec["template"]["spec"]
    pod["subdomain"] = name
    [container] = pod["containers"]
    container["env"] = [
        *container.get("env", []),
        {"name": f"{_TORCHRUN}NNODES", "value": str(spec["completions"])},
        {
            "name": f"{_TORCHRUN}NODE_RANK",
            "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{_INDEX}']"}},
        },
        {"name": f"{_TORCHRUN}MASTER_ADDR", "value": f"{name}-0.{name}"},
        {"name": f"{_TORCHRUN}MASTER_PORT", "value": str(_PORT)},
    ]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(spec["template"]["metadata"]["labels"])},
        # Names must exist before the first pod is ready, because the pod waits for the others.
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"batch.kubernetes.io/job-name": name},
        },
    }


@named_arguments
class GpuJob(Construct):
    """A Job whose pods run on a pool and scale it up from zero. No autoscaler removes their node while they run.

    Kubernetes never changes the pods of a Job. If you change its pods, `pods`, `gang` or `queue`, the deployment
    creates a new Job and deletes the old one. `parallel`, `retries`, `max_hours` and `keep_hours` change the existing
    Job.

    Args:
        cluster: Cluster to run on. It needs a kubectl provider.
        pool: Pool whose nodes run it.
        name: Name of the Job. A hash of its immutable fields is appended.
        pod: Spec of each pod.
        namespace: Existing namespace.
        pods: Number of pods that must succeed.
        parallel: Number of pods that run at once. Default: all.
        retries: Number of failed pods after which the Job fails.
        max_hours: Time after which Kubernetes terminates the Job. Default: none.
        keep_hours: Time for which a finished Job and its logs are kept. In files for Argo CD or Flux they are kept
            until you delete them.
        queue: Name of a local queue of Kueue, or the value of ``KaiQueues.queue(...)``. A queue of the same stack is
            created first. Default: the job starts at once.
        gang: The pods work together. Each has an index and a host name, and ``torchrun`` finds the others through
            environment variables (``PET_NNODES``, ``PET_NODE_RANK``, ``PET_MASTER_ADDR``, ``PET_MASTER_PORT``). Use a
            queue with it. Without a queue, some pods hold GPUs while others wait for a node.
        model: Model to read, and its delivery: `CopiedModel`, `MountedModel`, `StreamedModel`, `ImageModel`,
            `HubModel`. Default: the pod gets its model itself.
        kubernetes_version: Minor version of an imported cluster. It is needed only for image volumes. Default: the
            cluster's own.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: No node of the pool can run the pod, or the cluster has no kubectl provider.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        pool: Pool,
        name: str,
        pod: GpuPod,
        namespace: str = "default",
        pods: int = 1,
        parallel: int | None = None,
        retries: int = 0,
        max_hours: int | None = None,
        keep_hours: int = 24,
        queue: str | KaiQueue | None = None,
        gang: bool = False,
        model: Model | None = None,
        kubernetes_version: str | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        refuse_unless_pool(who, pool)
        _refuse_unless_job(who, name=name, namespace=namespace, pod=pod, queue=queue)
        for argument, number, least in (
            ("pods", pods, 1),
            ("parallel", pods if parallel is None else parallel, 1),
            ("retries", retries, 0),
        ):
            refuse_unless_whole_number(who, argument, number, least=least)
        # Kubernetes uses seconds.
        for argument, hours, least in (
            ("max_hours", 1 if max_hours is None else max_hours, 1),
            ("keep_hours", keep_hours, 0),
        ):
            refuse_unless_whole_number(who, argument, hours, least=least, most=INT32 // 3600)
        refuse_unless_bool(who, "gang", gang)
        if gang:
            refuse_early_number(who, name, kubernetes_version or ref.stated_version)
        place = Place(scope=self, who=who, cluster=ref, name=name, namespace=namespace, pod=pod, shape=pool.shape)
        brought = with_model(place, model)
        pod = brought.pod
        refuse_early_image_volumes(who, pod, ref, kubernetes_version)

        limits = {
            "completions": pods,
            "parallelism": pods if parallel is None else parallel,
            "backoff_limit": retries,
            "active_deadline_seconds": None if max_hours is None else max_hours * 3600,
            "ttl_seconds_after_finished": keep_hours * 3600,
        }
        claim = pod_claim(who, pod, pool, name=name, namespace=namespace)
        # Imported here because cdk8s-plus takes a quarter of a second to load.
        from gpu_constructs.workloads.manifests import job_manifest

        manifest = job_manifest(
            who,
            scope=self,
            claim=claim,
            gang=gang,
            pool=pool,
            name=name,
            pod=pod,
            namespace=namespace,
            queue=queue,
            limits=limits,
        )
        manifests = [manifest]
        if gang:
            _refuse_unless_gang(who, job=manifest["metadata"]["name"], pods=pods, parallel=parallel, pool=pool, pod=pod)
            manifests.append(_make_gang(manifest))
        template = manifest["spec"]["template"]
        template["spec"] = with_overlay(who, template["spec"], pod.overlay)
        self.resource = apply_manifests(self, "Resource", cluster=ref, manifests=manifests)
        self.resource.node.add_dependency(pool, *brought.needs)
        apply_after_queue(Applied(self.resource, manifests), cluster=ref, namespace=namespace, queue=queue)
        if claim is not None:
            claim.apply(self, ref, self.resource)


def _refuse_unless_job(who: object, *, name: object, namespace: object, pod: object, queue: object) -> None:
    refuse_unless_object_name(who, "name", name)
    refuse_unless_object_name(who, "namespace", namespace)
    refuse_unless_queue(who, queue)
    if len(str(name)) > _MAX_NAME:
        raise ValueError(
            f"{who}: name must be at most {_MAX_NAME} characters, got {name!r}; shorten it, because a hash is added"
        )
    if not isinstance(pod, GpuPod):
        raise TypeError(f"{who}: pod must be a GpuPod, got {pod!r}; write GpuPod(image=..., gpus=...)")
