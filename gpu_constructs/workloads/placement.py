"""Placement of the pods of a workload: its name, its queue, its claim of GPUs, and the room on its pool."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import aws_cdk as cdk
from constructs import Construct

from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.delivery import apply_after_dra_driver, apply_manifests
from gpu_constructs.installing.registry import Applied
from gpu_constructs.pools.pool import Pool
from gpu_constructs.pools.sharing import REQUEST
from gpu_constructs.workloads.gpu_pod import GpuPod
from gpu_facts.charts import KAI_SCHEDULER
from gpu_facts.kubernetes import refuse_unless_object_name
from gpu_facts.labels import KAI_QUEUE
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import has_token

# Before 1.36 the name of a Service must begin with a letter.
# Source: kubernetes/kubernetes v1.36.3 pkg/features/kube_features.go (RelaxedServiceNameValidation)
_LETTER_FIRST = ("1.33", "1.34", "1.35")


def unique_name(scope: Construct, name: str, content: Any) -> str:
    """Return a name with a hash of a content as the template writes it. A token's text differs between synths."""
    written = cdk.Stack.of(scope).resolve(content) if has_token(json.dumps(content)) else content
    return f"{name}-{hashlib.sha256(json.dumps(written, sort_keys=True).encode()).hexdigest()[:8]}"


def refuse_early_number(who: object, name: str, version: str | None) -> None:
    """Reject a name that begins with a digit, if the API server doesn't allow that for a Service.

    Args:
        who: Name of the construct in messages.
        name: Name of the Service, or its prefix.
        version: Minor version of the cluster, or ``None`` if it is unknown.

    Raises:
        ValueError: The name begins with a digit, and the version doesn't allow it.
    """
    if name[0].isdigit() and (version is None or version in _LETTER_FIRST):
        runs = "a cluster whose kubernetes_version is not given" if version is None else f"Kubernetes {version}"
        raise ValueError(
            f"{who}: name must begin with a letter in {runs}, got {name!r}; rename it, because only Kubernetes 1.36 "
            "and later allow a digit for a Service"
        )


@named_arguments
@dataclass(frozen=True, slots=True)
class KaiQueue:
    """A queue of KAI Scheduler. KAI then schedules the pods instead of the cluster's default scheduler.

    Attributes:
        name: Name of the queue.

    Raises:
        ValueError: ``name`` is invalid.
    """

    name: str

    def __post_init__(self) -> None:
        refuse_unless_object_name("kai queue", "name", self.name)

    @property
    def key(self) -> tuple[str, str]:
        """Key that pairs the jobs of the queue with the queue."""
        return (KAI_SCHEDULER, self.name)

    def put_on(self, workload: dict[str, Any], *templates: dict[str, Any]) -> None:
        """Assign a workload and the pods of its templates to the queue."""
        for each in (workload, *templates):
            each.setdefault("metadata", {}).setdefault("labels", {})[KAI_QUEUE] = self.name
        for each in templates:
            each["spec"]["schedulerName"] = KAI_SCHEDULER


def refuse_unless_queue(who: object, queue: object) -> None:
    """Reject a value that isn't a queue of KAI Scheduler, the name of a Kueue queue, or `None`.

    Raises:
        TypeError: The value has another type.
        ValueError: The string isn't a valid name.
    """
    if queue is not None and not isinstance(queue, KaiQueue):
        refuse_unless_object_name(who, "queue", queue)


def apply_after_queue(applied: Applied, *, cluster: ClusterRef, namespace: str, queue: str | KaiQueue | None) -> None:
    """Apply a workload after its queue and its queueing system, which rejects every job until its webhook answers.

    Raises:
        ValueError: It requests more than its queue can ever have.
    """
    cluster.jobs.ask(applied.construct)
    if isinstance(queue, KaiQueue):
        # A queue that isn't created here also needs the scheduler.
        cluster.queue(queue.key[0]).ask(applied)
        cluster.queue(*queue.key).ask(applied)
    elif queue is not None:
        cluster.queue(namespace, queue).ask(applied)


