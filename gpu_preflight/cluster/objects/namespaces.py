"""Namespaces, and which of them a selector takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpu_facts.labels import NAMESPACE_NAME
from gpu_preflight.model.answer import Answer, all_of
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.label_values import Labels, Requirement, equal, exactly, requirement
from gpu_preflight.reading.unknown import Unknown, is_expression, mapping, mappings


def is_selected(selector: Any, namespace: str, cluster: Cluster) -> Answer:
    """Say whether a label selector takes a namespace; what labels one has that is not in the input is not known."""
    if not isinstance(selector, dict):
        return Answer.UNKNOWN
    expressions = map(requirement, mappings(selector.get("matchExpressions")))
    labels = _labels(namespace, cluster)
    # The API server labels each namespace with its name.
    named = labels if labels is not None else {NAMESPACE_NAME: _value(namespace)}
    return all_of(
        _settled(each).met_by(named) if labels is not None or each.key == NAMESPACE_NAME else Answer.UNKNOWN
        for each in (*equal(mapping(selector.get("matchLabels"))), *expressions)
    )


def _labels(namespace: str, cluster: Cluster) -> Labels | None:
    found = [each.labels for each in cluster.of_kind("Namespace") if each.name == namespace]
    if not found:
        return None
    return {key: _value(value) for labels in found for key, value in {**labels, NAMESPACE_NAME: namespace}.items()}


def _value(written: Any) -> Any:
    if isinstance(written, Unknown):
        return written
    text = str(written)
    return Unknown(text) if is_expression(text) else exactly(text)


def _settled(wanted: Requirement) -> Requirement:
    """Return a requirement without values where one of them is known at deployment only."""
    return replace(wanted, values=None) if any(map(is_expression, wanted.values or ())) else wanted
