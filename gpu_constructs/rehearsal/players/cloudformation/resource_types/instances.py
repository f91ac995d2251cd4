"""Launch templates, placement groups and Auto Scaling groups.

Source of every type: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_EC2.html and
AWS_AutoScaling.html there (2026-11)
"""

from __future__ import annotations

from gpu_constructs.rehearsal.players.cloudformation.creation import AS_NAMED, Creation, Made
from gpu_constructs.rehearsal.players.cloudformation.shaping import Shaping


def launch_template(creation: Creation) -> Made:
    """Make a launch template."""
    name = creation.named("LaunchTemplateName", 128)
    found = creation.call("ec2", "CreateLaunchTemplate", LaunchTemplateName=name)["LaunchTemplate"]
    return Made(
        ref=found["LaunchTemplateId"],
        attributes={
            "LaunchTemplateId": found["LaunchTemplateId"],
            "LatestVersionNumber": str(found["LatestVersionNumber"]),
            "DefaultVersionNumber": str(found["DefaultVersionNumber"]),
        },
    )


def placement_group(creation: Creation) -> Made:
    """Make a placement group; its name is always made up."""
    name = creation.name(255)
    creation.call("ec2", "CreatePlacementGroup", Shaping(tagged="placement-group"), GroupName=name)
    return Made(ref=name, attributes={"GroupName": name})


def auto_scaling_group(creation: Creation) -> Made:
    """Make an Auto Scaling group; its subnets are one text."""
    name = creation.named("AutoScalingGroupName", 255)
    subnets = {"VPCZoneIdentifier": ",".join(said)} if (said := creation.take("VPCZoneIdentifier")) else {}
    creation.call("autoscaling", "CreateAutoScalingGroup", AS_NAMED, AutoScalingGroupName=name, **subnets)
    return Made(ref=name)


def scheduled_action(creation: Creation) -> Made:
    """Have an Auto Scaling group change its size at a moment."""
    name = creation.name(255)
    creation.call("autoscaling", "PutScheduledUpdateGroupAction", ScheduledActionName=name)
    return Made(ref=name, attributes={"ScheduledActionName": name})
