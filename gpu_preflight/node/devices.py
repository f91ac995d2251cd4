"""Devices that device managers register on a node: GPUs, their shares and MIG slices, EFA interfaces, huge pages.

Sources: device plugins: NVIDIA/k8s-device-plugin v0.20.0 api/config/v1/,
https://bottlerocket.dev/en/os/1.64.x/api/settings/kubelet-device-plugins/;
DRA: kubernetes-sigs/dra-driver-nvidia-gpu v0.4.1 deployments/helm/dra-driver-nvidia-gpu/templates/,
kubernetes/kubernetes v1.36.3 pkg/features/kube_features.go ``DRAExtendedResource``
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from gpu_facts.charts import DRA_DRIVER, DRA_DRIVERS, GPU_OPERATOR
from gpu_facts.hardware.catalogue import InstanceType, may_be_newer
from gpu_facts.hardware.gpu_models import BOTTLEROCKET_NAMES, PROFILES
from gpu_facts.labels import MIG_CONFIG, NODE_GROUP, NODE_POOL
from gpu_facts.light import dataclass, regex
from gpu_facts.quantities import MIB, quantity
from gpu_facts.resources import (
    DEVICE_CLASS,
    EFA,
    EFA_HUGE_PAGES,
    GPU,
    HUGE_PAGE_MIB,
    HUGE_PAGES,
    MIG,
    NVIDIA,
    SHARED,
    SHARED_GPU,
)
from gpu_preflight.cluster.images import has_driver
from gpu_preflight.cluster.pools import is_visible
from gpu_preflight.model.answer import Answer, all_yes
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.label_values import LabelValues
from gpu_preflight.model.software import DaemonSet, MissingConfig
from gpu_preflight.node.daemon_reach import Reached
from gpu_preflight.reading.objects import Chart
from gpu_preflight.reading.unknown import Unknown, dig, is_true, known_number, known_text, mapping, mappings

_BOTTLEROCKET_PLUGIN = ("kubelet-device-plugins", "nvidia")
_BOTTLEROCKET_REPLICAS = 2
# The component that partitions the GPUs of a node by its label MIG_CONFIG.
# Source: NVIDIA/gpu-operator v26.7.0 assets/state-mig-manager (2026-11)
_MANAGER = "mig-manager"
_EVERY_GPU = "all-"
_DISABLED = "all-disabled"
_PROFILE = regex(r"[0-9]g\.[0-9]{1,4}gb")
_MADE_BY_SCRIPT = regex(r"nvidia-smi\s{1,9}mig\b[^\n;|&]{0,200}?-cgi\s{1,9}([0-9a-z.,+]{1,400})")
_DRA_PROGRAM = "gpu-kubelet-plugin"
# DRAExtendedResource is beta and on by default from this version: a claimed device can satisfy a request for
# nvidia.com/gpu.
_BY_NAME_FROM = (1, 36)
# Source: kubernetes v1.36.1 staging/src/k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/constants.go
_DEVICE_PLUGINS = "/var/lib/kubelet/device-plugins"


@dataclass(frozen=True, slots=True)
class Offer:
    """How GPUs are offered.

    Attributes:
        multiples: Number of each resource per GPU.
        slices: Whether MIG slices are offered under separate names.
        uniform: Whether MIG slices are offered under the name of the whole GPU, on nodes with partitioned GPUs.
        alone: Whether kubelet rejects a pod that requests more than one.
        known: Whether the configuration could be read.
    """

    multiples: Mapping[str, int] = field(default_factory=lambda: {GPU: 1})
    slices: bool = False
    uniform: bool = False
    alone: bool = False
    known: bool = True


WHOLE = Offer()
NOT_KNOWN = Offer(known=False)


def plugin_offer(config: Any) -> Offer:
    """Return how NVIDIA's device plugin offers GPUs with a configuration; ``None`` is its default."""
    if config is None:
        return WHOLE
    if isinstance(config, MissingConfig):
        return Offer({})
    if isinstance(config, Unknown) or not isinstance(config, dict):
        return NOT_KNOWN
    strategy = dig(config, "flags", "migStrategy") or "none"
    if isinstance(strategy, Unknown):
        return NOT_KNOWN
    for way in ("timeSlicing", "mps"):
        sharing = mapping(dig(config, "sharing", way))
        if sharing:
            return _shared(sharing, way, strategy)
    return Offer(slices=strategy == "mixed", uniform=strategy == "single")


