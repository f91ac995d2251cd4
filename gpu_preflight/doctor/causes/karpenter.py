"""Why Karpenter or EKS Auto Mode orders no node for a pod. `node_claims` has the steps of an ordered node.

Sources: kubernetes-sigs/karpenter 1.14.1, pkg/controllers/provisioning/scheduling; aws/karpenter-provider-aws 1.14.1,
pkg/controllers/nodeclass
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from shlex import quote

from gpu_facts.labels import CAPACITY_TYPE, COMPUTE_TYPE, EKS_DOMAIN, KARPENTER_AWS_DOMAIN
from gpu_facts.light import dataclass, regex
from gpu_facts.quantities import resources
from gpu_facts.resources import GPU, NVIDIA
from gpu_preflight.doctor.capacity import (
    capacity_types,
    controller,
    controller_faults,
    controller_logs,
    fitting_groups,
    groups,
    has_unseen_groups,
    intolerable,
    needs_node,
    node_pools,
    nominated_claim,
    pool_verdicts,
    refused_launches,
)
from gpu_preflight.doctor.cause import Cause, Clock, Confidence, Evidence, Symptom, first_symptom, weaker
from gpu_preflight.doctor.causes.device_plugins import device_manager
from gpu_preflight.doctor.live import Event, Live, Target, title
from gpu_preflight.doctor.patches import command, kubectl, patch_command, tolerating
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, mapping
from gpu_preflight.remedies.change import Change


@dataclass(frozen=True, slots=True)
class _Fault(Symptom):
    """A fault that Karpenter reports about a NodePool; ``kinds`` are the simulated reasons that agree with it."""

    kinds: tuple[str, ...] = ()


_CLAIMS = ("Dynamic Resource Allocation requirements that are not", "dynamic resource")
_TAINTS = ("did not tolerate taint",)
_TOPOLOGY, _VOLUMES = ("unsatisfiable topology",), ("incompatible volume",)
_RESOURCES = ("no instance type has enough resources",)
_LIMITS = ("exceed limits for nodepool", "node limits have been exhausted")
_LABELS = ("does not have known values", "specify a well known label")
_OFFERINGS = ("no instance type has the required offering", "had enough resources, had a required offering")
_TOO_SMALL = "has no instance type that is large enough for the pod and the DaemonSets"
_NO_TYPE = "correct the requirements of the NodePool: architecture, instance types and GPU must belong together"
_ADD_LABEL = "add the label to spec.template.metadata.labels of the NodePool, or correct the pod's selector"
_ADD_VALUE = "add the value to the requirements of the NodePool, or correct the pod's selector"
_WIDEN = "widen the requirements of the NodePool, or correct the pod's selector"
_ZONES = "allow the zones of the constraint in the NodePool, or relax the constraint"
_WAIT = "allow more zones, instance types or capacity types, or wait"
_OTHER_GROUP = "use a managed node group for pods with resource claims"
# One part of the event is about one NodePool. The first text that matches counts.
_FAULTS = (
    _Fault("K14", _CLAIMS, "doesn't support the resource claims of the pod", _OTHER_GROUP, ("claim",)),
    _Fault("K11", _LIMITS, "has reached its limits", "raise its spec.limits", ("limit",)),
    _Fault("K7", _TAINTS, "has a taint that the pod doesn't tolerate", "add the toleration", ("taint",)),
    _Fault("K5", _LABELS, "doesn't know a label that the pod selects", _ADD_LABEL, ("label",)),
    _Fault("K16", _TOPOLOGY, "can't meet a topology constraint of the pod", _ZONES, ("topology",)),
    _Fault("K16", _VOLUMES, "excludes the zone of the pod's volume", "allow its zone in the pool", ("volume",)),
    _Fault("K8", _RESOURCES, _TOO_SMALL, "add a larger type, or request less", ("resource",)),
    _Fault("K9", ("filtered out all",), "has requirements that no instance type meets", _NO_TYPE),
    _Fault("K10", _OFFERINGS, "has no offering for the pod now", _WAIT),
    _Fault(
        "K9", ("no instance type",), "excludes every instance type that the pod accepts", _WIDEN, ("label", "resource")
    ),
    _Fault("K6", ("incompatible requirements, key",), "excludes a value that the pod selects", _ADD_VALUE, ("label",)),
)
# The name of a NodePool in the requirements of a part.
_NAMED_POOL = regex(r"(?:NodePool=|karpenter\.sh/nodepool In \[)([\w.-]+)")
_POOL_FAULTS = ("K5", "K6", "K7", "K8", "K9", "K16")
_BUILT_IN = ("general-purpose", "system")
# Karpenter repeats its event at most every 5 minutes. An older one may be about an earlier NodePool.
_REPEATED_SECONDS = 900
_CLASS_FIXES = {
    "K3": "correct the selector in the spec of the {kind} that {type} reports",
    "K4": "fix what {reason} reports",
    "M3": "give the role of the NodeClass an access entry of type EC2 with AmazonEKSAutoNodePolicy",
}


def find(live: Live, target: Target) -> Iterator[Cause]:
    """Yield the causes of a pod for which Karpenter would have to order a node."""
    if not needs_node(live, target):
        return
    pools, every = node_pools(live, target), live.objects("NodePool")
    blocked = [each for pool in pools for each in _node_class(live, pool)]
    automatic = list(_auto_mode(live, target, every))
    reported = list(_reported(live, target, pools, every))
    yield from (*blocked, *automatic, *_stopped(live, target, every, pools))
    yield from (each for each in reported if not blocked and not (automatic and each.id in _POOL_FAULTS))
    if not any(each.id == "K11" for each in reported):
        yield from (each for pool in pools for each in _limits(live, target, pool, None))
    yield from _reserved(live, target, pools)


def _is_automatic(pool: Object) -> bool:
    return bool(dig(pool.spec, "template", "spec", "nodeClassRef", "group") == EKS_DOMAIN)


def _stopped(live: Live, target: Target, every: list[Object], pools: list[Object]) -> Iterator[Cause]:
    """K1 and K2: nothing considers the pod."""
    deployment, certainty = controller(live, "karpenter"), live.certainty("NodePool")
    own = [each for each in pools if not _is_automatic(each)]
    if deployment is None:
        reported = target.pod is not None and live.object_events(target.pod, component="karpenter")
        if own and not reported and live.certainty("Deployment") is not None:
            message = f"{title(own[0])} waits for Karpenter, which has no Deployment in the cluster"
            seen = (Evidence(title(own[0]), "", "exists"), Evidence("deployments.apps", "items", "without Karpenter"))
            yield Cause("K1", title(own[0]), message, "likely", seen, "install Karpenter")
        elif certainty == "proven" and not every and "NodePool" not in live.dump.unknown_kinds:
            message = "Karpenter has its definitions in the cluster and no NodePool, so it launches nothing"
            proof = Evidence("nodepools.karpenter.sh", "items", "[]")
            yield Cause("K2", "NodePools", message, "likely", (proof,), "create a NodePool with GPU instance types")
        return
    autoscaled = controller(live, "cluster-autoscaler") is not None
    has_groups = autoscaled and any(each.gpus for each in fitting_groups(live, target))
    if (fault := controller_faults(live, deployment)) is not None:
        if own or not every:
            message = f"{deployment.title} {fault.text}, so Karpenter launches no nodes"
            yield Cause(
                *("K1", deployment.title, message, "proven", fault.evidence, fault.fix, fault.command),
                because=fault.because,
            )
    elif certainty is not None and every and all("replicas" in each.spec for each in every) and not has_groups:
        shown = tuple(Evidence(title(each), "spec.replicas", str(each.spec["replicas"])) for each in every[:3])
        message = f"{title(every[0])} is static, and Karpenter adds no node to a static NodePool for a pod"
        fix = f"raise spec.replicas of NodePool {every[0].name}, or create a NodePool without replicas"
        yield Cause("K2", title(every[0]), message, weaker(certainty, "likely"), shown, fix)
    elif certainty is not None and not every and not has_groups:
        logged = controller_logs(live, deployment, "no dynamic nodepool")
        shown = (Evidence("nodepools.karpenter.sh", "items", "[]"), *logged)
        message = "Karpenter runs, and the cluster has no NodePool"
        sure: Confidence = weaker(certainty, "likely" if has_unseen_groups(live) else "proven")
        yield Cause("K2", deployment.title, message, sure, shown, "create a NodePool with GPU instance types")
    for pool in pools:
        valid = live.condition(pool, "ValidationSucceeded")
        if valid is not None and valid.status == "False":
            message = f"{title(pool)} is invalid, so Karpenter ignores it: {valid.message or valid.reason}"
            yield Cause(
                "K2", title(pool), message, "proven", (live.condition_evidence(pool, valid),), "correct its spec"
            )


def _node_class(live: Live, pool: Object) -> Iterator[Cause]:
    """K3, K4 and M3: the node class of a NodePool isn't usable."""
    ref = mapping(dig(pool.spec, "template", "spec", "nodeClassRef"))
    kind, name = str(ref.get("kind")), str(ref.get("name"))
    echo, found = live.condition(pool, "NodeClassReady"), live.object(kind, name)
    echoed = [live.condition_evidence(pool, echo)] if echo is not None and echo.status == "False" else []
    id = "M3" if _is_automatic(pool) else "K3"
    ready = live.condition(found, "Ready") if found is not None else None
    if found is None or ready is None:
        is_absent = found is None and echo is not None and echo.reason == "NodeClassNotFound"
        if echo is not None and echoed and not is_absent:
            message = f"{kind} {name} of NodePool {pool.name} isn't ready: {echo.message or echo.reason}"
            yield Cause(id, title(pool), message, "likely", tuple(echoed), f"repair {kind} {name}")
        elif found is None and (is_absent or live.certainty(kind) is not None):
            confidence: Confidence = "proven" if is_absent and live.certainty(kind) == "proven" else "likely"
            message = f"NodePool {pool.name} refers to {kind} {name}, which doesn't exist"
            shown = tuple(echoed) or (Evidence(title(pool), "spec.template.spec.nodeClassRef.name", name),)
            yield Cause(id, title(pool), message, confidence, shown, f"create {kind} {name}, or correct nodeClassRef")
        return
    if ready.status == "True":
        return
    bad = [each for each in live.conditions(found) if each.type != "Ready" and each.reason != "DependenciesNotReady"]
    first = next((each for each in bad if each.status == "False"), ready)
    if first.type == "ValidationSucceeded" and id == "K3":
        id = "K4"
    is_current = first.status == "False" and first.generation in (None, dig(found.content, "metadata", "generation"))
    message = f"{kind} {name} of NodePool {pool.name} isn't ready: {first.message or first.reason}"
    fix = _CLASS_FIXES[id].format(kind=kind, type=first.type, reason=first.reason)
    describe = kubectl("describe", found)
    shown = (live.condition_evidence(found, first), *echoed)
    yield Cause(id, title(found), message, "proven" if is_current else "likely", shown, fix, describe)


