"""Launch settings of a pool's nodes, as typed values: from a launch template or from a node class.

Sources:
https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-ec2-launchtemplate-launchtemplatedata.html,
https://karpenter.sh/v1.14/concepts/nodeclasses/,
https://docs.aws.amazon.com/eks/latest/userguide/create-node-class.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from gpu_facts.light import dataclass
from gpu_facts.quantities import GIB, quantity
from gpu_facts.resources import DISK
from gpu_preflight.reading.unknown import (
    Unknown,
    dig,
    is_true,
    items,
    known_number,
    known_text,
    mapping,
    mappings,
)


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface.

    Attributes:
        kind: ``interface``, ``efa`` or ``efa-only``.
        card: Index of its network card.
        subnet: Its subnet.
        groups: Its security groups.
        public: Whether it gets a public address.
        device: Its index among the interfaces of its card.
    """

    kind: Any = None
    card: Any = 0
    subnet: Any = None
    groups: tuple[Any, ...] = ()
    public: Any = None
    device: Any = None

    @property
    def is_efa(self) -> bool:
        """Whether it is an EFA interface."""
        return self.kind in ("efa", "efa-only")


@dataclass(frozen=True, slots=True)
class Disk:
    """An EBS volume.

    Attributes:
        device: Its device; empty if it isn't known.
        gib: Its size in GiB; ``None`` if it isn't known.
        kind: Its type, e.g. ``gp3``.
        iops: Its IOPS.
        throughput: Its throughput, MiB a second.
        key: Its KMS key.
        root: Whether a node class marks it as the volume for images and pods.
    """

    device: str
    gib: int | None
    kind: Any = None
    iops: Any = None
    throughput: Any = None
    key: Any = None
    root: bool = False


