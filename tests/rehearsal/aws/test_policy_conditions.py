"""Each condition operator follows IAM's reference, and an unknown operator, key or variable is an error."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_rehearsal.aws.policies import UnknownPermission, holds

CONTEXT = {
    "aws:RequestedRegion": ("us-east-1",),
    "aws:SecureTransport": ("true",),
    "aws:SourceArn": ("arn:aws:events:us-east-1:123456789012:rule/one",),
    "aws:TagKeys": ("Name", "team"),
    "aws:ResourceTag/team": ("vision",),
    "aws:PrincipalTag/team": ("vision",),
}


@pytest.mark.parametrize(
    ("operator", "key", "allowing", "refusing"),
    [
        ("StringEquals", "aws:RequestedRegion", "us-east-1", "US-EAST-1"),
        ("StringEquals", "aws:RequestedRegion", ["eu-west-1", "us-east-1"], ["eu-west-1"]),
        ("StringEquals", "AWS:REQUESTEDREGION", "us-east-1", "eu-west-1"),
        ("StringEquals", "aws:ResourceTag/team", "${aws:PrincipalTag/team}", "${aws:RequestedRegion}"),
        ("StringNotEquals", "aws:RequestedRegion", "eu-west-1", "us-east-1"),
        ("StringNotEquals", "aws:RequestTag/absent", "eu-west-1", None),
        ("StringEqualsIgnoreCase", "aws:RequestedRegion", "US-EAST-1", "EU-WEST-1"),
        ("StringNotEqualsIgnoreCase", "aws:RequestedRegion", "EU-WEST-1", "US-EAST-1"),
        ("StringLike", "aws:RequestedRegion", "us-*-?", "us-*-??"),
        ("StringNotLike", "aws:RequestedRegion", "eu-*", "us-*"),
        ("StringEqualsIfExists", "aws:RequestedRegion", "us-east-1", "eu-west-1"),
        ("StringEqualsIfExists", "aws:RequestTag/absent", "anything", None),
        ("StringLike", "aws:RequestTag/absent", None, "*"),
        ("ArnLike", "aws:SourceArn", "arn:aws:events:*:*:rule/*", "arn:aws:events:*:*:bus/*"),
        ("ArnEquals", "aws:SourceArn", "arn:aws:events:us-east-1:123456789012:rule/*", "arn:*"),
        ("ArnNotLike", "aws:SourceArn", "arn:aws:sqs:*:*:*", "arn:aws:events:*:*:*"),
        ("ArnNotEquals", "aws:SourceArn", "arn:aws:sqs:*:*:*", "arn:aws:events:*:*:*"),
        ("Bool", "aws:SecureTransport", "true", "false"),
        ("Bool", "aws:SecureTransport", True, False),
        ("Null", "aws:RequestTag/absent", "true", "false"),
        ("Null", "aws:RequestedRegion", False, True),
        ("ForAllValues:StringEquals", "aws:TagKeys", ["Name", "team", "more"], ["Name"]),
        ("ForAllValues:StringEquals", "aws:RequestTag/absent", "anything", None),
        ("ForAnyValue:StringEquals", "aws:TagKeys", ["team"], ["other"]),
        ("ForAnyValue:StringLike", "aws:RequestTag/absent", None, "*"),
    ],
)
def test_operator(operator: str, key: str, allowing: Any, refusing: Any) -> None:
    if allowing is not None:
        assert holds({operator: {key: allowing}}, CONTEXT)
    if refusing is not None:
        assert not holds({operator: {key: refusing}}, CONTEXT)


def test_every_operator_and_every_key_must_hold() -> None:
    region = {"aws:RequestedRegion": "us-east-1"}

    assert holds({"StringEquals": region, "Bool": {"aws:SecureTransport": "true"}}, CONTEXT)
    assert not holds({"StringEquals": region, "Bool": {"aws:SecureTransport": "false"}}, CONTEXT)
    assert not holds({"StringEquals": region | {"aws:ResourceTag/team": "speech"}}, CONTEXT)


@pytest.mark.parametrize(
    ("condition", "what"),
    [
        ({"IpAddress": {"aws:RequestedRegion": "10.0.0.0/8"}}, "the condition operator IpAddress"),
        ({"StringEquals": {"ec2:InstanceType": "p5.48xlarge"}}, "the condition key ec2:InstanceType"),
        ({"StringEquals": {"aws:RequestedRegion": "${aws:username}"}}, "the policy variable"),
        ({"StringEquals": {"aws:TagKeys": "Name"}}, "the operator StringEquals for 2 values"),
    ],
)
def test_an_unknown_operator_key_or_variable_is_an_error(condition: dict[str, Any], what: str) -> None:
    with pytest.raises(UnknownPermission, match=what):
        holds(condition, CONTEXT)


def test_an_unknown_operator_is_an_error_even_if_another_one_does_not_hold() -> None:
    condition = {"Bool": {"aws:SecureTransport": "false"}, "IpAddress": {"aws:RequestedRegion": "10.0.0.0/8"}}

    with pytest.raises(UnknownPermission, match="IpAddress"):
        holds(condition, CONTEXT)
