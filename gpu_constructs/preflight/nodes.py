"""The nodes that a pool would make: what each really has for pods, and what its autoscaler believes it has.

The two differ, and every pod that is Pending beside an autoscaler that does nothing, or one that launches node after
node, falls into the difference.

Sources: kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/cloudprovider/aws/aws_manager.go
``buildNodeFromTemplate``; aws/karpenter-provider-aws v1.14.1 pkg/providers/instancetype/types.go
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from gpu_constructs.hardware.catalogue import InstanceType, catalogue
from gpu_constructs.preflight import device_sharing
from gpu_constructs.preflight.answer import Answer, all_of
from gpu_constructs.preflight.device_sharing import Offer
from gpu_constructs.preflight.images import has_driver
from gpu_constructs.preflight.instance_labels import autoscaler_labels, kubelet_labels
from gpu_constructs.preflight.label_values import Labels, LabelValues, exactly
from gpu_constructs.preflight.model import EFA, GPU, Cluster, DaemonSet, Object, Pool, Taint
from gpu_constructs.preflight.node_selection import selection
from gpu_constructs.preflight.node_size import allocatable
from gpu_constructs.preflight.pod_size import host_ports, pod_requests
from gpu_constructs.preflight.pools import CAPACITY, LABEL_TAG, TAINT_TAG, TYPE, ZONE, group_tags
from gpu_constructs.preflight.quantity import MIB, quantity, resources
from gpu_constructs.preflight.taints import flag_taint, untolerated
from gpu_constructs.preflight.unknown import Unknown, known_text, mapping, mappings

HUGE_PAGES = "hugepages-2Mi"
# What AL2023's EFA driver sets aside, of 2 MiB each.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html (2026-08)
_EFA_HUGE_PAGES = 5128 * 2 * MIB
GPU_PRESENT = "nvidia.com/gpu.present"
# nodeadm labels nodes with a GPU itself from this minor on.
# Source: awslabs/amazon-eks-ami v20260724 nodeadm/internal/kubelet/config.go
_LABELLED_FROM = (1, 35)
_GROUP_PODS = 110
# Labels that NVIDIA's feature discovery adds once a node runs.
# Source: NVIDIA/k8s-device-plugin v0.20.0 docs/gpu-feature-discovery/README.md
_DISCOVERED = tuple(
    f"nvidia.com/{name}"
    for name in (
        "cuda.driver-version.full",
        "cuda.driver-version.major",
        "cuda.driver.major",
        "cuda.runtime-version.full",
        "cuda.runtime.major",
        "gfd.timestamp",
        "gpu.compute.major",
        "gpu.compute.minor",
        "gpu.count",
        "gpu.family",
        "gpu.machine",
        "gpu.memory",
        "gpu.mode",
        "gpu.product",
        "gpu.replicas",
        "gpu.sharing-strategy",
        "mig.capable",
        "mig.strategy",
        "mps.capable",
    )
)


@dataclass(frozen=True, slots=True)
class NodeToBe:
    """A fresh node of a pool.

    Attributes:
        instance_type: EC2 name; ``None`` where it is not known.
        row: Its row in the catalogue; ``None`` for a type without NVIDIA GPUs.
        labels: Its labels once its software runs.
        taints: Its taints once its startup taints are gone.
        least: What it has for pods at least, beside what DaemonSets take.
        most: What it has for pods at most.
        unsaid: Resources of which it is not known whether it has them.
        alone: Resources of which a pod may ask for one only.
        believed_labels: Labels that the autoscaler expects of it.
        believed_taints: Taints that the autoscaler expects of it.
        believed: What the autoscaler expects it to have for pods, beside what DaemonSets take.
        ports: Host ports that DaemonSets take.
        device_managers: Names of what advertises its GPUs.
    """

    instance_type: str | None
    row: InstanceType | None
    labels: Labels
    taints: tuple[Taint, ...]
    least: Mapping[str, int]
    most: Mapping[str, int]
    unsaid: frozenset[str] = frozenset()
    alone: frozenset[str] = frozenset()
    believed_labels: Labels = field(default_factory=dict)
    believed_taints: tuple[Taint, ...] = ()
    believed: Mapping[str, int] = field(default_factory=dict)
    ports: frozenset[tuple[str, str, int]] = frozenset()
    device_managers: tuple[str, ...] = ()


@lru_cache(maxsize=4096)
def _types_meeting(requirements: tuple[Any, ...], kind: str) -> tuple[str, ...]:
    found = []
    for name in catalogue():
        labels = kubelet_labels(name) | autoscaler_labels(name, kind)
        relevant = [each for each in requirements if each.key in labels or _is_of_the_type(each.key)]
        if all(each.met_by(labels) is not Answer.NO for each in relevant):
            found.append(name)
    return tuple(found)


def _is_of_the_type(key: str) -> bool:
    return key.startswith(("karpenter.k8s.aws/instance-", "eks.amazonaws.com/instance-"))


def gpu_types(pool: Pool) -> tuple[str, ...]:
    """Return the NVIDIA instance types that a pool may launch."""
    if pool.kind in ("karpenter", "auto-mode"):
        return _types_meeting(pool.requirements, pool.kind)
    return tuple(name for name in pool.instance_types if name in catalogue())


def may_have_gpus(pool: Pool) -> bool:
    """Whether a node of the pool may have NVIDIA GPUs."""
    return bool(gpu_types(pool))


def nodes_to_be(pool: Pool, cluster: Cluster) -> tuple[NodeToBe, ...]:
    """Return a fresh node of each instance type of a pool; one of an unknown type where no type is known."""
    names: tuple[str | None, ...] = gpu_types(pool) or tuple(pool.instance_types) or (None,)
    if pool.is_group:
        names = pool.instance_types or (None,)
    overlays = cluster.of_kind("NodeOverlay") if pool.kind == "karpenter" else []
    return tuple(_node(pool, name, cluster, overlays) for name in names)


def _node(pool: Pool, name: str | None, cluster: Cluster, overlays: list[Object]) -> NodeToBe:
    row = catalogue().get(name) if name else None
    given = _given_labels(pool, name)
    at_boot = given | _booted_labels(pool, row, cluster)
    reached = [(each, _reaches(each, at_boot, pool.taints)) for each in cluster.daemon_sets]
    labels = at_boot | _discovered_labels(reached)
    least, most = allocatable(pool, row) if row else ({}, {})
    unsaid = frozenset(("cpu", "memory", "pods", "ephemeral-storage")).difference(most)
    devices = _devices(pool, row, cluster, reached)
    least, most = {**least, **devices.least}, {**most, **devices.most}
    certain = [pod_requests(each.pod) for each, answer in reached if answer is Answer.YES]
    possible = [pod_requests(each.pod) for each, answer in reached if answer is not Answer.NO]
    for each in certain:
        most = _without(most, each)
    for each in possible:
        least = _without(least, each)
    believed, believed_labels, believed_taints = _belief(pool, name, row, given, cluster, overlays, least)
    for each in certain:
        believed = _without(believed, each)
    return NodeToBe(
        instance_type=name,
        row=row,
        labels=labels,
        taints=pool.taints,
        least=least,
        most=most,
        unsaid=unsaid | devices.unsaid,
        alone=devices.alone,
        believed_labels=believed_labels,
        believed_taints=believed_taints,
        believed=believed,
        ports=frozenset(port for each, answer in reached if answer is Answer.YES for port in host_ports(each.pod)),
        device_managers=devices.names,
    )


def _without(have: Mapping[str, int], taken: Mapping[str, int]) -> dict[str, int]:
    return {name: amount - taken.get(name, 0) for name, amount in have.items()}


def _given_labels(pool: Pool, name: str | None) -> dict[str, LabelValues | Unknown]:
    """Return the labels that a node registers with."""
    zones = [each for each in pool.zones if isinstance(each, str)]
    every = len(zones) == len(pool.zones) and zones
    zone = exactly(*zones) if every else Unknown("${zone}")
    typed = (kubelet_labels(name) | autoscaler_labels(name, pool.kind)) if name else {TYPE: Unknown("${type}")}
    placed: dict[str, LabelValues | Unknown] = {
        ZONE: zone,
        "failure-domain.beta.kubernetes.io/zone": zone,
        "topology.kubernetes.io/region": Unknown("${region}"),
        "topology.k8s.aws/zone-id": Unknown("${zone id}"),
        "topology.ebs.csi.aws.com/zone": zone,
        "kubernetes.io/hostname": Unknown("${hostname}"),
    }
    capacity = {CAPACITY: exactly(*pool.capacity_types)} if pool.autoscaler != "cluster-autoscaler" else {}
    return {**pool.labels, **placed, **typed, **capacity}


def _booted_labels(pool: Pool, row: InstanceType | None, cluster: Cluster) -> dict[str, LabelValues | Unknown]:
    """Return the labels that AL2023 itself gives a node with a GPU."""
    if row is None or pool.operating_system != "al2023" or has_driver(pool) is not Answer.YES:
        return {}
    if cluster.version is None:
        return (
            {} if GPU_PRESENT in pool.labels else {GPU_PRESENT: LabelValues(frozenset(("true",)), may_be_absent=True)}
        )
    return {GPU_PRESENT: exactly("true")} if minor(cluster.version) >= _LABELLED_FROM else {}


def minor(version: str) -> tuple[int, int]:
    """Return a Kubernetes version as numbers."""
    major, _, rest = version.partition(".")
    digits = rest.partition(".")[0]
    return (int(major), int(digits)) if major.isdigit() and digits.isdigit() else (0, 0)


def _reaches(daemon: DaemonSet, labels: Labels, taints: tuple[Taint, ...]) -> Answer:
    """Say whether a DaemonSet runs on a node with such labels and taints."""
    kept_off = [answer for _, answer in untolerated(daemon.pod, taints, daemon=True)]
    tolerated = Answer.YES if not kept_off else Answer.NO if Answer.NO in kept_off else Answer.UNKNOWN
    taken = selection(daemon.pod).takes(labels)
    answer = all_of((tolerated, taken))
    return Answer.UNKNOWN if answer is Answer.YES and not daemon.exact else answer


def reaches(daemon: DaemonSet, pool: Pool, cluster: Cluster) -> Answer:
    """Say whether a DaemonSet runs on every node of a pool."""
    names = gpu_types(pool) or tuple(pool.instance_types) or (None,)
    answers = []
    for name in names:
        row = catalogue().get(name) if name else None
        labels = _given_labels(pool, name) | _booted_labels(pool, row, cluster)
        answers.append(_reaches(daemon, labels, pool.taints))
    return all_of(answers)


def _discovered_labels(reached: list[tuple[DaemonSet, Answer]]) -> dict[str, LabelValues | Unknown]:
    runs = any("feature-discovery" in each.name and answer is not Answer.NO for each, answer in reached)
    return {key: Unknown(f"${{{key}}}") for key in _DISCOVERED} if runs else {}


@dataclass(frozen=True, slots=True)
class _Devices:
    least: Mapping[str, int]
    most: Mapping[str, int]
    unsaid: frozenset[str]
    alone: frozenset[str]
    names: tuple[str, ...]


def _devices(
    pool: Pool, row: InstanceType | None, cluster: Cluster, reached: list[tuple[DaemonSet, Answer]]
) -> _Devices:
    """Return what device managers register on a node."""
    gpus, names = _gpus(pool, row, cluster, reached)
    efa_count = efa_interfaces(pool, row)
    plugins = [answer for each, answer in reached if EFA in each.advertises]
    unsaid: set[str] = set(gpus.unsaid)
    least, most = dict(gpus.least), dict(gpus.most)
    if efa_count and Answer.YES in plugins:
        least[EFA] = most[EFA] = efa_count
    elif efa_count and (Answer.UNKNOWN in plugins or not sees_software(cluster)):
        unsaid.add(EFA)
    if efa_count and pool.operating_system == "al2023":
        least[HUGE_PAGES] = most[HUGE_PAGES] = _EFA_HUGE_PAGES
    elif row is not None:
        unsaid.add(HUGE_PAGES)
    return _Devices(least, most, frozenset(unsaid), gpus.alone, names)


def efa_interfaces(pool: Pool, row: InstanceType | None) -> int | None:
    """Return how many EFA interfaces a node comes with."""
    if pool.is_group:
        kinds = [each.get("InterfaceType") for each in mappings(pool.launch.get("NetworkInterfaces"))]
        return sum(each in ("efa", "efa-only") for each in kinds)
    listed = mappings(pool.launch.get("networkInterfaces"))
    if listed:
        return sum(each.get("interfaceType") in ("efa", "efa-only") for each in listed)
    return row.max_efa if row else None


def sees_software(cluster: Cluster) -> bool:
    """Whether what runs in the cluster is in the input, so that what is not there does not run."""
    return cluster.whole and not cluster.opaque and bool(cluster.objects or cluster.charts)


def _gpus(
    pool: Pool, row: InstanceType | None, cluster: Cluster, reached: list[tuple[DaemonSet, Answer]]
) -> tuple[_Devices, tuple[str, ...]]:
    nothing = frozenset[str]()
    if row is None:
        unsaid = frozenset((GPU,)) if not pool.instance_types and not pool.requirements else nothing
        return _Devices({}, {}, unsaid, nothing, ()), ()
    offers = [*_built_in(pool, row), *_plugins(reached)]
    names = tuple(name for name, answer, _ in offers if answer is Answer.YES)
    if any(answer is Answer.YES for _, answer, _ in offers):
        _, _, offer = next(each for each in offers if each[1] is Answer.YES)
        return _offered(offer, row, pool), names
    if any(answer is Answer.UNKNOWN for _, answer, _ in offers) or not sees_software(cluster):
        return _Devices({}, {}, frozenset((GPU, f"{GPU}.shared")), nothing, ()), ()
    return _Devices({}, {}, nothing, nothing, ()), ()


def _built_in(pool: Pool, row: InstanceType) -> list[tuple[str, Answer, Offer]]:
    if pool.kind == "auto-mode":
        return [("EKS Auto Mode", Answer.YES, device_sharing.WHOLE)]
    if pool.operating_system == "bottlerocket" and has_driver(pool) is not Answer.NO:
        offer = device_sharing.bottlerocket_offer(pool.user_data.settings, row.family)
        return [("Bottlerocket", has_driver(pool), offer)] if offer else []
    return []


def _plugins(reached: list[tuple[DaemonSet, Answer]]) -> list[tuple[str, Answer, Offer]]:
    return [
        (each.name, answer, device_sharing.plugin_offer(each.config))
        for each, answer in reached
        if GPU in each.advertises and answer is not Answer.NO
    ]


def _offered(offer: Offer, row: InstanceType, pool: Pool) -> _Devices:
    if not offer.known:
        return _Devices({}, {}, frozenset((GPU, f"{GPU}.shared")), frozenset(), ())
    have = {name: row.gpus * times for name, times in offer.multiples.items()}
    # What was cut into slices at boot nobody can read from outside; the tag is what the author says of it.
    tagged = {name: amount for name, amount in declared(pool).items() if name.startswith("nvidia.com/mig-")}
    if offer.slices and tagged:
        have = tagged
    alone = frozenset(offer.multiples) if offer.alone else frozenset[str]()
    return _Devices(have, have, frozenset(), alone, ())


def declared(pool: Pool) -> dict[str, int]:
    """Return the resources that a node group's tags declare to cluster autoscaler."""
    found = {name: quantity(name, value) for name, value in pool.tags.items()}
    return {name: amount for name, amount in found.items() if amount is not None}


