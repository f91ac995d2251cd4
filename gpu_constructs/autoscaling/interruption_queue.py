"""The queue through which EC2 tells Karpenter that it will take an instance away."""

from __future__ import annotations

from aws_cdk import aws_events as events
from aws_cdk import aws_sqs as sqs
from constructs import Construct

# Source: cloudformation.yaml of karpenter-provider-aws v1.14.1 (see karpenter_policies.py).
RULES = {
    "ScheduledChange": ("aws.health", "AWS Health Event"),
    "SpotInterruption": ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
    "Rebalance": ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
    "InstanceStateChange": ("aws.ec2", "EC2 Instance State-change Notification"),
    "CapacityReservationInterruption": ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
}
_RETENTION_SECONDS = 300


class InterruptionQueue(Construct):
    """An encrypted queue that takes messages over TLS only, and the rules that fill it."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        self.queue = sqs.CfnQueue(
            self, "Resource", message_retention_period=_RETENTION_SECONDS, sqs_managed_sse_enabled=True
        )
        self.arn: str = self.queue.attr_arn
        self.policy = sqs.CfnQueuePolicy(self, "Policy", queues=[self.queue.ref], policy_document=_policy(self.arn))
        for name, (source, detail_type) in RULES.items():
            events.CfnRule(
                self,
                name,
                event_pattern={"source": [source], "detail-type": [detail_type]},
                targets=[{"id": "KarpenterInterruptionQueueTarget", "arn": self.arn}],
            )

    @property
    def name(self) -> str:
        """Name of the queue, known at deployment."""
        return self.queue.attr_queue_name


def _policy(arn: str) -> dict[str, object]:
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "EC2InterruptionPolicy",
                "Effect": "Allow",
                "Principal": {"Service": ["events.amazonaws.com", "sqs.amazonaws.com"]},
                "Action": "sqs:SendMessage",
                "Resource": arn,
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
