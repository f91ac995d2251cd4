"""The MPI operator, and a test of NCCL between nodes."""

from __future__ import annotations

from typing import Any

import cdk8s
from cdk8s_plus_28 import k8s
from constructs import Construct

from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import apply_chart, apply_manifests
from gpu_constructs.installing.registry import Applied, PathOf
from gpu_constructs.pools.pool import Pool, refuse_unless_pool
from gpu_constructs.pools.sharing import Exclusive
from gpu_constructs.workloads.gpu_pod import GpuPod
from gpu_constructs.workloads.kai_queue import KaiQueue, apply_after_queue, refuse_unless_queue
from gpu_constructs.workloads.names import unique_name
from gpu_constructs.workloads.pod_spec import DO_NOT_DISRUPT, pod_spec
from gpu_facts import versions
from gpu_facts.charts import MPI_OPERATOR
from gpu_facts.kubernetes import refuse_unless_object_name
from gpu_facts.labels import APP_NAME, KUEUE_QUEUE
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_image, refuse_unless_whole_number
from gpu_facts.versions import NCCL_TESTS

_LABELS = {APP_NAME: MPI_OPERATOR}
_EVERY_OBJECT = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
# What its controller calls, read in kubeflow/mpi-operator v0.8.0 pkg/controller/mpi_job_controller.go; upstream's role
# allows more.
_RULES: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("", ("configmaps", "secrets", "services"), ("create", "list", "watch", "update")),
    ("", ("pods",), ("create", "delete", "list", "watch")),
    ("", ("events",), ("create", "patch")),
    ("batch", ("jobs",), ("create", "list", "watch", "update")),
    ("batch", ("jobs/status",), ("update",)),
    ("kubeflow.org", ("mpijobs",), ("get", "list", "watch", "update")),
    ("kubeflow.org", ("mpijobs/status", "mpijobs/finalizers"), ("update",)),
    ("scheduling.k8s.io", ("priorityclasses",), ("list", "watch")),
)
NAME = "nccl-test"
_SHM_GIB = 16
# Nodes from zero need up to half an hour.
_DEADLINE_SECONDS = 7_200
_KEEP_SECONDS = 86_400
# Where the image has it.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html
_PROGRAM = "/opt/nccl-tests/build/all_reduce_perf"


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
    """Return namespace, service account, RBAC and deployment of the controller."""
    chart = cdk8s.Chart(cdk8s.App(), MPI_OPERATOR)
    here = k8s.ObjectMeta(name=MPI_OPERATOR, namespace=MPI_OPERATOR, labels=_LABELS)
    everywhere = k8s.ObjectMeta(name=MPI_OPERATOR, labels=_LABELS)
    group = "rbac.authorization.k8s.io"
    subject = k8s.Subject(kind="ServiceAccount", name=MPI_OPERATOR, namespace=MPI_OPERATOR)
    rules = [
        k8s.PolicyRule(api_groups=[api], resources=list(resources), verbs=list(verbs))
        for api, resources, verbs in _RULES
    ]
    # The lease by which one replica leads.
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
            selector=k8s.LabelSelector(match_labels=_LABELS),
            template=k8s.PodTemplateSpec(metadata=k8s.ObjectMeta(labels=_LABELS), spec=_pod(image)),
        ),
    )
    return chart


def _pod(image: str) -> k8s.PodSpec:
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
    """Return the MPIJob; the hash of what it does, and of its queue, is in its name.

    Kueue never changes the queue of a job that runs or has ended.

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
                # It starts the others over SSH, and takes no GPU itself.
                "securityContext": {"allowPrivilegeEscalation": False},
            }
        ],
    }
    spec: dict[str, Any] = {
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
    made: dict[str, Any] = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {}, "spec": spec}
    if isinstance(queue, KaiQueue):
        queue.put_on(made, *(each["template"] for each in spec["mpiReplicaSpecs"].values()))
    queued = {KUEUE_QUEUE: queue} if isinstance(queue, str) else {}
    labels = {APP_NAME: NAME} | queued | made["metadata"].get("labels", {})
    name = unique_name(scope, NAME, [spec, queued] if queued else spec)
    return made | {"metadata": {"name": name, "namespace": namespace, "labels": labels}}


def _worker(who: object, pool: Pool, gpus: int, image: str) -> dict[str, Any]:
    """Return a pod with all that a node has, on which the controller starts SSH."""
    efa = (pool.shape.rows[0].max_efa or 0) if pool.shape.efa else 0
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

    def __init__(
        self, scope: Construct, id: str, *, cluster: AnyCluster, image: str = versions.MPI_OPERATOR.reference
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        refuse_unless_image(who, "image", image)
        ref.claim(who, "MPI operator", why="both would start every job")

        definition = apply_manifests(self, "Definition", cluster=ref, manifests=[mpi_job_definition()])
        self.resource = apply_chart(self, "Resource", cluster=ref, chart=operator_chart(image))
        self.resource.node.add_dependency(definition)
        ref.wait_for_foundation(self.resource)


@named_arguments
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
        queue: Name of a local queue of Kueue, or what ``KaiQueues.queue(...)`` returns; a queue of the same stack is
            made first. Default: it starts at once.

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
        queue: str | KaiQueue | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        if not isinstance(operator, MpiOperator):
            raise TypeError(f"{who}: operator must be a MpiOperator, got {operator!r}")
        refuse_unless_pool(who, pool)
        refuse_unless_whole_number(who, "nodes", nodes, least=2, fix="one node talks to itself over NVLink")
        refuse_unless_object_name(who, "namespace", namespace)
        refuse_unless_queue(who, queue)
        _refuse_unless_testable(who, pool, nodes, image)
        image = NCCL_TESTS.reference if image is None else image
        refuse_unless_image(who, "image", image)

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
            f"device_manager={shape.managed_by.name!r}"
        )
    if isinstance(pool.max_nodes, int) and nodes > pool.max_nodes:
        raise ValueError(f"{who}: nodes must be at most the {pool.max_nodes} of pool {pool.name!r}, got {nodes}")
    if image is None and shape.architecture != "x86_64":
        raise ValueError(
            f"{who}: image must be given for {shape.architecture} nodes, got None; the tests' own is for x86_64"
        )
