"""Labels and values of requirements that Karpenter, or Auto Mode, does not know."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping

from gpu_constructs.facts.labels import ARCH, CAPACITY_TYPE, KARPENTER_AWS_DOMAIN, OS, ZONE
from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.cluster.subnets import region_of
from gpu_constructs.preflight.model.cluster import Cluster, Pool
from gpu_constructs.preflight.node.instance_labels import own_name
from gpu_constructs.preflight.reading.unknown import dig, is_expression, mapping
from gpu_constructs.preflight.rules.rule import Problem, rule
from gpu_constructs.refusals import did_you_mean

# Sources: labels.go in pkg/apis/v1 of kubernetes-sigs/karpenter v1.15.0 and aws/karpenter-provider-aws v1.15.1
# (2026-11)
_KNOWN: Mapping[str, tuple[str, ...]] = {
    CAPACITY_TYPE: ("on-demand", "spot", "reserved"),
    f"{KARPENTER_AWS_DOMAIN}/instance-tenancy": ("dedicated", "default"),
    ARCH: ("amd64", "arm64"),
    OS: ("linux", "windows"),
}
# A zone of a region, and the longer name of a Local or Wavelength Zone; its id, such as use1-az1, is another label's.
# Source: https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-availability-zones.html (2026-11)
_ZONE = re.compile(r"[a-z]+(-[a-z]+)+-\d+([a-z]|-[a-z0-9-]+)")
# What is meant to be one, and is no word such as YOUR_ZONE that somebody fills in.
_MEANT = re.compile(r"(af|ap|ca|cn|eu|il|me|mx|sa|us)[a-z-]*\d[a-z0-9-]*")


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
        for _, values in _listed(pool, (ZONE,)):
            wrong = [each for each in values if not is_expression(each) and _is_elsewhere(each, region)]
            if wrong:
                where = f"a zone of {region}" if region else "a zone such as us-east-1a"
                yield Problem.of(pool, f"{ZONE} is {where}, got {', '.join(wrong)}", unknown=len(wrong) < len(values))


def _region(cluster: Cluster) -> str | None:
    """Return the region of a cluster or of its groups, ``None`` where they say none or several: not what is judged."""
    stack = cluster.resource.region if cluster.resource else None
    named = {region_of(each, cluster) for each in cluster.pools if each.is_group} - {None}
    return stack or (named.pop() if len(named) == 1 else None)


def _is_elsewhere(zone: str, region: str | None) -> bool:
    """Whether a text is the name of no zone of a region, or of no zone at all."""
    named = _ZONE.fullmatch(zone)
    return not zone.startswith(region or "") if named else bool(_MEANT.fullmatch(zone))


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
