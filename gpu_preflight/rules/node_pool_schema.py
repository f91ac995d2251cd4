"""Rules for NodePools and EC2NodeClasses that the API server rejects.

Source: aws/karpenter-provider-aws v1.14.1 pkg/apis/crds, the rules in the CustomResourceDefinitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpu_facts.hardware.catalogue import InstanceType, catalogue
from gpu_facts.hardware.node_capacity import least_memory
from gpu_facts.kubernetes import LEAST_KARPENTER
from gpu_facts.labels import CAPACITY_TYPE, GPU_TAINT, HOSTNAME, KARPENTER_AWS_DOMAIN, KARPENTER_DOMAIN, NODE_POOL
from gpu_facts.quantities import show
from gpu_facts.refusals import did_you_mean
from gpu_facts.resources import GPU
from gpu_preflight.case import Case
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.label_values import Selection
from gpu_preflight.node.nodes import gpu_types, minor
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, items, known_number, known_text, mapping, mappings
from gpu_preflight.rule import Problem, rule

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
_CHOOSES = ("instance-gpu-name", "instance-gpu-memory", "instance-family", "instance-type", "nodepool")
_SPREAD = 2
# With fewer zones, GPU021 reports a pool of spot instances of one type.
_SPOT_ZONES = 3


@rule("GPU180", "error", source=_CRDS)
def nodepool_that_the_api_server_refuses(case: Case) -> Iterator[Problem]:
    """API server rejects the NodePool.

    The deployment fails, or the pool doesn't exist and its pods stay Pending.

    Fix: Correct the field as the message states.
    """
    cluster = case.cluster
    for each in cluster.objects_of_kind("NodePool"):
        if each.content.get("apiVersion") == f"{KARPENTER_DOMAIN}/{_SERVED}":
            yield from _without_pause(each, cluster)
            yield from _problems(each, _pool_faults(each), cluster)


def _problems(
    each: Object, faults: Iterable[str], cluster: Cluster, *, unknown: bool = False, field: str = ""
) -> Iterator[Problem]:
    for text in faults:
        for subject in cluster.dependent_parts(each):
            problem = Problem(subject, text, unknown=unknown, name=f"{each.kind} {each.name}")
            yield problem.in_object(each, field)


def _version(cluster: Cluster) -> tuple[int, int] | None:
    """Return the minor version of Karpenter; ``None`` if it isn't known."""
    karpenter = cluster.autoscaler("karpenter")
    return minor(karpenter.version) if karpenter and karpenter.version else None


def _without_pause(pool: Object, cluster: Cluster) -> Iterator[Problem]:
    disruption, version = pool.spec.get("disruption"), _version(cluster)
    if isinstance(disruption, dict) and "consolidateAfter" not in disruption:
        text = "disruption has no consolidateAfter, which Karpenter before 1.15 requires"
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
            yield "a disruption budget must set schedule and duration, or neither, but sets only one"


def _static_faults(spec: Any) -> Iterator[str]:
    if spec.get("replicas") is None:
        return
    if spec.get("weight") is not None:
        yield "replicas and weight exclude each other, but both are set"
    others = [key for key in mapping(spec.get("limits")) if key != "nodes"]
    if others:
        yield f"a pool with replicas allows only limits.nodes, got limits.{', limits.'.join(others)}"


def _requirement_faults(requirement: dict[str, Any]) -> Iterator[str]:
    key, operator = requirement.get("key"), known_text(requirement.get("operator"))
    values = requirement.get("values")
    if isinstance(values, Unknown) or operator is None:
        return
    listed, least = items(values), known_number(requirement.get("minValues"))
    if operator == "In" and not listed:
        yield f"requirement {key}: operator In has no values"
    if operator in _NUMERIC and not _is_one_number(listed):
        yield f"requirement {key}: operator {operator} needs one whole number"
    if operator == "In" and least is not None and least > len(listed):
        yield f"requirement {key}: minValues {least} is more than its {len(listed)} values"
    yield from _label_faults(key)


def _is_one_number(values: list[Any]) -> bool:
    number = known_number(values[0]) if len(values) == 1 else None
    return (number is not None and number >= 0) or (len(values) == 1 and isinstance(values[0], Unknown))


