"""Rules for access entries, IAM policies and trust policies that don't grant the required access."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from gpu_facts.iam_policies import MAX_INLINE, MAX_MANAGED, policy_size
from gpu_facts.kubernetes import CLUSTER_SCOPED
from gpu_preflight.case import Case
from gpu_preflight.cluster.iam import (
    AUDIENCE,
    POD_IDENTITY,
    POD_IDENTITY_ACTIONS,
    ROLE_ANNOTATION,
    WEB_IDENTITY_ACTION,
    allows,
    associations,
    custom_resource_functions,
    identity,
    inline_policies,
    is_associated,
    is_of_services,
    may_pass,
    refused_tags,
    resolve_role,
    trusted_accounts,
    trusted_audiences,
    trusts,
)
from gpu_preflight.cluster.objects import bound_groups
from gpu_preflight.cluster.references import (
    cluster_resources,
    created_before,
    is_named,
    may_be_apart,
    referred,
    setting,
)
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.objects import Chart, Object
from gpu_preflight.reading.unknown import (
    Unknown,
    as_written,
    dig,
    is_expression,
    is_true,
    items,
    known_text,
    mapping,
    mappings,
    may_equal,
)
from gpu_preflight.rule import Problem, rule

_ENTRY, _PROVIDER = "AWS::EKS::AccessEntry", "AWS::EKS::IdentityProviderConfig"
_ENTRIES = "https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html"
_SYSTEM = "system:"
_ANYWHERE = ("0.0.0.0/0", "::/0")
_APPLIED = ("Custom::AWSCDK-EKS-HelmChart", "Custom::AWSCDK-EKS-KubernetesResource")
# `aws eks update-kubeconfig` calls it before each kubectl and helm.
# Source: aws/aws-cdk v2.275.0 packages/aws-cdk-lib/custom-resource-handlers/dist/aws-eks/kubectl-handler (2026-11-24)
_CALL = "eks:DescribeCluster"
_OF = ("ClusterName", "Namespace", "ServiceAccount")
_QUOTAS = "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html"
_IRSA = "https://docs.aws.amazon.com/eks/latest/userguide/associate-service-account-role.html"
_AUDIENCE_ANNOTATION = "eks.amazonaws.com/audience"


@rule("GPU430", "error", source="https://github.com/terraform-aws-modules/terraform-aws-eks/issues/2915")
def access_entry_with_a_group_of_kubernetes(case: Case) -> Iterator[Problem]:
    """Access entry has a Kubernetes group that starts with system:.

    EKS rejects groups that start with system:, including system:masters, and the deployment fails.

    Fix: Associate an access policy (AmazonEKSClusterAdminPolicy for an administrator), or use your own group and bind
    it to a role.
    """
    for entry in cluster_resources(case.cluster, _ENTRY):
        for group in map(known_text, items(entry.properties.get("KubernetesGroups"))):
            if group is not None and group.startswith(_SYSTEM):
                yield Problem(
                    entry,
                    f"access entry {entry.path}: EKS rejects group {group}, which starts with {_SYSTEM}",
                    unknown=entry.conditional,
                )


@rule("GPU431", "error", source=_ENTRIES)
def principal_with_two_access_entries(case: Case) -> Iterator[Problem]:
    """Principal has two access entries.

    EKS accepts one access entry per principal and cluster. It rejects the second, and the deployment fails.

    Fix: Keep one entry with the policies and groups of both; with this library, name the principal in each Team.
    """
    seen: dict[Any, Resource] = {}
    for entry in cluster_resources(case.cluster, _ENTRY):
        principal = entry.properties.get("PrincipalArn")
        if principal is None or not isinstance(principal, (str, Unknown)):
            continue
        other = seen.setdefault(principal, entry)
        if other is not entry:
            text = (
                f"access entry {entry.path}: its principal {principal} already has access entry {other.path}, so EKS "
            )
            text += "rejects the second"
            unknown = entry.conditional or other.conditional or may_be_apart(entry, other)
            yield Problem(entry, text, unknown=unknown)


@rule("GPU432", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/access-policies.html")
def access_policy_twice_in_one_entry(case: Case) -> Iterator[Problem]:
    """Access entry has the same access policy twice.

    EKS associates each policy with an entry only once, so one of the two scopes has no effect.

    Fix: Write the policy once, with all of its namespaces in one scope.
    """
    for entry in cluster_resources(case.cluster, _ENTRY):
        policies = [each.get("PolicyArn") for each in mappings(entry.properties.get("AccessPolicies"))]
        for policy, number in Counter(each for each in policies if isinstance(each, (str, Unknown))).items():
            if number > 1:
                name = str(policy).rpartition("/")[2]
                text = (
                    f"access entry {entry.path}: policy {name} is listed {number} times, and only one scope has effect"
                )
                yield Problem(entry, text, unknown=entry.conditional)


@rule("GPU434", "note", source=_ENTRIES)
def group_that_no_access_entry_has(case: Case) -> Iterator[Problem]:
    """RoleBinding names a group that no access entry has.

    The binding grants rights to the group, but no principal in the input belongs to it. Access entries alone define
    groups here. The checker doesn't see access entries that are created elsewhere.

    Fix: Add the group to KubernetesGroups of the access entries of its members.
    """
    cluster = case.cluster
    entries = cluster_resources(cluster, _ENTRY)
    if not _lets_in_by_entries_alone(cluster) or not entries:
        return
    given = [each for entry in entries for each in _groups(entry)]
    for binding, group in bound_groups(cluster):
        if group.startswith(_SYSTEM) or group in given:
            continue
        unknown = any(isinstance(each, Unknown) or is_expression(str(each)) for each in (*given, group))
        name = binding.name if binding.kind in CLUSTER_SCOPED else f"{binding.namespace}/{binding.name}"
        text = f"{binding.kind} {name} has no effect: no access entry adds a principal to group {group}"
        yield Problem(binding, text, unknown=unknown)


def _lets_in_by_entries_alone(cluster: Cluster) -> bool:
    mode = setting(cluster, "AccessConfig", "AuthenticationMode")
    return cluster.whole and mode == "API" and not cluster.resources_of_type(_PROVIDER)


def _groups(entry: Resource) -> list[Any]:
    groups = entry.properties.get("KubernetesGroups")
    return [groups] if isinstance(groups, Unknown) else items(groups)


@rule("GPU292", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html")
def cluster_without_user_access(case: Case) -> Iterator[Problem]:
    """Cluster grants no user access.

    The cluster's creator gets Unauthorized from kubectl, and must add an access entry by hand.

    Fix: Add an AWS::EKS::AccessEntry for the IAM role that you sign in with, with AmazonEKSClusterAdminPolicy in
    AccessPolicies; with this library: GpuCluster(admins=...).
    """
    cluster = case.cluster
    mode = setting(cluster, "AccessConfig", "AuthenticationMode")
    creator = setting(cluster, "AccessConfig", "BootstrapClusterCreatorAdminPermissions")
    if cluster.resource is None or mode != "API" or str(creator).lower() != "false":
        return
    entries = [_grants_user_access(each, cluster) for each in cluster.resources_of_type(_ENTRY)]
    if Answer.YES not in entries:
        text = f"cluster {cluster.name}: no access entry is for a person's IAM role or user, and the cluster's "
        text += "creator gets no access, so no one can use kubectl"
        yield Problem(cluster.resource, text, unknown=Answer.UNKNOWN in entries)


def _grants_user_access(entry: Resource, cluster: Cluster) -> Answer:
    """Return whether an access entry lets a user sign in; entries of nodes and of services don't."""
    name, kind = entry.properties.get("ClusterName"), entry.properties.get("Type", "STANDARD")
    here = is_named(name, cluster)
    elsewhere = not isinstance(name, Unknown) or referred(name, cluster.resources) is not None
    role = referred(entry.properties.get("PrincipalArn"), cluster.resources)
    if (not here and elsewhere) or (not isinstance(kind, Unknown) and kind != "STANDARD"):
        return Answer.NO
    if role is not None and is_of_services(role):
        return Answer.NO
    return Answer.YES if here and kind == "STANDARD" and not entry.conditional else Answer.UNKNOWN


