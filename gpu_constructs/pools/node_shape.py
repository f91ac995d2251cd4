"""What every node of a pool looks like. One description serves every kind of pool."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, cast, get_args

from gpu_constructs.pools.disk import Disk, Volume, node_volumes
from gpu_constructs.pools.host import Host
from gpu_constructs.pools.kubelet import Kubelet
from gpu_constructs.pools.labels_and_taints import (
    GPU_TAINT,
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
# What soci's parallel unpacking writes, and the least it runs on.
# Source: awslabs/amazon-eks-ami v20260724 nodeadm/doc/examples.md, nodeadm/internal/containerd/config.go
SOCI_MIB_S = 600
SOCI_VCPUS = 4
# Pods that every node of EKS runs: those of aws-node, or of another network plugin, and of kube-proxy.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/eks-add-ons.html (2026-11)
_NODE_DAEMONS = 2
Purpose = Literal["training", "inference"]


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class CustomImage:
    """An AMI that you build and keep up to date, in the shape of the EKS image for the operating system.

    You own what EKS otherwise does: its NVIDIA driver, container toolkit and kubelet must suit the GPU and the
    cluster's Kubernetes version, and every fix is a new image, whose id you put here. For the types of family g7 build
    it with driver 595: https://github.com/awslabs/amazon-eks-ami/blob/main/doc/usage/g7-ami.md

    Attributes:
        id: AMI id, ``ami-...``.
        driver_branch: NVIDIA driver branch in it, e.g. ``595``.

    Raises:
        TypeError: ``driver_branch`` is no whole number.
        ValueError: ``id`` is no AMI id.
    """

    id: str
    driver_branch: int

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not (is_token(self.id) or _IMAGE_ID.fullmatch(self.id)):
            raise ValueError(f"custom image: id must be an AMI id such as 'ami-0123456789abcdef0', got {self.id!r}")
        refuse_unless_whole_number("custom image", "driver_branch", self.driver_branch, least=1)


# What arguments take, whether they may be left out, and what to write instead of something else.
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
    """GPU nodes, as the user describes them.

    Attributes:
        instance_types: EC2 names, first choice first; or rows of your own where EC2 sells a type that this
            version of the catalogue does not know. The shape keeps the rows.
        operating_system: ``al2023`` or ``bottlerocket``, in the image with NVIDIA's driver. Default: ``al2023``; in
            Auto Mode its own Bottlerocket.
        disk: Volume for images and pods.
        raid0: Join the local NVMe disks into one array and keep images, logs and emptyDirs on it. Types without
            local NVMe ignore it.
        efa: Attach every EFA interface of the type, for traffic between nodes that bypasses the kernel. Takes one
            instance type and one zone; pods reach the interfaces through `EfaDevicePlugin`.
        placement_group: Name of a placement group of strategy ``cluster``, which EC2 fills in one rack. It makes
            capacity harder to get, and a reservation has a place of its own.
        sharing: How pods share a GPU: `Exclusive`, `TimeSlicing`, `Mps` or `Mig`.
        device_manager: Who tells Kubernetes of the GPUs: `DevicePlugin`, `GpuOperator`, `DraDriver`, or the image of
            Bottlerocket itself. Default: ``device-plugin`` on AL2023.
        kubelet: Settings of kubelet.
        soci: Pull and unpack an image in parallel streams. Where images lie on EBS it takes a volume of at least
            600 MiB/s.
        image: Image of your own. Default: EKS' NVIDIA image for the operating system.
        purpose: What runs on the nodes, ``training`` or ``inference``: it chooses how Karpenter may replace them,
            and a pool for training takes spot only from those who say that its runs save checkpoints.
            Default: nothing is known of it.
        labels: Node labels beside the ones every GPU node gets.
        taints: Taints beside the one every GPU node gets, ``nvidia.com/gpu=true:NoSchedule``.
        gpu_taint: Give the nodes that taint. Without it pods that ask for no GPU may fill the nodes that cost the most.
        storage_drivers: Drivers whose volumes its pods mount: ``ebs``, ``fsx``, ``s3``. A fresh node keeps pods away
            until they can mount there, by a taint that each driver takes off. Default: pods come first and try again.
        tags: Tags of instances, volumes and network interfaces.
        host: What the machine gets beside what GPUs need.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: No such node can exist, or it would boot without a working GPU.
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
                    f"node shape: instance type {each.name!r} must run al2023, got {self.os!r}; no "
                    "Bottlerocket image boots it"
                )
        if self.efa:
            _refuse_without_efa(self.rows)

    def _refuse_slow_soci(self) -> None:
        small = [each.name for each in self.rows if (each.vcpus or SOCI_VCPUS) < SOCI_VCPUS]
        if self.soci and small:
            raise ValueError(
                f"node shape: soci must be False for {', '.join(small)}, got True; with less than {SOCI_VCPUS} vCPUs "
                "the image ignores it"
            )
        if self.soci and not self.uses_raid0 and self.disk.throughput_mib_s < SOCI_MIB_S:
            raise ValueError(
                f"node shape: disk must have throughput_mib_s of at least {SOCI_MIB_S} with soci, got "
                f"{self.disk.throughput_mib_s}; write Disk(iops=16000, throughput_mib_s=1000)"
            )

    def _refuse_lost_snapshot(self) -> None:
        if self.disk.snapshot_id is None:
            return
        if self.os != "bottlerocket":
            raise ValueError(
                "node shape: disk must be without snapshot_id on al2023, whose images lie on the AMI's own volume, "
                f"got {self.disk.snapshot_id!r}; use bottlerocket, or bake them into an image of your own"
            )
        if self.uses_raid0:
            raise ValueError(
                "node shape: disk must be without snapshot_id where images lie on local NVMe, got "
                f"{self.disk.snapshot_id!r}; write raid0=False"
            )

    def _refuse_few_pods(self) -> None:
        least = _NODE_DAEMONS + self.managed_by.daemons + self.efa + 1
        if self.kubelet.max_pods is not None and self.kubelet.max_pods < least:
            raise ValueError(
                f"node shape: kubelet must have max_pods of at least {least}, got {self.kubelet.max_pods}; a node has "
                f"{least - 1} pods before the first of yours: network plugin, kube-proxy and those of its devices "
                "[GPU120]"
            )

    @property
    def rows(self) -> tuple[InstanceType, ...]:
        """The instance types, for type checkers, who cannot see that a shape keeps no names."""
        return cast("tuple[InstanceType, ...]", self.instance_types)

    @property
    def os(self) -> OperatingSystem:
        """Operating system of the nodes: as said, or the default."""
        return "al2023" if self.operating_system is None else self.operating_system

    @property
    def node_taints(self) -> tuple[Taint, ...]:
        """Every taint that a node keeps."""
        return ((GPU_TAINT,) if self.gpu_taint else ()) + tuple(self.taints)

    @property
    def startup_taints(self) -> tuple[Taint, ...]:
        """Taints of a fresh node, which its drivers for storage take away: no pod has to tolerate them."""
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
        """Virtual CPUs of the smallest node; 0 where the catalogue does not state them."""
        return min(each.vcpus or 0 for each in self.rows)

    @property
    def memory_gib(self) -> int:
        """Memory of the smallest node, in GiB, rounded down; 0 where the catalogue does not state it."""
        return int(min(each.memory_gib or 0 for each in self.rows))

    @property
    def architecture(self) -> Architecture:
        """CPU architecture, one for all types."""
        return self.rows[0].architecture

    @property
    def managed_by(self) -> DeviceManager:
        """Who tells Kubernetes of the GPUs: ``device_manager``, or the default of the operating system."""
        return resolve_device_manager("node shape", self.os, self.device_manager)

    @property
    def volumes(self) -> tuple[Volume, ...]:
        """EBS volumes of one node."""
        return node_volumes(self.os, self.disk)

    @property
    def uses_raid0(self) -> bool:
        """Whether every type has local NVMe to join."""
        return self.raid0 and all(each.nvme_disks for each in self.rows)

    @property
    def ephemeral_storage_gib(self) -> int:
        """What pods can use of the smallest node's disk, in GiB, rounded down."""
        size = min(each.nvme_gb for each in self.rows) * _GIB_PER_GB if self.uses_raid0 else self.disk.size_gib
        return disk_left_gib(size)

    @property
    def pod_vcpus(self) -> float:
        """Virtual CPUs that kubelet of the smallest node leaves to pods; 0 where the catalogue does not state them."""
        return min(self.kubelet.vcpus_left(each) for each in self.rows)

    @property
    def pod_memory_gib(self) -> int:
        """Memory that it leaves to them, in GiB, rounded down; 0 where the catalogue does not state it."""
        return min(self.kubelet.memory_gib_left(each) for each in self.rows)

    @property
    def accelerator_label(self) -> str:
        """Value of ``k8s.amazonaws.com/accelerator``."""
        models = {each.accelerator_label for each in self.rows}
        return models.pop() if len(models) == 1 else MIXED_ACCELERATORS

    @property
    def ageing(self) -> tuple[str, ...]:
        """Types whose last driver branch is the one the images carry now: the next image may drop them."""
        return tuple(each.name for each in self.rows if each.driver_max == LTS)

    def is_driven_by(self, release: str | None, kubernetes_version: str | None) -> bool:
        """Whether a release of EKS' image has a driver for every type, or that is not known."""
        carried = driver_branches(self.os, release, kubernetes_version) if self.image is None else None
        return not carried or all(each.supports_driver(carried) for each in self.rows)

    def refuse_undriven(self, who: object, release: str | None, kubernetes_version: str | None, *, take: str) -> None:
        """Refuse a release of EKS' image that is known not to carry the driver branch of a type.

        Args:
            who: Who refuses.
            release: The release, ``latest``, or ``None`` where it is not known.
            kubernetes_version: Minor version of the nodes, ``None`` where it is not known.
            take: Releases that carry it, as the error names them.

        Raises:
            ValueError: The GPUs of a type would stay invisible.
        """
        carried = driver_branches(self.os, release, kubernetes_version) if self.image is None else None
        undriven = [each for each in self.rows if carried and not each.supports_driver(carried)]
        if carried and undriven:
            raise ValueError(
                f"{who}: ami_release must be one with NVIDIA driver {max(each.driver_min or 0 for each in undriven)}, "
                f"which {', '.join(each.name for each in undriven)} needs, got {release!r}, which carries "
                f"{_named(carried)}; take {take} [GPU006]"
            )

    def node_labels(self, pool: str) -> dict[str, str]:
        """Return every label of a node of the pool that is called ``pool``."""
        ours = {POOL: pool, DEVICE_MANAGER: self.managed_by.name}
        # Cluster autoscaler waits for nvidia.com/gpu on a node with this label: for ever where it has another name.
        # Source: kubernetes/autoscaler cluster-autoscaler-1.36.1 processors/customresources/gpu_processor.go
        if GPU in self.gpu_resources(1) and not self.managed_by.by_claim:
            ours[ACCELERATOR] = self.accelerator_label
        if not isinstance(self.sharing, Exclusive):
            ours[SHARING] = self.sharing.profile
        if self.managed_by.name == "gpu-operator":
            ours[OPERATOR_CONFIG] = self.sharing.profile
        # Never on Bottlerocket or with claims: NVIDIA's charts would start a second device manager there.
        present = {GPU_PRESENT: "true"} if self.managed_by.cluster_plugin else {}
        efa = {WITH_EFA: "true"} if self.efa else {}
        return ours | present | efa | dict(self.labels)

    def gpu_resources(self, gpus: int) -> dict[str, int]:
        """Return what a node with ``gpus`` GPUs advertises of them, by resource name."""
        shared = self.sharing.resources(gpus)
        if isinstance(self.sharing, Mig) and self.os == "bottlerocket":
            return {GPU: sum(shared.values())}
        return shared

    def resources(self) -> dict[str, str]:
        """Return what a node offers that EC2 does not report, by resource name: the least of all types."""
        gpus = {} if self.managed_by.by_claim else self.gpu_resources(self.gpus)
        # What EC2 reports is no longer there where shares have another name, or GPUs are claimed.
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
        # ec2.InstanceType of the CDK has it.
        fix = f"; write {named.to_string()!r}" if hasattr(named, "to_string") else ""
        raise TypeError(
            f"node shape: instance_types must hold EC2 names such as 'g6.xlarge', got {format_value(named)}{fix}"
        )
    return instance_type(named)


