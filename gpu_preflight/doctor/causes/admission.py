"""Why an owner has too few pods: the API server rejects them, or the owner or its autoscaler wants no more.

Sources: kubernetes/kubernetes v1.36.2 plugin/pkg/admission/resourcequota, limitranger, podsecurity, runtimeclass, and
staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/generic for the texts,
pkg/controller/podautoscaler/horizontal.go for the conditions of autoscalers (read 2026-11)
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from itertools import islice

from gpu_facts.labels import ENFORCED_LEVEL, KUEUE_QUEUE
from gpu_facts.light import regex
from gpu_facts.quantities import quantity, show
from gpu_preflight.doctor.cause import Cause, Confidence, Evidence
from gpu_preflight.doctor.live import Live, Target
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, mapping

_QUOTA = regex(r"exceeded quota: (\S+), requested: (.+?), used: (.+?), limited: (.+?)(?:$|\s*[;}\n])")
_AMOUNT = regex(r"([a-zA-Z0-9./_-]+)=([^,\s]+)")
_RUNTIME_CLASS = regex(r'RuntimeClass "([^"]+)" not found')
_WEBHOOK = regex(r'admission webhook "([^"]+)" denied the request(?: without explanation)?:? ?(.*)')
_POLICY = regex(r"ValidatingAdmissionPolicy '([^']+)'.*? denied request: (.*)")
_UNREACHABLE = regex(r'failed calling webhook "([^"]+)": (.*)')
_SERVICE = regex(r"https://[\w-]+\.([\w-]+)\.svc[:/]")
_SECURITY = regex(r'violates PodSecurity "([^"]+)": (.*)')
_LIMIT_RANGE = regex(r"((?:maximum|minimum) \S+ usage per \w+ is .*|\S+ max limit to request ratio per \w+ is .*)")
_FARGATE = "fargate-scheduler"


def find(live: Live, target: Target) -> Iterator[Cause]:
    """Yield why the owner of a pod has no pod."""
    yield from _fargate_causes(target)
    # The condition of a Deployment repeats that of its ReplicaSet.
    yield from islice((each for owner in target.owners if target.pod is None for each in _refused(live, owner)), 1)
    for owner in target.owners if target.pod is None else ():
        yield from _unwanted(live, owner)
        for scaler in live.objects("HorizontalPodAutoscaler", owner.namespace):
            if live.limits_owner(scaler, owner):
                yield from _scaler_causes(live, scaler, owner)


def _refused(live: Live, owner: Object) -> Iterator[Cause]:
    """Yield the latest refusal of the API server that the controller of an owner reports."""
    failure = live.condition(owner, "ReplicaFailure")
    if failure is not None and failure.status == "True":
        yield _refusal(live, owner, failure.message, live.condition_evidence(owner, failure), "proven")
        return
    # A controller that creates pods again after an error reports that it did.
    events = [each for each in live.object_events(owner) if each.reason in ("FailedCreate", "SuccessfulCreate")]
    if events and events[0].reason == "FailedCreate":
        yield _refusal(live, owner, events[0].message, live.event_evidence(events[0]), "likely")


def _refusal(live: Live, owner: Object, message: str, evidence: Evidence, confidence: Confidence) -> Cause:
    who = owner.title
    if found := _QUOTA.search(message):
        return _quota(live, owner, found.groups(), evidence, confidence)
    if found := _SECURITY.search(message):
        level, why = found.groups()
        namespace = live.object("Namespace", owner.namespace)
        text = f"Pod Security level {level} of namespace {owner.namespace} rejects the pods of {who}: {why}"
        fix = f"change the pod, or allow privileged pods in namespace {owner.namespace} if it is one of system software"
        seen = namespace is not None and namespace.labels.get(ENFORCED_LEVEL) == level.partition(":")[0]
        return Cause("A4", who, text, "proven" if seen else confidence, (evidence,), fix)
    found = _RUNTIME_CLASS.search(message)
    if found and live.object("RuntimeClass", found[1]) is None:
        text = f"RuntimeClass {found[1]}, which the pods of {who} name, doesn't exist"
        fix = "remove runtimeClassName from the pod, unless GPU Operator or you create this class"
        own = live.certainty("RuntimeClass") == "proven"
        return Cause("A9", who, text, "proven" if own else confidence, (evidence,), fix)
    if found := _UNREACHABLE.search(message):
        text = f"Webhook {found[1]} can't be reached, so the API server rejects the pods of {who}: {found[2]}"
        fix = "start the pods behind the webhook's Service, or set failurePolicy to Ignore in its configuration"
        return Cause("A6", who, text, confidence, (evidence,), fix, because=_component_cause(live, found[2]))
    for pattern, kind in ((_WEBHOOK, "Webhook"), (_POLICY, "ValidatingAdmissionPolicy")):
        if found := pattern.search(message):
            text = f"{kind} {found[1]} rejects the pods of {who}: {found[2]}"
            fix = f"change the pod so that {found[1]} accepts it, or change that policy"
            return Cause("A5", who, text, confidence, (evidence,), fix)
    if found := _LIMIT_RANGE.search(message):
        text = f"{who} gets no pod, because a LimitRange of namespace {owner.namespace} rejects it: {found[1]}"
        fix = "keep the requests and limits of the pod within the LimitRange, or change the LimitRange"
        command = f"kubectl get limitrange -n {shlex.quote(owner.namespace)} -o yaml"
        return Cause("A3", who, text, confidence, (evidence,), fix, command)
    text = f"{who} gets no pod, because the API server rejects it: {message}"
    return Cause("A0", who, text, confidence, (evidence,), "change the pod as the message says")


def _component_cause(live: Live, message: str) -> Cause | None:
    """Return why a pod in the namespace of a webhook's Service doesn't run; ``None`` if none is known."""
    from gpu_preflight.doctor.diagnosis import component_cause

    service = _SERVICE.search(message)
    pods = live.objects("Pod", service[1]) if service else []
    broken = next((each for each in pods if not live.is_fine(each)), None)
    return component_cause(live, broken) if broken is not None else None


def _quota(live: Live, owner: Object, found: tuple[str, ...], evidence: Evidence, confidence: Confidence) -> Cause:
    name, requested, used, limited = found
    asked, taken, hard = (dict(_AMOUNT.findall(each)) for each in (requested, used, limited))
    parts = [f"{key} {taken.get(key, '?')} of {hard.get(key, '?')} used, {asked[key]} more requested" for key in asked]
    quota = live.object("ResourceQuota", name, owner.namespace)
    proofs = [evidence]
    for key in asked if quota is not None else ():
        value = dig(quota.content if quota else None, "status", "used", key)
        limit = dig(quota.content if quota else None, "status", "hard", key)
        sizes = [quantity(key, each) for each in (value, limit, asked[key])]
        if None not in sizes and sizes[0] + sizes[2] > sizes[1]:  # type: ignore[operator]
            confidence = "proven"
            proofs.append(
                Evidence(f"ResourceQuota {owner.namespace}/{name}", f"status.used.{key}", f"{value} of {limit}")
            )
    larger = {}
    for key in asked:
        name_only = key.removeprefix("requests.").removeprefix("limits.")
        old, more = quantity(name_only, taken.get(key)), quantity(name_only, asked[key])
        larger[key] = "" if old is None or more is None else show(name_only, old + more)
    patch = json.dumps({"spec": {"hard": larger}}, separators=(",", ":"))
    where = f"-n {shlex.quote(owner.namespace)}"
    return Cause(
        "A1",
        owner.title,
        f"ResourceQuota {name} of namespace {owner.namespace} rejects the pods of {owner.title}: {'; '.join(parts)}",
        confidence,
        tuple(proofs),
        f"raise quota {name}, or end pods that count against it",
        f"kubectl patch resourcequota {shlex.quote(name)} {where} --type merge -p {shlex.quote(patch)}"
        if all(larger.values())
        else f"kubectl describe resourcequota {shlex.quote(name)} {where}",
    )


def _unwanted(live: Live, owner: Object) -> Iterator[Cause]:
    """Yield why an owner wants no pod."""
    name, where = shlex.quote(owner.name), f"-n {shlex.quote(owner.namespace)}"
    if owner.spec.get("suspend") is True and KUEUE_QUEUE not in owner.labels:
        condition = live.condition(owner, "Suspended")
        proofs = [Evidence(owner.title, "spec.suspend", "true")]
        proofs += [live.condition_evidence(owner, condition)] if condition is not None else []
        patch = '\'{"spec":{"suspend":false}}\''
        command = f"kubectl patch {owner.kind.lower()} {name} {where} --type merge -p {patch}"
        text = f"{owner.title} is suspended, and creates no pod until it is resumed"
        yield Cause("A11", owner.title, text, "proven", tuple(proofs), "resume it", command)
    elif owner.kind in ("Deployment", "StatefulSet", "ReplicaSet", "Job") and 0 in (
        owner.spec.get("replicas"),
        owner.spec.get("parallelism"),
    ):
        field = "replicas" if owner.spec.get("replicas") == 0 else "parallelism"
        scaler = _scaler(live, owner)
        active = live.condition(scaler, "ScalingActive") if scaler is not None else None
        by = f"; {scaler.title} sets it" if scaler is not None else ""
        if scaler is not None and active is not None and active.reason == "ScalingDisabled":
            by, scaler = f", and {scaler.title} doesn't scale an owner with 0 replicas", None
        command = f"kubectl scale {owner.kind.lower()} {name} {where} --replicas 1" if scaler is None else ""
        fix = "scale it up" if scaler is None else f"look at the metrics and the min of {scaler.title}"
        text = f"{owner.title} wants no pod: spec.{field} is 0{by}"
        yield Cause("A12", owner.title, text, "proven", (Evidence(owner.title, f"spec.{field}", "0"),), fix, command)
    elif owner.kind == "Deployment" and owner.spec.get("paused") is True:
        text = f"{owner.title} is paused, so it doesn't roll out its newest template"
        command = f"kubectl rollout resume deployment {name} {where}"
        proof = Evidence(owner.title, "spec.paused", "true")
        yield Cause("A12", owner.title, text, "proven", (proof,), "resume the rollout", command)


def _scaler(live: Live, owner: Object) -> Object | None:
    """Return the object that scales an owner."""
    for kind in ("ScaledObject", "HorizontalPodAutoscaler"):
        for each in live.objects(kind, owner.namespace):
            about = mapping(each.spec.get("scaleTargetRef"))
            if about.get("name") == owner.name and about.get("kind", "Deployment") == owner.kind:
                return each
    return None


def _fargate_causes(target: Target) -> Iterator[Cause]:
    pod = target.pod
    if pod is None or target.node is not None or not target.read.asks_for_gpu:
        return
    profile = pod.labels.get("eks.amazonaws.com/fargate-profile")
    if pod.spec.get("schedulerName") == _FARGATE or profile:
        proof = Evidence(pod.title, "spec.schedulerName", str(pod.spec.get("schedulerName")))
        text = f"{pod.title} belongs to Fargate profile {profile or '(unknown)'}, and Fargate has no GPUs"
        fix = "move the pod to a namespace that no Fargate profile selects, or remove the labels that it selects"
        yield Cause("A14", pod.title, text, "proven", (proof,), fix)


def _scaler_causes(live: Live, scaler: Object, owner: Object) -> Iterator[Cause]:
    active, limited = live.condition(scaler, "ScalingActive"), live.condition(scaler, "ScalingLimited")
    if active is not None and active.status == "False" and active.reason != "ScalingDisabled":
        text = f"{scaler.title} can't read the metric that scales {owner.title}: {active.message}"
        fix = "check the adapter that serves the metric: kubectl get apiservices, then its pods"
        yield Cause("H-1", scaler.title, text, "proven", (live.condition_evidence(scaler, active),), fix)
    elif limited is not None:
        most = scaler.spec.get("maxReplicas")
        text = f"{scaler.title} keeps {owner.title} at its max of {most} replicas"
        yield Cause(
            "H-2", scaler.title, text, "proven", (live.condition_evidence(scaler, limited),), "raise maxReplicas"
        )
