"""Why Karpenter or EKS Auto Mode orders no node for a pod, and at which step an ordered node waits.

Sources: kubernetes-sigs/karpenter 1.14.1, pkg/controllers/provisioning/scheduling and pkg/controllers/nodeclaim/
lifecycle; aws/karpenter-provider-aws 1.14.1, pkg/controllers/nodeclass, pkg/errors and pkg/controllers/interruption
"""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from gpu_facts.labels import NODE_POOL
from gpu_facts.quantities import resources
from gpu_preflight.doctor.capacity import (
    RECENT_SECONDS,
    claims,
    controller,
    controller_pods,
    fitting_groups,
    instance_id,
    intolerable,
    is_ready,
    needs_node,
    node_pools,
    nominated_claim,
    pool_verdicts,
    refused_launches,
)
from gpu_preflight.doctor.cause import Cause, Clock, Confidence, Evidence, weaker
from gpu_preflight.doctor.live import Condition, Event, Live, Target
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, mapping, mappings

# Texts of Karpenter about one NodePool each, with the kinds of simulated reasons that agree. The first match counts.
_TEXTS: tuple[tuple[str, str, tuple[str, ...], str, str], ...] = (
    ("Dynamic Resource Allocation requirements that are not", "K14", ("claim",), "doesn't support resource claims", "Use a node group or a static NodePool for pods with resource claims"),
    ("allocating dynamic resources", "K14", ("claim",), "can't allocate the resource claims", "Compare the claim with the devices of the NodePool's types"),
    ("incompatible dynamic resource requirements", "K14", ("claim",), "doesn't fit the resource claims", "Compare the claim with the devices of the NodePool's types"),
    ("exceed limits for nodepool", "K11", ("limit",), "has reached its limits", "Raise spec.limits of the NodePool, or remove idle nodes"),
    ("node limits have been exhausted", "K11", ("limit",), "has reached its limit of nodes", "Raise spec.limits.nodes of the NodePool"),
    ("did not tolerate taint", "K7", ("taint",), "has a taint that the pod doesn't tolerate", "Add the toleration to the pod"),
    ("does not have known values", "K5", ("label",), "doesn't know a label that the pod selects", "Add the label to spec.template.metadata.labels or the requirements of the NodePool, or correct the pod's selector"),
    ("unsatisfiable topology constraint", "K16", ("topology",), "can't meet a topology constraint of the pod", "Allow the zones of the constraint in the NodePool, or relax the constraint"),
    ("incompatible volume requirements", "K16", ("volume",), "excludes the zone of the pod's volume", "Allow the zone of the volume in the NodePool"),
    ("no instance type has enough resources", "K8", ("resource",), "has no instance type that is large enough for the pod and the DaemonSets", "Add a larger instance type to the NodePool, or request less"),
    ("no instance type has the required offering", "K10", (), "has no offering for the pod now", "Allow more zones, instance types or capacity types, or wait"),
    ("had enough resources, had a required offering", "K10", (), "has no offering for the pod now", "Allow more zones, instance types or capacity types, or wait"),
    ("no instance type", "K9", ("label", "resource"), "excludes every instance type that the pod accepts", "Widen the requirements of the NodePool, or correct the pod's selector"),
    ("incompatible requirements, key", "K6", ("label",), "excludes a value that the pod selects", "Add the value to the requirements of the NodePool, or correct the pod's selector"),
)  # fmt: skip
_POOL_FAULTS = ("K5", "K6", "K7", "K8", "K9", "K16")
_BUILT_IN = ("general-purpose", "system")
_AUTO_GROUP = "eks.amazonaws.com"
# A new GPU node takes 2 to 5 minutes until it is initialized.
_USUAL_SECONDS = 300
_REPEATED_SECONDS = 900
_TIMEOUTS = "kubernetes-sigs/karpenter 1.14.1, pkg/controllers/nodeclaim/lifecycle/liveness.go"


