"""The mounts of a container, and the volumes that those of a pod need."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

from gpu_constructs.workloads.parts.claim_mount import VolumeClaimMount
from gpu_constructs.workloads.parts.config_map_mount import ConfigMapMount
from gpu_constructs.workloads.parts.image_mount import ImageMount
from gpu_constructs.workloads.parts.mount_path import same_place
from gpu_constructs.workloads.parts.scratch_mount import ScratchMount
from gpu_constructs.workloads.parts.secret_mount import SecretMount
from gpu_facts.refusals import instead_of

Mount = VolumeClaimMount | ScratchMount | ConfigMapMount | SecretMount | ImageMount
_KINDS = tuple(each.__name__ for each in get_args(Mount))


def mounts_of(who: object, mounts: object) -> tuple[Mount, ...]:
    """Return the mounts of one container, none of which hides another.

    Raises:
        TypeError: One is no mount.
        ValueError: Two are on one path.
    """
    if not isinstance(mounts, (list, tuple)):
        raise TypeError(f"{who}: mounts must be a list of mounts, got {mounts!r}")
    seen: dict[str, int] = {}
    for at, each in enumerate(mounts):
        if not isinstance(each, Mount):
            raise TypeError(f"{who}: mounts must each be one of {', '.join(_KINDS)}, got {each!r}; {_fix(each)}")
        first = seen.setdefault(same_place(each.path), at)
        if first != at:
            both = " and ".join(f"{mounts[n].path!r} of mounts[{n}], a {type(mounts[n]).__name__}" for n in (first, at))
            raise ValueError(f"{who}: mounts must each have a path of their own, got {both} [GPU408]")
    return tuple(mounts)


def _fix(wrong: object) -> str:
    if instead_of(wrong, "S3Volume", "name"):
        return "write VolumeClaimMount(path=..., claim=volume.name, read_only=True)"
    return "folders of the node cannot be mounted"


def refuse_shared_memory(who: object, mounts: Iterable[Mount]) -> None:
    """Refuse a mount where ``shm_gib`` makes one.

    Raises:
        ValueError: One is there.
    """
    if any(same_place(each.path) == "/dev/shm" for each in mounts):
        raise ValueError(f"{who}: mounts must not be at /dev/shm, which shm_gib makes, got one; write shm_gib=0")


def volumes_of(who: object, mounts: Iterable[Mount]) -> list[dict[str, Any]]:
    """Return the volumes of all mounts of a pod, each once.

    Raises:
        ValueError: Two containers say different things of one.
    """
    found: dict[str, dict[str, Any]] = {}
    for each in mounts:
        volume = each.volume()
        first = found.setdefault(volume["name"], volume)
        if first != volume:
            raise ValueError(
                f"{who}: mounts must say the same of volume {volume['name']!r} each time, got {first} and {volume}"
            )
    return list(found.values())


def scratch_gib(mounts: Iterable[Mount]) -> int:
    """Return how much of the node's disk the mounts of a pod may fill, in GiB."""
    return sum({each.name: each.size_gib for each in mounts if isinstance(each, ScratchMount)}.values())
