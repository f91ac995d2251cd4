"""The way of a person into a cluster: one access entry, whoever lets them in, and for how much.

Source: https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html (2026-11)
"""

from __future__ import annotations

import re

import aws_cdk as cdk
from constructs import Construct

from gpu_constructs.installing import eks_resources
from gpu_constructs.installing.claims import PathOf
from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.logical_ids import set_logical_id
from gpu_facts.named_arguments import named_arguments

_PRINCIPAL = re.compile(r"arn:[\w-]+:iam::\d{12}:(user|role)/[\w+=,.@/-]+", re.ASCII)
# Roles that IAM Identity Center makes for permission sets; a new one has another suffix.
# Source: https://docs.aws.amazon.com/singlesignon/latest/userguide/referencingpermissionsets.html (2026-11)
_OF_IDENTITY_CENTER = "/AWSReservedSSO_"
CLUSTER_ADMIN = "AmazonEKSClusterAdminPolicy"


@named_arguments
class AccessEntry(Construct):
    """What a principal may do in a cluster. EKS takes one entry for each, and in it each policy once.

    Each construct that grants access adds to it. Its logical id depends on cluster and principal alone. So it stays
    when one of several teams leaves the app, and when a viewer becomes an administrator.
    """

    def __init__(self, scope: Construct, id: str, *, cluster: ClusterRef, principal_arn: str) -> None:
        super().__init__(scope, id)
        # Namespaces of each policy; none of one for the whole cluster.
        self._policies: dict[str, list[str]] = {}
        self._groups: list[str] = []
        self._resource = eks_resources.CfnAccessEntry(
            self, "Resource", cluster_name=cluster.name_token, principal_arn=principal_arn, type="STANDARD"
        )
        set_logical_id(self._resource, cluster, "AccessEntry", name_of(principal_arn))

    def let(self, policy: str, *, group: str | None = None, namespace: str | None = None) -> None:
        """Add a policy, for one namespace or the whole cluster, and a group."""
        known = self._policies.get(policy)
        whole = namespace is None or known == []
        self._policies[policy] = [] if whole else [*(known or ()), str(namespace)]
        if group is not None and group not in self._groups:
            self._groups.append(group)
        self._resource.access_policies = [self._associated(*each) for each in self._policies.items()]
        self._resource.kubernetes_groups = list(self._groups) or None

    def _associated(self, policy: str, namespaces: list[str]) -> eks_resources.CfnAccessEntry.AccessPolicyProperty:
        of_entry = eks_resources.CfnAccessEntry
        scope = of_entry.AccessScopeProperty(
            type="namespace" if namespaces else "cluster", namespaces=list(namespaces) or None
        )
        return of_entry.AccessPolicyProperty(policy_arn=policy_arn(self, policy), access_scope=scope)


def policy_arn(scope: Construct, policy: str) -> str:
    """Return the ARN of an access policy of EKS."""
    return f"arn:{cdk.Stack.of(scope).partition}:eks::aws:cluster-access-policy/{policy}"


def access_entry(who: object, argument: str, cluster: ClusterRef, principal_arn: str) -> AccessEntry:
    """Return the access entry of a principal, made once for a cluster, in its stack.

    Raises:
        ValueError: The principal administers the cluster.
    """
    if cluster.holder(administrator(principal_arn)) is not None:
        raise ValueError(
            f"{who}: {argument} must not name who administers the cluster, and may do everything, got "
            f"{principal_arn!r}; leave it out here or of admins"
        )
    shared = cluster.shared(cluster.stack)
    id = f"Access-{name_of(principal_arn)}"
    found = shared.node.try_find_child(id)
    if isinstance(found, AccessEntry):
        return found
    return AccessEntry(shared, id, cluster=cluster, principal_arn=principal_arn)


def administrator(principal_arn: str) -> str:
    """Return what a cluster has one of where a principal administers it."""
    return f"administrator {principal_arn}"


def name_of(principal_arn: str) -> str:
    """Return account, kind and name of a principal, which tell it from others."""
    return principal_arn.partition(":iam::")[2]


def refuse_unless_principals(who: object, argument: str, arns: tuple[str, ...]) -> None:
    """Refuse what names no IAM user or role, or one twice.

    Raises:
        ValueError: It does.
    """
    for arn in arns:
        if not _PRINCIPAL.fullmatch(arn):
            raise ValueError(
                f"{who}: {argument} must be literal ARNs of IAM users or roles, got {arn!r}; 'aws sts "
                "get-caller-identity' shows yours, and of an assumed role the access entry takes the role's ARN"
            )
    if len(set(arns)) < len(arns):
        raise ValueError(f"{who}: {argument} must differ, got {arns!r}; leave one of each")


def warn_of_identity_center(who: Construct, arns: tuple[str, ...]) -> None:
    """Warn of roles that get another name, and so lose their access, without anybody changing the app."""
    for arn in arns:
        if _OF_IDENTITY_CENTER in arn:
            cdk.Annotations.of(who).add_warning_v2(
                f"gpu-constructs:roleOfIdentityCenter:{name_of(arn)}",
                f"{PathOf(who)}: {arn} is a role of IAM Identity Center, which makes one with another suffix when the "
                "permission set is assigned anew; access ends then until the new ARN stands here. A role of your own "
                "that the permission set may assume stays",
            )
