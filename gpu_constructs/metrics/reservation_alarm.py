"""An alarm for reserved instances that aren't running, which cost as much as running ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from gpu_constructs.installing.registry import PathOf
from gpu_constructs.pools.capacity import Reservation
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_instance, refuse_unless_whole_number

if TYPE_CHECKING:
    from aws_cdk import aws_sns as sns

_HOUR = 3600
# Max period that CloudWatch evaluates: a week.
# Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-evaluation.html (2026-11)
_MOST_HOURS = 7 * 24
# More is a typo, because a reservation can't have more instances.
_MOST_INSTANCES = 10_000


@named_arguments
class ReservationAlarm(Construct):
    """A CloudWatch alarm for instances of a reservation that haven't run for hours.

    It measures instances, not GPUs. For running nodes with idle GPUs, use the alarms of `DcgmExporter`.

    Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-reservation-cw-metrics.html (2026-11)

    Args:
        reservation: The reservation, with its id.
        unused_instances: Min number of unused instances.
        hours: Time for which they must be unused without interruption, at most a week.
        topic: SNS topic for notifications when the alarm starts and ends. Default: none, and the alarm is only in the
            console.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The reservation is a group of several, or ``hours`` is longer than CloudWatch evaluates.

    Attributes:
        resource: The alarm.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        reservation: Reservation,
        unused_instances: int = 1,
        hours: int = 4,
        topic: sns.ITopic | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        refuse_unless_instance(who, "reservation", reservation, Reservation, "Reservation(...)")
        if reservation.id is None:
            raise ValueError(
                f"{who}: reservation must have an id, got the group {reservation.resource_group_arn!r}; create one "
                "alarm for each reservation, because CloudWatch measures each"
            )
        refuse_unless_whole_number(who, "unused_instances", unused_instances, least=1, most=_MOST_INSTANCES)
        refuse_unless_whole_number(who, "hours", hours, least=1, most=_MOST_HOURS)
        if topic is not None and not hasattr(topic, "topic_arn"):
            raise TypeError(f"{who}: topic must be an sns.ITopic, got {topic!r}; import one with Topic.from_topic_arn")

        told = [topic.topic_arn] if topic is not None else None
        self.resource = cloudwatch.CfnAlarm(
            self,
            "Resource",
            alarm_description=f"{unused_instances} or more reserved instances have not run for {hours} hours",
            namespace="AWS/EC2CapacityReservations",
            metric_name="AvailableInstanceCount",
            dimensions=[
                cloudwatch.CfnAlarm.DimensionProperty(name="CapacityReservationId", value=reservation.id),
            ],
            # The minimum of an hour: the instances didn't run at any time in it.
            statistic="Minimum",
            period=_HOUR,
            evaluation_periods=hours,
            threshold=unused_instances,
            comparison_operator="GreaterThanOrEqualToThreshold",
            # A reservation that has ended has no data.
            treat_missing_data="notBreaching",
            alarm_actions=told,
            ok_actions=told,
        )
