"""What DescribeAutoScalingGroups tells of a group.

Source: https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_AutoScalingGroup.html
"""

from __future__ import annotations

from typing import Any

from gpu_constructs.rehearsal.players.aws.scaling.group import Group, Member


def told(group: Group) -> dict[str, Any]:
    """Return a group as the API has it."""
    template = {"MixedInstancesPolicy": group.policy} if group.policy else {"LaunchTemplate": group.template}
    return {
        "AutoScalingGroupName": group.name,
        "AutoScalingGroupARN": group.arn,
        "MinSize": group.minimum,
        "MaxSize": group.maximum,
        "DesiredCapacity": group.desired,
        "DefaultCooldown": 300,
        "AvailabilityZones": list(group.subnets),
        "VPCZoneIdentifier": ",".join(group.subnets.values()),
        "HealthCheckType": "EC2",
        "HealthCheckGracePeriod": 15,
        "CreatedTime": group.created,
        "Instances": [_member(member) for member in group.members],
        "SuspendedProcesses": [],
        "Tags": group.tags,
        "TerminationPolicies": ["Default"],
    } | template


def _member(member: Member) -> dict[str, Any]:
    return {
        "InstanceId": member.id,
        "InstanceType": member.instance_type,
        "AvailabilityZone": member.zone,
        "LifecycleState": "InService",
        "HealthStatus": "Healthy",
        "LaunchTemplate": member.template,
        "ProtectedFromScaleIn": False,
    }
