"""The Kubernetes objects of the controller of MPIJobs, and of the MPIJob that tests NCCL between nodes."""

from __future__ import annotations

from typing import Any

import cdk8s
from cdk8s_plus_28 import k8s
from constructs import Construct

from gpu_constructs.pools.pool import Pool
from gpu_constructs.workloads.gpu_pod import GpuPod
from gpu_constructs.workloads.placement import KaiQueue, unique_name
from gpu_constructs.workloads.pod_spec import DO_NOT_DISRUPT, pod_spec
from gpu_facts.charts import MPI_OPERATOR
from gpu_facts.labels import APP_NAME, KUEUE_QUEUE

_NCCL_TEST = "nccl-test"
_WORKER_SHM_GIB = 16
# Scaling nodes from zero takes up to half an hour.
_DEADLINE_SECONDS = 7_200
_KEEP_SECONDS = 86_400
# Path in the image.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html
_PROGRAM = "/opt/nccl-tests/build/all_reduce_perf"
_OPERATOR_LABELS = {APP_NAME: MPI_OPERATOR}
_EVERY_OBJECT = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
# Requests of its controller, read in kubeflow/mpi-operator v0.8.0 pkg/controller/mpi_job_controller.go. Upstream's
# role allows more.
_OPERATOR_RULES: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("", ("configmaps", "secrets", "services"), ("create", "list", "watch", "update")),
    ("", ("pods",), ("create", "delete", "list", "watch")),
    ("", ("events",), ("create", "patch")),
    ("batch", ("jobs",), ("create", "list", "watch", "update")),
    ("batch", ("jobs/status",), ("update",)),
    ("kubeflow.org", ("mpijobs",), ("get", "list", "watch", "update")),
    ("kubeflow.org", ("mpijobs/status", "mpijobs/finalizers"), ("update",)),
    ("scheduling.k8s.io", ("priorityclasses",), ("list", "watch")),
)


