"""Changes of an input that mean nothing: each returns the files of the changed input."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

import yaml

from gpu_preflight.reading.versions import is_template
from tests.preflight.properties.samples import Sample

# Content by name of a file.
Files = Mapping[str, str]
Change = Callable[[Sample], Files | None]

# Lists of objects whose order has no meaning, by key.
_SETS = (
    "accessModes",
    "env",
    "envFrom",
    "imagePullSecrets",
    "matchExpressions",
    "nodeSelectorTerms",
    "requirements",
    "startupTaints",
    "subjects",
    "taints",
    "tolerations",
    "topologySpreadConstraints",
    "values",
    "volumeMounts",
    "volumes",
)
# So are lists of templates; the first instance type of a group means more than the others.
_SETS_OF_TEMPLATES = ("Tags", "Taints", "ManagedPolicyArns", "Policies")
_RENAMED = (
    "Deployment",
    "Job",
    "Pod",
    "StatefulSet",
    "NodePool",
    "Namespace",
    "ResourceQuota",
    "PersistentVolumeClaim",
)
# Names that mean something to Kubernetes or to the checker.
# Also names of instance families, which requirements have as values.
_MEANINGFUL = re.compile(
    r"kube-|default|system|karpenter|nvidia|gpu|autoscaler|general-purpose|keda|kueue|monitoring|^[a-z]{1,2}[0-9]+[a-z]*$"
)


def separate(documents: Sequence[Any]) -> Files:
    """Return a file for each document."""
    return {f"{number}.json": json.dumps(each) for number, each in enumerate(documents)}


def reversed_documents(sample: Sample) -> Files:
    """Return the documents in the reversed order."""
    return separate([*reversed(sample.documents)])


def one_yaml_file(sample: Sample) -> Files:
    """Return one file of YAML."""
    return {"all.yaml": yaml.safe_dump_all(sample.documents, sort_keys=False)}


def yaml_files(sample: Sample) -> Files:
    """Return a file of YAML for each document."""
    return {f"{number}.yaml": yaml.safe_dump(each, sort_keys=False) for number, each in enumerate(sample.documents)}


def one_list(sample: Sample) -> Files | None:
    """Return the objects as one ``List``, as ``kubectl get -o json`` prints them."""
    objects = [each for each in sample.documents if _is_object(each)]
    others = [each for each in sample.documents if not _is_object(each)]
    if len(objects) < 2:
        return None
    return separate([*others, {"apiVersion": "v1", "kind": "List", "items": objects}])


def same_twice(sample: Sample) -> Files | None:
    """Return each object twice, the second time in a separate file."""
    # With a name that the API server makes up, the second is another object.
    objects = [each for each in sample.documents if _is_object(each) and "name" in (each.get("metadata") or {})]
    return separate([*sample.documents, *objects]) if objects else None


def reversed_keys(sample: Sample) -> Files:
    """Return the documents with the keys of each mapping in the reversed order."""
    return separate([_with_reversed_keys(each) for each in sample.documents])


def reversed_sets(sample: Sample) -> Files:
    """Return the documents with each list whose order has no meaning in the reversed order."""
    return separate([_with_reversed_sets(each, templated=is_template(each)) for each in sample.documents])


def reversed_containers(sample: Sample) -> Files:
    """Return the documents with the containers of each pod in the reversed order."""
    return separate([_with_reversed(each, ("containers",)) for each in sample.documents if each is not None])


def renamed(sample: Sample) -> Files | None:
    """Return the documents with other names of workloads, pools and namespaces, in every place."""
    names = {name for each in sample.documents for name in _names(each)}
    text = json.dumps(sample.documents)
    # A name inside another text may be a part of an image or of an argument.
    names = {name for name in names if text.count(name) == text.count(f'"{name}"') and not _MEANINGFUL.search(name)}
    if not names or "AWSCDK-EKS" in text:
        return None
    return separate([_renamed(each, names) for each in sample.documents])


def split_pools(sample: Sample) -> Files | None:
    """Return each NodePool as two, each with a part of the values of one requirement."""
    documents = [part for each in sample.documents for part in _split(each)]
    return separate(documents) if len(documents) > len(sample.documents) else None


CHANGES: tuple[Change, ...] = (
    reversed_documents,
    one_yaml_file,
    yaml_files,
    one_list,
    same_twice,
    reversed_keys,
    reversed_sets,
    reversed_containers,
    renamed,
    split_pools,
)


def _is_object(document: Any) -> bool:
    return isinstance(document, dict) and "kind" in document and "apiVersion" in document


def _with_reversed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_reversed_keys(each) for key, each in reversed(value.items())}
    return [*map(_with_reversed_keys, value)] if isinstance(value, list) else value


def _with_reversed_sets(document: Any, *, templated: bool) -> Any:
    return _with_reversed(document, _SETS_OF_TEMPLATES if templated else _SETS)


def _with_reversed(value: Any, keys: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        found = {key: _with_reversed(each, keys) for key, each in value.items()}
        return {key: each[::-1] if key in keys and isinstance(each, list) else each for key, each in found.items()}
    return [_with_reversed(each, keys) for each in value] if isinstance(value, list) else value


def _names(document: Any) -> Iterator[str]:
    if _is_object(document) and document["kind"] in _RENAMED:
        metadata = document.get("metadata") or {}
        yield from (metadata[key] for key in ("name", "namespace") if isinstance(metadata.get(key), str))


def _renamed(value: Any, names: set[str]) -> Any:
    if isinstance(value, dict):
        return {key: _renamed(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [_renamed(each, names) for each in value]
    return f"{value}-x" if isinstance(value, str) and value in names else value


def _split(document: Any) -> list[Any]:
    if not _is_object(document) or document["kind"] != "NodePool" or "limits" in document["spec"]:
        return [document]
    asked = document["spec"]["template"]["spec"].get("requirements") or []
    place = next((place for place, each in enumerate(asked) if _is_choice(each)), None)
    if place is None:
        return [document]
    parts = [deepcopy(document), deepcopy(document)]
    parts[1]["metadata"]["name"] += "-too"
    for part, values in zip(parts, (asked[place]["values"][:1], asked[place]["values"][1:]), strict=True):
        part["spec"]["template"]["spec"]["requirements"][place]["values"] = values
    return parts


def _is_choice(requirement: Any) -> bool:
    return (
        isinstance(requirement, dict)
        and requirement.get("operator") == "In"
        and len(requirement.get("values") or ()) > 1
        and "minValues" not in requirement
    )
