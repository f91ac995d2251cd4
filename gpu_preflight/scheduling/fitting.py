"""Whether one pod fits on one fresh node, for the scheduler and from the autoscaler's view.

Follows kube-scheduler 1.36 (NodeAffinity, TaintToleration, NodeResourcesFit, NodePorts, PodTopologySpread).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from gpu_facts.hardware.catalogue import InstanceType, why_not_sold
from gpu_facts.labels import LABEL_TAG, NODE_FEATURE, RESOURCE_TAG, ZONE
from gpu_facts.light import dataclass, regex
from gpu_facts.quantities import distinct, show
from gpu_facts.resources import DEVICE_CLASS, DISK, EFA, GPU, NVIDIA, OF_HAMI
from gpu_preflight.model.answer import Answer, Reason, worst
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.container import ports_clash
from gpu_preflight.model.label_values import Labels, LabelValues, Requirement
from gpu_preflight.model.taints import Taint, Toleration, evicting, untolerated
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.reading.unknown import Unknown
from gpu_preflight.scheduling.demand import Demand

# Scheduler and autoscaler count shares as if a pod could have several.
TURNED_AWAY = "and the node's plugin rejects more than one, each time after a node was started for it"
_NO_SUCH_TYPE, _NEVER_A_GPU = 5, 20
# The rule for startup taints that an autoscaler treats as permanent.
_MISTAKEN = "GPU420"
# An expression whose value only deployment sets.
_LATER = regex(r"\$\{[^}]*\}")
_LEAVES = {Answer.NO: "is evicted at once", Answer.UNKNOWN: "may be evicted at once"}
_DISCOVERED = ("nvidia.com/gpu.", "nvidia.com/cuda.", "nvidia.com/mig.", NODE_FEATURE)


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a pod fits on a fresh node of one instance type.

    Attributes:
        node: The node.
        reasons: Why the pod doesn't fit.
        unexpected: Why the autoscaler doesn't expect the pod to fit.
    """

    node: NodeToBe
    reasons: tuple[Reason, ...]
    unexpected: tuple[Reason, ...] = ()

    @property
    def answer(self) -> Answer:
        """No if any reason is no."""
        return worst(self.reasons)


@dataclass(frozen=True, slots=True)
class Part:
    """The result of one check of a pod against a node.

    Attributes:
        reasons: Why the pod doesn't fit.
        unexpected: Why the autoscaler doesn't expect the pod to fit.
    """

    reasons: tuple[Reason, ...] = ()
    unexpected: tuple[Reason, ...] = ()


PartOf = Callable[[Demand, NodeToBe, Pool], Part]


def ask_anew(part: PartOf, wanted: Demand, node: NodeToBe, pool: Pool) -> Part:
    """Return the result of one check, without a cache."""
    return part(wanted, node, pool)


def fits(wanted: Demand, node: NodeToBe, pool: Pool, ask: Callable[..., Part] = ask_anew) -> Fit:
    """Check whether the scheduler would put a pod on a fresh node, and whether the pool's autoscaler expects that.

    Args:
        wanted: The pod.
        node: The node.
        pool: The pool of the node.
        ask: Function that runs each check. It may return cached results.
    """
    parts = _FOR_ALL if wanted.anywhere and not wanted.pod.host_ports else _PARTS
    results = [ask(part, wanted, node, pool) for part in parts]
    reasons = tuple([reason for part in results for reason in part.reasons])
    return Fit(node, reasons, tuple([reason for part in results for reason in part.unexpected]))


def check_taints(wanted: Demand, node: NodeToBe, pool: Pool) -> Part:
    """Check taints and tolerations."""
    expected = [
        Reason(answer, "autoscaler", _expected_taint(pool, taint), rule=_taint_rule(pool, taint))
        for taint, answer in untolerated(wanted.pod.tolerations, node.believed_taints)
        if taint not in node.taints
    ]
    return Part(tuple(_taints(wanted, node.taints)), tuple(expected))


def check_labels(wanted: Demand, node: NodeToBe, pool: Pool) -> Part:
    """Check the labels that the pod requires."""
    expected = _expected_labels(wanted, node, pool, autoscaler_name(pool))
    return Part(tuple(_labels(wanted, node.labels)), tuple(expected))


