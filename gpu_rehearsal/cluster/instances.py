"""EC2 instances of a cluster, their images, and the nodes that they register.

Source: https://kubernetes.io/docs/reference/labels-annotations-taints/ and
https://github.com/kubernetes/cloud-provider-aws/blob/master/pkg/providers/v1/instances_v2.go

Capacity and allocatable resources of a node, and quantities of Kubernetes as numbers.

Source: https://github.com/awslabs/amazon-eks-ami/tree/main/nodeadm/internal/kubelet (2026-11), whose reserves
Bottlerocket shares: https://bottlerocket.dev/en/os/latest/#/api/settings/kubernetes/
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
# The kernel keeps 64 bytes for each page of 4 KiB (https://docs.kernel.org/mm/memory-model.html), and itself and what
# firmware holds: an estimate, a little above what is seen on instances of 4 to 64 GiB.
_PAGE_SHARE, _KERNEL_MIB = Decimal(64) / 4096, 160
# Partition table, boot partition and log of the file system: 20 GiB are shown as 20,959,212 KiB.
_FILE_SYSTEM_KIB = 12_308
# Upper ends of ranges of millicores, and what share of each is kept.
_CPU_RESERVES = ((1000, Decimal("0.06")), (2000, Decimal("0.01")), (4000, Decimal("0.005")), (10**9, Decimal("0.0025")))
_EVICTION = {"memory.available": "100Mi", "nodefs.available": "10%"}
# The type of access entry by which instances join, whose kubelets are of the group system:nodes then.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html
_NODE_ENTRY_TYPE = "EC2_LINUX"
_IMAGE_FIELDS = ("Name", "Description")
# Until the cloud controller has named its zone and type.
UNINITIALIZED = {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}
_ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")


def number(written: object) -> Decimal:
    """Return the value of a quantity.

    Raises:
        ValueError: It is no quantity.
    """
    found = decimal_value(str(written))
    if found is None:
        raise ValueError(f"quantity must be a number with a unit of Kubernetes, got {written!r}")
    return found


def capacity(kind: Mapping[str, Any], told: Bootstrap, *, volume_gib: int) -> dict[str, str]:
    """Return what the kubelet says that its node has.

    Args:
        kind: The instance type, as DescribeInstanceTypes tells.
        told: What the instance was told.
        volume_gib: Size of the volume on which pods lie.
    """
    memory = kind["MemoryInfo"]["SizeInMiB"] * (1 - _PAGE_SHARE) - _KERNEL_MIB
    return {
        "cpu": str(kind["VCpuInfo"]["DefaultVCpus"]),
        "memory": f"{int(memory * _MIB / _KIB)}Ki",
        "ephemeral-storage": f"{_disk_kib(kind, told, volume_gib)}Ki",
        "pods": str(told.kubelet.get("maxPods") or network_pods(kind)),
    }


def allocatable(has: Mapping[str, str], kind: Mapping[str, Any], told: Bootstrap) -> dict[str, str]:
    """Return what pods may have of it."""
    reserves = _reserved(has, kind) | (told.kubelet.get("kubeReserved") or {})
    system, evicted = told.kubelet.get("systemReserved") or {}, _EVICTION | (told.kubelet.get("evictionHard") or {})
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
    """Return how many pods get an address without prefixes: nodeadm's own formula, maxpods.go there."""
    network = kind["NetworkInfo"]
    return int(network["MaximumNetworkInterfaces"] * (network["Ipv4AddressesPerInterface"] - 1) + 2)


def _reserved(has: Mapping[str, str], kind: Mapping[str, Any]) -> dict[str, str]:
    """What nodeadm keeps for itself; of pods it counts those that the network could have, whatever it was told."""
    millicores, reserves, start = int(number(has["cpu"]) * 1000), Decimal(0), 0
    for end, share in _CPU_RESERVES:
        reserves += max(0, min(millicores, end) - start) * share
        start = end
    return {"cpu": f"{int(reserves)}m", "memory": f"{11 * network_pods(kind) + 255}Mi", "ephemeral-storage": "1Gi"}


def _signal(written: str, whole: Decimal) -> Decimal:
    return whole * Decimal(written.removesuffix("%")) / 100 if written.endswith("%") else number(written)


def _disk_kib(kind: Mapping[str, Any], told: Bootstrap, volume_gib: int) -> int:
    own = kind.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0)
    # With one disk of its own or many: nodeadm makes one file system of them, and puts pods and images there.
    if told.local_disks and own:
        mirrored = 2 if told.local_disks == "RAID10" else 1
        return int(own * _GB / _KIB / mirrored) - _FILE_SYSTEM_KIB
    return volume_gib * _GIB // _KIB - _FILE_SYSTEM_KIB


