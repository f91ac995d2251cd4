"""YAML that parsers written in Go read correctly: nodeadm, Argo CD, Flux and Kueue read it."""

from __future__ import annotations

import re
from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    """Quotes strings that Go reads as a number or a boolean and PyYAML doesn't, such as ``1e3``, ``08`` and ``y``."""


# Source: go.yaml.in/yaml/v2 resolve.go, as in sigs.k8s.io/yaml v1.6.0
# Underscores may be anywhere in a number.
_NUMBER = r"[-+]?(?=[_.]*[0-9])[0-9_]*(?:\.[0-9_]*)?(?:[eE]_*[-+]?[0-9_]+)?|[-+]?_*0_*[xXbBoO][-+]?[0-9a-fA-F_]+"
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(rf"^(?:{_NUMBER})$"), list("-+.0123456789"))
_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^[yYnN]$"), list("yYnN"))


def to_yaml(*documents: Any, width: float = 120) -> str:
    """Return documents as text with lines folded at a width, and keys in the given order."""
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=width, explicit_start=len(documents) > 1)
