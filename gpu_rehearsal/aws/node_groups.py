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

from gpu_rehearsal.aws.access import Access, NodeBootstrap, bottlerocket, nodeadm
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
    """The managed node groups of all clusters.

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
        """Create a group with launch template and Auto Scaling group, and an access entry of its role."""
        parameters = request.parameters
        cluster = self._clusters.find(parameters["clusterName"], active=True)
        name = str(parameters["nodegroupName"])
        if (cluster.name, name) in self._nodegroups:
            message = f"NodeGroup already exists with name {name} and cluster name {cluster.name}"
            raise AwsError("ResourceInUseException", message)
        self._check_trust(str(parameters["nodeRole"]))
        description = self._describe(cluster, parameters)
        self._access.add_nodes(cluster, description["nodeRole"])
        launched = self._scaling_group(cluster, description)
        description["resources"] = {"autoScalingGroups": [{"name": launched}]}
        self._nodegroups[cluster.name, name] = description
        return {"nodegroup": dict(description)}

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
        found, parameters = self._find(request), request.parameters
        if parameters.get("labels") or parameters.get("taints"):
            raise NotSimulated("a change of labels and taints of nodes that run")
        for key in ("updateConfig", "nodeRepairConfig"):
            if parameters.get(key):
                found[key] = dict(parameters[key])
        sizes = parameters.get("scalingConfig") or {}
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
        found, parameters = self._find(request), request.parameters
        cluster = self._clusters.find(parameters["clusterName"], active=True)
        version = parameters.get("version") or found["version"]
        if version != cluster.description["version"]:
            message = (
                f"Requested Nodegroup version {version} is not supported by cluster {cluster.description['version']}"
            )
            raise AwsError("InvalidParameterException", message)
        changed = {key: parameters[key] for key in ("version", "releaseVersion") if parameters.get(key)}
        if parameters.get("launchTemplate"):
            changed["launchTemplate"] = self._identified(parameters["launchTemplate"])
            if changed["launchTemplate"]["id"] != found["launchTemplate"].get("id"):
                message = "You cannot change the launch template of a node group, only its version."
                raise AwsError("InvalidParameterException", message)
        data, _ = self._data(cluster, found | changed)
        found |= changed
        group = self._groups.find(_group_name(found))
        created = self._region.moto_client("ec2").create_launch_template_version(
            LaunchTemplateId=group.template["LaunchTemplateId"], LaunchTemplateData=data
        )
        policy_references = [group.policy["LaunchTemplate"]["LaunchTemplateSpecification"]] if group.policy else []
        for reference in (group.template, *policy_references):
            reference["Version"] = str(created["LaunchTemplateVersion"]["VersionNumber"])
        self._groups.replace_instances(group)
        return {"update": completed_update("VersionUpdate")}

    @simulates("eks", "DeleteNodegroup")
    def delete(self, request: Request) -> Mapping[str, Any]:
        """Delete a group, its instances, and the resources that EKS created for it."""
        found = self._find(request)
        self._groups.remove(_group_name(found))
        self._launch_templates.forget(found)
        del self._nodegroups[found["clusterName"], found["nodegroupName"]]
        return {"nodegroup": found | {"status": "DELETING"}}

    def descriptions(self) -> Iterable[dict[str, Any]]:
        """Return the description of each."""
        return self._nodegroups.values()

    def _find(self, request: Request) -> dict[str, Any]:
        parameters = request.parameters
        cluster = self._clusters.find(parameters["clusterName"])
        found = self._nodegroups.get((cluster.name, str(parameters["nodegroupName"])))
        if found is None:
            message = f"No node group found for name: {parameters['nodegroupName']}."
            raise AwsError("ResourceNotFoundException", message)
        return found

    def _check_trust(self, role: str) -> None:
        """Reject a role that EC2 can't assume.

        Source of the message: aws/aws-k8s-tester eks/mng, which quotes EKS (2026-11)
        """
        try:
            self._roles.assume(role, kind="Service", principal=_EC2)
        except AwsError as error:
            message = f"Following required service principals [{_EC2}] were not found in the trust relationships of"
            raise AwsError("InvalidParameterException", f"{message} nodeRole {role}") from error

    def _settle(self, description: dict[str, Any]) -> None:
        """Set the status of a new group: it becomes active after its nodes joined.

        Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_Issue.html (2026-11)
        """
        group = self._groups.find(_group_name(description))
        outcomes = {each.id: self.outcome(each.id) if self.outcome else "" for each in list(group.members)}
        failed = {id: why for id, why in outcomes.items() if why}
        last = group.activities[0] if group.activities else {}
        if failed:
            message = f"Instances failed to join the kubernetes cluster: {'; '.join(dict.fromkeys(failed.values()))}"
            self._fail(description, "NodeCreationFailure", message, [*failed])
        elif len(outcomes) >= group.desired and None not in outcomes.values():
            description["status"] = "ACTIVE"
        elif last.get("StatusCode") == "Failed":
            message = f"Could not launch instances. {last['StatusMessage']}"
            self._fail(description, "AsgInstanceLaunchFailures", message, [group.name])

    @staticmethod
    def _fail(description: dict[str, Any], code: str, message: str, resources: list[str]) -> None:
        issue = {"code": code, "message": message, "resourceIds": resources}
        description |= {"status": "CREATE_FAILED", "health": {"issues": [issue]}}

    def _current_description(self, description: dict[str, Any]) -> dict[str, Any]:
        """Return a group with its current status and sizes."""
        if description["status"] == "CREATING":
            self._settle(description)
        group = self._groups.find(_group_name(description))
        sizes = {"minSize": group.minimum, "maxSize": group.maximum, "desiredSize": group.desired}
        return description | {"scalingConfig": sizes}

    def _describe(self, cluster: Cluster, parameters: Mapping[str, Any]) -> dict[str, Any]:
        identity = str(uuid.uuid4())
        path = f"{cluster.name}/{parameters['nodegroupName']}/{identity}"
        template = dict(parameters.get("launchTemplate", {}))
        if template:
            template = self._identified(template)
        sizes = dict(parameters.get("scalingConfig") or _SIZES)
        defaults = {"capacityType": "ON_DEMAND", "version": cluster.description["version"], "labels": {}, "taints": []}
        now = datetime.now(timezone.utc)
        return (
            defaults
            | {key: value for key, value in parameters.items() if value is not None}
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

    def _scaling_group(self, cluster: Cluster, description: Mapping[str, Any]) -> str:
        data, kinds = self._data(cluster, description)
        created = self._region.moto_client("ec2").create_launch_template(
            LaunchTemplateName=_own_name(description), LaunchTemplateData=data
        )
        own = str(created["LaunchTemplate"]["LaunchTemplateId"])
        name = f"eks-{description['nodegroupName']}-{description['nodegroupArn'].rpartition('/')[2]}"
        sizes = description["scalingConfig"]
        reference = {"LaunchTemplateId": own, "Version": "1"}
        spot = description["capacityType"] == "SPOT"
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
        block = description["capacityType"] == "CAPACITY_BLOCK"
        self._groups.add(
            {
                "AutoScalingGroupName": name,
                "MinSize": sizes["minSize"],
                "MaxSize": sizes["maxSize"],
                "DesiredCapacity": sizes["desiredSize"],
                "VPCZoneIdentifier": ",".join(description["subnets"]),
                "Tags": [
                    {"Key": key, "Value": value, "PropagateAtLaunch": True} for key, value in _tags(description).items()
                ],
            }
            | ({"LaunchTemplate": reference} if block else {"MixedInstancesPolicy": policy})
        )
        return name

    def _data(self, cluster: Cluster, description: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Return the data of the launch template that EKS creates, and the types of the group."""
        source = description["launchTemplate"]
        data: dict[str, Any] = {}
        if source:
            data = self._launches.template({"LaunchTemplateId": source["id"], "Version": source["version"]})
            data = _without_own_tags(data)
        kinds = list(
            description.get("instanceTypes") or ([data["InstanceType"]] if data.get("InstanceType") else ["t3.medium"])
        )
        if data.get("InstanceType") and description.get("instanceTypes"):
            message = "You cannot specify an instance type in both the launch template and the managed node group."
            raise AwsError("InvalidParameterException", message)
        data = self._launch_templates.complete(data, cluster, description, kinds)
        try:
            self._launches.check_image(data, kinds)
        except AwsError as error:
            raise AwsError("InvalidRequestException", error.message) from error
        data = with_tags(
            data, "instance", {"eks:cluster-name": cluster.name, "eks:nodegroup-name": description["nodegroupName"]}
        )
        return data, kinds