@dataclass(frozen=True, slots=True)
class Image:
    """An image.

    Attributes:
        said: Its name and description; empty where nobody knows them.
    """

    said: str

    @property
    def is_bottlerocket(self) -> bool:
        """Whether its user data is settings."""
        return "bottlerocket" in self.said

    @property
    def has_driver(self) -> bool:
        """Whether NVIDIA's driver is in it. Of one that is somebody's own that is believed."""
        is_of_eks = self.is_bottlerocket or "al2023" in self.said
        return "nvidia" in self.said or not is_of_eks


@dataclass(frozen=True)
class Instance:
    """An instance that runs.

    Attributes:
        said: The instance, as DescribeInstances tells.
        kind: Its type, as DescribeInstanceTypes tells.
        told: What it was told about its node.
        volume_gib: Size of the volume on which its pods lie.
        role: ARN of its role.
    """

    said: Any
    kind: Any
    told: Bootstrap
    volume_gib: int
    role: str

    @property
    def id(self) -> str:
        """Its id."""
        return str(self.said["InstanceId"])

    @property
    def source(self) -> Source:
        """It as the source of connections; its pods call from its own address."""
        return _instance_source(self.said)

    @property
    def zone(self) -> str:
        """Its Availability Zone."""
        return str(self.said["Placement"]["AvailabilityZone"])


def _instance_source(said: Any) -> Source:
    """Return an instance, as DescribeInstances tells of it, as the source of connections."""
    groups = tuple(each["GroupId"] for each in said["SecurityGroups"])
    return Source(
        name=said["InstanceId"], subnet=said["SubnetId"], groups=groups, address=said.get("PublicIpAddress", "")
    )


