"""Sharing of a node's GPUs between pods: time slicing, MPS, MIG, claims."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from gpu_facts.hardware.catalogue import InstanceType
from gpu_facts.hardware.gpu_models import BOTTLEROCKET_NAMES, PROFILES, SLICES, USUAL_SLICES, compute_slices
from gpu_facts.image_releases import OperatingSystem
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_choice, refuse_unless_whole_number
from gpu_facts.resources import DEVICE_CLASS, GPU, MIG, SHARED_GPU

_MIG_PROFILE = re.compile(r"\dg\.\d+gb(\+me)?", re.ASCII)
# Max MPS clients of one GPU, by whether its compute capability is 7.5 (T4) or newer. On EC2 only V100 is older.
# Source: NVIDIA/k8s-device-plugin v0.20.0 cmd/mps-control-daemon/mps/
_MAX_MPS, _MAX_MPS_VOLTA = 48, 16
DeviceManagerName = Literal["device-plugin", "gpu-operator", "dra", "bottlerocket"]
_API = "resource.k8s.io/v1"
# Name of the claim in a pod, and of the claim's only request.
REQUEST = "gpu"
# Source: kubernetes-sigs/dra-driver-nvidia-gpu v0.4.1 deployments/helm/dra-driver-nvidia-gpu/templates/
_MIG_CLASS = "mig.nvidia.com"


@named_arguments
@dataclass(frozen=True, slots=True)
class Exclusive:
    """Each GPU belongs to one container at a time."""

    profile: ClassVar[str] = "exclusive"

    def resources(self, gpus: int) -> dict[str, int]:
        """Return the resources that a node with ``gpus`` GPUs advertises, by name."""
        return {GPU: gpus}


@named_arguments
@dataclass(frozen=True, slots=True)
class TimeSlicing:
    """Containers take turns on a GPU. Each can use all of its memory, without isolation.

    Pods request ``nvidia.com/gpu.shared``, one at a time. Two shares aren't twice the time.

    Attributes:
        replicas: Shares of each GPU, at least 2.

    Raises:
        TypeError: ``replicas`` isn't an integer.
        ValueError: It is below 2.
    """

    replicas: int

    def __post_init__(self) -> None:
        refuse_unless_whole_number("time slicing", "replicas", self.replicas, least=2, fix="write Exclusive() for one")

    @property
    def profile(self) -> str:
        """Its name among the profiles of a cluster."""
        return f"time-slicing-{self.replicas}"

    def resources(self, gpus: int) -> dict[str, int]:
        """Return the resources that a node with ``gpus`` GPUs advertises, by name."""
        return {SHARED_GPU: gpus * self.replicas}


@named_arguments
@dataclass(frozen=True, slots=True)
class Mps:
    """Containers run on a GPU at once through NVIDIA's Multi-Process Service, each with its share of the memory.

    NVIDIA calls it experimental in its device plugin. Pods request ``nvidia.com/gpu.shared``, one at a time.

    Attributes:
        replicas: Shares of each GPU, 2 to 48.

    Raises:
        TypeError: ``replicas`` isn't an integer.
        ValueError: MPS doesn't support that many clients.
    """

    replicas: int

    def __post_init__(self) -> None:
        refuse_unless_whole_number("mps", "replicas", self.replicas, least=2, fix="write Exclusive() for one")
        if self.replicas > _MAX_MPS:
            raise ValueError(
                f"mps: replicas must be at most {_MAX_MPS}, got {self.replicas}; lower it, because MPS supports no "
                "more clients"
            )

    @property
    def profile(self) -> str:
        """Its name among the profiles of a cluster."""
        return f"mps-{self.replicas}"

    def resources(self, gpus: int) -> dict[str, int]:
        """Return the resources that a node with ``gpus`` GPUs advertises, by name."""
        return {SHARED_GPU: gpus * self.replicas}


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Mig:
    """Each GPU is partitioned into instances with separate compute, memory and fault isolation.

    Pods request the instance by name, e.g. ``nvidia.com/mig-1g.10gb``. On Bottlerocket, which supports only one name,
    they request ``nvidia.com/gpu``.

    Attributes:
        geometry: Instances of each profile on one GPU, e.g. ``{"1g.10gb": 7}`` or ``{"3g.40gb": 1, "1g.10gb": 4}``.

    Raises:
        TypeError: ``geometry`` isn't a mapping.
        ValueError: A profile has an invalid name, or a number is below 1.
    """

    geometry: Mapping[str, int] = field(hash=False)

    def __post_init__(self) -> None:
        if not isinstance(self.geometry, Mapping) or not self.geometry:
            raise TypeError(
                f"mig: geometry must map profiles to numbers, got {self.geometry!r}; write "
                f"Mig(geometry={_usual_geometry(self.geometry)})"
            )
        for profile, number in self.geometry.items():
            if not isinstance(profile, str) or not _MIG_PROFILE.fullmatch(profile):
                raise ValueError(
                    f"mig: geometry must have profiles as keys, got {profile!r}; write one such as '1g.10gb'"
                )
            refuse_unless_whole_number("mig", f"geometry[{profile!r}]", number, least=1)
        object.__setattr__(self, "geometry", MappingProxyType(dict(self.geometry)))

    @property
    def profile(self) -> str:
        """Its name among the profiles of a cluster."""
        parts = (f"{number}x{name}" for name, number in sorted(self.geometry.items()))
        return "mig-" + "-".join(parts).replace("+", ".")

    def resources(self, gpus: int) -> dict[str, int]:
        """Return the resources that a node with ``gpus`` GPUs advertises, by name."""
        return {mig_resource(name): number * gpus for name, number in self.geometry.items()}


Sharing = Exclusive | TimeSlicing | Mps | Mig


def _usual_geometry(given: object) -> dict[str, int]:
    """Return the max number of instances of a profile that fit on one GPU of every family that has the profile."""
    known = isinstance(given, str) and any(given in profiles for profiles in PROFILES.values())
    profile = str(given) if known else "1g.10gb"
    return {profile: min(profiles[profile] for profiles in PROFILES.values() if profile in profiles)}


def mig_resource(profile: str) -> str:
    """Return the resource with which pods request a MIG instance under the strategy ``mixed``."""
    return f"{MIG}{profile.replace('+', '.')}"


def refuse_unless_shareable(who: str, sharing: Sharing, types: Sequence[InstanceType], operating_system: str) -> None:
    """Reject sharing that the GPUs or their device manager don't support.

    Raises:
        ValueError: They don't support it.
    """
    if isinstance(sharing, Mps):
        for each in types:
            if each.gpu_model == "V100" and sharing.replicas > _MAX_MPS_VOLTA:
                raise ValueError(
                    f"{who}: sharing must have at most {_MAX_MPS_VOLTA} MPS clients on {each.name!r}, got "
                    f"{sharing.replicas}; lower it"
                )
    if isinstance(sharing, Mig):
        _refuse_fractions(who, types, sharing)
        for each in types:
            _refuse_geometry(who, sharing, each)
        if operating_system == "bottlerocket":
            _refuse_on_bottlerocket(who, sharing, types)
    elif isinstance(sharing, (TimeSlicing, Mps)):
        _refuse_fractions(who, types, sharing)


def _refuse_fractions(who: str, types: Sequence[InstanceType], sharing: Sharing) -> None:
    fractions = [each.name for each in types if each.ec2_gpus == 0]
    if fractions:
        raise ValueError(
            f"{who}: sharing must be Exclusive() on {', '.join(fractions)}, which has only a fraction of a GPU, got "
            f"{type(sharing).__name__}; remove it"
        )


def _refuse_geometry(who: str, sharing: Mig, each: InstanceType) -> None:
    if not each.mig:
        raise ValueError(
            f"{who}: sharing must not be Mig on {each.name!r}, because {each.gpu_model} doesn't support it, got Mig; "
            "write TimeSlicing(4)"
        )
    known = PROFILES.get(each.family)
    if known is None:
        return
    for name, number in sharing.geometry.items():
        if name not in known:
            raise ValueError(
                f"{who}: sharing must have MIG profiles of {each.name!r}, {', '.join(known)}, got {name!r}"
                f"{_same_slices(name, known)}"
            )
        if number > known[name]:
            raise ValueError(
                f"{who}: sharing must have at most {known[name]} of {name!r} on a GPU of {each.name!r}, got {number}; "
                "lower it"
            )
    slices = SLICES.get(each.family, USUAL_SLICES)
    asked = sum(compute_slices(name) * number for name, number in sharing.geometry.items())
    if asked > slices:
        raise ValueError(
            f"{who}: sharing must use at most {slices} compute slices on a GPU of {each.name!r}, got {asked} of "
            f"{dict(sharing.geometry)}; remove instances"
        )


def _same_slices(name: str, known: Mapping[str, int]) -> str:
    """Return a hint at the smallest profile with as many compute slices, because its memory depends on the GPU."""
    compute, media = name.partition(".")[0], name.endswith("+me")
    same = (each for each in known if each.startswith(f"{compute}.") and each.endswith("+me") == media)
    found = next(same, None)
    return f"; use {found!r}, which has as many compute slices" if found else ""


def _refuse_on_bottlerocket(who: str, sharing: Mig, types: Sequence[InstanceType]) -> None:
    if len(sharing.geometry) > 1:
        raise ValueError(
            f"{who}: sharing must have one MIG profile on bottlerocket, got {', '.join(sharing.geometry)}; use al2023"
        )
    [(profile, number)] = sharing.geometry.items()
    for each in types:
        if each.family not in BOTTLEROCKET_NAMES:
            raise ValueError(
                f"{who}: sharing must not be Mig on bottlerocket for {each.name!r}, because no source states its name "
                "in Bottlerocket's settings, got Mig; use al2023"
            )
        most = PROFILES[each.family][profile]
        if number != most:
            raise ValueError(
                f"{who}: sharing must fill the GPU of {each.name!r} on bottlerocket, which creates {most} of "
                f"{profile!r}, got {number}; write {most}"
            )


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceManager:
    """Component that advertises the GPUs of a node to Kubernetes.

    Attributes:
        name: Its name for users, and the value of a label of its nodes.
        operating_systems: Operating systems that it supports.
        by_claim: Whether pods claim its GPUs (Dynamic Resource Allocation) instead of requesting a number of them.
        cluster_plugin: Whether it is a device plugin that the cluster runs, with a configuration of GPU sharing. The
            device plugin in Bottlerocket's image gets its configuration from the node.
        daemons: Number of pods that it runs on each node.
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


