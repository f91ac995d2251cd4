"""Access of people to a cluster: access entries, and RBAC roles with their rules.

Source: https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html (2026-11)

The access policies of EKS don't cover custom resources. RBAC rules in this module cover them.

A rule for a kind that the cluster doesn't have grants nothing, so every team gets the same rules.

Sources: https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html (2026-11), definitions and
ClusterRoles in the charts of Kueue v0.19.2, KAI v0.17.0, JobSet 0.12.0, LeaderWorkerSet 0.10.0, KubeRay 1.7.0, KEDA
2.20.2, Trainer 2.3.0, Karpenter v1.14.1
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import aws_cdk as cdk
from constructs import Construct

from gpu_constructs.installing import eks_resources
from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.delivery import apply_manifests
from gpu_constructs.installing.eks_resources import set_logical_id
from gpu_constructs.installing.registry import PathOf
from gpu_facts.kubernetes import TRAINING_JOBS
from gpu_facts.labels import EKS_DOMAIN, KARPENTER_AWS_DOMAIN, KARPENTER_DOMAIN, KUEUE_DOMAIN
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import words

_PRINCIPAL = re.compile(r"arn:[\w-]+:iam::\d{12}:(user|role)/[\w+=,.@/-]+", re.ASCII)
# IAM Identity Center creates these roles for permission sets. A role that it creates again has another suffix.
# Source: https://docs.aws.amazon.com/singlesignon/latest/userguide/referencingpermissionsets.html (2026-11)
_OF_IDENTITY_CENTER = "/AWSReservedSSO_"
CLUSTER_ADMIN = "AmazonEKSClusterAdminPolicy"
# Rights of a member, with the names of Kubernetes' own user-facing roles.
Right = Literal["view", "edit", "admin"]
# The policy for one namespace.
POLICIES: Mapping[Right, str] = {
    "view": "AmazonEKSViewPolicy",
    "edit": "AmazonEKSEditPolicy",
    "admin": "AmazonEKSAdminPolicy",
}
Rule = dict[str, list[str]]
_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_KAI = "scheduling.run.ai"
# Plurals by API group. Resources that members create:
_MADE: Mapping[str, tuple[str, ...]] = {
    "jobset.x-k8s.io": ("jobsets",),
    "leaderworkerset.x-k8s.io": ("leaderworkersets", "leaderworkersets/scale"),
    "kubeflow.org": tuple(f"{each.lower()}s" for each in TRAINING_JOBS),
    "trainer.kubeflow.org": ("trainjobs", "trainingruntimes"),
    "ray.io": ("rayclusters", "rayjobs", "rayservices"),
    "nvidia.com": ("dynamographdeployments",),
    "resource.k8s.io": ("resourceclaims", "resourceclaimtemplates"),
    "keda.sh": ("scaledjobs", "scaledobjects", "triggerauthentications"),
    "autoscaling.k8s.io": ("verticalpodautoscalers",),
}
# Resources that controllers create for members, or that the cluster's administrators create.
_SEEN: Mapping[str, tuple[str, ...]] = {
    KUEUE_DOMAIN: ("localqueues", "workloads"),
    "visibility.kueue.x-k8s.io": ("localqueues/pendingworkloads",),
    _KAI: ("podgroups",),
    "metrics.k8s.io": ("pods",),
}
# Resources without a namespace. None of these lists contains Secrets.
_OF_THE_CLUSTER: Mapping[str, tuple[str, ...]] = {
    "": ("nodes", "persistentvolumes"),
    KUEUE_DOMAIN: ("admissionchecks", "clusterqueues", "cohorts", "resourceflavors", "topologies"),
    "visibility.kueue.x-k8s.io": ("clusterqueues/pendingworkloads",),
    _KAI: ("queues",),
    KARPENTER_DOMAIN: ("nodeclaims", "nodeoverlays", "nodepools"),
    KARPENTER_AWS_DOMAIN: ("ec2nodeclasses",),
    EKS_DOMAIN: ("nodeclasses", "nodediagnostics"),
    "metrics.k8s.io": ("nodes",),
    "node.k8s.io": ("runtimeclasses",),
    "resource.k8s.io": ("deviceclasses", "resourceslices"),
    "scheduling.k8s.io": ("priorityclasses",),
    "storage.k8s.io": ("csidrivers", "csinodes", "storageclasses", "volumeattachments"),
}
_VIEWERS, _OPERATORS = "gpu-constructs:viewers", "gpu-constructs:operators"
_VIEWER_ROLE, _OPERATOR_ROLE = "gpu-constructs-viewer", "gpu-constructs-operator"


@named_arguments
class AccessEntry(Construct):
    """Access entry of a principal. EKS allows one entry for each principal, and each policy once in an entry.

    Each construct that grants access adds to it. Its logical id depends only on the cluster and the principal. So the
    entry stays when one of several teams leaves the app, and when a viewer becomes an administrator.

    Args:
        cluster: The cluster.
        principal_arn: The principal.
        of_stack: Path of the stack that creates the principal, if its ARN is a token. Another stack may have a role
            with the same logical id.
    """

    def __init__(
        self, scope: Construct, id: str, *, cluster: ClusterRef, principal_arn: str, of_stack: str = ""
    ) -> None:
        super().__init__(scope, id)
        # Namespaces of each policy. An empty list means the whole cluster.
        self._policies: dict[str, list[str]] = {}
        self._groups: list[str] = []
        self._resource = eks_resources.CfnAccessEntry(
            self, "Resource", cluster_name=cluster.name_token, principal_arn=principal_arn, type="STANDARD"
        )
        identity = (of_stack,) if of_stack else ()
        set_logical_id(self._resource, cluster, "AccessEntry", principal_name(principal_arn), *identity)

    def add_group(self, group: str) -> None:
        """Add a group of the cluster."""
        if group not in self._groups:
            self._groups.append(group)
        self._resource.kubernetes_groups = list(self._groups)

    def add_policy(self, policy: str, *, group: str | None = None, namespace: str | None = None) -> None:
        """Add a policy, for one namespace or the whole cluster, and a group."""
        known = self._policies.get(policy)
        whole = namespace is None or known == []
        self._policies[policy] = [] if whole else [*(known or ()), str(namespace)]
        if group is not None:
            self.add_group(group)
        self._resource.access_policies = [self._associated(*each) for each in self._policies.items()]

    def _associated(self, policy: str, namespaces: list[str]) -> eks_resources.CfnAccessEntry.AccessPolicyProperty:
        of_entry = eks_resources.CfnAccessEntry
        scope = of_entry.AccessScopeProperty(
            type="namespace" if namespaces else "cluster", namespaces=list(namespaces) or None
        )
        return of_entry.AccessPolicyProperty(policy_arn=_policy_arn(self, policy), access_scope=scope)


def _policy_arn(scope: Construct, policy: str) -> str:
    """Return the ARN of an access policy of EKS."""
    return f"arn:{cdk.Stack.of(scope).partition}:eks::aws:cluster-access-policy/{policy}"


def access_entry(who: object, argument: str, cluster: ClusterRef, principal_arn: str) -> AccessEntry:
    """Return the access entry of a principal. It is created once for each cluster, in the cluster's stack.

    Raises:
        ValueError: The principal administers the cluster.
    """
    if cluster.holder(administrator(principal_arn)) is not None:
        raise ValueError(
            f"{who}: {argument} must not name an administrator of the cluster, who has every right already, got "
            f"{principal_arn!r}; remove it here or from admins"
        )
    shared = cluster.shared(cluster.stack)
    id = f"Access-{principal_name(principal_arn)}"
    found = shared.node.try_find_child(id)
    if isinstance(found, AccessEntry):
        return found
    return AccessEntry(shared, id, cluster=cluster, principal_arn=principal_arn)


def administrator(principal_arn: str) -> str:
    """Return the key under which a cluster registers that a principal is an administrator."""
    return f"administrator {principal_arn}"


def principal_name(principal_arn: str) -> str:
    """Return account, kind and name of a principal, which identify it, or the ARN itself if it is one token."""
    return principal_arn.partition(":iam::")[2] or principal_arn


def refuse_unless_principals(who: object, argument: str, arns: tuple[str, ...]) -> None:
    """Reject ARNs that aren't of an IAM user or role, and duplicates.

    Raises:
        ValueError: An ARN isn't of a user or role, or occurs twice.
    """
    for arn in arns:
        if not _PRINCIPAL.fullmatch(arn):
            raise ValueError(
                f"{who}: {argument} must be literal ARNs of IAM users or roles, got {arn!r}; list yours with 'aws sts "
                "get-caller-identity', and for an assumed role pass the ARN of the role"
            )
    refuse_duplicates(who, argument, arns)


def refuse_duplicates(who: object, argument: str, arns: tuple[str, ...]) -> None:
    """Reject a principal that occurs twice.

    Raises:
        ValueError: An ARN occurs twice.
    """
    if len(set(arns)) < len(arns):
        raise ValueError(f"{who}: {argument} must differ, got {arns!r}; remove the duplicates")


def warn_of_identity_center(who: Construct, arns: tuple[str, ...]) -> None:
    """Warn about roles that can get another name, and so lose their access without a change in the app."""
    for arn in arns:
        if _OF_IDENTITY_CENTER in arn:
            cdk.Annotations.of(who).add_warning_v2(
                f"gpu-constructs:roleOfIdentityCenter:{principal_name(arn)}",
                f"{PathOf(who)}: {arn} is a role of IAM Identity Center. If the permission set is assigned again, "
                "Identity Center creates a role with another suffix, and access ends until you pass the new ARN. Pass "
                "a role of your own that the permission set may assume",
            )


def member_rules(right: Right) -> list[Rule]:
    """Return the rules of a team's members in its namespace, in addition to their access policy."""
    made = _rules(_MADE, _READ if right == "view" else (*_READ, *_WRITE))
    return [*made, *_rules(_SEEN, _READ)]


