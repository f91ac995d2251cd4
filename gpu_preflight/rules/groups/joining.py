"""Nodes that the cluster does not let in, or whose role lacks what they need to join."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.charts import AWS_NODE, NETWORKS, VPC_CNI
from gpu_preflight.case import Case
from gpu_preflight.cluster.iam import allows, role_of
from gpu_preflight.cluster.node_roles import node_role, own_actions, policy_names, trusted_services
from gpu_preflight.cluster.references import of_cluster, referred, refers, setting
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, is_true, known_text, mapping, mappings
from gpu_preflight.rules.rule import Problem, rule

_ENTRY = "AWS::EKS::AccessEntry"
_ACCESS = "https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html"
_ROLE = "https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html"
_ANYTHING = ("AdministratorAccess", "PowerUserAccess")
_CNI_POLICY = "AmazonEKS_CNI_Policy"
# What the network plugin calls for the addresses of pods.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/cni-iam-role.html (2026-11-24)
_ASSIGNS = {"ipv4": "ec2:AssignPrivateIpAddresses", "ipv6": "ec2:AssignIpv6Addresses"}
_PULL = tuple(f"AmazonEC2ContainerRegistry{each}" for each in ("PullOnly", "ReadOnly", "PowerUser", "FullAccess"))


def _mode(cluster: Cluster) -> str | None:
    mode = setting(cluster, "AccessConfig", "AuthenticationMode")
    return "CONFIG_MAP" if mode is None else known_text(mode)


def _entries(cluster: Cluster, role: Resource) -> list[Resource] | None:
    """Return the access entries of a role, ``None`` when one of the cluster's may be for any role."""
    found = of_cluster(cluster, _ENTRY)
    if any(referred(each.properties.get("PrincipalArn"), cluster.resources) is None for each in found):
        return None
    return [each for each in found if refers(each.properties.get("PrincipalArn"), role)]


def _map(cluster: Cluster) -> Object | None:
    return next((each for each in cluster.of_kind("ConfigMap") if each.name == "aws-auth"), None)


def _mentions(mapped: Object | None, role: Resource) -> bool:
    name = known_text(role.properties.get("RoleName"))
    text = str(mapped.content) if mapped else ""
    return f"{{{role.key}." in text or bool(name and f"/{name}" in text)


def _is_known_to_eks(cluster: Cluster, role: Resource) -> bool:
    """Whether a managed group has the role too: EKS lets in the role of each of its groups."""
    managed = (each for each in cluster.pools if each.kind == "managed")
    return any(refers(each.properties.get("NodeRole"), role) for each in managed)