def _shared(sharing: Mapping[str, Any], way: str, strategy: str) -> Offer:
    multiples = {}
    for each in mappings(sharing.get("resources")):
        name, replicas = known_text(each.get("name")), known_number(each.get("replicas"))
        if name is None or replicas is None:
            return NOT_KNOWN
        renamed = known_text(each.get("rename")) or (name + SHARED if is_true(sharing.get("renameByDefault")) else name)
        multiples[renamed] = replicas
    # MPS always rejects more than one share.
    alone = way == "mps" or is_true(sharing.get("failRequestsGreaterThanOne"))
    mixed, single = strategy == "mixed", strategy == "single"
    return Offer(multiples or {GPU: 1}, slices=mixed, uniform=single, alone=alone)


def is_bottlerocket_plugin_disabled(settings: Mapping[str, Any]) -> bool:
    """Whether Bottlerocket's built-in plugin is disabled."""
    return dig(settings, *_BOTTLEROCKET_PLUGIN, "enabled") is False


def bottlerocket_offer(settings: Mapping[str, Any], family: str) -> Offer:
    """Return how Bottlerocket's built-in plugin offers GPUs on an instance family, if it is enabled."""
    plugin = mapping(dig(settings, *_BOTTLEROCKET_PLUGIN))
    way = plugin.get("device-sharing-strategy")
    if plugin.get("device-partitioning-strategy") == "mig":
        return _bottlerocket_slices(plugin, family)
    if way not in ("time-slicing", "mps"):
        return WHOLE
    sharing = mapping(plugin.get(way))
    replicas = known_number(sharing.get("replicas", _BOTTLEROCKET_REPLICAS))
    if replicas is None:
        return NOT_KNOWN
    # Bottlerocket renames by default.
    renamed = sharing.get("rename-by-default") is not False
    alone = way == "mps" or sharing.get("fail-requests-greater-than-one") is not False
    return Offer({SHARED_GPU if renamed else GPU: replicas}, alone=alone)


def _bottlerocket_slices(plugin: Mapping[str, Any], family: str) -> Offer:
    """Slices keep the name of the whole GPU: Bottlerocket has only the strategy "single"."""
    profile = dig(plugin, "mig", "profile", BOTTLEROCKET_NAMES.get(family, ""))
    slices = PROFILES.get(family, {}).get(profile) if isinstance(profile, str) else None
    return Offer({GPU: slices}) if slices else NOT_KNOWN


def single_label_value(pool: Pool, key: str) -> str | None:
    """Return the value of a label that every node of a pool has; ``None`` if there is none, or no single value."""
    value = pool.labels.get(key)
    return value.only if isinstance(value, LabelValues) else None


def bottlerocket_mig_settings(pool: Pool) -> Mapping[str, Any]:
    """Return the settings of Bottlerocket's device plugin, if they partition GPUs."""
    plugin = mapping(dig(pool.user_data.settings, *_BOTTLEROCKET_PLUGIN))
    return plugin if plugin.get("device-partitioning-strategy") == "mig" else {}


def mig_instances_from_script(pool: Pool) -> Counter[str] | None:
    """Return the MIG instances that user data creates on each GPU; ``None`` if it creates none."""
    found = next((hit for each in pool.user_data.scripts if (hit := _MADE_BY_SCRIPT.search(each))), None)
    return Counter(found.group(1).split(",")) if found else None


def is_partitioned(pool: Pool) -> bool:
    """Whether a component partitions the GPUs of a pool."""
    named = single_label_value(pool, MIG_CONFIG)
    return bool(bottlerocket_mig_settings(pool) or mig_instances_from_script(pool) or (named and named != _DISABLED))


def has_own_geometries(cluster: Cluster) -> bool:
    """Whether the GPU Operator has MIG geometries other than the defaults of its chart."""
    chart = cluster.chart(GPU_OPERATOR)
    return chart is not None and dig(chart.values, "migManager", "config") is not None


def slices(pool: Pool, row: InstanceType, cluster: Cluster, running: Reached) -> Mapping[str, int] | None:
    """Return how many slices a node has, by resource. Empty for whole GPUs, ``None`` if it isn't known.

    Args:
        pool: The pool.
        row: The row of its instance type.
        cluster: The cluster.
        running: Its DaemonSets, and whether they run on the node.
    """
    if not row.mig or not (is_partitioned(pool) or isinstance(pool.labels.get(MIG_CONFIG), Unknown)):
        return {}
    if mig_instances_from_script(pool):
        return None
    answers = {answer for each, answer in running if _MANAGER in each.name}
    if answers <= {Answer.NO} and cluster.sees_programs:
        return {}
    profile = (single_label_value(pool, MIG_CONFIG) or "").removeprefix(_EVERY_GPU)
    count = PROFILES.get(row.family, {}).get(profile) if _PROFILE.fullmatch(profile) else None
    certain = Answer.YES in answers and not has_own_geometries(cluster)
    return {f"{MIG}{profile}": count * row.gpus} if certain and count else None