@rule("GPU293", "note", source="https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html")
def api_endpoint_that_the_internet_reaches(case: Case) -> Iterator[Problem]:
    """API endpoint is open to the internet.

    Requests need credentials, but can come from any address. A leaked credential or a fault in the API server is
    enough.

    Fix: List your networks in ResourcesVpcConfig.PublicAccessCidrs; with this library: public_access_cidrs.
    """
    cluster = case.cluster
    public = setting(cluster, "ResourcesVpcConfig", "EndpointPublicAccess")
    if cluster.resource is None or not mapping(setting(cluster, "ResourcesVpcConfig")):
        return
    if public is not None and not is_true(public):
        return
    named = setting(cluster, "ResourcesVpcConfig", "PublicAccessCidrs")
    blocks = list(_ANYWHERE[:1]) if named is None else named
    open_to = [each for each in items(blocks) if each in _ANYWHERE]
    if open_to:
        yield Problem(
            cluster.resource, f"cluster {cluster.name}: its API endpoint accepts connections from {', '.join(open_to)}"
        )


@rule("GPU506", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/create-kubeconfig.html", stops=False)
def function_that_may_not_describe_the_cluster(case: Case) -> Iterator[Problem]:
    """Function that applies manifests isn't allowed to describe the cluster.

    The function requests the endpoint from EKS before each kubectl or helm call. The deployment fails at the first
    call.

    Fix: Allow eks:DescribeCluster on the cluster in the policy of the function's role.
    """
    resources = case.cluster.resources
    found: dict[str, Resource] = {}
    for each in case.cluster.resources_of_type(*_APPLIED):
        called = custom_resource_functions(each.properties.get("ServiceToken"), resources)
        # With its own role, an older provider calls EKS as this role.
        if called and each.properties.get("RoleArn") is None:
            found.setdefault(called[-1].key, called[-1])
    for handler in found.values():
        role = resolve_role(handler.properties.get("Role"), resources)
        if role is not None and allows(role, _CALL, resources) is Answer.NO:
            text = f"its role {role.path} doesn't allow {_CALL}, so it can't apply a manifest or install a chart"
            yield Problem(handler, f"function {handler.path}: {text}")


@rule(
    "GPU400",
    "error",
    source="https://docs.aws.amazon.com/eks/latest/userguide/pod-identities.html#pod-id-considerations",
)
def service_account_with_two_roles(case: Case) -> Iterator[Problem]:
    """Service account has two Pod Identity associations.

    EKS accepts one association per service account and cluster. It rejects the second, and the deployment fails.

    Fix: Keep one association, and give its role the permissions of both.
    """
    seen: dict[tuple[object, ...], Resource] = {}
    for each in associations(case.cluster):
        account = tuple(each.properties.get(key) for key in _OF)
        # EKS rejects values of other types.
        if None in account or not all(isinstance(part, Hashable) for part in account):
            continue
        other = seen.setdefault(account, each)
        if other is not each:
            text = (
                f"association {each.path}: service account {account[1]}/{account[2]} already has association "
                f"{other.path}, so EKS rejects the second"
            )
            yield Problem(each, text, unknown=each.conditional or other.conditional or may_be_apart(each, other))


@rule("GPU502", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/pod-identities.html")
def chart_installed_before_its_association(case: Case) -> Iterator[Problem]:
    """Chart may start its pods before their service account has a role.

    A pod that starts before its association gets no credentials until it is recreated. A release that waits for this
    pod fails.

    Fix: Add the association to DependsOn of the chart; in CDK: chart.node.add_dependency(association).
    """
    cluster = case.cluster
    for chart in cluster.charts:
        release = cluster.resources.get(chart.origin.resource or "")
        if release is None:
            continue
        names = _service_accounts(chart, cluster)
        giving = [each for each in associations(cluster) if _gives(each, chart.namespace, names)]
        earlier = created_before(release, cluster) if giving else set()
        for each in giving:
            # The order between stacks isn't visible here.
            if each.file == release.file and each.key not in earlier:
                account = f"{chart.namespace}/{each.properties['ServiceAccount']}"
                text = (
                    f"chart {chart.name} doesn't depend on {each.path}, which gives service account {account} its role"
                )
                yield Problem(chart, text, unknown=each.conditional)


def _gives(association: Resource, namespace: str, names: set[str]) -> bool:
    """Whether an association certainly assigns a role to one of some service accounts."""
    account = association.properties.get("ServiceAccount")
    return association.properties.get("Namespace") == namespace and isinstance(account, str) and account in names


def _service_accounts(chart: Chart, cluster: Cluster) -> set[str]:
    """Return the names of the service accounts that a chart certainly uses."""
    named = {known_text(dig(each, "name")) for each in _below(chart.values, "serviceAccount")}
    known = {each.service_account[1] for each in cluster.autoscalers if each.origin == chart.origin}
    return {each for each in (*named, *known) if each}


def _below(value: Any, key: str) -> Iterator[Any]:
    if isinstance(value, (dict, list)):
        for name, each in value.items() if isinstance(value, dict) else enumerate(value):
            if name == key:
                yield each
            yield from _below(each, key)


@rule("GPU480", "error", source=_QUOTAS)
def policies_larger_than_iam_allows(case: Case) -> Iterator[Problem]:
    """Policies of a role are larger than IAM allows.

    IAM rejects the policy with LimitExceeded, the deployment fails, and resources that need the role aren't created.

    Fix: Replace lists of resources with a pattern or a tag condition, or move statements to managed policies of up to
    6,144 characters each.
    """
    resources = case.cluster.resources
    for role in resources.values():
        if role.type == "AWS::IAM::ManagedPolicy":
            size = _size(role.properties.get("PolicyDocument"))
            if size > MAX_MANAGED:
                text = f"managed policy {role.path} has at least {size:,} characters, but IAM allows {MAX_MANAGED:,}"
                yield Problem(role, text, unknown=role.conditional)
        elif role.type == "AWS::IAM::Role":
            parts = list(inline_policies(role, resources))
            certain = sum(_size(document) for document, is_certain in parts if is_certain)
            total = sum(_size(document) for document, _ in parts)
            if total > MAX_INLINE:
                text = f"the inline policies of role {role.path} have at least {total:,} characters, but IAM allows"
                unknown = role.conditional or certain <= MAX_INLINE
                yield Problem(role, f"{text} {MAX_INLINE:,} in total", unknown=unknown)


def _size(document: Any) -> int:
    """Return the minimum length of a policy in characters, without white space."""
    text = document if isinstance(document, str) else json.dumps(as_written(document), ensure_ascii=False, default=str)
    return policy_size(text)


@rule("GPU340", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/pod-id-association.html")
def role_that_pod_identity_cannot_assume(case: Case) -> Iterator[Problem]:
    """Pod Identity can't assume the role of a service account.

    EKS assumes the role for the pod and tags the session. If the trust policy lacks one of the two actions, or a
    condition names another service account, the pod gets no credentials.

    Fix: Allow pods.eks.amazonaws.com to call sts:AssumeRole and sts:TagSession in the role's trust policy, and correct
    the tags in its conditions.
    """
    cluster = case.cluster
    given = [(each, each.properties) for each in associations(cluster)]
    # An add-on names service accounts in its own namespace.
    for addon in cluster.addons:
        given += [(addon.resource, one) for one in mappings(addon.resource.properties.get("PodIdentityAssociations"))]
    for each, association in given:
        role = resolve_role(association.get("RoleArn"), cluster.resources)
        actions = POD_IDENTITY_ACTIONS if role else ()
        account = "/".join(str(association[key]) for key in ("Namespace", "ServiceAccount") if key in association)
        refused = [one for one in actions if role and trusts(role, "Service", one, POD_IDENTITY) is Answer.NO]
        if role and refused:
            calls = " and ".join(refused)
            text = f"doesn't allow {POD_IDENTITY} to call {calls}, so its pods get no credentials"
            fix = f"Allow {POD_IDENTITY} to call {calls} in the role's trust policy."
            yield Problem(each, f"role {role.path} of service account {account} {text}", fix)
        elif role and (unmet := refused_tags(role, tags := _session_tags(association, cluster))):
            text = f"trusts {POD_IDENTITY} only for session tag {', '.join(unmet)}, so its pods get no credentials"
            keys = [one.partition("=")[0] for one in unmet]
            right = " and ".join(f"aws:RequestTag/{key} to {tags[key]}" for key in keys if key in tags)
            fix = f"In the condition of the role's trust policy, set {right}." if right else ""
            yield Problem(each, f"role {role.path} of service account {account} {text}", fix)


def _session_tags(association: Mapping[str, Any], cluster: Cluster) -> dict[str, str]:
    """Return the known session tags of an association."""
    tags = {
        "kubernetes-namespace": association.get("Namespace"),
        "kubernetes-service-account": association.get("ServiceAccount"),
        "eks-cluster-name": setting(cluster, "Name"),
    }
    return {key: value for key, value in tags.items() if isinstance(value, str)}


@rule("GPU341", "error", source=_IRSA)
def role_that_a_service_account_cannot_assume(case: Case) -> Iterator[Problem]:
    """Service account can't assume its IAM role.

    STS rejects the service account's token, and every AWS call of its pods fails.

    Fix: Allow the cluster's OIDC provider to call sts:AssumeRoleWithWebIdentity in the role's trust policy, for
    audience sts.amazonaws.com and this service account.
    """
    cluster = case.cluster
    autoscalers = {each.service_account for each in cluster.autoscalers}
    for account in cluster.objects_of_kind("ServiceAccount"):
        role = resolve_role(account.annotations.get(ROLE_ANNOTATION), cluster.resources)
        associated = is_associated((account.namespace, account.name), cluster)
        if role is not None and associated is Answer.NO:
            # Another rule (GPU154) checks which service account an autoscaler's role trusts.
            known = (account.namespace, account.name) in autoscalers
            for why in _refusals(role, account, asks_who=not known):
                yield Problem(account, f"service account {account.namespace}/{account.name}: role {role.path} {why}")


def _refusals(role: Resource, account: Object, *, asks_who: bool) -> Iterator[str]:
    if trusts(role, "Federated", WEB_IDENTITY_ACTION) is Answer.NO:
        yield f"doesn't allow an identity provider to call {WEB_IDENTITY_ACTION}"
        return
    wanted = account.annotations.get(_AUDIENCE_ANNOTATION, AUDIENCE)
    audiences = trusted_audiences(role)
    if audiences and not any(_matches(each, str(wanted)) for each in audiences):
        yield f"trusts tokens for audience {', '.join(audiences)}, but the account's tokens are for {wanted}"
    named = trusted_accounts(role)
    if asks_who and named and not any(_matches(each, f"{account.namespace}:{account.name}") for each in named):
        yield f"trusts only service account {', '.join(each.replace(':', '/') for each in named)}"


def _matches(pattern: str, text: str) -> bool:
    return "*" in pattern or "?" in pattern or is_expression(text) or may_equal(pattern, text)


@rule(
    "GPU342", "error", source="aws/karpenter-provider-aws v1.14.1 website/content/en/docs/reference/cloudformation.md"
)
def karpenter_that_may_not_pass_the_role_of_its_nodes(case: Case) -> Iterator[Problem]:
    """Karpenter isn't allowed to pass the role of its nodes.

    EC2 rejects each launch whose instance profile has a role that the controller isn't allowed to pass.

    Fix: Allow iam:PassRole on the node role in the policy of Karpenter's role.
    """
    cluster = case.cluster
    for each in cluster.autoscalers:
        role = resolve_role(identity(each, cluster), cluster.resources) if each.kind == "karpenter" else None
        for node_class in cluster.objects_of_kind("EC2NodeClass") if role else ():
            wanted: Any = node_class.spec.get("role")
            if role and wanted and may_pass(role, wanted, cluster.resources) is Answer.NO:
                text = f"Karpenter: its role isn't allowed to pass role {wanted} of EC2NodeClass {node_class.name}"
                yield Problem(each, f"{text}, so it launches no node")
