"""Values that only deployment sets, results that stay unknown because of them, and assumptions of a "runs".

An unknown maximum isn't the same as no maximum, and a label that may exist isn't the same as a missing label.

A DaemonSet that requests GPUs gets a pod on each existing node, and no autoscaler launches a node for it. Its
controller reads the template as it is written, before the API server adds anything.
Source: kubernetes/kubernetes v1.36.2 pkg/controller/daemon/daemon_controller.go ``NodeShouldRunDaemonPod``
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from gpu_facts.hardware.regions import is_seen_zone
from gpu_facts.kubernetes import CLUSTER_CRITICAL, NODE_CRITICAL
from gpu_facts.labels import RESOURCE_TAG
from gpu_facts.light import dataclass
from gpu_facts.quantities import Resources, add
from gpu_facts.resources import DISK, NVIDIA
from gpu_preflight.admission.unevaluated import image_assumptions
from gpu_preflight.cluster.images import has_driver
from gpu_preflight.cluster.kueue import local_queues, workload_queue
from gpu_preflight.cluster.network import class_has_subnet
from gpu_preflight.cluster.objects import DataKind, keys_by_name, named_data
from gpu_preflight.cluster.open_values import shortened
from gpu_preflight.cluster.pools import group_tags, is_visible
from gpu_preflight.cluster.software import operator_installs
from gpu_preflight.cluster.storage import claimed
from gpu_preflight.model.answer import Answer, Reason, worst
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.pod import Pod, Workload
from gpu_preflight.model.taints import untolerated
from gpu_preflight.node.instance_types import own_name
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.reading.unknown import Unknown, choices, dig, is_expression, items, known_text, mapping, mappings
from gpu_preflight.scheduling.demand import Demand
from gpu_preflight.scheduling.fitting import check_labels, check_ports, check_resources, evictions
from gpu_preflight.scheduling.verdict import PoolVerdict

_EVERY = ("taint", "label", "resource", "port", "autoscaler", "limit", "claim", "topology", "volume")
_OF_NODES = ("label", "resource", "autoscaler", "topology", "volume")
_OF_SIZES = ("limit", "autoscaler", "claim")
NOTHING_ELSE = "nothing outside the input limits these pods or competes with them"
_DATA: tuple[DataKind, ...] = ("Secret", "ConfigMap")


@dataclass(frozen=True, slots=True)
class Openings:
    """Values of a pool that are known at deployment only. They are computed once and used for every pod.

    Texts name the field and the value as it is written; a text is empty if the value is known.

    Attributes:
        limits: A limit of the NodePool.
        requirements: A requirement of the NodePool.
        labels: The labels of its nodes.
        taints: The taints of its nodes.
        types: The instance type.
        image: The image of its nodes.
        tags: Resources for which a tag announces an unknown amount.
        disk: The size of a volume.
        least: The number of nodes that always run.
        most: The max number of nodes.
        resized: Whether a schedule adds nodes, or removes all of them.
        closes: Whether a schedule may at times leave the pool without a node.
        foreign: A label of Karpenter that an Auto Mode NodePool requires; empty if it requires none.
        place: The unknown part of where its nodes start; empty if everything is known.
        launch: Whether its launch template, which may set labels, is missing from the input.
    """

    limits: str = ""
    requirements: str = ""
    labels: str = ""
    taints: str = ""
    types: str = ""
    image: str = ""
    tags: tuple[str, ...] = ()
    disk: bool = False
    least: bool = False
    most: str = ""
    resized: bool = False
    closes: bool = False
    foreign: str = ""
    place: str = ""
    launch: bool = False


_NONE = Openings()


def openings(pool: Pool) -> Openings:
    """Return the values of a pool that are known at deployment only."""
    return Openings(
        limits=_open_limit(pool.properties.get("limits")),
        requirements=next((f"requirement of {each.key}" for each in pool.requirements if each.values is None), ""),
        labels=_named("Labels", pool.properties.get("Labels")),
        taints=_named("Taints", pool.properties.get("Taints")),
        types=_open_types(pool) if pool.is_group and _is_type_open(pool) else "",
        image=_open_image(pool) if _is_image_open(pool) else "",
        tags=tuple(_open_tags(pool)),
        disk=None in pool.launch.disk_sizes.values(),
        least=pool.min_nodes is None and pool.is_group,
        most=_open_max(pool) if pool.is_group and pool.max_nodes is None else "",
        resized=pool.resized,
        closes=pool.closes,
        foreign=next(_foreign(pool), "") if pool.kind == "auto-mode" else "",
        place=_open_place(pool),
        launch=pool.is_group and not is_visible(pool),
    )


def left_open(wanted: Demand, pool: Pool, open_: Openings, reasons: list[Reason]) -> list[Reason]:
    """Return the reasons, adjusted for unknown values.

    A reason becomes unknown if an unknown value may remove it. If an unknown value may break a fit, a reason is added.
    """
    pod = wanted.pod
    known = not pod.has_open_ports and pod.asks_for_gpu == pod.may_ask_for_gpu and wanted.workload.replicas is not None
    if open_ == _NONE and known:
        return reasons
    found = reasons
    for kinds, text in (*_open_of_limits(wanted, pool, open_), *_open_of_nodes(wanted, pool, open_)):
        found = [_softened(each) if each.kind in kinds else each for each in found]
        found.append(Reason(Answer.UNKNOWN, kinds[0], f"{text} is known only at deployment"))
    if open_.resized and (open_.closes or any(each.kind in _OF_SIZES for each in found)):
        found = [_softened(each) if each.kind in _OF_SIZES else each for each in found]
        found.append(Reason(Answer.UNKNOWN, "limit", "a scheduled action changes the number of nodes"))
    if open_.foreign:
        # No source states whether Auto Mode rejects the NodePool or treats the label as a custom one.
        found = [_softened(each) if each.kind in _OF_NODES else each for each in found]
        found.append(Reason(Answer.UNKNOWN, "label", f"it is unknown how Auto Mode handles {open_.foreign}"))
    if open_.launch and any(each.kind == "label" for each in found):
        found = [_softened(each) if each.kind == "label" else each for each in found]
        found.append(Reason(Answer.UNKNOWN, "label", "its launch template, which may set labels, isn't in the input"))
    if open_.place:
        found.append(Reason(Answer.UNKNOWN, "label", f"it is unknown {open_.place}"))
    if open_.least:
        found = [_softened(each) if each.kind in ("autoscaler", "claim") else each for each in found]
    if open_.disk:
        found = [_softened(each) if each.kind == "autoscaler" and DISK in each.text else each for each in found]
    return found


def _softened(reason: Reason) -> Reason:
    return replace(reason, answer=Answer.UNKNOWN)


def _open_of_limits(wanted: Demand, pool: Pool, open_: Openings) -> Iterable[tuple[tuple[str, ...], str]]:
    """Yield each unknown value that affects how many pods fit: the kinds of reasons it may remove, and its name."""
    one_runs = bool(pool.min_nodes) and wanted.workload.replicas in (0, 1)
    if open_.most and not one_runs:
        yield ("limit",), f"its {open_.most}"
    if wanted.workload.replicas is None and (pool.max_nodes is not None or pool.limits):
        yield ("limit",), "the number of replicas"
    if open_.limits:
        yield ("limit",), f"its {open_.limits}"


def _open_of_nodes(wanted: Demand, pool: Pool, open_: Openings) -> Iterable[tuple[tuple[str, ...], str]]:
    """Yield each unknown value of the nodes: the kinds of reasons that it may remove, and its name."""
    if wanted.pod.has_open_ports:
        yield ("port",), "a host port"
    if wanted.pod.may_ask_for_gpu and not wanted.pod.asks_for_gpu:
        yield ("taint",), "the pod's request of GPUs, for which EKS adds a toleration,"
    if open_.requirements:
        yield _EVERY, f"its {open_.requirements}"
    if open_.labels:
        yield _OF_NODES, f"the value of its {open_.labels}"
    if open_.taints:
        yield ("taint",), f"the value of its {open_.taints}"
    if open_.types:
        yield _OF_NODES, f"its {open_.types}"
    if open_.image and _asks_more_than_a_cpu(wanted):
        yield _OF_NODES, f"its {open_.image}"
    if not pool.min_nodes and any(wanted.requests.get(each) for each in open_.tags):
        yield ("autoscaler",), f"the amount of {', '.join(open_.tags)} in its tags"


def _asks_more_than_a_cpu(wanted: Demand) -> bool:
    return bool(wanted.gpus or wanted.requests.get(DISK) or any(key.startswith(NVIDIA) for key in wanted.keys))


def _open_place(pool: Pool) -> str:
    """Return what isn't known about where nodes start. A group has nodes in all of its zones, a NodePool in any."""
    newer = [each for each in pool.zones if isinstance(each, str) and not is_seen_zone(each)]
    if newer and (pool.is_group or len(newer) == len(pool.zones)):
        return f"whether zone {newer[0]} exists"
    unseen = class_has_subnet(pool) is Answer.UNKNOWN
    return "whether its class has a subnet in a zone that it requires" if unseen else ""


