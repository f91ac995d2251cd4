"""Pods of one Job that find each other."""

from __future__ import annotations

from typing import Any

from gpu_constructs.pools.pool import Pool
from gpu_constructs.workloads.gpu_pod import GpuPod
from gpu_constructs.workloads.pool_room import refuse_more_pods_than_room

# Name by which torchrun's options can be set in the environment, and its own default port.
# Source: https://github.com/pytorch/pytorch/blob/v2.9.0/torch/distributed/argparse_util.py, run.py
_TORCHRUN = "PET_"
_PORT = 29500
_INDEX = "batch.kubernetes.io/job-completion-index"
_MAX_HOST_NAME = 63


def refuse_unless_gang(who: object, *, job: str, pods: int, parallel: int | None, pool: Pool, pod: GpuPod) -> None:
    """Refuse a gang whose pods can never all run at once, or have no host name.

    Raises:
        ValueError: It is one.
    """
    if pods < 2:
        raise ValueError(f"{who}: pods must be at least 2 with gang=True, got {pods}; one pod needs nobody to find")
    if parallel not in (None, pods):
        raise ValueError(f"{who}: parallel must be left out with gang=True, got {parallel}; all pods run at once")
    fix = "the pods that start would hold their GPUs permanently; raise the pool's size, or run fewer pods"
    refuse_more_pods_than_room(who, "pods", pods, pod, pool, fix=fix)
    longest = f"{job}-{pods - 1}"
    if len(longest) > _MAX_HOST_NAME:
        raise ValueError(
            f"{who}: name must be {len(longest) - _MAX_HOST_NAME} characters shorter with gang=True, got {job!r} with "
            f"its hash; a pod's host name, {longest!r}, has at most {_MAX_HOST_NAME}"
        )


def make_gang(job: dict[str, Any]) -> dict[str, Any]:
    """Give the pods of an indexed Job host names and where to meet; return the Service that the names need."""
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
        # Names must be there before the first pod is ready, because it waits for the others.
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"batch.kubernetes.io/job-name": name},
        },
    }
