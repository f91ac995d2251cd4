"""Rules for the settings of Karpenter's controller and its interruption queue."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from gpu_facts.charts import KARPENTER
from gpu_facts.labels import CAPACITY_TYPE, INSTANCE_TYPE
from gpu_facts.refusals import did_you_mean
from gpu_preflight.case import Case
from gpu_preflight.cluster.iam import allowed_resources, allows, identity, listed, resolve_role, statements
from gpu_preflight.cluster.references import referred, refers, setting
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.label_values import Labels, LabelValues, exactly
from gpu_preflight.node.autoscaler_view import feature_gate, option
from gpu_preflight.node.gpu_pools import gpu_node_pools
from gpu_preflight.node.nodes import minor
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.objects import Chart
from gpu_preflight.reading.unknown import Unknown, all_known, is_expression, items, mapping, mappings, may_equal
from gpu_preflight.rule import Problem, rule

_SETTINGS = "https://karpenter.sh/docs/reference/settings/"
# Source: aws/karpenter-provider-aws v1.14.1 charts/karpenter/values.yaml
_KNOWN = (
    *("batchMaxDuration", "batchIdleDuration", "preferencePolicy", "minValuesPolicy", "clusterCABundle"),
    *("clusterName", "clusterEndpoint", "isolatedVPC", "eksControlPlane", "vmMemoryOverheadPercent"),
    *("interruptionQueue", "enableZonalShift", "reservedENIs", "ignoreDRARequests"),
    *("disableClusterStateObservability", "disableDryRun", "amiRefreshInterval", "subnetRefreshInterval"),
    *("securityGroupRefreshInterval", "instanceProfileRefreshInterval", "featureGates", "dnsPolicy"),
)
_KNOWN_GATES = (
    *("nodeRepair", "nodeOverlay", "reservedCapacity", "spotToSpotConsolidation", "staticCapacity"),
    "capacityBuffer",
)
# Names in older charts, and their current names.
_RENAMED = {
    "interruptionQueueName": "interruptionQueue",
    "aws": "settings (without aws)",
    "featureGates.drift": "",
}
_READ = (1, 14)
_BUILT_IN_POOLS = ("system", "general-purpose")
_QUEUE = "AWS::SQS::Queue"
# Sources: aws/karpenter-provider-aws v1.14.1 and v1.15.1 pkg/providers/sqs/sqs.go,
# pkg/controllers/interruption/messages/*/parser.go (2026-11-24)
_CALLS = ("sqs:GetQueueUrl", "sqs:ReceiveMessage", "sqs:DeleteMessage")
_EVENT_SOURCES = ("aws.ec2", "aws.health")
_EVENTBRIDGE = "events.amazonaws.com"
_DELIVERY = "https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-resource-based.html#eb-sqs-permissions"


def _chart(cluster: Cluster) -> Chart | None:
    return cluster.chart(KARPENTER)


def _settings(chart: Chart) -> dict[str, Any] | None:
    values = chart.values.get("settings", {})
    return values if isinstance(values, dict) else None


@rule("GPU179", "error", source=f"{_SETTINGS}#feature-gates")
def karpenter_with_a_feature_switched_off_that_a_pool_needs(case: Case) -> Iterator[Problem]:
    """Pool needs a Karpenter feature that is off.

    Karpenter ignores the object or the field, and its pods stay Pending.

    Fix: Set the feature gate to true in the values of chart karpenter.
    """
    cluster = case.cluster
    karpenter_pools = [each for each in gpu_node_pools(cluster) if each.kind == "karpenter"]
    overlays = cluster.objects_of_kind("NodeOverlay")
    if overlays and feature_gate(cluster, "nodeOverlay", default=False) is Answer.NO:
        text = f"NodeOverlay {overlays[0].name}: Karpenter ignores it, because featureGates.nodeOverlay is off"
        yield Problem(overlays[0], text, _gate_fix("nodeOverlay"))
    for pool in karpenter_pools:
        if (
            pool.properties.get("replicas") is not None
            and feature_gate(cluster, "staticCapacity", default=False) is Answer.NO
        ):
            text = "sets replicas, but featureGates.staticCapacity is off, so Karpenter ignores them"
            yield Problem.from_subject(pool, text, fix=_gate_fix("staticCapacity"))
        if _wants_reserved(pool) and feature_gate(cluster, "reservedCapacity", default=True) is Answer.NO:
            text = "allows reserved capacity, but featureGates.reservedCapacity is off, so Karpenter uses none"
            yield Problem.from_subject(pool, text, fix=_gate_fix("reservedCapacity"))


def _gate_fix(gate: str) -> str:
    return f"Set settings.featureGates.{gate}: true in the values of chart karpenter."


@rule(
    "GPU460", "warning", source="sigs.k8s.io/karpenter 2266468 (2026-08-20) pkg/controllers/nodeoverlay/controller.go"
)
def nodeoverlay_that_another_contradicts(case: Case) -> Iterator[Problem]:
    """Two NodeOverlays contradict each other.

    Karpenter marks the second one with the condition Conflict and applies it to no node.

    Fix: Give them different weights (the higher weight wins), or change their requirements so that no instance type
    matches both.
    """
    for each in case.overlays_in_conflict:
        text = f"NodeOverlay {each.overlay.name}: sets {', '.join(each.about)}{_instance_type_suffix(each.labels)}"
        text += f", but NodeOverlay {each.other.name} with the same weight sets it too"
        yield Problem(each.overlay, f"{text}, so Karpenter ignores NodeOverlay {each.overlay.name}")


def _instance_type_suffix(labels: Labels) -> str:
    named = labels.get(INSTANCE_TYPE)
    return f" of types such as {named.only}" if isinstance(named, LabelValues) and named.only else ""


def _wants_reserved(pool: Pool) -> bool:
    return any(each.key == CAPACITY_TYPE and "reserved" in (each.values or ()) for each in pool.requirements)


@rule("GPU185", "warning", source="https://karpenter.sh/docs/concepts/disruption/#interruption")
def spot_gpus_without_interruption_queue(case: Case) -> Iterator[Problem]:
    """Karpenter has no interruption queue for spot GPUs.

    Without the queue, Karpenter detects an interruption only when the instance is gone, and its pods are killed at
    once.

    Fix: Create an SQS queue with its EventBridge rules and set settings.interruptionQueue.
    """
    cluster = case.cluster
    chart = _chart(cluster)
    settings = _settings(chart) if chart else None
    if (
        chart is None
        or settings is None
        or settings.get("interruptionQueue")
        or "INTERRUPTION_QUEUE" in str(chart.values)
    ):
        return
    spot = [each.name for each in gpu_node_pools(cluster) if each.kind == "karpenter" and _takes_spot(each)]
    if spot:
        names = ", ".join(spot)
        text = (
            f"Karpenter has no interruption queue, but pool {names} may run on spot, so its pods end without notice "
            "when EC2 reclaims a node"
        )
        yield Problem(chart, text)


def _takes_spot(pool: Pool) -> bool:
    wanted = [each for each in pool.requirements if each.key == CAPACITY_TYPE]
    return all(each.matches({CAPACITY_TYPE: exactly("spot")}) is not Answer.NO for each in wanted)


@rule("GPU197", "warning", source="aws/karpenter-provider-aws v1.14.1 charts/karpenter/values.yaml")
def setting_that_karpenters_chart_does_not_have(case: Case) -> Iterator[Problem]:
    """Karpenter's chart doesn't have this setting.

    Helm accepts any value, so the setting is silently ignored.

    Fix: Correct the name as the message states.
    """
    chart = _chart(case.cluster)
    settings = _settings(chart) if chart else None
    if chart is None or settings is None or chart.version is None:
        return
    read = (1, 0) <= minor(chart.version) <= _READ
    gates = mapping(settings.get("featureGates"))
    found = [(each, _KNOWN) for each in settings] + [(f"featureGates.{each}", _KNOWN_GATES) for each in gates]
    for name, known in found:
        if name in _RENAMED and minor(chart.version) >= (1, 0):
            now = f"its name is now {_RENAMED[name]}" if _RENAMED[name] else "the feature is always on"
            yield Problem(chart, f"chart karpenter: settings.{name} no longer exists; {now}")
        elif read and (bare := name.rpartition(".")[2]) not in known and (hint := did_you_mean(bare, known)):
            yield Problem(chart, f"chart karpenter: settings.{name} doesn't exist{hint}")


@rule("GPU195", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/set-builtin-node-pools.html")
def built_in_pool_that_auto_mode_does_not_have(case: Case) -> Iterator[Problem]:
    """EKS Auto Mode doesn't have this built-in pool.

    Auto Mode has only the pools system and general-purpose, and neither has GPUs.

    Fix: Correct the name; for GPUs, create your own NodePool.
    """
    cluster = case.cluster
    if cluster.resource is None or not cluster.auto_mode:
        return
    for name in items(setting(cluster, "ComputeConfig", "NodePools")):
        if isinstance(name, str) and name not in _BUILT_IN_POOLS:
            text = f"cluster {cluster.name}: Auto Mode has no built-in pool {name}{did_you_mean(name, _BUILT_IN_POOLS)}"
            yield Problem(next(each for each in cluster.autoscalers if each.kind == "auto-mode"), text)


@rule("GPU500", "warning", source="aws/karpenter-provider-aws v1.15.1 pkg/providers/sqs/sqs.go")
def interruption_queue_that_karpenter_cannot_read(case: Case) -> Iterator[Problem]:
    """Karpenter can't read its interruption queue.

    Karpenter logs an error again and again, and doesn't drain nodes before EC2 reclaims them.

    Fix: Allow sqs:GetQueueUrl, sqs:ReceiveMessage and sqs:DeleteMessage on this queue in the policy of Karpenter's
    role, or correct settings.interruptionQueue.
    """
    cluster = case.cluster
    name = option(cluster, "interruptionQueue")
    for karpenter in cluster.autoscalers:
        if karpenter.kind != "karpenter" or not isinstance(name, (str, Unknown)) or not name:
            continue
        queue = _queue(name, cluster)
        if queue is not None and isinstance(name, Unknown) and name.attribute != "QueueName":
            what = name.attribute or "URL"
            text = f"Karpenter: settings.interruptionQueue must be the name of {queue.path}, got its {what}"
            yield Problem(karpenter, text, "Set settings.interruptionQueue to Fn::GetAtt QueueName of the queue.")
            continue
        role = resolve_role(identity(karpenter, cluster), cluster.resources)
        denied = [each for each in _CALLS if role and allows(role, each, cluster.resources) is Answer.NO]
        if denied:
            calls = ", ".join(denied)
            text = f"Karpenter: its role doesn't allow {calls} on its interruption queue"
            yield Problem(karpenter, text, f"Allow {calls} on the queue in the policy of Karpenter's role.")
        elif role is not None:
            granted = allowed_resources(role, _CALLS[0], cluster.resources)
            answers = [_covers(each, name, queue, cluster) for each in granted]
            # Without known resources, the policy proves nothing.
            known = [each for each in granted if not isinstance(each, Unknown) or _queue(each, cluster)]
            if known and Answer.YES not in answers:
                others = ", ".join(map(str, known))
                text = (
                    f"Karpenter: its interruption queue is {queue.path if queue else name}, but its role allows reading"
                )
                yield Problem(karpenter, f"{text} only {others}", unknown=Answer.UNKNOWN in answers)


def _queue(name: Any, cluster: Cluster) -> Resource | None:
    """Return the queue of the input that a setting names; ``None`` if it isn't in the input."""
    if isinstance(name, Unknown):
        found = referred(name, cluster.resources)
        return found if found is not None and found.type == _QUEUE else None
    queues = cluster.resources_of_type(_QUEUE)
    return next((each for each in queues if each.properties.get("QueueName") == name), None)


