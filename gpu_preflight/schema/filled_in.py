"""Fields that a definition demands, and that its controller's webhook fills in before the API server looks.

Webhooks that change an object come before its schema is asked, so that who leaves such a field out is right.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gpu_facts.light_patterns import regex

# By kind.
# Sources: kubernetes-sigs/jobset 08dfbdfd6 pkg/webhooks/jobset_webhook.go,
# kubernetes-sigs/lws 060ab4da1 pkg/webhooks/leaderworkerset_webhook.go (2026-08)
FILLED_IN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "jobset.x-k8s.io/v1alpha2/JobSet": ("spec.failurePolicy.rules[].name",),
        "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet": ("spec.networkConfig.subdomainPolicy",),
    }
)
_NUMBER = regex(r"\[\d+\]")


def is_filled_in(kind: str, path: str) -> bool:
    """Whether a webhook fills in the field at a path of a kind."""
    return _NUMBER.sub("[]", path) in FILLED_IN.get(kind, ())
