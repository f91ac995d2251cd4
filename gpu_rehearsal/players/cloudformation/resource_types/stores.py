"""Keys, logs, alarms, parameters, buckets, file systems, and what the CDK notes of itself.

Source of every type: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_KMS.html, AWS_FSx.html,
AWS_CloudWatch.html, AWS_Logs.html, AWS_S3.html and AWS_SSM.html there (2026-11)
"""

from __future__ import annotations

import json

from gpu_rehearsal.players.cloudformation.account import partition_of
from gpu_rehearsal.players.cloudformation.creation import Creation, Made
from gpu_rehearsal.players.cloudformation.resource_types.network import is_true
from gpu_rehearsal.players.cloudformation.shaping import Shaping


def key(creation: Creation) -> Made:
    """Make a key; its rotation is switched by a call of its own, and a waiting time is of its deletion."""
    rotates = creation.take("EnableKeyRotation", False)
    creation.take("PendingWindowInDays")
    shaping = Shaping(renamed={"KeyPolicy": "Policy"}, documents=frozenset({"KeyPolicy"}))
    found = creation.call("kms", "CreateKey", shaping)["KeyMetadata"]
    creation.physical_id = found["KeyId"]
    if is_true(rotates):
        creation.ask("kms", "EnableKeyRotation", KeyId=found["KeyId"])
    return Made(ref=found["KeyId"], attributes={"Arn": found["Arn"], "KeyId": found["KeyId"]})


def update_key(creation: Creation) -> Made:
    """Change the policy, the description and the rotation of a key."""
    key = creation.physical_id
    if (document := creation.take("KeyPolicy")) is not None:
        creation.ask("kms", "PutKeyPolicy", KeyId=key, PolicyName="default", Policy=json.dumps(document))
    if "Description" in creation.properties:
        creation.ask("kms", "UpdateKeyDescription", KeyId=key, Description=creation.take("Description", ""))
    if "EnableKeyRotation" in creation.properties:
        verb = "Enable" if is_true(creation.take("EnableKeyRotation", False)) else "Disable"
        creation.ask("kms", f"{verb}KeyRotation", KeyId=key)
    creation.properties.pop("PendingWindowInDays", None)
    return creation.retag("kms", key)


def delete_key(creation: Creation) -> None:
    """Schedule the deletion of a key.

    Source: https://docs.aws.amazon.com/kms/latest/APIReference/API_ScheduleKeyDeletion.html (2026-11)
    """
    days = int(creation.old.properties.get("PendingWindowInDays", 30))
    creation.ask("kms", "ScheduleKeyDeletion", KeyId=creation.physical_id, PendingWindowInDays=days)


def alias(creation: Creation) -> Made:
    """Give a key another name."""
    name = creation.properties["AliasName"]
    creation.call("kms", "CreateAlias")
    return Made(ref=name)


def update_alias(creation: Creation) -> Made:
    """Give the name to another key."""
    name, key = creation.physical_id, creation.take("TargetKeyId")
    creation.ask("kms", "UpdateAlias", AliasName=name, TargetKeyId=key)
    return creation.old.made


def log_group(creation: Creation) -> Made:
    """Make a log group, then say how long it keeps."""
    name, days = creation.named("LogGroupName", 512), creation.take("RetentionInDays")
    creation.call("logs", "CreateLogGroup", logGroupName=name)
    creation.physical_id = name
    if days is not None:
        creation.ask("logs", "PutRetentionPolicy", logGroupName=name, retentionInDays=int(days))
    return Made(ref=name, attributes={"Arn": creation.arn("logs", f"log-group:{name}:*")})


def update_log_group(creation: Creation) -> Made:
    """Change how long a log group keeps events."""
    if "RetentionInDays" in creation.properties:
        name, days = creation.physical_id, creation.properties.pop("RetentionInDays")
        if days is None:
            creation.ask("logs", "DeleteRetentionPolicy", logGroupName=name)
        else:
            creation.ask("logs", "PutRetentionPolicy", logGroupName=name, retentionInDays=int(days))
    return creation.retag("logs", creation.arn("logs", f"log-group:{creation.physical_id}"))


def parameter(creation: Creation) -> Made:
    """Store a parameter."""
    kind, value = creation.properties["Type"], creation.properties["Value"]
    name = creation.named("Name", 1011)
    creation.call("ssm", "PutParameter", Name=name)
    return Made(ref=name, attributes={"Type": kind, "Value": value})


def update_parameter(creation: Creation) -> Made:
    """Store another value."""
    new, gone = creation.tags()
    which = {"ResourceType": "Parameter", "ResourceId": creation.physical_id}
    if new:
        creation.ask("ssm", "AddTagsToResource", **which, Tags=new)
    if gone:
        creation.ask("ssm", "RemoveTagsFromResource", **which, TagKeys=gone)
    kind, value = creation.declared["Type"], creation.declared["Value"]
    if creation.properties:
        creation.properties = {key: each for key, each in creation.declared.items() if key not in ("Name", "Tags")}
        creation.call("ssm", "PutParameter", Name=creation.physical_id, Overwrite=True)
    return Made(ref=creation.physical_id, attributes={"Type": kind, "Value": value})


def file_system(creation: Creation) -> Made:
    """Make a file system of FSx; the names by which it is mounted are made up, for nothing is mounted here."""
    found = creation.call("fsx", "CreateFileSystem")["FileSystem"]
    made = found["FileSystemId"]
    names = {"DNSName": f"{made}.fsx.amazonaws.com", "LustreMountName": "played"}
    return Made(ref=made, attributes=names | {"ResourceARN": found["ResourceARN"]})


def bucket(creation: Creation) -> Made:
    """Make a bucket; what it is like is said by calls of its own."""
    name = creation.named("BucketName", 63, lower=True)
    versioning = creation.take("VersioningConfiguration")
    # The only region that is not said.
    if creation.aws.region != "us-east-1":
        creation.properties["CreateBucketConfiguration"] = {"LocationConstraint": creation.aws.region}
    creation.call("s3", "CreateBucket", Bucket=name)
    creation.physical_id = name
    if versioning is not None:
        creation.ask("s3", "PutBucketVersioning", Bucket=name, VersioningConfiguration=versioning)
    return Made(ref=name, attributes={"Arn": f"arn:{partition_of(creation.aws.region)}:s3:::{name}"})


def bucket_policy(creation: Creation) -> Made:
    """Write the policy of a bucket."""
    name, document = creation.take("Bucket"), json.dumps(creation.take("PolicyDocument"))
    creation.call("s3", "PutBucketPolicy", Bucket=name, Policy=document)
    return Made(ref=name)


def alarm(creation: Creation) -> Made:
    """Make an alarm of CloudWatch."""
    name = creation.named("AlarmName", 255)
    creation.call("cloudwatch", "PutMetricAlarm", AlarmName=name)
    return Made(ref=name, attributes={"Arn": creation.arn("cloudwatch", f"alarm:{name}")})


def metadata(creation: Creation) -> Made:
    """Make nothing: the type is a note for AWS."""
    creation.properties = {}
    return Made(ref=creation.name(64))
