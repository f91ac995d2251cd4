"""Files of a folder: the files to read, and the files to skip."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from gpu_facts.light import dataclass
from gpu_preflight.reading.terraform import is_terraform_name

# Folders of installed packages.
_DEPENDENCIES = ("node_modules", "site-packages", "__pycache__")
_VENV = "pyvenv.cfg"
TERRAFORM_FILES = "Terraform files"


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
