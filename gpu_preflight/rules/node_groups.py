"""Rules for node groups: sizes, names, access to the cluster, and values that eksctl rejects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, get_args

from gpu_facts.charts import AWS_NODE, NETWORKS, VPC_CNI
from gpu_facts.kubernetes import NodeCondition
from gpu_facts.refusals import did_you_mean
from gpu_preflight.case import Case
from gpu_preflight.cluster.iam import (
    allows,
    node_role,
    own_actions,
    policy_names,
    resolve_role,
    trusted_services,
    wrong_type_fix,
)
from gpu_preflight.cluster.pools import desired_nodes, is_given, is_of_eksctl
from gpu_preflight.cluster.references import cluster_resources, referred, refers, setting
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.eksctl.recognition import cluster_or_config, configs
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, is_true, known_text, mapping, mappings
from gpu_preflight.rule import Problem, Subject, rule

if TYPE_CHECKING:
    from gpu_preflight.schema.eksctl_rejections import Rejection

_NODE_GROUP = "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-eks-nodegroup.html"
_CONDITIONS = get_args(NodeCondition)
_ENTRY = "AWS::EKS::AccessEntry"
_ACCESS = "https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html"
_ROLE = "https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html"
_ANYTHING = ("AdministratorAccess", "PowerUserAccess")
_CNI_POLICY = "AmazonEKS_CNI_Policy"
# The action that the network plugin calls to assign addresses to pods.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/cni-iam-role.html (2026-11-24)
_ASSIGNS = {"ipv4": "ec2:AssignPrivateIpAddresses", "ipv6": "ec2:AssignIpv6Addresses"}
_EFFECTS = {
    "AmazonEC2ContainerRegistryPullOnly": "can't pull images from ECR",
    _CNI_POLICY: "get no addresses for pods",
}
_PULL = tuple(f"AmazonEC2ContainerRegistry{each}" for each in ("PullOnly", "ReadOnly", "PowerUser", "FullAccess"))


def _managed(cluster: Cluster) -> list[Pool]:
    return [pool for pool in cluster.pools if pool.kind == "managed"]


@rule("GPU058", "error", source="https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupScalingConfig.html")
def sizes_that_contradict_each_other(case: Case) -> Iterator[Problem]:
    """Sizes of a group contradict each other.

    EKS and Auto Scaling reject the group.

    Fix: Set MinSize <= desired size <= MaxSize, with MaxSize 1 or more.
    """
    for pool in case.cluster.pools:
        if not pool.is_group or pool.max_nodes is None:
            continue
        desired, least, most = desired_nodes(pool), pool.min_nodes, pool.max_nodes
        if pool.kind == "managed" and most == 0:
            yield Problem.from_subject(pool, "MaxSize is 0, but EKS requires 1 or more")
        elif least is not None and least > most:
            yield Problem.from_subject(pool, f"MinSize {least} is above MaxSize {most}")
        elif desired is not None and not (least or 0) <= desired <= most:
            text = f"desired size {desired} must be between MinSize {least} and MaxSize {most}"
            yield Problem.from_subject(pool, text)


@rule("GPU059", "warning", source="https://docs.aws.amazon.com/autoscaling/ec2/userguide/asg-capacity-limits.html")
def group_that_can_have_no_node(case: Case) -> Iterator[Problem]:
    """Group can't have any node.

    No autoscaler exceeds MaxSize, so its pods stay Pending.

    Fix: Raise MaxSize.
    """
    for pool in case.gpu_groups:
        if pool.kind == "self-managed" and pool.max_nodes == 0:
            yield Problem.from_subject(pool, "MaxSize is 0, so it never has a node")


@rule("GPU060", "warning", source="https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupScalingConfig.html")
def wanted_size_beside_an_autoscaler(case: Case) -> Iterator[Problem]:
    """Desired size is set although an autoscaler changes it.

    A deployment that changes the sizes terminates nodes that the autoscaler started, with their pods.

    Fix: Remove DesiredSize or DesiredCapacity.
    """
    for pool in case.gpu_groups if case.cluster.autoscaler("cluster-autoscaler") else []:
        desired = desired_nodes(pool)
        if desired is not None and pool.min_nodes != pool.max_nodes:
            yield Problem.from_subject(
                pool,
                f"its desired size is fixed, so a deployment may reset it to {_nodes(desired)}",
                fix=_without_size(pool),
                field="ScalingConfig.DesiredSize" if pool.kind == "managed" else "DesiredCapacity",
            )


def _without_size(pool: Pool) -> str:
    """Return how to remove the size of a group, which CDK's Nodegroup always writes."""
    named = "ScalingConfig.DesiredSize"
    if pool.kind != "managed" or pool.resource is None or is_of_eksctl(pool):
        return f"Remove {'desiredCapacity' if is_of_eksctl(pool) else 'DesiredCapacity'} from the group."
    if "aws:cdk:path" not in pool.resource.metadata:
        return f"Remove {named} from the node group."
    return (
        "Remove DesiredSize, which CDK's Nodegroup always writes, by "
        f"group.node.default_child.add_property_deletion_override('{named}'); in TypeScript: "
        f"(group.node.defaultChild as CfnNodegroup).addPropertyDeletionOverride('{named}')."
    )


