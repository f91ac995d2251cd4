"""How pods share the GPUs of a node: time slicing, MPS, MIG, claims."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from gpu_facts.hardware.catalogue import InstanceType
from gpu_facts.hardware.mig import BOTTLEROCKET_NAMES, PROFILES, SLICES, USUAL_SLICES, compute_slices
from gpu_facts.image_releases import OperatingSystem
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_choice, refuse_unless_whole_number
from gpu_facts.resources import DEVICE_CLASS, GPU, MIG, SHARED_GPU

MIG_PROFILE = re.compile(r"\dg\.\d+gb(\+me)?", re.ASCII)
# MPS clients of one GPU, by whether its compute capability is 7.5 (T4) or newer; of EC2's only V100 is older.
# Source: NVIDIA/k8s-device-plugin v0.20.0 cmd/mps-control-daemon/mps/
_MAX_MPS, _MAX_MPS_VOLTA = 48, 16
DeviceManagerName = Literal["device-plugin", "gpu-operator", "dra", "bottlerocket"]
_API = "resource.k8s.io/v1"
# What a pod calls the claim, and the claim its only request.
REQUEST = "gpu"
# Source: kubernetes-sigs/dra-driver-nvidia-gpu v0.4.1 deployments/helm/dra-driver-nvidia-gpu/templates/
_MIG_CLASS = "mig.nvidia.com"


@named_arguments
@dataclass(frozen=True, slots=True)
class Exclusive:
    """Each GPU belongs to one container at a time."""

    profile: ClassVar[str] = "exclusive"

    def resources(self, gpus: int) -> dict[str, int]:
        """Return what a node with ``gpus`` GPUs advertises, by resource name."""
        return {GPU: gpus}


@named_arguments
@dataclass(frozen=True, slots=True)
class TimeSlicing:
    """Containers take turns on a GPU. Each sees all of its memory, and nothing keeps one from taking it.

    Pods ask for ``nvidia.com/gpu.shared``, one at a time: two shares are not twice the time.

    Attributes:
        replicas: Shares of each GPU, at least 2.

    Raises:
        TypeError: ``replicas`` is no whole number.
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
        """Return what a node with ``gpus`` GPUs advertises, by resource name."""
        return {SHARED_GPU: gpus * self.replicas}


@named_arguments
@dataclass(frozen=True, slots=True)
class Mps:
    """Containers run on a GPU at once through NVIDIA's Multi-Process Service, each with its part of the memory.

    NVIDIA calls it experimental in its device plugin. Pods ask for ``nvidia.com/gpu.shared``, one at a time.

    Attributes:
        replicas: Shares of each GPU, 2 to 48.

    Raises:
        TypeError: ``replicas`` is no whole number.
        ValueError: MPS has not so many clients.
    """

    replicas: int

    def __post_init__(self) -> None:
        refuse_unless_whole_number("mps", "replicas", self.replicas, least=2, fix="write Exclusive() for one")
        if self.replicas > _MAX_MPS:
            raise ValueError(f"mps: replicas must be at most {_MAX_MPS}, got {self.replicas}; MPS has no more clients")

    @property
    def profile(self) -> str:
        """Its name among the profiles of a cluster."""
        return f"mps-{self.replicas}"

    def resources(self, gpus: int) -> dict[str, int]:
        """Return what a node with ``gpus`` GPUs advertises, by resource name."""
        return {SHARED_GPU: gpus * self.replicas}


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Mig:
    """Each GPU is partitioned into instances with compute, memory and faults of their own.

    Pods ask for the instance by name, e.g. ``nvidia.com/mig-1g.10gb``; on Bottlerocket, which knows one name only, for
    ``nvidia.com/gpu``.

    Attributes:
        geometry: Instances of each profile on one GPU, e.g. ``{"1g.10gb": 7}`` or ``{"3g.40gb": 1, "1g.10gb": 4}``.

    Raises:
        TypeError: ``geometry`` is no mapping.
        ValueError: A profile is no name of one, or a number is below 1.
    """

    geometry: Mapping[str, int] = field(hash=False)

    def __post_init__(self) -> None:
        if not isinstance(self.geometry, Mapping) or not self.geometry:
            raise TypeError(
                f"mig: geometry must map profiles to numbers, got {self.geometry!r}; write "
                f"Mig(geometry={_usual_geometry(self.geometry)})"
            )
        for profile, number in self.geometry.items():
            if not isinstance(profile, str) or not MIG_PROFILE.fullmatch(profile):
                raise ValueError(f"mig: geometry must have profiles such as '1g.10gb' as keys, got {profile!r}")
            refuse_unless_whole_number("mig", f"geometry[{profile!r}]", number, least=1)
        object.__setattr__(self, "geometry", MappingProxyType(dict(self.geometry)))

    @property
    def profile(self) -> str:
        """Its name among the profiles of a cluster."""
        parts = (f"{number}x{name}" for name, number in sorted(self.geometry.items()))
        return "mig-" + "-".join(parts).replace("+", ".")

    def resources(self, gpus: int) -> dict[str, int]:
        """Return what a node with ``gpus`` GPUs advertises, by resource name."""
        return {mig_resource(name): number * gpus for name, number in self.geometry.items()}


