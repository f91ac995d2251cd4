"""Names of Services, and names that change with the content of an immutable object."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import aws_cdk as cdk
from constructs import Construct

from gpu_facts.refusals import has_token

# Before 1.36 the name of a Service must begin with a letter.
# Source: kubernetes/kubernetes v1.36.3 pkg/features/kube_features.go (RelaxedServiceNameValidation)
_LETTER_FIRST = ("1.33", "1.34", "1.35")


def unique_name(scope: Construct, name: str, content: Any) -> str:
    """Return a name with a hash of a content as the template writes it. A token's text differs between synths."""
    written = cdk.Stack.of(scope).resolve(content) if has_token(json.dumps(content)) else content
    return f"{name}-{hashlib.sha256(json.dumps(written, sort_keys=True).encode()).hexdigest()[:8]}"


def refuse_early_number(who: object, name: str, version: str | None) -> None:
    """Reject a name that begins with a digit, if the API server doesn't allow that for a Service.

    Args:
        who: Name of the construct in messages.
        name: Name of the Service, or its prefix.
        version: Minor version of the cluster, or ``None`` if it is unknown.

    Raises:
        ValueError: The name begins with a digit, and the version doesn't allow it.
    """
    if name[0].isdigit() and (version is None or version in _LETTER_FIRST):
        runs = "a cluster whose kubernetes_version is not given" if version is None else f"Kubernetes {version}"
        raise ValueError(
            f"{who}: name must begin with a letter in {runs}, got {name!r}; rename it, because only Kubernetes 1.36 "
            "and later allow a digit for a Service"
        )
