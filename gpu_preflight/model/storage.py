"""Storage of a cluster: PersistentVolumes and StorageClasses.

Source: https://kubernetes.io/docs/concepts/storage/persistent-volumes/ (2026-11)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_facts.light import dataclass
from gpu_facts.storage import DEFAULT_CLASS, EBS, EBS_IN_TREE, EBS_OF_AUTO_MODE, S3
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, is_true, items, known_text, mapping

EBS_PROVISIONERS = (EBS, EBS_OF_AUTO_MODE, EBS_IN_TREE)
_DEFAULT = (DEFAULT_CLASS, "storageclass.beta.kubernetes.io/is-default-class")


@dataclass(frozen=True, slots=True)
class StorageClass:
    """A StorageClass.

    Attributes:
        object: The object.
        driver: Its provisioner; ``None`` if it isn't known.
        parameters: Its parameters.
    """

    object: Object
    driver: str | None
    parameters: Mapping[str, Any]

    @property
    def is_default(self) -> bool:
        """Whether it is marked as the default."""
        return any(is_true(str(self.object.annotations.get(key))) for key in _DEFAULT)


@dataclass(frozen=True, slots=True)
class PersistentVolume:
    """A PersistentVolume.

    Attributes:
        object: The object.
        driver: Name of its CSI driver; ``None`` if it has none, or if it isn't known.
        handle: Name of the volume for the driver, as it is written.
        attributes: Its volume attributes; ``None`` if they aren't known.
        options: Names of its mount options; ``None`` if they aren't known.
        class_name: Its StorageClass, as it is written; empty without one.
        claim: Name and namespace of the claim that it is reserved for.
    """

    object: Object
    driver: str | None
    handle: Any
    attributes: Mapping[str, Any] | None
    options: tuple[str, ...] | None
    class_name: Any
    claim: Mapping[str, Any]

    @property
    def title(self) -> str:
        """Its kind and name."""
        return f"PersistentVolume {self.object.name}"

    @property
    def is_bucket(self) -> bool:
        """Whether it is a bucket that Mountpoint mounts."""
        return self.driver == S3


def read_storage_class(written: Object) -> StorageClass:
    """Return the StorageClass that an object describes."""
    return StorageClass(
        written, known_text(written.content.get("provisioner")), mapping(written.content.get("parameters"))
    )


def read_volume(written: Object) -> PersistentVolume:
    """Return the PersistentVolume that an object describes."""
    csi, options = mapping(written.spec.get("csi")), written.spec.get("mountOptions")
    attributes = csi.get("volumeAttributes")
    return PersistentVolume(
        written,
        known_text(csi.get("driver")),
        csi.get("volumeHandle"),
        None if isinstance(attributes, Unknown) else mapping(attributes),
        None if isinstance(options, Unknown) else tuple(map(_option_name, filter(known_text, items(options)))),
        written.spec.get("storageClassName", ""),
        mapping(written.spec.get("claimRef")),
    )


def _option_name(option: str) -> str:
    """Return the name of a mount option, which may be ``--name value``, ``name value`` or ``name=value``."""
    return option.lstrip("-").replace("=", " ").split(" ")[0]
