"""EC2 instances of a cluster, their images, and the nodes that they register, with capacity and allocatable resources.

Sources of nodes: https://kubernetes.io/docs/reference/labels-annotations-taints/ and
https://github.com/kubernetes/cloud-provider-aws/blob/master/pkg/providers/v1/instances_v2.go
Sources of reserves: https://github.com/awslabs/amazon-eks-ami/tree/main/nodeadm/internal/kubelet (2026-11).
Bottlerocket has the same reserves: https://bottlerocket.dev/en/os/latest/#/api/settings/kubernetes/
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from functools import cached_property
from typing import Any

from botocore.exceptions import ClientError
from moto.core.exceptions import ServiceException

from gpu_facts.quantities import decimal_value
from gpu_rehearsal.cluster.bootstrap import Bootstrap, NeverJoins, Unreachable, read_user_data
from gpu_rehearsal.cluster.client import Client, Object
from gpu_rehearsal.credentials import Cloud, Source

_KIB, _MIB, _GIB, _GB = 1024, 1024**2, 1024**3, 10**9
# The kernel uses 64 bytes for each page of 4 KiB (https://docs.kernel.org/mm/memory-model.html). The second number, for
# kernel and firmware, is an estimate, slightly above observed values on instances of 4 to 64 GiB.
_PAGE_SHARE, _KERNEL_MIB = Decimal(64) / 4096, 160
# Partition table, boot partition and file system log: 20 GiB appear as 20,959,212 KiB.
_FILE_SYSTEM_KIB = 12_308
# Upper ends of ranges of millicores, and the reserved share of each range.
_CPU_RESERVES = ((1000, Decimal("0.06")), (2000, Decimal("0.01")), (4000, Decimal("0.005")), (10**9, Decimal("0.0025")))
_EVICTION = {"memory.available": "100Mi", "nodefs.available": "10%"}
# The type of access entry with which instances join. It puts their kubelets into the group system:nodes.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html
_NODE_ENTRY_TYPE = "EC2_LINUX"
_IMAGE_FIELDS = ("Name", "Description")
# The taint of a node until the cloud controller has set its zone and type.
UNINITIALIZED = {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}
_ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")


def number(written: object) -> Decimal:
    """Return the value of a quantity.

    Raises:
        ValueError: It isn't a quantity.
    """
    found = decimal_value(str(written))
    if found is None:
        raise ValueError(f"quantity must be a number with a unit of Kubernetes, got {written!r}")
    return found


def capacity(kind: Mapping[str, Any], bootstrap: Bootstrap, *, volume_gib: int) -> dict[str, str]:
    """Return the capacity that the kubelet reports.

    Args:
        kind: The instance type, as DescribeInstanceTypes returns it.
        bootstrap: Settings of the kubelet.
        volume_gib: Size of the volume for pods.
    """
    memory = kind["MemoryInfo"]["SizeInMiB"] * (1 - _PAGE_SHARE) - _KERNEL_MIB
    return {
        "cpu": str(kind["VCpuInfo"]["DefaultVCpus"]),
        "memory": f"{int(memory * _MIB / _KIB)}Ki",
        "ephemeral-storage": f"{_disk_kib(kind, bootstrap, volume_gib)}Ki",
        "pods": str(bootstrap.kubelet.get("maxPods") or network_pods(kind)),
    }


def allocatable(has: Mapping[str, str], kind: Mapping[str, Any], bootstrap: Bootstrap) -> dict[str, str]:
    """Return the allocatable resources of a node."""
    reserves = _reserved(has, kind) | (bootstrap.kubelet.get("kubeReserved") or {})
    system, evicted = (
        bootstrap.kubelet.get("systemReserved") or {},
        _EVICTION | (bootstrap.kubelet.get("evictionHard") or {}),
    )
    memory, disk = number(has["memory"]), number(has["ephemeral-storage"])

    def reserved(resource: str) -> Decimal:
        return number(reserves.get(resource, 0)) + number(system.get(resource, 0))

    left_memory = memory - reserved("memory") - _signal(evicted["memory.available"], memory)
    left_disk = disk - reserved("ephemeral-storage") - _signal(evicted["nodefs.available"], disk)
    return dict(has) | {
        "cpu": f"{int((number(has['cpu']) - reserved('cpu')) * 1000)}m",
        "memory": f"{int(left_memory / _KIB)}Ki",
        "ephemeral-storage": str(int(left_disk)),
    }


def network_pods(kind: Mapping[str, Any]) -> int:
    """Return how many pods get an address without prefix delegation. Formula of nodeadm's maxpods.go."""
    network = kind["NetworkInfo"]
    return int(network["MaximumNetworkInterfaces"] * (network["Ipv4AddressesPerInterface"] - 1) + 2)