def check_resources(wanted: Demand, node: NodeToBe, pool: Pool) -> Part:
    """Check the resources that the pod requests."""
    expected = _expected_resources(wanted, node, pool, autoscaler_name(pool))
    return Part(tuple(_resources(wanted, node)), tuple(expected))


def check_ports(wanted: Demand, node: NodeToBe, pool: Pool) -> Part:
    """Check host ports."""
    return Part(tuple(_ports(wanted, node)))


def check_topology(wanted: Demand, node: NodeToBe, pool: Pool) -> Part:
    """Check spread constraints, affinity between pods, and the zones of volumes."""
    problems = wanted.topology.problems(node.labels)
    return Part(tuple(Reason(answer, "topology", text) for answer, text in problems))


# Checks that every pod needs, and checks that only some pods need.
_FOR_ALL: tuple[PartOf, ...] = (check_taints, check_labels, check_resources)
_PARTS: tuple[PartOf, ...] = (*_FOR_ALL, check_ports, check_topology)


def autoscaler_name(pool: Pool) -> str:
    """Return the usual name of the autoscaler of a pool."""
    names = {"karpenter": "Karpenter", "auto-mode": "EKS Auto Mode"}
    return names.get(pool.autoscaler, "cluster autoscaler")


def _expected_taint(pool: Pool, taint: Taint) -> str:
    who = autoscaler_name(pool)
    if taint in pool.mistaken_taints:
        return f"{who} treats startup taint {taint} as permanent; {startup_fix(pool, taint)}"
    return f"{who} expects taint {taint}, which the pod doesn't tolerate"


def _taint_rule(pool: Pool, taint: Taint) -> str:
    """Return the rule that reports the taint for the pool, with every pod that waits for it."""
    return _MISTAKEN if taint in pool.mistaken_taints else ""


def startup_fix(pool: Pool, taint: Taint) -> str:
    """Return how to configure an autoscaler so that it treats a taint as temporary."""
    return f"set its flag --startup-taint={taint.key}" if pool.is_group else "list it in the NodePool's startupTaints"


def _taints(wanted: Demand, taints: tuple[Taint, ...]) -> list[Reason]:
    given = wanted.pod.tolerations
    refused = [
        Reason(answer, "taint", f"doesn't tolerate taint {taint}{_not_added(taint)}; add the toleration", 1)
        for taint, answer in untolerated(given, taints)
    ]
    return [*refused, *evictions(given, taints)]


def evictions(given: tuple[Toleration, ...], taints: Iterable[Taint]) -> list[Reason]:
    """Return the taints that evict a pod as soon as it runs on the node."""
    fix = "remove tolerationSeconds"
    return [
        Reason(answer, "taint", f"{_LEAVES[answer]} by taint {taint}, which it tolerates for 0 seconds; {fix}", 1)
        for taint, answer in evicting(given, taints)
    ]


def _not_added(taint: Taint) -> str:
    """Return why EKS adds no toleration for a taint that has the name of a resource."""
    if not taint.key.startswith(NVIDIA):
        return ""
    if taint.effect == "NoExecute":
        return ", and EKS adds one for NoSchedule only"
    return f", and EKS adds one only to pods that request {taint.key} by that name"


def _labels(wanted: Demand, labels: Labels) -> list[Reason]:
    chosen = wanted.pod.selection
    if chosen.takes(labels) is Answer.YES:
        return []
    return [
        Reason(answer, "label", _label_text(each, labels.get(each.key), answer))
        for each, answer in chosen.unmet(labels)
    ]


def _label_text(asked: Requirement, have: object, answer: Answer) -> str:
    wanted = str(asked)
    if asked.is_nowhere:
        return f"requires label {wanted}, and AWS has no such zone"
    if answer is Answer.UNKNOWN and isinstance(have, LabelValues) and asked.key == ZONE:
        return f"requires label {wanted}, and it is unknown whether this zone exists"
    if answer is Answer.UNKNOWN:
        return f"requires label {wanted}, whose value on the node is unknown until it runs"
    if have is None and wanted.startswith(_DISCOVERED):
        return f"requires label {wanted}, which only NVIDIA's feature discovery sets, and it doesn't run there"
    if have is None:
        return f"requires label {wanted}, which the node doesn't have"
    return f"requires label {wanted}, but its value on the node is {_value_known_later(have) or _values(have)}"