def find(live: Live, target: Target) -> Iterator[Cause]:
    """Yield the causes of a pod for which Karpenter would have to launch a node."""
    if not needs_node(live, target):
        return
    pools, every = node_pools(live, target), live.objects("NodePool")
    blocked = [each for pool in pools for each in _node_class(live, pool)]
    yield from blocked
    yield from _stopped(live, target, every)
    messages = list(_messages(live, target, pools, every))
    yield from _auto_mode(live, target, every)
    yield from (each for each in messages if not blocked and not _is_auto_mode_fault(live, target, each))
    if not any(each.id == "K11" for each in messages):
        yield from (each for pool in pools for each in _limits(live, target, pool, None))
    steps = [each for claim in claims(live, target) for each in _step(live, claim)]
    yield from steps
    refused = list(_refused(live, target))
    yield from refused
    yield from _taken_back(live, pools, weak=bool(refused or messages))
    if not steps and not blocked:
        yield from _unregistered(live, pools)
    yield from _reserved(live, target, pools)


def _stopped(live: Live, target: Target, every: list[Object]) -> Iterator[Cause]:
    """K1 and K2: nothing looks at the pod."""
    deployment, certainty = controller(live, "karpenter"), live.certainty("NodePool")
    reported = target.pod is not None and live.events_of(target.pod, component="karpenter")
    own = [each for each in every if dig(each.spec, "template", "spec", "nodeClassRef", "group") != _AUTO_GROUP]
    if deployment is not None:
        wanted = deployment.spec.get("replicas", 1)
        ready = mapping(deployment.content.get("status")).get("readyReplicas") or 0
        if own and ready == 0:
            pods = [each for each in controller_pods(live, deployment) if not live.is_fine(each)]
            shown = [Evidence(deployment.title, "status.readyReplicas", f"{ready} of {wanted}")]
            shown += [live.of_condition(pod, one) for pod in pods[:1] for one in live.conditions(pod) if one.message]
            what = "is scaled to 0" if wanted == 0 else f"has 0 of {wanted} ready pods"
            fix = f"Diagnose pod {pods[0].name} of Karpenter" if pods else "Start Karpenter"
            command = f"kubectl describe deployment -n {quote(deployment.namespace)} {quote(deployment.name)}"
            message = f"{deployment.title} {what}, so Karpenter launches no nodes"
            yield Cause("K1", deployment.title, message, "proven", tuple(shown), fix, command)
        elif certainty is not None and not every and not any(each.gpus for each in fitting_groups(live, target)):
            shown = [
                Evidence("nodepools.karpenter.sh", "items", "[]"),
                *_logged(live, deployment, "no dynamic nodepool"),
            ]
            message = "Karpenter runs, and the cluster has no NodePool"
            yield Cause("K2", deployment.title, message, certainty, tuple(shown), "Create a NodePool with GPU types")
    elif own and not reported and live.certainty("Deployment") is not None and node_pools(live, target):
        message = "The cluster has NodePools, and no Deployment of Karpenter"
        shown = [Evidence(own[0].title, "", "exists"), Evidence("deployments.apps", "items", "without Karpenter")]
        yield Cause(
            "K1", own[0].title, message, "likely", tuple(shown), "Install Karpenter, or move the pod to a node group"
        )


def _logged(live: Live, deployment: Object, *texts: str) -> Iterator[Evidence]:
    for pod in controller_pods(live, deployment):
        for container, line in live.log_lines(pod, *texts):
            yield Evidence(f"log {pod.name}/{container}", "", line[:300])
            return


