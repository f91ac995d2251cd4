"""Kubernetes versions that leave, or have left, EKS' standard support."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

from gpu_facts.kubernetes_support import EXTENDED_SUPPORT_USD_PER_HOUR, SUPPORT, is_ended
from gpu_facts.today import today
from gpu_preflight.case import Case
from gpu_preflight.cluster.references import setting
from gpu_preflight.reading.unknown import Unknown
from gpu_preflight.rules.rule import Problem, rule

_HOURS_A_YEAR = 8760
_NOTICE = timedelta(days=60)


@rule("GPU273", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html")
def kubernetes_version_at_the_end_of_its_support(case: Case) -> Iterator[Problem]:
    """Kubernetes version at the end of its support.

    Extended support costs more and cannot be left but by an upgrade; without it EKS upgrades the control plane.

    Fix: Upgrade, one minor version at a time; UpgradePolicy says what EKS does, until standard support ends.
    """
    cluster = case.cluster
    support = SUPPORT.get(cluster.version or "")
    if cluster.resource is None:
        return
    if support is None:
        if is_ended(cluster.version or ""):
            text = (
                f"EKS ended its support of Kubernetes {cluster.version}: it makes no such cluster, and upgrades others"
            )
            yield Problem(cluster.resource, text)
        return
    standard, extended = map(date.fromisoformat, (support.standard_ends, support.extended_ends))
    now = today()
    if now + _NOTICE < standard:
        return
    whole = setting(cluster, "UpgradePolicy")
    policy = whole if isinstance(whole, Unknown) else setting(cluster, "UpgradePolicy", "SupportType")
    leaves = f"Kubernetes {cluster.version} {'left' if now >= standard else 'leaves'} standard support on {standard}"
    sum_a_year = (
        f"{EXTENDED_SUPPORT_USD_PER_HOUR:.2f} USD an hour, {_HOURS_A_YEAR * EXTENDED_SUPPORT_USD_PER_HOUR:,.0f} a year"
    )
    costs = f"extended support costs {sum_a_year}, until EKS upgrades it on {extended}"
    if now >= extended:
        costs = f"extended support ended on {extended}, and EKS upgrades it"
    upgraded = f"EKS upgrades it {'now' if now >= standard else 'then'}, as UpgradePolicy is STANDARD"
    then = f"{costs}, or {upgraded}" if isinstance(policy, Unknown) else upgraded if policy == "STANDARD" else costs
    yield Problem(cluster.resource, f"{leaves}; {then}")
