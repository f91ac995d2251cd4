"""A claim on GPUs, as Dynamic Resource Allocation spells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpu_constructs.pools.sharing import MIG_PROFILE
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_whole_number
from gpu_facts.resources import DEVICE_CLASS

_API = "resource.k8s.io/v1"
# What a pod calls the claim, and the claim its only request.
REQUEST = "gpu"
# Source: kubernetes-sigs/dra-driver-nvidia-gpu v0.4.1 deployments/helm/dra-driver-nvidia-gpu/templates/
_MIG_CLASS = "mig.nvidia.com"


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class GpuClaim:
    """GPUs, or MIG instances of one, all on one node.

    Attributes:
        count: How many.
        memory_gib: Least memory of each, in GiB. Default: any.
        mig_profile: MIG instances of this profile, e.g. ``1g.10gb``. Default: whole GPUs.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A number is below 1, or the profile is none.
    """

    count: int = 1
    memory_gib: int | None = None
    mig_profile: str | None = None

    def __post_init__(self) -> None:
        refuse_unless_whole_number("gpu claim", "count", self.count, least=1)
        if self.memory_gib is not None:
            refuse_unless_whole_number("gpu claim", "memory_gib", self.memory_gib, least=1)
        if self.mig_profile is not None and not isinstance(self.mig_profile, str):
            raise TypeError(f"gpu claim: mig_profile must be a string, got {self.mig_profile!r}")
        if self.mig_profile is not None and not MIG_PROFILE.fullmatch(self.mig_profile):
            raise ValueError(f"gpu claim: mig_profile must be one such as '1g.10gb', got {self.mig_profile!r}")

    def claim(self, *, name: str, namespace: str) -> dict[str, Any]:
        """Return the claim that pods share."""
        metadata = {"name": name, "namespace": namespace}
        return {"apiVersion": _API, "kind": "ResourceClaim", "metadata": metadata, "spec": self._spec()}

    def template(self, *, name: str, namespace: str) -> dict[str, Any]:
        """Return what gives every pod a claim of its own."""
        metadata = {"name": name, "namespace": namespace}
        spec = {"spec": self._spec()}
        return {"apiVersion": _API, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}

    def _spec(self) -> dict[str, Any]:
        selectors = [{"cel": {"expression": expression}} for expression in self._expressions()]
        exactly = {
            "deviceClassName": _MIG_CLASS if self.mig_profile else DEVICE_CLASS,
            **({"selectors": selectors} if selectors else {}),
            "allocationMode": "ExactCount",
            "count": self.count,
        }
        return {"devices": {"requests": [{"name": REQUEST, "exactly": exactly}]}}

    def _expressions(self) -> list[str]:
        found = []
        if self.mig_profile is not None:
            found.append(f'device.attributes["{DEVICE_CLASS}"].profile == "{self.mig_profile}"')
        if self.memory_gib is not None:
            least = f'quantity("{self.memory_gib}Gi")'
            found.append(f'device.capacity["{DEVICE_CLASS}"].memory.compareTo({least}) >= 0')
        return found