def resolve_device_manager(who: object, operating_system: OperatingSystem, given: object) -> DeviceManager:
    """Return the given device manager of an operating system, or its default for ``None``.

    Raises:
        ValueError: The operating system doesn't support it.
    """
    able = {each.name: each for each in DEVICE_MANAGERS if operating_system in each.operating_systems}
    if given is None:
        return next(iter(able.values()))
    if operating_system == "bottlerocket" and given == "gpu-operator":
        raise ValueError(
            f"{who}: device_manager must be one of {', '.join(able)} on bottlerocket, whose image already has the "
            f"operator's components, got {given!r}; leave it out, and see GpuOperator(acknowledge_bottlerocket=True)"
        )
    refuse_unless_choice(who, "device_manager", given, able)
    return next(each for each in able.values() if each.name == given)


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class GpuClaim:
    """GPUs, or MIG instances of one, all on one node.

    Attributes:
        count: Number of GPUs or instances.
        memory_gib: Min memory of each, in GiB. Default: any.
        mig_profile: Profile of MIG instances, e.g. ``1g.10gb``. Default: whole GPUs.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A number is below 1, or the profile is invalid.
    """

    count: int = 1
    memory_gib: int | None = None
    mig_profile: str | None = None

    def __post_init__(self) -> None:
        refuse_unless_whole_number("gpu claim", "count", self.count, least=1)
        if self.memory_gib is not None:
            refuse_unless_whole_number("gpu claim", "memory_gib", self.memory_gib, least=1)
        if self.mig_profile is not None and not isinstance(self.mig_profile, str):
            raise TypeError(
                f"gpu claim: mig_profile must be a string, got {self.mig_profile!r}; write one such as '1g.10gb'"
            )
        if self.mig_profile is not None and not _MIG_PROFILE.fullmatch(self.mig_profile):
            raise ValueError(
                f"gpu claim: mig_profile must be the name of a profile, got {self.mig_profile!r}; write one such as "
                "'1g.10gb'"
            )

    def claim(self, *, name: str, namespace: str) -> dict[str, Any]:
        """Return the claim that pods share."""
        metadata = {"name": name, "namespace": namespace}
        return {"apiVersion": _API, "kind": "ResourceClaim", "metadata": metadata, "spec": self._spec()}

    def template(self, *, name: str, namespace: str) -> dict[str, Any]:
        """Return the template that creates a separate claim for every pod."""
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
