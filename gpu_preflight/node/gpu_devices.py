"""What device managers register on a node: GPUs, their shares and slices, EFA interfaces, huge pages."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_facts.hardware.catalogue import InstanceType
from gpu_facts.hardware.type_names import may_be_newer
from gpu_facts.labels import NODE_GROUP, NODE_POOL
from gpu_facts.light_dataclasses import dataclass
from gpu_facts.quantities import MIB, quantity
from gpu_facts.resources import EFA, EFA_HUGE_PAGES, GPU, HUGE_PAGE_MIB, HUGE_PAGES, MIG, NVIDIA, SHARED_GPU
from gpu_preflight.cluster.images import has_driver
from gpu_preflight.cluster.launch import is_visible
from gpu_preflight.model.answer import Answer, all_of
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.node import device_sharing
from gpu_preflight.node.claim_drivers import claim_drivers
from gpu_preflight.node.daemon_reach import Reached
from gpu_preflight.node.device_sharing import Offer
from gpu_preflight.node.partitions import label_of, slices
from gpu_preflight.reading.unknown import dig, known_text, mappings

_Offered = tuple[str, Answer, Offer]
# Source: kubernetes v1.36.1 staging/src/k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/constants.go
_DEVICE_PLUGINS = "/var/lib/kubelet/device-plugins"


@dataclass(frozen=True, slots=True)
class Devices:
    """What device managers register.

    Attributes:
        least: What they certainly register.
        most: What they register at most.
        unsaid: Resources of which it is not known whether they register them.
        alone: Resources of which a pod may ask for one only.
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
    """Return what device managers register on a node.

    Args:
        pool: The pool.
        row: The row of its instance type.
        cluster: The cluster.
        running: Its DaemonSets, and whether they reach the node.
        overlaid: What NodeOverlays say that the node has.
        by_name: Whether pods that ask for GPUs by name are given claimed ones.
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
    # The plugin is in Auto Mode's image, and its chart stays off these nodes. Static nodes come before any pod asks.
    # Source: aws/eks-charts stable/aws-efa-k8s-device-plugin 0.5.30 templates/daemonset.yaml (2026-11)
    built_in = pool.kind == "auto-mode"
    static = pool.properties.get("replicas") is not None
    if efa_count and (Answer.YES in plugins or (built_in and not static)):
        least[EFA] = most[EFA] = efa_count
    elif efa_count != 0 and built_in:
        unsaid.add(EFA)
    elif efa_count != 0 and (set(plugins) - {Answer.NO} or not cluster.sees_plugins_for(EFA)):
        unsaid.add(EFA)
        unseen = set() if plugins else {EFA}
    elif pool.is_group and not is_visible(pool) and (row is None or row.max_efa):
        # Its launch template, which is not in the input, may list interfaces.
        unsaid.add(EFA)
    if efa_count and pool.operating_system == "al2023":
        least[HUGE_PAGES] = most[HUGE_PAGES] = EFA_HUGE_PAGES * HUGE_PAGE_MIB * MIB
    elif row is not None:
        unsaid.add(HUGE_PAGES)
    # A plugin of the input that surely misses the node shares none of its GPUs.
    if not any(GPU in each.advertises and answer is not Answer.NO for each, answer in running):
        unseen |= gpus.unsaid & {GPU, SHARED_GPU}
    return Devices(least, most, _of_others(cluster) | unsaid, gpus.alone, names, frozenset(unseen))


def _of_others(cluster: Cluster) -> frozenset[str]:
    """Return what pods ask for that software which is not known may register: not NVIDIA's and not EFA's."""
    asked = frozenset(each for each in cluster.asked_devices if not each.startswith(NVIDIA) and each != EFA)
    return asked if asked and (not cluster.sees_programs or _registers_others(cluster)) else frozenset()


def _registers_others(cluster: Cluster) -> bool:
    """Whether a DaemonSet of which nothing is known has the folder in which kubelet takes devices from plugins."""
    known = {each.origin for each in cluster.daemon_sets if each.advertises}
    others = (each for each in cluster.of_kind("DaemonSet") if each.origin not in known)
    volumes = (volume for each in others for volume in mappings(dig(each.spec, "template", "spec", "volumes")))
    paths = (known_text(dig(each, "hostPath", "path")) for each in volumes)
    return any(path is not None and _DEVICE_PLUGINS.startswith(path.rstrip("/")) for path in paths)


def efa_interfaces(pool: Pool, row: InstanceType | None) -> int | None:
    """Return how many EFA interfaces a node comes with; ``None`` where a launch template that is not seen says it."""
    most = row.max_efa if row else 0
    if pool.is_group and not is_visible(pool):
        return 0 if row and not most else None
    return pool.launch.efa_interfaces if pool.is_group or pool.launch.interfaces else most


def _gpus(
    pool: Pool,
    row: InstanceType | None,
    cluster: Cluster,
    running: Reached,
    said: Mapping[str, int],
    claimable: list[_Offered],
) -> tuple[Devices, tuple[str, ...]]:
    nothing = frozenset[str]()
    if row is None:
        untold = not pool.instance_types and not pool.requirements
        unsaid = frozenset((GPU,)) if untold or any(map(may_be_newer, pool.instance_types)) else nothing
        return Devices({}, {}, unsaid, nothing, ()), ()
    offers = [*_built_in(pool, row), *_plugins(running, pool), *claimable, *_advertised_by_nodes(pool, row, cluster)]
    names = tuple(name for name, answer, _ in offers if answer is Answer.YES)
    if any(answer is Answer.YES for _, answer, _ in offers):
        _, _, offer = next(each for each in offers if each[1] is Answer.YES)
        cut = slices(pool, row, cluster, running) if offer.slices or offer.uniform else {}
        return _offered(offer, row, said, cut, _asked_slices(cluster)), names
    if not offers and "device-plugin" in cluster.assumed and not cluster.sees_plugins_for(GPU):
        return _offered(device_sharing.WHOLE, row, said, {}, frozenset()), ()
    if any(answer is Answer.UNKNOWN for _, answer, _ in offers) or not cluster.sees_plugins_for(GPU):
        return Devices({}, {}, frozenset((GPU, SHARED_GPU)), nothing, ()), ()
    return Devices({}, {}, nothing, nothing, ()), ()


def built_in(pool: Pool) -> tuple[str, Answer] | None:
    """Return the device manager that a pool's image may bring along, and whether it does."""
    if pool.kind == "auto-mode":
        return "EKS Auto Mode", Answer.YES
    if pool.operating_system != "bottlerocket" or device_sharing.bottlerocket_is_off(pool.user_data.settings):
        return None
    return ("Bottlerocket", answer) if (answer := has_driver(pool)) is not Answer.NO else None


