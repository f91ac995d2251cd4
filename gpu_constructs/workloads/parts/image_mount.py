"""Files of an image, inside a pod."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from gpu_constructs.workloads.parts.mount_path import refuse_unless_mount_path, volume_mount
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import is_token, refuse_unless_image

_DIGEST = "@sha256:"


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