@rule("GPU070", "error", source=_ACCESS)
def role_of_self_managed_nodes_is_not_let_in(case: Case) -> Iterator[Problem]:
    """Role of self-managed nodes is not let in.

    Kubelet is refused as Unauthorized; instances run and cost money, and no node appears.

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
        wrong = f"has an access entry of type {_type(entries[0])}" if entries else "has no access entry"
        told = wrong if mode == "API" else f"{wrong}, and aws-auth does not map it"
        # Whoever writes aws-auth may do so after the deployment.
        yield Problem.of(pool, f"role {role.path} {told}", unknown=mode != "API")


def _type(entry: Resource) -> str:
    return str(entry.properties.get("Type") or "STANDARD")


def _admits_nodes(entry: Resource) -> bool:
    kind = entry.properties.get("Type")
    return isinstance(kind, Unknown) or kind in ("EC2_LINUX", "EC2")


@rule(
    "GPU071", "error", source="https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAccessConfigRequest.html"
)
def access_entry_on_a_cluster_that_reads_only_aws_auth(case: Case) -> Iterator[Problem]:
    """Access entry on a cluster that reads only aws-auth.

    EKS refuses the entry, and the deployment fails; without AccessConfig a cluster is in mode CONFIG_MAP.

    Fix: Set AccessConfig.AuthenticationMode of the cluster to API or API_AND_CONFIG_MAP.
    """
    cluster = case.cluster
    if not cluster.whole or _mode(cluster) != "CONFIG_MAP":
        return
    for each in of_cluster(cluster, _ENTRY):
        message = f"access entry {each.path}: the cluster's authentication mode is CONFIG_MAP, which has no entries"
        yield Problem(each, message)


@rule("GPU072", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/auth-configmap.html")
def role_with_a_path_in_aws_auth(case: Case) -> Iterator[Problem]:
    """Role with a path in aws-auth.

    The authenticator compares roles without their path, so the nodes are not let in.

    Fix: Give the role the path /, or use an access entry instead of aws-auth.
    """
    cluster = case.cluster
    mapped = _map(cluster)
    for pool in case.gpu_pools:
        role = node_role(pool, cluster.resources)
        path = known_text(role.properties.get("Path")) if role else None
        if role and path not in (None, "/") and _mentions(mapped, role) and _mode(cluster) != "API":
            message = f"aws-auth maps role {role.path}, whose path is {path}"
            yield Problem.of(pool, message, unknown=bool(_entries(cluster, role)))


@rule("GPU073", "error", source=_ROLE)
def role_of_the_nodes_lacks_a_policy(case: Case) -> Iterator[Problem]:
    """Role of the nodes lacks a policy.

    Nodes do not join, get no addresses for pods, or cannot pull images.

    Fix: Attach the policies to the role of the nodes; the one of the network plugin may be on a role of its own.
    """
    cluster = case.cluster
    for pool in case.gpu_pools:
        role = node_role(pool, cluster.resources)
        names, actions = (policy_names(role), own_actions(role, cluster.resources)) if role else (None, None)
        if role is None or names is None or actions is None or any(each in _ANYTHING for each in names):
            continue
        lacking = [name for name, prefixes in _needed(cluster, pool, names) if not _allow(actions, prefixes)]
        if lacking:
            yield Problem.of(pool, f"role {role.path} lacks {', '.join(lacking)}")
    plugin = _powerless_network_role(cluster)
    for pool in case.gpu_pools if plugin else ():
        if plugin and pool.kind != "auto-mode":
            calls = " and ".join(_assigning(cluster))
            text = f"its pods get no addresses: role {plugin.path} of the network plugin does not allow {calls}"
            yield Problem.of(pool, text)


def _allow(actions: list[str], prefixes: tuple[str, ...]) -> bool:
    return any(each == "*" or each.lower().startswith(prefixes) for each in actions)


def _needed(cluster: Cluster, pool: Pool, names: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the policies that a role lacks, each with actions of a policy of its own that make up for it."""
    auto = pool.kind == "auto-mode"
    worker = "AmazonEKSWorkerNodeMinimalPolicy" if auto else "AmazonEKSWorkerNodePolicy"
    by_id = is_true(mapping(pool.user_data.node_config.get("featureGates")).get("InstanceIdNodeName"))
    if worker not in names and "AmazonEKSWorkerNodePolicy" not in names and not by_id:
        yield worker, ("ec2:*", "ec2:describe", "eks-auth:")
    if not any(each in names for each in _PULL):
        yield "AmazonEC2ContainerRegistryPullOnly", ("ecr:",)
    if not auto and _CNI_POLICY not in names and _network_needs_role(cluster):
        yield _CNI_POLICY, ("ec2:*", "ec2:assign")


def _network_needs_role(cluster: Cluster) -> bool:
    """Whether the network plugin has certainly no role of its own."""
    if (
        not cluster.whole
        or cluster.unknown_software
        or setting(cluster, "KubernetesNetworkConfig", "IpFamily") == "ipv6"
    ):
        return False
    addon, linked = cluster.addon(VPC_CNI), of_cluster(cluster, "AWS::EKS::PodIdentityAssociation")
    own = addon.resource.properties if addon else {}
    return not (
        own.get("ServiceAccountRoleArn")
        or own.get("PodIdentityAssociations")
        or any(each.properties.get("ServiceAccount") == AWS_NODE for each in linked)
        or any(each.name == AWS_NODE for each in cluster.of_kind("ServiceAccount", "DaemonSet"))
        or any(cluster.chart(each) for each in NETWORKS)
    )