class Instances:
    """EC2 as the machines of one cluster see it."""

    def __init__(self, cloud: Cloud, cluster: str) -> None:
        self._cloud, self._cluster = cloud, cluster
        self._ec2, self._eks, self._iam = (cloud.client(each) for each in ("ec2", "eks", "iam"))
        self._kinds: dict[str, Any] = {}
        self._images: dict[str, Image] = {}

    def running(self) -> dict[str, Any]:
        """Return what DescribeInstances tells of each that runs, by id."""
        filters = [{"Name": "instance-state-name", "Values": ["running"]}]
        pages = self._ec2.get_paginator("describe_instances").paginate(Filters=filters)
        found = (each for page in pages for reservation in page["Reservations"] for each in reservation["Instances"])
        return {each["InstanceId"]: each for each in found}

    def joining_instance(self, said: Any) -> Instance | None:
        """Return an instance that may join, or ``None`` where it was told to join another cluster.

        Raises:
            NeverJoins: It becomes no node, and why.
        """
        attribute = self._ec2.describe_instance_attribute(InstanceId=said["InstanceId"], Attribute="userData")
        told = read_user_data(
            attribute.get("UserData", {}).get("Value", ""), is_bottlerocket=self.image(said).is_bottlerocket
        )
        if told.cluster != self._cluster:
            return None
        self._check(told)
        role = self._role(said)
        if why := self._cloud.unreachable(_instance_source(said), self._cluster, "ec2", "ecr"):
            raise Unreachable(why)
        self._check_rights(said["InstanceId"], role)
        self._check_entry(role)
        return Instance(said, self._kind(said["InstanceType"]), told, self._volume_gib(said, told), role)

    def _check(self, told: Bootstrap) -> None:
        cluster = self._eks.describe_cluster(name=self._cluster)["cluster"]
        if told.endpoint != cluster.get("endpoint"):
            raise NeverJoins(f"it was told to call {told.endpoint}, the cluster is at {cluster.get('endpoint')}")
        if told.certificate_authority != cluster["certificateAuthority"]["data"]:
            raise NeverJoins("the certificate authority that it was told is not that of the cluster")

    def _check_rights(self, id: str, role: str) -> None:
        """Call what a node calls before it is ready: EC2 for its own name, and ECR for images of kube-system.

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

    def _role(self, said: Any) -> str:
        if "IamInstanceProfile" not in said:
            raise NeverJoins("it has no instance profile, and so no credentials")
        name = said["IamInstanceProfile"]["Arn"].rpartition("/")[2]
        roles = self._iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]["Roles"]
        if not roles:
            raise NeverJoins(f"its instance profile {name} has no role")
        return str(roles[0]["Arn"])

    def _kind(self, name: str) -> Any:
        if name not in self._kinds:
            [self._kinds[name]] = self._ec2.describe_instance_types(InstanceTypes=[name])["InstanceTypes"]
        return self._kinds[name]

    def _volume_gib(self, said: Any, told: Bootstrap) -> int:
        disks = {each["DeviceName"]: each["Ebs"]["VolumeId"] for each in said["BlockDeviceMappings"]}
        # An image may call its first disk otherwise than its user does; it has no other then.
        volume = disks.get(told.data_volume) or next(iter(disks.values()))
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

    def image(self, said: Any) -> Image:
        """Return the image of an instance, as DescribeInstances tells it."""
        id = said["ImageId"]
        if id not in self._images:
            found = self._ec2.describe_images(ImageIds=[id])["Images"]
            self._images[id] = Image(" ".join(str(found[0].get(each, "")) for each in _IMAGE_FIELDS) if found else "")
        return self._images[id]

    def efa_interfaces(self, instance: Instance) -> int:
        """Return how many of its network interfaces are EFAs, as its launch template asks for them.

        Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html
        """
        tags = {each["Key"]: each["Value"] for each in instance.said.get("Tags", ())}
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
    return str(instance.said["PrivateDnsName"])


def render_node(instance: Instance, *, version: str) -> Object:
    """Render a node as its kubelet makes it."""
    name, told = node_name(instance), instance.told
    machine = _ARCHITECTURES[instance.kind["ProcessorInfo"]["SupportedArchitectures"][-1]]
    has = capacity(instance.kind, told, volume_gib=instance.volume_gib)
    own = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": machine}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**told.labels, **own}},
        "spec": {
            "providerID": f"aws:///{instance.zone}/{instance.id}",
            "taints": [*map(dict, told.taints), UNINITIALIZED],
        },
        "status": {
            "capacity": has,
            "allocatable": allocatable(has, instance.kind, told),
            "conditions": [_condition(each, "False", "KubeletHasNo" + each) for each in _PRESSURES] + [_not_ready()],
            "addresses": [
                {"type": "InternalIP", "address": instance.said["PrivateIpAddress"]},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": _info(machine, version),
        },
    }


def cloud_labels(instance: Instance, *, region: str, zone_id: str) -> dict[str, str]:
    """Return the labels that the cloud controller adds."""
    return {
        "node.kubernetes.io/instance-type": instance.said["InstanceType"],
        "beta.kubernetes.io/instance-type": instance.said["InstanceType"],
        "topology.kubernetes.io/zone": instance.zone,
        "failure-domain.beta.kubernetes.io/zone": instance.zone,
        "topology.kubernetes.io/region": region,
        "failure-domain.beta.kubernetes.io/region": region,
        "topology.k8s.aws/zone-id": zone_id,
    }


def ready_condition() -> Object:
    """Render the condition of a node that takes pods."""
    return _condition("Ready", "True", "KubeletReady", "kubelet is posting ready status")


def _not_ready() -> Object:
    """Render the condition of a node whose network is not up."""
    return _condition(
        "Ready", "False", "KubeletNotReady", "container runtime network not ready: cni plugin not initialized"
    )


def now() -> str:
    """Return the time as Kubernetes writes it."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def render_lease(name: str) -> Object:
    """Render the lease that says that the kubelet of a node lives."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": lease_time()},
    }


def lease_time() -> str:
    """Return the time as leases write it."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _condition(kind: str, status: str, reason: str, message: str = "") -> Object:
    at = now()
    said = {"type": kind, "status": status, "reason": reason, "message": message}
    return said | {"lastHeartbeatTime": at, "lastTransitionTime": at}


def _info(machine: str, version: str) -> dict[str, str]:
    ids = {each: "" for each in ("machineID", "systemUUID", "bootID", "kernelVersion", "osImage")}
    runtime = {"containerRuntimeVersion": "containerd://2.1.0", "kubeProxyVersion": ""}
    return ids | runtime | {"kubeletVersion": f"v{version}.0", "operatingSystem": "linux", "architecture": machine}


@dataclass
class Node:
    """A node that registered.

    Attributes:
        instance: The instance.
        client: Its kubelet at the API server.
        since: When it registered.
        ready: Whether it takes pods beside those on the network of their host.
        renewed: When its lease was renewed.
    """

    name: str
    instance: Instance
    client: Client
    since: float
    ready: bool = False
    renewed: float = 0.0