def _value_known_later(have: object) -> str:
    """Return the known part of a value, such as the region of a zone; empty if the whole value is known."""
    if not isinstance(have, Unknown):
        return ""
    known = ", ".join(map(str, have.choices)) or _LATER.sub("...", have.expression)
    return known if known.strip(".") else "known at deployment only"


def _values(have: object) -> str:
    values = sorted(getattr(have, "values", ()))
    shown = ", ".join(values[:4]) + (", ..." if len(values) > 4 else "")
    if not isinstance(have, LabelValues) or not have.all_but:
        return shown
    return f"{_kind_of_value(have)}{f' except {shown}' if shown else ''}"


def _kind_of_value(have: LabelValues) -> str:
    bounds = [f"{word} {bound}" for word, bound in (("from", have.least), ("to", have.most)) if bound is not None]
    return f"a whole number {' '.join(bounds)}" if bounds else "any value"


def _resources(wanted: Demand, node: NodeToBe) -> list[Reason]:
    found = []
    for name, asked in wanted.requests.items():
        if name == DEVICE_CLASS:
            continue  # Claims are checked against all nodes of a pool at once.
        if name == "pods" and name in node.unsaid:
            continue  # Every node accepts a pod. The caller that counts pods per node checks the number.
        if asked == 0 or asked <= node.least.get(name, 0):
            if name in node.alone and asked > 1:
                text = f"requests {asked} {name}, {TURNED_AWAY}; request one"
                found.append(Reason(Answer.NO, "resource", text, 1))
        elif (devices := node.devices_max(name)) is not None and asked > devices:
            found.append(_too_few_devices(name, asked, devices, node))
        elif name in node.unsaid or asked <= node.most.get(name, 0):
            condition = f"a device plugin advertises {name}" if _may_be_advertised(name, asked, node) else ""
            # If the input has the plugin that doesn't run on the node, the rule names it.
            rule = "GPU010" if name == GPU and name in node.unsaid and not condition else ""
            text = _uncertain_text(name, asked, node)
            found.append(Reason(Answer.UNKNOWN, "resource", text, rule=rule, condition=condition))
        else:
            found.append(_short(name, asked, node))
    if wanted.pod.is_open:
        found.append(Reason(Answer.UNKNOWN, "resource", _open_text(wanted)))
    return found


def _too_few_devices(name: str, asked: int, devices: int, node: NodeToBe) -> Reason:
    if name == EFA and devices == 0:
        return Reason(Answer.NO, "resource", f"requests {asked} {name}, but {node.instance_type} has no EFA", 3)
    text = f"requests {asked} {name}, but {node.instance_type} has {devices}; choose a type with {asked}"
    return Reason(Answer.NO, "resource", text, 2)


def _may_be_advertised(name: str, asked: int, node: NodeToBe) -> bool:
    """Whether a node has the devices, and only the component that advertises them is missing from the input."""
    devices = node.devices_max(name)
    return node.row is not None and name in node.unseen and (devices is None or asked <= devices)


def _open_text(wanted: Demand) -> str:
    if names := wanted.pod.open_requests:
        return f"requests amounts known at deployment only: {', '.join(names)}"
    return "has a limit that is known at deployment only, and the API server rejects a limit below its request"


def _uncertain_text(name: str, asked: int, node: NodeToBe) -> str:
    what = f"requests {show(name, asked)} {name}"
    if name in node.unsaid:
        if name.startswith(NVIDIA):
            return f"{what}, and no component that is known to run here advertises it"
        return f"{what}, and it is unknown how much the node has"
    if node.allocatable is not None:
        return f"{what}, and it is unknown how much of {show(name, node.most[name])} is free: the input has no pods"
    low, high = show(name, node.least.get(name, 0)), show(name, node.most[name])
    return f"{what}, and the node has between {low} and {high}; request at most {low}"


