"""The schemas of custom resources, as strict as an API server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def strict_schema(crds: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    """The schema of a custom resource that, as an API server does, knows no field beside the stated ones."""
    group, _, version = manifest["apiVersion"].partition("/")
    [path] = [
        each
        for each in crds.glob(f"{group}_*.yaml")
        if yaml.safe_load(each.read_text())["spec"]["names"]["kind"] == manifest["kind"]
    ]
    versions = yaml.safe_load(path.read_text())["spec"]["versions"]
    [schema] = [each["schema"]["openAPIV3Schema"] for each in versions if each["name"] == version]
    return close(schema | {"properties": schema["properties"] | {"status": {}}})


def close(schema: Any) -> Any:
    if isinstance(schema, list):
        return [close(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: close(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema and schema["properties"]:
        closed["additionalProperties"] = False
    if schema.get("x-kubernetes-int-or-string"):
        closed.pop("type", None)
    return closed
