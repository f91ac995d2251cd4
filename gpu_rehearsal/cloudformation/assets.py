"""Code of Lambda functions: assets of an assembly, and layers merged into ``/opt``."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

# What the CDK's handlers of custom resources require (aws-cdk-lib 2.275), as of 2026-11-22.
PACKAGES = {"@aws-sdk/client-ec2": "3.1169.0", "@aws-sdk/client-lambda": "3.1162.0", "@aws-sdk/client-sfn": "3.1162.0"}
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu-constructs" / "rehearsal" / "node"


def are_installed(folder: Path = CACHE) -> bool:
    """Whether a folder holds every package at its version."""
    return all(_version(folder, name) == version for name, version in PACKAGES.items())


def modules(folder: Path = CACHE) -> Path:
    """Return the folder for NODE_PATH.

    Raises:
        LookupError: The packages are not installed.
    """
    if not are_installed(folder):
        raise LookupError(f"{folder}: must hold {', '.join(PACKAGES)}; run 'python tools/build_rehearsal.py'")
    return folder / "node_modules"


def _version(folder: Path, name: str) -> str:
    manifest = folder / "node_modules" / name / "package.json"
    return str(json.loads(manifest.read_text())["version"]) if manifest.exists() else ""


# Of the user: layers are some ten thousand files, which every play would unpack, and Python compile, anew.
KEPT = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu-constructs" / "rehearsal"
_WORTH_KEEPING_BYTES = 1_000_000


class Assets:
    """What the asset manifests of a synthesized stack name, by the key of its object.

    Source: https://github.com/aws/aws-cdk-cli/tree/main/packages/%40aws-cdk/cloud-assembly-schema (2026-11)

    Args:
        assembly: Folder with a template and its ``*.assets.json``.
    """

    def __init__(self, assembly: Path) -> None:
        self._sources: dict[str, Path] = {}
        for manifest in sorted(assembly.glob("*.assets.json")):
            for file in json.loads(manifest.read_text())["files"].values():
                for destination in file["destinations"].values():
                    self._sources[destination["objectKey"]] = assembly / file["source"]["path"]

    def unpack(self, key: str, folder: Path) -> Path:
        """Return a folder with the files of an object, made below `folder` the first time.

        A large archive is unpacked once for all plays, as who runs its files may not change them: Lambda mounts them
        read-only.

        Raises:
            LookupError: No manifest names the object.
        """
        if key not in self._sources:
            raise LookupError(f"asset {key}: must be named by an asset manifest of the assembly")
        source, target = self._sources[key], folder / Path(key).stem
        if target.exists():
            return target
        if source.is_file() and source.stat().st_size >= _WORTH_KEEPING_BYTES:
            return unpacked_once(source, KEPT)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            unzip(source, target)
        return target


def unpacked_once(archive: Path, kept: Path) -> Path:
    """Return a folder with the files of an archive, which stays for whoever has an archive of the same bytes."""
    target = kept / hashlib.sha256(archive.read_bytes()).hexdigest()
    if target.exists():
        return target
    kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept) as folder:
        made = Path(folder) / "files"
        unzip(archive, made)
        try:
            made.rename(target)
        except OSError:
            # Another play was faster.
            if not target.exists():
                raise
    return target


def unzip(archive: Path, target: Path) -> None:
    """Unpack an archive with the modes of its files, which `zipfile` drops."""
    with zipfile.ZipFile(archive) as opened:
        for entry in opened.infolist():
            made = Path(opened.extract(entry, target))
            if (mode := entry.external_attr >> 16 & 0o777) and not entry.is_dir():
                made.chmod(mode)


# Where Lambda keeps the Python of its runtime; scripts of layers name it in their first line.
_LAMBDAS_PYTHON = re.compile(rb"#!/var/lang/bin/python[0-9.]*\s")
# Folder of what starts those scripts here.
STARTERS = ".starters"


def merge(layers: Iterable[Path], opt: Path) -> Path:
    """Link the files of layers into one folder, as Lambda extracts them one over the other into ``/opt``.

    Source: https://docs.aws.amazon.com/lambda/latest/dg/chapter-layers.html (2026-11)

    Raises:
        ValueError: Two layers have an entry of the same name, which is not played.
    """
    opt.mkdir(parents=True)
    for layer in layers:
        for entry in sorted(layer.iterdir()):
            if (opt / entry.name).exists():
                raise ValueError(f"layers of {opt}: entries must have names of their own, got {entry.name!r} twice")
            (opt / entry.name).symlink_to(entry.resolve())
    _start_scripts(opt)
    return opt


def search_path(opt: Path) -> str:
    """Return a PATH with the programs of layers, and with none of this machine, which may have a kubectl of its own.

    Handlers put ``/opt/kubectl`` and the like before the PATH that they find. There is no such folder here, so that
    what follows is taken: every folder of the stand-in, whether the handler names it or not.
    """
    return os.pathsep.join(str(each) for each in [opt / STARTERS, *sorted(opt.glob("[!.]*"))] if each.is_dir())


def _start_scripts(opt: Path) -> None:
    """Write a starter for each program that names Lambda's Python, on which it runs here."""
    starters = opt / STARTERS
    starters.mkdir()
    for program in sorted(opt.glob("*/*")):
        if program.is_file() and os.access(program, os.X_OK) and _first_line_names_python(program):
            starter = starters / program.name
            starter.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{program}" "$@"\n')
            starter.chmod(0o755)


def _first_line_names_python(program: Path) -> bool:
    with program.open("rb") as opened:
        return bool(_LAMBDAS_PYTHON.match(opened.read(64)))