def _covers(granted: Any, name: str | Unknown, queue: Resource | None, cluster: Cluster) -> Answer:
    """Return whether a statement's resource covers a queue; unknown if only the deployment decides."""
    other = referred(granted, cluster.resources)
    if other is not None and other.type == _QUEUE:
        if queue is not None:
            return Answer.YES if other is queue else Answer.NO
        named = other.properties.get("QueueName")
        # CloudFormation generates a name, which a user may have copied.
        known = isinstance(named, str) and isinstance(name, str)
        return Answer.NO if known and named != name else Answer.UNKNOWN
    wanted = queue.properties.get("QueueName") if queue is not None else name
    pattern = str(granted).rpartition(":")[2]
    if pattern == "*":
        return Answer.YES
    if isinstance(granted, Unknown) and is_expression(pattern):
        return Answer.UNKNOWN
    if not isinstance(wanted, str) or is_expression(pattern):
        return Answer.UNKNOWN
    return Answer.YES if fnmatchcase(wanted, pattern.replace("[", "[[]")) else Answer.NO


@rule("GPU501", "warning", source=_DELIVERY)
def interruption_queue_that_no_event_reaches(case: Case) -> Iterator[Problem]:
    """EventBridge sends no events to Karpenter's interruption queue.

    Karpenter doesn't drain nodes before EC2 reclaims them.

    Fix: Match events of the sources aws.ec2 and aws.health, and allow events.amazonaws.com to send messages in the
    queue's policy.
    """
    cluster = case.cluster
    queue = _queue(option(cluster, "interruptionQueue"), cluster)
    rules = (
        []
        if queue is None
        else [each for each in cluster.resources_of_type("AWS::Events::Rule") if _sends(each, queue)]
    )
    for each in rules:
        sources = _sources(each)
        if sources and not set(sources) & set(_EVENT_SOURCES):
            text = f"rule {each.path} matches events of {', '.join(sources)}, but Karpenter reads events of"
            fix = "Set source in EventPattern of the rule to [aws.ec2] or [aws.health]."
            yield Problem(each, f"{text} {' and '.join(_EVENT_SOURCES)}", fix, unknown=each.conditional)
    if queue is not None and rules and _may_send(queue, cluster) is Answer.NO:
        text = (
            f"queue {queue.path}: no queue policy allows {_EVENTBRIDGE} to send messages to it, so Karpenter doesn't "
        )
        text += "drain nodes before EC2 reclaims them"
        fix = f"Allow {_EVENTBRIDGE} to call sqs:SendMessage in an AWS::SQS::QueuePolicy of the queue."
        yield Problem(queue, text, fix)