def _node_class(live: Live, pool: Object) -> Iterator[Cause]:
    """K3, K4 and M3: the node class of a NodePool isn't usable."""
    ref = mapping(dig(pool.spec, "template", "spec", "nodeClassRef"))
    kind, name, is_auto = str(ref.get("kind")), str(ref.get("name")), ref.get("group") == _AUTO_GROUP
    echo, found = live.condition(pool, "NodeClassReady"), live.object(kind, name)
    id = "M3" if is_auto else "K3"
    if found is None:
        certainty = live.certainty(kind)
        reported = echo is not None and echo.reason == "NodeClassNotFound"
        if certainty is None and not reported:
            if echo is not None and echo.status == "False":
                message = f"{kind} {name} of NodePool {pool.name} isn't ready: {echo.message or echo.reason}"
                yield Cause(
                    id, f"{kind} {name}", message, "likely", (live.of_condition(pool, echo),), f"Repair {kind} {name}"
                )
            return
        shown = [live.of_condition(pool, echo)] if echo is not None else []
        confidence: Confidence = "proven" if reported and certainty == "proven" else "likely"
        message = f"NodePool {pool.name} refers to {kind} {name}, which doesn't exist"
        yield Cause(id, pool.title, message, confidence, tuple(shown), f"Create {kind} {name}, or correct nodeClassRef")
        return
    ready = live.condition(found, "Ready")
    if ready is None or ready.status == "True":
        return
    bad = [
        each
        for each in live.conditions(found)
        if each.type != "Ready" and each.status != "True" and each.reason != "DependenciesNotReady"
    ]
    first = next((each for each in bad if each.status == "False"), bad[0] if bad else ready)
    if first.type == "ValidationSucceeded" and not is_auto:
        id = "K4"
    generation = dig(found.content, "metadata", "generation")
    is_current = first.status == "False" and first.generation in (None, generation)
    message = f"{kind} {name} of NodePool {pool.name} isn't ready: {first.message or first.reason}"
    fixes = {"K3": f"Correct {first.type.removesuffix('Ready')} in the spec of the {kind}", "K4": f"Fix what {first.reason} names", "M3": "Give the role of the NodeClass an access entry of type EC2 with AmazonEKSAutoNodePolicy, or correct its selectors"}  # fmt: skip
    shown = [live.of_condition(found, first), *([live.of_condition(pool, echo)] if echo is not None else [])]
    resource = "nodeclasses.eks.amazonaws.com" if is_auto else f"{kind.lower()}es.karpenter.k8s.aws"
    command = f"kubectl describe {resource} {quote(name)}"
    yield Cause(id, found.title, message, "proven" if is_current else "likely", tuple(shown), fixes[id], command)


def _report(live: Live, target: Target) -> Event | None:
    every = live.events_of(target.pod, reason="FailedScheduling", component="karpenter") if target.pod else []
    return every[0] if every else None


def _messages(live: Live, target: Target, pools: list[Object], every: list[Object]) -> Iterator[Cause]:
    """K5 to K16: what Karpenter reports about each NodePool, compared with the simulation."""
    event = _report(live, target)
    if event is None:
        yield from _simulated(live, target, pools, every)
        return
    parts = event.message.partition("Failed to schedule pod, ")[2].split("; ")
    is_old = (live.seconds_since(event.time) or 0) > _REPEATED_SECONDS
    results = pool_verdicts(live, target)
    for part in parts:
        row = next((each for each in _TEXTS if each[0] in part), None)
        # Parts about the other NodePools aren't the reason if one could take the pod.
        if row is None or (row[1] in _POOL_FAULTS and pools and len(parts) < len(every)):
            continue
        _, id, kinds, fault, fix = row
        agreeing = [
            each.pool.name for each in results if any(r.answer is Answer.NO and r.kind in kinds for r in each.reasons)
        ]
        if id == "K7":
            agreeing = [each.name for each in every if any(one.key in part for one in intolerable(each, target))]
        named = part.rpartition("NodePool=")[2].strip(' ")}{') if "NodePool=" in part else ""
        own = [each for each in every if each.name == named or (not named and each.name in agreeing)]
        if id == "K11" and (limited := own or pools):
            yield from (each for pool in limited for each in _limits(live, target, pool, event))
            continue
        subjects = own or pools or every
        subject = subjects[0].title if subjects else "Karpenter"
        confidence: Confidence = "proven" if agreeing and not is_old and id != "K10" else "likely"
        clock = None
        if id == "K10":
            source = "aws/karpenter-provider-aws 1.14.1, pkg/cache"
            clock = Clock("Karpenter retries a refused offering", live.shown(event.time), "3 minutes", source)
        detail = part.partition(", requirements=")[0]
        message = f"{subject} {fault}: {detail}"
        others = ("The pod tolerates the taints of the NodePool",) if own and not intolerable(own[0], target) else ()
        excluded = others if id != "K7" else ()
        yield Cause(id, subject, message, confidence, (live.of_event(event),), fix, excluded=excluded, clock=clock)


