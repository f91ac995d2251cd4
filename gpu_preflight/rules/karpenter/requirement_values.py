"""Labels and values of requirements that Karpenter, or Auto Mode, does not know."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from gpu_facts.hardware.zones import is_elsewhere, is_no_zone, is_seen_zone, is_zone_name, last_letter
from gpu_facts.labels import ARCH, CAPACITY_TYPE, KARPENTER_AWS_DOMAIN, OS, ZONE_ID
from gpu_facts.light_patterns import regex
from gpu_facts.refusals import did_you_mean
from gpu_preflight.case import Case
from gpu_preflight.cluster.subnets import region_of, zone_requirements
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.node.instance_labels import own_name
from gpu_preflight.reading.unknown import dig, is_expression, mapping
from gpu_preflight.rules.rule import Problem, rule

# Sources: labels.go in pkg/apis/v1 of kubernetes-sigs/karpenter v1.15.0 and aws/karpenter-provider-aws v1.15.1
# (2026-11)
_KNOWN: Mapping[str, tuple[str, ...]] = {
    CAPACITY_TYPE: ("on-demand", "spot", "reserved"),
    f"{KARPENTER_AWS_DOMAIN}/instance-tenancy": ("dedicated", "default"),
    ARCH: ("amd64", "arm64"),
    OS: ("linux", "windows"),
}
# What is meant to be one, and is no word such as YOUR_ZONE that somebody fills in.
_MEANT = regex(r"(af|ap|ca|cn|eu|il|me|mx|sa|us)[a-z-]*\d[a-z0-9-]*")


@rule(
    "GPU306",
    "error",
    source="kubernetes-sigs/karpenter v1.15.0 pkg/apis/v1/nodeclaim_validation.go (validateWellKnownValues)",
)
def requirement_of_values_that_karpenter_does_not_know(case: Case) -> Iterator[Problem]:
    """Requirement of values that Karpenter does not know.

    With none that it knows the NodePool is not Ready and makes no node; what it does not know of several, it ignores.

    Fix: Write the value as Karpenter does.
    """
    region = _region(case.cluster)
    for pool in case.cluster.pools:
        for key, values in _listed(pool):
            known = _KNOWN[key]
            wrong = [each for each in values if each not in known and not is_expression(each)]
            if wrong:
                hint = did_you_mean(wrong[0], known)
                text = f"{key} is one of {', '.join(known)}, got {', '.join(wrong)}{hint}"
                yield Problem.of(pool, text, unknown=len(wrong) < len(values))
        yield from _in_no_zone(pool, region)


def _in_no_zone(pool: Pool, region: str | None) -> Iterator[Problem]:
    """Yield the zones that a pool asks for and its region does not have, or did not when zones were read."""
    for each in zone_requirements(pool):
        values = [one for one in each.values or () if each.operator == "In" and not is_expression(one)]
        never = [one for one in values if is_no_zone(one) or _is_meant_elsewhere(one, region)]
        if wrong := [one for one in values if one in never or not is_seen_zone(one)]:
            where = f"a zone of {region}" if region else "a zone such as us-east-1a"
            text = f"{each.key} is {where}, got {', '.join(wrong)}{last_letter(wrong[0])}"
            yield Problem.of(pool, text, unknown=len(never) < len(each.values or ()))
    for _, ids in _listed(pool, (ZONE_ID,)):
        known = [one for one in ids if not is_expression(one)]
        never = [one for one in known if is_no_zone(one) or is_elsewhere(one, region)]
        if wrong := [one for one in known if one in never or not is_seen_zone(one)]:
            text = f"{ZONE_ID} is that of a zone{f' of {region}' if region else ''}, got {', '.join(wrong)}"
            yield Problem.of(pool, text, unknown=len(never) < len(ids))


def _region(cluster: Cluster) -> str | None:
    """Return the region of a cluster or of its groups, ``None`` where they say none or several: not what is judged."""
    stack = cluster.resource.region if cluster.resource else None
    named = {region_of(each, cluster) for each in cluster.pools if each.is_group} - {None}
    return stack or (named.pop() if len(named) == 1 else None)


def _is_meant_elsewhere(zone: str, region: str | None) -> bool:
    """Whether a text is the name of no zone of a region, or of no zone at all."""
    return is_elsewhere(zone, region) if is_zone_name(zone) else bool(_MEANT.fullmatch(zone))


def _listed(pool: Pool, keys: Container[str] = _KNOWN) -> Iterator[tuple[str, tuple[str, ...]]]:
    for each in pool.requirements:
        if each.key in keys and each.operator == "In" and each.values:
            yield each.key, tuple(map(str, each.values))


@rule("GPU411", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/create-node-pool.html")
def label_of_instance_types_that_is_called_otherwise_there(case: Case) -> Iterator[Problem]:
    """Label of instance types that is called otherwise there.

    Auto Mode knows labels of eks.amazonaws.com, Karpenter those of karpenter.k8s.aws. By the others neither chooses an
    instance type, and the pool makes other nodes than meant, or none.

    Fix: Write the label as the message names it.
    """
    for pool in case.cluster.pools:
        told = mapping(dig(pool.properties, "template", "metadata", "labels"))
        for key in dict.fromkeys((*(each.key for each in pool.requirements), *told)):
            name = own_name(key, pool.kind)
            if name:
                who = "EKS Auto Mode" if pool.kind == "auto-mode" else "Karpenter"
                yield Problem.of(pool, f"{who} chooses no instance type by {key}; it calls the label {name}")
