"""Labels and taints that a node cannot have, or may not give itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_constructs.facts.kubernetes import LABEL_VALUE, QUALIFIED_NAME
from gpu_constructs.facts.labels import (
    ARCH,
    HOSTNAME,
    OLD_ARCH,
    OLD_INSTANCE_TYPE,
    OLD_OS,
    OLD_REGION,
    OLD_ZONE,
    OS,
    REGION,
    ZONE,
)
from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.model.cluster import Pool
from gpu_constructs.preflight.reading.unknown import dig, known_text, mapping
from gpu_constructs.preflight.rules.rule import Problem, rule

# What kubelet may set on its own node of the domains kubernetes.io and k8s.io.
# Source: kubernetes/kubernetes v1.36.1 staging/src/k8s.io/kubelet/pkg/apis/well_known_labels.go
_KUBELET_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_KUBELET_LABELS = (
    HOSTNAME,
    ARCH,
    OS,
    OLD_ARCH,
    OLD_OS,
    OLD_INSTANCE_TYPE,
    ZONE,
    REGION,
    OLD_ZONE,
    OLD_REGION,
)


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
            yield Problem.of(pool, f"{why}")


def _refusals(pool: Pool) -> Iterator[str]:
    for key, value in {**_told(pool), **mapping(pool.properties.get("Labels"))}.items():
        if "${" in key:
            continue
        if not QUALIFIED_NAME.fullmatch(key):
            yield f"{key!r} is no key of a label"
        elif (text := known_text(value)) is not None and "${" not in text and not LABEL_VALUE.fullmatch(text):
            yield f"{text!r} is no value of label {key}"
        elif _is_foreign(key) or (pool.kind == "managed" and key.startswith("eks.amazonaws.com/")):
            yield f"label {key} is not for a node to give itself"
    for taint in pool.taints:
        if "${" not in taint.key and not QUALIFIED_NAME.fullmatch(taint.key):
            yield f"{taint.key!r} is no key of a taint"


def _told(pool: Pool) -> dict[str, Any]:
    """Return the labels that kubelet is told to register with."""
    settings = mapping(dig(pool.user_data.settings, "kubernetes", "node-labels"))
    flags = [flag.partition("=")[2] for flag in pool.user_data.kubelet_flags if flag.startswith("--node-labels=")]
    pairs = [pair.partition("=") for flag in flags for pair in flag.strip("\"'").split(",") if pair]
    return settings | {key: value for key, _, value in pairs}


def _is_foreign(key: str) -> bool:
    domain = key.rpartition("/")[0]
    ruled = any(domain == each or domain.endswith(f".{each}") for each in ("kubernetes.io", "k8s.io"))
    allowed = any(domain == each or domain.endswith(f".{each}") for each in _KUBELET_DOMAINS)
    return ruled and not allowed and key not in _KUBELET_LABELS
