"""Definitions of node groups: sizes, names, warm pools, repair."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from gpu_facts.kubernetes import NodeCondition
from gpu_facts.refusals import did_you_mean
from gpu_preflight.case import Case
from gpu_preflight.cluster.launch import is_given
from gpu_preflight.cluster.pools import desired_nodes, is_of_eksctl
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.reading.unknown import dig, is_true, known_text, mapping, mappings
from gpu_preflight.rules.rule import Problem, rule

_NODE_GROUP = "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-eks-nodegroup.html"
_CONDITIONS = get_args(NodeCondition)


def _managed(cluster: Cluster) -> list[Pool]:
    return [pool for pool in cluster.pools if pool.kind == "managed"]


@rule("GPU058", "error", source="https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupScalingConfig.html")
def sizes_that_contradict_each_other(case: Case) -> Iterator[Problem]:
    """Sizes that contradict each other.

    EKS and Auto Scaling refuse the group.

    Fix: Keep MinSize, the wanted size and MaxSize in this order, with MaxSize 1 or more.
    """
    for pool in case.cluster.pools:
        if not pool.is_group or pool.max_nodes is None:
            continue
        desired, least, most = desired_nodes(pool), pool.min_nodes, pool.max_nodes
        if pool.kind == "managed" and most == 0:
            yield Problem.of(pool, "MaxSize is 0, EKS takes 1 or more")
        elif least is not None and least > most:
            yield Problem.of(pool, f"MinSize {least} is above MaxSize {most}")
        elif desired is not None and not (least or 0) <= desired <= most:
            yield Problem.of(pool, f"{desired} nodes wanted, MinSize {least}, MaxSize {most}")


@rule("GPU059", "warning", source="https://docs.aws.amazon.com/autoscaling/ec2/userguide/asg-capacity-limits.html")
def group_that_can_have_no_node(case: Case) -> Iterator[Problem]:
    """Group that can have no node.

    No autoscaler goes above MaxSize, and its pods stay Pending.

    Fix: Raise MaxSize.
    """
    for pool in case.gpu_groups:
        if pool.kind == "self-managed" and pool.max_nodes == 0:
            yield Problem.of(pool, "MaxSize is 0")


@rule("GPU060", "warning", source="https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupScalingConfig.html")
def wanted_size_beside_an_autoscaler(case: Case) -> Iterator[Problem]:
    """Wanted size beside an autoscaler.

    A deployment that touches the sizes ends nodes the autoscaler started, with what runs on them.

    Fix: Leave DesiredSize or DesiredCapacity out and set MinSize.
    """
    for pool in case.gpu_groups if case.cluster.autoscaler("cluster-autoscaler") else []:
        desired = desired_nodes(pool)
        if desired is not None and pool.min_nodes != pool.max_nodes:
            yield Problem.of(pool, f"a deployment may set it back to {_nodes(desired)}", fix=_without_size(pool))


def _without_size(pool: Pool) -> str:
    """Return how the CDK leaves out the size that its own node group always writes; nothing for other templates."""
    if pool.kind != "managed" or pool.resource is None or "aws:cdk:path" not in pool.resource.metadata:
        return ""
    named = "ScalingConfig.DesiredSize"
    return (
        "The CDK's Nodegroup always writes DesiredSize: leave it out by "
        f"group.node.default_child.add_property_deletion_override('{named}'), in TypeScript "
        f"(group.node.defaultChild as CfnNodegroup).addPropertyDeletionOverride('{named}')."
    )


def _nodes(number: int) -> str:
    return f"{number} node{'' if number == 1 else 's'}"


@rule("GPU061", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/warm-pools-managed-node-groups.html")
def warm_pool_that_eks_refuses(case: Case) -> Iterator[Problem]:
    """Warm pool that EKS refuses.

    Groups with ImageId have no warm pools, and those of Bottlerocket neither hibernate nor are reused.

    Fix: Remove WarmPoolConfig, or use an AL2023 image that EKS publishes.
    """
    for pool in _managed(case.cluster):
        warm = mapping(pool.properties.get("WarmPoolConfig"))
        if not is_true(warm.get("Enabled")):
            continue
        if is_given(pool.launch.image):
            yield Problem.of(pool, "a warm pool with an image of its own")
        hibernates = str(warm.get("PoolState")).upper() == "HIBERNATED"
        if pool.operating_system == "bottlerocket" and (hibernates or is_true(warm.get("ReuseOnScaleIn"))):
            yield Problem.of(pool, "a warm pool of Bottlerocket that hibernates or is reused")


@rule("GPU062", "note", source="https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html")
def fixed_version_of_a_launch_template(case: Case) -> Iterator[Problem]:
    """Fixed version of a launch template.

    Changes of the launch template reach no node, because the version that the group uses stays the same.

    Fix: Set Version to Fn::GetAtt LatestVersionNumber of the launch template.
    """
    for pool in case.gpu_groups:
        specification = pool.properties.get("LaunchTemplate") or dig(
            pool.properties, "MixedInstancesPolicy", "LaunchTemplate", "LaunchTemplateSpecification"
        )
        version = mapping(specification).get("Version", "$Default")
        if pool.launch_resource is not None and isinstance(version, (str, int)):
            yield Problem.of(pool, f"uses version {version} of its launch template for good")


@rule("GPU063", "note", source=_NODE_GROUP)
def node_group_with_a_name_of_its_own(case: Case) -> Iterator[Problem]:
    """Node group with a name of its own.

    A change that replaces the group fails, because CloudFormation makes the new one before the old one goes.

    Fix: Leave NodegroupName out.
    """
    for pool in case.gpu_groups:
        name = pool.properties.get("NodegroupName")
        if pool.kind == "managed" and is_given(name) and not is_of_eksctl(pool):
            yield Problem.of(pool, f"NodegroupName is {name}")


@rule("GPU064", "warning", source="aws/eks-node-monitoring-agent v1.7.0 pkg/conditions/conditions.go")
def node_repair_for_a_condition_that_no_node_has(case: Case) -> Iterator[Problem]:
    """Node repair for a condition that no node has.

    The override never applies, and a broken GPU is repaired by EKS' own choice.

    Fix: Name a condition of the node monitoring agent; that of GPUs is AcceleratedHardwareReady.
    """
    for pool in _managed(case.cluster):
        config = mapping(pool.properties.get("NodeRepairConfig"))
        for override in mappings(config.get("NodeRepairConfigOverrides")):
            condition = known_text(override.get("NodeMonitoringCondition"))
            if condition is not None and condition not in _CONDITIONS:
                hint = did_you_mean(condition, _CONDITIONS)
                yield Problem.of(pool, f"no node has a condition {condition}{hint}")
