"""How much the pods of a team may ask for at once."""

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

# What a container gets that asks for neither, where a quota wants every one to ask.
DEFAULT_CPU, DEFAULT_MEMORY = "250m", "512Mi"
# Of an EKS cluster Kubernetes bounds nothing itself; this is more than any has.
_MOST = 10**9
_STAYING = ("Deployment", "StatefulSet")
_REQUESTS = "requests."


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class TeamQuota:
    """Most that the pods of a namespace may ask for at once. Kubernetes refuses pods beyond it; nothing waits.

    Where jobs wait in a queue of Kueue, the queue's nodes are the number that counts: have the quota above what the
    team may borrow, too, since pods of an admitted job that it refuses never start. It bounds jobs without a queue.

    Sources: https://kubernetes.io/docs/concepts/policy/resource-quotas/,
    https://kubernetes.io/docs/concepts/policy/limit-range/ (2026-11)

    Attributes:
        gpus: Whole GPUs, as many of them by claims of DRA. Slices and shares of GPUs have other names and are not
            counted here.
        vcpus: CPUs that pods ask for. With it, or with ``memory_gib``, a container that says neither asks for a quarter
            CPU and half a GiB, because Kubernetes refuses one that asks for nothing then.
        memory_gib: Memory that pods ask for.
        others: Other resources of devices by name, e.g. ``{"nvidia.com/mig-1g.10gb": 7, "nvidia.com/gpu.shared": 8,
            "vpc.amazonaws.com/efa": 32}``.

    Raises:
        TypeError: A number is none.
        ValueError: A number is below 0, a name is none of a device, or nothing is bounded.
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
            raise TypeError(f"{who}: others must map resources to numbers, got {self.others!r}")
        for name, number in self.others.items():
            _refuse_unless_device(who, name)
            refuse_unless_whole_number(who, f"others[{name!r}]", number, least=0, most=_MOST)
        if not self.others and all(each is None for each in numbers.values()):
            raise ValueError(f"{who}: gpus, vcpus, memory_gib or others must be given, got none; leave the quota out")
        object.__setattr__(self, "others", MappingProxyType(dict(self.others)))

    @property
    def hard(self) -> dict[str, str]:
        """What a ResourceQuota says. Devices are counted by what is asked for alone, which is also their limit."""
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
        """What a container asks for that does not say, where it has to."""
        return (
            {"cpu": DEFAULT_CPU, "memory": DEFAULT_MEMORY}
            if self.vcpus is not None or self.memory_gib is not None
            else {}
        )

    def to_manifests(self, namespace: str) -> dict[str, dict[str, Any]]:
        """Render the ResourceQuota, and the LimitRange where pods need one, each by the id of its construct."""
        metadata = {"name": "team", "namespace": namespace}
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": self.hard}}
        if not self.defaults:
            return {"Quota": quota}
        entry = {"type": "Container", "defaultRequest": self.defaults}
        limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": dict(metadata), "spec": {"limits": [entry]}}
        # First what gives requests, then what wants them.
        return {"Defaults": limits, "Quota": quota}


def _refuse_unless_device(who: object, name: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"{who}: others must have names of resources as keys, got {name!r}")
    if name == GPU:
        raise ValueError(f"{who}: others must not name {GPU!r}, got {name!r}; write gpus=...")
    domain = name.partition("/")[0]
    native = domain == "kubernetes.io" or domain.endswith(".kubernetes.io") or name.startswith("requests.")
    if "/" not in name or native or not QUALIFIED_NAME.fullmatch(name):
        raise ValueError(
            f"{who}: others must name resources of devices, such as 'nvidia.com/mig-1g.10gb' or "
            f"'vpc.amazonaws.com/efa', got {name!r}"
        )


@named_arguments
@dataclass(slots=True)
class QuotaUse:
    """The quota of a team, and what its workloads take of it, in the order in which they are made.

    Attributes:
        quota: The quota.
        taken: Requests of the workloads counted so far that run permanently.
    """

    quota: TeamQuota
    taken: Resources = field(default_factory=dict)

    def take(self, manifest: Any) -> str | None:
        """Count a workload.

        Returns:
            The rule that its pods break, and what they ask for; ``None`` where the quota leaves enough.
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
                return f"ask for at most {show(resource, most)} {resource} in all, got {show(resource, wanted)}{others}"
        if stays:
            self.taken = add(self.taken, asked)
        return None


def _requests_at_once(manifest: Any) -> tuple[Resources, bool] | None:
    """Return what the pods of a workload ask for that run at the same time, and whether they stay.

    Independent pods of a Job can run one after another, so the quota must allow one at a time. A workload without a
    number of pods has at least one, which may be removed again.
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
    """Return what a number of pods request; a number that only deployment sets is a token of the CDK, below zero."""
    return {name: amount * max(number, 0) for name, amount in pod_requests(pod).items()}
