"""A key for volumes lets those use it who start nodes."""

from __future__ import annotations

import aws_cdk as cdk
import pytest
from aws_cdk import aws_kms as kms

from gpu_constructs import grant_volume_key
from tests.templates import only, resources_of, text_of

ROLE = "arn:aws:iam::111122223333:role/karpenter"


def test_auto_scaling_and_named_roles_may_encrypt_volumes(stack: cdk.Stack) -> None:
    grant_volume_key(kms.Key(stack, "Key"), role_arns=[ROLE])

    statements = {
        each.get("Sid"): each for each in only(resources_of(stack), "AWS::KMS::Key")["KeyPolicy"]["Statement"]
    }
    for sid in ("UseForVolumes", "AttachVolumes"):
        named = [text_of(arn) for arn in statements[sid]["Principal"]["AWS"]]
        assert named[0].endswith(
            "iam::111122223333:role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
        )
        assert named[1:] == [ROLE]
    assert statements["AttachVolumes"]["Condition"] == {"Bool": {"kms:GrantIsForAWSResource": True}}
    assert statements["AttachVolumes"]["Action"] == "kms:CreateGrant"


def test_refuses_a_key_whose_policy_is_somebody_elses(stack: cdk.Stack) -> None:
    key = kms.Key.from_key_arn(stack, "Key", "arn:aws:kms:us-east-1:111122223333:key/a")

    with pytest.raises(ValueError, match="key must be one made in this app, got the imported 'Test/Key'"):
        grant_volume_key(key)


def test_refuses_a_role_that_is_no_list(stack: cdk.Stack) -> None:
    with pytest.raises(TypeError, match="grant_volume_key: role_arns must be a list of names"):
        grant_volume_key(kms.Key(stack, "Key"), role_arns=ROLE)
