"""CloudWatch alarms on reserved instances that aren't running."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_sns as sns

from gpu_constructs import Reservation
from gpu_constructs.metrics import ReservationAlarm
from tests.templates import only, resources_of

RESERVATION = Reservation(id="cr-0123456789abcdef0", availability_zone="us-east-1a")
GROUP = "arn:aws:resource-groups:us-east-1:111122223333:group/gpus"


def alarm(stack: cdk.Stack, **changes: Any) -> ReservationAlarm:
    says: dict[str, Any] = {"reservation": RESERVATION}
    return ReservationAlarm(stack, "Unused", **says | changes)


def test_it_watches_the_instances_that_are_not_running(stack: cdk.Stack) -> None:
    alarm(stack, unused_instances=2, hours=6)

    found = only(resources_of(stack), "AWS::CloudWatch::Alarm")
    assert (found["Namespace"], found["MetricName"]) == ("AWS/EC2CapacityReservations", "AvailableInstanceCount")
    assert found["Dimensions"] == [{"Name": "CapacityReservationId", "Value": "cr-0123456789abcdef0"}]
    assert (found["Statistic"], found["Threshold"]) == ("Minimum", 2)
    assert found["Period"] * found["EvaluationPeriods"] == 6 * 3600
    assert not {"AlarmActions", "OKActions"} & found.keys()


def test_a_topic_gets_a_message_at_start_and_end(stack: cdk.Stack) -> None:
    topic = sns.Topic(stack, "Topic")
    alarm(stack, topic=topic)

    found = only(resources_of(stack), "AWS::CloudWatch::Alarm")
    assert found["AlarmActions"] == found["OKActions"] == [stack.resolve(topic.topic_arn)]


@pytest.mark.parametrize("hours", [1, 168])
def test_a_week_is_the_most(stack: cdk.Stack, hours: int) -> None:
    alarm(stack, hours=hours)

    assert only(resources_of(stack), "AWS::CloudWatch::Alarm")["EvaluationPeriods"] == hours


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"reservation": "cr-0123456789abcdef0"}, TypeError, r"reservation must be Reservation\(\.\.\.\), got 'cr-"),
        (
            {"reservation": Reservation(resource_group_arn=GROUP, availability_zone="us-east-1a")},
            ValueError,
            "reservation must have an id, got the group .* one alarm for each",
        ),
        ({"unused_instances": 0}, ValueError, "unused_instances must be"),
        ({"hours": 0}, ValueError, "hours must be"),
        ({"hours": 169}, ValueError, "hours must be"),
        ({"topic": "arn:aws:sns:us-east-1:111122223333:gpus"}, TypeError, "topic must be an sns.ITopic"),
    ],
)
def test_refuses(stack: cdk.Stack, changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"Test/Unused: {message}"):
        alarm(stack, **changes)

    assert stack.node.find_child("Unused").node.children == []
