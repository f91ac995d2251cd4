"""The schemas of Kubernetes' own objects and of custom resources, as strict as an API server."""

from __future__ import annotations

import re
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import yaml

# Each object asks for a file of a megabyte.
kubernetes_validate.utils.schema_contents = cache(kubernetes_validate.utils.schema_contents)


def validate(manifest: dict[str, Any], minor: str) -> None:
    """Validate an object of Kubernetes itself against the schemas of a minor version."""
    kubernetes_validate.validate(manifest, minor, strict=True)


def validate_custom(manifest: dict[str, Any], crds: Path, *, file: str | None = None) -> None:
    """Validate a custom resource against its definition, whose validator is made once in a run."""
    _validator(crds, manifest["apiVersion"], manifest["kind"], file).validate(manifest | {"metadata": {}})


@cache
def _validator(crds: Path, version: str, kind: str, file: str | None) -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator(strict_schema(crds, {"apiVersion": version, "kind": kind}, file=file))


def strict_schema(crds: Path, manifest: dict[str, Any], *, file: str | None = None) -> dict[str, Any]:
    """The schema of a custom resource that, as an API server does, knows no field beside the stated ones."""
    group, _, version = manifest["apiVersion"].partition("/")
    [versions] = [
        document["spec"]["versions"]
        for each in crds.glob(file if file is not None else f"{group}_*.yaml")
        for document in _documents(each)
        if document and document["spec"]["names"]["kind"] == manifest["kind"]
    ]
    [schema] = [each["schema"]["openAPIV3Schema"] for each in versions if each["name"] == version]
    return dict(close(schema | {"properties": schema["properties"] | {"status": {}}}))


@cache
def _documents(file: Path) -> list[Any]:
    # As safe as SafeLoader, and ten times as fast.
    return list(yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader))


def close(schema: Any) -> Any:
    if isinstance(schema, list):
        return [close(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: close(value) for key, value in schema.items()}
    if isinstance(closed.get("pattern"), str) and not is_pythons(closed["pattern"]):
        del closed["pattern"]
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema and schema["properties"]:
        closed["additionalProperties"] = False
    if schema.get("x-kubernetes-int-or-string"):
        closed.pop("type", None)
    return closed


def is_pythons(pattern: str) -> bool:
    """Whether a regular expression of Go is one of Python too."""
    try:
        with warnings.catch_warnings():
            # Python 3.10 only warns of flags in the middle, which 3.11 refuses.
            warnings.simplefilter("error")
            re.compile(pattern)
    except (re.error, DeprecationWarning):
        return False
    return True
