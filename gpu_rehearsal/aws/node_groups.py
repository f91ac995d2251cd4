"""Managed node groups: an Auto Scaling group for each, and the launch template that EKS makes from the group's own.

Sources: https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html,
https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timezone
from ipaddress import ip_network
from typing import Any

from gpu_rehearsal.aws.access import Access, Membership, bottlerocket, nodeadm
from gpu_rehearsal.aws.api import AwsError, NotSimulated, Request, simulates
from gpu_rehearsal.aws.clusters import Cluster, Clusters, completed_update
from gpu_rehearsal.aws.launches import Images, Launches, with_tags
from gpu_rehearsal.aws.region import Region, Roles
from gpu_rehearsal.aws.scaling import Groups

Outcome = Callable[[str], "str | None"]
_EC2 = "ec2.amazonaws.com"
# Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupScalingConfig.html
_SIZES = {"minSize": 1, "maxSize": 2, "desiredSize": 2}


class Nodegroups:
    """The managed groups of every cluster.

    Attributes:
        outcome: Returns why an instance never becomes a node; empty if it is one, ``None`` while it boots.
    """

    def __init__(
        self,
        region: Region,
        clusters: Clusters,
        access: Access,
        images: Images,
        launches: Launches,
        groups: Groups,
        roles: Roles,
    ) -> None:
        self.outcome: Outcome | None = None
        self._roles = roles
        self._region, self._clusters, self._access = region, clusters, access
        self._launches, self._groups = launches, groups
        self._launch_templates = _LaunchTemplates(region, images)
        self._nodegroups: dict[tuple[str, str], dict[str, Any]] = {}

    @simulates("eks", "CreateNodegroup")
    def create(self, request: Request) -> Mapping[str, Any]:
        """Make a group, its template and its Auto Scaling group, and let its role in."""
        asked = request.parameters
        cluster = self._clusters.find(asked["clusterName"], active=True)
        name = str(asked["nodegroupName"])
        if (cluster.name, name) in self._nodegroups:
            message = f"NodeGroup already exists with name {name} and cluster name {cluster.name}"
            raise AwsError("ResourceInUseException", message)
        self._check_trust(str(asked["nodeRole"]))
        described = self._describe(cluster, asked)
        self._access.add_nodes(cluster, described["nodeRole"])
        launched = self._scaling_group(cluster, described)
        described["resources"] = {"autoScalingGroups": [{"name": launched}]}
        self._nodegroups[cluster.name, name] = described
        return {"nodegroup": dict(described)}

    @simulates("eks", "DescribeNodegroup")
    def describe(self, request: Request) -> Mapping[str, Any]:
        """Return one group."""
        return {"nodegroup": self._current_description(self._find(request))}

    @simulates("eks", "ListNodegroups")
    def names(self, request: Request) -> Mapping[str, Any]:
        """Return the names of a cluster's groups."""
        cluster = self._clusters.find(request.parameters["clusterName"])
        return {"nodegroups": sorted(name for where, name in self._nodegroups if where == cluster.name)}

    @simulates("eks", "UpdateNodegroupConfig")
    def update(self, request: Request) -> Mapping[str, Any]:
        """Change the sizes of a group.

        Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupConfig.html
        """
        found, asked = self._find(request), request.parameters
        if asked.get("labels") or asked.get("taints"):
            raise NotSimulated("a change of labels and taints of nodes that run")
        for key in ("updateConfig", "nodeRepairConfig"):
            if asked.get(key):
                found[key] = dict(asked[key])
        sizes = asked.get("scalingConfig") or {}
        group = self._groups.find(_group_name(found))
        self._groups.resize(
            group, minimum=sizes.get("minSize"), desired=sizes.get("desiredSize"), maximum=sizes.get("maxSize")
        )
        return {"update": completed_update("ConfigUpdate")}

    @simulates("eks", "UpdateNodegroupVersion")
    def update_version(self, request: Request) -> Mapping[str, Any]:
        """Change version, image or launch template of a group, and replace its instances at once, without a drain.

        Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupVersion.html (2026-11)
        """
        found, asked = self._find(request), request.parameters
        cluster = self._clusters.find(asked["clusterName"], active=True)
        version = asked.get("version") or found["version"]
        if version != cluster.description["version"]:
            message = (
                f"Requested Nodegroup version {version} is not supported by cluster {cluster.description['version']}"
            )
            raise AwsError("InvalidParameterException", message)
        changed = {key: asked[key] for key in ("version", "releaseVersion") if asked.get(key)}
        if asked.get("launchTemplate"):
            changed["launchTemplate"] = self._identified(asked["launchTemplate"])
            if changed["launchTemplate"]["id"] != found["launchTemplate"].get("id"):
                message = "You cannot change the launch template of a node group, only its version."
                raise AwsError("InvalidParameterException", message)
        data, _ = self._data(cluster, found | changed)
        found |= changed
        group = self._groups.find(_group_name(found))
        made = self._region.moto_client("ec2").create_launch_template_version(
            LaunchTemplateId=group.template["LaunchTemplateId"], LaunchTemplateData=data
        )
        of_policy = [group.policy["LaunchTemplate"]["LaunchTemplateSpecification"]] if group.policy else []
        for reference in (group.template, *of_policy):
            reference["Version"] = str(made["LaunchTemplateVersion"]["VersionNumber"])
        self._groups.replace_instances(group)
        return {"update": completed_update("VersionUpdate")}

    @simulates("eks", "DeleteNodegroup")
    def delete(self, request: Request) -> Mapping[str, Any]:
        """End a group and its instances, and delete what EKS made for it."""
        found = self._find(request)
        self._groups.remove(_group_name(found))
        self._launch_templates.forget(found)
        del self._nodegroups[found["clusterName"], found["nodegroupName"]]
        return {"nodegroup": found | {"status": "DELETING"}}

    def descriptions(self) -> Iterable[dict[str, Any]]:
        """Return the description of each."""
        return self._nodegroups.values()

    def _find(self, request: Request) -> dict[str, Any]:
        asked = request.parameters
        cluster = self._clusters.find(asked["clusterName"])
        found = self._nodegroups.get((cluster.name, str(asked["nodegroupName"])))
        if found is None:
            message = f"No node group found for name: {asked['nodegroupName']}."
            raise AwsError("ResourceNotFoundException", message)
        return found

    def _check_trust(self, role: str) -> None:
        """Reject a role that EC2 can't assume.

        Source of the words: aws/aws-k8s-tester eks/mng, which quotes EKS (2026-11)
        """
        try:
            self._roles.assume(role, kind="Service", principal=_EC2)
        except AwsError as error:
            message = f"Following required service principals [{_EC2}] were not found in the trust relationships of"
            raise AwsError("InvalidParameterException", f"{message} nodeRole {role}") from error

    def _settle(self, described: dict[str, Any]) -> None:
        """Decide whether a new group is active: EKS waits for its nodes.

        Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_Issue.html (2026-11)
        """
        group = self._groups.find(_group_name(described))
        outcomes = {each.id: self.outcome(each.id) if self.outcome else "" for each in list(group.members)}
        failed = {id: why for id, why in outcomes.items() if why}
        last = group.activities[0] if group.activities else {}
        if failed:
            message = f"Instances failed to join the kubernetes cluster: {'; '.join(dict.fromkeys(failed.values()))}"
            self._fail(described, "NodeCreationFailure", message, [*failed])
        elif len(outcomes) >= group.desired and None not in outcomes.values():
            described["status"] = "ACTIVE"
        elif last.get("StatusCode") == "Failed":
            message = f"Could not launch instances. {last['StatusMessage']}"
            self._fail(described, "AsgInstanceLaunchFailures", message, [group.name])

    @staticmethod
    def _fail(described: dict[str, Any], code: str, message: str, resources: list[str]) -> None:
        issue = {"code": code, "message": message, "resourceIds": resources}
        described |= {"status": "CREATE_FAILED", "health": {"issues": [issue]}}

    def _current_description(self, described: dict[str, Any]) -> dict[str, Any]:
        """Return a group with the status and the sizes that it has by now."""
        if described["status"] == "CREATING":
            self._settle(described)
        group = self._groups.find(_group_name(described))
        sizes = {"minSize": group.minimum, "maxSize": group.maximum, "desiredSize": group.desired}
        return described | {"scalingConfig": sizes}

    def _describe(self, cluster: Cluster, asked: Mapping[str, Any]) -> dict[str, Any]:
        identity = str(uuid.uuid4())
        path = f"{cluster.name}/{asked['nodegroupName']}/{identity}"
        template = dict(asked.get("launchTemplate", {}))
        if template:
            template = self._identified(template)
        sizes = dict(asked.get("scalingConfig") or _SIZES)
        defaults = {"capacityType": "ON_DEMAND", "version": cluster.description["version"], "labels": {}, "taints": []}
        now = datetime.now(timezone.utc)
        return (
            defaults
            | {key: value for key, value in asked.items() if value is not None}
            | {
                "nodegroupArn": self._region.arn("eks", f"nodegroup/{path}"),
                "launchTemplate": template,
                "scalingConfig": {"desiredSize": sizes.get("minSize", 0)} | sizes,
                "status": "CREATING",
                "health": {"issues": []},
                "createdAt": now,
                "modifiedAt": now,
            }
        )

    def _identified(self, template: Mapping[str, Any]) -> dict[str, Any]:
        named = (
            {"LaunchTemplateIds": [template["id"]]}
            if template.get("id")
            else {"LaunchTemplateNames": [template["name"]]}
        )
        found = self._region.moto_client("ec2").describe_launch_templates(**named)["LaunchTemplates"][0]
        version = str(template.get("version") or found["DefaultVersionNumber"])
        return {"id": found["LaunchTemplateId"], "name": found["LaunchTemplateName"], "version": version}

    def _scaling_group(self, cluster: Cluster, described: Mapping[str, Any]) -> str:
        data, kinds = self._data(cluster, described)
        made = self._region.moto_client("ec2").create_launch_template(
            LaunchTemplateName=_own_name(described), LaunchTemplateData=data
        )
        own = str(made["LaunchTemplate"]["LaunchTemplateId"])
        name = f"eks-{described['nodegroupName']}-{described['nodegroupArn'].rpartition('/')[2]}"
        sizes = described["scalingConfig"]
        reference = {"LaunchTemplateId": own, "Version": "1"}
        spot = described["capacityType"] == "SPOT"
        distribution = {
            "OnDemandAllocationStrategy": "prioritized",
            "OnDemandBaseCapacity": 0,
            "OnDemandPercentageAboveBaseCapacity": 0 if spot else 100,
            "SpotAllocationStrategy": "price-capacity-optimized",
        }
        overrides = [{"InstanceType": kind} for kind in kinds]
        policy = {
            "LaunchTemplate": {"LaunchTemplateSpecification": reference, "Overrides": overrides},
            "InstancesDistribution": distribution,
        }
        block = described["capacityType"] == "CAPACITY_BLOCK"
        self._groups.add(
            {
                "AutoScalingGroupName": name,
                "MinSize": sizes["minSize"],
                "MaxSize": sizes["maxSize"],
                "DesiredCapacity": sizes["desiredSize"],
                "VPCZoneIdentifier": ",".join(described["subnets"]),
                "Tags": [
                    {"Key": key, "Value": value, "PropagateAtLaunch": True} for key, value in _tags(described).items()
                ],
            }
            | ({"LaunchTemplate": reference} if block else {"MixedInstancesPolicy": policy})
        )
        return name

    def _data(self, cluster: Cluster, described: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Return the data of the template that EKS launches from, and the types of the group."""
        source = described["launchTemplate"]
        data: dict[str, Any] = {}
        if source:
            data = self._launches.template({"LaunchTemplateId": source["id"], "Version": source["version"]})
            data = _without_own_tags(data)
        kinds = list(
            described.get("instanceTypes") or ([data["InstanceType"]] if data.get("InstanceType") else ["t3.medium"])
        )
        if data.get("InstanceType") and described.get("instanceTypes"):
            message = "You cannot specify an instance type in both the launch template and the managed node group."
            raise AwsError("InvalidParameterException", message)
        data = self._launch_templates.complete(data, cluster, described, kinds)
        try:
            self._launches.check_image(data, kinds)
        except AwsError as error:
            raise AwsError("InvalidRequestException", error.message) from error
        data = with_tags(
            data, "instance", {"eks:cluster-name": cluster.name, "eks:nodegroup-name": described["nodegroupName"]}
        )
        return data, kinds


def _tags(described: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags of the Auto Scaling group, by which cluster autoscaler finds it."""
    cluster = described["clusterName"]
    return {
        "eks:cluster-name": cluster,
        "eks:nodegroup-name": described["nodegroupName"],
        f"kubernetes.io/cluster/{cluster}": "owned",
        "k8s.io/cluster-autoscaler/enabled": "true",
        f"k8s.io/cluster-autoscaler/{cluster}": "owned",
    }


def _without_own_tags(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return data of a template without the tags that EC2 puts on instances of it."""
    said = [
        one | {"Tags": [tag for tag in one["Tags"] if not tag["Key"].startswith("aws:")]}
        for one in data["TagSpecifications"]
    ]
    return dict(data) | {"TagSpecifications": [one for one in said if one["Tags"]]}


def _group_name(described: Mapping[str, Any]) -> str:
    return str(described["resources"]["autoScalingGroups"][0]["name"])


# Effects, as kubelet names them.
# Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_Taint.html
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
# What EKS takes for the most pods of a node, unless its user data says otherwise.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/choosing-instance-type.html
_MOST_PODS, _MOST_PODS_OF_BIG, _BIG_VCPUS = 110, 250, 30


class _LaunchTemplates:
    """What nodes of managed groups need."""

    def __init__(self, region: Region, images: Images) -> None:
        self._region, self._images = region, images

    def complete(
        self, data: Mapping[str, Any], cluster: Cluster, described: Mapping[str, Any], kinds: list[str]
    ) -> dict[str, Any]:
        """Return data of a launch template by which a node joins.

        Raises:
            AwsError: The template says what only the group may.
        """
        if data.get("IamInstanceProfile"):
            raise AwsError("InvalidParameterException", "Instance profile should not be specified in launch template")
        if data.get("NetworkInterfaces") and any(one.get("SubnetId") for one in data["NetworkInterfaces"]):
            raise AwsError("InvalidParameterException", "Subnets should not be specified in the launch template")
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
        types = self._region.moto_client("ec2").describe_instance_types(InstanceTypes=kinds)["InstanceTypes"]
        others = [
            each["InstanceType"] for each in types if wanted not in each["ProcessorInfo"]["SupportedArchitectures"]
        ]
        if others:
            message = f"[{', '.join(others)}] is not a valid instance type for requested amiType {ami_type}"
            raise AwsError("InvalidParameterException", message)

    def _most_pods(self, kind: str) -> int:
        found = self._region.moto_client("ec2").describe_instance_types(InstanceTypes=[kind])["InstanceTypes"][0]
        network = found["NetworkInfo"]
        addresses = network["MaximumNetworkInterfaces"] * (network["Ipv4AddressesPerInterface"] - 1) + 2
        most = _MOST_PODS if found["VCpuInfo"]["DefaultVCpus"] <= _BIG_VCPUS else _MOST_PODS_OF_BIG
        return int(min(addresses, most))

    def _profile(self, described: Mapping[str, Any]) -> str:
        """Return the instance profile of a group, created when it is first needed."""
        iam, name = self._region.moto_client("iam"), _own_name(described)
        try:
            iam.create_instance_profile(InstanceProfileName=name)
        except iam.exceptions.EntityAlreadyExistsException:
            return name
        iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=_role(described))
        return name

    def forget(self, described: Mapping[str, Any]) -> None:
        """Delete the launch template and the instance profile that EKS made for a group."""
        iam, name = self._region.moto_client("iam"), _own_name(described)
        self._region.moto_client("ec2").delete_launch_template(LaunchTemplateName=name)
        iam.remove_role_from_instance_profile(InstanceProfileName=name, RoleName=_role(described))
        iam.delete_instance_profile(InstanceProfileName=name)


def _own_name(described: Mapping[str, Any]) -> str:
    """Return the name of the launch template and the instance profile that EKS makes for a group."""
    return f"eks-{described['nodegroupArn'].rpartition('/')[2]}"


def _role(described: Mapping[str, Any]) -> str:
    return str(described["nodeRole"]).rpartition("/")[2]
