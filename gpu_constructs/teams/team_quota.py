"""Limits on the total that the pods of a team may request at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from gpu_facts.kubernetes import QUALIFIED_NAME
from gpu_facts.named_arguments import named_arguments
from gpu_facts.quantities import Resources, add, pod_requests, quantity, show
from gpu_facts.refusals import refuse_unless_whole_number
from gpu_facts.resources import DEVICE_CLASS, GPU

# Requests of a container without any, if the quota requires every container to have requests.
_DEFAULT_CPU, _DEFAULT_MEMORY = "250m", "512Mi"
# Kubernetes and EKS set no limit. No cluster has more than this.
_MOST = 10**9
_STAYING = ("Deployment", "StatefulSet")
_REQUESTS = "requests."


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class TeamQuota:
    """Max that the pods of a namespace may request at once. Kubernetes rejects pods beyond it, and doesn't queue them.

    The Job of a rejected pod gets ``FailedCreate`` events and retries. The first Job that retries when GPUs are free
    gets them.

    If jobs wait in a queue of Kueue, the nodes of the queue are the effective limit. Set the quota above them,
    including nodes that the team may borrow, because pods of an admitted job never start if the quota rejects them.
    The quota then limits jobs without a queue.

    Sources: https://kubernetes.io/docs/concepts/policy/resource-quotas/,
    https://kubernetes.io/docs/concepts/policy/limit-range/ (2026-11)

    Attributes:
        gpus: Whole GPUs. It is also the limit of GPUs that DRA claims request, which are counted separately. Slices
            and shares of GPUs have other names and aren't counted here.
        vcpus: CPUs that pods request. If you set it or ``memory_gib``, Kubernetes rejects containers without requests.
            So a container without requests then gets a quarter CPU and half a GiB.
        memory_gib: Memory that pods request.
        others: Other device resources by name, e.g.
            ``{"nvidia.com/mig-1g.10gb": 7, "nvidia.com/gpu.shared": 8, "vpc.amazonaws.com/efa": 32}``.

    Raises:
        TypeError: A number isn't an integer.
        ValueError: A number is below 0, a name isn't of a device resource, or no limit is set.
    """

    gpus: int | None = None
    vcpus: int | None = None
    memory_gib: int | None = None
    others: Mapping[str, int] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        who = "team quota"
        numbers = {"gpus": self.gpus, "vcpus": self.vcpus, "memory_gib": self.memory_gib}
        for argument, number in numbers.items():
            if number is not None:
                refuse_unless_whole_number(who, argument, number, least=0, most=_MOST)
        if not isinstance(self.others, Mapping):
            raise TypeError(
                f"{who}: others must map resources to numbers, got {self.others!r}; write "
                f"{{'nvidia.com/gpu.shared': 8}}"
            )
        for name, number in self.others.items():
            _refuse_unless_device(who, name)
            refuse_unless_whole_number(who, f"others[{name!r}]", number, least=0, most=_MOST)
        if not self.others and all(each is None for each in numbers.values()):
            raise ValueError(
                f"{who}: gpus, vcpus, memory_gib or others must be given, got none; set one, or leave the quota out"
            )
        object.__setattr__(self, "others", MappingProxyType(dict(self.others)))

    @property
    def hard(self) -> dict[str, str]:
        """Limits of the ResourceQuota. For devices Kubernetes counts requests, which equal the limits."""
        found: dict[str, str] = {}
        if self.gpus is not None:
            found[f"requests.{GPU}"] = str(self.gpus)
            # Source: kubernetes/kubernetes v1.36.3 pkg/quota/v1/evaluator/core/resource_claims.go
            found[f"{DEVICE_CLASS}.deviceclass.resource.k8s.io/devices"] = str(self.gpus)
        if self.vcpus is not None:
            found["requests.cpu"] = str(self.vcpus)
        if self.memory_gib is not None:
            found["requests.memory"] = f"{self.memory_gib}Gi"
        return found | {f"requests.{name}": str(number) for name, number in self.others.items()}

    @property
    def defaults(self) -> dict[str, str]:
        """Default requests of a container, if the quota requires requests."""
        return (
            {"cpu": _DEFAULT_CPU, "memory": _DEFAULT_MEMORY}
            if self.vcpus is not None or self.memory_gib is not None
            else {}
        )

    def to_manifests(self, namespace: str) -> dict[str, dict[str, Any]]:
        """Render the ResourceQuota, and the LimitRange if pods need default requests, by construct id."""
        metadata = {"name": "team", "namespace": namespace}
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": self.hard}}
        if not self.defaults:
            return {"Quota": quota}
        entry = {"type": "Container", "defaultRequest": self.defaults}
        limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": dict(metadata), "spec": {"limits": [entry]}}
        # The LimitRange comes first: it sets the requests that the quota requires.
        return {"Defaults": limits, "Quota": quota}


def _refuse_unless_device(who: object, name: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"{who}: others must have resource names as keys, got {name!r}; write them as strings")
    if name == GPU:
        raise ValueError(f"{who}: others must not name {GPU!r}, got {name!r}; write gpus=...")
    domain = name.partition("/")[0]
    native = domain == "kubernetes.io" or domain.endswith(".kubernetes.io") or name.startswith("requests.")
    if "/" not in name or native or not QUALIFIED_NAME.fullmatch(name):
        raise ValueError(
            f"{who}: others must name device resources, got {name!r}; write a name such as 'nvidia.com/mig-1g.10gb' or "
            "'vpc.amazonaws.com/efa'"
        )


@named_arguments
@dataclass(slots=True)
class QuotaUse:
    """The quota of a team, and the part of it that its workloads use, in the order in which you create them.

    Attributes:
        quota: The quota.
        taken: Requests of the workloads counted so far that run permanently.
    """

    quota: TeamQuota
    taken: Resources = field(default_factory=dict)

    def take(self, manifest: Any) -> str | None:
        """Count a workload.

        Returns:
            The rule that its pods break, with the amount that they request, or ``None`` if the quota is sufficient.
        """
        found = _requests_at_once(manifest)
        if found is None:
            return None
        asked, stays = found
        for name, written in self.quota.hard.items():
            resource = name.removeprefix(_REQUESTS)
            most, wanted = quantity(resource, written) or 0, asked.get(resource, 0)
            before = self.taken.get(resource, 0)
            if wanted and wanted + before > most:
                others = f" in addition to {show(resource, before)} that earlier workloads request" if before else ""
                return (
                    f"request at most {show(resource, most)} {resource} in total, got {show(resource, wanted)}{others}"
                )
        if stays:
            self.taken = add(self.taken, asked)
        return None


def _requests_at_once(manifest: Any) -> tuple[Resources, bool] | None:
    """Return the requests of a workload's simultaneous pods, and whether they run permanently.

    Independent pods of a Job can run one after another, so the quota must allow one at a time. A workload without a
    number of pods has at least one, which an autoscaler may remove.
    """
    kind, spec = manifest.get("kind"), manifest.get("spec") or {}
    if kind in _STAYING:
        pods = spec.get("replicas")
        return _times(spec["template"]["spec"], 1 if pods is None else pods), pods is not None
    if kind == "Job":
        together = "subdomain" in spec["template"]["spec"]
        return _times(spec["template"]["spec"], spec.get("parallelism", 1) if together else 1), False
    if kind == "LeaderWorkerSet":
        return _leader_worker_resources(spec), True
    if kind == "MPIJob":
        roles = spec["mpiReplicaSpecs"].values()
        return add(*(_times(role["template"]["spec"], role["replicas"]) for role in roles)), False
    return None


def _leader_worker_resources(spec: Mapping[str, Any]) -> Resources:
    templates, groups = spec["leaderWorkerTemplate"], spec.get("replicas", 1)
    worker = templates["workerTemplate"]["spec"]
    leader = templates.get("leaderTemplate", templates["workerTemplate"])["spec"]
    return add(_times(leader, groups), _times(worker, groups * (templates.get("size", 1) - 1)))


def _times(pod: Mapping[str, Any], number: int) -> Resources:
    """Return the requests of a number of pods. A number that is set at deployment is a CDK token, which is negative."""
    return {name: amount * max(number, 0) for name, amount in pod_requests(pod).items()}
