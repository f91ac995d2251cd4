"""Where in a container a volume appears, and what of it."""

from __future__ import annotations

import hashlib
import posixpath
import re
from typing import Any

# Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#volumes-1 (2026-11)
_PATH = re.compile(r"(/[^:\x00-\x1f/]+)+/?")
_VOLUME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LONGEST_BEGINNING = 54


def refuse_unless_mount_path(who: object, path: object) -> None:
    """Refuse what is no place for a volume.

    Raises:
        TypeError: ``path`` is no string.
        ValueError: It is relative, the whole container, goes upwards, or has a colon.
    """
    if not isinstance(path, str):
        raise TypeError(f"{who}: path must be a string, got {path!r}")
    if not _PATH.fullmatch(path) or ".." in path.split("/"):
        raise ValueError(
            f"{who}: path must be absolute, below '/', and have no '..', ':' or '//', got {path!r}; write one such as "
            "'/models'"
        )


def refuse_unless_sub_path(who: object, sub_path: object) -> None:
    """Refuse what is no path inside a volume.

    Raises:
        TypeError: ``sub_path`` is neither a string nor absent.
        ValueError: It is empty, absolute, or goes upwards.
    """
    if sub_path is None:
        return
    if not isinstance(sub_path, str):
        raise TypeError(f"{who}: sub_path must be a string, got {sub_path!r}")
    if not sub_path or sub_path.startswith("/") or ".." in sub_path.split("/"):
        raise ValueError(f"{who}: sub_path must be relative to the volume and have no '..', got {sub_path!r}")


def same_place(path: str) -> str:
    """Return a path as it is compared with others: ``/models/`` is ``/models``."""
    return posixpath.normpath(path)


def volume_name(kind: str, name: str) -> str:
    """Return what a pod calls a volume: a name with dots, or a long one, gets a hash."""
    plain = f"{kind}-{name}"
    if _VOLUME.fullmatch(plain):
        return plain
    beginning = plain.replace(".", "-")[:_LONGEST_BEGINNING].rstrip("-")
    return f"{beginning}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def volume_mount(volume: str, path: str, *, read_only: bool, sub_path: str | None = None) -> dict[str, Any]:
    """Return the mount as Kubernetes spells it."""
    found: dict[str, Any] = {"mountPath": path, "name": volume}
    if read_only:
        found["readOnly"] = True
    if sub_path is not None:
        found["subPath"] = sub_path
    return found