Sharing = Exclusive | TimeSlicing | Mps | Mig


def _usual_geometry(given: object) -> dict[str, int]:
    """Return as many instances of a profile as fit on one GPU of every family that has it."""
    known = isinstance(given, str) and any(given in profiles for profiles in PROFILES.values())
    profile = str(given) if known else "1g.10gb"
    return {profile: min(profiles[profile] for profiles in PROFILES.values() if profile in profiles)}


def mig_resource(profile: str) -> str:
    """Return the resource by which pods ask for a MIG instance under the strategy ``mixed``."""
    return f"{MIG}{profile.replace('+', '.')}"


def refuse_unless_shareable(who: str, sharing: Sharing, types: Sequence[InstanceType], operating_system: str) -> None:
    """Refuse sharing that the GPUs, or what manages them, cannot do.

    Raises:
        ValueError: They cannot.
    """
    if isinstance(sharing, Mps):
        for each in types:
            if each.gpu_model == "V100" and sharing.replicas > _MAX_MPS_VOLTA:
                raise ValueError(
                    f"{who}: sharing must have at most {_MAX_MPS_VOLTA} MPS clients on {each.name!r}, got "
                    f"{sharing.replicas}"
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
            f"{who}: sharing must be Exclusive() on {', '.join(fractions)}, which is a part of a GPU already, got "
            f"{type(sharing).__name__}"
        )


def _refuse_geometry(who: str, sharing: Mig, each: InstanceType) -> None:
    if not each.mig:
        raise ValueError(
            f"{who}: sharing must not be Mig on {each.name!r}, whose {each.gpu_model} has none, got Mig; write "
            "TimeSlicing(4)"
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
                f"{who}: sharing must have at most {known[name]} of {name!r} on a GPU of {each.name!r}, got {number}"
            )
    slices = SLICES.get(each.family, USUAL_SLICES)
    asked = sum(compute_slices(name) * number for name, number in sharing.geometry.items())
    if asked > slices:
        raise ValueError(
            f"{who}: sharing must take at most {slices} compute slices on a GPU of {each.name!r}, got {asked} of "
            f"{dict(sharing.geometry)}"
        )


def _same_slices(name: str, known: Mapping[str, int]) -> str:
    """Return a hint at the smallest profile with as many compute slices: its memory depends on the GPU."""
    compute, media = name.partition(".")[0], name.endswith("+me")
    same = (each for each in known if each.startswith(f"{compute}.") and each.endswith("+me") == media)
    found = next(same, None)
    return f"; {found!r} has as many compute slices" if found else ""


def _refuse_on_bottlerocket(who: str, sharing: Mig, types: Sequence[InstanceType]) -> None:
    if len(sharing.geometry) > 1:
        raise ValueError(
            f"{who}: sharing must have one MIG profile on bottlerocket, got {', '.join(sharing.geometry)}; use al2023"
        )
    [(profile, number)] = sharing.geometry.items()
    for each in types:
        if each.family not in BOTTLEROCKET_NAMES:
            raise ValueError(
                f"{who}: sharing must not be Mig on bottlerocket for {each.name!r}, whose name in its settings no "
                "source states, got Mig; use al2023"
            )
        most = PROFILES[each.family][profile]
        if number != most:
            raise ValueError(
                f"{who}: sharing must fill the GPU of {each.name!r} on bottlerocket, which makes {most} of "
                f"{profile!r}, got {number}"
            )


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


def resolve_device_manager(who: object, operating_system: OperatingSystem, given: object) -> DeviceManager:
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
    refuse_unless_choice(who, "device_manager", given, able)
    return next(each for each in able.values() if each.name == given)


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