def claims_chart(cluster: Cluster) -> Chart | None:
    """Return the release of NVIDIA's DRA driver."""
    return next((chart for each in DRA_DRIVERS if (chart := cluster.chart(each))), None)


def offers_gpus(chart: Chart) -> bool:
    """Whether a release of the driver may offer GPUs, and not only compute domains."""
    return dig(chart.values, "resources", "gpus", "enabled") not in (False, "false")


def claim_drivers(cluster: Cluster) -> list[DaemonSet]:
    """Return the DaemonSets that offer GPUs to claims."""
    chart = claims_chart(cluster)
    origin = chart.origin if chart is not None and offers_gpus(chart) else None
    charted = [each for each in cluster.daemon_sets if origin is not None and each.origin == origin]
    written = {each.origin for each in cluster.objects_of_kind("DaemonSet")}
    return [*charted, *(each for each in cluster.daemon_sets if each.origin in written and _is_one(each))]


def _is_one(daemon: DaemonSet) -> bool:
    """Whether a manifest runs the GPU part of NVIDIA's DRA driver, and not only the compute domain part."""
    words = [str(word) for each in daemon.pod.containers or () for word in (each.name, *each.words)]
    return any(_DRA_PROGRAM in word for word in words)


def gives_gpus_by_name(cluster: Cluster, version: tuple[int, int] | None) -> Answer:
    """Return whether a pod that requests ``nvidia.com/gpu`` can get a claimed device.

    Args:
        cluster: The cluster.
        version: Its Kubernetes minor version; ``None`` if it isn't known.
    """
    if version is not None and version < _BY_NAME_FROM:
        return Answer.NO
    named = list(_names(cluster))
    if GPU in named:
        return Answer.UNKNOWN if version is None else Answer.YES
    return Answer.UNKNOWN if any(isinstance(each, Unknown) for each in named) else Answer.NO


def _names(cluster: Cluster) -> Iterator[object]:
    """Yield the resource names under which device classes offer their devices."""
    chart = claims_chart(cluster)
    if chart is not None and offers_gpus(chart):
        yield _chart_resource_name(chart)
    for each in cluster.objects_of_kind("DeviceClass"):
        if each.name == DEVICE_CLASS or DEVICE_CLASS in str(each.spec.get("selectors")):
            yield each.spec.get("extendedResourceName")


def _chart_resource_name(chart: Chart) -> object:
    """Return the resource name that the chart's own class gives GPUs. A chart with another API version gives none."""
    if chart.name != DRA_DRIVER:
        return Unknown("${classes of its older chart}")
    served = dig(chart.values, "resourceApiVersion")
    if isinstance(served, Unknown):
        return served
    return GPU if served in (None, "", "resource.k8s.io/v1") else None


def is_of_gpus(name: object, cluster: Cluster) -> Answer:
    """Return whether a device class is for whole GPUs; unknown if the cluster's own class selects among them."""
    if name == DEVICE_CLASS:
        return Answer.YES
    own = next((each for each in cluster.objects_of_kind("DeviceClass") if each.name == name), None)
    return Answer.UNKNOWN if own is not None and DEVICE_CLASS in str(own.spec.get("selectors")) else Answer.NO


_Offered = tuple[str, Answer, Offer]


@dataclass(frozen=True, slots=True)
class Devices:
    """Resources that device managers register.

    Attributes:
        least: Amounts that they certainly register.
        most: Max amounts that they register.
        unsaid: Resources for which it isn't known whether they register them.
        alone: Resources of which a pod may request only one.
        names: The managers of its GPUs.
        unseen: Resources that nothing in the input advertises on any node, although the cluster may.
    """

    least: Mapping[str, int]
    most: Mapping[str, int]
    unsaid: frozenset[str]
    alone: frozenset[str]
    names: tuple[str, ...]
    unseen: frozenset[str] = frozenset()


