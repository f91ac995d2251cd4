"""Associations of EKS Pod Identity that EKS does not take, or that come too late."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from gpu_preflight.case import Case
from gpu_preflight.cluster.iam import associations
from gpu_preflight.cluster.references import created_before, may_be_apart
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.objects import Chart
from gpu_preflight.reading.unknown import dig, known_text
from gpu_preflight.rules.rule import Problem, rule

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


@rule("GPU502", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/pod-identities.html")
def chart_installed_before_its_association(case: Case) -> Iterator[Problem]:
    """Chart may start its pods before their service account has a role.

    A pod that starts before its association gets no credentials until it is recreated. A release that waits for such
    a pod fails.

    Fix: Add the association to DependsOn of the chart, in the CDK by chart.node.add_dependency(association).
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
            # Stacks have an order of their own.
            if each.file == release.file and each.key not in earlier:
                account = f"{chart.namespace}/{each.properties['ServiceAccount']}"
                text = (
                    f"chart {chart.name}: doesn't depend on {each.path}, which gives service account {account} its role"
                )
                yield Problem(chart, text, unknown=each.conditional)


def _gives(association: Resource, namespace: str, names: set[str]) -> bool:
    """Whether an association certainly gives one of some service accounts its role."""
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
