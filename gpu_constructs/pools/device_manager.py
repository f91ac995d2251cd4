"""Who tells Kubernetes of the GPUs of a node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpu_facts.named_arguments import named_arguments
from gpu_facts.operating_systems import OperatingSystem
from gpu_facts.refusals import refuse_unless_one_of

DeviceManagerName = Literal["device-plugin", "gpu-operator", "dra", "bottlerocket"]


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceManager:
    """What tells Kubernetes of the GPUs of a node.

    Attributes:
        name: What users call it, and what a label of its nodes says.
        operating_systems: On which nodes it can.
        by_claim: Pods claim its GPUs (Dynamic Resource Allocation) instead of asking for a number of them.
        cluster_plugin: It is a device plugin that the cluster runs, and that is told how pods share the GPUs; the one
            in Bottlerocket's image is told by the node.
        daemons: Pods that it runs on each node.
    """

    name: DeviceManagerName
    operating_systems: tuple[OperatingSystem, ...]
    by_claim: bool = False
    cluster_plugin: bool = False
    daemons: int = 1


# Daemons of the operator: device plugin, MPS daemon, feature discovery, validator and node feature discovery.
# The first that an operating system has is its default: Bottlerocket's images contain a device plugin, AL2023's do not.
DEVICE_MANAGERS = (
    DeviceManager(name="device-plugin", operating_systems=("al2023",), cluster_plugin=True),
    DeviceManager(name="gpu-operator", operating_systems=("al2023",), cluster_plugin=True, daemons=5),
    DeviceManager(name="bottlerocket", operating_systems=("bottlerocket",), daemons=0),
    DeviceManager(name="dra", operating_systems=("al2023", "bottlerocket"), by_claim=True),
)


def device_manager_on(who: object, operating_system: OperatingSystem, given: object) -> DeviceManager:
    """Return the device manager of an operating system that was asked for, or its default for ``None``.

    Raises:
        ValueError: The operating system leaves the GPUs to another.
    """
    able = {each.name: each for each in DEVICE_MANAGERS if operating_system in each.operating_systems}
    if given is None:
        return next(iter(able.values()))
    if operating_system == "bottlerocket" and given == "gpu-operator":
        raise ValueError(
            f"{who}: device_manager must be one of {', '.join(able)} on bottlerocket, whose image has all that the "
            f"operator would install, got {given!r}; leave it out, and see GpuOperator(acknowledge_bottlerocket=True)"
        )
    refuse_unless_one_of(who, "device_manager", given, able)
    return next(each for each in able.values() if each.name == given)