def _reserved(has: Mapping[str, str], kind: Mapping[str, Any]) -> dict[str, str]:
    """Return nodeadm's reserves. The memory depends on the network's max pods, whatever maxPods is set to."""
    millicores, reserves, start = int(number(has["cpu"]) * 1000), Decimal(0), 0
    for end, share in _CPU_RESERVES:
        reserves += max(0, min(millicores, end) - start) * share
        start = end
    return {"cpu": f"{int(reserves)}m", "memory": f"{11 * network_pods(kind) + 255}Mi", "ephemeral-storage": "1Gi"}


def _signal(written: str, whole: Decimal) -> Decimal:
    return whole * Decimal(written.removesuffix("%")) / 100 if written.endswith("%") else number(written)


def _disk_kib(kind: Mapping[str, Any], bootstrap: Bootstrap, volume_gib: int) -> int:
    own = kind.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0)
    # nodeadm combines all instance store disks into one file system for pods and images.
    if bootstrap.local_disks and own:
        mirrored = 2 if bootstrap.local_disks == "RAID10" else 1
        return int(own * _GB / _KIB / mirrored) - _FILE_SYSTEM_KIB
    return volume_gib * _GIB // _KIB - _FILE_SYSTEM_KIB


@dataclass(frozen=True, slots=True)
class Image:
    """An AMI.

    Attributes:
        description: Its name and description; empty if unknown.
    """

    description: str

    @property
    def is_bottlerocket(self) -> bool:
        """Whether it is Bottlerocket, with TOML settings as user data."""
        return "bottlerocket" in self.description

    @property
    def has_driver(self) -> bool:
        """Whether it contains NVIDIA's driver. A custom AMI is assumed to contain it."""
        is_of_eks = self.is_bottlerocket or "al2023" in self.description
        return "nvidia" in self.description or not is_of_eks


@dataclass(frozen=True)
class Instance:
    """A running instance.

    Attributes:
        description: The instance, as DescribeInstances returns it.
        kind: Its type, as DescribeInstanceTypes returns it.
        bootstrap: The kubelet's settings from its user data.
        volume_gib: Size of the volume for its pods.
        role: ARN of its role.
    """

    description: Any
    kind: Any
    bootstrap: Bootstrap
    volume_gib: int
    role: str

    @property
    def id(self) -> str:
        """Its id."""
        return str(self.description["InstanceId"])

    @property
    def source(self) -> Source:
        """The instance as the source of connections. Its pods use its address."""
        return _instance_source(self.description)

    @property
    def zone(self) -> str:
        """Its Availability Zone."""
        return str(self.description["Placement"]["AvailabilityZone"])


def _instance_source(description: Any) -> Source:
    """Return the source of an instance's connections.

    Args:
        description: The instance, as DescribeInstances returns it.
    """
    groups = tuple(each["GroupId"] for each in description["SecurityGroups"])
    return Source(
        name=description["InstanceId"],
        subnet=description["SubnetId"],
        groups=groups,
        address=description.get("PublicIpAddress", ""),
    )


