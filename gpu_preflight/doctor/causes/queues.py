"""Why a queue doesn't admit a job: Kueue, KAI and Volcano.

Reasons of Kueue's conditions changed with its versions, so the messages are matched.

Sources: kubernetes-sigs/kueue v0.19.2 pkg/scheduler/flavorassigner, pkg/controller/core, pkg/workload;
kai-scheduler/KAI-Scheduler pkg/scheduler (2026-03); volcano-sh/volcano pkg/scheduler (2026-08)
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from gpu_facts.charts import KAI_SCHEDULER, VOLCANO
from gpu_facts.labels import KAI_QUEUE, KUEUE_QUEUE
from gpu_facts.light import regex
from gpu_preflight.doctor.cause import Cause, Confidence, Evidence
from gpu_preflight.doctor.live import Condition, Live, Target, title
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, mapping, mappings

_GATES = ("kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology")
# Texts of the condition QuotaReserved: pattern, id, cause and fix. The first one that matches counts.
_PENDING = (
    (r"(?:LocalQueue|ClusterQueue) (\S+) doesn't exist", "Q2", "create the queue, or correct the label of the job"),
    (r"LocalQueue (\S+) is (?:stopped|inactive)|ClusterQueue (\S+) is inactive", "Q3", ""),
    (r"insufficient quota for .* > maximum capacity", "Q5", "raise nominalQuota or borrowingLimit of the ClusterQueue"),
    (r"topology .* (?:allows to fit only|doesn't allow to fit)", "Q9", "require a wider topology level, or free nodes"),
    (r"insufficient unused quota for", "Q6", "wait for other workloads, or raise the quota"),
    (
        r"untolerated taint|flavor \S+ doesn't match node affinity|unavailable in ClusterQueue"
        r"|does not provide resource",
        "Q7",
        "change the pod so that it fits a ResourceFlavor, or add a flavor to the ClusterQueue",
    ),
    (r"workload namespace doesn't match ClusterQueue selector", "Q8", "change namespaceSelector of the ClusterQueue"),
)
_KAI = (
    ("QueueDoesNotExist", "Q15", "create the queue, or correct label kai.scheduler/queue"),
    ("NonPreemptibleOverQuota", "Q16", "raise the quota of the queue, or use a preemptible priority class"),
    ("OverLimit", "Q17", "raise the limit of the queue"),
)
_NOT_READY = ("PodsReadyTimeout", "RequeuingLimitExceeded")
_ACTIVE_REASONS = ("FlavorNotFound", "AdmissionCheckNotFound", "AdmissionCheckInactive", "TopologyNotFound")


def find(live: Live, target: Target) -> Iterator[Cause]:
    """Yield why a queue holds a pod or its owner."""
    if target.node is not None:
        return
    every = [target.named, *target.owners]
    queue = next((name for each in every if (name := str(each.labels.get(KUEUE_QUEUE) or ""))), "")
    if target.named.kind == "Workload":
        queue = queue or str(target.named.spec.get("queueName") or "")
    held = any(each in _GATES for each in target.read.gates) or any(one.spec.get("suspend") is True for one in every)
    held = held or target.named.kind == "Workload"
    owner = next((one for one in every if one.spec.get("suspend") is True), None)
    if queue and held:
        yield from _kueue(live, target, every, queue)
    elif owner is not None and not queue and live.objects("ClusterQueue"):
        text = f"{owner.title} is suspended without label {KUEUE_QUEUE}, so Kueue doesn't manage it"
        fix = "add the label with the name of a LocalQueue, or resume the job"
        yield Cause("Q1", owner.title, text, "likely", (Evidence(owner.title, "spec.suspend", "true"),), fix)
    yield from _kai(live, target, every)
    yield from _volcano(live, target)


def _kueue(live: Live, target: Target, every: Iterable[Object], queue: str) -> Iterator[Cause]:
    uids = {str(dig(each.content, "metadata", "uid")) for each in every}
    owned = (each for each in live.objects("Workload", target.namespace) if _owners(each) & uids)
    workload = target.named if target.named.kind == "Workload" else next(owned, None)
    local = live.object("LocalQueue", queue, target.namespace)
    if workload is None:
        certain = live.certainty("LocalQueue", target.namespace)
        proof = Evidence(target.root.title, f"metadata.labels[{KUEUE_QUEUE}]", queue)
        if local is None and certain is not None:
            text = f"LocalQueue {target.namespace}/{queue}, which {target.root.title} names, doesn't exist"
            yield Cause("Q2", target.root.title, text, certain, (proof,), "create the queue, or correct the label")
        elif live.certainty("Workload", target.namespace) is not None:
            text = f"{target.root.title} has no Workload of Kueue, so Kueue doesn't manage it"
            fix = f"check that Kueue runs, and that its configuration enables the integration of {target.root.kind}"
            yield Cause("Q1", target.root.title, text, "likely", (proof,), fix)
        elif not target.read.gates:
            text = f"{target.root.title} is suspended with queue {queue}, and Workloads of Kueue aren't in the dump"
            fix = f"read the Workloads of namespace {target.namespace}, which have the reason of Kueue"
            yield Cause("A11", target.root.title, text, "likely", (proof,), fix)
        return
    found = list(_workload_causes(live, workload))
    name = dig(workload.content, "status", "admission", "clusterQueue")
    name = name or (local.spec.get("clusterQueue") if local is not None else None)
    cluster_queue = live.object("ClusterQueue", str(name))
    if cluster_queue is not None:
        active = live.condition(cluster_queue, "Active")
        if active is not None and active.status == "False" and active.reason in _ACTIVE_REASONS:
            text = f"{cluster_queue.kind} {cluster_queue.name} admits nothing: {active.message}"
            fix = "create what the message names, or remove the reference from the ClusterQueue"
            proof = live.condition_evidence(cluster_queue, active)
            yield Cause("Q4", f"ClusterQueue {cluster_queue.name}", text, "proven", (proof,), fix)
            return
        yield from _stopped(cluster_queue, "ClusterQueue")
        found = found or list(_behind(live, workload, cluster_queue))
    yield from _stopped(local, "LocalQueue") if local is not None else ()
    yield from found or _unexplained(live, target, workload)


def _unexplained(live: Live, target: Target, workload: Object) -> Iterator[Cause]:
    """Yield that Kueue holds a workload for a reason that none of the known texts has."""
    reserved = live.condition(workload, "QuotaReserved")
    if reserved is not None and reserved.status == "True":
        return
    id, fix = "P9" if target.read.gates else "A11", "act on Kueue's message, or read the log of its controller"
    if reserved is None:
        text = f"Kueue hasn't reported anything about {workload.title}"
        proof = Evidence(workload.title, "status.conditions", "no QuotaReserved")
        yield Cause(id, workload.title, text, "likely", (proof,), "check that the controller of Kueue runs")
    else:
        text = f"Kueue doesn't admit {workload.title}: {reserved.message or reserved.reason}"
        yield Cause(id, workload.title, text, "likely", (live.condition_evidence(workload, reserved),), fix)


def _owners(workload: Object) -> set[str]:
    references = mappings(dig(workload.content, "metadata", "ownerReferences"))
    return {str(each.get("uid")) for each in references} | {str(workload.labels.get("kueue.x-k8s.io/job-uid"))}


def _stopped(queue: Object, kind: str) -> Iterator[Cause]:
    policy = str(queue.spec.get("stopPolicy") or "None")
    if policy != "None":
        where = f" -n {shlex.quote(queue.namespace)}" if kind == "LocalQueue" else ""
        patch = '\'{"spec":{"stopPolicy":"None"}}\''
        command = f"kubectl patch {kind.lower()} {shlex.quote(queue.name)}{where} --type merge -p {patch}"
        text = f"{kind} {queue.name} is stopped: spec.stopPolicy is {policy}"
        proof = Evidence(f"{kind} {queue.name}", "spec.stopPolicy", policy)
        yield Cause("Q3", f"{kind} {queue.name}", text, "proven", (proof,), "set stopPolicy to None", command)


def _workload_causes(live: Live, workload: Object) -> Iterator[Cause]:
    """Yield what Kueue reports about a workload."""
    evicted = live.condition(workload, "Evicted")
    if evicted is not None and evicted.status == "True" and evicted.reason.endswith(_NOT_READY):
        count = dig(workload.content, "status", "requeueState", "count")
        times = f" after {count} attempts" if count else ""
        text = f"Kueue evicted {workload.title}{times}, because its pods weren't ready in time"
        fix = "find why the pods weren't ready; then set spec.active of the Workload to true"
        yield Cause("Q12", workload.title, text, "proven", (live.condition_evidence(workload, evicted),), fix)
    reserved = live.condition(workload, "QuotaReserved")
    if reserved is not None and reserved.status == "False":
        yield from _pending(live, workload, reserved)
    elif reserved is not None and reserved.status == "True":
        yield from _checks(workload)


def _pending(live: Live, workload: Object, reserved: Condition) -> Iterator[Cause]:
    for pattern, id, fix in _PENDING:
        if regex(pattern).search(reserved.message):
            text = f"Kueue doesn't admit {workload.title}: {reserved.message}"
            done = fix or "set stopPolicy of the queue to None, or find why it is inactive"
            yield Cause(id, workload.title, text, "proven", (live.condition_evidence(workload, reserved),), done)
            return


def _checks(workload: Object) -> Iterator[Cause]:
    for each in mappings(dig(workload.content, "status", "admissionChecks")):
        if each.get("state") in ("Pending", "Retry", "Rejected"):
            name, state = each.get("name"), each.get("state")
            proof = Evidence(workload.title, f"status.admissionChecks[{name}]", f"{state}: {each.get('message') or ''}")
            text = (
                f"Admission check {name} of {workload.title} is {state}: {each.get('message') or 'without a message'}"
            )
            fix = f"look at the object of admission check {name}, such as its ProvisioningRequest"
            yield Cause("Q11", workload.title, text, "proven", (proof,), fix)


def _behind(live: Live, workload: Object, queue: Object) -> Iterator[Cause]:
    """Yield the first workload of a strict queue, if it waits and is older."""
    if queue.spec.get("queueingStrategy") != "StrictFIFO":
        return
    for each in live.objects("Workload"):
        first, local = (
            live.condition(each, "QuotaReserved"),
            live.object("LocalQueue", str(each.spec.get("queueName")), each.namespace),
        )
        if local is None or local.spec.get("clusterQueue") != queue.name:
            continue
        older = (live.created(each) or live.now) < (live.created(workload) or live.now)
        if each is not workload and older and first is not None and first.status == "False":
            text = f"{each.title} is first in ClusterQueue {queue.name}, whose strategy is StrictFIFO, and waits"
            proofs = Evidence(title(queue), "spec.queueingStrategy", "StrictFIFO"), live.condition_evidence(each, first)
            fix = f"admit {each.title} first, or set queueingStrategy to BestEffortFIFO"
            yield Cause("Q13", workload.title, text, "likely", proofs, fix)
            return


def _kai(live: Live, target: Target, every: Iterable[Object]) -> Iterator[Cause]:
    if not any(KAI_QUEUE in each.labels for each in every) and target.spec.get("schedulerName") != KAI_SCHEDULER:
        return
    uids = {str(dig(each.content, "metadata", "uid")) for each in every}
    for group in live.objects("PodGroup", target.namespace):
        if target.root.name not in group.name and not _owners(group) & uids:
            continue
        for condition in mappings(dig(group.content, "status", "schedulingConditions")):
            for reason in mappings(condition.get("reasons")):
                for name, id, fix in _KAI:
                    if reason.get("reason") == name:
                        text = f"KAI doesn't schedule {target.title}: {reason.get('message')}"
                        proof = Evidence(group.title, "status.schedulingConditions", str(reason.get("message")))
                        yield Cause(id, target.title, text, "proven", (proof,), fix)
    for event in live.object_events(target.pod) if target.pod is not None else ():
        if "No nodes with enough resources were found" in event.message:
            text = f"KAI finds no node for {target.title}: {event.message}"
            yield Cause("Q18", target.title, text, "likely", (live.event_evidence(event),), "wait, or add nodes")
            return


def _volcano(live: Live, target: Target) -> Iterator[Cause]:
    if target.spec.get("schedulerName") != VOLCANO:
        return
    for group in live.objects("PodGroup", target.namespace):
        condition = live.condition(group, "Unschedulable")
        named = mapping(target.named.annotations).get("scheduling.k8s.io/group-name")
        if condition is not None and condition.status == "True" and named in (None, group.name):
            text = f"{target.title} waits for its whole gang: Volcano reports {condition.message}"
            sure: Confidence = "proven" if named == group.name else "possible"
            fix = "add room for all tasks, or lower minAvailable"
            yield Cause("Q19", target.title, text, sure, (live.condition_evidence(group, condition),), fix)