def _short(name: str, asked: int, node: NodeToBe) -> Reason:
    have = node.most.get(name, 0)
    if node.allocatable is not None:
        if not node.allocatable.get(name):
            text = f"requests {show(name, asked)} {name}, but the running node advertises none"
            return Reason(Answer.NO, "resource", text, 2)
        of = show(name, node.allocatable[name])
        text = f"requests {show(name, asked)} {name}, but a running node has {show(name, max(have, 0))} of {of} free"
        return Reason(Answer.NO, "resource", text, 2)
    if name in node.taken and have >= 0 and node.row is not None:
        takers, left = ", ".join(node.taken[name]), show(name, have)
        text = f"requests {show(name, asked)} {name}, but DaemonSet {takers} leaves only {left} on each node"
        return Reason(Answer.NO, "resource", f"{text}; remove the request from the DaemonSet", 1)
    if have == 0 and name.startswith(NVIDIA):
        return _other_device(name, asked, node)
    kind = node.instance_type or "node"
    if have == 0:
        if name == EFA and node.row is not None and node.row.max_efa == 0:
            return Reason(Answer.NO, "resource", f"requests {show(name, asked)} {name}, but {kind} has no EFA", 3)
        hint = "; install its device plugin" if name == EFA else ""
        return Reason(Answer.NO, "resource", f"requests {show(name, asked)} {name}, but the node has none{hint}", 3)
    wanted, most = distinct(name, asked, max(have, 0))
    return Reason(Answer.NO, "resource", f"requests {wanted} {name}, but {kind} has {most} for pods", 2)


def _other_device(name: str, asked: int, node: NodeToBe) -> Reason:
    if name in OF_HAMI and node.row is not None:
        text = f"requests {asked} {name}, which HAMi's scheduler counts, and nothing in the input installs it"
        return Reason(Answer.UNKNOWN, "resource", text)
    others = sorted(each for each in node.most if each.startswith(NVIDIA) and node.most[each] > 0)
    if others:
        offered = ", ".join(others)
        if name.startswith(GPU):
            return Reason(
                Answer.NO,
                "resource",
                f"requests {asked} {name}, but the node offers its GPUs as {offered}; request that",
                1,
            )
        return Reason(Answer.NO, "resource", f"requests {asked} {name}, but the node offers {offered}", 3)
    if node.row is None:
        why = why_not_sold(node.instance_type or "")
        # A type that the user meant to have GPUs is nearer to a fit than a type that never has GPUs.
        weight = _NEVER_A_GPU if why is None else _NO_SUCH_TYPE
        text = why or f"{node.instance_type or 'the node'} has no GPU"
        return Reason(Answer.NO, "resource", f"requests {asked} {name}, but {text}", weight)
    text = f"no component advertises {name} on its nodes; install a device plugin"
    return Reason(Answer.NO, "resource", text, 2, rule="GPU010" if name == GPU else "")


def _ports(wanted: Demand, node: NodeToBe) -> list[Reason]:
    if not ports_clash(wanted.pod.host_ports, node.ports):
        unsure = wanted.pod.host_ports and (node.ports_open or ports_clash(wanted.pod.host_ports, node.unsure_ports))
        text = f"requests {_numbers(wanted)} of the node, which a DaemonSet may use"
        return [Reason(Answer.UNKNOWN, "port", text)] if unsure else []
    text = f"requests {_numbers(wanted)} of the node, which a DaemonSet uses on every node"
    return [Reason(Answer.NO, "port", text)]


def _numbers(wanted: Demand) -> str:
    return f"port {', '.join(map(str, sorted({number for _, _, number in wanted.pod.host_ports})))}"


def _expected_labels(wanted: Demand, node: NodeToBe, pool: Pool, who: str) -> list[Reason]:
    if wanted.pod.selection.takes(node.believed_labels) is Answer.YES:
        return []
    return [
        Reason(
            answer,
            "autoscaler",
            f"{who} doesn't expect label {each} on a new node; {_label_fix(pool)}",
            1,
        )
        for each, answer in wanted.pod.selection.unmet(node.believed_labels)
        if each.matches(node.labels) is not Answer.NO
    ]


def _label_fix(pool: Pool) -> str:
    if pool.kind == "managed":
        return "set it in the node group's labels"
    if pool.kind == "self-managed":
        return f"add a tag {LABEL_TAG}... for it to the Auto Scaling group"
    return "set it in the NodePool's template labels"


