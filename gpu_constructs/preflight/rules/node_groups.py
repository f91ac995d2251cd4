"""Definitions of node groups: sizes, names, warm pools, repair."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from gpu_constructs.kubernetes_facts import NodeCondition
from gpu_constructs.preflight.launch import gpu_groups, is_given
from gpu_constructs.preflight.model import Cluster, Pool
from gpu_constructs.preflight.pools import desired_nodes
from gpu_constructs.preflight.rules.rule import Problem, Rule
from gpu_constructs.preflight.unknown import dig, is_true, known_text, mapping, mappings
from gpu_constructs.refusals import did_you_mean

_NODE_GROUP = "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-eks-nodegroup.html"
_CONDITIONS = get_args(NodeCondition)


def _managed(cluster: Cluster) -> list[Pool]:
    return [pool for pool in cluster.pools if pool.kind == "managed"]


def _impossible_sizes(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.pools:
        if not pool.is_group or pool.max_nodes is None:
            continue
        desired, least, most = desired_nodes(pool), pool.min_nodes, pool.max_nodes
        if pool.kind == "managed" and most == 0:
            yield Problem(pool.origin, f"pool {pool.name}: MaxSize is 0, EKS takes 1 or more")
        elif least is not None and least > most:
            yield Problem(pool.origin, f"pool {pool.name}: MinSize {least} is above MaxSize {most}")
        elif desired is not None and not (least or 0) <= desired <= most:
            yield Problem(pool.origin, f"pool {pool.name}: {desired} nodes wanted, MinSize {least}, MaxSize {most}")


def _no_node(cluster: Cluster) -> Iterator[Problem]:
    for pool in gpu_groups(cluster):
        if pool.kind == "self-managed" and pool.max_nodes == 0:
            yield Problem(pool.origin, f"pool {pool.name}: MaxSize is 0")


def _reset_size(cluster: Cluster) -> Iterator[Problem]:
    for pool in gpu_groups(cluster) if cluster.autoscaler("cluster-autoscaler") else []:
        desired = desired_nodes(pool)
        if desired is not None and pool.min_nodes != pool.max_nodes:
            yield Problem(pool.origin, f"pool {pool.name}: a deployment may set it back to {_nodes(desired)}")


def _nodes(number: int) -> str:
    return f"{number} node{'' if number == 1 else 's'}"


def _refused_warm_pool(cluster: Cluster) -> Iterator[Problem]:
    for pool in _managed(cluster):
        warm = mapping(pool.properties.get("WarmPoolConfig"))
        if not is_true(warm.get("Enabled")):
            continue
        if is_given(pool.launch.get("ImageId")):
            yield Problem(pool.origin, f"pool {pool.name}: a warm pool with an image of its own")
        hibernates = str(warm.get("PoolState")).upper() == "HIBERNATED"
        if pool.operating_system == "bottlerocket" and (hibernates or is_true(warm.get("ReuseOnScaleIn"))):
            yield Problem(pool.origin, f"pool {pool.name}: a warm pool of Bottlerocket that hibernates or is reused")


def _fixed_version(cluster: Cluster) -> Iterator[Problem]:
    for pool in gpu_groups(cluster):
        specification = pool.properties.get("LaunchTemplate") or dig(
            dict(pool.properties), "MixedInstancesPolicy", "LaunchTemplate", "LaunchTemplateSpecification"
        )
        version = mapping(specification).get("Version", "$Default")
        if pool.launch_resource is not None and isinstance(version, (str, int)):
            yield Problem(pool.origin, f"pool {pool.name}: uses version {version} of its launch template for good")


def _fixed_name(cluster: Cluster) -> Iterator[Problem]:
    for pool in gpu_groups(cluster):
        name = pool.properties.get("NodegroupName")
        if pool.kind == "managed" and is_given(name):
            yield Problem(pool.origin, f"pool {pool.name}: NodegroupName is {name}")


def _idle_override(cluster: Cluster) -> Iterator[Problem]:
    for pool in _managed(cluster):
        config = mapping(pool.properties.get("NodeRepairConfig"))
        for override in mappings(config.get("NodeRepairConfigOverrides")):
            condition = known_text(override.get("NodeMonitoringCondition"))
            if condition is not None and condition not in _CONDITIONS:
                hint = did_you_mean(condition, _CONDITIONS)
                yield Problem(pool.origin, f"pool {pool.name}: no node has a condition {condition}{hint}")


RULES = (
    Rule(
        id="GPU058",
        severity="error",
        title="Sizes that contradict each other",
        why="EKS and Auto Scaling refuse the group.",
        source="https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupScalingConfig.html",
        fix="Keep MinSize, the wanted size and MaxSize in this order, with MaxSize 1 or more.",
        causes=("B24",),
        check=_impossible_sizes,
    ),
    Rule(
        id="GPU059",
        severity="warning",
        title="Group that can have no node",
        why="No autoscaler goes above MaxSize, and its pods stay Pending.",
        source="https://docs.aws.amazon.com/autoscaling/ec2/userguide/asg-capacity-limits.html",
        fix="Raise MaxSize.",
        causes=("B24",),
        check=_no_node,
    ),
    Rule(
        id="GPU060",
        severity="warning",
        title="Wanted size beside an autoscaler",
        why="A deployment that touches the sizes ends nodes the autoscaler started, with what runs on them.",
        source="https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupScalingConfig.html",
        fix="Leave DesiredSize or DesiredCapacity out and set MinSize.",
        causes=("B25",),
        check=_reset_size,
    ),
    Rule(
        id="GPU061",
        severity="error",
        title="Warm pool that EKS refuses",
        why="Groups with ImageId have no warm pools, and those of Bottlerocket neither hibernate nor are reused.",
        source="https://docs.aws.amazon.com/eks/latest/userguide/warm-pools-managed-node-groups.html",
        fix="Remove WarmPoolConfig, or use an AL2023 image that EKS publishes.",
        causes=("B27",),
        check=_refused_warm_pool,
    ),
    Rule(
        id="GPU062",
        severity="note",
        title="Fixed version of a launch template",
        why="Changes of the launch template reach no node, because the version that the group uses stays the same.",
        source="https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html",
        fix="Set Version to Fn::GetAtt LatestVersionNumber of the launch template.",
        causes=("B28",),
        check=_fixed_version,
    ),
    Rule(
        id="GPU063",
        severity="note",
        title="Node group with a name of its own",
        why="A change that replaces the group fails, because CloudFormation makes the new one before the old one goes.",
        source=_NODE_GROUP,
        fix="Leave NodegroupName out.",
        causes=("P080",),
        check=_fixed_name,
    ),
    Rule(
        id="GPU064",
        severity="warning",
        title="Node repair for a condition that no node has",
        why="The override never applies, and a broken GPU is repaired by EKS' own choice.",
        source="aws/eks-node-monitoring-agent v1.7.0 pkg/conditions/conditions.go",
        fix="Name a condition of the node monitoring agent; that of GPUs is AcceleratedHardwareReady.",
        causes=("P090",),
        check=_idle_override,
    ),
)
