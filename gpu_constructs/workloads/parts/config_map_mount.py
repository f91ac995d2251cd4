"""Files of a ConfigMap."""

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
