"""The hardware and software of a pool's nodes. One description works for every kind of pool."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, cast, get_args

from gpu_constructs.pools.disk import Disk, Volume, node_volumes
from gpu_constructs.pools.host import Host
from gpu_constructs.pools.kubelet import (
    GPU_TAINT,
    Kubelet,
    StorageDriver,
    Taint,
    checked_drivers,
    checked_tags,
    checked_taints,
    labels_of_nodes,
    startup_taint,
)
from gpu_constructs.pools.sharing import (
    DeviceManager,
    DeviceManagerName,
    Exclusive,
    Mig,
    Sharing,
    refuse_unless_shareable,
    resolve_device_manager,
)
from gpu_facts.hardware.catalogue import Architecture, InstanceType, instance_type, refuse_unless_row
from gpu_facts.hardware.node_capacity import disk_left_gib
from gpu_facts.image_releases import (
    DRIVER_BRANCHES,
    LTS,
    OperatingSystem,
    driver_branches,
    refuse_unless_operating_system,
)
from gpu_facts.labels import (
    ACCELERATOR,
    DEVICE_MANAGER,
    GPU_PRESENT,
    MIXED_ACCELERATORS,
    OPERATOR_CONFIG,
    POOL,
    SHARING,
    WITH_EFA,
)
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import (
    format_value,
    is_token,
    refuse_unless_choice,
    refuse_unless_instance,
    refuse_unless_whole_number,
    words,
)
from gpu_facts.resources import DISK, EFA, EFA_HUGE_PAGES, GPU, HUGE_PAGE_MIB, HUGE_PAGES

_IMAGE_ID = re.compile(r"ami-[0-9a-f]{8,17}")
_GIB_PER_GB = 1e9 / 2**30
# Throughput of soci's parallel unpacking, and its min number of vCPUs.
# Source: awslabs/amazon-eks-ami v20260724 nodeadm/doc/examples.md, nodeadm/internal/containerd/config.go
_SOCI_MIB_S = 600
_SOCI_VCPUS = 4
# Pods that every EKS node runs: aws-node or another network plugin, and kube-proxy.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/eks-add-ons.html (2026-11)
_NODE_DAEMONS = 2
Purpose = Literal["training", "inference"]


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class CustomImage:
    """An AMI that you build and maintain, with the structure of the EKS image for the operating system.

    You take over tasks of EKS: its NVIDIA driver, container toolkit and kubelet must support the GPU and the cluster's
    Kubernetes version, and every fix is a new image whose id you set here. For the types of family g7, build it with
    driver 595: https://github.com/awslabs/amazon-eks-ami/blob/main/doc/usage/g7-ami.md

    Attributes:
        id: AMI id, ``ami-...``.
        driver_branch: NVIDIA driver branch in it, e.g. ``595``.

    Raises:
        TypeError: ``driver_branch`` isn't an integer.
        ValueError: ``id`` isn't an AMI id.
    """

    id: str
    driver_branch: int

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not (is_token(self.id) or _IMAGE_ID.fullmatch(self.id)):
            raise ValueError(
                f"custom image: id must be an AMI id, got {self.id!r}; write one such as 'ami-0123456789abcdef0'"
            )
        refuse_unless_whole_number("custom image", "driver_branch", self.driver_branch, least=1)


# Arguments, their types, whether they are optional, and an example for messages.
_TAKEN: tuple[tuple[str, type, bool, str], ...] = (
    ("disk", Disk, False, "Disk(size_gib=200)"),
    ("raid0", bool, False, "True"),
    ("efa", bool, False, "True"),
    ("gpu_taint", bool, False, "True"),
    ("placement_group", str, True, "the group's name"),
    ("kubelet", Kubelet, False, "Kubelet(max_pods=50)"),
    ("soci", bool, False, "True"),
    ("host", Host, False, "Host(session_manager=True)"),
    ("image", CustomImage, True, "CustomImage(id='ami-...', driver_branch=595)"),
)


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class NodeShape:
    """The hardware and software of GPU nodes.

    Attributes:
        instance_types: EC2 names in order of preference, or your own rows if the catalogue doesn't have a type yet. The
            shape stores the rows.
        operating_system: ``al2023`` or ``bottlerocket``, in the image with NVIDIA's driver. Default: ``al2023``, and in
            Auto Mode its own Bottlerocket.
        disk: Volume for images and pods.
        raid0: Join the local NVMe disks into one array for images, logs and emptyDirs. Types without local NVMe ignore
            it.
        efa: Attach every EFA interface of the type, for traffic between nodes that bypasses the kernel. It needs one
            instance type and one zone. Pods get the interfaces through `EfaDevicePlugin`.
        placement_group: Name of a placement group of strategy ``cluster``. EC2 places its instances close together.
            Capacity is then harder to get. Don't set it with a reservation, which has its own placement.
        sharing: Sharing of a GPU between pods: `Exclusive`, `TimeSlicing`, `Mps` or `Mig`.
        device_manager: Component that advertises the GPUs to Kubernetes: `DevicePlugin`, `GpuOperator`, `DraDriver`, or
            the image of Bottlerocket itself. Default: ``device-plugin`` on AL2023.
        kubelet: Settings of the kubelet.
        soci: Pull and unpack an image in parallel streams. If images are on EBS, it needs a volume with at least 600
            MiB/s.
        image: Your own image. Default: EKS' NVIDIA image for the operating system.
        purpose: Workload of the nodes, ``training`` or ``inference``. It selects the rules for their replacement by
            Karpenter. A pool for training accepts spot only with ``Spot(checkpointed=True)``. Default: unknown.
        labels: Node labels in addition to the labels of every GPU node.
        taints: Taints in addition to the taint of every GPU node, ``nvidia.com/gpu=true:NoSchedule``.
        gpu_taint: Whether the nodes have that taint. Without it, pods that request no GPU may fill the most expensive
            nodes.
        storage_drivers: Drivers of the volumes that its pods mount: ``ebs``, ``fsx``, ``s3``. Each adds a taint that
            keeps pods off a new node until the driver removes it. Auto Mode attaches EBS volumes itself and rejects
            ``ebs``. The taint's effect is ``NoSchedule``: with ``NoExecute``, which the drivers recommend, it could end
            training on running nodes. FSx' driver 1.9 removes its taint a moment before the kubelet knows the driver,
            so a first pod can still fail once. Default: pods start without waiting, and retry their mounts.
        tags: Tags of instances, volumes and network interfaces.
        host: Additional settings of the machine that have nothing to do with GPUs.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The node is impossible, or it would boot without a working GPU.
    """

    instance_types: Sequence[str | InstanceType]
    operating_system: OperatingSystem | None = None
    disk: Disk = field(default_factory=Disk)
    raid0: bool = True
    efa: bool = False
    placement_group: str | None = None
    sharing: Sharing = field(default_factory=Exclusive)
    device_manager: DeviceManagerName | None = None
    kubelet: Kubelet = field(default_factory=Kubelet)
    soci: bool = False
    image: CustomImage | None = None
    purpose: Purpose | None = None
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    taints: Sequence[Taint] = ()
    gpu_taint: bool = True
    storage_drivers: Sequence[StorageDriver] = ()
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)
    host: Host = field(default_factory=Host)

    def __post_init__(self) -> None:
        refuse_unless_operating_system("node shape", self.os)
        object.__setattr__(self, "instance_types", _rows(self.instance_types))
        object.__setattr__(self, "labels", MappingProxyType(labels_of_nodes("node shape", self.labels)))
        object.__setattr__(self, "tags", MappingProxyType(checked_tags(self.tags)))
        object.__setattr__(self, "taints", checked_taints("node shape", self.taints, gpu_taint=self.gpu_taint))
        object.__setattr__(self, "storage_drivers", checked_drivers("node shape", self.storage_drivers))
        for argument, taken, optional, example in _TAKEN:
            _refuse_wrong_type(argument, getattr(self, argument), taken, example, optional=optional)
        kinds = "Exclusive(), TimeSlicing(4), Mps(4) or Mig(geometry={...})"
        refuse_unless_instance("node shape", "sharing", self.sharing, get_args(Sharing), kinds)
        if self.purpose is not None:
            refuse_unless_choice("node shape", "purpose", self.purpose, get_args(Purpose))
        self._refuse_unbootable()
        refuse_unless_shareable("node shape", self.sharing, self.rows, self.os)
        if self.managed_by.by_claim:
            _refuse_shares_of_claims(self.sharing, self.os)
        self._refuse_slow_soci()
        self._refuse_lost_snapshot()
        self._refuse_few_pods()
        self.host.refuse_on("node shape", self.os)

    def _refuse_unbootable(self) -> None:
        _refuse_mixed_architectures(self.rows)
        for each in self.rows:
            _refuse_without_driver(each, self.image)
            if each.ultraserver_only and self.os != "al2023":
                raise ValueError(
                    f"node shape: instance type {each.name!r} must run al2023, got {self.os!r}; use al2023, because no "
                    "Bottlerocket image boots it"
                )
        if self.efa:
            _refuse_without_efa(self.rows)

    def _refuse_slow_soci(self) -> None:
        small = [each.name for each in self.rows if (each.vcpus or _SOCI_VCPUS) < _SOCI_VCPUS]
        if self.soci and small:
            raise ValueError(
                f"node shape: soci must be False for {', '.join(small)}, got True; remove it, because the image "
                f"ignores it below {_SOCI_VCPUS} vCPUs"
            )
        if self.soci and not self.uses_raid0 and self.disk.throughput_mib_s < _SOCI_MIB_S:
            raise ValueError(
                f"node shape: disk must have throughput_mib_s of at least {_SOCI_MIB_S} with soci, got "
                f"{self.disk.throughput_mib_s}; write Disk(iops=16000, throughput_mib_s=1000)"
            )

    def _refuse_lost_snapshot(self) -> None:
        if self.disk.snapshot_id is None:
            return
        if self.os != "bottlerocket":
            raise ValueError(
                "node shape: disk must be without snapshot_id on al2023, which stores images on the AMI's own volume, "
                f"got {self.disk.snapshot_id!r}; use bottlerocket, or add the container images to your own AMI"
            )
        if self.uses_raid0:
            raise ValueError(
                "node shape: disk must be without snapshot_id if images are on local NVMe, got "
                f"{self.disk.snapshot_id!r}; write raid0=False"
            )

    def _refuse_few_pods(self) -> None:
        least = _NODE_DAEMONS + self.managed_by.daemons + self.efa + 1
        if self.kubelet.max_pods is not None and self.kubelet.max_pods < least:
            raise ValueError(
                f"node shape: kubelet must have max_pods of at least {least}, got {self.kubelet.max_pods}; raise it, "
                f"because each node runs {least - 1} pods of the network plugin, kube-proxy and the devices "
                "[GPU120]"
            )

    @property
    def rows(self) -> tuple[InstanceType, ...]:
        """The instance types as rows, for type checkers, which can't infer that a shape stores no names."""
        return cast("tuple[InstanceType, ...]", self.instance_types)

    @property
    def os(self) -> OperatingSystem:
        """Operating system of the nodes: the given one, or the default."""
        return "al2023" if self.operating_system is None else self.operating_system

    @property
    def node_taints(self) -> tuple[Taint, ...]:
        """All permanent taints of a node."""
        return ((GPU_TAINT,) if self.gpu_taint else ()) + tuple(self.taints)

    @property
    def startup_taints(self) -> tuple[Taint, ...]:
        """Taints of a new node, which its storage drivers remove. Pods don't need to tolerate them."""
        return tuple(startup_taint(each) for each in self.storage_drivers)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the instance types."""
        return tuple(each.name for each in self.rows)

    @property
    def gpus(self) -> int:
        """GPUs of the smallest node."""
        return min(each.gpus for each in self.rows)

    @property
    def vcpus(self) -> int:
        """Virtual CPUs of the smallest node, or 0 if the catalogue doesn't state them."""
        return min(each.vcpus or 0 for each in self.rows)

    @property
    def memory_gib(self) -> int:
        """Memory of the smallest node, in GiB, rounded down, or 0 if the catalogue doesn't state it."""
        return int(min(each.memory_gib or 0 for each in self.rows))

    @property
    def architecture(self) -> Architecture:
        """CPU architecture, one for all types."""
        return self.rows[0].architecture

    @property
    def managed_by(self) -> DeviceManager:
        """Component that advertises the GPUs: ``device_manager``, or the default of the operating system."""
        return resolve_device_manager("node shape", self.os, self.device_manager)

    @property
    def volumes(self) -> tuple[Volume, ...]:
        """EBS volumes of one node."""
        return node_volumes(self.os, self.disk)

    @property
    def uses_raid0(self) -> bool:
        """Whether ``raid0`` is set and every type has local NVMe."""
        return self.raid0 and all(each.nvme_disks for each in self.rows)

    @property
    def ephemeral_storage_gib(self) -> int:
        """Disk space of the smallest node that pods can use, in GiB, rounded down."""
        size = min(each.nvme_gb for each in self.rows) * _GIB_PER_GB if self.uses_raid0 else self.disk.size_gib
        return disk_left_gib(size)

    @property
    def pod_vcpus(self) -> float:
        """Virtual CPUs that the kubelet of the smallest node leaves for pods, or 0 if they are unknown."""
        return min(self.kubelet.vcpus_left(each) for each in self.rows)

    @property
    def pod_memory_gib(self) -> int:
        """Memory that the kubelet leaves for pods, in GiB, rounded down, or 0 if the catalogue doesn't state it."""
        return min(self.kubelet.memory_gib_left(each) for each in self.rows)

    @property
    def accelerator_label(self) -> str:
        """Value of ``k8s.amazonaws.com/accelerator``."""
        models = {each.accelerator_label for each in self.rows}
        return models.pop() if len(models) == 1 else MIXED_ACCELERATORS

    @property
    def ageing(self) -> tuple[str, ...]:
        """Types whose last driver branch is in the current images. The next image may drop it."""
        return tuple(each.name for each in self.rows if each.driver_max == LTS)

    def is_driven_by(self, release: str | None, kubernetes_version: str | None) -> bool:
        """Whether a release of EKS' image has a driver for every type. True if that is unknown."""
        carried = driver_branches(self.os, release, kubernetes_version) if self.image is None else None
        return not carried or all(each.supports_driver(carried) for each in self.rows)

    def refuse_undriven(self, who: object, release: str | None, kubernetes_version: str | None, *, take: str) -> None:
        """Reject a release of EKS' image that lacks the driver branch of a type.

        Args:
            who: Name of the construct in messages.
            release: The release, ``latest``, or ``None`` if it is unknown.
            kubernetes_version: Minor version of the nodes, or ``None`` if it is unknown.
            take: Suggested releases, for the message.

        Raises:
            ValueError: The driver would not support the GPUs of a type.
        """
        carried = driver_branches(self.os, release, kubernetes_version) if self.image is None else None
        undriven = [each for each in self.rows if carried and not each.supports_driver(carried)]
        if carried and undriven:
            raise ValueError(
                f"{who}: ami_release must be one with NVIDIA driver {max(each.driver_min or 0 for each in undriven)}, "
                f"which {', '.join(each.name for each in undriven)} needs, got {release!r}, which has "
                f"{_named(carried)}; use {take} [GPU006]"
            )

    def node_labels(self, pool: str) -> dict[str, str]:
        """Return every label of a node of the pool with the name ``pool``."""
        ours = {POOL: pool, DEVICE_MANAGER: self.managed_by.name}
        # Cluster autoscaler waits for nvidia.com/gpu on a node with this label, permanently if the resource has another
        # name.
        # Source: kubernetes/autoscaler cluster-autoscaler-1.36.1 processors/customresources/gpu_processor.go
        if GPU in self.gpu_resources(1) and not self.managed_by.by_claim:
            ours[ACCELERATOR] = self.accelerator_label
        if not isinstance(self.sharing, Exclusive):
            ours[SHARING] = self.sharing.profile
        if self.managed_by.name == "gpu-operator":
            ours[OPERATOR_CONFIG] = self.sharing.profile
        # Never on Bottlerocket or with claims, because NVIDIA's charts would start a second device manager there.
        present = {GPU_PRESENT: "true"} if self.managed_by.cluster_plugin else {}
        efa = {WITH_EFA: "true"} if self.efa else {}
        return ours | present | efa | dict(self.labels)

    def gpu_resources(self, gpus: int) -> dict[str, int]:
        """Return the resources that a node with ``gpus`` GPUs advertises for them, by name."""
        shared = self.sharing.resources(gpus)
        if isinstance(self.sharing, Mig) and self.os == "bottlerocket":
            return {GPU: sum(shared.values())}
        return shared

    def resources(self) -> dict[str, str]:
        """Return the resources of a node that EC2 doesn't report, by name, as the min of all types."""
        gpus = {} if self.managed_by.by_claim else self.gpu_resources(self.gpus)
        # A node doesn't have the resource that EC2 reports if its shares have another name, or GPUs are claimed.
        found = {resource: str(amount) for resource, amount in ({GPU: 0} | gpus).items()}
        found[DISK] = f"{self.ephemeral_storage_gib}Gi"
        if self.kubelet.max_pods is not None:
            found["pods"] = str(self.kubelet.max_pods)
        if self.efa:
            found[EFA] = str(self.rows[0].max_efa)
            found[HUGE_PAGES] = f"{EFA_HUGE_PAGES * HUGE_PAGE_MIB}Mi"
        return found