def _belief(
    pool: Pool,
    name: str | None,
    row: InstanceType | None,
    given: Labels,
    cluster: Cluster,
    overlays: list[Object],
    least: Mapping[str, int],
) -> tuple[dict[str, int], Labels, tuple[Taint, ...]]:
    if pool.autoscaler != "cluster-autoscaler":
        return _offering(pool, row, given, overlays, least), given, pool.taints
    first = catalogue().get(pool.instance_types[0]) if pool.instance_types else row
    believed = {"pods": _GROUP_PODS}
    if first is not None:
        if first.vcpus is not None:
            believed["cpu"] = first.vcpus * 1000
        if first.memory_mib is not None:
            believed["memory"] = first.memory_mib * MIB
        believed[GPU] = first.ec2_gpus
    labels, taints = _template(pool, name, given)
    return {**believed, **declared(pool)}, labels, taints


def _offering(
    pool: Pool, row: InstanceType | None, given: Labels, overlays: list[Object], least: Mapping[str, int]
) -> dict[str, int]:
    """Return what Karpenter expects: what EC2 reports, and what NodeOverlays add."""
    believed = {name: amount for name, amount in (allocatable(pool, row)[0] if row else {}).items()}
    if row is not None:
        believed[GPU] = row.ec2_gpus if pool.kind == "karpenter" else row.gpus
        efa = efa_interfaces(pool, row)
        if efa:
            believed[EFA] = efa
    for overlay in overlays:
        terms = [each for each in mappings(overlay.spec.get("requirements"))]
        if selection({"affinity": _affinity(terms)}).takes(given) is not Answer.NO:
            believed |= resources(overlay.spec.get("capacity"))
    return believed


