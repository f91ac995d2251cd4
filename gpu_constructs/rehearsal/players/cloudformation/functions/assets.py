"""Files that a deployment would have put into the bucket of assets: code of functions and layers."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import zipfile
from pathlib import Path

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
