"""A policy statement applies to actions and resources, and Deny overrides Allow."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_rehearsal.aws.policies import (
    AccessRequest,
    Decision,
    Statement,
    UnknownPermission,
    decide,
    decide_for_principal,
    read_statements,
)

RUN = AccessRequest(action="ec2:RunInstances", resource="arn:aws:ec2:us-east-1:123456789012:instance/*")


def policy_statements(*statements: dict[str, Any]) -> list[Statement]:
    return list(read_statements("policy", {"Statement": list(statements)}))


def allow(**elements: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": "*", "Resource": "*"} | elements


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        (allow(Action="ec2:RunInstances"), True),
        (allow(Action="EC2:runinstances"), True),
        (allow(Action="ec2:Run*"), True),
        (allow(Action=["ec2:Describe*", "ec2:Run*"]), True),
        (allow(Action="ec2:Describe*"), False),
        (allow(Resource="arn:aws:ec2:*:*:instance/*"), True),
        (allow(Resource="arn:aws:ec2:*:*:volume/*"), False),
        (allow(Resource="arn:aws:ec2:eu-west-1:*:instance/*"), False),
        ({"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}, True),
        ({"Effect": "Allow", "NotAction": "ec2:*", "Resource": "*"}, False),
        ({"Effect": "Allow", "Action": "*", "NotResource": "arn:aws:s3:::*"}, True),
        ({"Effect": "Allow", "Action": "*", "NotResource": "arn:aws:ec2:*"}, False),
        (allow(Condition={"StringEquals": {"aws:RequestTag/team": "vision"}}), False),
    ],
)
def test_a_statement_allows(statement: dict[str, Any], allowed: bool) -> None:
    assert decide(policy_statements(statement), RUN).allowed is allowed


def test_without_statements_nothing_is_allowed() -> None:
    assert decide([], RUN) == Decision(allowed=False)


def test_a_denying_statement_wins_and_is_named() -> None:
    deny = {"Sid": "NoGpus", "Effect": "Deny", "Action": "ec2:Run*", "Resource": "*"}

    assert decide(policy_statements(allow(), deny), RUN) == Decision(allowed=False, statement="policy#NoGpus")


def test_a_statement_is_named_by_its_number_when_it_has_no_sid() -> None:
    assert decide(policy_statements(allow(Action="iam:*"), allow()), RUN) == Decision(
        allowed=True, statement="policy#1"
    )


def test_an_unknown_element_is_an_error() -> None:
    with pytest.raises(UnknownPermission, match="NotPrincipal of a statement"):
        policy_statements(allow(NotPrincipal={"AWS": "*"}))


def test_an_unknown_condition_is_an_error_only_if_its_statement_applies_to_the_call() -> None:
    unknown = {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}

    assert decide(policy_statements(allow(Action="s3:*", Condition=unknown), allow()), RUN).allowed
    with pytest.raises(UnknownPermission):
        decide(policy_statements(allow(Condition=unknown), allow()), RUN)


@pytest.mark.parametrize(
    ("principals", "kind", "principal", "allowed"),
    [
        ({"Service": "pods.eks.amazonaws.com"}, "Service", "pods.eks.amazonaws.com", True),
        ({"Service": "ec2.amazonaws.com"}, "Service", "pods.eks.amazonaws.com", False),
        ({"AWS": "arn:aws:iam::123456789012:role/a"}, "AWS", "arn:aws:iam::123456789012:role/a", True),
        ({"AWS": "arn:aws:iam::123456789012:role/b"}, "AWS", "arn:aws:iam::123456789012:role/a", False),
        ({"AWS": "arn:aws:iam::123456789012:root"}, "AWS", "arn:aws:iam::123456789012:role/a", True),
        ("*", "Service", "events.amazonaws.com", True),
    ],
)
def test_trust(principals: Any, kind: str, principal: str, allowed: bool) -> None:
    trust = policy_statements({"Effect": "Allow", "Principal": principals, "Action": "sts:AssumeRole"})

    assert (
        decide_for_principal(trust, AccessRequest(action="sts:AssumeRole"), kind=kind, principal=principal).allowed
        is allowed
    )
