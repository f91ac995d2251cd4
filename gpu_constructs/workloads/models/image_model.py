"""Weights in an image."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_constructs.workloads.models.bringing import PATH, Brought, Place, pod_with
from gpu_constructs.workloads.parts.image_mount import ImageMount
from gpu_facts.named_arguments import named_arguments


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class ImageModel:
    """A model in an OCI image or artifact, mounted as an image volume, on Kubernetes 1.35 or later.

    Kubelet pulls it once for all pods of a node, as it pulls their own image. It lies where images lie: nobody counts
    it as in use, so leave room for it twice while it is unpacked.

    Attributes:
        image: The image, with digest.
        path: Where the files appear, absolute.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The path cannot be, or the image has no digest.

    Source: https://kubernetes.io/docs/tasks/configure-pod-container/image-volumes/ (2026-11)
    """

    image: str
    path: str = PATH

    def __post_init__(self) -> None:
        self._mount()

    def _mount(self) -> ImageMount:
        return ImageMount(path=self.path, image=self.image)

    @property
    def location(self) -> str:
        """What the server is told: a path."""
        return self.path

    def bring(self, place: Place) -> Brought:
        """Return the pod with its model.

        Raises:
            ValueError: Something else is at the path.
        """
        return Brought(pod=pod_with(place.pod, mount=self._mount()))
