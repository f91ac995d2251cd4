"""What of a pool is known at deployment only, and which answers it leaves open: a value that is not known is no value.

A maximum that is not known is not the same as none, and a label that may be there is not the same as one that is not.

DaemonSets that ask for GPUs: their controller makes a pod for each node that there is, and nobody makes a node.

The controller looks at the template as it is written, to which the API server has added nothing yet.
Source: kubernetes/kubernetes v1.36.2 pkg/controller/daemon/daemon_controller.go ``NodeShouldRunDaemonPod``
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from gpu_facts.hardware.regions import is_seen_zone
from gpu_facts.labels import RESOURCE_TAG
from gpu_facts.light import dataclass
from gpu_facts.quantities import Resources, add
from gpu_facts.resources import DISK, NVIDIA
from gpu_preflight.cluster.images import has_driver
from gpu_preflight.cluster.network import class_has_subnet
from gpu_preflight.cluster.pools import group_tags, is_visible
from gpu_preflight.model.answer import Answer, Reason, worst
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.taints import untolerated
from gpu_preflight.node.node_size import own_name
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.reading.unknown import Unknown, choices, is_expression, mapping
from gpu_preflight.scheduling.demand import Demand
from gpu_preflight.scheduling.fitting import check_labels, check_ports, check_resources, evictions
from gpu_preflight.scheduling.verdict import PoolVerdict

_EVERY = ("taint", "label", "resource", "port", "autoscaler", "limit", "claim", "topology", "volume")
_OF_NODES = ("label", "resource", "autoscaler", "topology", "volume")
_OF_SIZES = ("limit", "autoscaler", "claim")


@dataclass(frozen=True, slots=True)
class Openings:
    """What of a pool is known at deployment only; computed once, asked for every pod.

    Attributes:
        limits: A limit of the NodePool.
        requirements: A requirement of the NodePool.
        labels: Which labels its nodes have.
        taints: Which taints its nodes have.
        types: The instance type.
        image: The image of its nodes.
        tags: Resources that its tags promise an amount of that is not known.
        disk: The size of a volume.
        least: How many nodes run always.
        most: How many nodes there may be.
        resized: Whether a schedule gives it nodes, or takes all of them away.
        closes: Whether by a schedule it may at times have no node at all.
        foreign: A label of Karpenter's that a NodePool of Auto Mode asks for; empty where it asks for none.
        place: What is not known of where its nodes may start; empty where nothing is.
        launch: Whether its launch template, which may give nodes labels, isn't in the input.
    """

    limits: bool = False
    requirements: bool = False
    labels: bool = False
    taints: bool = False
    types: bool = False
    image: bool = False
    tags: tuple[str, ...] = ()
    disk: bool = False
    least: bool = False
    most: bool = False
    resized: bool = False
    closes: bool = False
    foreign: str = ""
    place: str = ""
    launch: bool = False


_NONE = Openings()


def openings(pool: Pool) -> Openings:
    """Return what of a pool is known at deployment only."""
    return Openings(
        limits=_has_unknown(pool.properties.get("limits")),
        requirements=any(each.values is None for each in pool.requirements),
        labels=isinstance(pool.properties.get("Labels"), Unknown),
        taints=isinstance(pool.properties.get("Taints"), Unknown),
        types=pool.is_group and _is_type_open(pool),
        image=_is_image_open(pool),
        tags=tuple(_open_tags(pool)),
        disk=None in pool.launch.disk_sizes.values(),
        least=pool.min_nodes is None and pool.is_group,
        most=pool.is_group and pool.max_nodes is None,
        resized=pool.resized,
        closes=pool.closes,
        foreign=next(_foreign(pool), "") if pool.kind == "auto-mode" else "",
        place=_open_place(pool),
        launch=pool.is_group and not is_visible(pool),
    )


def left_open(wanted: Demand, pool: Pool, open_: Openings, reasons: list[Reason]) -> list[Reason]:
    """Return the reasons, with those that a value not known may mend as unknown, and one for what it may break."""
    pod = wanted.pod
    known = not pod.has_open_ports and pod.asks_for_gpu == pod.may_ask_for_gpu and wanted.workload.replicas is not None
    if open_ == _NONE and known:
        return reasons
    found = reasons
    for kinds, text in (*_open_of_limits(wanted, pool, open_), *_open_of_nodes(wanted, pool, open_)):
        found = [_softened(each) if each.kind in kinds else each for each in found]
        found.append(Reason(Answer.UNKNOWN, kinds[0], f"{text} is known at deployment only"))
    if open_.resized and (open_.closes or any(each.kind in _OF_SIZES for each in found)):
        found = [_softened(each) if each.kind in _OF_SIZES else each for each in found]
        found.append(Reason(Answer.UNKNOWN, "limit", "a scheduled action sets how many nodes there are, at its times"))
    if open_.foreign:
        # Whether Auto Mode refuses the NodePool or takes it for a label of somebody's own stands nowhere.
        found = [_softened(each) if each.kind in _OF_NODES else each for each in found]
        found.append(Reason(Answer.UNKNOWN, "label", f"what Auto Mode makes of {open_.foreign} is not known"))
    if open_.launch and any(each.kind == "label" for each in found):
        found = [_softened(each) if each.kind == "label" else each for each in found]
        found.append(Reason(Answer.UNKNOWN, "label", "its launch template, which may set labels, isn't in the input"))
    if open_.place:
        found.append(Reason(Answer.UNKNOWN, "label", f"{open_.place} is not known"))
    if open_.least:
        found = [_softened(each) if each.kind in ("autoscaler", "claim") else each for each in found]
    if open_.disk:
        found = [_softened(each) if each.kind == "autoscaler" and DISK in each.text else each for each in found]
    return found


def _softened(reason: Reason) -> Reason:
    return replace(reason, answer=Answer.UNKNOWN)


def _open_of_limits(wanted: Demand, pool: Pool, open_: Openings) -> Iterable[tuple[tuple[str, ...], str]]:
    """Yield what is not known of how many fit: the kinds of reasons that it may mend, and what it is."""
    one_runs = bool(pool.min_nodes) and wanted.workload.replicas in (0, 1)
    if open_.most and not one_runs:
        yield ("limit",), "the pool's maximum"
    if wanted.workload.replicas is None and (pool.max_nodes is not None or pool.limits):
        yield ("limit",), "how many replicas there are"
    if open_.limits:
        yield ("limit",), "a limit of the NodePool"


def _open_of_nodes(wanted: Demand, pool: Pool, open_: Openings) -> Iterable[tuple[tuple[str, ...], str]]:
    """Yield what is not known of the nodes, likewise."""
    if wanted.pod.has_open_ports:
        yield ("port",), "a host port"
    if wanted.pod.may_ask_for_gpu and not wanted.pod.asks_for_gpu:
        yield ("taint",), "whether the pod asks for GPUs, for which EKS adds a toleration,"
    if open_.requirements:
        yield _EVERY, "a requirement of the NodePool"
    if open_.labels:
        yield _OF_NODES, "which labels its nodes have"
    if open_.taints:
        yield ("taint",), "which taints its nodes have"
    if open_.types:
        yield _OF_NODES, "the instance type"
    if open_.image and _asks_more_than_a_cpu(wanted):
        yield _OF_NODES, "the image of its nodes"
    if not pool.min_nodes and any(wanted.requests.get(each) for each in open_.tags):
        yield ("autoscaler",), "what its tags promise"


def _asks_more_than_a_cpu(wanted: Demand) -> bool:
    return bool(wanted.gpus or wanted.requests.get(DISK) or any(key.startswith(NVIDIA) for key in wanted.keys))


def _open_place(pool: Pool) -> str:
    """Return what is not known of where nodes may start: a group has nodes in all of its zones, a NodePool in any."""
    newer = [each for each in pool.zones if isinstance(each, str) and not is_seen_zone(each)]
    if newer and (pool.is_group or len(newer) == len(pool.zones)):
        return f"whether there is a zone {newer[0]}"
    unseen = class_has_subnet(pool) is Answer.UNKNOWN
    return "whether its class has a subnet in a zone that it asks for" if unseen else ""


def _foreign(pool: Pool) -> Iterator[str]:
    return (each.key for each in pool.requirements if own_name(each.key, pool.kind))


def _is_type_open(pool: Pool) -> bool:
    """Whether deployment may give a group other instance types than those that are judged, each as one of its nodes."""
    written = pool.properties.get("InstanceTypes")
    listed = choices(written) if isinstance(written, Unknown) else [written]
    return not listed or any(_is_open(one) for each in listed for one in (each if isinstance(each, list) else [each]))


def _is_image_open(pool: Pool) -> bool:
    ami_type = pool.properties.get("AmiType")
    if isinstance(ami_type, Unknown) and ami_type.choices:
        # All of them may be alike in what matters here.
        return pool.operating_system == "unknown" or has_driver(pool) is Answer.UNKNOWN
    named = (each.get(key) for each in pool.launch.image_terms for key in ("name", "ssmParameter"))
    return any(isinstance(each, Unknown) for each in (ami_type, *pool.launch.aliases, *named))


def _is_open(value: object) -> bool:
    """Whether a value may be anything at deployment, or one of choices that may."""
    return isinstance(value, Unknown) and (not value.choices or any(map(_is_open, value.choices)))


def _open_tags(pool: Pool) -> list[str]:
    tags = mapping(pool.properties.get("Tags")) or group_tags(pool.properties)
    return [key.removeprefix(RESOURCE_TAG) for key, value in tags.items() if _is_open_tag(key, value)]


def _is_open_tag(key: str, value: object) -> bool:
    return key.startswith(RESOURCE_TAG) and (isinstance(value, Unknown) or is_expression(str(value)))


def _has_unknown(value: object) -> bool:
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else (value,)
    return any(isinstance(each, Unknown) for each in values)


def check_daemon_set(wanted: Demand, pool: Pool, nodes: tuple[NodeToBe, ...]) -> PoolVerdict:
    """Say whether the nodes of a pool run the pod of a DaemonSet.

    Args:
        wanted: The pod as it is written.
        pool: The pool.
        nodes: Its nodes-to-be, which count what the DaemonSet takes where it runs.
    """
    of_taints = [
        Reason(answer, "taint", f"does not tolerate taint {taint}, and EKS adds nothing to a DaemonSet; add it", 1)
        for taint, answer in untolerated(wanted.pod.tolerations, pool.taints, daemon=True)
    ]
    of_taints += evictions(wanted.pod.tolerations, pool.taints)
    reasons = dict.fromkeys([*of_taints, *(each for node in nodes for each in _reasons(wanted, node, pool, of_taints))])
    types = tuple(node.instance_type for node in nodes if node.instance_type)
    return PoolVerdict(pool, worst(reasons), tuple(reasons), types, per_node=1, nodes_taking=nodes)


def _reasons(wanted: Demand, node: NodeToBe, pool: Pool, of_taints: list[Reason]) -> list[Reason]:
    of_labels = check_labels(wanted, node, pool).reasons
    runs = worst((*of_taints, *of_labels))
    alone = _without_itself(node, wanted.requests, runs)
    return [*of_labels, *check_resources(wanted, alone, pool).reasons, *check_ports(wanted, alone, pool).reasons]


def _without_itself(node: NodeToBe, takes: Resources, runs: Answer) -> NodeToBe:
    """Return a node as it is without the DaemonSet's own pod."""
    least = node.least if runs is Answer.NO else _back(node.least, takes)
    most = _back(node.most, takes) if runs is Answer.YES else node.most
    return replace(node, least=least, most=most, ports=frozenset(), unsure_ports=frozenset())


def _back(have: Mapping[str, int], takes: Resources) -> dict[str, int]:
    return {name: amount for name, amount in add(have, takes).items() if name in have}