def _foreign(pool: Pool) -> Iterator[str]:
    return (each.key for each in pool.requirements if own_name(each.key, pool.kind))


def _is_type_open(pool: Pool) -> bool:
    """Whether deployment may set other instance types for a group than the types that are checked."""
    written = pool.properties.get("InstanceTypes")
    listed = choices(written) if isinstance(written, Unknown) else [written]
    return not listed or any(_is_open(one) for each in listed for one in (each if isinstance(each, list) else [each]))


def _is_image_open(pool: Pool) -> bool:
    ami_type = pool.properties.get("AmiType")
    if isinstance(ami_type, Unknown) and ami_type.choices:
        # All choices may have the same operating system and driver.
        return pool.operating_system == "unknown" or has_driver(pool) is Answer.UNKNOWN
    named = (each.get(key) for each in pool.launch.image_terms for key in ("name", "ssmParameter"))
    return any(isinstance(each, Unknown) for each in (ami_type, *pool.launch.aliases, *named))


def _is_open(value: object) -> bool:
    """Whether deployment may set any value, or a choice among values that may be any value."""
    return isinstance(value, Unknown) and (not value.choices or any(map(_is_open, value.choices)))


def _open_tags(pool: Pool) -> list[str]:
    tags = mapping(pool.properties.get("Tags")) or group_tags(pool.properties)
    return [key.removeprefix(RESOURCE_TAG) for key, value in tags.items() if _is_open_tag(key, value)]


