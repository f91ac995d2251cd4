"""Why no scheduler looks at a pod, and the scheduler's message about other pods, topology, volumes and claims.

Source: kubernetes/kubernetes v1.36.2 pkg/scheduler/framework/plugins: schedulinggates, interpodaffinity,
podtopologyspread, volumebinding, volumezone, volumerestrictions, dynamicresources (read 2026-11)
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from gpu_facts.kubernetes import KUBE_SYSTEM
from gpu_facts.labels import KUEUE_QUEUE, ZONE
from gpu_facts.light import regex
from gpu_facts.refusals import did_you_mean
from gpu_preflight.doctor.cause import Cause, Evidence, Symptom, weaker
from gpu_preflight.doctor.causes.volumes import claim_names
from gpu_preflight.doctor.dump import parse_time
from gpu_preflight.doctor.live import Live, Target
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, known_text, mappings

_DEFAULT = "default-scheduler"
_FARGATE = "fargate-scheduler"
# A scheduler looks at a pod within a second. Longer than the pause of a restart.
_UNSEEN_SECONDS = 60
_KUEUE = "kueue.x-k8s.io/"
# Texts of the scheduler about other pods and topology.
_NODE_CLAIMS = ("resourceclaim in use", "resourceclaim not available on the node", "in the process of being allocated")
_ZONES = ("PersistentVolume's node affinity", "had volume node affinity conflict", "had no available volume zone")
_RELAX = "relax the anti-affinity, or add a node"
_NO_AFFINE = "requires another pod on its node or in its zone, and no such pod runs there"
_SELECTOR = "correct the label selector or topologyKey of the affinity, or start the other pod first"
_SPREAD = "set whenUnsatisfiable to ScheduleAnyway, raise maxSkew, or add a node in another zone"
_DEVICES = "correct the selectors of the claim, or add a node whose driver publishes such devices"
_TEMPLATE = "use a claim template, so that each pod gets its own claim, or wait for the other pod"
_NO_ZONE = "has a volume in a zone in which no node has room for it"
_COPY = "add GPU nodes in the zone of the volume, or copy the data to a volume in their zone"
_IN_USE = "has a volume that allows only one pod, and another pod uses it"
_OTHER_PODS = (
    Symptom(
        "P13",
        ("existing pods anti-affinity",),
        "is excluded from a node or zone by the anti-affinity of a running pod",
        _RELAX,
    ),
    Symptom(
        "P13", ("match pod anti-affinity rules",), "has an anti-affinity that excludes every node with room", _RELAX
    ),
    Symptom("P13", ("match pod affinity rules",), _NO_AFFINE, _SELECTOR),
    Symptom("P14", ("pod topology spread",), "has a topology spread constraint that allows no node with room", _SPREAD),
    Symptom("S8", ("cannot allocate all claims",), "has resource claims for devices that no node has", _DEVICES),
    Symptom("S10", _NODE_CLAIMS, "has a resource claim that is in use by another pod or on another node", _TEMPLATE),
    Symptom("V7", ("with ReadWriteOncePod",), _IN_USE, "end the other pod, or use a volume with another access mode"),
    Symptom("V5", _ZONES, _NO_ZONE, _COPY),
)
_NO_CLASS = regex(r"request (\S+): device class (\S+) does not exist")
_NO_CLAIM = regex(r'persistentvolumeclaim "([^"]+)" not found')
_NO_RESOURCE_CLAIM = regex(r'resourceclaim(?:\.resource\.k8s\.io)? "([^"]+)" not found')


def find(live: Live, target: Target) -> Iterator[Cause]:
    """Yield why a pod isn't scheduled, apart from the resources, labels and taints of nodes."""
    pod = target.pod
    if pod is None or target.node is not None or live.phase(pod) != "Pending":
        return
    yield from _gates(live, target, pod)
    yield from _unserved(live, target, pod)
    yield from _scheduler_down(live, target, pod)
    scheduled = live.condition(pod, "PodScheduled")
    if scheduled is None:
        yield from _missing_claims(live, target)
    if scheduled is not None and scheduled.status == "False" and not target.read.gates:
        found = list(_reported(live, target, scheduled.message, live.condition_evidence(pod, scheduled)))
        yield from found
        yield from _zone_conflict(live, target) if not any(each.id == "V5" for each in found) else ()
    elif events := live.object_events(pod, reason="FailedScheduling", component=_DEFAULT):
        yield from _reported(live, target, events[0].message, live.event_evidence(events[0]))


