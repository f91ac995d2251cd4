"""Launch templates, placement groups, Auto Scaling groups, queues, event rules, schedules, and IAM roles and policies.

Source of every type: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_EC2.html and
AWS_AutoScaling.html, AWS_SQS.html, AWS_Events.html, AWS_Scheduler.html, AWS_IAM.html there (2026-11)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpu_rehearsal.cloudformation.changes import SAME_NAMES, Created, Creation
from gpu_rehearsal.cloudformation.intrinsics import Shaping, as_text

_QUEUE = Shaping(documents=frozenset({"Attributes.RedriveAllowPolicy", "Attributes.RedrivePolicy"}))
_POLICY = Shaping(documents=frozenset({"PolicyDocument"}))
# Source: https://docs.aws.amazon.com/IAM/latest/APIReference/API_UpdateRole.html (2026-11)
_DEFAULTS: dict[str, Any] = {"Description": "", "MaxSessionDuration": 3600}


def launch_template(creation: Creation) -> Created:
    """Create a launch template."""
    name = creation.named("LaunchTemplateName", 128)
    found = creation.call("ec2", "CreateLaunchTemplate", LaunchTemplateName=name)["LaunchTemplate"]
    return Created(
        ref=found["LaunchTemplateId"],
        attributes={
            "LaunchTemplateId": found["LaunchTemplateId"],
            "LatestVersionNumber": str(found["LatestVersionNumber"]),
            "DefaultVersionNumber": str(found["DefaultVersionNumber"]),
        },
    )


def placement_group(creation: Creation) -> Created:
    """Create a placement group. Its name is always generated."""
    name = creation.name(255)
    creation.call("ec2", "CreatePlacementGroup", Shaping(tagged="placement-group"), GroupName=name)
    return Created(ref=name, attributes={"GroupName": name})


def auto_scaling_group(creation: Creation) -> Created:
    """Create an Auto Scaling group. The API has its subnets as one text."""
    name = creation.named("AutoScalingGroupName", 255)
    subnets = {"VPCZoneIdentifier": ",".join(ids)} if (ids := creation.take("VPCZoneIdentifier")) else {}
    creation.call("autoscaling", "CreateAutoScalingGroup", SAME_NAMES, AutoScalingGroupName=name, **subnets)
    return Created(ref=name)


def update_launch_template(creation: Creation) -> Created:
    """Create a version of a launch template. Its default version stays, as in CloudFormation."""
    template = creation.physical_id
    if "TagSpecifications" in creation.properties:
        old, new = (_template_tags(each) for each in (creation.old.properties, creation.declared))
        creation.properties.pop("TagSpecifications")
        # DeleteTags without tags would delete all.
        if gone := [each for each in old if each not in new]:
            creation.send("ec2", "DeleteTags", Resources=[template], Tags=gone)
        if new:
            creation.send("ec2", "CreateTags", Resources=[template], Tags=new)
    if "LaunchTemplateData" not in creation.properties:
        return creation.old.physical
    data = creation.take("LaunchTemplateData")
    shaped = creation.shaped("ec2", "CreateLaunchTemplateVersion", {"LaunchTemplateData": data})
    found = creation.send("ec2", "CreateLaunchTemplateVersion", LaunchTemplateId=template, **shaped)
    version = str(found["LaunchTemplateVersion"]["VersionNumber"])
    return Created(ref=template, attributes={**creation.old.physical.attributes, "LatestVersionNumber": version})


def update_auto_scaling_group(creation: Creation) -> Created:
    """Change an Auto Scaling group. Its instances stay; new ones have the new settings."""
    name = creation.physical_id
    subnets = {"VPCZoneIdentifier": ",".join(new)} if (new := creation.take("VPCZoneIdentifier")) else {}
    if "Tags" in creation.properties:
        new, gone = creation.tags()
        group_key = {"ResourceId": name, "ResourceType": "auto-scaling-group"}
        if gone:
            creation.send("autoscaling", "DeleteTags", Tags=[{"Key": each, **group_key} for each in gone])
        if new:
            tags = creation.shaped("autoscaling", "CreateOrUpdateTags", {"Tags": [each | group_key for each in new]})
            creation.send("autoscaling", "CreateOrUpdateTags", **tags)
    if creation.properties or subnets:
        creation.call("autoscaling", "UpdateAutoScalingGroup", SAME_NAMES, AutoScalingGroupName=name, **subnets)
    return creation.old.physical


def _template_tags(properties: Mapping[str, Any]) -> list[dict[str, str]]:
    return [tag for each in properties.get("TagSpecifications", []) for tag in each["Tags"]]


def queue(creation: Creation) -> Created:
    """Create a queue. All properties except name and tags are attributes, as texts."""
    name = creation.named("QueueName", 80)
    tags = {each["Key"]: as_text(each["Value"]) for each in creation.take("Tags", [])}
    creation.properties = {"Attributes": creation.properties}
    url = creation.call("sqs", "CreateQueue", _QUEUE, QueueName=name, tags=tags)["QueueUrl"]
    attributes = creation.send("sqs", "GetQueueAttributes", QueueUrl=url, AttributeNames=["QueueArn"])
    return Created(
        ref=url, attributes={"Arn": attributes["Attributes"]["QueueArn"], "QueueName": name, "QueueUrl": url}
    )


def update_queue(creation: Creation) -> Created:
    """Change the attributes and tags of a queue."""
    new, gone = creation.tags()
    if gone:
        creation.send("sqs", "UntagQueue", QueueUrl=creation.physical_id, TagKeys=gone)
    if new:
        tags = {each["Key"]: each["Value"] for each in new}
        creation.send("sqs", "TagQueue", QueueUrl=creation.physical_id, Tags=tags)
    if attributes := {name: creation.take(name) for name in [*creation.properties]}:
        creation.properties = {"Attributes": attributes}
        creation.call("sqs", "SetQueueAttributes", _QUEUE, QueueUrl=creation.physical_id)
    return creation.old.physical


def queue_policy(creation: Creation) -> Created:
    """Set the policy of queues."""
    document = json.dumps(creation.take("PolicyDocument"))
    for url in creation.take("Queues"):
        creation.send("sqs", "SetQueueAttributes", QueueUrl=url, Attributes={"Policy": document})
    return Created(ref=creation.name(80))


def delete_queue_policy(creation: Creation) -> None:
    """Delete the policy of queues."""
    for url in creation.old.properties["Queues"]:
        creation.send("sqs", "SetQueueAttributes", QueueUrl=url, Attributes={"Policy": ""})


def rule(creation: Creation) -> Created:
    """Create a rule, then its targets."""
    targets = creation.take("Targets", [])
    name = creation.named("Name", 64)
    arn = creation.call("events", "PutRule", Shaping(documents=frozenset({"EventPattern"})), Name=name)["RuleArn"]
    creation.physical_id = name
    if targets:
        answer = creation.send(
            "events", "PutTargets", **creation.shaped("events", "PutTargets", _targets(name, targets))
        )
        for failure in answer["FailedEntries"]:
            creation.fail(failure["ErrorMessage"])
    return Created(ref=name, attributes={"Arn": arn})


def update_rule(creation: Creation) -> Created:
    """Overwrite a rule, and remove targets."""
    kept = {each["Id"] for each in creation.declared.get("Targets", [])}
    gone = [each["Id"] for each in creation.old.properties.get("Targets", []) if each["Id"] not in kept]
    if gone:
        creation.send("events", "RemoveTargets", Rule=creation.physical_id, Ids=gone)
    physical = creation.retag("events", creation.value("Arn"))
    if creation.properties:
        declared = {key: each for key, each in creation.declared.items() if key != "Tags"}
        creation.properties = {**declared, "Name": creation.physical_id}
        physical = rule(creation)
    return physical


def delete_rule(creation: Creation) -> None:
    """Delete a rule and its targets."""
    if targets := [each["Id"] for each in creation.old.properties.get("Targets", [])]:
        creation.send("events", "RemoveTargets", Rule=creation.physical_id, Ids=targets)
    creation.send("events", "DeleteRule", Name=creation.physical_id)


def schedule(creation: Creation) -> Created:
    """Create a schedule."""
    name = creation.named("Name", 64)
    arn = creation.call("scheduler", "CreateSchedule", Name=name)["ScheduleArn"]
    return Created(ref=name, attributes={"Arn": arn})


def update_schedule(creation: Creation) -> Created:
    """Overwrite a schedule."""
    creation.properties = dict(creation.declared)
    creation.take("Name")
    creation.call("scheduler", "UpdateSchedule", Name=creation.physical_id)
    return creation.old.physical


def _targets(rule_name: str, targets: list[dict[str, object]]) -> dict[str, object]:
    return {"Rule": rule_name, "Targets": targets}


def role(creation: Creation) -> Created:
    """Create a role, then attach managed policies and create inline policies."""
    managed, own = creation.take("ManagedPolicyArns", []), creation.take("Policies", [])
    name = creation.named("RoleName", 64)
    shaping = Shaping(documents=frozenset({"AssumeRolePolicyDocument"}))
    found = creation.call("iam", "CreateRole", shaping, RoleName=name)["Role"]
    creation.physical_id = name
    _attach(creation, name, managed, [])
    _write_all(creation, name, own, [])
    return Created(ref=name, attributes={"Arn": found["Arn"], "RoleId": found["RoleId"]})


def update_role(creation: Creation) -> Created:
    """Change trust policy, policies and tags of a role."""
    name = creation.physical_id
    if (document := creation.take("AssumeRolePolicyDocument")) is not None:
        creation.send("iam", "UpdateAssumeRolePolicy", RoleName=name, PolicyDocument=json.dumps(document))
    for key, default in _DEFAULTS.items():
        if key in creation.properties:
            creation.send("iam", "UpdateRole", RoleName=name, **{key: creation.take(key, default)})
    _attach(creation, name, *creation.items("ManagedPolicyArns"))
    _write_all(creation, name, *creation.items("Policies"))
    if "Tags" in creation.properties:
        new, gone = creation.tags()
        creation.send("iam", "UntagRole", RoleName=name, TagKeys=gone)
        creation.send("iam", "TagRole", RoleName=name, Tags=new)
    return creation.old.physical


def delete_role(creation: Creation) -> None:
    """Delete a role and the policies of the template. IAM rejects it while the role has others."""
    name, old = creation.physical_id, creation.old.properties
    _attach(creation, name, [], old.get("ManagedPolicyArns", []))
    _write_all(creation, name, [], old.get("Policies", []))
    creation.send("iam", "DeleteRole", RoleName=name)


def policy(creation: Creation) -> Created:
    """Create an inline policy of roles. Policies of users and groups aren't simulated."""
    name, document = creation.take("PolicyName"), creation.take("PolicyDocument")
    for each in creation.take("Roles", []):
        _write(creation, each, name, document)
    return Created(ref=creation.name(64))


