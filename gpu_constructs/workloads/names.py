"""Names of Services, and names that change with the content of an immutable object."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import aws_cdk as cdk
from constructs import Construct

from gpu_facts.refusals import has_token

# Until 1.36 a Service begins with a letter.
# Source: kubernetes/kubernetes v1.36.3 pkg/features/kube_features.go (RelaxedServiceNameValidation)
_LETTER_FIRST = ("1.33", "1.34", "1.35")


def unique_name(scope: Construct, name: str, content: Any) -> str:
    """Return a name with the hash of a content as the template writes it; a token reads otherwise in the next synth."""
    written = cdk.Stack.of(scope).resolve(content) if has_token(json.dumps(content)) else content
    return f"{name}-{hashlib.sha256(json.dumps(written, sort_keys=True).encode()).hexdigest()[:8]}"


def refuse_early_number(who: object, name: str, version: str | None) -> None:
    """Refuse a name with a digit first, where the API server takes none for a Service.

    Args:
        who: Who asks.
        name: What the Service is called, or begins with.
        version: Minor version of the cluster, ``None`` where it is not known.

    Raises:
        ValueError: It is one.
    """
    if name[0].isdigit() and (version is None or version in _LETTER_FIRST):
        runs = "a cluster whose kubernetes_version is not given" if version is None else f"Kubernetes {version}"
        raise ValueError(
            f"{who}: name must begin with a letter in {runs}, got {name!r}; Kubernetes 1.36 is the first that takes a "
            "digit for a Service"
        )
