"""Storage that outlives pods, inside one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpu_constructs.workloads.parts.mount_path import (
    refuse_unless_mount_path,
    refuse_unless_sub_path,
    volume_mount,
    volume_name,
)
from gpu_facts.kubernetes import refuse_unless_dotted_name
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import instead_of, refuse_unless_bool


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
        refuse_unless_dotted_name(who, "claim", self.claim, fix=instead_of(self.claim, "S3Volume", "name"))
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