def _nodes(number: int) -> str:
    return f"{number} node{'' if number == 1 else 's'}"


@rule("GPU061", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/warm-pools-managed-node-groups.html")
def warm_pool_that_eks_refuses(case: Case) -> Iterator[Problem]:
    """EKS rejects the warm pool.

    Groups with ImageId can't have warm pools. Bottlerocket nodes can neither hibernate nor be reused.

    Fix: Remove WarmPoolConfig, or use an AL2023 AmiType without ImageId.
    """
    for pool in _managed(case.cluster):
        warm = mapping(pool.properties.get("WarmPoolConfig"))
        if not is_true(warm.get("Enabled")):
            continue
        if is_given(pool.launch.image):
            yield Problem.from_subject(pool, "it has a warm pool, which EKS rejects for groups with a custom image")
        hibernates = str(warm.get("PoolState")).upper() == "HIBERNATED"
        if pool.operating_system == "bottlerocket" and (hibernates or is_true(warm.get("ReuseOnScaleIn"))):
            yield Problem.from_subject(pool, "its warm pool hibernates or reuses Bottlerocket nodes, which EKS rejects")


@rule("GPU062", "note", source="https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html")
def fixed_version_of_a_launch_template(case: Case) -> Iterator[Problem]:
    """Node group uses a fixed version of its launch template.

    Changes of the launch template don't apply to nodes, because the group keeps its version.

    Fix: Set Version to Fn::GetAtt LatestVersionNumber of the launch template.
    """
    for pool in case.gpu_groups:
        specification = pool.properties.get("LaunchTemplate") or dig(
            pool.properties, "MixedInstancesPolicy", "LaunchTemplate", "LaunchTemplateSpecification"
        )
        version = mapping(specification).get("Version", "$Default")
        if pool.launch_resource is not None and isinstance(version, (str, int)):
            text = f"it always uses version {version} of its launch template, so changes of the template have no effect"
            yield Problem.from_subject(pool, text)


@rule("GPU063", "note", source=_NODE_GROUP)
def node_group_with_a_name_of_its_own(case: Case) -> Iterator[Problem]:
    """Node group has a fixed name.

    CloudFormation creates the new group before it deletes the old one, so a change that replaces the group fails.

    Fix: Remove NodegroupName.
    """
    for pool in case.gpu_groups:
        name = pool.properties.get("NodegroupName")
        if pool.kind == "managed" and is_given(name) and not is_of_eksctl(pool):
            text = f"its name {name} is fixed by NodegroupName, so a change that replaces the group fails"
            yield Problem.from_subject(pool, text)


@rule("GPU064", "warning", source="aws/eks-node-monitoring-agent v1.7.0 pkg/conditions/conditions.go")
def node_repair_for_a_condition_that_no_node_has(case: Case) -> Iterator[Problem]:
    """Node repair override names a condition that no node has.

    The override never applies, so EKS chooses how to repair a broken GPU.

    Fix: Use a condition of the node monitoring agent; for GPUs: AcceleratedHardwareReady.
    """
    for pool in _managed(case.cluster):
        config = mapping(pool.properties.get("NodeRepairConfig"))
        for override in mappings(config.get("NodeRepairConfigOverrides")):
            condition = known_text(override.get("NodeMonitoringCondition"))
            if condition is not None and condition not in _CONDITIONS:
                # Invented names such as GpuReady resemble Ready and StorageReady.
                hint = did_you_mean(condition, _CONDITIONS, closeness=0.85)
                text = f"node repair override for condition {condition} never applies: no node has this condition{hint}"
                yield Problem.from_subject(pool, text)


def _mode(cluster: Cluster) -> str | None:
    mode = setting(cluster, "AccessConfig", "AuthenticationMode")
    return "CONFIG_MAP" if mode is None else known_text(mode)


def _entries(cluster: Cluster, role: Resource) -> list[Resource] | None:
    """Return the access entries of a role; ``None`` if one of the cluster's entries may be for any role."""
    found = cluster_resources(cluster, _ENTRY)
    if any(referred(each.properties.get("PrincipalArn"), cluster.resources) is None for each in found):
        return None
    return [each for each in found if refers(each.properties.get("PrincipalArn"), role)]


def _map(cluster: Cluster) -> Object | None:
    return next((each for each in cluster.objects_of_kind("ConfigMap") if each.name == "aws-auth"), None)


def _mentions(mapped: Object | None, role: Resource) -> bool:
    name = known_text(role.properties.get("RoleName"))
    text = str(mapped.content) if mapped else ""
    return f"{{{role.key}." in text or bool(name and f"/{name}" in text)


def _is_known_to_eks(cluster: Cluster, role: Resource) -> bool:
    """Whether a managed group has the role too: EKS grants access to the roles of its managed groups."""
    managed = (each for each in cluster.pools if each.kind == "managed")
    return any(refers(each.properties.get("NodeRole"), role) for each in managed)


@rule("GPU070", "error", source=_ACCESS)
def self_managed_role_unauthorized(case: Case) -> Iterator[Problem]:
    """Role of self-managed nodes has no access to the cluster.

    The API server rejects kubelet as Unauthorized. Instances run and cost money, but no node appears.

    Fix: Add an AWS::EKS::AccessEntry of type EC2_LINUX for the role of the nodes.
    """
    cluster = case.cluster
    mode, mapped = _mode(cluster), _map(cluster)
    for pool in case.gpu_pools:
        role = node_role(pool, cluster.resources) if pool.kind == "self-managed" and cluster.whole else None
        if role is None or mode is None or _is_known_to_eks(cluster, role):
            continue
        entries = _entries(cluster, role)
        if entries is None or (mode != "CONFIG_MAP" and any(_admits_nodes(each) for each in entries)):
            continue
        if mode != "API" and _mentions(mapped, role):
            continue
        wrong = "has no access entry"
        if entries:
            wrong = f"has an access entry of type {_type(entries[0])} instead of EC2_LINUX"
        reason = wrong if mode == "API" else f"{wrong}, and aws-auth doesn't map it"
        fix = ""
        if mode == "CONFIG_MAP":
            fix = "Map the role in ConfigMap kube-system/aws-auth with groups system:bootstrappers and system:nodes."
        elif entries:
            fix = wrong_type_fix(entries[0], "EC2_LINUX")
        # A user may write aws-auth after the deployment.
        yield Problem.from_subject(pool, f"its node role {role.path} {reason}", fix=fix, unknown=mode != "API")


def _type(entry: Resource) -> str:
    return str(entry.properties.get("Type") or "STANDARD")


def _admits_nodes(entry: Resource) -> bool:
    kind = entry.properties.get("Type")
    return isinstance(kind, Unknown) or kind in ("EC2_LINUX", "EC2")


@rule(
    "GPU071", "error", source="https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAccessConfigRequest.html"
)
def access_entry_on_a_cluster_that_reads_only_aws_auth(case: Case) -> Iterator[Problem]:
    """Cluster reads only aws-auth, so it rejects access entries.

    EKS rejects the entry, and the deployment fails. A cluster without AccessConfig has mode CONFIG_MAP.

    Fix: Set AccessConfig.AuthenticationMode of the cluster to API or API_AND_CONFIG_MAP.
    """
    cluster = case.cluster
    if not cluster.whole or _mode(cluster) != "CONFIG_MAP":
        return
    for each in cluster_resources(cluster, _ENTRY):
        message = f"access entry {each.path}: EKS rejects it, because the cluster's authentication mode is CONFIG_MAP"
        yield Problem(each, message)


@rule("GPU072", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/auth-configmap.html")
def role_with_a_path_in_aws_auth(case: Case) -> Iterator[Problem]:
    """aws-auth maps a role that has a path.

    The authenticator compares roles without their path, so the nodes have no access.

    Fix: Give the role the path /, or use an access entry instead of aws-auth.
    """
    cluster = case.cluster
    mapped = _map(cluster)
    for pool in case.gpu_pools:
        role = node_role(pool, cluster.resources)
        path = known_text(role.properties.get("Path")) if role else None
        if role and path not in (None, "/") and _mentions(mapped, role) and _mode(cluster) != "API":
            message = (
                f"aws-auth maps its role {role.path} with path {path}, but the authenticator compares roles without "
                "path, so its nodes have no access"
            )
            yield Problem.from_subject(pool, message, unknown=bool(_entries(cluster, role)))


@rule("GPU073", "error", source=_ROLE)
def role_of_the_nodes_lacks_a_policy(case: Case) -> Iterator[Problem]:
    """Role of the nodes or of the network plugin lacks a policy.

    Nodes don't join, get no addresses for pods, or can't pull images.

    Fix: Attach the policies to the role.
    """
    cluster = case.cluster
    for pool in case.gpu_pools:
        role = node_role(pool, cluster.resources)
        names, actions = (policy_names(role), own_actions(role, cluster.resources)) if role else (None, None)
        if role is None or names is None or actions is None or any(each in _ANYTHING for each in names):
            continue
        lacking = [name for name, prefixes in _needed(cluster, pool, names) if not _allow(actions, prefixes)]
        if lacking:
            policies = " and ".join(lacking)
            effects = " and ".join(_EFFECTS.get(each, "don't join the cluster") for each in lacking)
            text = f"its node role {role.path} lacks {policies}, so its nodes {effects}"
            yield Problem.from_subject(pool, text, fix=f"Attach {policies} to role {role.path}.")
    plugin = _powerless_network_role(cluster)
    for pool in case.gpu_pools if plugin else ():
        if plugin and pool.kind != "auto-mode":
            calls = " and ".join(_assigning(cluster))
            text = f"its pods get no addresses: role {plugin.path} of the network plugin doesn't allow {calls}"
            ipv6 = _ASSIGNS["ipv6"] in calls
            fix = f"Allow {calls} in a policy of role {plugin.path}."
            fix = fix if ipv6 else f"Attach {_CNI_POLICY} to role {plugin.path}."
            yield Problem.from_subject(pool, text, fix=fix)


def _allow(actions: list[str], prefixes: tuple[str, ...]) -> bool:
    return any(each == "*" or each.lower().startswith(prefixes) for each in actions)


def _needed(cluster: Cluster, pool: Pool, names: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the policies that a role lacks, each with prefixes of equivalent actions in other policies."""
    auto = pool.kind == "auto-mode"
    worker = "AmazonEKSWorkerNodeMinimalPolicy" if auto else "AmazonEKSWorkerNodePolicy"
    by_id = pool.user_data.has_feature_gate("InstanceIdNodeName")
    if worker not in names and "AmazonEKSWorkerNodePolicy" not in names and not by_id:
        yield worker, ("ec2:*", "ec2:describe", "eks-auth:")
    if not any(each in names for each in _PULL):
        yield "AmazonEC2ContainerRegistryPullOnly", ("ecr:",)
    if not auto and _CNI_POLICY not in names and _network_needs_role(cluster):
        yield _CNI_POLICY, ("ec2:*", "ec2:assign")


def _network_needs_role(cluster: Cluster) -> bool:
    """Whether the network plugin certainly has no own role."""
    if (
        not cluster.whole
        or cluster.unknown_software
        or setting(cluster, "KubernetesNetworkConfig", "IpFamily") == "ipv6"
    ):
        return False
    addon, linked = cluster.addon(VPC_CNI), cluster_resources(cluster, "AWS::EKS::PodIdentityAssociation")
    own = addon.resource.properties if addon else {}
    return not (
        own.get("ServiceAccountRoleArn")
        or own.get("PodIdentityAssociations")
        or any(each.properties.get("ServiceAccount") == AWS_NODE for each in linked)
        or any(each.name == AWS_NODE for each in cluster.objects_of_kind("ServiceAccount", "DaemonSet"))
        or any(cluster.chart(each) for each in NETWORKS)
    )


def _powerless_network_role(cluster: Cluster) -> Resource | None:
    """Return the network plugin's own role if it certainly doesn't allow the plugin to assign addresses."""
    addon = cluster.addon(VPC_CNI)
    if addon is None or any(cluster.chart(each) for each in NETWORKS):
        return None
    own, linked = addon.resource.properties, cluster_resources(cluster, "AWS::EKS::PodIdentityAssociation")
    given = [*mappings(own.get("PodIdentityAssociations")), *(each.properties for each in linked)]
    named = [each.get("RoleArn") for each in given if each.get("ServiceAccount") == AWS_NODE]
    named += [own["ServiceAccountRoleArn"]] if "ServiceAccountRoleArn" in own else []
    roles = [resolve_role(each, cluster.resources) for each in named]
    powerless = [each for each in roles if each and all(_denies(each, one, cluster) for one in _assigning(cluster))]
    return powerless[0] if powerless and len(powerless) == len(roles) else None


def _assigning(cluster: Cluster) -> list[str]:
    """Return the action by which the network plugin assigns addresses; both actions if the IP family isn't known."""
    family = setting(cluster, "KubernetesNetworkConfig", "IpFamily") or "ipv4"
    return [_ASSIGNS[family]] if family in _ASSIGNS else [*_ASSIGNS.values()]


def _denies(role: Resource, action: str, cluster: Cluster) -> bool:
    return allows(role, action, cluster.resources) is Answer.NO


@rule("GPU074", "error", source=_ROLE)
def role_of_the_nodes_cannot_be_assumed_by_ec2(case: Case) -> Iterator[Problem]:
    """Node role doesn't trust EC2.

    The instances get no credentials, and no node appears.

    Fix: Trust ec2.amazonaws.com in AssumeRolePolicyDocument of the role.
    """
    for pool in case.gpu_pools:
        role = node_role(pool, case.cluster.resources)
        trusted = trusted_services(role) if role else None
        if role and trusted is not None and not any(each.startswith(("ec2.", "${")) for each in trusted):
            names = ", ".join(trusted) or "no service"
            text = f"its node role {role.path} trusts {names} instead of ec2.amazonaws.com, so its nodes can't join"
            yield Problem.from_subject(pool, text)


@rule("GPU329", "error", source=_ROLE)
def self_managed_nodes_without_an_instance_profile(case: Case) -> Iterator[Problem]:
    """Launch template of self-managed nodes has no instance profile.

    Without a role, an instance has no credentials to join. It runs and costs money, but no node appears.

    Fix: Set an instance profile with the node role in IamInstanceProfile of the launch template.
    """
    for pool in case.cluster.pools:
        data = pool.launch_resource.properties.get("LaunchTemplateData") if pool.launch_resource else None
        if pool.kind == "self-managed" and isinstance(data, dict) and data.get("IamInstanceProfile") is None:
            yield Problem.from_subject(
                pool, "its launch template sets no instance profile, so its nodes have no role and can't join"
            )


@rule("GPU094", "error", source="https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/examples/")
def nodes_without_an_access_entry_of_type_ec2(case: Case) -> Iterator[Problem]:
    """Nodes named by instance id have no access entry of type EC2.

    An entry of type EC2_LINUX accepts a node only by its private DNS name. kubelet can't register under another name.

    Fix: Remove feature gate InstanceIdNodeName from the NodeConfig, or use a separate node role whose access entry has
    type EC2 (a role has only one entry).
    """
    cluster = case.cluster
    for pool in case.gpu_pools:
        by_id = pool.user_data.has_feature_gate("InstanceIdNodeName")
        role = node_role(pool, cluster.resources) if by_id else None
        entries = _entries(cluster, role) if role else None
        if entries is None or any(
            _type(each) in ("EC2",) or isinstance(each.properties.get("Type"), Unknown) for each in entries
        ):
            continue
        if "SessionName" not in str(_map(cluster)):
            message = (
                f"its nodes register by instance id, but {_entry_of_other_type(role, entries)}, so they can't join"
            )
            yield Problem.from_subject(pool, message, unknown=not cluster.whole, doubt=cluster.doubt)


def _entry_of_other_type(role: Resource | None, entries: list[Resource]) -> str:
    name = f"role {role.path}" if role else "its role"
    if not entries:
        return f"{name} has no access entry of type EC2"
    only = ", which accepts only private DNS names" if _type(entries[0]) == "EC2_LINUX" else " instead of EC2"
    return f"the access entry of {name} has type {_type(entries[0])}{only}"


@rule("GPU461", "error", source="eksctl-io/eksctl 99984ad pkg/apis/eksctl.io/v1alpha5/validation.go", presumed=True)
def value_that_eksctl_rejects(case: Case) -> Iterator[Problem]:
    """ClusterConfig has a value that eksctl rejects.

    eksctl validates the whole config first and creates nothing. It detects errors in user data only after it created
    the cluster, and then omits the node group.

    Fix: Correct the value as the message states.
    """
    cluster = case.cluster
    # The input may contain configs of several clusters.
    for config in (each for each in configs(list(cluster.objects)) if each.name == cluster.name):
        # Imported here, because few inputs have a ClusterConfig.
        from gpu_preflight.schema.eksctl_rejections import rejections

        for found in rejections(config):
            text = f"ClusterConfig {config.name}: {found.text}"
            yield Problem(_subject(found, config, cluster), text, unknown=found.unknown)


def _subject(found: Rejection, config: Object, cluster: Cluster) -> Subject:
    key = f"{config.name}/{found.group}"
    pool = next((each for each in cluster.pools if each.resource is not None and each.resource.key == key), None)
    return pool or cluster_or_config(config, cluster.resources)
