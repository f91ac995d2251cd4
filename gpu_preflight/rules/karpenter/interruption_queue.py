"""Interruption queues that Karpenter can't read, or that no event reaches."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from gpu_preflight.case import Case
from gpu_preflight.cluster.iam import allowed_on, allows, identity, listed, role_of, statements
from gpu_preflight.cluster.references import referred, refers
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.node.karpenter_options import option
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.unknown import Unknown, is_expression, items, mapping, mappings, may_equal
from gpu_preflight.rules.rule import Problem, rule

_QUEUE = "AWS::SQS::Queue"
# Sources: aws/karpenter-provider-aws v1.14.1 and v1.15.1 pkg/providers/sqs/sqs.go,
# pkg/controllers/interruption/messages/*/parser.go (2026-11-24)
_CALLS = ("sqs:GetQueueUrl", "sqs:ReceiveMessage", "sqs:DeleteMessage")
_EVENT_SOURCES = ("aws.ec2", "aws.health")
_EVENTBRIDGE = "events.amazonaws.com"
_DELIVERY = "https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-resource-based.html#eb-sqs-permissions"


@rule("GPU500", "warning", source="aws/karpenter-provider-aws v1.15.1 pkg/providers/sqs/sqs.go")
def interruption_queue_that_karpenter_cannot_read(case: Case) -> Iterator[Problem]:
    """Karpenter can't read the interruption queue that it is configured with.

    It logs an error again and again, and doesn't drain nodes before EC2 takes them away.

    Fix: Set settings.interruptionQueue to the name of the queue, and allow sqs:GetQueueUrl, sqs:ReceiveMessage and
    sqs:DeleteMessage on it.
    """
    cluster = case.cluster
    name = option(cluster, "interruptionQueue")
    for karpenter in cluster.autoscalers:
        if karpenter.kind != "karpenter" or not isinstance(name, (str, Unknown)) or not name:
            continue
        queue = _queue(name, cluster)
        if queue is not None and isinstance(name, Unknown) and name.attribute != "QueueName":
            what = name.attribute or "URL"
            text = f"Karpenter: settings.interruptionQueue is the {what} of {queue.path}, and Karpenter needs its name"
            yield Problem(karpenter, text)
            continue
        role = role_of(identity(karpenter, cluster), cluster.resources)
        denied = [each for each in _CALLS if role and allows(role, each, cluster.resources) is Answer.NO]
        if denied:
            yield Problem(
                karpenter, f"Karpenter: its role does not allow {', '.join(denied)} on its interruption queue"
            )
        elif role is not None:
            granted = allowed_on(role, _CALLS[0], cluster.resources)
            answers = [_covers(each, name, queue, cluster) for each in granted]
            # Of a policy that can't be read nothing is known.
            known = [each for each in granted if not isinstance(each, Unknown) or _queue(each, cluster)]
            if known and Answer.YES not in answers:
                others = ", ".join(map(str, known))
                text = f"Karpenter: its interruption queue is {queue.path if queue else name}, and its role may read"
                yield Problem(karpenter, f"{text} {others}", unknown=Answer.UNKNOWN in answers)


def _queue(name: Any, cluster: Cluster) -> Resource | None:
    """Return the queue of the input that a setting means; ``None`` where it isn't there."""
    if isinstance(name, Unknown):
        found = referred(name, cluster.resources)
        return found if found is not None and found.type == _QUEUE else None
    queues = cluster.resources_of(_QUEUE)
    return next((each for each in queues if each.properties.get("QueueName") == name), None)


def _covers(granted: Any, name: str | Unknown, queue: Resource | None, cluster: Cluster) -> Answer:
    """Say whether what a statement is allowed on is a queue: unknown where only the deployment decides."""
    other = referred(granted, cluster.resources)
    if other is not None and other.type == _QUEUE:
        if queue is not None:
            return Answer.YES if other is queue else Answer.NO
        named = other.properties.get("QueueName")
        # CloudFormation makes up a name that somebody may have copied.
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
    """EventBridge sends Karpenter's interruption queue no events.

    Karpenter doesn't drain nodes before EC2 takes them away.

    Fix: Match events of the sources aws.ec2 and aws.health, and let events.amazonaws.com send messages in the queue's
    policy.
    """
    cluster = case.cluster
    queue = _queue(option(cluster, "interruptionQueue"), cluster)
    rules = [] if queue is None else [each for each in cluster.resources_of("AWS::Events::Rule") if _sends(each, queue)]
    for each in rules:
        sources = _sources(each)
        if sources and not set(sources) & set(_EVENT_SOURCES):
            text = f"{each.path}: matches events of {', '.join(sources)}, and Karpenter reads those of"
            yield Problem(each, f"{text} {' and '.join(_EVENT_SOURCES)}", unknown=each.conditional)
    if queue is not None and rules and _may_send(queue, cluster) is Answer.NO:
        yield Problem(queue, f"{queue.path}: no policy of the queue lets {_EVENTBRIDGE} send messages to it")


def _sends(rule_: Resource, queue: Resource) -> bool:
    return any(refers(each.get("Arn"), queue) for each in mappings(rule_.properties.get("Targets")))


def _sources(rule_: Resource) -> list[str]:
    """Return the sources whose events a rule matches; none where it matches others, or isn't known."""
    listed_ = items(mapping(rule_.properties.get("EventPattern")).get("source"))
    known = [each for each in listed_ if isinstance(each, str) and not is_expression(each)]
    return known if len(known) == len(listed_) else []


def _may_send(queue: Resource, cluster: Cluster) -> Answer:
    """Say whether EventBridge may send messages to a queue."""
    for policy in cluster.resources_of("AWS::SQS::QueuePolicy", "AWS::SQS::QueueInlinePolicy"):
        queues = policy.properties.get("Queues", policy.properties.get("Queue"))
        if not any(_is_of(each, queue) for each in listed(queues)):
            continue
        document = policy.properties.get("PolicyDocument")
        if not isinstance(document, dict) or any(map(_may_let, statements(document))):
            return Answer.UNKNOWN
    return Answer.NO


def _is_of(reference: Any, queue: Resource) -> bool:
    """Whether a policy may be for a queue."""
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
