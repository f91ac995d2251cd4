"""The context of a call: keys that conditions ask about.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Context = Mapping[str, Sequence[str]]

# Keys that are known here: one that is not in a context is absent of that call. Keys are no matter of case.
KNOWN = frozenset(
    key.lower()
    for key in (
        "aws:PrincipalAccount",
        "aws:PrincipalArn",
        "aws:RequestedRegion",
        "aws:SecureTransport",
        "aws:SourceAccount",
        "aws:SourceArn",
        "aws:TagKeys",
        "arc-zonal-shift:ResourceIdentifier",
        "ec2:CreateAction",
        "iam:PassedToService",
    )
)
KNOWN_FAMILIES = tuple(
    family.lower()
    for family in (
        "aws:PrincipalTag/",
        "aws:RequestTag/",
        "aws:ResourceTag/",
        "autoscaling:ResourceTag/",
        "ec2:ResourceTag/",
    )
)


def is_known(key: str) -> bool:
    """Return whether it is known when a call has a key and when it has not."""
    return key.lower() in KNOWN or key.lower().startswith(KNOWN_FAMILIES)


def request_tags(tags: Mapping[str, str]) -> dict[str, Sequence[str]]:
    """Return the keys of a call that puts tags on something."""
    named: dict[str, Sequence[str]] = {f"aws:RequestTag/{key}": (value,) for key, value in tags.items()}
    return named | ({"aws:TagKeys": tuple(tags)} if tags else {})


def resource_tags(tags: Mapping[str, str], service: str = "") -> dict[str, Sequence[str]]:
    """Return the keys of a call about something that has tags.

    Args:
        tags: Its tags.
        service: Service that has a key of its own for them too.
    """
    families = ("aws", service) if service else ("aws",)
    return {f"{family}:ResourceTag/{key}": (value,) for family in families for key, value in tags.items()}


def pairs(tags: Sequence[Mapping[str, Any]] | None) -> dict[str, str]:
    """Return tags by key, of a list as most APIs have them."""
    return {str(tag["Key"]): str(tag.get("Value", "")) for tag in tags or ()}