def _rows(names: object) -> tuple[InstanceType, ...]:
    if isinstance(names, (list, tuple)) or hasattr(names, "to_string"):
        names = names if isinstance(names, (list, tuple)) else [names]
        found = tuple(_row(each) for each in names)
    else:
        found = tuple(instance_type(name) for name in words("node shape", "instance_types", names))
    if not found:
        raise ValueError("node shape: instance_types must name at least one type, got none; 'g6.xlarge' has one L4")
    if len({each.name for each in found}) < len(found):
        raise ValueError(f"node shape: instance_types must differ, got {tuple(each.name for each in found)!r}")
    return found


def _refuse_wrong_type(argument: str, value: object, expected: type, example: str, *, optional: bool) -> None:
    if not isinstance(value, expected) and not (optional and value is None):
        raise TypeError(f"node shape: {argument} must be a {expected.__name__}, got {value!r}; write {example}")


def _refuse_without_efa(types: tuple[InstanceType, ...]) -> None:
    names = ", ".join(each.name for each in types)
    if len(types) > 1:
        raise ValueError(f"node shape: efa must have one instance type, got {names}; each has its own network cards")
    [each] = types
    if each.max_efa is None:
        raise ValueError(
            f"node shape: efa must be False for {names!r}, because no two sources state the same interfaces, got True; "
            "pass a row of your own, dataclasses.replace(instance_type(...), max_efa=..., network_cards=...)"
        )
    if each.max_efa == 0:
        raise ValueError(f"node shape: efa must be False for {names!r}, which takes no EFA interface, got True")


def _refuse_shares_of_claims(sharing: Sharing, operating_system: OperatingSystem) -> None:
    if isinstance(sharing, Exclusive) or (isinstance(sharing, Mig) and operating_system == "al2023"):
        return
    raise ValueError(
        "node shape: sharing must be Exclusive(), or Mig on al2023, with device_manager='dra', got "
        f"{sharing!r}; several pods share a GPU by naming one SharedGpuClaim"
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
    carrier = "the EKS images for AL2023 and Bottlerocket carry" if image is None else "the custom image carries"
    if each.driver_min and each.driver_min > max(branches):
        raise ValueError(
            f"{who} must have NVIDIA driver {each.driver_min} or newer, and {carrier} {_named(branches)}; its GPUs "
            f"would stay invisible, use an image=CustomImage(id=..., driver_branch={each.driver_min}) of your own"
        )
    raise ValueError(f"{who} must have NVIDIA driver {each.driver_max} or older, and {carrier} {_named(branches)}")


def _named(branches: Sequence[int]) -> str:
    return " and ".join(map(str, branches))
