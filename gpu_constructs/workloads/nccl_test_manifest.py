"""The MPIJob that measures the bandwidth between the GPUs of several nodes."""

from __future__ import annotations

from typing import Any

import cdk8s
from cdk8s_plus_28 import k8s
from constructs import Construct

from gpu_constructs.pools.pool import Pool
from gpu_constructs.workloads.gpu_pod import GpuPod
from gpu_constructs.workloads.kai_queue import KaiQueue
from gpu_constructs.workloads.names import unique_name
from gpu_constructs.workloads.pod_spec import DO_NOT_DISRUPT, pod_spec
from gpu_facts.labels import APP_NAME, KUEUE_QUEUE

NCCL_TEST = "nccl-test"
_WORKER_SHM_GIB = 16
# Scaling nodes from zero takes up to half an hour.
_DEADLINE_SECONDS = 7_200
_KEEP_SECONDS = 86_400
# Path in the image.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html
_PROGRAM = "/opt/nccl-tests/build/all_reduce_perf"


def mpi_job(
    who: object, *, scope: Construct, pool: Pool, nodes: int, image: str, namespace: str, queue: str | KaiQueue | None
) -> dict[str, Any]:
    """Return the MPIJob. Its name contains a hash of its spec and its queue.

    Kueue never changes the queue of a job that runs or has finished.

    Source: kubeflow/mpi-operator v0.8.0 pkg/apis/kubeflow/v2beta1/types.go
    """
    gpus = pool.shape.gpus
    launcher = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "launcher",
                "image": image,
                "command": _command(nodes, gpus, efa=pool.shape.efa),
                "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "256Mi"}},
                # It starts the others over SSH, and uses no GPU itself.
                "securityContext": {"allowPrivilegeEscalation": False},
            }
        ],
    }
    spec: dict[str, Any] = {
        "slotsPerWorker": gpus,
        # mpirun fails if a worker is missing.
        "launcherCreationPolicy": "WaitForWorkersReady",
        "runPolicy": {
            "cleanPodPolicy": "Running",
            "backoffLimit": 0,
            "activeDeadlineSeconds": _DEADLINE_SECONDS,
            "ttlSecondsAfterFinished": _KEEP_SECONDS,
        },
        "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "template": {"spec": launcher}},
            "Worker": {"replicas": nodes, "template": _worker(who, pool, gpus, image)},
        },
    }
    made: dict[str, Any] = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {}, "spec": spec}
    if isinstance(queue, KaiQueue):
        queue.put_on(made, *(each["template"] for each in spec["mpiReplicaSpecs"].values()))
    queued = {KUEUE_QUEUE: queue} if isinstance(queue, str) else {}
    labels = {APP_NAME: NCCL_TEST} | queued | made["metadata"].get("labels", {})
    name = unique_name(scope, NCCL_TEST, [spec, queued] if queued else spec)
    return made | {"metadata": {"name": name, "namespace": namespace, "labels": labels}}


def _worker(who: object, pool: Pool, gpus: int, image: str) -> dict[str, Any]:
    """Return a pod with all resources of a node, in which the controller starts SSH."""
    efa = (pool.shape.rows[0].max_efa or 0) if pool.shape.efa else 0
    pod = GpuPod(image=image, gpus=gpus, efa=efa, shm_gib=_WORKER_SHM_GIB)
    chart = cdk8s.Chart(cdk8s.App(), NCCL_TEST)
    k8s.KubePod(chart, "Worker", spec=pod_spec(who, pod, pool, name="worker"))
    spec = chart.to_json()[0]["spec"]
    # An SSH server changes its user and its root.
    spec["containers"][0]["securityContext"] = {"capabilities": {"add": ["IPC_LOCK"]}} if efa else {}
    return {"metadata": {"annotations": dict(DO_NOT_DISRUPT)}, "spec": spec}


def _command(nodes: int, gpus: int, *, efa: bool) -> list[str]:
    told = {"NCCL_DEBUG": "INFO"} | ({"FI_PROVIDER": "efa"} if efa else {})
    return [
        "mpirun",
        "--allow-run-as-root",
        "--tag-output",
        "-np",
        str(nodes * gpus),
        "-N",
        str(gpus),
        "--bind-to",
        "none",
        "-x",
        "PATH",
        "-x",
        "LD_LIBRARY_PATH",
        *(word for name, value in told.items() for word in ("-x", f"{name}={value}")),
        # MPI itself only starts the processes, over TCP.
        "--mca",
        "pml",
        "^cm,ucx",
        "--mca",
        "btl",
        "tcp,self",
        "--mca",
        "btl_tcp_if_exclude",
        "lo,docker0",
        _PROGRAM,
        *("-b", "8", "-e", "2G", "-f", "2", "-g", "1", "-c", "1"),
    ]
