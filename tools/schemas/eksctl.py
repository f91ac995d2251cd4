"""Names and types of the fields of a ClusterConfig, from eksctl's own schema.

Other constraints of the schema aren't used, because eksctl doesn't validate against it. It decodes into the Go types
that the schema was generated from, and rejects unknown names and values of another type.
Source: eksctl-io/eksctl 99984adb6 pkg/eks/api.go, pkg/apis/eksctl.io/v1alpha5 (2026-08-21)
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_facts.schemas import EKSCTL
from tools.schemas.definitions import Missing
from tools.schemas.reduce import Reducer
from tools.schemas.source import Source

# A folder with the schema as `eksctl.schema.json`, because no module proxy has eksctl.
FOLDER = "GPU_CONSTRUCTS_SCHEMAS"
_COMMIT, _AS_OF = "99984adb6164ece593c0728523b7f497ea61d60e", "2026-08-21"
_PATH = "pkg/apis/eksctl.io/v1alpha5/assets/schema.json"
# Types with their own decoding functions, which ignore unknown names.
_OPEN = ("AZSubnetMapping", "IdentityProvider")
# One of them rejects unknown names, but ignores their case.
_IN_ANY_CASE = "NodeGroupTaint"
# The list of them may be a mapping too.
_LIST_OR_MAPPING = "taintsWrapper"


def read() -> Source:
    """Read names and types of the fields of a ClusterConfig.

    Raises:
        Missing: The folder isn't configured, or has no such file.
    """
    file = Path(os.environ.get(FOLDER, ""), "eksctl.schema.json")
    if FOLDER not in os.environ or not file.is_file():
        raise Missing(f"eksctl {_COMMIT}: set {FOLDER} to a folder with {file.name}, its {_PATH}")
    definitions = json.loads(file.read_text())["definitions"]
    definitions |= {name: {} for name in _OPEN}
    taint = definitions[_IN_ANY_CASE]
    definitions[_LIST_OR_MAPPING]["type"] = ["array", "object"]
    definitions[_IN_ANY_CASE] = {**taint, "patternProperties": {f"(?i)^({'|'.join(taint['properties'])})$": {}}}
    schema = Reducer(definitions).reduce({"$ref": "ClusterConfig"})
    return Source(
        name=EKSCTL,
        version=_COMMIT[:9],
        url=f"https://github.com/eksctl-io/eksctl/blob/main/{_PATH}",
        as_of=_AS_OF,
        kinds={"eksctl.io/v1alpha5/ClusterConfig": _decoded(schema)},
    )


def _decoded(schema: Any) -> Any:
    """Return a schema with only names and types of fields. A schema with fields is a mapping."""
    if not isinstance(schema, Mapping):
        return {}
    one = {key: _decoded(schema[key]) for key in ("items", "additionalProperties") if schema.get(key)}
    many = {
        key: {name: _decoded(each) for name, each in schema[key].items()}
        for key in ("properties", "patternProperties")
        if key in schema
    }
    own = {"type": schema["type"]} if "type" in schema else {"type": "object"} if many else {}
    return own | one | many