def mpi_job_definition() -> dict[str, Any]:
    """Return the CustomResourceDefinition of MPIJob.

    Source: kubeflow/mpi-operator v0.8.0 pkg/apis/kubeflow/v2beta1/types.go
    """
    replica = {
        "type": "object",
        "properties": {
            "replicas": {"type": "integer", "format": "int32"},
            "restartPolicy": {"type": "string"},
            "template": _EVERY_OBJECT,
        },
    }
    spec = {
        "type": "object",
        "required": ["mpiReplicaSpecs"],
        "properties": {
            "launcherCreationPolicy": {"type": "string", "default": "AtStartup"},
            "mpiImplementation": {"type": "string", "enum": ["OpenMPI", "Intel", "MPICH"], "default": "OpenMPI"},
            "mpiReplicaSpecs": {"type": "object", "additionalProperties": replica},
            "runLauncherAsWorker": {"type": "boolean", "default": False},
            "runPolicy": _EVERY_OBJECT,
            "slotsPerWorker": {"type": "integer", "format": "int32", "default": 1},
            "sshAuthMountPath": {"type": "string", "default": "/root/.ssh"},
        },
    }
    schema = {"type": "object", "properties": {"spec": spec, "status": _EVERY_OBJECT}}
    version = {
        "name": "v2beta1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "mpijobs.kubeflow.org"},
        "spec": {
            "group": "kubeflow.org",
            "names": {"kind": "MPIJob", "listKind": "MPIJobList", "plural": "mpijobs", "singular": "mpijob"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def operator_chart(image: str) -> cdk8s.Chart:
    """Return namespace, service account, RBAC and Deployment of the controller."""
    chart = cdk8s.Chart(cdk8s.App(), MPI_OPERATOR)
    here = k8s.ObjectMeta(name=MPI_OPERATOR, namespace=MPI_OPERATOR, labels=_OPERATOR_LABELS)
    everywhere = k8s.ObjectMeta(name=MPI_OPERATOR, labels=_OPERATOR_LABELS)
    group = "rbac.authorization.k8s.io"
    subject = k8s.Subject(kind="ServiceAccount", name=MPI_OPERATOR, namespace=MPI_OPERATOR)
    rules = [
        k8s.PolicyRule(api_groups=[api], resources=list(resources), verbs=list(verbs))
        for api, resources, verbs in _OPERATOR_RULES
    ]
    # The lease of the leader election.
    leases = k8s.PolicyRule(api_groups=["coordination.k8s.io"], resources=["leases"], verbs=["create", "get", "update"])

    k8s.KubeNamespace(chart, "Namespace", metadata=everywhere)
    k8s.KubeServiceAccount(chart, "ServiceAccount", metadata=here)
    k8s.KubeClusterRole(chart, "ClusterRole", metadata=everywhere, rules=rules)
    k8s.KubeClusterRoleBinding(
        chart,
        "ClusterRoleBinding",
        metadata=everywhere,
        role_ref=k8s.RoleRef(api_group=group, kind="ClusterRole", name=MPI_OPERATOR),
        subjects=[subject],
    )
    k8s.KubeRole(chart, "Role", metadata=here, rules=[leases])
    k8s.KubeRoleBinding(
        chart,
        "RoleBinding",
        metadata=here,
        role_ref=k8s.RoleRef(api_group=group, kind="Role", name=MPI_OPERATOR),
        subjects=[subject],
    )
    k8s.KubeDeployment(
        chart,
        "Deployment",
        metadata=here,
        spec=k8s.DeploymentSpec(
            replicas=1,
            selector=k8s.LabelSelector(match_labels=_OPERATOR_LABELS),
            template=k8s.PodTemplateSpec(metadata=k8s.ObjectMeta(labels=_OPERATOR_LABELS), spec=_operator_pod(image)),
        ),
    )
    return chart


def _operator_pod(image: str) -> k8s.PodSpec:
    quantity = k8s.Quantity.from_string
    return k8s.PodSpec(
        service_account_name=MPI_OPERATOR,
        security_context=k8s.PodSecurityContext(
            run_as_non_root=True, run_as_user=65_532, seccomp_profile=k8s.SeccompProfile(type="RuntimeDefault")
        ),
        containers=[
            k8s.Container(
                name=MPI_OPERATOR,
                image=image,
                args=["-alsologtostderr", f"--lock-namespace={MPI_OPERATOR}"],
                resources=k8s.ResourceRequirements(
                    requests={"cpu": quantity("50m"), "memory": quantity("128Mi")},
                    limits={"memory": quantity("256Mi")},
                ),
                security_context=k8s.SecurityContext(
                    allow_privilege_escalation=False,
                    read_only_root_filesystem=True,
                    capabilities=k8s.Capabilities(drop=["ALL"]),
                ),
            )
        ],
    )


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
    labels = {APP_NAME: _NCCL_TEST} | queued | made["metadata"].get("labels", {})
    name = unique_name(scope, _NCCL_TEST, [spec, queued] if queued else spec)
    return made | {"metadata": {"name": name, "namespace": namespace, "labels": labels}}


def _worker(who: object, pool: Pool, gpus: int, image: str) -> dict[str, Any]:
    """Return a pod with all resources of a node, in which the controller starts SSH."""
    efa = (pool.shape.rows[0].max_efa or 0) if pool.shape.efa else 0
    pod = GpuPod(image=image, gpus=gpus, efa=efa, shm_gib=_WORKER_SHM_GIB)
    chart = cdk8s.Chart(cdk8s.App(), _NCCL_TEST)
    k8s.KubePod(chart, "Worker", spec=pod_spec(who, pod, pool, name="worker"))
    spec = chart.to_json()[0]["spec"]
    # An SSH server changes its user and its root.
    spec["containers"][0]["securityContext"] = {"capabilities": {"add": ["IPC_LOCK"]}} if efa else {}
    return {"metadata": {"annotations": dict(DO_NOT_DISRUPT)}, "spec": spec}


def _command(nodes: int, gpus: int, *, efa: bool) -> list[str]:
    told = {"NCCL_DEBUG": "INFO"} | ({"FI_PROVIDER": "efa"} if efa else {})
    return [
        *f"mpirun --allow-run-as-root --tag-output -np {nodes * gpus} -N {gpus} --bind-to none".split(),
        *("-x", "PATH", "-x", "LD_LIBRARY_PATH"),
        *(word for name, value in told.items() for word in ("-x", f"{name}={value}")),
        # MPI itself only starts the processes, over TCP.
        *("--mca", "pml", "^cm,ucx", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_exclude", "lo,docker0"),
        *f"{_PROGRAM} -b 8 -e 2G -f 2 -g 1 -c 1".split(),
    ]