def _sends(rule_: Resource, queue: Resource) -> bool:
    return any(refers(each.get("Arn"), queue) for each in mappings(rule_.properties.get("Targets")))


def _sources(rule_: Resource) -> list[str]:
    """Return the sources whose events a rule matches; empty if it matches other fields, or isn't known."""
    listed_ = items(mapping(rule_.properties.get("EventPattern")).get("source"))
    return all_known(each if isinstance(each, str) and not is_expression(each) else None for each in listed_)


def _may_send(queue: Resource, cluster: Cluster) -> Answer:
    """Return whether EventBridge is allowed to send messages to a queue."""
    for policy in cluster.resources_of_type("AWS::SQS::QueuePolicy", "AWS::SQS::QueueInlinePolicy"):
        queues = policy.properties.get("Queues", policy.properties.get("Queue"))
        if not any(_may_reference_queue(each, queue) for each in listed(queues)):
            continue
        document = policy.properties.get("PolicyDocument")
        if not isinstance(document, dict) or any(map(_may_let, statements(document))):
            return Answer.UNKNOWN
    return Answer.NO


def _may_reference_queue(reference: Any, queue: Resource) -> bool:
    """Whether a policy may apply to a queue."""
    named = queue.properties.get("QueueName")
    text = str(reference).rpartition("/")[2]
    literal = isinstance(named, str) and may_equal(text, named)
    return refers(reference, queue) or literal or (isinstance(reference, Unknown) and reference.resource is None)


def _may_let(statement: Any) -> bool:
    if not isinstance(statement, dict) or statement.get("Effect") == "Deny":
        return not isinstance(statement, dict)
    principal = statement.get("Principal")
    services = listed(mapping(principal).get("Service"))
    open_ = principal is None or not isinstance(principal, dict) or "AWS" in principal
    return open_ or any(isinstance(each, Unknown) or each == _EVENTBRIDGE for each in services)