def _expected_resources(wanted: Demand, node: NodeToBe, pool: Pool, who: str) -> list[Reason]:
    found = []
    for name, asked in wanted.requests.items():
        have = node.believed.get(name)
        if asked == 0 or name == DEVICE_CLASS or (have is not None and asked <= have):
            continue
        devices = node.devices_max(name)
        if asked > node.most.get(name, 0) and (name not in node.unsaid or (devices is not None and asked > devices)):
            continue  # The node itself lacks the resource, which another reason states.
        if have is None and node.row is None and name in ("cpu", "memory", "pods", DISK):
            if name == DISK and pool.is_group:
                found.append(_undeclared(name, asked, 0, pool, who))
            continue
        found.append(_undeclared(name, asked, have or 0, pool, who))
        if name == GPU and node.row is not None and asked > node.row.gpus:
            found[-1] = replace(found[-1], text=_larger_type(asked, node.row))
    return found


def _larger_type(asked: int, row: InstanceType) -> str:
    return f"requests {asked} {GPU}, but {row.name} has {row.gpus}; choose a type with {asked}, or share its GPUs"


def _undeclared(name: str, asked: int, have: int, pool: Pool, who: str) -> Reason:
    fix = f"add tag {RESOURCE_TAG}{name} with the amount of a node to the Auto Scaling group"
    if pool.kind == "karpenter":
        fix = f"add a NodeOverlay with capacity {name}"
    elif pool.kind == "auto-mode":
        fix = "Auto Mode has no such pool"
    text = f"{who} expects {show(name, have)} {name} on a new node, but the pod requests "
    return Reason(Answer.NO, "autoscaler", f"{text}{show(name, asked)}; {fix}", 1)


@dataclass(frozen=True, slots=True)
class Profile:
    """A key that is equal for nodes that are alike, as numbers that are quick to compare.

    Attributes:
        taints: Its taints, as they are and in the autoscaler's view.
        resources: Its allocatable resources, as they are and in the autoscaler's view.
        labels: Each of its labels, as they are and in the autoscaler's view.
    """

    taints: int
    resources: int
    labels: dict[str, int]


class Memory:
    """Caches each check of `fits` by the values that the check depends on. Pass `ask` to `fits`."""

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._ids: dict[object, int] = {}
        self._profiles: dict[int, Profile] = {}
        self._parts: dict[object, Part] = {}

    def number(self, value: object) -> int:
        """Return a number that is the same for equal values."""
        return self._ids.setdefault(value, len(self._ids))

    def ask(self, part: PartOf, wanted: Demand, node: NodeToBe, pool: Pool) -> Part:
        """Return the result of a check, from the cache if pod and node are alike in everything that the check reads."""
        profile = self._profiles.get(id(node)) or self.profile(node, pool)
        key: object
        if part is check_taints:
            key = part, wanted.tolerations_key, profile.taints
        elif part is check_resources:
            key = part, wanted.requests_key, profile.resources
        elif part is check_labels:
            key = part, wanted.selection_key, pool.kind, *[profile.labels.get(name) for name in wanted.keys]
        else:
            return part(wanted, node, pool)
        found = self._parts.get(key)
        if found is None:
            found = self._parts[key] = part(wanted, node, pool)
        return found

    def profile(self, node: NodeToBe, pool: Pool) -> Profile:
        """Return the key of a node. Nodes and pools live longer than the cache."""
        found = self._profiles.get(id(node))
        if found is None:
            found = self._profiles[id(node)] = self._profile(node, pool)
        return found

    def _profile(self, node: NodeToBe, pool: Pool) -> Profile:
        sizes = (frozenset(each.items()) for each in (node.least, node.most, node.believed))
        taken = frozenset(node.taken.items())
        keys = {**node.labels, **node.believed_labels}
        return Profile(
            taints=self.number(("taints", node.taints, node.believed_taints, pool.kind)),
            resources=self.number(
                ("resources", *sizes, node.unsaid, node.unseen, node.alone, taken, node.instance_type, pool.kind)
            ),
            labels={key: self.number((node.labels.get(key), node.believed_labels.get(key))) for key in keys},
        )