@dataclass(frozen=True, slots=True)
class Launch:
    """Launch settings of nodes; empty if they aren't in the input.

    Attributes:
        written: ``LaunchTemplateData``, or ``spec`` of the node class, as it is written.
        image: Id of the image.
        aliases: Aliases of images, with ``None`` for a term without an alias.
        instance_type: The instance type.
        attributes: Attributes by which EC2 chooses instance types.
        market: ``spot`` or ``capacity-block``.
        reservation_target: The targeted capacity reservation, or group of capacity reservations.
        reservation_preference: Whether open reservations are used.
        reservation_terms: Terms by which a node class selects reservations.
        interfaces: Network interfaces.
        disks: Volumes.
        security_groups: Security groups of the instance, by the name of the property.
        hop_limit: Hop limit of responses of the metadata service.
        metadata_endpoint: Whether the metadata service is enabled.
        placement: Placement group and tenancy.
        placement_terms: Terms by which a node class selects a placement group.
        profile: Instance profile.
        role: Role of the nodes of a node class.
        hibernates: Whether instances may hibernate.
        shutdown: Behavior of an instance at shutdown.
        tags: Tags of the launched resources.
        user_data: User data as it is written.
        kubelet: Settings of kubelet in a node class.
        store_policy: Use of local disks in a node class.
        ephemeral_size: Size of the disk that Auto Mode creates.
    """

    written: Mapping[str, Any] = field(default_factory=dict)
    image: Any = None
    aliases: tuple[Any, ...] = ()
    instance_type: Any = None
    attributes: Any = None
    market: Any = None
    reservation_target: Any = None
    reservation_preference: Any = None
    reservation_terms: tuple[Any, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    disks: tuple[Disk, ...] = ()
    security_groups: Mapping[str, Any] = field(default_factory=dict)
    hop_limit: Any = None
    metadata_endpoint: Any = None
    placement: Any = None
    placement_terms: Any = None
    profile: Any = None
    role: Any = None
    hibernates: Any = None
    shutdown: Any = None
    tags: tuple[Mapping[str, Any], ...] = ()
    user_data: Any = None
    kubelet: Mapping[str, Any] = field(default_factory=dict)
    store_policy: Any = None
    ephemeral_size: Any = None

    def __bool__(self) -> bool:
        """Whether any setting is in the input."""
        return bool(self.written)

    @property
    def image_terms(self) -> list[dict[str, Any]]:
        """Terms by which an EC2NodeClass selects images."""
        return mappings(self.written.get("amiSelectorTerms"))

    @property
    def reservation(self) -> Any:
        """Id of the targeted capacity reservation."""
        return _inside(self.reservation_target, "CapacityReservationId")

    @property
    def reservation_group(self) -> Any:
        """The targeted resource group of capacity reservations."""
        return _inside(self.reservation_target, "CapacityReservationResourceGroupArn")

    @property
    def efa_interfaces(self) -> int:
        """Number of EFA interfaces that it lists."""
        return sum(each.is_efa for each in self.interfaces)

    @property
    def disk_sizes(self) -> dict[str, int | None]:
        """Size of each volume in GiB, by device."""
        return {each.device: each.gib for each in self.disks}

    @property
    def placement_group(self) -> Any:
        """Name or id of the placement group."""
        return dig(self.placement, "GroupName") or dig(self.placement, "GroupId")


def template_launch(data: Mapping[str, Any]) -> Launch:
    """Return the launch settings of a launch template, or of an older launch configuration."""
    return Launch(
        written=data,
        image=data.get("ImageId"),
        instance_type=data.get("InstanceType"),
        attributes=data.get("InstanceRequirements"),
        market=_inside(data.get("InstanceMarketOptions"), "MarketType"),
        reservation_target=_inside(data.get("CapacityReservationSpecification"), "CapacityReservationTarget"),
        reservation_preference=dig(data, "CapacityReservationSpecification", "CapacityReservationPreference"),
        interfaces=tuple(map(_template_interface, mappings(data.get("NetworkInterfaces")))),
        disks=tuple(map(_template_disk, mappings(data.get("BlockDeviceMappings")))),
        security_groups={key: data[key] for key in ("SecurityGroupIds", "SecurityGroups") if key in data},
        hop_limit=dig(data, "MetadataOptions", "HttpPutResponseHopLimit"),
        metadata_endpoint=dig(data, "MetadataOptions", "HttpEndpoint"),
        placement=data.get("Placement"),
        profile=data.get("IamInstanceProfile"),
        hibernates=dig(data, "HibernationOptions", "Configured"),
        shutdown=data.get("InstanceInitiatedShutdownBehavior"),
        tags=tuple(mappings(data.get("TagSpecifications"))),
        user_data=data.get("UserData"),
    )


def class_launch(spec: Mapping[str, Any]) -> Launch:
    """Return the launch settings of a node class."""
    return Launch(
        written=spec,
        aliases=tuple(each.get("alias") for each in mappings(spec.get("amiSelectorTerms"))),
        reservation_terms=tuple(items(spec.get("capacityReservationSelectorTerms"))),
        interfaces=tuple(map(_class_interface, mappings(spec.get("networkInterfaces")))),
        disks=tuple(map(_class_disk, _listed(spec.get("blockDeviceMappings")))),
        hop_limit=dig(spec, "metadataOptions", "httpPutResponseHopLimit"),
        metadata_endpoint=dig(spec, "metadataOptions", "httpEndpoint"),
        placement_terms=spec.get("placementGroupSelector"),
        role=spec.get("role"),
        user_data=spec.get("userData"),
        kubelet=mapping(spec.get("kubelet")),
        store_policy=spec.get("instanceStorePolicy"),
        ephemeral_size=dig(spec, "ephemeralStorage", "size"),
    )


def _listed(value: Any) -> list[dict[str, Any]]:
    """Return the mappings of a list. For a list that only deployment sets, return a mapping without a known value."""
    return [{}] if isinstance(value, Unknown) else mappings(value)


def _inside(value: Any, key: str) -> Any:
    """Return a part of a value. If the value is known at deployment only, return the whole value."""
    return value if isinstance(value, Unknown) else dig(value, key)


def _template_interface(raw: Mapping[str, Any]) -> Interface:
    return Interface(
        kind=raw.get("InterfaceType"),
        card=raw.get("NetworkCardIndex", 0),
        subnet=raw.get("SubnetId"),
        groups=tuple(items(raw.get("Groups"))),
        public=raw.get("AssociatePublicIpAddress"),
        device=raw.get("DeviceIndex", 0),
    )


def _class_interface(raw: Mapping[str, Any]) -> Interface:
    return Interface(kind=raw.get("interfaceType"), card=raw.get("networkCardIndex", 0))


def _template_disk(raw: Mapping[str, Any]) -> Disk:
    ebs = mapping(raw.get("Ebs"))
    return Disk(
        device=known_text(raw.get("DeviceName")) or "",
        gib=known_number(ebs.get("VolumeSize")),
        kind=ebs.get("VolumeType"),
        iops=ebs.get("Iops"),
        throughput=ebs.get("Throughput"),
        key=ebs.get("KmsKeyId"),
    )


def _class_disk(raw: Mapping[str, Any]) -> Disk:
    ebs = mapping(raw.get("ebs"))
    size = quantity(DISK, ebs.get("volumeSize"))
    return Disk(
        device=known_text(raw.get("deviceName")) or "",
        gib=None if size is None else size // GIB,
        kind=ebs.get("volumeType"),
        iops=ebs.get("iops"),
        throughput=ebs.get("throughput"),
        key=ebs.get("kmsKeyID"),
        root=is_true(raw.get("rootVolume")),
    )
