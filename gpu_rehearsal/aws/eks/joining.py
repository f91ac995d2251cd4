"""Launch templates of managed node groups: image, security groups, profile and user data by which nodes join.

Sources: https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html#launch-template-user-data,
https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/, https://bottlerocket.dev/en/os/latest/api/settings/kubernetes/
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email import message_from_string
from email.message import Message
from email.mime.multipart import MIMEMultipart
from email.mime.nonmultipart import MIMENonMultipart
from ipaddress import ip_network
from typing import Any

import tomli_w
import yaml

from gpu_facts.merging import merged
from gpu_rehearsal.aws.api import AwsRefusal
from gpu_rehearsal.aws.eks.clusters import Cluster
from gpu_rehearsal.aws.launches import Images
from gpu_rehearsal.aws.region import Region

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

NODE_CONFIG = "application/node.eks.aws"


@dataclass(frozen=True, kw_only=True, slots=True)
class Membership:
    """As what a node joins which cluster.

    Attributes:
        cluster: Name of the cluster.
        endpoint: Where its API is.
        certificate_authority: Base64 of the PEM.
        service_cidr: Addresses of services.
        dns_ip: Address of the cluster's DNS.
        max_pods: Most pods of the node.
        labels: Labels that its kubelet gives it.
        taints: Key, value and effect of each taint.
    """

    cluster: str
    endpoint: str
    certificate_authority: str
    service_cidr: str
    dns_ip: str
    max_pods: int
    labels: Mapping[str, str]
    taints: tuple[tuple[str, str, str], ...]


def nodeadm(own: str, membership: Membership) -> str:
    """Return user data of AL2023: EKS's NodeConfig, then the parts of the template, which nodeadm merges over it.

    Source: https://github.com/awslabs/amazon-eks-ami/issues/1988 (a template that EKS made, 2024-10)

    Args:
        own: User data of the template; empty when it has none.
        membership: What EKS knows.

    Raises:
        AwsRefusal: The template's is not in MIME multi-part format.
    """
    merged = MIMEMultipart(boundary="//")
    merged.attach(_part(NODE_CONFIG, yaml.safe_dump(_node_config(membership), sort_keys=False)))
    for part in _parts(own):
        merged.attach(part)
    return merged.as_string()


def bottlerocket(own: str, membership: Membership) -> str:
    """Return user data of Bottlerocket: the template's settings, and EKS's over them.

    Args:
        own: User data of the template; empty when it has none.
        membership: What EKS knows.

    Raises:
        AwsRefusal: The template's is no TOML.
    """
    try:
        settings = tomllib.loads(own)
    except tomllib.TOMLDecodeError as error:
        raise AwsRefusal(
            "Ec2LaunchTemplateInvalidConfiguration", f"User data was not in the TOML format: {error}"
        ) from error
    taints: dict[str, list[str]] = {}
    for key, value, effect in membership.taints:
        taints.setdefault(key, []).append(f"{value}:{effect}")
    joins = {
        "cluster-name": membership.cluster,
        "api-server": membership.endpoint,
        "cluster-certificate": membership.certificate_authority,
        "cluster-dns-ip": membership.dns_ip,
        "node-labels": dict(membership.labels),
    } | ({"node-taints": taints} if taints else {})
    defaults = {"settings": {"kubernetes": {"max-pods": membership.max_pods}}}
    return tomli_w.dumps(merged(merged(defaults, settings), {"settings": {"kubernetes": joins}}))


def _node_config(membership: Membership) -> dict[str, Any]:
    labels = ",".join(f"{key}={value}" for key, value in membership.labels.items())
    taints = ",".join(f"{key}={value}:{effect}" for key, value, effect in membership.taints)
    flags = [f"--node-labels={labels}"] + ([f"--register-with-taints={taints}"] if taints else [])
    cluster = {
        "name": membership.cluster,
        "apiServerEndpoint": membership.endpoint,
        "certificateAuthority": membership.certificate_authority,
        "cidr": membership.service_cidr,
    }
    config = {"maxPods": membership.max_pods, "clusterDNS": [membership.dns_ip]}
    spec = {"cluster": cluster, "kubelet": {"config": config, "flags": flags}}
    return {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}


def _part(kind: str, text: str) -> Message:
    main, _, sub = kind.partition("/")
    part = MIMENonMultipart(main, sub)
    part.set_payload(text)
    return part


def _parts(own: str) -> Iterator[Message]:
    if not own.strip():
        return
    message = message_from_string(own)
    if not message.is_multipart():
        raise AwsRefusal("Ec2LaunchTemplateInvalidConfiguration", "User data was not in the MIME multipart format.")
    yield from (part for part in message.walk() if not part.is_multipart())


# Effects, as kubelet names them.
# Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_Taint.html
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
# What EKS takes for the most pods of a node, unless its user data says otherwise.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/choosing-instance-type.html
_MOST_PODS, _MOST_PODS_OF_BIG, _BIG_VCPUS = 110, 250, 30


class Joining:
    """What nodes of managed groups need."""

    def __init__(self, region: Region, images: Images) -> None:
        self._region, self._images = region, images

    def complete(
        self, data: Mapping[str, Any], cluster: Cluster, described: Mapping[str, Any], kinds: list[str]
    ) -> dict[str, Any]:
        """Return data of a launch template by which a node joins.

        Raises:
            AwsRefusal: The template says what only the group may.
        """
        if data.get("IamInstanceProfile"):
            raise AwsRefusal("InvalidParameterException", "Instance profile should not be specified in launch template")
        if data.get("NetworkInterfaces") and any(one.get("SubnetId") for one in data["NetworkInterfaces"]):
            raise AwsRefusal("InvalidParameterException", "Subnets should not be specified in the launch template")
        completed = dict(data) | {"IamInstanceProfile": {"Name": self._profile(described)}}
        completed |= self._groups(data, cluster)
        if described.get("capacityType") != "CAPACITY_BLOCK":
            completed.pop("InstanceType", None)
        if data.get("ImageId"):
            return completed
        kind = str(described.get("amiType") or "AL2023_x86_64_STANDARD")
        self._check_architecture(kind, kinds)
        image = self._images.managed_group_image(kind, str(described["version"]), described.get("releaseVersion"))
        membership = self._membership(cluster, described, image, kinds)
        write = bottlerocket if kind.startswith("BOTTLEROCKET") else nodeadm
        own = base64.b64decode(data.get("UserData") or "").decode()
        return completed | {"ImageId": image, "UserData": base64.b64encode(write(own, membership).encode()).decode()}

    def _groups(self, data: Mapping[str, Any], cluster: Cluster) -> dict[str, Any]:
        """Return the cluster's own security group, unless the template has groups of its own."""
        group = cluster.description["resourcesVpcConfig"]["clusterSecurityGroupId"]
        interfaces = data.get("NetworkInterfaces")
        if interfaces:
            return {
                "NetworkInterfaces": [one if one.get("Groups") else one | {"Groups": [group]} for one in interfaces]
            }
        return {} if data.get("SecurityGroupIds") else {"SecurityGroupIds": [group]}

    def _membership(self, cluster: Cluster, described: Mapping[str, Any], image: str, kinds: list[str]) -> Membership:
        source = described["launchTemplate"]
        labels = dict(described["labels"]) | {
            "eks.amazonaws.com/nodegroup": described["nodegroupName"],
            "eks.amazonaws.com/nodegroup-image": image,
            "eks.amazonaws.com/capacityType": described["capacityType"],
        }
        if source:
            labels |= {
                "eks.amazonaws.com/sourceLaunchTemplateId": source["id"],
                "eks.amazonaws.com/sourceLaunchTemplateVersion": source["version"],
            }
        taints = [(one["key"], one.get("value", ""), _EFFECTS[one["effect"]]) for one in described["taints"]]
        cidr = cluster.description["kubernetesNetworkConfig"]["serviceIpv4Cidr"]
        return Membership(
            cluster=cluster.name,
            endpoint=cluster.description["endpoint"],
            certificate_authority=cluster.description["certificateAuthority"]["data"],
            service_cidr=cidr,
            dns_ip=str(ip_network(cidr)[10]),
            max_pods=min(self._most_pods(kind) for kind in kinds),
            labels=labels,
            taints=tuple(taints),
        )

    def _check_architecture(self, ami_type: str, kinds: list[str]) -> None:
        """Reject instance types of another architecture than the AMI type.

        Source of the words: https://github.com/eksctl-io/eksctl/issues/7754 (2026-11)
        """
        wanted = self._images.architecture(ami_type)
        types = self._region.service("ec2").describe_instance_types(InstanceTypes=kinds)["InstanceTypes"]
        others = [
            each["InstanceType"] for each in types if wanted not in each["ProcessorInfo"]["SupportedArchitectures"]
        ]
        if others:
            message = f"[{', '.join(others)}] is not a valid instance type for requested amiType {ami_type}"
            raise AwsRefusal("InvalidParameterException", message)

    def _most_pods(self, kind: str) -> int:
        found = self._region.service("ec2").describe_instance_types(InstanceTypes=[kind])["InstanceTypes"][0]
        network = found["NetworkInfo"]
        addresses = network["MaximumNetworkInterfaces"] * (network["Ipv4AddressesPerInterface"] - 1) + 2
        most = _MOST_PODS if found["VCpuInfo"]["DefaultVCpus"] <= _BIG_VCPUS else _MOST_PODS_OF_BIG
        return int(min(addresses, most))

    def _profile(self, described: Mapping[str, Any]) -> str:
        """Return the instance profile of a group, created when it is first needed."""
        iam, name = self._region.service("iam"), own_name(described)
        try:
            iam.create_instance_profile(InstanceProfileName=name)
        except iam.exceptions.EntityAlreadyExistsException:
            return name
        iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=_role(described))
        return name

    def forget(self, described: Mapping[str, Any]) -> None:
        """Delete the launch template and the instance profile that EKS made for a group."""
        iam, name = self._region.service("iam"), own_name(described)
        self._region.service("ec2").delete_launch_template(LaunchTemplateName=name)
        iam.remove_role_from_instance_profile(InstanceProfileName=name, RoleName=_role(described))
        iam.delete_instance_profile(InstanceProfileName=name)


def own_name(described: Mapping[str, Any]) -> str:
    """Return the name of the launch template and the instance profile that EKS makes for a group."""
    return f"eks-{described['nodegroupArn'].rpartition('/')[2]}"


def _role(described: Mapping[str, Any]) -> str:
    return str(described["nodeRole"]).rpartition("/")[2]
