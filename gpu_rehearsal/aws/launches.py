"""Launches of EC2 instances from launch templates and overrides, capacity, and images of EKS and Bottlerocket.

moto doesn't resolve a template's version, tags, profile, interfaces or purchase option, so they are resolved here.

Sources: https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html,
https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id-bottlerocket.html
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from datetime import datetime, timezone
from typing import Any
from uuid import uuid4

from botocore.exceptions import ClientError
from moto.ec2.exceptions import InvalidSubnetIdError
from moto.ec2.models.amis import Ami
from moto.events.models import events_backends

from gpu_rehearsal.aws.api import AwsError, NotSimulated, Request, simulates
from gpu_rehearsal.aws.policies import AccessRequest, UnknownPermission, decide_for_principal, read_statements
from gpu_rehearsal.aws.region import Call, Region, moto_ec2

_DATES = """
20240227 20240307 20240315 20240329 20240409 20240415 20240424 20240506 20240514 20240522 20240531 20240605 20240615
20240625 20240703 20240729 20240807 20240817 20240828 20240904 20240910 20240917 20240924 20240928 20241011 20241016
20241024 20241106 20241109 20241115 20241121 20241205 20241213 20241225 20250103 20250116 20250123 20250203 20250212
20250224 20250228 20250304 20250317 20250403 20250410 20250419 20250501 20250505 20250514 20250519 20250610 20250620
20250627 20250704 20250715 20250801 20250804 20250807 20250813 20250819 20250821 20250829 20250904 20250915 20250920
20251002 20251007 20251016 20251023 20251029 20251103 20251108 20251112 20251120 20251209 20251217 20260107 20260114
20260116 20260120 20260128 20260129 20260209 20260224 20260304 20260310 20260311 20260318 20260403 20260409 20260415
20260423 20260505 20260512 20260520 20260523 20260527 20260529 20260610 20260618 20260625 20260707 20260709 20260714
20260724
"""
_RELEASES = frozenset(_DATES.split())
_LAST_LISTED = max(_RELEASES)
_DATE = re.compile(r"[-v](\d{8})$")
_AL2023 = re.compile(
    r"/aws/service/eks/optimized-ami/(?P<minor>1\.\d\d)/amazon-linux-2023/(?P<arch>x86_64|arm64)"
    r"/(?P<variant>standard|nvidia|neuron)/(?P<release>recommended|amazon-eks-node-[^/]+)/image_id"
)
_BOTTLEROCKET = re.compile(
    r"/aws/service/bottlerocket/aws-k8s-(?P<minor>1\.\d\d)(?P<variant>-nvidia|-fips|-nvidia-fips)?"
    r"/(?P<arch>x86_64|arm64)/(?P<release>[^/]+)/image_id"
)
# Image of a managed group's AMI type, in the terms of the SSM parameters.
# Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html (amiType, 2026-11)
_AMI_TYPES = {
    "AL2023_x86_64_STANDARD": ("al2023", "x86_64", "standard"),
    "AL2023_ARM_64_STANDARD": ("al2023", "arm64", "standard"),
    "AL2023_x86_64_NVIDIA": ("al2023", "x86_64", "nvidia"),
    "AL2023_ARM_64_NVIDIA": ("al2023", "arm64", "nvidia"),
    "AL2023_x86_64_NEURON": ("al2023", "x86_64", "neuron"),
    "BOTTLEROCKET_x86_64": ("bottlerocket", "x86_64", ""),
    "BOTTLEROCKET_ARM_64": ("bottlerocket", "arm64", ""),
    "BOTTLEROCKET_x86_64_NVIDIA": ("bottlerocket", "x86_64", "-nvidia"),
    "BOTTLEROCKET_ARM_64_NVIDIA": ("bottlerocket", "arm64", "-nvidia"),
}
# Accounts that own the images.
# Sources: https://docs.aws.amazon.com/eks/latest/userguide/add-ons-images.html, the pages above
_OWNER = {"al2023": "602401143452", "bottlerocket": "092701018921"}
# Size of an image's root snapshot. Some variants of Bottlerocket have 4 GiB.
# Sources: https://github.com/awslabs/amazon-eks-ami/pull/1581,
# https://github.com/aws/karpenter-provider-aws/issues/3302 and /7928 (2026-11)
_SNAPSHOT_GIB = {_OWNER["al2023"]: 20, _OWNER["bottlerocket"]: 2}
_STATE_CHANGE = "EC2 Instance State-change Notification"
INTERRUPTION = "EC2 Spot Instance Interruption Warning"
_SENDER = "events.amazonaws.com"
# Launch parameters that moto supports without changes.
_MOTO_PARAMETERS = (
    "ImageId",
    "InstanceType",
    "KeyName",
    "EbsOptimized",
    "BlockDeviceMappings",
    "IamInstanceProfile",
    "MetadataOptions",
)
# Lifecycle of an instance in DescribeInstances, by market.
# Source: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Instance.html
_LIFECYCLES = {"spot": "spot", "capacity-block": "capacity-block"}


def _is_published(release: str) -> bool:
    """Whether a release of AL2023 may exist: it is in the list, or later than the list.

    Args:
        release: A release such as ``1.36.2-20260714``, or an image name with the suffix ``v20260714``.
    """
    found = _DATE.search(release)
    return found is None or found[1] > _LAST_LISTED or found[1] in _RELEASES


def check_image(image: Ami, kind: Mapping[str, Any], disks: Iterable[Mapping[str, Any]]) -> None:
    """Reject an instance that can't boot a published image.

    Sources of the messages: https://github.com/eksctl-io/eksctl/issues/8235,
    https://github.com/cilium/cilium/pull/43051 (2026-11)

    Args:
        image: The image. Only images of EKS and Bottlerocket are checked.
        kind: The instance type, as DescribeInstanceTypes returns it.
        disks: Block device mappings.

    Raises:
        AwsError: The type has another architecture, or the root volume is smaller than the snapshot.
    """
    min_gib = _SNAPSHOT_GIB.get(image.owner_id)
    if min_gib is None:
        return
    architectures = kind["ProcessorInfo"]["SupportedArchitectures"]
    if image.architecture not in architectures:
        message = (
            f"The architecture '{', '.join(architectures)}' of the specified instance type does not match the "
            f"architecture '{image.architecture}' of the specified AMI. Specify an instance type and an AMI that have "
            "matching architectures, and try again."
        )
        raise AwsError("InvalidParameterValue", message)
    for each in disks:
        size = (each.get("Ebs") or {}).get("VolumeSize")
        if each.get("DeviceName") == image.root_device_name and size is not None and int(size) < min_gib:
            snapshot = image.ebs_snapshot.id
            message = f"Volume of size {size}GB is smaller than snapshot '{snapshot}', expect size>= {min_gib}GB"
            raise AwsError("InvalidBlockDeviceMapping", message)


class Images:
    """The public images of a region."""

    def __init__(self, region: Region) -> None:
        self._region = region

    @simulates("ssm", "GetParameter")
    def parameter(self, request: Request) -> Mapping[str, Any] | None:
        """Return the image of a public parameter. moto returns other parameters."""
        name = str(request.parameters["Name"])
        if not name.startswith(("/aws/service/eks/", "/aws/service/bottlerocket/")):
            return None
        found = _AL2023.fullmatch(name)
        if found and _is_published(found["release"]):
            image = self.image("al2023", found["arch"], found["variant"], found["minor"], found["release"])
        elif found := _BOTTLEROCKET.fullmatch(name):
            image = self.image("bottlerocket", found["arch"], found["variant"] or "", found["minor"], found["release"])
        else:
            raise AwsError("ParameterNotFound", f"{name} isn't a parameter of a published image")
        parameter = {"Name": name, "Type": "String", "Value": image, "Version": 1, "DataType": "text"}
        return {"Parameter": parameter | {"ARN": f"arn:aws:ssm:{self._region.name}::parameter{name}"}}

    def architecture(self, ami_type: str) -> str:
        """Return the architecture of a managed group's AMI type.

        Raises:
            AwsError: This AMI type isn't simulated.
        """
        if ami_type not in _AMI_TYPES:
            raise NotSimulated(f"the AMI type {ami_type}")
        return _AMI_TYPES[ami_type][1]

    def managed_group_image(self, ami_type: str, minor: str, release: str | None) -> str:
        """Return the image of a managed group.

        Args:
            ami_type: AMI type of the group.
            minor: Minor version of Kubernetes, e.g. ``1.36``.
            release: Requested release; ``None`` for the newest.

        Raises:
            AwsError: This AMI type isn't simulated, or the release is for another minor version.
        """
        if ami_type not in _AMI_TYPES:
            raise NotSimulated(f"the AMI type {ami_type}")
        system, arch, variant = _AMI_TYPES[ami_type]
        if system == "al2023" and release and not (release.startswith(f"{minor}.") and _is_published(release)):
            message = f"Requested release version {release} is not valid for kubernetes version {minor}."
            raise AwsError("InvalidParameterException", message)
        return self.image(system, arch, variant, minor, release or "recommended")

    def image(self, system: str, arch: str, variant: str, minor: str, release: str) -> str:
        """Return the id of an image, which is created at its first use."""
        name = "-".join(filter(None, (system, arch, variant.strip("-"), minor, release)))
        identity = "ami-" + hashlib.sha256(f"{self._region.name}/{name}".encode()).hexdigest()[:17]
        backend = moto_ec2(self._region)
        if identity not in backend.amis:
            backend.amis[identity] = Ami(
                backend,
                identity,
                name=name if release.startswith("recommended") else release,
                description=name,
                owner_id=_OWNER[system],
                owner_alias="amazon",
                public=True,
                virtualization_type="hvm",
                architecture=arch,
                root_device_type="ebs",
                root_device_name="/dev/xvda",
                region_name=self._region.name,
                creation_date=datetime.now(timezone.utc).replace(tzinfo=None),
            )
        return identity


class EventBus:
    """The default event bus of a region."""

    def __init__(self, region: Region, write: Callable[[Call], None]) -> None:
        self._region, self._write = region, write

    def publish(self, what: str, instance: str, detail: Mapping[str, str]) -> None:
        """Send an event of an instance to the targets of all matching rules."""
        event: Any = {
            "version": "0",
            "id": str(uuid4()),
            "detail-type": what,
            "source": "aws.ec2",
            "account": self._region.account,
            "time": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": self._region.name,
            "resources": [f"arn:aws:ec2:{self._region.name}:{self._region.account}:instance/{instance}"],
            "detail": {"instance-id": instance, **detail},
        }
        bus = events_backends[self._region.account][self._region.name].describe_event_bus("default")
        for rule in list(bus.rules.values()):
            if rule.state == "ENABLED" and rule.event_pattern.matches_event(event):
                for target in rule.targets:
                    self._send(rule.arn, str(target["Arn"]), event)

    def _send(self, rule: str, target: str, event: Mapping[str, Any]) -> None:
        """Send an event to a queue if its policy allows it. Record the call."""
        call = Call(principal=_SENDER, service="sqs", action="sqs:SendMessage", resources=(target,))
        try:
            self._write(self._sent(call, rule, target, event))
        except UnknownPermission as error:
            self._write(call.denied("NotSimulated", str(error)))

    def _sent(self, call: Call, rule: str, target: str, event: Mapping[str, Any]) -> Call:
        if target.split(":")[2] != "sqs":
            raise UnknownPermission(f"a rule that sends to {target}")
        sqs = self._region.moto_client("sqs")
        url = sqs.get_queue_url(QueueName=target.rpartition(":")[2])["QueueUrl"]
        attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"]).get("Attributes", {})
        statements = read_statements(f"{target}/policy", json.loads(attributes.get("Policy") or "{}"))
        context = {
            "aws:SourceArn": (rule,),
            "aws:SourceAccount": (self._region.account,),
            "aws:SecureTransport": ("true",),
        }
        access_request = AccessRequest(action=call.action, resource=target, context=context)
        decision = decide_for_principal(statements, access_request, kind="Service", principal=_SENDER)
        if not decision.allowed:
            return call.denied("AccessDenied", f"the policy of {target} doesn't allow messages of {rule}")
        sqs.send_message(QueueUrl=url, MessageBody=json.dumps(event))
        return call.with_statements(decision.statement)


class Capacity:
    """Capacity of EC2: unlimited, except for exhausted types in zones."""

    def __init__(self) -> None:
        self._exhausted: set[tuple[str, str, str]] = set()

    def exhaust(self, instance_type: str, zone: str, *, lifecycle: str = "on-demand") -> None:
        """Set a type as unavailable in a zone.

        Args:
            instance_type: Type, e.g. ``p5.48xlarge``.
            zone: Availability Zone, e.g. ``us-east-1a``.
            lifecycle: ``on-demand`` or ``spot``.
        """
        self._exhausted.add((instance_type, zone, lifecycle))

    def restore_all(self) -> None:
        """Make all types available again."""
        self._exhausted.clear()

    def check(self, instance_type: str, zone: str, lifecycle: str) -> None:
        """Reject a launch of an unavailable type, with EC2's message.

        Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/troubleshooting-launch.html

        Raises:
            AwsError: There is no capacity.
        """
        if (instance_type, zone, lifecycle) in self._exhausted:
            raise AwsError(
                "InsufficientInstanceCapacity",
                f"We currently do not have sufficient {instance_type} capacity in the Availability Zone you requested "
                f"({zone}). Our system will be working on provisioning additional capacity.",
            )


class Launches:
    """All launches: by callers, fleets and Auto Scaling groups."""

    def __init__(self, region: Region, capacity: Capacity, notices: EventBus) -> None:
        self._region, self._capacity, self._event_bus = region, capacity, notices

    def template(self, reference: Mapping[str, Any]) -> dict[str, Any]:
        """Return the data of a launch template version, with the tags that EC2 adds to instances.

        Args:
            reference: ``LaunchTemplateId`` or ``LaunchTemplateName``, and ``Version``.

        Raises:
            AwsError: The template or version doesn't exist.
        """
        named = {key: reference[key] for key in ("LaunchTemplateId", "LaunchTemplateName") if reference.get(key)}
        versions = self._region.moto_client("ec2").describe_launch_template_versions(
            **named, Versions=[str(reference.get("Version") or "$Default")]
        )["LaunchTemplateVersions"]
        if not versions:
            message = f"Could not find the launch template version {reference.get('Version')} of {named}"
            raise AwsError("InvalidLaunchTemplateId.VersionNotFound", message)
        data = deepcopy(versions[0]["LaunchTemplateData"])
        # Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/create-launch-template.html
        tags = {
            "aws:ec2launchtemplate:id": versions[0]["LaunchTemplateId"],
            "aws:ec2launchtemplate:version": str(versions[0]["VersionNumber"]),
        }
        return with_tags(data, "instance", tags)

    def launch(self, data: Mapping[str, Any], *, subnet: str, count: int = 1) -> list[str]:
        """Run instances in a subnet and return their ids.

        Args:
            data: Launch parameters, as data of a launch template.
            count: Number of instances.

        Raises:
            AwsError: There is no capacity. Every reservation has begun and has room.
        """
        zone = self.subnet_zone(subnet)
        kind, market = str(data["InstanceType"]), data.get("InstanceMarketOptions", {}).get("MarketType", "on-demand")
        self._offered(kind, zone)
        self.check_image(data, [kind])
        if not _reservation(data):
            self._capacity.check(kind, zone, market)
        instances = self._run(data, subnet, count)
        for identity in instances:
            self._complete(identity, data, market)
            self._event_bus.publish(_STATE_CHANGE, identity, {"state": "running"})
        return instances

    def check_image(self, data: Mapping[str, Any], kinds: list[str]) -> None:
        """Reject data of a launch template with which a type can't boot its image.

        Raises:
            AwsError: The architectures differ, or the root volume is too small.
        """
        backend = moto_ec2(self._region)
        if image := backend.amis.get(data.get("ImageId")):
            for kind in backend.describe_instance_types(kinds, {}):
                check_image(image, kind, data.get("BlockDeviceMappings") or ())

    def terminate(self, instances: list[str]) -> dict[str, Any]:
        """Terminate instances, and return EC2's answer."""
        ended = self._region.moto_client("ec2").terminate_instances(InstanceIds=instances)
        for instance in instances:
            for state in ("shutting-down", "terminated"):
                self._event_bus.publish(_STATE_CHANGE, instance, {"state": state})
        return {"TerminatingInstances": ended["TerminatingInstances"]}

    def subnet_zone(self, subnet: str) -> str:
        """Return the zone of a subnet."""
        try:
            return str(moto_ec2(self._region).get_subnet(subnet).availability_zone)
        except InvalidSubnetIdError as error:
            raise AwsError("InvalidSubnetID.NotFound", f"The subnet ID '{subnet}' does not exist") from error

    def _run(self, data: Mapping[str, Any], subnet: str, count: int) -> list[str]:
        parameters = {key: data[key] for key in _MOTO_PARAMETERS if data.get(key)}
        if data.get("UserData"):
            # A template has it in base64. The SDK encodes it in RunInstances.
            parameters["UserData"] = base64.b64decode(data["UserData"]).decode()
        interfaces = data.get("NetworkInterfaces") or [{}]
        groups = interfaces[0].get("Groups") or data.get("SecurityGroupIds") or ()
        # One at a time: moto sets the instance profile of the first instance only.
        return [self._run_one(parameters, data, subnet, list(groups)) for _ in range(count)]

    def _run_one(self, parameters: Mapping[str, Any], data: Mapping[str, Any], subnet: str, groups: list[str]) -> str:
        run = self._run_instances(
            **parameters,
            SubnetId=subnet,
            SecurityGroupIds=groups,
            TagSpecifications=[
                one for one in data.get("TagSpecifications", ()) if one["ResourceType"] in ("instance", "volume")
            ],
            MinCount=1,
            MaxCount=1,
        )
        return str(run["Instances"][0]["InstanceId"])

    def _run_instances(self, **parameters: Any) -> dict[str, Any]:
        try:
            return dict(self._region.moto_client("ec2").run_instances(**parameters))
        except ClientError as error:
            raise AwsError(error.response["Error"]["Code"], error.response["Error"]["Message"]) from error

    def _complete(self, identity: str, data: Mapping[str, Any], market: str) -> None:
        """Set the fields of moto's instance that moto doesn't set."""
        instance = moto_ec2(self._region).get_instance(identity)
        instance.lifecycle = _LIFECYCLES.get(market)
        if market == "spot":
            instance.spot_instance_request_id = f"sir-{identity[-8:]}"
        if reservation := _reservation(data):
            instance.capacity_reservation_id = reservation
            instance.capacity_reservation_specification = data["CapacityReservationSpecification"]
        for number, parameters in enumerate(data.get("NetworkInterfaces", ())):
            self._interface(instance, number, parameters)

    def _interface(self, instance: Any, number: int, parameters: Mapping[str, Any]) -> None:
        backend = instance.nics.get(number)
        if backend is None:
            backend = moto_ec2(self._region).create_network_interface(
                instance.subnet_id, None, group_ids=parameters.get("Groups")
            )
            instance.attach_eni(backend, number)
        backend.interface_type = parameters.get("InterfaceType") or "interface"

    def _offered(self, kind: str, zone: str) -> None:
        """Reject a type that a zone doesn't offer."""
        parameters = {"location": [zone], "instance-type": [kind]}
        if not moto_ec2(self._region).describe_instance_type_offerings("availability-zone", parameters):
            message = (
                f"Your requested instance type ({kind}) is not supported in your requested Availability Zone ({zone})."
            )
            raise AwsError("Unsupported", message)


def _reservation(data: Mapping[str, Any]) -> str:
    """Return the id of the Capacity Reservation or Capacity Block that a launch uses; empty without one."""
    target = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    return str(target.get("CapacityReservationId") or "")


def with_tags(data: Mapping[str, Any], resource: str, tags: Mapping[str, str]) -> dict[str, Any]:
    """Return data of a launch template with additional tags for one kind of resource."""
    found = {
        one["ResourceType"]: {tag["Key"]: tag["Value"] for tag in one["Tags"]}
        for one in data.get("TagSpecifications", ())
    }
    found[resource] = found.get(resource, {}) | dict(tags)
    specifications = [
        {"ResourceType": kind, "Tags": [{"Key": k, "Value": v} for k, v in own.items()]} for kind, own in found.items()
    ]
    return dict(data) | {"TagSpecifications": specifications}
