"""A queue through which EC2 tells that it will take an instance away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import aws_events as events
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from gpu_facts.named_arguments import named_arguments

_RETENTION_SECONDS = 300


@named_arguments
class InterruptionQueue(Construct):
    """An encrypted queue that takes messages over TLS only, and the rules that fill it.

    Args:
        rules: Event patterns, by construct id of their rule.
        target_id: Name of the queue among a rule's targets.
    """

    def __init__(self, scope: Construct, id: str, *, rules: Mapping[str, Mapping[str, Any]], target_id: str) -> None:
        super().__init__(scope, id)
        self.queue = sqs.CfnQueue(
            self, "Resource", message_retention_period=_RETENTION_SECONDS, sqs_managed_sse_enabled=True
        )
        self.arn: str = self.queue.attr_arn
        targets = [{"id": target_id, "arn": self.arn}]
        made = [
            events.CfnRule(self, name, event_pattern=dict(pattern), targets=targets) for name, pattern in rules.items()
        ]
        document = _policy(self.arn, [rule.attr_arn for rule in made])
        self.policy = sqs.CfnQueuePolicy(self, "Policy", queues=[self.queue.ref], policy_document=document)

    @property
    def name(self) -> str:
        """Name of the queue, known at deployment."""
        return self.queue.attr_queue_name

    @property
    def url(self) -> str:
        """URL of the queue, known at deployment."""
        return self.queue.ref


def event(source: str, detail_type: str, **detail: list[str]) -> dict[str, Any]:
    """Return the pattern of an event."""
    return {"source": [source], "detail-type": [detail_type]} | ({"detail": detail} if detail else {})


def _policy(arn: str, rules: Sequence[str]) -> dict[str, object]:
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "EC2InterruptionPolicy",
                "Effect": "Allow",
                "Principal": {"Service": "events.amazonaws.com"},
                "Action": "sqs:SendMessage",
                "Resource": arn,
                # No rule of another account feigns an interruption.
                "Condition": {"ArnEquals": {"aws:SourceArn": list(rules)}},
            },
            {
                "Sid": "DenyHTTP",
                "Effect": "Deny",
                "Principal": "*",
                "Action": "sqs:*",
                "Resource": arn,
                "Condition": {"Bool": {"aws:SecureTransport": "false"}},
            },
        ],
    }
