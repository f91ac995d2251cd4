"""Managed node groups."""

from __future__ import annotations

from typing import Any

from tests.mutations.operator import MEASURED, operator
from tests.mutations.written import Written, drop, look, put, replace

NODEGROUP = "AWS::EKS::Nodegroup"
API = "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-eks-nodegroup.html"


def gpu_groups(given: Written) -> list[Any]:
    """The groups whose image or name is for GPUs."""
    return [each for each in given.resources(NODEGROUP) if "NVIDIA" in str(each.get("AmiType"))]


@operator("https://github.com/aws-controllers-k8s/community/issues/2047")
def taint_effect_spelt_as_in_kubernetes(given: Written) -> bool:
    """The taint of a managed group is spelt NoSchedule."""
    return any(replace(each, "Taints", 0, "Effect", to="NoSchedule") for each in gpu_groups(given))


@operator("https://github.com/aws/aws-cdk/issues/26354")
def image_without_driver(given: Written) -> bool:
    """The GPU group has the standard image."""
    return any(put(each, "AmiType", to="AL2023_x86_64_STANDARD") for each in gpu_groups(given))


@operator("https://github.com/aws/aws-cdk/issues/29983")
def image_of_amazon_linux_2(given: Written) -> bool:
    """The GPU group has the image of Amazon Linux 2, which this Kubernetes version has no more."""
    return any(put(each, "AmiType", to="AL2_x86_64_GPU") for each in gpu_groups(given))


@operator(API)
def image_type_in_capitals(given: Written) -> bool:
    """The image type is written as the CDK's enumeration names it."""
    return any(put(each, "AmiType", to="AL2023_X86_64_NVIDIA") for each in gpu_groups(given))


@operator("https://github.com/aws/aws-cdk/issues/26354")
def image_of_another_architecture(given: Written) -> bool:
    """The image is for Arm, the instances are not."""
    return any(put(each, "AmiType", to="AL2023_ARM_64_NVIDIA") for each in gpu_groups(given))


@operator(MEASURED + "a type that AWS retired, told as one without a GPU")
def retired_type(given: Written) -> bool:
    """The group has a P3 type, which is retired."""
    return any(replace(each, "InstanceTypes", to=["p3.2xlarge"]) for each in gpu_groups(given))


@operator(MEASURED + "a type that is misspelt, told as one without a GPU")
def misspelt_type(given: Written) -> bool:
    """The instance type lacks a letter."""
    return any(replace(each, "InstanceTypes", to=["g6.2xlage"]) for each in gpu_groups(given))


@operator(MEASURED + "capacity type of a node pool that does not exist")
def capacity_type_misspelt(given: Written) -> bool:
    """The capacity type of the group is written as Karpenter writes it."""
    return any(put(each, "CapacityType", to="on-demand") for each in gpu_groups(given))


@operator(API)
def more_nodes_wanted_than_allowed(given: Written) -> bool:
    """The group wants more nodes than its maximum."""
    return any(put(each, "ScalingConfig", "DesiredSize", to=40) for each in gpu_groups(given))


@operator(API)
def max_unavailable_beyond_100(given: Written) -> bool:
    """The update may take 101 nodes at once."""
    return any(put(each, "UpdateConfig", to={"MaxUnavailable": 101}) for each in gpu_groups(given))


@operator(API)
def repair_action_that_does_not_exist(given: Written) -> bool:
    """The repair of a condition is to terminate the node."""
    override = {
        "NodeMonitoringCondition": "AcceleratedHardwareReady",
        "NodeUnhealthyReason": "NvidiaXID13Error",
        "MinRepairWaitTimeMins": 10,
        "RepairAction": "Terminate",
    }
    repair = {"Enabled": True, "NodeRepairConfigOverrides": [override]}
    return any(put(each, "NodeRepairConfig", to=repair) for each in gpu_groups(given))


@operator("https://github.com/terraform-aws-modules/terraform-aws-eks/issues/2441")
def disk_size_beside_a_launch_template(given: Written) -> bool:
    """The group names a disk size beside its launch template."""
    return any("LaunchTemplate" in each and put(each, "DiskSize", to=200) for each in gpu_groups(given))


@operator("https://github.com/eksctl-io/eksctl/issues/8550")
def taint_that_nobody_tolerates(given: Written) -> bool:
    """The group gets a second taint, which neither the device plugin nor the pods tolerate."""
    taint = {"Key": "team", "Value": "vision", "Effect": "NO_SCHEDULE"}
    return any(put(each, "Taints", to=[*each.get("Taints", []), taint]) for each in gpu_groups(given))


@operator(MEASURED + "unknown property of a managed group")
def labels_misspelt(given: Written) -> bool:
    """The group's labels are under NodeLabels, which is eksctl's word."""
    return any(
        "Labels" in each and put(each, "NodeLabels", to=each["Labels"]) and drop(each, "Labels")
        for each in gpu_groups(given)
    )


@operator(API)
def version_of_the_nodes_ahead(given: Written) -> bool:
    """The nodes are to have a newer Kubernetes version than the control plane."""
    return any(put(each, "Version", to="1.37") for each in gpu_groups(given))


@operator(API)
def label_with_a_space(given: Written) -> bool:
    """The value of a node's label has a space."""
    return any(look(each, "Labels") and put(each, "Labels", "team", to="computer vision") for each in gpu_groups(given))
