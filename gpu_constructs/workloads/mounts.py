"""Mounts of a container, and the volumes of its pod."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, get_args

from gpu_facts.kubernetes import refuse_unless_dotted_name, refuse_unless_object_name
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import (
    is_token,
    refuse_unless_bool,
    refuse_unless_image,
    refuse_unless_whole_number,
    suggest_attribute,
)

# Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#volumes-1 (2026-11)
_PATH = re.compile(r"(/[^:\x00-\x1f/]+)+/?")
_VOLUME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LONGEST_BEGINNING = 54
_DIGEST = "@sha256:"
_ONLY = "scratch"
_ANY_MODE = 0o777
_READ_BY_OWNER = 0o400
# Modes that files of secrets are given, by the decimal number that has their digits.
_DECIMAL = {
    int(f"{each:o}"): each
    for each in (0o400, 0o440, 0o444, 0o500, 0o550, 0o555, 0o600, 0o640, 0o644, 0o700, 0o750, 0o755, 0o777)
}


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


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class VolumeClaimMount:
    """The volume of a PersistentVolumeClaim, which outlives the pod.

    Attributes:
        path: Where it appears, absolute.
        claim: Name of an existing claim in the pod's namespace.
        read_only: Whether the container may only read it; what several pods share should be.
        sub_path: Folder of the volume that appears there. Default: all of it.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A path or the name cannot be.

    Source: https://kubernetes.io/docs/concepts/storage/persistent-volumes/ (2026-11)
    """

    path: str
    claim: str
    read_only: bool = False
    sub_path: str | None = None

    def __post_init__(self) -> None:
        who = "volume claim mount"
        refuse_unless_mount_path(who, self.path)
        refuse_unless_dotted_name(who, "claim", self.claim, fix=suggest_attribute(self.claim, "S3Volume", "name"))
        refuse_unless_bool(who, "read_only", self.read_only)
        refuse_unless_sub_path(who, self.sub_path)

    def volume(self) -> dict[str, Any]:
        """Return the volume of the pod."""
        name = volume_name("claim", self.claim)
        return {"name": name, "persistentVolumeClaim": {"claimName": self.claim}}

    def to_manifest(self) -> dict[str, Any]:
        """Return the mount of the container."""
        name = volume_name("claim", self.claim)
        return volume_mount(name, self.path, read_only=self.read_only, sub_path=self.sub_path)


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigMapMount:
    """A ConfigMap as files, one a key.

    Attributes:
        path: Where they appear, absolute.
        config_map: Name of an existing ConfigMap in the pod's namespace; without it the pod does not start.
        sub_path: The one key that appears at the path, as a file, which does not change with the ConfigMap any more.
            Default: all keys.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A path or the name cannot be.

    Source: https://kubernetes.io/docs/concepts/storage/volumes/#configmap (2026-11)
    """

    path: str
    config_map: str
    sub_path: str | None = None

    def __post_init__(self) -> None:
        who = "config map mount"
        refuse_unless_mount_path(who, self.path)
        refuse_unless_dotted_name(who, "config_map", self.config_map)
        refuse_unless_sub_path(who, self.sub_path)

    def volume(self) -> dict[str, Any]:
        """Return the volume of the pod."""
        return {"configMap": {"name": self.config_map}, "name": volume_name("config", self.config_map)}

    def to_manifest(self) -> dict[str, Any]:
        """Return the mount of the container."""
        name = volume_name("config", self.config_map)
        return volume_mount(name, self.path, read_only=True, sub_path=self.sub_path)


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class ImageMount:
    """What an OCI image or artifact holds, as files that nobody can write, on Kubernetes 1.35 or later.

    Kubelet pulls it as it pulls the pod's own image, with the same rights: it is on the node's disk once for all pods,
    and goes when kubelet cleans up images.

    Attributes:
        path: Where it appears, absolute.
        image: The image, with digest: what a tag means may change between two pods.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The path cannot be, or the image has no digest.

    Source: https://kubernetes.io/docs/tasks/configure-pod-container/image-volumes/ (2026-11)
    """

    path: str
    image: str

    def __post_init__(self) -> None:
        who = "image mount"
        refuse_unless_mount_path(who, self.path)
        refuse_unless_image(who, "image", self.image)
        if _DIGEST not in self.image and not is_token(self.image):
            raise ValueError(
                f"{who}: image must end in a digest, got {self.image!r}; write 'name{_DIGEST}...', as the registry "
                "tells it"
            )

    @property
    def _volume_name(self) -> str:
        # A token is written otherwise in the next synth.
        told = self.path if is_token(self.image) else self.image
        return f"image-{hashlib.sha256(told.encode()).hexdigest()[:8]}"

    def volume(self) -> dict[str, Any]:
        """Return the volume of the pod."""
        return {"image": {"pullPolicy": "IfNotPresent", "reference": self.image}, "name": self._volume_name}

    def to_manifest(self) -> dict[str, Any]:
        """Return the mount of the container."""
        return volume_mount(self._volume_name, self.path, read_only=True)


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class ScratchMount:
    """An empty folder on the node's disk, which is gone with the pod.

    The pod asks for its size as ``ephemeral-storage``, so that the scheduler and autoscalers know of it: it lands on no
    node whose disk others have taken. It is on local NVMe where the pool's `NodeShape` puts emptyDirs there, and on the
    node's EBS volume otherwise. A pod that writes more is evicted.

    Attributes:
        path: Where it appears, absolute.
        size_gib: The most that it holds, in GiB.
        name: What tells it from other scratch of the pod. Containers that name the same share it.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A path, the size or the name cannot be.

    Source: https://kubernetes.io/docs/concepts/storage/ephemeral-storage/ (2026-11)
    """

    path: str
    size_gib: int
    name: str = _ONLY

    def __post_init__(self) -> None:
        who = "scratch mount"
        refuse_unless_mount_path(who, self.path)
        refuse_unless_whole_number(who, "size_gib", self.size_gib, least=1)
        refuse_unless_object_name(who, "name", self.name)

    @property
    def _volume_name(self) -> str:
        return _ONLY if self.name == _ONLY else volume_name(_ONLY, self.name)

    def volume(self) -> dict[str, Any]:
        """Return the volume of the pod."""
        return {"emptyDir": {"sizeLimit": f"{self.size_gib}Gi"}, "name": self._volume_name}

    def to_manifest(self) -> dict[str, Any]:
        """Return the mount of the container."""
        return volume_mount(self._volume_name, self.path, read_only=False)


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class SecretMount:
    """A Secret as files, one a key, in the node's memory.

    Attributes:
        path: Where they appear, absolute.
        secret: Name of an existing Secret in the pod's namespace; without it the pod does not start.
        mode: Permissions of the files, such as ``0o400``; the decimal 400 is refused, which says another. They belong
            to root, so that a container of another user needs ``0o444``, or an ``fsGroup`` by the pod's ``overlay``.
        sub_path: The one key that appears at the path, as a file, which does not change with the Secret any more.
            Default: all keys.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A path, the name or the mode cannot be.

    Source: https://kubernetes.io/docs/concepts/configuration/secret/#using-secrets-as-files-from-a-pod (2026-11)
    """

    path: str
    secret: str
    mode: int = 0o444
    sub_path: str | None = None

    def __post_init__(self) -> None:
        who = "secret mount"
        refuse_unless_mount_path(who, self.path)
        refuse_unless_dotted_name(who, "secret", self.secret)
        _refuse_decimal_mode(who, self.mode)
        refuse_unless_whole_number(who, "mode", self.mode, least=0, most=_ANY_MODE, fix="write it as 0o400")
        if not self.mode & _READ_BY_OWNER:
            raise ValueError(f"{who}: mode must let the owner read, got {self.mode:#o}; write 0o400")
        refuse_unless_sub_path(who, self.sub_path)

    def volume(self) -> dict[str, Any]:
        """Return the volume of the pod."""
        source = {"defaultMode": self.mode, "secretName": self.secret}
        return {"name": volume_name("secret", self.secret), "secret": source}

    def to_manifest(self) -> dict[str, Any]:
        """Return the mount of the container."""
        name = volume_name("secret", self.secret)
        return volume_mount(name, self.path, read_only=True, sub_path=self.sub_path)


def _refuse_decimal_mode(who: str, mode: object) -> None:
    if isinstance(mode, int) and mode in _DECIMAL:
        raise ValueError(f"{who}: mode must be octal, got {mode}, which is {mode:#o}; write {_DECIMAL[mode]:#o}")


Mount = VolumeClaimMount | ScratchMount | ConfigMapMount | SecretMount | ImageMount
_KINDS = tuple(each.__name__ for each in get_args(Mount))


def parse_mounts(who: object, mounts: object) -> tuple[Mount, ...]:
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
    if suggest_attribute(wrong, "S3Volume", "name"):
        return "write VolumeClaimMount(path=..., claim=volume.name, read_only=True)"
    return "folders of the node cannot be mounted"


def refuse_shared_memory(who: object, mounts: Iterable[Mount]) -> None:
    """Refuse a mount where ``shm_gib`` makes one.

    Raises:
        ValueError: One is there.
    """
    if any(same_place(each.path) == "/dev/shm" for each in mounts):
        raise ValueError(f"{who}: mounts must not be at /dev/shm, which shm_gib makes, got one; write shm_gib=0")


def pod_volumes(who: object, mounts: Iterable[Mount]) -> list[dict[str, Any]]:
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