def _is_open_tag(key: str, value: object) -> bool:
    return key.startswith(RESOURCE_TAG) and (isinstance(value, Unknown) or is_expression(str(value)))


def _named(field: str, value: object) -> str:
    """Return a field with its unknown value as it is written; empty for a known value."""
    return f"{field} ({shortened(str(value))})" if isinstance(value, Unknown) else ""


def _open_limit(limits: object) -> str:
    """Return the first limit of a NodePool that isn't known; empty if all are."""
    if not isinstance(limits, dict):
        return _named("limits", limits)
    return next((_named(f"limit of {name}", each) for name, each in limits.items() if isinstance(each, Unknown)), "")


def _open_types(pool: Pool) -> str:
    written = pool.properties.get("InstanceTypes") or pool.launch.instance_type
    first = next((each for each in (written, *items(written)) if isinstance(each, Unknown)), None)
    return _named("instance type", first) or "instance type"


def _open_image(pool: Pool) -> str:
    terms = [each.get(key) for each in pool.launch.image_terms for key in ("name", "ssmParameter")]
    found = (each for each in (pool.properties.get("AmiType"), *pool.launch.aliases, *terms))
    return next((_named("image", each) for each in found if isinstance(each, Unknown)), "image")


def _open_max(pool: Pool) -> str:
    sizes = (dig(dict(pool.properties), "ScalingConfig", "MaxSize"), pool.properties.get("MaxSize"))
    return next((_named("maximum", each) for each in sizes if isinstance(each, Unknown)), "maximum")


