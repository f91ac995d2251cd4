"""The image from which an instance boots, as far as its name and description tell.

Sources: https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html,
https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id-bottlerocket.html
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Image:
    """An image.

    Attributes:
        said: Its name and description; empty where nobody knows them.
    """

    said: str

    @property
    def is_bottlerocket(self) -> bool:
        """Whether its user data is settings."""
        return "bottlerocket" in self.said

    @property
    def has_driver(self) -> bool:
        """Whether NVIDIA's driver is in it. Of one that is somebody's own that is believed."""
        is_of_eks = self.is_bottlerocket or "al2023" in self.said
        return "nvidia" in self.said or not is_of_eks