def _gates(live: Live, target: Target, pod: Object) -> Iterator[Cause]:
    has_queue = target.read.gates and any(KUEUE_QUEUE in each.labels for each in (pod, *target.owners))
    queued = live.objects("Workload", target.namespace) if has_queue else []
    gates = [each for each in target.read.gates if not (queued and each.startswith(_KUEUE))]
    if gates:
        condition = live.condition(pod, "PodScheduled")
        proofs = [Evidence(pod.title, "spec.schedulingGates", ", ".join(gates))]
        proofs += [live.condition_evidence(pod, condition, "reason")] if condition is not None else []
        text = f"{pod.title} has scheduling gate {', '.join(gates)}, and schedulers and autoscalers ignore such a pod"
        fix = "find the controller that added the gate, and why it doesn't remove it"
        yield Cause("P9", pod.title, text, "proven", tuple(proofs), fix)


def _unserved(live: Live, target: Target, pod: Object) -> Iterator[Cause]:
    name = known_text(target.read.scheduler) or _DEFAULT
    if name in (_DEFAULT, _FARGATE) or live.condition(pod, "PodScheduled") is not None:
        return
    age = live.seconds_since(live.created(pod))
    if age is None or age < _UNSEEN_SECONDS or any(each.component == name for each in live.object_events(pod)):
        return
    known = [each.name for kind in ("Pod", "Lease", "Deployment") for each in live.objects(kind)]
    if any(each == name or each.startswith(f"{name}-") for each in known):
        text = f"{pod.title} names scheduler {name}, which is installed and hasn't looked at it"
        fix = f"look at the pods and the lease of {name}"
    else:
        text = f"{pod.title} names scheduler {name}, and no pod or lease has that name"
        fix = "remove schedulerName from the pod, or install that scheduler"
        others = {str(each.spec.get("schedulerName")) for each in live.objects("Pod")} - {name}
        text += did_you_mean(name, sorted({_DEFAULT, *others}))
    # A scheduler with this name may run outside of the cluster, so this isn't proven.
    proof = Evidence(pod.title, "spec.schedulerName", name), Evidence(pod.title, "status.conditions", "no PodScheduled")
    yield Cause("P8", pod.title, text, "likely" if live.certainty("Pod") else "possible", proof, fix)


def _missing_claims(live: Live, target: Target) -> Iterator[Cause]:
    """Yield a resource claim that doesn't exist. The scheduler waits for it without a condition and an event."""
    for each in mappings(target.spec.get("resourceClaims")):
        name = known_text(each.get("resourceClaimName"))
        if name is not None and live.object("ResourceClaim", name, target.namespace) is None:
            certain = live.certainty("ResourceClaim", target.namespace)
            text = f"ResourceClaim {name}, which {target.title} names, doesn't exist"
            proof = Evidence(target.title, "spec.resourceClaims[].resourceClaimName", name)
            fix = "create the claim, or correct its name"
            yield Cause("S10", target.title, text, weaker(certain or "possible", "likely"), (proof,), fix)


def _scheduler_down(live: Live, target: Target, pod: Object) -> Iterator[Cause]:
    """Yield that the default scheduler doesn't work: it looked at no new pod, and its lease is old."""
    name, age = known_text(target.read.scheduler) or _DEFAULT, live.seconds_since(live.created(pod))
    if name != _DEFAULT or live.condition(pod, "PodScheduled") is not None or age is None or age < _UNSEEN_SECONDS:
        return
    lease = live.object("Lease", "kube-scheduler", KUBE_SYSTEM)
    renewed = parse_time(lease.spec.get("renewTime")) if lease is not None else None
    silent = live.seconds_since(renewed)
    if (
        target.spec.get("resourceClaims")
        or live.object_events(pod)
        or (silent is not None and silent < _UNSEEN_SECONDS)
    ):
        return
    text = f"{pod.title} has no condition PodScheduled, so the scheduler of the cluster hasn't looked at it"
    proofs = [Evidence(pod.title, "status.conditions", "no PodScheduled")]
    proofs += (
        [Evidence("Lease kube-system/kube-scheduler", "spec.renewTime", live.time_text(renewed))] if renewed else []
    )
    fix = "ask AWS Support: EKS runs the scheduler"
    yield Cause("S15", pod.title, text, "likely" if renewed else "possible", tuple(proofs), fix)


def _reported(live: Live, target: Target, message: str, evidence: Evidence) -> Iterator[Cause]:
    """Yield what the scheduler's message names."""
    yield from _volume_claims(live, target, message, evidence)
    found = _NO_CLASS.search(message)
    if found and live.object("DeviceClass", found[2]) is None:
        text = f"DeviceClass {found[2]}, which a claim of {target.title} requests, doesn't exist"
        fix = "install the driver that creates it, or correct deviceClassName of the claim"
        yield Cause("S9", target.title, text, live.certainty("DeviceClass") or "likely", (evidence,), fix)
    found = _NO_RESOURCE_CLAIM.search(message)
    if found and live.object("ResourceClaim", found[1], target.namespace) is None:
        text = f"ResourceClaim {found[1]} of {target.title} doesn't exist"
        yield Cause("S10", target.title, text, "likely", (evidence,), "create the claim, or correct its name")
    for symptom in _OTHER_PODS:
        if any(each in message for each in symptom.texts):
            yield _other_pod_cause(live, target, symptom, evidence)
            if symptom.id in ("P13", "S8"):
                return