def registered(
    pool: Pool,
    row: InstanceType | None,
    cluster: Cluster,
    running: Reached,
    overlaid: Mapping[str, int],
    by_name: Answer = Answer.NO,
) -> Devices:
    """Return the resources that device managers register on a node.

    Args:
        pool: The pool.
        row: The row of its instance type.
        cluster: The cluster.
        running: Its DaemonSets, and whether they run on the node.
        overlaid: Capacity that NodeOverlays add to the node.
        by_name: Whether pods that request GPUs by name can get claimed ones.
    """
    claimable = [] if by_name is Answer.NO else _claimable(cluster, running, by_name)
    gpus, names = _gpus(pool, row, cluster, running, {**declared(pool), **overlaid}, claimable)
    efa_count = efa_interfaces(pool, row)
    plugins = [answer for each, answer in running if EFA in each.advertises]
    unsaid: set[str] = set(gpus.unsaid)
    unseen: set[str] = set()
    if "efa-device-plugin" in cluster.assumed and not plugins:
        plugins = [Answer.YES]
    least, most = dict(gpus.least), dict(gpus.most)
    # The plugin is in Auto Mode's image, and its chart doesn't run on these nodes. Static nodes exist before any pod
    # requests EFA.
    # Source: aws/eks-charts stable/aws-efa-k8s-device-plugin 0.5.30 templates/daemonset.yaml (2026-11)
    is_auto_mode = pool.kind == "auto-mode"
    static = pool.properties.get("replicas") is not None
    if efa_count and (Answer.YES in plugins or (is_auto_mode and not static)):
        least[EFA] = most[EFA] = efa_count
    elif efa_count != 0 and is_auto_mode:
        unsaid.add(EFA)
    elif efa_count != 0 and (set(plugins) - {Answer.NO} or not cluster.sees_device_plugins(EFA)):
        unsaid.add(EFA)
        unseen = set() if plugins else {EFA}
    elif pool.is_group and not is_visible(pool) and (row is None or row.max_efa):
        # The launch template isn't in the input and may list interfaces.
        unsaid.add(EFA)
    if efa_count and pool.operating_system == "al2023":
        least[HUGE_PAGES] = most[HUGE_PAGES] = EFA_HUGE_PAGES * HUGE_PAGE_MIB * MIB
    elif row is not None:
        unsaid.add(HUGE_PAGES)
    # A plugin that certainly doesn't run on the node doesn't share its GPUs.
    if not any(GPU in each.advertises and answer is not Answer.NO for each, answer in running):
        unseen |= gpus.unsaid & {GPU, SHARED_GPU}
    return Devices(least, most, _unknown_plugin_resources(cluster) | unsaid, gpus.alone, names, frozenset(unseen))


def _unknown_plugin_resources(cluster: Cluster) -> frozenset[str]:
    """Return the requested resources that unknown software may register, except resources of NVIDIA and EFA."""
    asked = frozenset(each for each in cluster.requested_devices if not each.startswith(NVIDIA) and each != EFA)
    return asked if asked and (not cluster.sees_programs or _registers_others(cluster)) else frozenset()


def _registers_others(cluster: Cluster) -> bool:
    """Whether an unknown DaemonSet mounts the folder in which kubelet accepts device plugins."""
    known = {each.origin for each in cluster.daemon_sets if each.advertises}
    others = (each for each in cluster.objects_of_kind("DaemonSet") if each.origin not in known)
    volumes = (volume for each in others for volume in mappings(dig(each.spec, "template", "spec", "volumes")))
    paths = (known_text(dig(each, "hostPath", "path")) for each in volumes)
    return any(path is not None and _DEVICE_PLUGINS.startswith(path.rstrip("/")) for path in paths)


def efa_interfaces(pool: Pool, row: InstanceType | None) -> int | None:
    """Return the number of EFA interfaces of a node; ``None`` if a launch template that isn't in the input sets it."""
    most = row.max_efa if row else 0
    if pool.is_group and not is_visible(pool):
        return 0 if row and not most else None
    return pool.launch.efa_interfaces if pool.is_group or pool.launch.interfaces else most


