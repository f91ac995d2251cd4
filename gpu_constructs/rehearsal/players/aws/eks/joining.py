"""What EKS adds to a managed group's template so that its nodes join: image, security groups, profile, user data."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from ipaddress import ip_network
from threading import Lock
from typing import Any

from gpu_constructs.rehearsal.players.aws.api.refusals import AwsRefusal
from gpu_constructs.rehearsal.players.aws.ec2.images import Images
from gpu_constructs.rehearsal.players.aws.eks.clusters import Cluster
from gpu_constructs.rehearsal.players.aws.eks.node_user_data import Membership, bottlerocket, nodeadm
from gpu_constructs.rehearsal.players.aws.region import Region

# Effects, as kubelet names them.
# Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_Taint.html
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
# What EKS takes for the most pods of a node, unless its user data says otherwise.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/choosing-instance-type.html
_MOST_PODS, _MOST_PODS_OF_BIG, _BIG_VCPUS = 110, 250, 30


class Joining:
    """What nodes of managed groups need.

    Args:
        region: Where they are.
        images: What they boot.
    """

    def __init__(self, region: Region, images: Images) -> None:
        self._region, self._images, self._making = region, images, Lock()

    def complete(
        self, data: Mapping[str, Any], cluster: Cluster, described: Mapping[str, Any], kinds: list[str]
    ) -> dict[str, Any]:
        """Return data of a launch template by which a node joins.

        Args:
            data: What the group's own template says.
            cluster: What is joined.
            described: The group, by the names of the API.
            kinds: Its instance types.

        Raises:
            AwsRefusal: The template says what only the group may.
        """
        if data.get("IamInstanceProfile"):
            raise AwsRefusal("InvalidParameterException", "Instance profile should not be specified in launch template")
        if data.get("NetworkInterfaces") and any(one.get("SubnetId") for one in data["NetworkInterfaces"]):
            raise AwsRefusal("InvalidParameterException", "Subnets should not be specified in the launch template")
        completed = dict(data) | {"IamInstanceProfile": {"Name": self._profile(described["nodeRole"])}}
        completed |= self._groups(data, cluster)
        if described.get("capacityType") != "CAPACITY_BLOCK":
            completed.pop("InstanceType", None)
        if data.get("ImageId"):
            return completed
        kind = str(described.get("amiType") or "AL2023_x86_64_STANDARD")
        image = self._images.of_group(kind, str(described["version"]), described.get("releaseVersion"))
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

    def _most_pods(self, kind: str) -> int:
        found = self._region.service("ec2").describe_instance_types(InstanceTypes=[kind])["InstanceTypes"][0]
        network = found["NetworkInfo"]
        addresses = network["MaximumNetworkInterfaces"] * (network["Ipv4AddressesPerInterface"] - 1) + 2
        most = _MOST_PODS if found["VCpuInfo"]["DefaultVCpus"] <= _BIG_VCPUS else _MOST_PODS_OF_BIG
        return int(min(addresses, most))

    def _profile(self, role: str) -> str:
        """Return the instance profile of a role, made when it is first needed."""
        iam, name = self._region.service("iam"), "eks-" + hashlib.sha256(role.encode()).hexdigest()[:32]
        # Groups of one role may be made at once.
        with self._making:
            try:
                iam.get_instance_profile(InstanceProfileName=name)
            except iam.exceptions.NoSuchEntityException:
                iam.create_instance_profile(InstanceProfileName=name)
                iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=role.rpartition("/")[2])
        return name
