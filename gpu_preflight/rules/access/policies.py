"""Policies that IAM rejects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gpu_facts.iam_policies import MAX_INLINE, MAX_MANAGED, policy_size
from gpu_preflight.case import Case
from gpu_preflight.cluster.iam import inline_policies
from gpu_preflight.reading.unknown import as_written
from gpu_preflight.rules.rule import Problem, rule

_QUOTAS = "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html"


@rule("GPU480", "error", source=_QUOTAS)
def policies_larger_than_iam_allows(case: Case) -> Iterator[Problem]:
    """Policies of a role are larger than IAM allows.

    IAM rejects the policy with LimitExceeded, the deployment fails, and what needs the role isn't created.

    Fix: Replace lists of resources with a pattern or a tag condition, or move statements to managed policies, 6,144
    characters each.
    """
    resources = case.cluster.resources
    for role in resources.values():
        if role.type == "AWS::IAM::ManagedPolicy":
            size = _size(role.properties.get("PolicyDocument"))
            if size > MAX_MANAGED:
                text = f"managed policy {role.path} has at least {size:,} characters, and IAM allows {MAX_MANAGED:,}"
                yield Problem(role, text, unknown=role.conditional)
        elif role.type == "AWS::IAM::Role":
            parts = list(inline_policies(role, resources))
            certain = sum(_size(document) for document, is_certain in parts if is_certain)
            total = sum(_size(document) for document, _ in parts)
            if total > MAX_INLINE:
                text = f"the inline policies of role {role.path} have at least {total:,} characters, and IAM allows"
                unknown = role.conditional or certain <= MAX_INLINE
                yield Problem(role, f"{text} {MAX_INLINE:,} together", unknown=unknown)


def _size(document: Any) -> int:
    """Return the least characters of a policy without white space."""
    text = document if isinstance(document, str) else json.dumps(as_written(document), ensure_ascii=False, default=str)
    return policy_size(text)
