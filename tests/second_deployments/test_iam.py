"""The page of IAM permissions has the statements of the templates."""

from __future__ import annotations

from typing import Any

import pytest

from tools import write_iam


@pytest.mark.linted
def test_the_page_of_iam_permissions_is_current() -> None:
    assert write_iam.DOCUMENT.read_text(encoding="utf-8") == write_iam.document(), "run: make iam"


def test_the_page_shows_trust_managed_policies_and_every_statement() -> None:
    allowed = {"Effect": "Allow", "Action": ["s3:GetObject", "s3:List*"], "Resource": "arn:aws:s3:::models/*"}
    limit = {"StringEquals": {"aws:ResourceTag/team": "nlp"}}
    denied = {"Effect": "Deny", "Action": "iam:*", "Resource": "*", "Condition": limit}
    role: dict[str, Any] = {
        "AssumeRolePolicyDocument": {"Statement": [{"Principal": {"Service": "pods.eks.amazonaws.com"}}]},
        "ManagedPolicyArns": ["arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"],
        "Policies": [{"PolicyDocument": {"Statement": [allowed, denied]}}],
    }

    assert [each.cells for each in sorted(write_iam.policy_grants(role))] == [
        ["allow", "`s3:GetObject`, `s3:List*`", "`arn:aws:s3:::models/*`", ""],
        ["AWS managed policy", "`arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy`", "", ""],
        ["deny", "`iam:*`", "`*`", '`{"StringEquals": {"aws:ResourceTag/team": "nlp"}}`'],
        ["assumed by", "`pods.eks.amazonaws.com`", "", ""],
    ]