def _report(live: Live, target: Target) -> Event | None:
    every = live.object_events(target.pod, reason="FailedScheduling", component="karpenter") if target.pod else []
    return every[0] if every else None


def _reported(live: Live, target: Target, pools: list[Object], every: list[Object]) -> Iterator[Cause]:
    """K5 to K16: Karpenter's message about each NodePool, compared with the simulation."""
    event = _report(live, target)
    if event is None:
        yield from _simulated(live, target, pools, every)
        return
    parts = event.message.partition("Failed to schedule pod, ")[2].split("; ")
    results = pool_verdicts(live, target)
    best = min((each.distance for each in results), default=None)
    # The simulation tolerates some taints that the pod doesn't.
    near = {each.name for each in pools} or {each.pool.name for each in results if each.distance == best}
    found = [one for each in parts for one in _part_causes(live, target, pools, every, event, each, near)]
    # If the simulation agrees with no part, those that name no farther NodePool count.
    rest = (each for each in parts if near.issuperset(_NAMED_POOL.findall(each)) and pools)
    yield from found or (one for each in rest for one in _part_causes(live, target, pools, every, event, each, None))


def _part_causes(
    live: Live,
    target: Target,
    pools: list[Object],
    every: list[Object],
    event: Event,
    part: str,
    near: set[str] | None,
) -> Iterator[Cause]:
    """Yield the causes in a part of Karpenter's message.

    Args:
        live: The cluster.
        target: The pod.
        pools: NodePools that would take the pod.
        every: All NodePools.
        event: The message.
        part: The part of it that is about one NodePool.
        near: The nearest NodePools, of which alone the parts count; ``None`` if each part counts.
    """
    fault = first_symptom(_FAULTS, part)
    if fault is None or (fault.id == "K9" and any(refused_launches(live, target))):
        # After EC2 refused a launch, Karpenter reports for 3 minutes that no type has an offering.
        return
    agreeing = _agreeing(live, target, fault, part, every)
    # Parts about NodePools that are farther from a fit aren't the reason.
    is_far = not (near or set()) & set(agreeing) if agreeing else bool(pools) and "; " in event.message
    if fault.id == "K7":
        is_far = not any(_accepts(live, target, name) for name in agreeing)
    if fault.id in _POOL_FAULTS and is_far and near is not None:
        return
    named = part.rpartition("NodePool=")[2].strip(' ")}{') if "NodePool=" in part else ""
    own = [each for each in every if each.name == named or (not named and each.name in agreeing)]
    subjects = own or pools or every
    if fault.id == "K11" and subjects:
        yield from (each for pool in subjects for each in _limits(live, target, pool, event))
        return
    subject = title(subjects[0]) if subjects else "Karpenter"
    age = live.seconds_since(event.time)
    is_old = age is None or age > _REPEATED_SECONDS
    confidence: Confidence = "proven" if agreeing and not is_old else "likely"
    message = f"{subject} {fault.fault}: {part.partition(', requirements=')[0]}"
    source = "aws/karpenter-provider-aws 1.14.1, pkg/cache"
    clock = Clock("Karpenter tries a refused offering again", live.time_text(event.time), "3 minutes", source)
    waits = clock if fault.id == "K10" else None
    missing = intolerable(subjects[0], target) if fault.id == "K7" and subjects else ()
    change = tolerating(target, missing) if missing else None
    text = command(target, change) if change is not None else ""
    shown = (live.event_evidence(event),)
    yield Cause(fault.id, subject, message, confidence, shown, fault.fix, text, change, clock=waits)


