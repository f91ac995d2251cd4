"""Files of a folder: the files to read, the files to skip, and Terraform files, which have their own error.

Sources: https://developer.hashicorp.com/terraform/internals/json-format and
https://developer.hashicorp.com/terraform/language/syntax/configuration (2026-11)
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpu_facts.light import dataclass, regex

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
# Folders of installed packages.
_DEPENDENCIES = ("node_modules", "site-packages", "__pycache__")
_VENV = "pyvenv.cfg"
TERRAFORM_FILES = "Terraform files"


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


@dataclass(frozen=True, slots=True)
class Skipped:
    """Parts of a folder that aren't read.

    Attributes:
        what: Their kind, in the plural.
        names: Their paths.
    """

    what: str
    names: tuple[str, ...]


def walk(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder and its subfolders, except hidden files, assets of assemblies and dependencies."""
    for name, folders, files in os.walk(folder):
        place = Path(name)
        folders[:] = [each for each in folders if not _skip_reason(place / each)]
        yield from (place / each for each in files if not _skip_reason(place / each))


def _skip_reason(path: Path) -> str:
    """Return the kind of a file or folder that isn't read; empty if it is read."""
    if path.name.startswith("."):
        return "hidden files and folders"
    if path.name.startswith("asset."):
        return "assets of an assembly"
    return "folders of dependencies" if path.name in _DEPENDENCIES or (path / _VENV).is_file() else ""


def skipped_parts(folder: Path) -> list[Skipped]:
    """Return the parts of a folder that aren't read: hidden files, assets, dependencies and Terraform files."""
    found: dict[str, list[str]] = {}
    for name, folders, files in os.walk(folder):
        for each in sorted((*folders, *files)):
            what = _skip_reason(Path(name) / each) or (TERRAFORM_FILES if is_terraform_name(each) else "")
            if what:
                found.setdefault(what, []).append(str(Path(name) / each))
        folders[:] = [each for each in folders if not _skip_reason(Path(name) / each)]
    return [Skipped(what, tuple(sorted(names))) for what, names in found.items()]