def _row(named: object) -> InstanceType:
    if isinstance(named, InstanceType):
        refuse_unless_row(named)
        return named
    if not isinstance(named, str):
        # ec2.InstanceType of the CDK has this method.
        fix = f"; write {named.to_string()!r}" if hasattr(named, "to_string") else ""
        raise TypeError(
            f"node shape: instance_types must contain EC2 names such as 'g6.xlarge', got {format_value(named)}{fix}"
        )
    return instance_type(named)


def _rows(names: object) -> tuple[InstanceType, ...]:
    if isinstance(names, (list, tuple)) or hasattr(names, "to_string"):
        names = names if isinstance(names, (list, tuple)) else [names]
        found = tuple(_row(each) for each in names)
    else:
        found = tuple(instance_type(name) for name in words("node shape", "instance_types", names))
    if not found:
        raise ValueError(
            "node shape: instance_types must name at least one type, got none; write one such as 'g6.xlarge'"
        )
    if len({each.name for each in found}) < len(found):
        raise ValueError(
            f"node shape: instance_types must differ, got {tuple(each.name for each in found)!r}; remove duplicates"
        )
    return found


def _refuse_wrong_type(argument: str, value: object, expected: type, example: str, *, optional: bool) -> None:
    if not isinstance(value, expected) and not (optional and value is None):
        raise TypeError(f"node shape: {argument} must be a {expected.__name__}, got {value!r}; write {example}")


