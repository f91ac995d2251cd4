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

# Packages that the CDK's custom resource handlers require (aws-cdk-lib 2.275, 2026-11-22).
PACKAGES = {"@aws-sdk/client-ec2": "3.1169.0", "@aws-sdk/client-lambda": "3.1162.0", "@aws-sdk/client-sfn": "3.1162.0"}
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu-constructs" / "rehearsal" / "node"


def are_installed(folder: Path = CACHE) -> bool:
    """Whether a folder holds every package at its version."""
    return all(_version(folder, name) == version for name, version in PACKAGES.items())


def node_modules(folder: Path = CACHE) -> Path:
    """Return the value of NODE_PATH.

    Raises:
        LookupError: The packages aren't installed.
    """
    if not are_installed(folder):
        raise LookupError(f"{folder}: must hold {', '.join(PACKAGES)}; run 'python tools/build_rehearsal.py'")
    return folder / "node_modules"


def _version(folder: Path, name: str) -> str:
    manifest = folder / "node_modules" / name / "package.json"
    return str(json.loads(manifest.read_text())["version"]) if manifest.exists() else ""


# Cache of the user. Layers have about ten thousand files, which every play would unpack and compile again.
_UNPACKED = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu-constructs" / "rehearsal"
_WORTH_KEEPING_BYTES = 1_000_000


class Assets:
    """The files in the asset manifests of a synthesized stack, by object key.

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
        """Return a folder with the files of an object. It is created below `folder` at the first call.

        A large archive is unpacked once for all plays. Functions must not change its files: Lambda mounts them
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
            return unpacked_once(source, _UNPACKED)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            _unzip(source, target)
        return target


def unpacked_once(archive: Path, cache: Path) -> Path:
    """Return a cached folder with the files of an archive."""
    target = cache / hashlib.sha256(archive.read_bytes()).hexdigest()
    if target.exists():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        files = Path(folder) / "files"
        _unzip(archive, files)
        try:
            files.rename(target)
        except OSError:
            # Another play was faster.
            if not target.exists():
                raise
    return target


def _unzip(archive: Path, target: Path) -> None:
    """Unpack an archive with the modes of its files, which `zipfile` drops."""
    with zipfile.ZipFile(archive) as opened:
        for entry in opened.infolist():
            file = Path(opened.extract(entry, target))
            if (mode := entry.external_attr >> 16 & 0o777) and not entry.is_dir():
                file.chmod(mode)


# Lambda's path of Python, in the first line of scripts in layers.
_LAMBDAS_PYTHON = re.compile(rb"#!/var/lang/bin/python[0-9.]*\s")
# Folder of the programs that start these scripts here.
_STARTERS = ".starters"


def merge_layers(layers: Iterable[Path], opt: Path) -> Path:
    """Link the files of layers into one folder, as Lambda extracts them into ``/opt``.

    Source: https://docs.aws.amazon.com/lambda/latest/dg/chapter-layers.html (2026-11)

    Raises:
        ValueError: Two layers have an entry of the same name, which isn't simulated.
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
    """Return a PATH with the programs of layers, and without this machine's programs, which may include kubectl.

    Handlers prepend ``/opt/kubectl`` and similar folders to PATH. These don't exist here, so PATH has every folder of
    the replacement of ``/opt``.
    """
    return os.pathsep.join(str(each) for each in [opt / _STARTERS, *sorted(opt.glob("[!.]*"))] if each.is_dir())


def _start_scripts(opt: Path) -> None:
    """Write a starter for each script of Lambda's Python, which runs it on this Python."""
    starters = opt / _STARTERS
    starters.mkdir()
    for program in sorted(opt.glob("*/*")):
        if program.is_file() and os.access(program, os.X_OK) and _first_line_names_python(program):
            starter = starters / program.name
            starter.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{program}" "$@"\n')
            starter.chmod(0o755)


def _first_line_names_python(program: Path) -> bool:
    with program.open("rb") as opened:
        return bool(_LAMBDAS_PYTHON.match(opened.read(64)))