def _simulated(live: Live, target: Target, pools: list[Object], every: list[Object]) -> Iterator[Cause]:
    """The nearest NodePool that refuses the pod, if no event of Karpenter is left."""
    results = [] if pools else pool_verdicts(live, target)
    names = {each.name: each for each in every}
    ids = {"taint": "K7", "label": "K6", "resource": "K8", "claim": "K14"}
    for each in results[:1]:
        reasons = [one for one in each.reasons if one.answer is Answer.NO]
        kinds = {one.kind for one in reasons}
        if len(kinds) != 1 or (id := ids.get(reasons[0].kind)) is None or each.pool.name not in names:
            return
        fix = next(row[4] for row in _TEXTS if row[1] == id)
        title = names[each.pool.name].title
        shown = Evidence("simulation", title, reasons[0].text)
        yield Cause(id, title, f"{title} doesn't accept the pod: {reasons[0].text}", "likely", (shown,), fix)


def _limits(live: Live, target: Target, pool: Object, event: Event | None) -> Iterator[Cause]:
    limits, used = resources(pool.spec.get("limits")), resources(dig(pool.content, "status", "resources"))
    wanted = {"nodes": 1, **target.read.requests}
    full = {
        name: (used.get(name, 0), most)
        for name, most in limits.items()
        if used.get(name, 0) + wanted.get(name, 0) > most and wanted.get(name, 0)
    }
    result = next((each for each in pool_verdicts(live, target) if each.pool.name == pool.name), None)
    simulated = (
        []
        if result is None
        else [one.text for one in result.reasons if one.kind == "limit" and one.answer is Answer.NO]
    )
    if not full and not simulated and event is None:
        return
    raw_limits, raw_used = mapping(pool.spec.get("limits")), mapping(dig(pool.content, "status", "resources"))
    texts = [f"{raw_used.get(name, 0)} of {raw_limits.get(name)} {name} are in use" for name in full]
    more = "" if not texts else ", and the pod needs more"
    message = (
        f"{pool.title} has reached its limit: {(' and '.join(texts) + more) or (simulated or ['see its event'])[0]}"
    )
    shown = [Evidence(pool.title, f"spec.limits[{name}]", str(raw_limits.get(name))) for name in full]
    shown += [Evidence(pool.title, f"status.resources[{name}]", str(raw_used.get(name, 0))) for name in full]
    shown += [live.of_event(event)] if event is not None else []
    confidence: Confidence = "proven" if event is not None and (full or simulated) else "likely"
    fix = "Raise spec.limits of the NodePool, or free GPUs that its nodes hold"
    command = f"kubectl edit nodepool {quote(pool.name)}"
    yield Cause("K11", pool.title, message, confidence, tuple(shown), fix, command)


def _step(live: Live, claim: Object) -> Iterator[Cause]:
    """K17 to K26: the first condition of a NodeClaim that isn't True."""
    waiting = next((each for each in map(lambda one: live.condition(claim, one), ("Launched", "Registered", "Initialized")) if each is not None and each.status != "True"), None)  # fmt: skip
    if waiting is None or dig(claim.content, "metadata", "deletionTimestamp"):
        return
    age = live.seconds_since(live.created(claim)) or 0
    shown = (live.of_condition(claim, waiting),)
    since, title = live.shown(live.created(claim)), claim.title
    command = f"kubectl describe nodeclaim {quote(claim.name)}"
    text = waiting.message or waiting.reason
    if waiting.type == "Launched" and waiting.reason not in ("AwaitingReconciliation", ""):
        clock = Clock("Karpenter deletes the NodeClaim and retries", since, "5 minutes after the first try", _TIMEOUTS)
        message = f"EC2 refuses the launch of {title}: {text}"
        yield Cause("K19", title, message, "proven", shown, f"Fix what {waiting.reason} names", command, clock=clock)
    elif age < _USUAL_SECONDS:
        clock = Clock("the node registers and offers its GPUs", since, "2 to 5 minutes", "measured on EKS GPU nodes")
        message = f"{title} is {int(age // 60)} minutes old and waits at {waiting.type}: {text}"
        yield Cause(
            "K17", title, message, "proven", shown, "Wait", f"kubectl get nodeclaim {quote(claim.name)} -w", clock=clock
        )
    elif waiting.type == "Registered":
        clock = Clock("Karpenter deletes the NodeClaim and retries", since, "15 minutes after the launch", _TIMEOUTS)
        instance = instance_id(claim) or "its instance"
        message = f"{title} has instance {instance}, which didn't register as a node for {int(age // 60)} minutes"
        fix = "Read the console output of the instance, and check its role, routes and security groups"
        command = (
            f"aws ec2 get-console-output --latest --instance-id {quote(instance)}" if instance_id(claim) else command
        )
        yield Cause("K20", title, message, "proven", shown, fix, command, clock=clock)
    elif (step := _INITIALIZED.get(waiting.reason)) is not None and not _waits_for_kubelet(live, claim, waiting):
        id, fault, fix = step
        yield Cause(
            id,
            title,
            f"{title} isn't initialized after {int(age // 60)} minutes, because {fault}: {text}",
            "proven",
            shown,
            fix,
            command,
        )


