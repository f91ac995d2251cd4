"""A document as YAML that kubernetes-sigs/yaml reads back the same, with quotes only where they are needed."""

from __future__ import annotations

from typing import Any

import yaml

from gpu_preflight.reading.notation.scalars import scalar

_TAG = "tag:yaml.org,2002:"
_KINDS = {bool: "bool", int: "int", float: "float", type(None): "null", str: "str"}
# Beyond what any line has, so that no text is folded.
_WIDTH = 1_000_000


class _Dumper(yaml.SafeDumper):
    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        """Return the tag that a reader gives to what has none."""
        if kind is not yaml.ScalarNode:
            return f"{_TAG}{'seq' if kind is yaml.SequenceNode else 'map'}"
        return f"{_TAG}{_KINDS[type(scalar(value))] if implicit[0] else 'str'}"

    def ignore_aliases(self, data: Any) -> bool:
        """Whether what stands twice is written twice."""
        return True


def written(content: Any) -> str:
    """Return a document as YAML."""
    return yaml.dump(content, Dumper=_Dumper, width=_WIDTH)