class Instances:
    """The EC2 instances of one cluster."""

    def __init__(self, cloud: Cloud, cluster: str) -> None:
        self._cloud, self._cluster = cloud, cluster
        self._ec2, self._eks, self._iam = (cloud.client(each) for each in ("ec2", "eks", "iam"))
        self._kinds: dict[str, Any] = {}
        self._images: dict[str, Image] = {}

    def running(self) -> dict[str, Any]:
        """Return the description of each running instance, by id."""
        filters = [{"Name": "instance-state-name", "Values": ["running"]}]
        pages = self._ec2.get_paginator("describe_instances").paginate(Filters=filters)
        found = (each for page in pages for reservation in page["Reservations"] for each in reservation["Instances"])
        return {each["InstanceId"]: each for each in found}

    def joining_instance(self, description: Any) -> Instance | None:
        """Return an instance that may join, or ``None`` if its user data names another cluster.

        Raises:
            NeverJoins: It never becomes a node.
        """
        attribute = self._ec2.describe_instance_attribute(InstanceId=description["InstanceId"], Attribute="userData")
        bootstrap = read_user_data(
            attribute.get("UserData", {}).get("Value", ""), is_bottlerocket=self.image(description).is_bottlerocket
        )
        if bootstrap.cluster != self._cluster:
            return None
        self._check(bootstrap)
        role = self._role(description)
        if why := self._cloud.unreachable(_instance_source(description), self._cluster, "ec2", "ecr"):
            raise Unreachable(why)
        self._check_rights(description["InstanceId"], role)
        self._check_entry(role)
        return Instance(
            description,
            self._kind(description["InstanceType"]),
            bootstrap,
            self._volume_gib(description, bootstrap),
            role,
        )

    def _check(self, bootstrap: Bootstrap) -> None:
        cluster = self._eks.describe_cluster(name=self._cluster)["cluster"]
        if bootstrap.endpoint != cluster.get("endpoint"):
            raise NeverJoins(
                f"its user data has endpoint {bootstrap.endpoint}, but the cluster's is {cluster.get('endpoint')}"
            )
        if bootstrap.certificate_authority != cluster["certificateAuthority"]["data"]:
            raise NeverJoins("the certificate authority in its user data isn't the cluster's")

    def _check_rights(self, id: str, role: str) -> None:
        """Make the calls of a node that boots: EC2 for its name, and ECR for the images of kube-system.

        Sources: awslabs/amazon-eks-ami nodeadm/internal/api/status.go,
        https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html (2026-11)
        """
        try:
            own = self._cloud.assume(role, service="ec2.amazonaws.com")
            self._cloud.client("ec2", credentials=own).describe_instances(InstanceIds=[id])
            self._cloud.client("ecr", credentials=own).get_authorization_token()
        except (ServiceException, ClientError) as error:
            raise NeverJoins(f"its role {role}: {error}") from error

    def _check_entry(self, role: str) -> None:
        try:
            entry = self._eks.describe_access_entry(clusterName=self._cluster, principalArn=role)["accessEntry"]
        except self._eks.exceptions.ResourceNotFoundException as error:
            raise NeverJoins(f"Unauthorized: its role {role} has no access entry") from error
        if entry["type"] != _NODE_ENTRY_TYPE:
            raise NeverJoins(f"Unauthorized: the access entry of its role {role} is of type {entry['type']}")

    def _role(self, description: Any) -> str:
        if "IamInstanceProfile" not in description:
            raise NeverJoins("it has no instance profile, and so no credentials")
        name = description["IamInstanceProfile"]["Arn"].rpartition("/")[2]
        roles = self._iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]["Roles"]
        if not roles:
            raise NeverJoins(f"its instance profile {name} has no role")
        return str(roles[0]["Arn"])

    def _kind(self, name: str) -> Any:
        if name not in self._kinds:
            [self._kinds[name]] = self._ec2.describe_instance_types(InstanceTypes=[name])["InstanceTypes"]
        return self._kinds[name]

    def _volume_gib(self, description: Any, bootstrap: Bootstrap) -> int:
        disks = {each["DeviceName"]: each["Ebs"]["VolumeId"] for each in description["BlockDeviceMappings"]}
        # The image may have another name for its first disk than the user expects.
        volume = disks.get(bootstrap.data_volume) or next(iter(disks.values()))
        return int(self._ec2.describe_volumes(VolumeIds=[volume])["Volumes"][0]["Size"])

    @cached_property
    def zone_ids(self) -> dict[str, str]:
        """Ids of zones, by name."""
        zones = self._ec2.describe_availability_zones()["AvailabilityZones"]
        return {each["ZoneName"]: each["ZoneId"] for each in zones}

    @cached_property
    def version(self) -> str:
        """Minor version of the cluster, and so of its images."""
        return str(self._eks.describe_cluster(name=self._cluster)["cluster"]["version"])

    def image(self, description: Any) -> Image:
        """Return the image of an instance from its description."""
        id = description["ImageId"]
        if id not in self._images:
            found = self._ec2.describe_images(ImageIds=[id])["Images"]
            self._images[id] = Image(" ".join(str(found[0].get(each, "")) for each in _IMAGE_FIELDS) if found else "")
        return self._images[id]

    def efa_interfaces(self, instance: Instance) -> int:
        """Return how many of its network interfaces are EFAs, according to its launch template.

        Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html
        """
        tags = {each["Key"]: each["Value"] for each in instance.description.get("Tags", ())}
        if "aws:ec2launchtemplate:id" not in tags:
            return 0
        [version] = self._ec2.describe_launch_template_versions(
            LaunchTemplateId=tags["aws:ec2launchtemplate:id"], Versions=[tags["aws:ec2launchtemplate:version"]]
        )["LaunchTemplateVersions"]
        interfaces = version["LaunchTemplateData"].get("NetworkInterfaces", ())
        return sum(each.get("InterfaceType") in ("efa", "efa-only") for each in interfaces)


