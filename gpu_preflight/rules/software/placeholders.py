"""Placeholders that stay in what is applied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gpu_facts.light_patterns import regex
from gpu_preflight.case import Case
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.eksctl.configs import cluster_of
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import as_written, mapping
from gpu_preflight.rules.rule import Problem, Subject, rule

# No name, id or ARN has angle brackets. `envsubst` and Helm leave them alone, but a script may replace them, so that
# each finding only may be an error.
_PLACEHOLDER = regex(r"<[A-Za-z][A-Za-z0-9 _./-]*>")
# Kinds that contain only names, ids, numbers and keywords.
_KINDS = ("ClusterConfig", "EC2NodeClass", "NodeClass", "NodePool")
# Free text and shell scripts.
_FREE = ("annotations", "attachPolicy", "description", "overrideBootstrapCommand", "preBootstrapCommands", "userData")
_TAGS = "tags"
_ROLE = "eks.amazonaws.com/role-arn"


@rule("GPU471", "error", source="https://kubernetes.io/docs/concepts/overview/working-with-objects/names/")
def placeholder_that_is_not_replaced(case: Case) -> Iterator[Problem]:
    """Placeholder that is not replaced.

    Unless a script replaces it first, eksctl and the API server reject such a name, AWS has no role of that name, and
    cluster autoscaler finds no group by such a tag.

    Fix: Write the real value.
    """
    cluster = case.cluster
    for each in cluster.objects:
        for text in dict.fromkeys(_of_object(each)):
            for subject in _subjects(each, cluster):
                yield Problem(subject, f"{each.origin.path}: {text}", unknown=True)
    for autoscaler in cluster.autoscalers:
        who, sign = (
            ("cluster autoscaler", "--") if autoscaler.kind == "cluster-autoscaler" else ("Karpenter", "settings.")
        )
        for text in _texts(dict(autoscaler.flags), ""):
            yield Problem(autoscaler, f"{who}: {sign}{text}", unknown=True)


def _subjects(each: Object, cluster: Cluster) -> Iterable[Subject]:
    made = cluster_of(each, cluster.resources)
    return cluster.parts_of(each) if made is each else [made]


def _of_object(each: Object) -> Iterator[str]:
    if each.kind in _KINDS:
        return _texts(each.content, "")
    metadata = mapping(each.content.get("metadata"))
    names = {key: value for key, value in metadata.items() if key in ("name", "namespace")}
    if each.kind == "ServiceAccount":
        names[f"annotations[{_ROLE}]"] = each.annotations.get(_ROLE)
    return _texts({"metadata": names}, "")


def _texts(value: Any, path: str) -> Iterator[str]:
    """Yield where placeholders stand in a value."""
    if isinstance(value, dict):
        for key, part in value.items():
            # Selectors have tags of resources; other tags are what people choose.
            if key not in _FREE and (key != _TAGS or path.endswith("SelectorTerms[]")):
                yield from _texts(part, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part, f"{path}[]")
    elif found := _PLACEHOLDER.search(str(as_written(value) or "")):
        yield f"{path} still has the placeholder {found.group()}"
