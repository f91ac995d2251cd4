"""Access entries that EKS does not take, or that do not give what they say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from gpu_preflight.case import Case
from gpu_preflight.cluster.objects.rbac import bound_groups
from gpu_preflight.cluster.references import may_be_apart, of_cluster, setting
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.unknown import Unknown, is_expression, items, known_text, mappings
from gpu_preflight.rules.rule import Problem, rule

_ENTRY, _PROVIDER = "AWS::EKS::AccessEntry", "AWS::EKS::IdentityProviderConfig"
_ENTRIES = "https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html"
_SYSTEM = "system:"


@rule("GPU430", "error", source="https://github.com/terraform-aws-modules/terraform-aws-eks/issues/2915")
def access_entry_with_a_group_of_kubernetes(case: Case) -> Iterator[Problem]:
    """Access entry with a group of Kubernetes itself.

    EKS refuses groups that begin with system:, system:masters among them, and the deployment fails.

    Fix: Associate an access policy, AmazonEKSClusterAdminPolicy for an administrator, or name a group of your own and
    bind it to a role.
    """
    for entry in of_cluster(case.cluster, _ENTRY):
        for group in map(known_text, items(entry.properties.get("KubernetesGroups"))):
            if group is not None and group.startswith(_SYSTEM):
                yield Problem(entry, f"{entry.path}: group {group}", unknown=entry.conditional)


@rule("GPU431", "error", source=_ENTRIES)
def principal_with_two_access_entries(case: Case) -> Iterator[Problem]:
    """Principal with two access entries.

    EKS takes one access entry for a principal of a cluster; it refuses the second, and the deployment fails.

    Fix: Leave one entry, with the policies and groups of both; with this library name the principal in each Team.
    """
    seen: dict[Any, Resource] = {}
    for entry in of_cluster(case.cluster, _ENTRY):
        principal = entry.properties.get("PrincipalArn")
        if principal is None or not isinstance(principal, (str, Unknown)):
            continue
        other = seen.setdefault(principal, entry)
        if other is not entry:
            text = f"{entry.path}: {principal} has an entry by {other.path} already"
            unknown = entry.conditional or other.conditional or may_be_apart(entry, other)
            yield Problem(entry, text, unknown=unknown)


@rule("GPU432", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/access-policies.html")
def access_policy_twice_in_one_entry(case: Case) -> Iterator[Problem]:
    """Access policy twice in one access entry.

    EKS associates each policy with an entry once, so that one of the two scopes does not hold.

    Fix: Write the policy once, with all of its namespaces in one scope.
    """
    for entry in of_cluster(case.cluster, _ENTRY):
        policies = [each.get("PolicyArn") for each in mappings(entry.properties.get("AccessPolicies"))]
        for policy, number in Counter(each for each in policies if isinstance(each, (str, Unknown))).items():
            if number > 1:
                name = str(policy).rpartition("/")[2]
                yield Problem(entry, f"{entry.path}: {name} stands {number} times", unknown=entry.conditional)


@rule("GPU434", "note", source=_ENTRIES)
def group_that_no_access_entry_has(case: Case) -> Iterator[Problem]:
    """Group that no access entry has.

    A binding gives the group rights, and nobody of the input is in it: access entries alone say who is. Those made
    elsewhere are not seen here.

    Fix: Name the group in KubernetesGroups of the access entries whose principals are meant.
    """
    cluster = case.cluster
    entries = of_cluster(cluster, _ENTRY)
    if not _lets_in_by_entries_alone(cluster) or not entries:
        return
    given = [each for entry in entries for each in _groups(entry)]
    for binding, group in bound_groups(cluster):
        if group.startswith(_SYSTEM) or group in given:
            continue
        unknown = any(isinstance(each, Unknown) or is_expression(str(each)) for each in (*given, group))
        text = f"{binding.kind} {binding.name}: group {group}"
        yield Problem(binding, text, unknown=unknown)


def _lets_in_by_entries_alone(cluster: Cluster) -> bool:
    mode = setting(cluster, "AccessConfig", "AuthenticationMode")
    return cluster.whole and mode == "API" and not cluster.resources_of(_PROVIDER)


def _groups(entry: Resource) -> list[Any]:
    groups = entry.properties.get("KubernetesGroups")
    return [groups] if isinstance(groups, Unknown) else items(groups)