def node_name(instance: Instance) -> str:
    """Return the name of the node that an instance becomes.

    Source: https://github.com/awslabs/amazon-eks-ami/pull/1264
    """
    return str(instance.description["PrivateDnsName"])


def render_node(instance: Instance, *, version: str) -> Object:
    """Return the node that a kubelet registers."""
    name, bootstrap = node_name(instance), instance.bootstrap
    machine = _ARCHITECTURES[instance.kind["ProcessorInfo"]["SupportedArchitectures"][-1]]
    has = capacity(instance.kind, bootstrap, volume_gib=instance.volume_gib)
    own = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": machine}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**bootstrap.labels, **own}},
        "spec": {
            "providerID": f"aws:///{instance.zone}/{instance.id}",
            "taints": [*map(dict, bootstrap.taints), UNINITIALIZED],
        },
        "status": {
            "capacity": has,
            "allocatable": allocatable(has, instance.kind, bootstrap),
            "conditions": [_condition(each, "False", "KubeletHasNo" + each) for each in _PRESSURES] + [_not_ready()],
            "addresses": [
                {"type": "InternalIP", "address": instance.description["PrivateIpAddress"]},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": _info(machine, version),
        },
    }


def cloud_labels(instance: Instance, *, region: str, zone_id: str) -> dict[str, str]:
    """Return the labels that the cloud controller adds."""
    return {
        "node.kubernetes.io/instance-type": instance.description["InstanceType"],
        "beta.kubernetes.io/instance-type": instance.description["InstanceType"],
        "topology.kubernetes.io/zone": instance.zone,
        "failure-domain.beta.kubernetes.io/zone": instance.zone,
        "topology.kubernetes.io/region": region,
        "failure-domain.beta.kubernetes.io/region": region,
        "topology.k8s.aws/zone-id": zone_id,
    }


def ready_condition() -> Object:
    """Return the condition of a ready node."""
    return _condition("Ready", "True", "KubeletReady", "kubelet is posting ready status")


def _not_ready() -> Object:
    """Return the condition of a node whose network isn't ready."""
    return _condition(
        "Ready", "False", "KubeletNotReady", "container runtime network not ready: cni plugin not initialized"
    )


def now() -> str:
    """Return the current time in the format of Kubernetes."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def render_lease(name: str) -> Object:
    """Return the lease with which a kubelet reports that it runs."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": lease_time()},
    }


def lease_time() -> str:
    """Return the current time in the format of leases."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _condition(kind: str, status: str, reason: str, message: str = "") -> Object:
    at = now()
    condition = {"type": kind, "status": status, "reason": reason, "message": message}
    return condition | {"lastHeartbeatTime": at, "lastTransitionTime": at}


def _info(machine: str, version: str) -> dict[str, str]:
    ids = {each: "" for each in ("machineID", "systemUUID", "bootID", "kernelVersion", "osImage")}
    runtime = {"containerRuntimeVersion": "containerd://2.1.0", "kubeProxyVersion": ""}
    return ids | runtime | {"kubeletVersion": f"v{version}.0", "operatingSystem": "linux", "architecture": machine}


@dataclass
class Node:
    """A registered node.

    Attributes:
        instance: The instance.
        client: The client of its kubelet.
        since: When it registered.
        ready: Whether pods that aren't on the host network can start.
        renewed: When its lease was last renewed.
    """

    name: str
    instance: Instance
    client: Client
    since: float
    ready: bool = False
    renewed: float = 0.0