def update_policy(creation: Creation) -> Created:
    """Overwrite the inline policy of its roles, and delete it from removed roles."""
    old, new = creation.old.properties, creation.declared
    for each in new.get("Roles", []):
        _write(creation, each, new["PolicyName"], new["PolicyDocument"])
    for each in old.get("Roles", []):
        if each not in new.get("Roles", []) or old["PolicyName"] != new["PolicyName"]:
            creation.send("iam", "DeleteRolePolicy", RoleName=each, PolicyName=old["PolicyName"])
    for name in ("PolicyName", "PolicyDocument", "Roles"):
        creation.properties.pop(name, None)
    return creation.old.physical


def delete_policy(creation: Creation) -> None:
    """Delete a policy from its roles."""
    for each in creation.old.properties.get("Roles", []):
        creation.send("iam", "DeleteRolePolicy", RoleName=each, PolicyName=creation.old.properties["PolicyName"])


def role_policy(creation: Creation) -> Created:
    """Create an inline policy of one role."""
    role_name, name = creation.properties["RoleName"], creation.properties["PolicyName"]
    creation.call("iam", "PutRolePolicy", _POLICY)
    return Created(ref=f"{name}|{role_name}")


def managed_policy(creation: Creation) -> Created:
    """Create a managed policy and attach it to roles."""
    roles = creation.take("Roles", [])
    name = creation.named("ManagedPolicyName", 128)
    arn = creation.call("iam", "CreatePolicy", _POLICY, PolicyName=name)["Policy"]["Arn"]
    creation.physical_id = arn
    for each in roles:
        _attach(creation, each, [arn], [])
    return Created(ref=arn, attributes={"PolicyArn": arn})


