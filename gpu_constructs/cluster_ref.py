"""What a construct needs to know of a cluster that somebody else may own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from gpu_constructs.versions import KUBERNETES, kubernetes_minor

# Type checkers do not see that eks.Cluster is an eks.ICluster (aws-cdk#19789).
AnyCluster = eks.ICluster | eks.Cluster

_FOUNDATION_ID = "Foundation"


def as_icluster(cluster: AnyCluster) -> eks.ICluster:
    """Return the cluster as the interface that L2 constructs ask for."""
    return cast("eks.ICluster", cluster)


def refuse_unless_cluster(who: str, cluster: object) -> None:
    """Refuse what is no cluster of ``aws_eks_v2``.

    Raises:
        TypeError: ``cluster`` is something else, for example a cluster of ``aws_eks``.
    """
    module = type(cluster).__module__
    if not hasattr(cluster, "cluster_name") or module.startswith("aws_cdk.aws_eks."):
        raise TypeError(
            f"{who}: cluster must be a cluster of aws_cdk.aws_eks_v2, got {type(cluster).__name__}; import others "
            "with aws_eks_v2.Cluster.from_cluster_attributes"
        )


def refuse_unless_role(who: str, argument: str, role: object) -> None:
    """Refuse what is neither a role nor absent.

    Raises:
        TypeError: ``role`` is something else, for example an ARN.
    """
    if role is not None and not hasattr(role, "role_arn"):
        raise TypeError(f"{who}: {argument} must be an iam.IRole, got {role!r}; import one with iam.Role.from_role_arn")


def refuse_unless_kubectl(who: str, cluster: AnyCluster) -> None:
    """Refuse a cluster without a kubectl provider, through which manifests and charts are applied.

    Raises:
        ValueError: The cluster has none.
    """
    if as_icluster(cluster).kubectl_provider is None:
        raise ValueError(
            f"{who}: cluster must have a kubectl provider, got {cluster.node.path!r} without one; give it "
            "kubectl_provider_options, or kubectl_provider when importing it"
        )


def shared_scope(stack: cdk.Stack, cluster: AnyCluster) -> Construct:
    """Return the construct of a stack that holds what exists once for a cluster, such as its node role.

    An imported cluster is no construct that could hold children itself.
    """
    id = f"{cluster.node.path.removeprefix(stack.node.path).strip('/').replace('/', '-')}-shared"
    found = stack.node.try_find_child(id)
    return cast("Construct", found) if found is not None else Construct(cast("Construct", stack), id)


class _Foundation(Construct):
    """Marks what must run in a cluster before controllers do."""

    def __init__(self, scope: Construct, *, of: Construct) -> None:
        super().__init__(scope, _FOUNDATION_ID)
        self.of = of


def declare_foundation(cluster: AnyCluster, foundation: Construct) -> None:
    """State what a controller in the cluster cannot run without: nodes, network, DNS, credentials."""
    _Foundation(shared_scope(cdk.Stack.of(cluster), cluster), of=foundation)


def foundation_of(cluster: AnyCluster) -> list[Construct]:
    """Return what a controller must be created after and deleted before; empty for a cluster made elsewhere."""
    found = shared_scope(cdk.Stack.of(cluster), cluster).node.try_find_child(_FOUNDATION_ID)
    return [cast("_Foundation", found).of] if found is not None else []


def name_of(cluster: AnyCluster) -> str:
    """Return the cluster's name: a literal where the template states one, else a token."""
    resource = cluster.node.default_child
    stated = resource.name if isinstance(resource, eks.CfnCluster) else None
    return stated if stated and not cdk.Token.is_unresolved(stated) else cluster.cluster_name


def kubernetes_version_of(cluster: AnyCluster, given: str | None, *, who: str) -> str:
    """Return the cluster's Kubernetes minor version, from the cluster or as given for an imported one.

    Raises:
        ValueError: It is not known, is none this library supports, or differs from the cluster's own.
    """
    resource = cluster.node.default_child
    stated = resource.version if isinstance(resource, eks.CfnCluster) else None
    if stated is None and given is None:
        raise ValueError(
            f"{who}: kubernetes_version must be given for an imported cluster, got None; one of {', '.join(KUBERNETES)}"
        )
    if stated and given and stated != given:
        raise ValueError(f"{who}: kubernetes_version must be the cluster's own {stated!r}, got {given!r}; leave it out")
    version = stated or given or ""
    kubernetes_minor(version, who=who)
    return version


def private_subnets_of(cluster: AnyCluster, given: Sequence[ec2.ISubnet] | None, *, who: str) -> list[ec2.ISubnet]:
    """Return the subnets for nodes: as given, or the private ones of the cluster's VPC.

    Raises:
        TypeError: ``given`` is no list of subnets.
        ValueError: There is no private subnet, or the cluster was imported without its VPC.
    """
    if given is not None:
        if not isinstance(given, (list, tuple)) or not all(hasattr(each, "subnet_id") for each in given):
            raise TypeError(f"{who}: subnets must be a list of ec2.ISubnet, got {given!r}")
        if not given:
            raise ValueError(f"{who}: subnets must name at least one subnet, got none")
        return list(given)
    try:
        found = cluster.vpc.private_subnets
    except (jsii.errors.JSIIError, RuntimeError) as error:
        raise ValueError(
            f"{who}: subnets must be given when the cluster was imported without its VPC, got None; "
            "pass vpc to from_cluster_attributes, or subnets here"
        ) from error
    if not found:
        raise ValueError(
            f"{who}: subnets must name private subnets, got a VPC that has none; pass the subnets the nodes may use"
        )
    return found


def string_equals(scope: Construct, id: str, tags: Mapping[str, object]) -> object:
    """Return a ``StringEquals`` block whose keys may contain the cluster's name.

    CloudFormation takes no token as a key, so one that is known only at deployment goes through a `CfnJson`.
    """
    if any(cdk.Token.is_unresolved(key) for key in tags):
        return cdk.CfnJson(scope, id, value=dict(tags))
    return dict(tags)