def _tags(description: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags of the Auto Scaling group, which cluster autoscaler reads."""
    cluster = description["clusterName"]
    return {
        "eks:cluster-name": cluster,
        "eks:nodegroup-name": description["nodegroupName"],
        f"kubernetes.io/cluster/{cluster}": "owned",
        "k8s.io/cluster-autoscaler/enabled": "true",
        f"k8s.io/cluster-autoscaler/{cluster}": "owned",
    }


def _without_own_tags(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return data of a launch template without the tags that EC2 adds to instances."""
    specifications = [
        one | {"Tags": [tag for tag in one["Tags"] if not tag["Key"].startswith("aws:")]}
        for one in data["TagSpecifications"]
    ]
    return dict(data) | {"TagSpecifications": [one for one in specifications if one["Tags"]]}


def _group_name(description: Mapping[str, Any]) -> str:
    return str(description["resources"]["autoScalingGroups"][0]["name"])


# The kubelet's name of each taint effect.
# Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_Taint.html
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
# EKS' max pods of a node by default, for types with up to 30 vCPUs and for larger ones.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/choosing-instance-type.html
_MAX_PODS, _MAX_PODS_LARGE, _LARGE_VCPUS = 110, 250, 30


class _LaunchTemplates:
    """Launch templates and instance profiles of managed node groups."""

    def __init__(self, region: Region, images: Images) -> None:
        self._region, self._images = region, images

    def complete(
        self, data: Mapping[str, Any], cluster: Cluster, description: Mapping[str, Any], kinds: list[str]
    ) -> dict[str, Any]:
        """Return data of a launch template with which a node joins.

        Raises:
            AwsError: The template sets a field that only the group may set.
        """
        if data.get("IamInstanceProfile"):
            raise AwsError("InvalidParameterException", "Instance profile should not be specified in launch template")
        if data.get("NetworkInterfaces") and any(one.get("SubnetId") for one in data["NetworkInterfaces"]):
            raise AwsError("InvalidParameterException", "Subnets should not be specified in the launch template")
        completed = dict(data) | {"IamInstanceProfile": {"Name": self._profile(description)}}
        completed |= self._groups(data, cluster)
        if description.get("capacityType") != "CAPACITY_BLOCK":
            completed.pop("InstanceType", None)
        if data.get("ImageId"):
            return completed
        kind = str(description.get("amiType") or "AL2023_x86_64_STANDARD")
        self._check_architecture(kind, kinds)
        image = self._images.managed_group_image(kind, str(description["version"]), description.get("releaseVersion"))
        bootstrap = self._bootstrap(cluster, description, image, kinds)
        write = bottlerocket if kind.startswith("BOTTLEROCKET") else nodeadm
        own = base64.b64decode(data.get("UserData") or "").decode()
        return completed | {"ImageId": image, "UserData": base64.b64encode(write(own, bootstrap).encode()).decode()}

    def _groups(self, data: Mapping[str, Any], cluster: Cluster) -> dict[str, Any]:
        """Return the cluster's security group, unless the template sets groups."""
        group = cluster.description["resourcesVpcConfig"]["clusterSecurityGroupId"]
        interfaces = data.get("NetworkInterfaces")
        if interfaces:
            return {
                "NetworkInterfaces": [one if one.get("Groups") else one | {"Groups": [group]} for one in interfaces]
            }
        return {} if data.get("SecurityGroupIds") else {"SecurityGroupIds": [group]}

    def _bootstrap(
        self, cluster: Cluster, description: Mapping[str, Any], image: str, kinds: list[str]
    ) -> NodeBootstrap:
        source = description["launchTemplate"]
        labels = dict(description["labels"]) | {
            "eks.amazonaws.com/nodegroup": description["nodegroupName"],
            "eks.amazonaws.com/nodegroup-image": image,
            "eks.amazonaws.com/capacityType": description["capacityType"],
        }
        if source:
            labels |= {
                "eks.amazonaws.com/sourceLaunchTemplateId": source["id"],
                "eks.amazonaws.com/sourceLaunchTemplateVersion": source["version"],
            }
        taints = [(one["key"], one.get("value", ""), _EFFECTS[one["effect"]]) for one in description["taints"]]
        cidr = cluster.description["kubernetesNetworkConfig"]["serviceIpv4Cidr"]
        return NodeBootstrap(
            cluster=cluster.name,
            endpoint=cluster.description["endpoint"],
            certificate_authority=cluster.description["certificateAuthority"]["data"],
            service_cidr=cidr,
            dns_ip=str(ip_network(cidr)[10]),
            max_pods=min(self._max_pods(kind) for kind in kinds),
            labels=labels,
            taints=tuple(taints),
        )

    def _check_architecture(self, ami_type: str, kinds: list[str]) -> None:
        """Reject instance types of another architecture than the AMI type.

        Source of the message: https://github.com/eksctl-io/eksctl/issues/7754 (2026-11)
        """
        wanted = self._images.architecture(ami_type)
        types = self._region.moto_client("ec2").describe_instance_types(InstanceTypes=kinds)["InstanceTypes"]
        others = [
            each["InstanceType"] for each in types if wanted not in each["ProcessorInfo"]["SupportedArchitectures"]
        ]
        if others:
            message = f"[{', '.join(others)}] is not a valid instance type for requested amiType {ami_type}"
            raise AwsError("InvalidParameterException", message)

    def _max_pods(self, kind: str) -> int:
        found = self._region.moto_client("ec2").describe_instance_types(InstanceTypes=[kind])["InstanceTypes"][0]
        network = found["NetworkInfo"]
        addresses = network["MaximumNetworkInterfaces"] * (network["Ipv4AddressesPerInterface"] - 1) + 2
        limit = _MAX_PODS if found["VCpuInfo"]["DefaultVCpus"] <= _LARGE_VCPUS else _MAX_PODS_LARGE
        return int(min(addresses, limit))

    def _profile(self, description: Mapping[str, Any]) -> str:
        """Return the instance profile of a group, which is created at its first use."""
        iam, name = self._region.moto_client("iam"), _own_name(description)
        try:
            iam.create_instance_profile(InstanceProfileName=name)
        except iam.exceptions.EntityAlreadyExistsException:
            return name
        iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=_role(description))
        return name

    def forget(self, description: Mapping[str, Any]) -> None:
        """Delete the launch template and the instance profile that EKS created for a group."""
        iam, name = self._region.moto_client("iam"), _own_name(description)
        self._region.moto_client("ec2").delete_launch_template(LaunchTemplateName=name)
        iam.remove_role_from_instance_profile(InstanceProfileName=name, RoleName=_role(description))
        iam.delete_instance_profile(InstanceProfileName=name)


def _own_name(description: Mapping[str, Any]) -> str:
    """Return the name of the launch template and the instance profile that EKS creates for a group."""
    return f"eks-{description['nodegroupArn'].rpartition('/')[2]}"


def _role(description: Mapping[str, Any]) -> str:
    return str(description["nodeRole"]).rpartition("/")[2]