def viewer_rules() -> list[Rule]:
    """Return the rules of a cluster's viewers, in addition to the access policy for viewing."""
    return [*_rules(_MADE, _READ), *_rules(_SEEN, _READ), *_rules(_OF_THE_CLUSTER, _READ)]


def operator_rules() -> list[Rule]:
    """Return the rules of a cluster's operators, in addition to the viewers' rules. None of them allows running images.

    A person who may write pods or their controllers in every namespace can run them as any service account, and so is
    an administrator. Operators delete pods and their controllers, and scale them.
    """
    return [
        # kubectl cordon, drain, taint and label.
        _rule("", ["nodes"], ["patch"]),
        _rule("", ["pods"], ["delete", "deletecollection"]),
        _rule("", ["pods/eviction"], ["create"]),
        _rule("apps", ["deployments/scale", "replicasets/scale", "statefulsets/scale"], ["get", "patch", "update"]),
        _rule("batch", ["jobs"], ["delete", "deletecollection"]),
        *_rules(_MADE, ("delete", "deletecollection")),
        # Hold a queue, and evict the workloads that it admitted.
        _rule(KUEUE_DOMAIN, ["clusterqueues", "localqueues", "workloads"], ["patch"]),
        _rule(KARPENTER_DOMAIN, ["nodeclaims"], ["delete"]),
    ]


