"""The instances of EC2, with what each was told."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gpu_constructs.rehearsal.players.cluster.boot.bootstrap import Bootstrap, NeverJoins
from gpu_constructs.rehearsal.players.cluster.cloud import Cloud
from gpu_constructs.rehearsal.players.cluster.node.image import Image
from gpu_constructs.rehearsal.players.cluster.user_data import bootstrap

# The type of access entry by which instances join, whose kubelets are of the group system:nodes then.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html
_OF_NODES = "EC2_LINUX"
_TELLING = ("Name", "Description")


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
    def zone(self) -> str:
        """Its Availability Zone."""
        return str(self.said["Placement"]["AvailabilityZone"])


class Instances:
    """EC2 as the machines of one cluster see it.

    Args:
        cloud: AWS.
        cluster: Name of the cluster.
    """

    def __init__(self, cloud: Cloud, cluster: str) -> None:
        self._cluster = cluster
        self._ec2, self._eks, self._iam = (cloud.client(each) for each in ("ec2", "eks", "iam"))
        self._kinds: dict[str, Any] = {}
        self._images: dict[str, Image] = {}

    def running(self) -> dict[str, Any]:
        """Return what DescribeInstances tells of each that runs, by id."""
        filters = [{"Name": "instance-state-name", "Values": ["running"]}]
        pages = self._ec2.get_paginator("describe_instances").paginate(Filters=filters)
        found = (each for page in pages for reservation in page["Reservations"] for each in reservation["Instances"])
        return {each["InstanceId"]: each for each in found}

    def of_cluster(self, said: Any) -> Instance | None:
        """Return an instance that may join, or ``None`` where it was told to join another cluster.

        Raises:
            NeverJoins: It becomes no node, and why.
        """
        attribute = self._ec2.describe_instance_attribute(InstanceId=said["InstanceId"], Attribute="userData")
        told = bootstrap(
            attribute.get("UserData", {}).get("Value", ""), is_bottlerocket=self.image(said).is_bottlerocket
        )
        if told.cluster != self._cluster:
            return None
        self._check(told)
        role = self._role(said)
        self._check_entry(role)
        return Instance(said, self._kind(said["InstanceType"]), told, self._volume_gib(said, told), role)

    def _check(self, told: Bootstrap) -> None:
        cluster = self._eks.describe_cluster(name=self._cluster)["cluster"]
        if told.endpoint != cluster.get("endpoint"):
            raise NeverJoins(f"it was told to call {told.endpoint}, the cluster is at {cluster.get('endpoint')}")
        if told.certificate_authority != cluster["certificateAuthority"]["data"]:
            raise NeverJoins("the certificate authority that it was told is not that of the cluster")

    def _check_entry(self, role: str) -> None:
        try:
            entry = self._eks.describe_access_entry(clusterName=self._cluster, principalArn=role)["accessEntry"]
        except self._eks.exceptions.ResourceNotFoundException as error:
            raise NeverJoins(f"Unauthorized: its role {role} has no access entry") from error
        if entry["type"] != _OF_NODES:
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
            self._images[id] = Image(" ".join(str(found[0].get(each, "")) for each in _TELLING) if found else "")
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