def _accepts(live: Live, target: Target, name: str) -> bool:
    """Whether a NodePool would take a pod that tolerated its taints."""
    found = (each for each in pool_verdicts(live, target) if each.pool.name == name)
    return all(one.kind == "taint" for each in found for one in each.reasons if one.answer is Answer.NO)


def _agreeing(live: Live, target: Target, fault: _Fault, part: str, every: list[Object]) -> list[str]:
    """Return the NodePools for which the simulation finds the same fault."""
    if fault.id == "K7":
        return [each.name for each in every if any(one.key in part for one in intolerable(each, target))]
    return [
        each.pool.name
        for each in pool_verdicts(live, target)
        if any(one.answer is Answer.NO and one.kind in fault.kinds for one in each.reasons)
    ]


def _simulated(live: Live, target: Target, pools: list[Object], every: list[Object]) -> Iterator[Cause]:
    """The nearest NodePool that doesn't accept the pod, if no event of Karpenter is left."""
    ids = {"taint": "K7", "label": "K6", "resource": "K8", "claim": "K14"}
    for each in [] if pools else pool_verdicts(live, target)[:1]:
        reasons = [one for one in each.reasons if one.answer is Answer.NO]
        pool = next((one for one in every if one.name == each.pool.name), None)
        id = ids.get(reasons[0].kind) if len({one.kind for one in reasons}) == 1 else None
        if id is not None and pool is not None:
            fix = next(one.fix for one in _FAULTS if one.id == id)
            shown = (Evidence("simulation", title(pool), reasons[0].text),)
            message = f"{title(pool)} doesn't accept the pod: {reasons[0].text}"
            yield Cause(id, title(pool), message, "likely", shown, fix)


