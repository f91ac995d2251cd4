"""NodePools and EC2NodeClasses that the API server refuses.

Source: aws/karpenter-provider-aws v1.14.1 pkg/apis/crds, the rules in the CustomResourceDefinitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gpu_facts.labels import CAPACITY_TYPE, HOSTNAME, KARPENTER_AWS_DOMAIN, KARPENTER_DOMAIN, NODE_POOL
from gpu_facts.refusals import did_you_mean
from gpu_preflight.case import Case
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.node.nodes import minor
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, items, known_number, known_text, mapping, mappings
from gpu_preflight.rules.rule import Problem, rule

_CRDS = "aws/karpenter-provider-aws v1.14.1 pkg/apis/crds"
_LABELS = tuple(
    f"{KARPENTER_AWS_DOMAIN}/{each}"
    for each in (
        *("capacity-reservation-id", "capacity-reservation-interruptible", "capacity-reservation-type"),
        *("ec2nodeclass", "instance-accelerator-count", "instance-accelerator-manufacturer"),
        *("instance-accelerator-name", "instance-capability-flex", "instance-category", "instance-cpu"),
        *("instance-cpu-manufacturer", "instance-cpu-sustained-clock-speed-mhz", "instance-ebs-bandwidth"),
        *("instance-encryption-in-transit-supported", "instance-family", "instance-generation"),
        *("instance-gpu-count", "instance-gpu-manufacturer", "instance-gpu-memory", "instance-gpu-name"),
        *("instance-hypervisor", "instance-local-nvme", "instance-memory", "instance-network-bandwidth"),
        *("instance-size", "instance-tenancy", "placement-group-id", "placement-group-partition", "nitro-sandbox"),
    )
)
_NUMERIC = ("Gt", "Lt", "Gte", "Lte")
_FAMILIES = {
    "al2": "AL2",
    "al2023": "AL2023",
    "bottlerocket": "Bottlerocket",
    "windows2019": "Windows2019",
    "windows2022": "Windows2022",
    "windows2025": "Windows2025",
}
_SERVED = "v1"
# Karpenter with a default for consolidateAfter.
# Source: kubernetes-sigs/karpenter 12b9fd9ae (2026-08-07)
_WITH_DEFAULT = (1, 15)


@rule("GPU180", "error", source=_CRDS)
def nodepool_that_the_api_server_refuses(case: Case) -> Iterator[Problem]:
    """NodePool that the API server refuses.

    The deployment fails, or the pool is not there and its pods stay Pending.

    Fix: Correct the field as the message says.
    """
    cluster = case.cluster
    for each in cluster.of_kind("NodePool"):
        if each.content.get("apiVersion") == f"{KARPENTER_DOMAIN}/{_SERVED}":
            yield from _without_pause(each, cluster)
            yield from _problems(each, _pool_faults(each), cluster)


def _problems(each: Object, faults: Iterable[str], cluster: Cluster, *, unknown: bool = False) -> Iterator[Problem]:
    for text in faults:
        for subject in cluster.parts_of(each):
            yield Problem(subject, f"{each.kind} {each.name}: {text}", unknown=unknown)


def _version(cluster: Cluster) -> tuple[int, int] | None:
    """Return the minor version of Karpenter, ``None`` where it is not known."""
    karpenter = cluster.autoscaler("karpenter")
    return minor(karpenter.version) if karpenter and karpenter.version else None


def _without_pause(pool: Object, cluster: Cluster) -> Iterator[Problem]:
    disruption, version = pool.spec.get("disruption"), _version(cluster)
    if isinstance(disruption, dict) and "consolidateAfter" not in disruption:
        text = "disruption is given without consolidateAfter, which Karpenter before 1.15 wants"
        if version is None or version < _WITH_DEFAULT:
            yield from _problems(pool, [text], cluster, unknown=version is None)


def _pool_faults(pool: Object) -> Iterator[str]:
    yield from _disruption_faults(pool.spec.get("disruption"))
    yield from _static_faults(pool.spec)
    for each in mappings(dig(pool.spec, "template", "spec", "requirements")):
        yield from _requirement_faults(each)
    for key in mapping(dig(pool.spec, "template", "metadata", "labels")):
        yield from _label_faults(key)


def _disruption_faults(disruption: Any) -> Iterator[str]:
    for budget in mappings(mapping(disruption).get("budgets")):
        if ("schedule" in budget) != ("duration" in budget):
            yield "a budget has only one of schedule and duration"


def _static_faults(spec: Any) -> Iterator[str]:
    if spec.get("replicas") is None:
        return
    if spec.get("weight") is not None:
        yield "replicas and weight exclude each other"
    others = [key for key in mapping(spec.get("limits")) if key != "nodes"]
    if others:
        yield f"with replicas only limits.nodes is allowed, not {', '.join(others)}"


def _requirement_faults(requirement: dict[str, Any]) -> Iterator[str]:
    key, operator = requirement.get("key"), known_text(requirement.get("operator"))
    values = requirement.get("values")
    if isinstance(values, Unknown) or operator is None:
        return
    listed, least = items(values), known_number(requirement.get("minValues"))
    if operator == "In" and not listed:
        yield f"{key}: operator In has no values"
    if operator in _NUMERIC and not _is_one_number(listed):
        yield f"{key}: operator {operator} needs one whole number"
    if operator == "In" and least is not None and least > len(listed):
        yield f"{key}: minValues {least} is more than its {len(listed)} values"
    yield from _label_faults(key)


def _is_one_number(values: list[Any]) -> bool:
    number = known_number(values[0]) if len(values) == 1 else None
    return (number is not None and number >= 0) or (len(values) == 1 and isinstance(values[0], Unknown))


def _label_faults(key: Any) -> Iterator[str]:
    text = known_text(key) or ""
    domain = text.partition("/")[0]
    if domain.endswith(KARPENTER_AWS_DOMAIN) and text not in _LABELS and "${" not in text:
        yield f"{text} is no label of Karpenter{did_you_mean(text, _LABELS)}"
    restricted = domain == KARPENTER_DOMAIN or domain.endswith(f".{KARPENTER_DOMAIN}")
    if text in (NODE_POOL, HOSTNAME) or (restricted and text != CAPACITY_TYPE):
        yield f"label {text} cannot be chosen{did_you_mean(text, (CAPACITY_TYPE,))}"


@rule("GPU181", "error", source=_CRDS)
def ec2nodeclass_that_the_api_server_refuses(case: Case) -> Iterator[Problem]:
    """EC2NodeClass that the API server refuses.

    The deployment fails, or the class is not there and its pools make no node.

    Fix: Correct the field as the message says.
    """
    cluster = case.cluster
    for each in cluster.of_kind("EC2NodeClass"):
        served = each.content.get("apiVersion") == f"{KARPENTER_AWS_DOMAIN}/{_SERVED}"
        if served and not isinstance(each.content.get("spec"), Unknown):
            yield from _problems(each, _class_faults(dict(each.spec)), cluster)


def _class_faults(spec: dict[str, Any]) -> Iterator[str]:
    identities = [key for key in ("role", "instanceProfile") if spec.get(key) is not None]
    if len(identities) != 1:
        yield "exactly one of role and instanceProfile must be given"
    terms = spec.get("amiSelectorTerms")
    if isinstance(terms, Unknown):
        return
    listed = mappings(terms)
    aliased = [each for each in listed if each.get("alias") is not None]
    if aliased and (
        len(listed) > 1 or any(each.get(key) for each in aliased for key in ("id", "tags", "name", "owner"))
    ):
        yield "an alias stands alone, without further terms"
    if listed and not aliased and spec.get("amiFamily") is None and all(map(_is_plain, items(terms))):
        yield "amiFamily must be given where no alias is"
    for each in aliased:
        yield from _alias_faults(known_text(each.get("alias")), known_text(spec.get("amiFamily")))


def _is_plain(term: Any) -> bool:
    return isinstance(term, dict)


def _alias_faults(alias: str | None, family: str | None) -> Iterator[str]:
    if alias is None:
        return
    name, at, version = alias.partition("@")
    if not at or name not in _FAMILIES:
        yield f"alias {alias!r} is not <family>@<version>{did_you_mean(name, _FAMILIES)}"
    elif family not in (None, "Custom", _FAMILIES[name]):
        yield f"alias {alias} and amiFamily {family} contradict each other"
    if name.startswith("windows") and version != "latest":
        yield f"alias {alias}: Windows has only version latest"