def _label_faults(key: Any) -> Iterator[str]:
    text = known_text(key) or ""
    domain = text.partition("/")[0]
    if domain.endswith(KARPENTER_AWS_DOMAIN) and text not in _LABELS and "${" not in text:
        yield f"Karpenter has no label {text}{did_you_mean(text, _LABELS)}"
    restricted = domain == KARPENTER_DOMAIN or domain.endswith(f".{KARPENTER_DOMAIN}")
    if text in (NODE_POOL, HOSTNAME) or (restricted and text != CAPACITY_TYPE):
        yield f"label {text} is reserved and can't be set{did_you_mean(text, (CAPACITY_TYPE,))}"


@rule("GPU181", "error", source=_CRDS)
def ec2nodeclass_that_the_api_server_refuses(case: Case) -> Iterator[Problem]:
    """API server rejects the EC2NodeClass.

    The deployment fails, or the class doesn't exist and its pools create no node.

    Fix: Correct the field as the message states.
    """
    cluster = case.cluster
    for each in cluster.objects_of_kind("EC2NodeClass"):
        served = each.content.get("apiVersion") == f"{KARPENTER_AWS_DOMAIN}/{_SERVED}"
        if served and not isinstance(each.content.get("spec"), Unknown):
            yield from _problems(each, _identity_faults(each.spec), cluster, field="spec")
            yield from _problems(each, _image_faults(each.spec), cluster, field="spec.amiSelectorTerms")


def _identity_faults(spec: Mapping[str, Any]) -> Iterator[str]:
    identities = [key for key in ("role", "instanceProfile") if spec.get(key) is not None]
    if len(identities) != 1:
        yield f"exactly one of role and instanceProfile must be set, got {' and '.join(identities) or 'none'}"


def _image_faults(spec: Mapping[str, Any]) -> Iterator[str]:
    terms = spec.get("amiSelectorTerms")
    if isinstance(terms, Unknown):
        return
    listed = mappings(terms)
    aliased = [each for each in listed if each.get("alias") is not None]
    if aliased and (
        len(listed) > 1 or any(each.get(key) for each in aliased for key in ("id", "tags", "name", "owner"))
    ):
        yield "amiSelectorTerms must contain only the alias, without other terms or keys"
    if listed and not aliased and spec.get("amiFamily") is None and all(map(_is_plain, items(terms))):
        yield "amiFamily must be set if amiSelectorTerms has no alias"
    for each in aliased:
        yield from _alias_faults(known_text(each.get("alias")), known_text(spec.get("amiFamily")))


def _is_plain(term: Any) -> bool:
    return isinstance(term, dict)


def _alias_faults(alias: str | None, family: str | None) -> Iterator[str]:
    if alias is None:
        return
    name, at, version = alias.partition("@")
    if not at or name not in _FAMILIES:
        yield f"alias must have the form <family>@<version>, got {alias!r}{did_you_mean(name, _FAMILIES)}"
    elif family not in (None, "Custom", _FAMILIES[name]):
        yield f"alias {alias} and amiFamily {family} contradict each other"
    if name.startswith("windows") and version != "latest":
        yield f"alias {alias} must end with @latest, the only version for Windows"


def _rows(pool: Pool) -> list[InstanceType]:
    return [catalogue()[name] for name in gpu_types(pool)]


@rule(
    "GPU256", "warning", source="kubernetes-sigs/karpenter v1.14.1 pkg/controllers/provisioning/scheduling/scheduler.go"
)
def nodepool_whose_cpu_or_memory_limit_stops_before_its_gpus(case: Case) -> Iterator[Problem]:
    """NodePool's CPU or memory limit blocks some of its GPUs.

    Karpenter skips types that exceed the rest of a limit, so these GPUs are never launched.

    Fix: Limit only nvidia.com/gpu, or raise cpu and memory to the sum of that many nodes.
    """
    for pool in case.gpu_pools:
        gpus = pool.limits.get(GPU)
        if not gpus or pool.is_group:
            continue
        short: dict[str, int] = {}
        for model in dict.fromkeys(row.gpu_model for row in _rows(pool)):
            rows = [row for row in _rows(pool) if row.gpu_model == model and 0 < row.ec2_gpus <= gpus]
            reached = [(_nodes(pool, row) * row.ec2_gpus, row) for row in rows]
            best = max(reached, key=lambda each: each[0], default=None)
            if best is not None and best[0] < gpus // best[1].ec2_gpus * best[1].ec2_gpus:
                short[best[1].name] = best[0]
        if short and not case.cluster.objects_of_kind("NodeOverlay"):
            yield Problem.from_subject(pool, _bound_text(pool, short, gpus))