def _gpus(
    pool: Pool,
    row: InstanceType | None,
    cluster: Cluster,
    running: Reached,
    advertised: Mapping[str, int],
    claimable: list[_Offered],
) -> tuple[Devices, tuple[str, ...]]:
    nothing = frozenset[str]()
    if row is None:
        untold = not pool.instance_types and not pool.requirements
        unsaid = frozenset((GPU,)) if untold or any(map(may_be_newer, pool.instance_types)) else nothing
        return Devices({}, {}, unsaid, nothing, ()), ()
    offers = [
        *_built_in_offers(pool, row),
        *_plugins(running, pool),
        *claimable,
        *_advertised_by_nodes(pool, row, cluster),
    ]
    names = tuple(name for name, answer, _ in offers if answer is Answer.YES)
    if any(answer is Answer.YES for _, answer, _ in offers):
        _, _, offer = next(each for each in offers if each[1] is Answer.YES)
        cut = slices(pool, row, cluster, running) if offer.slices or offer.uniform else {}
        return _offered(offer, row, advertised, cut, _requested_slices(cluster)), names
    if not offers and "device-plugin" in cluster.assumed and not cluster.sees_device_plugins(GPU):
        return _offered(WHOLE, row, advertised, {}, frozenset()), ()
    if any(answer is Answer.UNKNOWN for _, answer, _ in offers) or not cluster.sees_device_plugins(GPU):
        return Devices({}, {}, frozenset((GPU, SHARED_GPU)), nothing, ()), ()
    return Devices({}, {}, nothing, nothing, ()), ()


def built_in_device_manager(pool: Pool) -> tuple[str, Answer] | None:
    """Return the device manager that a pool's image may contain, and whether it does."""
    if pool.kind == "auto-mode":
        return "EKS Auto Mode", Answer.YES
    if pool.operating_system != "bottlerocket" or is_bottlerocket_plugin_disabled(pool.user_data.settings):
        return None
    return ("Bottlerocket", answer) if (answer := has_driver(pool)) is not Answer.NO else None


def _built_in_offers(pool: Pool, row: InstanceType) -> list[_Offered]:
    bottlerocket = pool.kind != "auto-mode"
    settings = pool.user_data.settings
    offer = bottlerocket_offer(settings, row.family) if bottlerocket else WHOLE
    return [(*found, offer)] if (found := built_in_device_manager(pool)) else []


def _plugins(running: Reached, pool: Pool) -> list[_Offered]:
    return [
        (each.name, answer, plugin_offer(each.select_config(pool.labels)))
        for each, answer in running
        if GPU in each.advertises and answer is not Answer.NO
    ]


def _advertised_by_nodes(pool: Pool, row: InstanceType, cluster: Cluster) -> list[_Offered]:
    """Return the resources that running nodes of a pool and a type advertise, for any device manager."""
    key = NODE_GROUP if pool.is_group else NODE_POOL
    alike = [
        each.observed.allocatable.get(GPU, 0)
        for each in cluster.observed
        if each.observed and row.name in each.instance_types and single_label_value(each, key) == pool.name
    ]
    times, rest = divmod(max(alike, default=0), row.gpus)
    return [("running nodes", Answer.YES, Offer({GPU: times}))] if times and not rest else []


def _claimable(cluster: Cluster, running: Reached, by_name: Answer) -> list[_Offered]:
    """Return the drivers for claims, which also provide their GPUs to pods that request them by name."""
    origins = {(each.origin, each.name) for each in claim_drivers(cluster)}
    found = [(each.name, all_yes((answer, by_name))) for each, answer in running if (each.origin, each.name) in origins]
    return [(name, answer, WHOLE) for name, answer in found if answer is not Answer.NO]


def _requested_slices(cluster: Cluster) -> frozenset[str]:
    return frozenset(each for each in cluster.requested_devices if each.startswith(MIG))


def _offered(
    offer: Offer, row: InstanceType, advertised: Mapping[str, int], cut: Mapping[str, int] | None, asked: frozenset[str]
) -> Devices:
    if not offer.known or (offer.uniform and (cut is None or len(cut) > 1)):
        return Devices({}, {}, frozenset((GPU, SHARED_GPU)), frozenset(), ())
    # With the strategy "single", the slices of a partitioned GPU have the name of the whole GPU.
    units = sum(cut.values()) if offer.uniform and cut else row.gpus
    have = {name: units * times for name, times in offer.multiples.items()}
    # If a script partitions GPUs at boot, the user states the slices in a tag or an overlay.
    partitions = {name: amount for name, amount in advertised.items() if name.startswith(MIG)} or cut
    if offer.slices and partitions is None:
        return Devices({}, {}, frozenset((*have, *asked)), frozenset(), ())
    if offer.slices and partitions:
        have = dict(partitions)
    alone = frozenset(offer.multiples) if offer.alone else frozenset[str]()
    return Devices(have, have, frozenset(), alone, ())


def declared(pool: Pool) -> dict[str, int]:
    """Return the resources that a node group's tags declare to cluster autoscaler."""
    found = {name: quantity(name, value) for name, value in pool.tags.items()}
    return {name: amount for name, amount in found.items() if amount is not None}
