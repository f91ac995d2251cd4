"""Recognizes Terraform files, so that an error can state that the checker doesn't read them.

Sources: https://developer.hashicorp.com/terraform/internals/json-format and
https://developer.hashicorp.com/terraform/language/syntax/configuration (2026-11)
"""

from __future__ import annotations

import re
from typing import Any

from gpu_facts.light import regex

_SUFFIXES = (".tf", ".tf.json", ".tfvars", ".tfplan", ".tfstate")
_KEYS_OF_PLANS = ("planned_values", "resource_changes", "prior_state", "terraform_version")
_BLOCK = regex(
    r'^\s*((resource|data)\s+"[^"\n]+"\s+"[^"\n]+"|(module|provider|variable|output)\s+"[^"\n]+"|terraform|locals)\s*\{',
    re.MULTILINE,
)
# A saved plan is an archive with this file in it.
_ARCHIVE, _PLAN = b"PK\x03\x04", b"tfplan"
_MOST_BYTES = 4096
NO_TERRAFORM = (
    "Terraform isn't supported: check the manifests and charts that it applies ('helm template' prints the "
    "manifests of a chart), a dump of the cluster ('kubectl get ... -o json'), or a CloudFormation template"
)


def terraform_error(path: str) -> str:
    """Return the error for a Terraform file."""
    return f"{path}: must be a template, manifests or an assembly, got a Terraform file; {NO_TERRAFORM}"


def is_terraform_name(name: str) -> bool:
    """Whether a file has a name that Terraform uses."""
    return name.endswith(_SUFFIXES)


def is_saved_plan(data: bytes) -> bool:
    """Whether the content of a file is a saved plan."""
    return data.startswith(_ARCHIVE) and _PLAN in data[:_MOST_BYTES]


def is_terraform_text(text: str) -> bool:
    """Whether a text has a block in the Terraform language."""
    return _BLOCK.search(text) is not None


def is_terraform_content(content: Any) -> bool:
    """Whether a parsed document is a Terraform plan or state, or the text of a module."""
    if isinstance(content, dict):
        return any(each in content for each in _KEYS_OF_PLANS)
    return isinstance(content, str) and is_terraform_text(content)