def _limits(live: Live, target: Target, pool: Object, event: Event | None) -> Iterator[Cause]:
    """K11: the limits of a NodePool, from its status."""
    most, used = mapping(pool.spec.get("limits")), mapping(dig(pool.content, "status", "resources"))
    limits, taken, wanted = resources(most), resources(used), {"nodes": 1, **target.read.requests}
    full = [name for name, limit in limits.items() if name in wanted and taken.get(name, 0) + wanted[name] > limit]
    results = [each for each in pool_verdicts(live, target) if each.pool.name == pool.name]
    reasons = [one.text for each in results for one in each.reasons if one.kind == "limit" and one.answer is Answer.NO]
    if not full and not reasons and event is None:
        return
    texts = [f"{used.get(name, 0)} of {most[name]} {name} are in use, and the pod needs more" for name in full]
    message = f"{title(pool)} has reached its limit: {', '.join((*texts, *reasons, 'see its event')[: len(full) or 1])}"
    shown = [Evidence(title(pool), f"spec.limits[{name}]", str(most[name])) for name in full]
    shown += [Evidence(title(pool), f"status.resources[{name}]", str(used.get(name, 0))) for name in full]
    shown += (
        [live.event_evidence(event)] if event is not None else [Evidence("simulation", "limit", one) for one in reasons]
    )
    confidence: Confidence = "proven" if event is not None and (full or reasons) else "likely"
    fix = "raise spec.limits of the NodePool, or free the GPUs of its nodes"
    patch, change = f"kubectl edit nodepool {quote(pool.name)}", None
    if full and all(name in target.devices or name == "nodes" for name in full):
        raised = {name: str(taken.get(name, 0) + wanted[name]) for name in full}
        patch = patch_command(pool, {"spec": {"limits": raised}})
        change = Change("raise its limits", pool.origin, ("spec", "limits"), {**most, **raised}, of_pool=True)
    yield Cause("K11", title(pool), message, confidence, tuple(shown), fix, patch, change)


