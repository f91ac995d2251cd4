"""Schemas of Kubernetes' own objects: its OpenAPI, with the enumerations that only its sources contain."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from gpu_facts.schemas import KUBERNETES
from tools.schemas.definitions import module
from tools.schemas.reduce import Reducer
from tools.schemas.source import Source

VERSION = "v1.37.1"
AS_OF = "2026-11-21"
# Groups whose objects preflight reads.
_GROUPS = (
    *("", "apps", "autoscaling", "batch", "networking.k8s.io", "node.k8s.io", "policy"),
    *("rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io"),
)
# Kinds of requests to an API server, which no manifest contains.
_NOT_WRITTEN = (
    "Binding",
    "ComponentStatus",
    "DeleteOptions",
    "Eviction",
    "Event",
    "Scale",
    "TokenRequest",
    "WatchEvent",
)
# Kubernetes accepts texts and numbers for these.
_BOTH = ("io.k8s.apimachinery.pkg.api.resource.Quantity", "io.k8s.apimachinery.pkg.util.intstr.IntOrString")
# Required in the schema, but not by an API server (1.36.3; tests/e2e/test_fields_agree.py).
_NOT_ASKED_FOR = {
    "io.k8s.api.batch.v1.PodFailurePolicy": "rules",
    "io.k8s.api.core.v1.LimitRangeSpec": "limits",
    "io.k8s.api.core.v1.PreferredSchedulingTerm": "preference",
}
_FUNCTION = re.compile(r"^func schema_k8sio_(api|apimachinery)_(\w+)\(", re.MULTILINE)
_LINE = re.compile(
    r"""^\t{5}"(?P<name>[^"]+)":\ \{$
    |^\t+(?P<inside>Items|AdditionalProperties):
    |^\t+Enum:\ +\[\]interface\{\}\{(?P<values>.*)\},$""",
    re.MULTILINE | re.VERBOSE,
)


def read() -> Source:
    """Read the schemas of the kinds of the groups."""
    folder = module("k8s.io/kubernetes", VERSION)
    definitions = json.loads((folder / "api" / "openapi-spec" / "swagger.json").read_text())["definitions"]
    sources = (folder / "pkg" / "generated" / "openapi" / "zz_generated.openapi.go").read_text()
    _add_enumerations(definitions, sources)
    for each in _BOTH:
        definitions[each] = {"type": ["integer", "number", "string"]}
    for name, field in _NOT_ASKED_FOR.items():
        definitions[name]["required"].remove(field)
    reducer = Reducer(definitions)
    return Source(
        name=KUBERNETES,
        version=VERSION,
        url="https://github.com/kubernetes/kubernetes/tree/master/api/openapi-spec",
        as_of=AS_OF,
        kinds={kind: _reduced(reducer, name) for kind, name in sorted(_kinds(definitions))},
    )


def metadata(kubernetes: Source) -> Any:
    """Return the schema of the metadata of an object."""
    return kubernetes.kinds["v1/ConfigMap"]["properties"]["metadata"]


def _kinds(definitions: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, each in definitions.items():
        for known in each.get("x-kubernetes-group-version-kind", ()):
            group, version, kind = known["group"], known["version"], known["kind"]
            if group in _GROUPS and kind not in _NOT_WRITTEN and not kind.endswith(("List", "Review")):
                yield f"{group}/{version}/{kind}".removeprefix("/"), name


def _reduced(reducer: Reducer, name: str) -> dict[str, Any]:
    found = dict(reducer.reduce({"$ref": name}))
    if "status" in found["properties"]:
        found["properties"] = {**found["properties"], "status": {"open": True}}
    return found


def _add_enumerations(definitions: dict[str, Any], sources: str) -> None:
    """Add the enumerations of fields, which are generated with the OpenAPI but aren't part of it."""
    starts = list(_FUNCTION.finditer(sources))
    for found, following in zip(starts, [*starts[1:], None], strict=True):
        end = following.start() if following else len(sources)
        schema = definitions.get(_definition(found[1], found[2]))
        if schema is not None:
            _add(schema.get("properties", {}), sources[found.end() : end])


def _definition(module: str, function: str) -> str:
    """Return the name of a definition from the name of its function, e.g. ``core_v1_Pod``."""
    prefix = "io.k8s.api" if module == "api" else "io.k8s.apimachinery"
    return f"{prefix}.{function.replace('_', '.')}"


def _add(properties: dict[str, Any], text: str) -> None:
    name, inside = "", ""
    for found in _LINE.finditer(text):
        if found["name"]:
            name, inside = found["name"], ""
        elif found["inside"]:
            inside = found["inside"][0].lower() + found["inside"][1:]
        elif name in properties:
            target = properties[name][inside] if inside else properties[name]
            target["enum"] = json.loads(f"[{found['values']}]")