_INITIALIZED = {
    "ResourceNotRegistered": ("K23", "its node doesn't offer the GPUs", "Find out why the device plugin doesn't run on the node; Karpenter has no timeout for this"),
    "StartupTaintsExist": ("K24", "no controller removed a startup taint", "Install the controller that removes the taint, or delete the taint from startupTaints of the NodePool"),
    "KnownEphemeralTaintsExist": ("K24", "a taint of the boot stays", "Find out which controller removes the taint"),
    "DRADriverPoolsNotPublished": ("K26", "the device driver published no devices", "Find out why the kubelet plugin of the driver doesn't run on the node"),
}  # fmt: skip


def _waits_for_kubelet(live: Live, claim: Object, waiting: Condition) -> bool:
    node = live.object("Node", str(dig(claim.content, "status", "nodeName") or ""))
    return waiting.reason == "KnownEphemeralTaintsExist" and node is not None and not is_ready(live, node)


def _refused(live: Live, target: Target) -> Iterator[Cause]:
    event = next(refused_launches(live, target), None)
    if event is None:
        return
    text = event.message.partition("fleet error(s), ")[2] or event.message.partition(" event: ")[2] or event.message
    pool = event.name.rpartition("-")[0]
    subject = next((each.title for each in live.objects("NodePool") if each.name == pool), f"NodeClaim {event.name}")
    clock = Clock("Karpenter retries with the next offering", live.shown(event.time), "3 minutes for a refused offering", "aws/karpenter-provider-aws 1.14.1, pkg/cache")  # fmt: skip
    yield Cause("K18", subject, f"EC2 refused NodeClaim {event.name} of {subject}: {text}", "likely", (live.of_event(event),), "Act on the code of EC2: capacity, quota, subnet or reservation", clock=clock)  # fmt: skip


def _unregistered(live: Live, pools: list[Object]) -> Iterator[Cause]:
    for pool in pools:
        health = live.condition(pool, "NodeRegistrationHealthy")
        if health is None or health.status != "False":
            continue
        id = "K20" if health.reason == "RegistrationFailed" else "K19"
        what = "didn't register" if id == "K20" else "didn't launch"
        message = f"The last nodes of {pool.title} {what}: {health.message or health.reason}"
        yield Cause(
            id,
            pool.title,
            message,
            "likely",
            (live.of_condition(pool, health),),
            "Check role, routes, security groups and user data of its instances",
        )


def _taken_back(live: Live, pools: list[Object], *, weak: bool) -> Iterator[Cause]:
    names = {each.name for each in pools}
    nodes = {each.name: str(each.labels.get(NODE_POOL)) for each in live.nodes}
    for event in live.events:
        pool = event.name.rpartition("-")[0] if event.kind == "NodeClaim" else nodes.get(event.name, "")
        if event.reason not in ("SpotInterrupted", "CapacityReservationInstanceInterrupted", "ZonalShiftActive"):
            continue
        if pool in names and (live.seconds_since(event.time) or 0) < RECENT_SECONDS:
            message = f"EC2 took a node of NodePool {pool} back: {event.message}"
            fix = "Allow on-demand as a fallback in the NodePool, or more instance types and zones"
            yield Cause(
                "K28", f"NodePool {pool}", message, "possible" if weak else "likely", (live.of_event(event),), fix
            )
            return


