"""Definitions of node groups: sizes, labels, repair, updates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gpu_constructs.preflight.launch import gpu_groups, is_given
from gpu_constructs.preflight.model import Cluster, Pool
from gpu_constructs.preflight.rules.rule import Problem, Rule
from gpu_constructs.preflight.unknown import dig, is_true, known_number, known_text, mapping, mappings

_NODE_GROUP = "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-eks-nodegroup.html"
# What kubelet may set on its own node of the domains kubernetes.io and k8s.io.
# Source: kubernetes/kubernetes v1.36.1 staging/src/k8s.io/kubelet/pkg/apis/well_known_labels.go
_KUBELET_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_KUBELET_LABELS = (
    "kubernetes.io/hostname",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
# Optional DNS prefix, then at most 63 characters.
# Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/ (2026-08)
_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
# Source: aws/eks-node-monitoring-agent v1.7.0 pkg/conditions/conditions.go
_CONDITIONS = (
    "AcceleratedHardwareReady",
    "ContainerRuntimeReady",
    "DiskPressure",
    "KernelReady",
    "MemoryPressure",
    "NetworkingReady",
    "Ready",
    "StorageReady",
)
# Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_NodeRepairConfigOverrides.html (2026-08)
_ACTIONS = ("Replace", "Reboot", "NoAction")
_OF_OVERRIDE = ("NodeMonitoringCondition", "NodeUnhealthyReason", "MinRepairWaitTimeMins", "RepairAction")
_COUNTED = ("MaxUnhealthyNodeThreshold", "MaxParallelNodesRepaired")


def _managed(cluster: Cluster) -> list[Pool]:
    return [pool for pool in cluster.pools if pool.kind == "managed"]


def _refused_labels(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.pools:
        for why in _refusals(pool) if pool.is_group else ():
            yield Problem(pool.origin, f"pool {pool.name}: {why}")


def _refusals(pool: Pool) -> Iterator[str]:
    for key, value in {**_told(pool), **mapping(pool.properties.get("Labels"))}.items():
        if "${" in key:
            continue
        if not _KEY.fullmatch(key):
            yield f"{key!r} is no key of a label"
        elif (text := known_text(value)) is not None and "${" not in text and not _VALUE.fullmatch(text):
            yield f"{text!r} is no value of label {key}"
        elif _is_foreign(key) or (pool.kind == "managed" and key.startswith("eks.amazonaws.com/")):
            yield f"label {key} is not for a node to give itself"
    for taint in pool.taints:
        if "${" not in taint.key and not _KEY.fullmatch(taint.key):
            yield f"{taint.key!r} is no key of a taint"


def _told(pool: Pool) -> dict[str, Any]:
    """Return the labels of kubelet's ``--node-labels``."""
    flags = [flag.partition("=")[2] for flag in pool.user_data.kubelet_flags if flag.startswith("--node-labels=")]
    pairs = [pair.partition("=") for flag in flags for pair in flag.strip("\"'").split(",") if pair]
    return {key: value for key, _, value in pairs}


def _is_foreign(key: str) -> bool:
    domain = key.rpartition("/")[0]
    ruled = any(domain == each or domain.endswith(f".{each}") for each in ("kubernetes.io", "k8s.io"))
    allowed = any(domain == each or domain.endswith(f".{each}") for each in _KUBELET_DOMAINS)
    return ruled and not allowed and key not in _KUBELET_LABELS


def _impossible_sizes(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.pools:
        if not pool.is_group or pool.max_nodes is None:
            continue
        desired, least, most = _desired(pool), pool.min_nodes, pool.max_nodes
        if pool.kind == "managed" and most == 0:
            yield Problem(pool.origin, f"pool {pool.name}: MaxSize is 0, EKS takes 1 or more")
        elif least is not None and least > most:
            yield Problem(pool.origin, f"pool {pool.name}: MinSize {least} is above MaxSize {most}")
        elif desired is not None and not (least or 0) <= desired <= most:
            yield Problem(pool.origin, f"pool {pool.name}: {desired} nodes wanted, MinSize {least}, MaxSize {most}")


def _desired(pool: Pool) -> int | None:
    named = dig(dict(pool.properties), "ScalingConfig", "DesiredSize")
    return known_number(named if pool.kind == "managed" else pool.properties.get("DesiredCapacity"))


def _no_node(cluster: Cluster) -> Iterator[Problem]:
    for pool in gpu_groups(cluster):
        if pool.kind == "self-managed" and pool.max_nodes == 0:
            yield Problem(pool.origin, f"pool {pool.name}: MaxSize is 0")


def _reset_size(cluster: Cluster) -> Iterator[Problem]:
    for pool in gpu_groups(cluster) if cluster.autoscaler("cluster-autoscaler") else []:
        desired = _desired(pool)
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
        hibernates = warm.get("PoolState") == "HIBERNATED"
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


def _refused_repair(cluster: Cluster) -> Iterator[Problem]:
    for pool in _managed(cluster):
        config = mapping(pool.properties.get("NodeRepairConfig"))
        for name in _COUNTED:
            if all(is_given(config.get(f"{name}{unit}")) for unit in ("Count", "Percentage")):
                yield Problem(pool.origin, f"pool {pool.name}: {name} as count and as percentage")
        for override in mappings(config.get("NodeRepairConfigOverrides")):
            yield from _refused_override(pool, override)


def _refused_override(pool: Pool, override: dict[str, Any]) -> Iterator[Problem]:
    lacks = [name for name in _OF_OVERRIDE if override.get(name) is None]
    action, condition = known_text(override.get("RepairAction")), known_text(override.get("NodeMonitoringCondition"))
    if lacks:
        yield Problem(pool.origin, f"pool {pool.name}: a repair override without {', '.join(lacks)}")
    if action is not None and action not in _ACTIONS:
        yield Problem(pool.origin, f"pool {pool.name}: repair action {action} is none of {', '.join(_ACTIONS)}")
    if condition is not None and condition not in _CONDITIONS:
        yield Problem(pool.origin, f"pool {pool.name}: nodes have no condition {condition}", unknown=True)


RULES = (
    Rule(
        id="GPU057",
        severity="error",
        title="Label or taint that a node cannot have",
        why="EKS refuses it (KubernetesLabelInvalid), or kubelet does not start and the node never joins.",
        source="https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction",
        fix="Use a domain of your own, or node.kubernetes.io where kubelet may set it.",
        causes=("B23",),
        check=_refused_labels,
    ),
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
        source="https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html",
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
        severity="error",
        title="Node repair that EKS refuses",
        why="EKS wants all four values of an override, and of each threshold a count or a percentage.",
        source="https://docs.aws.amazon.com/eks/latest/APIReference/API_NodeRepairConfigOverrides.html",
        fix="Name condition, reason, minutes and one of Replace, Reboot, NoAction.",
        causes=("P090",),
        check=_refused_repair,
    ),
)
OUT_OF_REACH = ()
