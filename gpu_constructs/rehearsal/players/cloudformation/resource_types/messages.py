"""Queues, rules of events, and schedules.

Source of every type: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_SQS.html, and
AWS_Events.html, AWS_Scheduler.html there (2026-11)
"""

from __future__ import annotations

import json

from gpu_constructs.rehearsal.players.cloudformation.creation import Creation, Made
from gpu_constructs.rehearsal.players.cloudformation.shaping import Shaping
from gpu_constructs.rehearsal.players.cloudformation.templates.intrinsics import as_text

_QUEUE = Shaping(documents=frozenset({"Attributes.RedriveAllowPolicy", "Attributes.RedrivePolicy"}))


def queue(creation: Creation) -> Made:
    """Make a queue; all but its name and tags are attributes, as texts."""
    name = creation.named("QueueName", 80)
    tags = {each["Key"]: as_text(each["Value"]) for each in creation.take("Tags", [])}
    creation.properties = {"Attributes": creation.properties}
    url = creation.call("sqs", "CreateQueue", _QUEUE, QueueName=name, tags=tags)["QueueUrl"]
    asked = creation.ask("sqs", "GetQueueAttributes", QueueUrl=url, AttributeNames=["QueueArn"])
    return Made(ref=url, attributes={"Arn": asked["Attributes"]["QueueArn"], "QueueName": name, "QueueUrl": url})


def queue_policy(creation: Creation) -> Made:
    """Write the policy of queues."""
    document = json.dumps(creation.take("PolicyDocument"))
    for url in creation.take("Queues"):
        creation.ask("sqs", "SetQueueAttributes", QueueUrl=url, Attributes={"Policy": document})
    return Made(ref=creation.name(80))


def rule(creation: Creation) -> Made:
    """Make a rule, then its targets."""
    targets = creation.take("Targets", [])
    name = creation.named("Name", 64)
    arn = creation.call("events", "PutRule", Shaping(documents=frozenset({"EventPattern"})), Name=name)["RuleArn"]
    if targets:
        answer = creation.ask(
            "events", "PutTargets", **creation.shaped("events", "PutTargets", _targets(name, targets))
        )
        for refused in answer["FailedEntries"]:
            creation.fail(refused["ErrorMessage"])
    return Made(ref=name, attributes={"Arn": arn})


def schedule(creation: Creation) -> Made:
    """Make a schedule."""
    name = creation.named("Name", 64)
    arn = creation.call("scheduler", "CreateSchedule", Name=name)["ScheduleArn"]
    return Made(ref=name, attributes={"Arn": arn})


def _targets(of_rule: str, targets: list[dict[str, object]]) -> dict[str, object]:
    return {"Rule": of_rule, "Targets": targets}
