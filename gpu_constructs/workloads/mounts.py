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
# Octal modes by the decimal number with the same digits.
_DECIMAL = {
    int(f"{each:o}"): each
    for each in (0o400, 0o440, 0o444, 0o500, 0o550, 0o555, 0o600, 0o640, 0o644, 0o700, 0o750, 0o755, 0o777)
}


def refuse_unless_mount_path(who: object, path: object) -> None:
    """Reject an invalid mount path.

    Raises:
        TypeError: ``path`` isn't a string.
        ValueError: It is relative, the root, contains '..', or has a colon.
    """
    if not isinstance(path, str):
        raise TypeError(f"{who}: path must be a string, got {path!r}; write one such as '/models'")
    if not _PATH.fullmatch(path) or ".." in path.split("/"):
        raise ValueError(
            f"{who}: path must be absolute, below '/', and have no '..', ':' or '//', got {path!r}; write one such as "
            "'/models'"
        )


def _refuse_unless_sub_path(who: object, sub_path: object) -> None:
    """Reject an invalid path inside a volume.

    Raises:
        TypeError: ``sub_path`` is neither a string nor `None`.
        ValueError: It is empty, absolute, or contains '..'.
    """
    if sub_path is None:
        return
    if not isinstance(sub_path, str):
        raise TypeError(f"{who}: sub_path must be a string, got {sub_path!r}; write one such as 'models/llm'")
    if not sub_path or sub_path.startswith("/") or ".." in sub_path.split("/"):
        raise ValueError(
            f"{who}: sub_path must be relative to the volume and have no '..', got {sub_path!r}; write 'folder'"
        )


def _same_place(path: str) -> str:
    """Return a path in the form for comparisons: ``/models/`` is ``/models``."""
    return posixpath.normpath(path)