def _refuse_without_efa(types: tuple[InstanceType, ...]) -> None:
    names = ", ".join(each.name for each in types)
    if len(types) > 1:
        raise ValueError(
            f"node shape: efa must have one instance type, got {names}; make one pool per type, because network cards "
            "differ"
        )
    [each] = types
    if each.max_efa is None:
        raise ValueError(
            f"node shape: efa must be False for {names!r}, because no two sources state the same interfaces, got True; "
            "pass your own row, dataclasses.replace(instance_type(...), max_efa=..., network_cards=...)"
        )
    if each.max_efa == 0:
        raise ValueError(
            f"node shape: efa must be False for {names!r}, which supports no EFA interface, got True; remove it"
        )


def _refuse_shares_of_claims(sharing: Sharing, operating_system: OperatingSystem) -> None:
    if isinstance(sharing, Exclusive) or (isinstance(sharing, Mig) and operating_system == "al2023"):
        return
    raise ValueError(
        "node shape: sharing must be Exclusive(), or Mig on al2023, with device_manager='dra', got "
        f"{sharing!r}; name one SharedGpuClaim in several pods to share a GPU"
    )


def _refuse_mixed_architectures(types: tuple[InstanceType, ...]) -> None:
    if len({each.architecture for each in types}) > 1:
        named = ", ".join(f"{each.name} ({each.architecture})" for each in types)
        raise ValueError(
            f"node shape: instance_types must share one CPU architecture, got {named}; make one pool per architecture"
        )


def _refuse_without_driver(each: InstanceType, image: CustomImage | None) -> None:
    branches = DRIVER_BRANCHES if image is None else (image.driver_branch,)
    if each.supports_driver(branches):
        return
    who = f"node shape: instance type {each.name!r}"
    carrier = "the EKS images for AL2023 and Bottlerocket have" if image is None else "the custom image has"
    if each.driver_min and each.driver_min > max(branches):
        raise ValueError(
            f"{who} must have NVIDIA driver {each.driver_min} or newer, got {_named(branches)}, which {carrier}; use "
            f"your own image=CustomImage(id=..., driver_branch={each.driver_min}), because its GPUs would not work"
        )
    raise ValueError(
        f"{who} must have NVIDIA driver {each.driver_max} or older, got {_named(branches)}, which {carrier}; use "
        "another type"
    )


def _named(branches: Sequence[int]) -> str:
    return " and ".join(map(str, branches))