def _affinity(expressions: list[dict[str, Any]]) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}} if expressions else {}


def _template(pool: Pool, name: str | None, given: Labels) -> tuple[Labels, tuple[Taint, ...]]:
    """Return labels and taints of the node that cluster autoscaler makes up for an empty group."""
    first_zone = pool.zones[0] if pool.zones else None
    zone: LabelValues | Unknown = exactly(first_zone) if isinstance(first_zone, str) else Unknown("${zone}")
    typed = kubelet_labels(pool.instance_types[0]) if pool.instance_types else {}
    known = {key: given[key] for key in ("topology.kubernetes.io/region", "kubernetes.io/hostname")}
    base: dict[str, LabelValues | Unknown] = {**known, **typed, ZONE: zone, "topology.ebs.csi.aws.com/zone": zone}
    if pool.kind == "managed":
        written = {key: given[key] for key in mapping(pool.properties.get("Labels")) if key in given}
        described = {
            "eks.amazonaws.com/capacityType": given.get("eks.amazonaws.com/capacityType", Unknown("${capacity}")),
            "eks.amazonaws.com/nodegroup": Unknown("${nodegroup}"),
        }
        # A taint without a value is dropped by cluster autoscaler.
        return base | described | written, tuple(each for each in pool.taints if not _is_dropped(each))
    tags = group_tags(pool.properties)
    labels = {
        key.removeprefix(LABEL_TAG): value if isinstance(value, Unknown) else exactly(str(value))
        for key, value in tags.items()
        if key.startswith(LABEL_TAG)
    }
    taints = [
        flag_taint(f"{key.removeprefix(TAINT_TAG)}={value}")
        for key, value in tags.items()
        if key.startswith(TAINT_TAG) and known_text(value) is not None
    ]
    return base | labels, tuple(each for each in taints if each is not None)


def _is_dropped(taint: Taint) -> bool:
    return taint.written_without_value


def total_gpus(node: NodeToBe) -> int:
    """Return the whole GPUs of a node."""
    return node.row.gpus if node.row else 0
