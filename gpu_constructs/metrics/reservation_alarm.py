"""An alarm of reserved instances that nobody runs, which cost as much as those that run."""

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
# CloudWatch looks back a week at most.
# Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-evaluation.html (2026-11)
_MOST_HOURS = 7 * 24
# A reservation may have no more instances; only a typing error asks for more.
_MOST_INSTANCES = 10_000


@named_arguments
class ReservationAlarm(Construct):
    """A CloudWatch alarm that is raised when instances of a reservation have not run for hours.

    It sees instances and not GPUs: of nodes that run and whose GPUs nobody uses, the alarms of `DcgmExporter` tell.

    Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-reservation-cw-metrics.html (2026-11)

    Args:
        reservation: The reservation, by its id.
        unused_instances: So many instances, or more, must be unused.
        hours: For so long without a break, at most a week.
        topic: SNS topic that is told when it is raised and when it ends. Default: nobody, it is in the console.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The reservation is a group of several, or CloudWatch does not look back so far.

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
                f"{who}: reservation must have an id, got the group {reservation.resource_group_arn!r}; CloudWatch "
                "measures each reservation, so make one alarm for each"
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
            # The least of an hour: none of the instances ran in between.
            statistic="Minimum",
            period=_HOUR,
            evaluation_periods=hours,
            threshold=unused_instances,
            comparison_operator="GreaterThanOrEqualToThreshold",
            # Of a reservation that has ended there is none.
            treat_missing_data="notBreaching",
            alarm_actions=told,
            ok_actions=told,
        )