def _built_in(pool: Pool, row: InstanceType) -> list[_Offered]:
    bottlerocket = pool.kind != "auto-mode"
    settings = pool.user_data.settings
    offer = device_sharing.bottlerocket_offer(settings, row.family) if bottlerocket else device_sharing.WHOLE
    return [(*found, offer)] if (found := built_in(pool)) else []


def _plugins(running: Reached, pool: Pool) -> list[_Offered]:
    return [
        (each.name, answer, device_sharing.plugin_offer(each.config_on(pool.labels)))
        for each, answer in running
        if GPU in each.advertises and answer is not Answer.NO
    ]


def _advertised_by_nodes(pool: Pool, row: InstanceType, cluster: Cluster) -> list[_Offered]:
    """Return what running nodes of a pool and a type advertise, whatever does it."""
    key = NODE_GROUP if pool.is_group else NODE_POOL
    alike = [
        each.observed.allocatable.get(GPU, 0)
        for each in cluster.observed
        if each.observed and row.name in each.instance_types and label_of(each, key) == pool.name
    ]
    times, rest = divmod(max(alike, default=0), row.gpus)
    return [("running nodes", Answer.YES, device_sharing.Offer({GPU: times}))] if times and not rest else []


def _claimable(cluster: Cluster, running: Reached, by_name: Answer) -> list[_Offered]:
    """Return the drivers for claims, which give their GPUs to pods that ask for them by name too."""
    origins = {(each.origin, each.name) for each in claim_drivers(cluster)}
    found = [(each.name, all_of((answer, by_name))) for each, answer in running if (each.origin, each.name) in origins]
    return [(name, answer, device_sharing.WHOLE) for name, answer in found if answer is not Answer.NO]


def _asked_slices(cluster: Cluster) -> frozenset[str]:
    return frozenset(each for each in cluster.asked_devices if each.startswith(MIG))


def _offered(
    offer: Offer, row: InstanceType, said: Mapping[str, int], cut: Mapping[str, int] | None, asked: frozenset[str]
) -> Devices:
    if not offer.known or (offer.uniform and (cut is None or len(cut) > 1)):
        return Devices({}, {}, frozenset((GPU, SHARED_GPU)), frozenset(), ())
    # With the strategy "single" the slices of a partitioned GPU have its name.
    units = sum(cut.values()) if offer.uniform and cut else row.gpus
    have = {name: units * times for name, times in offer.multiples.items()}
    # Of what a script cuts at boot tag or overlay is what the author says.
    told = {name: amount for name, amount in said.items() if name.startswith(MIG)} or cut
    if offer.slices and told is None:
        return Devices({}, {}, frozenset((*have, *asked)), frozenset(), ())
    if offer.slices and told:
        have = dict(told)
    alone = frozenset(offer.multiples) if offer.alone else frozenset[str]()
    return Devices(have, have, frozenset(), alone, ())


def declared(pool: Pool) -> dict[str, int]:
    """Return the resources that a node group's tags declare to cluster autoscaler."""
    found = {name: quantity(name, value) for name, value in pool.tags.items()}
    return {name: amount for name, amount in found.items() if amount is not None}