def _zone_conflict(live: Live, target: Target) -> Iterator[Cause]:
    """Yield a volume in a zone that no GPU node is in, and in which no pool launches one."""
    verdict = live.verdict(target)
    pools = [each for each in verdict.pools if live.may_grow(each.pool)] if verdict is not None else []
    refused = [each for each in pools if any(one.kind in ("volume", "topology") for one in each.reasons)]
    for volume, zones in _zoned_volumes(live, target):
        nodes = [each.node for each in live.fits(target) if not each.unknown]
        if nodes and any(str(each.labels.get(ZONE)) in zones for each in nodes):
            continue
        if pools and len(refused) == len(pools):
            proof = Evidence(f"PersistentVolume {volume}", "spec.nodeAffinity", ", ".join(zones))
            text = (
                f"{target.title} uses volume {volume} in zone {', '.join(zones)}, where no pool launches a node for it"
            )
            fix = "add the zone of the volume to a pool, or copy the data to a volume in a zone of the pools"
            yield Cause("V5", target.title, text, "likely", (proof,), fix)


def _other_pod_cause(live: Live, target: Target, symptom: Symptom, evidence: Evidence) -> Cause:
    shown, text, fix = [evidence], f"{target.title} {symptom.fault}", symptom.fix
    if symptom.id == "P14":
        for each in target.read.spreads:
            labelled = [one for one in live.nodes if each.key in one.labels]
            if not labelled and live.certainty("Node") == "proven":
                text = f"{target.title} must be spread over label {each.key}, which no node has"
                fix = f"correct topologyKey {each.key}, or label the nodes"
            value = f"{each.key}, maxSkew {each.skew}" if hasattr(each, "skew") else str(each.key)
            shown.append(Evidence(target.title, "spec.topologySpreadConstraints[].topologyKey", value))
    if symptom.id == "V5":
        for volume, zones in _zoned_volumes(live, target):
            shown.append(Evidence(f"PersistentVolume {volume}", "spec.nodeAffinity", ", ".join(zones)))
            text = f"{target.title} uses volume {volume} in zone {', '.join(zones)}, where no node has room for it"
    return Cause(symptom.id, target.title, text, "proven" if len(shown) > 1 else "likely", tuple(shown), fix)


def _zoned_volumes(live: Live, target: Target) -> Iterator[tuple[str, list[str]]]:
    for name in claim_names(target.named):
        claim = live.object("PersistentVolumeClaim", name, target.namespace)
        volume = claim and live.object("PersistentVolume", str(claim.spec.get("volumeName")))
        terms = mappings(dig(volume.spec, "nodeAffinity", "required", "nodeSelectorTerms")) if volume else []
        zones = [
            str(value)
            for term in terms
            for one in mappings(term.get("matchExpressions"))
            if "zone" in str(one.get("key"))
            for value in one.get("values") or ()
        ]
        if volume and zones:
            yield volume.name, zones


def _volume_claims(live: Live, target: Target, message: str, evidence: Evidence) -> Iterator[Cause]:
    where = f"-n {shlex.quote(target.namespace)}"
    # The condition doesn't expire, so a claim that exists now was created after it.
    found = _NO_CLAIM.search(message)
    if found and live.object("PersistentVolumeClaim", found[1], target.namespace) is None:
        certain = live.certainty("PersistentVolumeClaim", target.namespace)
        text = f"PersistentVolumeClaim {found[1]}, which {target.title} mounts, doesn't exist"
        fix = "create the claim, or correct claimName of the pod"
        yield Cause("V1", target.title, text, certain or "likely", (evidence,), fix)
    elif "unbound immediate PersistentVolumeClaims" in message:
        for name in claim_names(target.named):
            claim = live.object("PersistentVolumeClaim", name, target.namespace)
            if claim is None or dig(claim.content, "status", "phase") in (None, "Bound"):
                continue
            events = [
                each for each in live.object_events(claim) if each.reason in ("ProvisioningFailed", "FailedBinding")
            ]
            why = f": {events[0].message}" if events else ""
            proofs = (
                Evidence(claim.title, "status.phase", str(dig(claim.content, "status", "phase"))),
                *map(live.event_evidence, events[:1]),
                evidence,
            )
            text = f"{claim.title}, which {target.title} mounts, isn't bound{why}"
            fix = "correct the StorageClass of the claim, or install its provisioner"
            yield Cause(
                "V2", claim.title, text, "proven", proofs, fix, f"kubectl describe pvc {shlex.quote(name)} {where}"
            )
            return
        text = f"{target.title} uses a PersistentVolumeClaim that isn't bound"
        yield Cause("V2", target.title, text, "likely", (evidence,), "look at the events of its claims")