def _rules(resources: Mapping[str, tuple[str, ...]], verbs: tuple[str, ...]) -> list[Rule]:
    return [_rule(group, list(names), list(verbs)) for group, names in resources.items()]


def _rule(group: str, resources: list[str], verbs: list[str]) -> Rule:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def bound_role(name: str, group: str, rules: list[Rule], *, namespace: str | None = None) -> list[dict[str, Any]]:
    """Return a role of a namespace or of the cluster, and the binding of a group to it."""
    rbac = "rbac.authorization.k8s.io"
    prefix = "" if namespace else "Cluster"
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    role = {"apiVersion": f"{rbac}/v1", "kind": f"{prefix}Role", "metadata": metadata, "rules": rules}
    binding = {
        "apiVersion": f"{rbac}/v1",
        "kind": f"{prefix}RoleBinding",
        "metadata": dict(metadata),
        "roleRef": {"apiGroup": rbac, "kind": f"{prefix}Role", "name": name},
        "subjects": [{"apiGroup": rbac, "kind": "Group", "name": group}],
    }
    return [role, binding]


def principals(who: object, argument: str, given: object) -> tuple[str, ...]:
    """Return the checked ARNs of people.

    Raises:
        TypeError: The value isn't a list.
        ValueError: An ARN isn't of an IAM user or role, or occurs twice.
    """
    arns = words(who, argument, given)
    refuse_unless_principals(who, argument, arns)
    return arns


def refuse_two_parts(who: object, **given: Sequence[str]) -> None:
    """Reject a principal in two arguments: EKS allows one access entry, and the greater right includes the lesser.

    Raises:
        ValueError: A principal is in two arguments.
    """
    named: dict[str, str] = {}
    for argument, arns in given.items():
        for arn in arns:
            other = named.setdefault(arn, argument)
            if other != argument:
                raise ValueError(f"{who}: {argument} must not name a principal of {other}, got {arn!r}; remove one")


def grant_cluster_access(
    scope: Construct, cluster: ClusterRef, *, viewers: Sequence[str], operators: Sequence[str]
) -> None:
    """Grant viewers and operators access to a cluster, and apply the roles of their groups."""
    who = PathOf(scope)
    for argument, arns, groups in (("viewers", viewers, (_VIEWERS,)), ("operators", operators, (_VIEWERS, _OPERATORS))):
        warn_of_identity_center(scope, tuple(arns))
        for arn in arns:
            entry = access_entry(who, argument, cluster, arn)
            for group in groups:
                entry.add_policy(POLICIES["view"], group=group)
    if viewers or operators:
        role = bound_role(_VIEWER_ROLE, _VIEWERS, viewer_rules())
        apply_manifests(scope, "ViewerRole", cluster=cluster, manifests=role)
    if operators:
        role = bound_role(_OPERATOR_ROLE, _OPERATORS, operator_rules())
        apply_manifests(scope, "OperatorRole", cluster=cluster, manifests=role)