def _reserved(live: Live, target: Target, pools: list[Object]) -> Iterator[Cause]:
    """K15: Karpenter reports no event while it waits for a reservation."""
    deployment = controller(live, "karpenter")
    logged = list(controller_logs(live, deployment, "limited reserved offering capacity")) if deployment else []
    if _report(live, target) is not None or nominated_claim(live, target):
        return
    for pool in pools:
        values = capacity_types(pool)
        if "reserved" in values and (logged or values == ["reserved"]):
            shown = logged or [Evidence(title(pool), f"spec.template.spec.requirements[{CAPACITY_TYPE}]", "reserved")]
            fix = "extend the reservation, or allow on-demand in the NodePool"
            message = f"{title(pool)} waits for reserved capacity, about which Karpenter reports no event"
            yield Cause("K15", title(pool), message, "likely" if logged else "possible", tuple(shown), fix)


def _without_groups(live: Live) -> Confidence:
    """Return how certain it is that NodePools are the only way to a node with GPUs."""
    has_nodes = any(
        name.startswith(NVIDIA) and count for each in live.nodes for name, count in live.capacity(each).items()
    )
    if has_nodes or any(each.gpus for each in groups(live)):
        return "possible"
    needed = [live.certainty(each) or "possible" for each in ("NodePool", "Node", "Deployment")]
    return reduce(weaker, needed, "likely" if has_unseen_groups(live) else "proven")


def _auto_mode(live: Live, target: Target, every: list[Object]) -> Iterator[Cause]:
    """M1, M2 and M4."""
    auto, certainty = [each for each in every if _is_automatic(each)], live.certainty("NodePool")
    if not auto or not target.read.asks_for_gpu:
        return
    unmet = [each.key for each, answer in target.read.selection.unmet({}) if answer is Answer.NO]
    wrong = [each for each in unmet if each.startswith(f"{KARPENTER_AWS_DOMAIN}/")]
    if len(auto) == len(every) and all(each.name in _BUILT_IN for each in auto) and certainty is not None:
        shown = tuple(Evidence(title(each), "", "built into EKS Auto Mode") for each in auto)
        message = "EKS Auto Mode has only its built-in NodePools, which have no GPU types, and the pod requests GPUs"
        fix = "create a NodePool with eks.amazonaws.com/instance-gpu-name or a GPU instance family"
        yield Cause("M1", title(auto[0]), message, _without_groups(live), shown, fix)
    elif wrong:
        right = wrong[0].replace(KARPENTER_AWS_DOMAIN, EKS_DOMAIN)
        message = f"{target.title} selects {wrong[0]}, and nodes of EKS Auto Mode have {right} instead"
        event = _report(live, target)
        shown = (Evidence(target.title, "spec", wrong[0]), *([live.event_evidence(event)] if event else []))
        confidence: Confidence = "proven" if len(auto) == len(every) and certainty == "proven" else "likely"
        yield Cause("M2", target.title, message, confidence, shown, f"select {right}")
    nodes = {each.name for each in live.nodes if each.labels.get(COMPUTE_TYPE) == "auto"}
    for each in live.objects("DaemonSet"):
        manager = device_manager(mapping(dig(each.spec, "template", "spec")), each.name)
        is_plugin = manager is not None and manager.device == GPU
        there = [pod for pod in live.owned(each, "Pod") if pod.spec.get("nodeName") in nodes] if is_plugin else []
        if there:
            message = f"{title(each)} runs on nodes of EKS Auto Mode, which have a device plugin of their own"
            shown = (Evidence(there[0].title, "spec.nodeName", str(there[0].spec.get("nodeName"))),)
            fix = "exclude eks.amazonaws.com/compute-type=auto in the node affinity of the DaemonSet"
            yield Cause("M4", title(each), message, "likely", shown, fix)
