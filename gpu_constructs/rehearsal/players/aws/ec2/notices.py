"""Notices of EC2 about instances, on the way that a stack laid for them: rules of EventBridge to a queue.

Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any
from uuid import uuid4

from moto.events.models import events_backends

from gpu_constructs.rehearsal.players.aws.calls import Call
from gpu_constructs.rehearsal.players.aws.permissions.conditions import Unjudged
from gpu_constructs.rehearsal.players.aws.permissions.evaluation import Question
from gpu_constructs.rehearsal.players.aws.permissions.statements import read_statements
from gpu_constructs.rehearsal.players.aws.permissions.trust import lets_in
from gpu_constructs.rehearsal.players.aws.region import Region

STATE = "EC2 Instance State-change Notification"
INTERRUPTION = "EC2 Spot Instance Interruption Warning"
REBALANCE = "EC2 Instance Rebalance Recommendation"
_SENDER = "events.amazonaws.com"


class Notices:
    """The default event bus of a region.

    Args:
        region: Where it is.
        write: Writes a call down.
    """

    def __init__(self, region: Region, write: Callable[[Call], None]) -> None:
        self._region, self._write = region, write

    def tell(self, what: str, instance: str, detail: Mapping[str, str]) -> None:
        """Tell of an instance whoever has a rule for it.

        Args:
            what: Kind of the notice.
            instance: Id of the instance.
            detail: What is told besides its id.
        """
        event: Any = {
            "version": "0",
            "id": str(uuid4()),
            "detail-type": what,
            "source": "aws.ec2",
            "account": self._region.account,
            "time": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": self._region.name,
            "resources": [f"arn:aws:ec2:{self._region.name}:{self._region.account}:instance/{instance}"],
            "detail": {"instance-id": instance, **detail},
        }
        bus = events_backends[self._region.account][self._region.name].describe_event_bus("default")
        for rule in list(bus.rules.values()):
            if rule.state == "ENABLED" and rule.event_pattern.matches_event(event):
                for target in rule.targets:
                    self._send(rule.arn, str(target["Arn"]), event)

    def _send(self, rule: str, target: str, event: Mapping[str, Any]) -> None:
        """Send an event to a queue whose policy lets EventBridge."""
        call = Call(principal=_SENDER, service="sqs", action="sqs:SendMessage", resources=(target,))
        try:
            self._write(self._sent(call, rule, target, event))
        except Unjudged as error:
            self._write(call.refused("NotPlayed", str(error)))

    def _sent(self, call: Call, rule: str, target: str, event: Mapping[str, Any]) -> Call:
        if target.split(":")[2] != "sqs":
            raise Unjudged(f"a rule that sends to {target}")
        sqs = self._region.service("sqs")
        url = sqs.get_queue_url(QueueName=target.rpartition(":")[2])["QueueUrl"]
        told = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"]).get("Attributes", {})
        said = read_statements(f"{target}/policy", json.loads(told.get("Policy") or "{}"))
        context = {
            "aws:SourceArn": (rule,),
            "aws:SourceAccount": (self._region.account,),
            "aws:SecureTransport": ("true",),
        }
        question = Question(action=call.action, resource=target, context=context)
        decision = lets_in(said, question, kind="Service", principal=_SENDER)
        if not decision.allowed:
            return call.refused("AccessDenied", f"the policy of {target} does not let {rule} send")
        sqs.send_message(QueueUrl=url, MessageBody=json.dumps(event))
        return call.allowed_by(decision.statement)