def update_managed_policy(creation: Creation) -> Created:
    """Create a default version of a managed policy, and delete the old version."""
    arn = creation.physical_id
    if (document := creation.take("PolicyDocument")) is not None:
        old = creation.send("iam", "GetPolicy", PolicyArn=arn)["Policy"]["DefaultVersionId"]
        creation.send(
            "iam", "CreatePolicyVersion", PolicyArn=arn, PolicyDocument=json.dumps(document), SetAsDefault=True
        )
        creation.send("iam", "DeletePolicyVersion", PolicyArn=arn, VersionId=old)
    new, gone = creation.items("Roles")
    for each in new:
        _attach(creation, each, [arn], [])
    for each in gone:
        _attach(creation, each, [], [arn])
    return creation.old.physical


def delete_managed_policy(creation: Creation) -> None:
    """Detach a managed policy from its roles and delete it."""
    for each in creation.old.properties.get("Roles", []):
        _attach(creation, each, [], [creation.physical_id])
    creation.send("iam", "DeletePolicy", PolicyArn=creation.physical_id)


def instance_profile(creation: Creation) -> Created:
    """Create an instance profile and add its role."""
    [role_name] = creation.take("Roles")
    name = creation.named("InstanceProfileName", 128)
    arn = creation.call("iam", "CreateInstanceProfile", InstanceProfileName=name)["InstanceProfile"]["Arn"]
    creation.send("iam", "AddRoleToInstanceProfile", InstanceProfileName=name, RoleName=role_name)
    return Created(ref=name, attributes={"Arn": arn})


def delete_instance_profile(creation: Creation) -> None:
    """Remove the role from an instance profile, and delete the profile."""
    name, [role_name] = creation.physical_id, creation.old.properties["Roles"]
    creation.send("iam", "RemoveRoleFromInstanceProfile", InstanceProfileName=name, RoleName=role_name)
    creation.send("iam", "DeleteInstanceProfile", InstanceProfileName=name)


def _attach(creation: Creation, role: str, new: list[str], gone: list[str]) -> None:
    for arn in new:
        creation.send("iam", "AttachRolePolicy", RoleName=role, PolicyArn=arn)
    for arn in gone:
        creation.send("iam", "DetachRolePolicy", RoleName=role, PolicyArn=arn)


def _write_all(creation: Creation, role: str, new: list[dict[str, Any]], gone: list[dict[str, Any]]) -> None:
    for each in gone:
        creation.send("iam", "DeleteRolePolicy", RoleName=role, PolicyName=each["PolicyName"])
    for each in new:
        _write(creation, role, each["PolicyName"], each["PolicyDocument"])


def _write(creation: Creation, role_name: str, name: str, document: Any) -> None:
    creation.send("iam", "PutRolePolicy", RoleName=role_name, PolicyName=name, PolicyDocument=json.dumps(document))