def _powerless_network_role(cluster: Cluster) -> Resource | None:
    """Return the network plugin's own role if it certainly lets the plugin assign no address."""
    addon = cluster.addon(VPC_CNI)
    if addon is None or any(cluster.chart(each) for each in NETWORKS):
        return None
    own, linked = addon.resource.properties, of_cluster(cluster, "AWS::EKS::PodIdentityAssociation")
    given = [*mappings(own.get("PodIdentityAssociations")), *(each.properties for each in linked)]
    named = [each.get("RoleArn") for each in given if each.get("ServiceAccount") == AWS_NODE]
    named += [own["ServiceAccountRoleArn"]] if "ServiceAccountRoleArn" in own else []
    roles = [role_of(each, cluster.resources) for each in named]
    powerless = [each for each in roles if each and all(_denies(each, one, cluster) for one in _assigning(cluster))]
    return powerless[0] if powerless and len(powerless) == len(roles) else None


def _assigning(cluster: Cluster) -> list[str]:
    """Return the action by which the network plugin assigns addresses, both where the family isn't known."""
    family = setting(cluster, "KubernetesNetworkConfig", "IpFamily") or "ipv4"
    return [_ASSIGNS[family]] if family in _ASSIGNS else [*_ASSIGNS.values()]


def _denies(role: Resource, action: str, cluster: Cluster) -> bool:
    return allows(role, action, cluster.resources) is Answer.NO


@rule("GPU074", "error", source=_ROLE)
def role_of_the_nodes_cannot_be_assumed_by_ec2(case: Case) -> Iterator[Problem]:
    """Role of the nodes cannot be assumed by EC2.

    The instances get no credentials, and no node appears.

    Fix: Trust ec2.amazonaws.com in AssumeRolePolicyDocument of the role.
    """
    for pool in case.gpu_pools:
        role = node_role(pool, case.cluster.resources)
        trusted = trusted_services(role) if role else None
        if role and trusted is not None and not any(each.startswith(("ec2.", "${")) for each in trusted):
            names = ", ".join(trusted) or "no service"
            yield Problem.of(pool, f"role {role.path} trusts {names}, not ec2.amazonaws.com")


@rule("GPU329", "error", source=_ROLE)
def self_managed_nodes_without_an_instance_profile(case: Case) -> Iterator[Problem]:
    """Self-managed nodes without an instance profile.

    Without a role an instance has no credentials to join with; it runs and costs money, and no node appears.

    Fix: Name an instance profile with the role of the nodes in IamInstanceProfile of the launch template.
    """
    for pool in case.cluster.pools:
        data = pool.launch_resource.properties.get("LaunchTemplateData") if pool.launch_resource else None
        if pool.kind == "self-managed" and isinstance(data, dict) and data.get("IamInstanceProfile") is None:
            yield Problem.of(pool, "its launch template names no instance profile, so that its nodes have no role")


@rule("GPU094", "error", source="https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/examples/")
def nodes_without_an_access_entry_of_type_ec2(case: Case) -> Iterator[Problem]:
    """Nodes named by instance id without an access entry of type EC2.

    An entry of type EC2_LINUX admits a node by its private DNS name only; kubelet may not register another.

    Fix: Give the pool a role of its own with an access entry of type EC2, or leave InstanceIdNodeName off.
    """
    cluster = case.cluster
    for pool in case.gpu_pools:
        gates = mapping(pool.user_data.node_config.get("featureGates"))
        role = node_role(pool, cluster.resources) if is_true(gates.get("InstanceIdNodeName")) else None
        entries = _entries(cluster, role) if role else None
        if entries is None or any(
            _type(each) in ("EC2",) or isinstance(each.properties.get("Type"), Unknown) for each in entries
        ):
            continue
        if "SessionName" not in str(_map(cluster)):
            message = "its nodes are named by instance id, and its role has no access entry of type EC2"
            yield Problem.of(pool, message, unknown=not cluster.whole)