def volume_name(kind: str, name: str) -> str:
    """Return the name of a volume in a pod. A name with dots, or a long one, gets a hash."""
    plain = f"{kind}-{name}"
    if _VOLUME.fullmatch(plain):
        return plain
    beginning = plain.replace(".", "-")[:_LONGEST_BEGINNING].rstrip("-")
    return f"{beginning}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _volume_mount(volume: str, path: str, *, read_only: bool, sub_path: str | None = None) -> dict[str, Any]:
    """Return the mount in Kubernetes' spelling."""
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
        path: Absolute path of the mount.
        claim: Name of an existing claim in the pod's namespace.
        read_only: Whether the container may only read it. Set it for volumes that several pods share.
        sub_path: Folder of the volume to mount. Default: the whole volume.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A path or the name is invalid.

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
        _refuse_unless_sub_path(who, self.sub_path)

    def volume(self) -> dict[str, Any]:
        """Return the volume of the pod."""
        name = volume_name("claim", self.claim)
        return {"name": name, "persistentVolumeClaim": {"claimName": self.claim}}

    def to_manifest(self) -> dict[str, Any]:
        """Return the mount of the container."""
        name = volume_name("claim", self.claim)
        return _volume_mount(name, self.path, read_only=self.read_only, sub_path=self.sub_path)


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigMapMount:
    """A ConfigMap as files, one for each key.

    Attributes:
        path: Absolute path of the files.
        config_map: Name of an existing ConfigMap in the pod's namespace. Without it the pod doesn't start.
        sub_path: Single key to mount as a file at the path. The file doesn't follow changes of the ConfigMap. Default:
            all keys.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A path or the name is invalid.

    Source: https://kubernetes.io/docs/concepts/storage/volumes/#configmap (2026-11)
    """

    path: str
    config_map: str
    sub_path: str | None = None

    def __post_init__(self) -> None:
        who = "config map mount"
        refuse_unless_mount_path(who, self.path)
        refuse_unless_dotted_name(who, "config_map", self.config_map)
        _refuse_unless_sub_path(who, self.sub_path)

    def volume(self) -> dict[str, Any]:
        """Return the volume of the pod."""
        return {"configMap": {"name": self.config_map}, "name": volume_name("config", self.config_map)}

    def to_manifest(self) -> dict[str, Any]:
        """Return the mount of the container."""
        name = volume_name("config", self.config_map)
        return _volume_mount(name, self.path, read_only=True, sub_path=self.sub_path)


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class ImageMount:
    """The content of an OCI image or artifact as read-only files, on Kubernetes 1.35 or later.

    The kubelet pulls it like the pod's own image, with the same credentials. It is on the node's disk once for all
    pods, and the kubelet removes it when it cleans up images.

    Attributes:
        path: Absolute path of the files.
        image: The image, with digest, because a tag may move between two pods.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The path is invalid, or the image has no digest.

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
                f"{who}: image must end in a digest, got {self.image!r}; write 'name{_DIGEST}...', with the digest "
                "from the registry"
            )

    @property
    def _volume_name(self) -> str:
        # A token has another text in the next synth.
        told = self.path if is_token(self.image) else self.image
        return f"image-{hashlib.sha256(told.encode()).hexdigest()[:8]}"

    def volume(self) -> dict[str, Any]:
        """Return the volume of the pod."""
        return {"image": {"pullPolicy": "IfNotPresent", "reference": self.image}, "name": self._volume_name}

    def to_manifest(self) -> dict[str, Any]:
        """Return the mount of the container."""
        return _volume_mount(self._volume_name, self.path, read_only=True)


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class ScratchMount:
    """An empty folder on the node's disk, which is deleted with the pod.

    The pod requests its size as ``ephemeral-storage``, so that the scheduler and autoscalers count it and don't use a
    node with a full disk. It is on local NVMe if the pool's `NodeShape` configures emptyDirs there, otherwise on the
    node's EBS volume. The kubelet evicts a pod that writes more.

    Attributes:
        path: Absolute path of the folder.
        size_gib: Max size of its content, in GiB.
        name: Name among the scratch folders of the pod. Containers that use the same name share the folder.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A path, the size or the name is invalid.

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
        return _volume_mount(self._volume_name, self.path, read_only=False)


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class SecretMount:
    """A Secret as files, one for each key, in the node's memory.

    Attributes:
        path: Absolute path of the files.
        secret: Name of an existing Secret in the pod's namespace. Without it the pod doesn't start.
        mode: Permissions of the files, such as ``0o400``. The decimal 400 is rejected, because it is another mode. The
            files belong to root. So a container with another user needs ``0o444``, or an ``fsGroup`` in the pod's
            ``overlay``.
        sub_path: Single key to mount as a file at the path. The file doesn't follow changes of the Secret. Default: all
            keys.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A path, the name or the mode is invalid.

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
            raise ValueError(f"{who}: mode must allow the owner to read, got {self.mode:#o}; write 0o400")
        _refuse_unless_sub_path(who, self.sub_path)

    def volume(self) -> dict[str, Any]:
        """Return the volume of the pod."""
        source = {"defaultMode": self.mode, "secretName": self.secret}
        return {"name": volume_name("secret", self.secret), "secret": source}

    def to_manifest(self) -> dict[str, Any]:
        """Return the mount of the container."""
        name = volume_name("secret", self.secret)
        return _volume_mount(name, self.path, read_only=True, sub_path=self.sub_path)


def _refuse_decimal_mode(who: str, mode: object) -> None:
    if isinstance(mode, int) and mode in _DECIMAL:
        raise ValueError(f"{who}: mode must be octal, got {mode}, which is {mode:#o}; write {_DECIMAL[mode]:#o}")


Mount = VolumeClaimMount | ScratchMount | ConfigMapMount | SecretMount | ImageMount
_KINDS = tuple(each.__name__ for each in get_args(Mount))


def parse_mounts(who: object, mounts: object) -> tuple[Mount, ...]:
    """Return the mounts of one container, none of which hides another.

    Raises:
        TypeError: A value isn't a mount.
        ValueError: Two are at one path.
    """
    if not isinstance(mounts, (list, tuple)):
        raise TypeError(f"{who}: mounts must be a list of mounts, got {mounts!r}; write [VolumeClaimMount(...)]")
    seen: dict[str, int] = {}
    for at, each in enumerate(mounts):
        if not isinstance(each, Mount):
            raise TypeError(f"{who}: mounts must each be one of {', '.join(_KINDS)}, got {each!r}; {_fix(each)}")
        first = seen.setdefault(_same_place(each.path), at)
        if first != at:
            both = " and ".join(f"{mounts[n].path!r} of mounts[{n}], a {type(mounts[n]).__name__}" for n in (first, at))
            raise ValueError(f"{who}: mounts must have different paths, got {both}; change one of them [GPU408]")
    return tuple(mounts)


def _fix(wrong: object) -> str:
    if suggest_attribute(wrong, "S3Volume", "name"):
        return "write VolumeClaimMount(path=..., claim=volume.name, read_only=True)"
    return "use a VolumeClaimMount or a ScratchMount, because you can't mount folders of the node"


def refuse_shared_memory(who: object, mounts: Iterable[Mount]) -> None:
    """Reject a mount at the path of ``shm_gib``.

    Raises:
        ValueError: A mount is at this path.
    """
    if any(_same_place(each.path) == "/dev/shm" for each in mounts):
        raise ValueError(f"{who}: mounts must not be at /dev/shm, which shm_gib creates, got one; write shm_gib=0")


def pod_volumes(who: object, mounts: Iterable[Mount]) -> list[dict[str, Any]]:
    """Return the volumes of all mounts of a pod, each once.

    Raises:
        ValueError: Two mounts define the same volume differently.
    """
    found: dict[str, dict[str, Any]] = {}
    for each in mounts:
        volume = each.volume()
        first = found.setdefault(volume["name"], volume)
        if first != volume:
            raise ValueError(
                f"{who}: mounts must define volume {volume['name']!r} the same way each time, got {first} and "
                f"{volume}; change one"
            )
    return list(found.values())


def scratch_gib(mounts: Iterable[Mount]) -> int:
    """Return the max size of the pod's mounts on the node's disk, in GiB."""
    return sum({each.name: each.size_gib for each in mounts if isinstance(each, ScratchMount)}.values())
