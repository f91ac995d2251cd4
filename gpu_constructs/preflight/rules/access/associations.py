"""Associations of EKS Pod Identity that EKS does not take."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.cluster.iam import associations
from gpu_constructs.preflight.cluster.references import may_be_apart
from gpu_constructs.preflight.reading.cloudformation import Resource
from gpu_constructs.preflight.rules.rule import Problem, rule

_OF = ("ClusterName", "Namespace", "ServiceAccount")


@rule(
    "GPU400",
    "error",
    source="https://docs.aws.amazon.com/eks/latest/userguide/pod-identities.html#pod-id-considerations",
)
def service_account_with_two_roles(case: Case) -> Iterator[Problem]:
    """Service account with two roles.

    EKS takes one association for a service account of a cluster; it refuses the second, and the deployment fails.

    Fix: Leave one association, and give its role what both were for.
    """
    seen: dict[tuple[object, ...], Resource] = {}
    for each in associations(case.cluster):
        account = tuple(each.properties.get(key) for key in _OF)
        # Of other types are only those that EKS refuses.
        if None in account or not all(isinstance(said, Hashable) for said in account):
            continue
        other = seen.setdefault(account, each)
        if other is not each:
            text = f"{each.path}: service account {account[1]}/{account[2]} has a role by {other.path} already"
            yield Problem(each, text, unknown=each.conditional or other.conditional or may_be_apart(each, other))