def check_daemon_set(wanted: Demand, pool: Pool, nodes: tuple[NodeToBe, ...]) -> PoolVerdict:
    """Check whether the nodes of a pool run the pod of a DaemonSet.

    Args:
        wanted: The pod as it is written.
        pool: The pool.
        nodes: Its future nodes, which already count the resources of the DaemonSet where it runs.
    """
    of_taints = [
        Reason(answer, "taint", f"doesn't tolerate taint {taint}, and EKS adds no toleration to a DaemonSet; add it", 1)
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
    """Return a node without the DaemonSet's own pod."""
    least = node.least if runs is Answer.NO else _back(node.least, takes)
    most = _back(node.most, takes) if runs is Answer.YES else node.most
    return replace(node, least=least, most=most, ports=frozenset(), unsure_ports=frozenset())


def _back(have: Mapping[str, int], takes: Resources) -> dict[str, int]:
    return {name: amount for name, amount in add(have, takes).items() if name in have}


class Assumptions:
    """Assumptions of the pods of one cluster. For single pods with the same spec, they are computed once.

    Args:
        cluster: The cluster of the pods.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        # Each entry holds its pod and its pools, so that no other objects get the same ids.
        self._known: dict[tuple[object, ...], tuple[Pod, tuple[PoolVerdict, ...], tuple[str, ...]]] = {}

    def for_workload(self, workload: Workload, pools: tuple[PoolVerdict, ...]) -> tuple[str, ...]:
        """Return the objects and permissions outside the input that the pods of a workload need.

        Args:
            workload: The pods.
            pools: The result for each pool.
        """
        if workload.owner.kind != "Pod" or workload.claim_templates:
            return relied_upon(workload, pools, self._cluster)
        key = id(workload.pod), id(pools), workload.namespace, repr(workload_queue(workload))
        if key not in self._known:
            self._known[key] = workload.pod, pools, relied_upon(workload, pools, self._cluster)
        return self._known[key][2]


def relied_upon(workload: Workload, pools: Iterable[PoolVerdict], cluster: Cluster) -> tuple[str, ...]:
    """Return the objects and permissions outside the input that the pods of a workload need.

    Args:
        workload: The pods.
        pools: The result for each pool.
        cluster: Their cluster.
    """
    taking = [each.pool for each in pools if each.answer is not Answer.NO]
    always = (
        *image_assumptions(workload.pod),
        *_external_data_assumptions(workload, cluster),
        *_driver_assumptions(workload, taking, cluster),
    )
    if cluster.sees_objects:
        # Secrets and ConfigMaps are often created by hand and aren't in a Git repository.
        return tuple(dict.fromkeys(always))
    found = (
        *always,
        *_named_objects(workload, cluster),
        *_launch_template_assumptions(taking),
        *_karpenter_assumptions(taking, cluster),
        NOTHING_ELSE,
    )
    return tuple(dict.fromkeys(found))


def _named_objects(workload: Workload, cluster: Cluster) -> Iterator[str]:
    """Yield the objects that the pods name and the input doesn't contain."""
    pod, space = workload.pod, workload.namespace
    if (name := known_text(pod.runtime_class)) and not _has(cluster, "RuntimeClass", name):
        yield f"RuntimeClass {name} exists"
    name = known_text(pod.priority_class)
    if name and name not in (CLUSTER_CRITICAL, NODE_CRITICAL) and not _has(cluster, "PriorityClass", name):
        yield f"PriorityClass {name} exists"
    name = known_text(pod.service_account)
    if name and name != "default" and not _has(cluster, "ServiceAccount", name, space):
        yield f"ServiceAccount {space}/{name} exists"
    queue = known_text(workload_queue(workload))
    if queue and (space, queue) not in local_queues(cluster):
        yield f"LocalQueue {space}/{queue} exists and admits the pods"
    yield from _classes_of_claims(workload, cluster)


def _classes_of_claims(workload: Workload, cluster: Cluster) -> Iterator[str]:
    """Yield the claims and the StorageClasses that the pods name and the input doesn't contain."""
    space = workload.namespace
    for claim in claimed(workload, cluster):
        if claim.name and claim.spec is None:
            yield f"PersistentVolumeClaim {space}/{claim.name} exists and can be bound"
        elif claim.spec is not None and not claim.spec.get("volumeName"):
            name = known_text(claim.spec.get("storageClassName"))
            if name is None and "storageClassName" not in claim.spec:
                yield "the cluster has a default StorageClass"
            elif name and not _has(cluster, "StorageClass", name):
                yield f"StorageClass {name} exists"


def _external_data_assumptions(workload: Workload, cluster: Cluster) -> Iterator[str]:
    """Yield the volumes, Secrets and ConfigMaps that the pods name and the input doesn't contain."""
    for claim in claimed(workload, cluster):
        volume = known_text((claim.spec or {}).get("volumeName"))
        if volume and claim.volume is None:
            yield f"PersistentVolume {volume} exists and can be mounted"
    pod, space = workload.pod, workload.namespace
    named = [(each.kind, each.name) for each in named_data(pod)]
    pulling = (known_text(each.get("name")) for each in mappings(pod.written.get("imagePullSecrets")))
    named += [("Secret", name) for name in pulling if name]
    for kind in _DATA:
        there = keys_by_name(kind, space, cluster) if any(each == kind for each, _ in named) else {}
        yield from (f"{each} {space}/{name} exists" for each, name in named if each == kind and name not in there)


def _has(cluster: Cluster, kind: str, name: str, namespace: str | None = None) -> bool:
    return any(each.name == name and namespace in (None, each.namespace) for each in cluster.objects_of_kind(kind))


def _launch_template_assumptions(pools: list[Pool]) -> Iterator[str]:
    """Yield the assumption that launch templates of groups that aren't in the input start nodes that join."""
    groups = (each.name for each in pools if each.is_group and not is_visible(each))
    yield from (f"the launch template of {each}, which isn't in the input, starts nodes that join" for each in groups)


def _karpenter_assumptions(pools: list[Pool], cluster: Cluster) -> Iterator[str]:
    """Yield the AWS resources that Karpenter needs to launch nodes."""
    launching = [each for each in pools if each.kind == "karpenter"]
    if not launching:
        return
    controller = cluster.autoscaler("karpenter")
    if controller is None:
        yield "Karpenter has an IAM role that allows it to launch instances"
    for pool in launching:
        if pool.node_class is None:
            yield f"the EC2NodeClass of NodePool {pool.name} exists and is ready"
            continue
        role = known_text(pool.launch.role)
        named = f"IAM role {role}" if role else "its IAM role"
        yield f"{named}, the subnets and the security groups that EC2NodeClass {pool.node_class.name} selects exist"


def _driver_assumptions(workload: Workload, pools: list[Pool], cluster: Cluster) -> Iterator[str]:
    """Yield the assumption that an image whose content isn't known, such as a custom one, has NVIDIA's driver."""
    # The GPU Operator installs a driver where the image has none.
    if workload.pod.may_ask_for_gpu and operator_installs("driver", cluster) is not Answer.YES:
        unknown = (each.name for each in pools if has_driver(each) is Answer.UNKNOWN)
        yield from (f"the image of pool {each} has NVIDIA's driver" for each in unknown)


def conditions(held: Iterable[Reason], pools: Sequence[PoolVerdict]) -> tuple[str, ...]:
    """Return the conditions under which pods with an unknown result run.

    Empty if a reason without a condition is unknown too.

    Args:
        held: Reasons that apply in every pool.
        pools: The result for each pool, the nearest first.
    """
    general = [each for each in held if each.answer is not Answer.YES]
    if not all(each.condition for each in general):
        return ()
    for pool in pools:
        open_ones = (each for each in pool.reasons if each.answer is Answer.UNKNOWN)
        if pool.is_conditional:
            return tuple(dict.fromkeys(each.condition for each in (*general, *open_ones)))
    return tuple(dict.fromkeys(each.condition for each in general)) if not pools else ()
