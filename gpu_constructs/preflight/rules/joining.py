"""Nodes that the cluster does not let in, or whose role lacks what they need to join."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_constructs.preflight.cloudformation import Resource
from gpu_constructs.preflight.model import Cluster, Object, Origin, Pool
from gpu_constructs.preflight.node_roles import node_role, own_actions, policy_names, trusted_services
from gpu_constructs.preflight.references import of_cluster, referred, refers, setting
from gpu_constructs.preflight.rules.rule import OutOfReach, Problem, Rule
from gpu_constructs.preflight.unknown import Unknown, is_true, known_text, mapping

_ENTRY = "AWS::EKS::AccessEntry"
_ACCESS = "https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html"
_ROLE = "https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html"
_ANYTHING = ("AdministratorAccess", "PowerUserAccess")
_PULL = tuple(f"AmazonEC2ContainerRegistry{each}" for each in ("PullOnly", "ReadOnly", "PowerUser", "FullAccess"))
_NETWORK_CHARTS = ("aws-vpc-cni", "cilium", "tigera-operator", "calico")


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


def _kept_out(cluster: Cluster) -> Iterator[Problem]:
    mode, mapped = _mode(cluster), _map(cluster)
    for pool in cluster.gpu_pools:
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
        yield Problem(pool.origin, f"pool {pool.name}: role {role.path} {told}", unknown=mode != "API")


def _type(entry: Resource) -> str:
    return str(entry.properties.get("Type") or "STANDARD")


def _admits_nodes(entry: Resource) -> bool:
    kind = entry.properties.get("Type")
    return isinstance(kind, Unknown) or kind in ("EC2_LINUX", "EC2")


def _entry_without_api(cluster: Cluster) -> Iterator[Problem]:
    if not cluster.whole or _mode(cluster) != "CONFIG_MAP":
        return
    for each in of_cluster(cluster, _ENTRY):
        message = f"access entry {each.path}: the cluster's authentication mode is CONFIG_MAP, which has no entries"
        yield Problem(Origin(each.file, each.path, each.key), message)


def _path(cluster: Cluster) -> Iterator[Problem]:
    mapped = _map(cluster)
    for pool in cluster.gpu_pools:
        role = node_role(pool, cluster.resources)
        path = known_text(role.properties.get("Path")) if role else None
        if role and path not in (None, "/") and _mentions(mapped, role) and _mode(cluster) != "API":
            message = f"pool {pool.name}: aws-auth maps role {role.path}, whose path is {path}"
            yield Problem(pool.origin, message, unknown=bool(_entries(cluster, role)))


def _missing_policies(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.gpu_pools:
        role = node_role(pool, cluster.resources)
        names, actions = (policy_names(role), own_actions(role, cluster.resources)) if role else (None, None)
        if role is None or names is None or actions is None or any(each in _ANYTHING for each in names):
            continue
        lacking = [name for name, prefixes in _needed(cluster, pool, names) if not _allow(actions, prefixes)]
        if lacking:
            yield Problem(pool.origin, f"pool {pool.name}: role {role.path} lacks {', '.join(lacking)}")


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
    if not auto and "AmazonEKS_CNI_Policy" not in names and _network_needs_role(cluster):
        yield "AmazonEKS_CNI_Policy", ("ec2:*", "ec2:assign")


def _network_needs_role(cluster: Cluster) -> bool:
    """Whether the network plugin has certainly no role of its own."""
    if not cluster.whole or cluster.opaque or setting(cluster, "KubernetesNetworkConfig", "IpFamily") == "ipv6":
        return False
    addon, linked = cluster.addon("vpc-cni"), of_cluster(cluster, "AWS::EKS::PodIdentityAssociation")
    own = addon.resource.properties if addon else {}
    return not (
        own.get("ServiceAccountRoleArn")
        or own.get("PodIdentityAssociations")
        or any(each.properties.get("ServiceAccount") == "aws-node" for each in linked)
        or any(each.name == "aws-node" for each in cluster.of_kind("ServiceAccount", "DaemonSet"))
        or any(cluster.chart(each) for each in _NETWORK_CHARTS)
    )


def _not_for_ec2(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.gpu_pools:
        role = node_role(pool, cluster.resources)
        trusted = trusted_services(role) if role else None
        if role and trusted is not None and not any(each.startswith(("ec2.", "${")) for each in trusted):
            names = ", ".join(trusted) or "no service"
            yield Problem(pool.origin, f"pool {pool.name}: role {role.path} trusts {names}, not ec2.amazonaws.com")


def _named_by_instance(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.gpu_pools:
        gates = mapping(pool.user_data.node_config.get("featureGates"))
        role = node_role(pool, cluster.resources) if is_true(gates.get("InstanceIdNodeName")) else None
        entries = _entries(cluster, role) if role else None
        if entries is None or any(
            _type(each) in ("EC2",) or isinstance(each.properties.get("Type"), Unknown) for each in entries
        ):
            continue
        if "SessionName" not in str(_map(cluster)):
            message = (
                f"pool {pool.name}: its nodes are named by instance id, and its role has no access entry of type EC2"
            )
            yield Problem(pool.origin, message, unknown=not cluster.whole)


RULES = (
    Rule(
        id="GPU070",
        severity="error",
        title="Role of self-managed nodes is not let in",
        why="Kubelet is refused as Unauthorized; instances run and cost money, and no node appears.",
        source=_ACCESS,
        fix="Add an AWS::EKS::AccessEntry of type EC2_LINUX for the role of the nodes.",
        causes=("C1",),
        check=_kept_out,
    ),
    Rule(
        id="GPU071",
        severity="error",
        title="Access entry on a cluster that reads only aws-auth",
        why="EKS refuses the entry, and the deployment fails; without AccessConfig a cluster is in mode CONFIG_MAP.",
        source="https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAccessConfigRequest.html",
        fix="Set AccessConfig.AuthenticationMode of the cluster to API or API_AND_CONFIG_MAP.",
        causes=("C1",),
        check=_entry_without_api,
    ),
    Rule(
        id="GPU072",
        severity="error",
        title="Role with a path in aws-auth",
        why="The authenticator compares roles without their path, so the nodes are not let in.",
        source="https://docs.aws.amazon.com/eks/latest/userguide/auth-configmap.html",
        fix="Give the role the path /, or use an access entry instead of aws-auth.",
        causes=("C3",),
        check=_path,
    ),
    Rule(
        id="GPU073",
        severity="error",
        title="Role of the nodes lacks a policy",
        why="Nodes do not join, get no addresses for pods, or cannot pull images.",
        source=_ROLE,
        fix="Attach the policies to the role of the nodes; the one of the network plugin may be on a role of its own.",
        causes=("C4",),
        check=_missing_policies,
    ),
    Rule(
        id="GPU074",
        severity="error",
        title="Role of the nodes cannot be assumed by EC2",
        why="The instances get no credentials, and no node appears.",
        source=_ROLE,
        fix="Trust ec2.amazonaws.com in AssumeRolePolicyDocument of the role.",
        causes=("C5",),
        check=_not_for_ec2,
    ),
    Rule(
        id="GPU094",
        severity="error",
        title="Nodes named by instance id without an access entry of type EC2",
        why="An entry of type EC2_LINUX admits a node by its private DNS name only; kubelet may not register another.",
        source="https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/examples/",
        fix="Give the pool a role of its own with an access entry of type EC2, or leave InstanceIdNodeName off.",
        causes=("C23",),
        check=_named_by_instance,
    ),
)
OUT_OF_REACH = (
    OutOfReach(
        "C2",
        "The access entry or the aws-auth row of a managed node group was removed",
        "EKS writes both itself; that somebody took them away shows in the running cluster only.",
    ),
)
