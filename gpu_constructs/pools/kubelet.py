"""The kubelet's reservations, and its limits on pods and image pulls."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from gpu_facts.hardware.catalogue import InstanceType
from gpu_facts.hardware.node_capacity import EVICTED_MEMORY, eni_pods, least_memory, reserved_cpu, reserved_memory
from gpu_facts.named_arguments import named_arguments
from gpu_facts.quantities import GIB, MIB, resources
from gpu_facts.refusals import refuse_unless_choice, refuse_unless_whole_number
from gpu_facts.resources import DISK

# Source: https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/
_RESERVABLE = ("cpu", "memory", DISK, "pid")
_QUANTITY = re.compile(r"\d+(\.\d+)?(m|[kKMGT]i?)?", re.ASCII)


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Kubelet:
    """Settings of the kubelet. Settings that you leave out keep the image's value.

    Attributes:
        max_pods: Max pods of a node. Default: the number of addresses of its network interfaces, at most 110, or 250
            with 30 vCPUs or more.
        kube_reserved: Reservation for Kubernetes' own daemons, e.g. ``{"cpu": "200m", "memory": "2Gi"}``.
        system_reserved: Reservation for the system's daemons, in the same form.
        parallel_image_pulls: Max images that it pulls at once. Default: no limit.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The kubelet would reject the setting.
    """

    max_pods: int | None = None
    kube_reserved: Mapping[str, str] = field(default_factory=dict, hash=False)
    system_reserved: Mapping[str, str] = field(default_factory=dict, hash=False)
    parallel_image_pulls: int | None = None

    def __post_init__(self) -> None:
        if self.max_pods is not None:
            refuse_unless_whole_number("kubelet", "max_pods", self.max_pods, least=1)
        if self.parallel_image_pulls is not None:
            refuse_unless_whole_number("kubelet", "parallel_image_pulls", self.parallel_image_pulls, least=1)
        for argument in ("kube_reserved", "system_reserved"):
            object.__setattr__(self, argument, MappingProxyType(_reserved(argument, getattr(self, argument))))

    def config(self) -> dict[str, object]:
        """Return the fields of a ``KubeletConfiguration`` that every kind of pool can set."""
        found: dict[str, object] = {}
        if self.max_pods is not None:
            found["maxPods"] = self.max_pods
        if self.kube_reserved:
            found["kubeReserved"] = dict(self.kube_reserved)
        if self.system_reserved:
            found["systemReserved"] = dict(self.system_reserved)
        return found

    def vcpus_left(self, row: InstanceType) -> float:
        """Return the virtual CPUs that it leaves for all pods, or 0 if they are unknown."""
        if row.vcpus is None:
            return 0
        return max(row.vcpus - self._reserved_amount("cpu", reserved_cpu(row.vcpus)) / 1000, 0)

    def memory_gib_left(self, row: InstanceType) -> int:
        """Return the memory that it leaves for all pods, in GiB, rounded down, or 0 if it is unknown.

        The hypervisor and the kernel use some more, which differs by type.
        """
        return self._gib_left(row, (row.memory_mib or 0) * MIB)

    def expected_memory_gib_left(self, row: InstanceType) -> int:
        """Return the memory that Karpenter expects for all pods before it has launched a node, in GiB, rounded down."""
        return self._gib_left(row, least_memory(row) or 0)

    def _gib_left(self, row: InstanceType, memory: int) -> int:
        kept = self._reserved_amount("memory", reserved_memory(eni_pods(row) or 0)) + EVICTED_MEMORY
        return int(max(memory - kept, 0) // GIB)

    def _reserved_amount(self, name: str, default: int) -> int:
        return resources(self.kube_reserved).get(name, default) + resources(self.system_reserved).get(name, 0)

    def pulls(self) -> dict[str, object]:
        """Return the fields for image pulls, which an EC2NodeClass doesn't have. EKS' images pull in parallel.

        Source: https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/
        """
        if self.parallel_image_pulls is None:
            return {}
        return {"maxParallelImagePulls": self.parallel_image_pulls}


def _reserved(argument: str, given: object) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise TypeError(
            f"kubelet: {argument} must map resources to quantities, got {given!r}; write {{'memory': '2Gi'}}"
        )
    for resource, quantity in given.items():
        refuse_unless_choice("kubelet", argument, resource, _RESERVABLE)
        if not isinstance(quantity, str) or not _QUANTITY.fullmatch(quantity):
            raise ValueError(
                f"kubelet: {argument}[{resource!r}] must be a quantity, got {quantity!r}; write one such as '2Gi'"
            )
    return dict(given)
