"""Auto Scaling groups that join a cluster by themselves."""

from __future__ import annotations

from typing import Any

from tests.mutations.families.nodes.launch_templates import data, told
from tests.mutations.operator import MEASURED, operator
from tests.mutations.written import Written, drop, look, put

GROUP = "AWS::AutoScaling::AutoScalingGroup"
GUIDE = "https://docs.aws.amazon.com/eks/latest/userguide/worker.html"
API = "https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_CreateAutoScalingGroup.html"
NODEADM = "https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/"
DISCOVERY = "https://github.com/kubernetes/autoscaler/issues/2642"


def groups(given: Written) -> list[Any]:
    """The Auto Scaling groups."""
    return given.resources(GROUP)


def tags(group: Any, part: str) -> list[Any]:
    """The tags of a group whose key has a part."""
    return [each for each in look(group, "Tags") or [] if part in str(each.get("Key"))]


def lose_tags(group: Any, part: str) -> bool:
    """Remove those tags."""
    lost = tags(group, part)
    kept = [each for each in look(group, "Tags") or [] if each not in lost]
    return bool(lost) and put(group, "Tags", to=kept)


@operator(MEASURED + "an Auto Scaling group whose nodes have no role")
def no_instance_profile(given: Written) -> bool:
    """The launch template names no instance profile."""
    return any(groups(given) and drop(each, "IamInstanceProfile") for each in data(given))


@operator(DISCOVERY)
def no_discovery_tags(given: Written) -> bool:
    """The group lacks the tags by which cluster autoscaler finds it."""
    return any([lose_tags(each, "k8s.io/cluster-autoscaler/") for each in groups(given)])


@operator(MEASURED + "discovery tags missing beside a tag with a name to substitute in its key")
def no_discovery_tags_and_a_key_to_substitute(given: Written) -> bool:
    """The discovery tags are missing, and the tag of the cluster has its name by Fn::Sub in the key."""
    changed = [lose_tags(each, "k8s.io/cluster-autoscaler/") for each in groups(given)]
    for group in groups(given):
        for tag in tags(group, "kubernetes.io/cluster/"):
            tag["Key"] = {"Fn::Sub": "kubernetes.io/cluster/${Cluster}"}
    return any(changed)


@operator(MEASURED + "the discovery tag of the cluster missing beside a tag with a name to substitute in its key")
def discovery_tag_of_another_cluster(given: Written) -> bool:
    """The discovery tag names another cluster, and the tag of the cluster has its name by Fn::Sub in the key."""
    changed = False
    for group in groups(given):
        for tag in tags(group, "k8s.io/cluster-autoscaler/demo"):
            changed = put(tag, "Key", to="k8s.io/cluster-autoscaler/staging") or changed
        for tag in tags(group, "kubernetes.io/cluster/"):
            tag["Key"] = {"Fn::Sub": "kubernetes.io/cluster/${Cluster}"}
    return changed


@operator("https://github.com/kubernetes/autoscaler/issues/4893")
def no_label_tags(given: Written) -> bool:
    """The group at zero lacks the tags that tell its labels."""
    return any([lose_tags(each, "node-template/label/") for each in groups(given)])


@operator("https://github.com/kubernetes/autoscaler/issues/511")
def label_tag_of_another_value(given: Written) -> bool:
    """The tag tells another value of the label than the nodes have."""
    return any([put(tag, "Value", to="Vision") for each in groups(given) for tag in tags(each, "label/team")])


@operator("https://github.com/kubernetes/autoscaler/issues/2434")
def taint_tag_without_effect(given: Written) -> bool:
    """The tag of the taint has no effect behind its value."""
    return any([put(tag, "Value", to="true") for each in groups(given) for tag in tags(each, "node-template/taint/")])


@operator(NODEADM)
def nodes_join_another_cluster(given: Written) -> bool:
    """The user data names another cluster."""
    return bool(groups(given)) and told(given, "name: ${Cluster}\n", "name: staging\n")


@operator(NODEADM)
def no_service_range(given: Written) -> bool:
    """The user data lacks the range of the services."""
    return bool(groups(given)) and told(given, "cidr: 10.100.0.0/16", "")


@operator(GUIDE)
def role_is_not_let_in(given: Written) -> bool:
    """The role of the nodes has no access entry."""
    return bool(groups(given)) and given.remove("AWS::EKS::AccessEntry")


@operator(MEASURED + "a launch configuration, told as a retired type")
def launch_configuration(given: Written) -> bool:
    """The group still has a launch configuration."""
    return any(
        drop(each, "LaunchTemplate") and put(each, "LaunchConfigurationName", to="gpu") for each in groups(given)
    )


@operator(MEASURED + "the type by Fn::FindInMap on the region, after which the pool is gone")
def retired_type_by_region(given: Written) -> bool:
    """The instance type is looked up by region, and the map has a retired type for each."""
    for template in given.templates:
        template["Mappings"] = {"TypeOf": {each: {"Gpu": "p2.xlarge"} for each in ("us-west-2", "eu-west-1")}}
    find = {"Fn::FindInMap": ["TypeOf", {"Ref": "AWS::Region"}, "Gpu"]}
    plain = any("LaunchTemplate" in each for each in groups(given))
    return any(plain and "InstanceType" in each and put(each, "InstanceType", to=find) for each in data(given))


@operator(MEASURED + "a group that no cluster claims")
def nodes_in_no_security_group_of_the_cluster(given: Written) -> bool:
    """The nodes are in a security group that the cluster does not know."""
    return any(
        bool(groups(given)) and put(each, "SecurityGroupIds", to=["sg-0123456789abcdef9"]) for each in data(given)
    )
