"""Names of what Kubernetes never changes: another content is another object."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import aws_cdk as cdk
from constructs import Construct

from gpu_facts.refusals import has_token


def unique_name(scope: Construct, name: str, content: Any) -> str:
    """Return a name with the hash of a content as the template writes it; a token reads otherwise in the next synth."""
    written = cdk.Stack.of(scope).resolve(content) if has_token(json.dumps(content)) else content
    return f"{name}-{hashlib.sha256(json.dumps(written, sort_keys=True).encode()).hexdigest()[:8]}"
