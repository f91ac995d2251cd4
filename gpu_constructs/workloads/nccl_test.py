"""A job that shows how fast the GPUs of several nodes talk to each other."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from constructs import Construct

from gpu_constructs.facts.versions import NCCL_TESTS
from gpu_constructs.installing.cluster_ref import AnyCluster, PathOf, cluster_ref
from gpu_constructs.installing.delivery import apply_manifests
from gpu_constructs.pools.kubernetes_names import refuse_unless_object_name
from gpu_constructs.pools.pool import Pool, refuse_unless_pool
from gpu_constructs.pools.sharing import Exclusive
from gpu_constructs.refusals import refuse_unless_image, refuse_unless_whole_number
from gpu_constructs.workloads.gpu_pod import GpuPod
from gpu_constructs.workloads.mpi_operator import MpiOperator
from gpu_constructs.workloads.pod_spec import DO_NOT_DISRUPT, pod_spec

NAME = "nccl-test"
_SHM_GIB = 16
# Nodes from zero need up to half an hour.
_DEADLINE_SECONDS = 7_200
_KEEP_SECONDS = 86_400
# Where the image has it.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html
_PROGRAM = "/opt/nccl-tests/build/all_reduce_perf"


class NcclTest(Construct):
    """An all-reduce over every GPU of several nodes, through EFA where they have it.

    Its launcher's log ends in the bandwidth. ``Selected provider is efa`` in it says that EFA was used; ``NET/Socket``
    says that it was not. It runs again whenever its definition changes.

    Args:
        cluster: Cluster to run on; needs a kubectl provider.
        operator: Controller of this app.
        pool: Pool whose nodes are tested.
        nodes: How many of them.
        image: Image with tag or digest: NCCL's tests at ``/opt/nccl-tests``, Open MPI, SSH, and EFA's libraries.
        namespace: Existing namespace.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The pool has not so many nodes, shares its GPUs, or runs on arm64, for which there is no image.
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
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        if not isinstance(operator, MpiOperator):
            raise TypeError(f"{who}: operator must be a MpiOperator, got {operator!r}")
        refuse_unless_pool(who, pool)
        refuse_unless_whole_number(who, "nodes", nodes, least=2, fix="one node talks to itself over NVLink")
        refuse_unless_object_name(who, "namespace", namespace)
        _refuse_unless_testable(who, pool, nodes, image)
        image = NCCL_TESTS.reference if image is None else image
        refuse_unless_image(who, "image", image)

        made = mpi_job(who, pool=pool, nodes=nodes, image=image, namespace=namespace)
        self.resource = apply_manifests(self, "Resource", cluster=ref, manifests=[made])
        for needed in (operator, pool):
            self.resource.node.add_dependency(needed)


def mpi_job(who: object, *, pool: Pool, nodes: int, image: str, namespace: str) -> dict[str, Any]:
    """Return the MPIJob; the hash of what it does is in its name.

    Source: kubeflow/mpi-operator v0.8.0 pkg/apis/kubeflow/v2beta1/types.go
    """
    gpus = pool.shape.gpus
    launcher = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [
            {
                "name": "launcher",
                "image": image,
                "command": _command(nodes, gpus, efa=pool.shape.efa),
                "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "256Mi"}},
            }
        ],
    }
    spec = {
        "slotsPerWorker": gpus,
        # Before they are all there, mpirun would give up.
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
    unique = f"{NAME}-{hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:8]}"
    metadata = {"name": unique, "namespace": namespace, "labels": {"app.kubernetes.io/name": NAME}}
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": metadata, "spec": spec}


def _worker(who: object, pool: Pool, gpus: int, image: str) -> dict[str, Any]:
    """Return a pod with all that a node has, on which the controller starts SSH."""
    import cdk8s
    from cdk8s_plus_28 import k8s

    efa = (pool.shape.types[0].max_efa or 0) if pool.shape.efa else 0
    pod = GpuPod(image=image, gpus=gpus, efa=efa, shm_gib=_SHM_GIB)
    chart = cdk8s.Chart(cdk8s.App(), NAME)
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


def _refuse_unless_testable(who: object, pool: Pool, nodes: int, image: str | None) -> None:
    shape = pool.shape
    if not isinstance(shape.sharing, Exclusive) or shape.claims_gpus:
        raise ValueError(
            f"{who}: pool must offer whole GPUs as a resource, got {pool.name!r} with {shape.sharing!r} and "
            f"device_manager={shape.managed_by!r}"
        )
    if isinstance(pool.max_nodes, int) and nodes > pool.max_nodes:
        raise ValueError(f"{who}: nodes must be at most the {pool.max_nodes} of pool {pool.name!r}, got {nodes}")
    if image is None and shape.architecture != "x86_64":
        raise ValueError(
            f"{who}: image must be given for {shape.architecture} nodes, got None; the tests' own is for x86_64"
        )
