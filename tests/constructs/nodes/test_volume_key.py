"""A key for volumes lets those use it who start nodes."""

from __future__ import annotations

from typing import Any, cast

import aws_cdk as cdk
import pytest
from aws_cdk import aws_kms as kms
from constructs import Construct

from gpu_constructs import Disk, ManagedNodeGroup, NodeShape
from gpu_constructs.cluster import grant_volume_key
from tests.clusters import imported_cluster, imported_vpc
from tests.templates import only, resources_of, text_of


def test_whatever_starts_nodes_may_encrypt_volumes(stack: cdk.Stack) -> None:
    grant_volume_key(kms.Key(stack, "Key"))

    statements = {
        each.get("Sid"): each for each in only(resources_of(stack), "AWS::KMS::Key")["KeyPolicy"]["Statement"]
    }
    for sid in ("AutoScalingUses", "AutoScalingAttaches"):
        assert text_of(statements[sid]["Principal"]["AWS"]).endswith(
            "iam::111122223333:role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
        )
    assert statements["AutoScalingAttaches"]["Condition"] == {"Bool": {"kms:GrantIsForAWSResource": True}}
    assert statements["AutoScalingAttaches"]["Action"] == "kms:CreateGrant"
    # Any principal, but only within the account and through EC2.
    everybody = statements["AccountUsesThroughEc2"]
    assert everybody["Principal"] == {"AWS": "*"}
    assert everybody["Condition"] == {
        "StringEquals": {"kms:CallerAccount": "111122223333", "kms:ViaService": "ec2.us-east-1.amazonaws.com"}
    }


@pytest.mark.parametrize("region", ["cn-north-1", None])
def test_in_china_ec2_may_have_either_name(region: str | None) -> None:
    stack = cdk.Stack(cdk.App(), "Test", env=cdk.Environment(region=region))
    grant_volume_key(kms.Key(stack, "Key"))

    [everybody] = [
        each
        for each in only(resources_of(stack), "AWS::KMS::Key")["KeyPolicy"]["Statement"]
        if each.get("Sid") == "AccountUsesThroughEc2"
    ]
    where = region or "${AWS::Region}"
    told = [text_of(each) for each in everybody["Condition"]["StringEquals"]["kms:ViaService"]]
    assert told == [f"ec2.{where}.amazonaws.com", f"ec2.{where}.amazonaws.com.cn"]


def test_a_key_may_have_a_stack_of_its_own(stack: cdk.Stack) -> None:
    keys = cdk.Stack(
        cast("Construct", stack.node.root), "Keys", env=cdk.Environment(account="111122223333", region="us-east-1")
    )
    key = kms.Key(keys, "Key")
    grant_volume_key(key)
    disk = Disk(kms_key_arn=key.key_arn)
    ManagedNodeGroup(
        stack,
        "Nodes",
        cluster=imported_cluster(stack, imported_vpc(stack)),
        name="l4",
        shape=NodeShape(instance_types=("g6.xlarge",), disk=disk),
        max_nodes=1,
    )

    assert "KmsKeyId" in str(resources_of(stack))


def test_refuses_an_imported_key(stack: cdk.Stack) -> None:
    key = kms.Key.from_key_arn(stack, "Key", "arn:aws:kms:us-east-1:111122223333:key/a")

    with pytest.raises(ValueError, match="key must be created in this app, got the imported 'Test/Key'"):
        grant_volume_key(key)


@pytest.mark.parametrize("key", ["arn:aws:kms:us-east-1:111122223333:key/a", None])
def test_refuses_what_is_no_key(key: Any) -> None:
    with pytest.raises(TypeError, match=r"grant_volume_key: key must be a kms.IKey, got .*; pass the construct"):
        grant_volume_key(key)
