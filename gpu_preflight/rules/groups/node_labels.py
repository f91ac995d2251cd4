"""Labels and taints that a node cannot have, or may not give itself."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.kubernetes import (
    KUBELET_DOMAINS,
    KUBELET_LABELS,
    LABEL_VALUE,
    QUALIFIED_NAME,
    RESTRICTED_DOMAINS,
    is_under,
)
from gpu_facts.labels import EKS_DOMAIN
from gpu_preflight.case import Case
from gpu_preflight.model.cluster import Pool
from gpu_preflight.reading.unknown import known_text, mapping
from gpu_preflight.rules.rule import Problem, rule


@rule(
    "GPU057",
    "error",
    source="https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction",
)
def label_or_taint_that_a_node_cannot_have(case: Case) -> Iterator[Problem]:
    """Label or taint that a node cannot have.

    EKS refuses it (KubernetesLabelInvalid), or kubelet does not start and the node never joins.

    Fix: Use a domain of your own, or node.kubernetes.io where kubelet may set it.
    """
    for pool in case.cluster.pools:
        for why in _refusals(pool) if pool.is_group else ():
            yield Problem.of(pool, why)


def _refusals(pool: Pool) -> Iterator[str]:
    for key, value in {**pool.user_data.node_labels, **mapping(pool.properties.get("Labels"))}.items():
        if "${" in key:
            continue
        if not QUALIFIED_NAME.fullmatch(key):
            yield f"{key!r} is no key of a label"
        elif (text := known_text(value)) is not None and "${" not in text and not LABEL_VALUE.fullmatch(text):
            yield f"{text!r} is no value of label {key}"
        elif _is_foreign(key) or (pool.kind == "managed" and key.startswith(f"{EKS_DOMAIN}/")):
            yield f"label {key} is not for a node to give itself"
    for taint in (*pool.taints, *pool.startup_taints):
        if "${" not in taint.key and not QUALIFIED_NAME.fullmatch(taint.key):
            yield f"{taint.key!r} is no key of a taint"


def _is_foreign(key: str) -> bool:
    ruled = is_under(key, RESTRICTED_DOMAINS) and not is_under(key, KUBELET_DOMAINS)
    return ruled and key not in KUBELET_LABELS