def _reserved(live: Live, target: Target, pools: list[Object]) -> Iterator[Cause]:
    """K15: Karpenter reports no event while it waits for a reservation."""
    deployment = controller(live, "karpenter")
    for pool in pools:
        values = [each.get("values") for each in mappings(dig(pool.spec, "template", "spec", "requirements")) if each.get("key") == "karpenter.sh/capacity-type"]  # fmt: skip
        lines = list(_logged(live, deployment, "limited reserved offering capacity")) if deployment else []
        is_only = any(each == ["reserved"] for each in values)
        if any("reserved" in (each or ()) for each in values) and (lines or is_only) and _report(live, target) is None and not nominated_claim(live, target):  # fmt: skip
            shown = lines or [
                Evidence(pool.title, "spec.template.spec.requirements[karpenter.sh/capacity-type]", "reserved")
            ]
            confidence: Confidence = weaker("likely" if lines else "possible", "likely")
            fix = "Extend the reservation, or allow on-demand in the NodePool"
            yield Cause("K15", pool.title, f"{pool.title} waits for reserved capacity", confidence, tuple(shown), fix)


def _auto_mode(live: Live, target: Target, every: list[Object]) -> Iterator[Cause]:
    """M1, M2 and M4."""
    auto = [each for each in every if dig(each.spec, "template", "spec", "nodeClassRef", "group") == _AUTO_GROUP]
    certainty = live.certainty("NodePool")
    if not auto or not target.read.asks_for_gpu:
        return
    if len(auto) == len(every) and all(each.name in _BUILT_IN for each in auto) and certainty is not None:
        shown = tuple(Evidence(each.title, "", "built into EKS Auto Mode") for each in auto)
        message = "EKS Auto Mode has only its built-in NodePools, which have no GPU types, and the pod requests GPUs"
        fix = "Create a NodePool with eks.amazonaws.com/instance-gpu-name or a GPU instance family"
        yield Cause("M1", auto[0].title, message, certainty, shown, fix)
    elif wrong := _karpenter_labels(target):
        confidence: Confidence = "proven" if len(auto) == len(every) and certainty == "proven" else "likely"
        right = wrong[0].replace("karpenter.k8s.aws", _AUTO_GROUP)
        message = f"{target.title} selects {wrong[0]}, and nodes of EKS Auto Mode have {right} instead"
        event = _report(live, target)
        shown = (Evidence(target.title, "spec", wrong[0]), *([live.of_event(event)] if event else []))
        yield Cause("M2", target.title, message, confidence, shown, f"Select {right}")
    nodes = {each.name for each in live.nodes if each.labels.get("eks.amazonaws.com/compute-type") == "auto"}
    plugins = [each for each in live.objects("DaemonSet") if "/var/lib/kubelet/device-plugins" in str(each.spec) and "nvidia" in str(each.spec)]  # fmt: skip
    for each in plugins:
        there = [pod for pod in live.owned(each, "Pod") if pod.spec.get("nodeName") in nodes]
        if there:
            message = f"{each.title} runs on nodes of EKS Auto Mode, which have a device plugin of their own"
            shown = (Evidence(there[0].title, "spec.nodeName", str(there[0].spec.get("nodeName"))),)
            fix = "Exclude eks.amazonaws.com/compute-type=auto in the node affinity of the DaemonSet"
            yield Cause("M4", each.title, message, "likely", shown, fix)


def _karpenter_labels(target: Target) -> list[str]:
    selection = target.read.selection
    every = (*selection.selector, *(one for term in selection.terms or () for one in term.labels))
    return [each.key for each in every if each.key.startswith("karpenter.k8s.aws/")]


def _is_auto_mode_fault(live: Live, target: Target, cause: Cause) -> bool:
    """Whether a cause repeats that Auto Mode has no GPU pool or other labels."""
    return cause.id in _POOL_FAULTS and any(True for _ in _auto_mode(live, target, live.objects("NodePool")))