def _pods_at_most(who: object, pod: GpuPod, pool: Pool) -> int | None:
    """Return the max number of such pods on all nodes of a pool.

    It is ``None`` if the arguments don't determine it: the number of nodes is known only at deployment, an overlay
    changes the requests or the placement of the pod, or pods share a claimed GPU.

    Raises:
        ValueError: No node of the pool has the resources that the pod requests.
    """
    if not isinstance(pool.max_nodes, int) or pod.overlay or pod.claim is not None:
        return None
    return pool.max_nodes * max(pod.room_on(who, pool.shape, row) for row in pool.shape.rows)


def refuse_unexpected_memory(who: object, pod: GpuPod, pool: Pool) -> None:
    """Reject more memory than EKS Auto Mode expects of a node before it launches one.

    Self-managed Karpenter has a setting for the hypervisor's share, ``vmMemoryOverheadPercent``. Auto Mode has no
    documented setting, and the checker assumes the default of 7.5 % there.

    Raises:
        ValueError: The autoscaler launches no node for the pod.
    """
    if not pool.expects_less_memory or pod.overlay:
        return
    rows = [row for row in pool.shape.rows if row.memory_mib is not None]
    most = max((pool.shape.kubelet.expected_memory_gib_left(row) for row in rows), default=None)
    requested = pod.memory_request(who, pool.shape)
    if most is not None and len(rows) == len(pool.shape.rows) and requested > most:
        raise ValueError(
            f"{who}: memory_gib must be at most {most} with sidecars, the memory that EKS Auto Mode expects of a node "
            f"of pool {pool.name!r} before launch, got {requested}; request less, or add a larger instance type to the "
            "pool"
        )


def refuse_more_pods_than_room(who: object, argument: str, pods: int, pod: GpuPod, pool: Pool, *, fix: str) -> None:
    """Reject a number of pods that can never all run at once.

    Args:
        who: Name of the construct in messages.
        argument: Argument with the number of pods.
        pods: The number.
        pod: Spec of each pod.
        pool: Pool that they run on.
        fix: Suggested fix.

    Raises:
        ValueError: The pool has room for fewer.
    """
    most = _pods_at_most(who, pod, pool)
    if most is not None and pods > most:
        raise ValueError(
            f"{who}: {argument} must be at most {most}, which fit on the {pool.max_nodes} nodes of pool {pool.name!r}, "
            f"got {pods}; {fix} [GPU121]"
        )


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class PodClaim:
    """Reference of a pod to a claim.

    Attributes:
        name: Name of the claim that several pods share, or of the claim template.
        template: The template, for a separate claim of each pod, or ``None`` for a shared claim.
    """

    name: str
    template: dict[str, Any] | None

    def configure_workload(self, workload: dict[str, Any]) -> None:
        """Add it to the pods of a Job or Deployment. The typed classes support only the first version of the field."""
        kind = "resourceClaimName" if self.template is None else "resourceClaimTemplateName"
        workload["spec"]["template"]["spec"]["resourceClaims"] = [{"name": REQUEST, kind: self.name}]

    def apply(self, scope: Construct, cluster: ClusterRef, workload: Construct) -> None:
        """Apply the template before the workload, and keep the driver until both are deleted."""
        apply_after_dra_driver(workload, cluster=cluster)
        if self.template is not None:
            # A template is immutable. A changed one is another resource, and the old one is deleted after it.
            made = apply_manifests(scope, f"Claim-{self.name}", cluster=cluster, manifests=[self.template])
            workload.node.add_dependency(made)


def pod_claim(who: object, pod: GpuPod, pool: Pool, *, name: str, namespace: str) -> PodClaim | None:
    """Return the pod's claim of GPUs, or ``None`` if it requests an extended resource.

    Raises:
        ValueError: No node of the pool has the devices that the pod claims, or GPUs of the pool aren't claimed.
    """
    claim = pod.gpu_claim(who, pool.shape)
    if claim is None:
        return None
    if pod.claim is not None:
        return PodClaim(name=pod.claim, template=None)
    says = json.dumps(claim.template(name=name, namespace=namespace))
    unique = f"{name}-{hashlib.sha256(says.encode()).hexdigest()[:8]}"
    return PodClaim(name=unique, template=claim.template(name=unique, namespace=namespace))