def _nodes(pool: Pool, row: InstanceType) -> int:
    """Return how many nodes of a type the CPU and memory limits allow."""
    figures = ((pool.limits.get("cpu"), (row.vcpus or 0) * 1000), (pool.limits.get("memory"), least_memory(row)))
    counts = [limit // figure for limit, figure in figures if limit is not None and figure]
    return min(counts, default=10**9)


def _bound_text(pool: Pool, reached: dict[str, int], gpus: int) -> str:
    shown = " and ".join(f"{show(name, pool.limits[name])} {name}" for name in ("cpu", "memory") if name in pool.limits)
    best, least = max(reached, key=lambda name: reached[name]), min(reached, key=lambda name: reached[name])
    tail = f", or {reached[least]} as {least}" if reached[least] < reached[best] else ""
    return f"its limits of {shown} allow only {reached[best]} of its {gpus} GPUs as {best}{tail}"


@rule("GPU257", "warning", source="https://karpenter.sh/v1.14/reference/instance-types/")
def nodepool_with_gpus_that_are_not_alike(case: Case) -> Iterator[Problem]:
    """NodePool offers GPUs of very different sizes.

    A pod that requests nvidia.com/gpu: 1 gets the cheapest available GPU. It may be too small for the model, or far too
    expensive.

    Fix: Create a NodePool for each GPU model, or make pods select instance-gpu-name.
    """
    if _chosen(case.cluster):
        return
    meant = [each for each in case.gpu_pools if not each.is_group and _is_for_gpus(each)]
    for pools in _interchangeable(meant):
        sizes = {row.gpu_model: row.gpu_memory_mib for pool in pools for row in _rows(pool) if row.gpu_memory_mib}
        least = min(sizes, key=lambda each: sizes[each], default="")
        most = max(sizes, key=lambda each: sizes[each], default="")
        if sizes and sizes[most] >= _SPREAD * sizes[least]:
            low, high = (round(sizes[each] / 1024) for each in (least, most))
            figures = f"{least} with {low} GiB or {most} with {high} GiB of memory"
            others = ", ".join(each.name for each in pools[1:])
            also = f"; NodePool {others} with the same weight accepts it too" if others else ""
            yield Problem.from_subject(pools[0], f"a pod that requests one GPU may get {figures}{also}")


def _interchangeable(pools: list[Pool]) -> list[list[Pool]]:
    """Return NodePools that accept the same pods, by weight, taints and labels; Karpenter uses any of them.

    Source: https://karpenter.sh/v1.14/concepts/scheduling/#weighted-nodepools (2026-11)
    """
    found: dict[Any, list[Pool]] = {}
    for pool in pools:
        own = [each for each in pool.requirements if not _is_of_karpenter(each.key)]
        parts = (pool.taints, pool.template_labels.items(), own)
        key = (pool.kind, pool.weight, *(frozenset(map(str, each)) for each in parts))
        found.setdefault(key, []).append(pool)
    return list(found.values())


def _is_of_karpenter(key: str) -> bool:
    """Whether Karpenter or Kubernetes defines a label, instead of the NodePool's author."""
    return key.partition("/")[0].endswith((KARPENTER_DOMAIN, "k8s.aws", "kubernetes.io", "amazonaws.com"))


def _is_for_gpus(pool: Pool) -> bool:
    """Whether the pool is meant for GPUs, and not for all instance types."""
    tainted = any(taint.key == GPU_TAINT for taint in pool.taints)
    return tainted or any("instance-gpu-" in each.key for each in pool.requirements)


def _chosen(cluster: Cluster) -> bool:
    """Whether every GPU pod selects the GPU that it uses."""
    asking = [each for each in cluster.workloads if each.asks_for_gpu]
    return bool(asking) and all(_chooses(each.pod.selection) for each in asking)


def _chooses(chosen: Selection) -> bool:
    keys = [each.key for each in chosen.selector]
    keys += [each.key for term in chosen.terms or () for each in term.labels]
    return any(key.endswith(_CHOOSES) or key.endswith("/pool") for key in keys)


@rule("GPU479", "note", source="https://github.com/aws/karpenter-provider-aws/issues/9554")
def nodepool_with_one_instance_type(case: Case) -> Iterator[Problem]:
    """NodePool allows only one instance type.

    If EC2 has no capacity of this type, Karpenter has no other type to launch, and the pods stay Pending.

    Fix: Allow more sizes or families with the same GPU, add a second NodePool that the pods accept, or reserve capacity
    with capacityReservationSelectorTerms.
    """
    for pool in case.gpu_pools:
        types = gpu_types(pool)
        zones = {str(each) for each in pool.zones}
        # GPU022 reports one type in one zone, and GPU021 too few spot combinations.
        known = len(zones) == 1 or (pool.capacity_types == ("spot",) and len(zones) < _SPOT_ZONES)
        if pool.is_group or len(types) != 1 or known or _is_reserved(pool) or pool.limits.get("nodes") == 0:
            continue
        if not _has_fallback(case, pool):
            how = " or ".join(pool.capacity_types) or "on-demand"
            yield Problem.from_subject(
                pool, f"its requirements allow only {types[0]} ({how}), and its pods have no other pool"
            )


def _is_reserved(pool: Pool) -> bool:
    """Whether nodes of a pool use, or may use, reserved capacity."""
    terms = pool.launch.written.get("capacityReservationSelectorTerms")
    return "reserved" in pool.capacity_types or "capacity-block" in pool.capacity_types or bool(terms)


def _has_fallback(case: Case, pool: Pool) -> bool:
    """Whether pods of the pool can also run in another pool."""
    open_to = [case.candidate_pools(each) for each in case.gpu_workloads]
    taking = [pools for pools in open_to if any(each is pool for each in pools)]
    return bool(taking) and all(len(pools) > 1 for pools in taking)


@rule("GPU258", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/create-node-pool.html")
def nodepool_of_karpenter_in_a_cluster_of_eks_auto_mode(case: Case) -> Iterator[Problem]:
    """Karpenter NodePool is in a cluster with EKS Auto Mode.

    Auto Mode creates nodes only for NodePools with a NodeClass of eks.amazonaws.com.

    Fix: Refer to a NodeClass of group eks.amazonaws.com, and write requirements with eks.amazonaws.com/instance-*.
    """
    cluster = case.cluster
    runs = cluster.runs("karpenter")
    if not cluster.auto_mode or cluster.autoscaler("karpenter") is not None:
        return
    for pool in cluster.pools:
        if pool.kind == "karpenter":
            text = "it uses an EC2NodeClass, which EKS Auto Mode of this cluster doesn't support"
            yield Problem.from_subject(pool, text, unknown=runs is not Answer.NO)


@rule("GPU259", "warning", source="https://karpenter.sh/v1.15/upgrading/compatibility/")
def karpenter_that_is_older_than_the_cluster_allows(case: Case) -> Iterator[Problem]:
    """Karpenter is too old for the cluster's Kubernetes version.

    This Karpenter version doesn't support this Kubernetes version. It may find no image, or fail on fields that it
    doesn't know.

    Fix: Upgrade Karpenter before the cluster.
    """
    cluster = case.cluster
    karpenter = cluster.autoscaler("karpenter")
    least = LEAST_KARPENTER.get(minor(cluster.version)[1]) if cluster.version else None
    if karpenter and karpenter.version and least and (0, 0) < minor(karpenter.version) < least:
        message = (
            f"Karpenter {karpenter.version} is too old for Kubernetes {cluster.version}, which needs"
            f" Karpenter {least[0]}.{least[1]} or later"
        )
        yield Problem(karpenter, message)
