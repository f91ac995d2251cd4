"""An image of your own, where no EKS image drives the GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import is_token, refuse_unless_whole_number

_IMAGE_ID = re.compile(r"ami-[0-9a-f]{8,17}")


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class CustomImage:
    """An AMI that you build and keep up to date, in the shape of the EKS image for the operating system.

    You own what EKS otherwise does: its NVIDIA driver, container toolkit and kubelet must suit the GPU and the
    cluster's Kubernetes version, and every fix is a new image, whose id you put here. For the types of family g7 build
    it with driver 595: https://github.com/awslabs/amazon-eks-ami/blob/main/doc/usage/g7-ami.md

    Attributes:
        id: AMI id, ``ami-...``.
        driver_branch: NVIDIA driver branch in it, e.g. ``595``.

    Raises:
        TypeError: ``driver_branch`` is no whole number.
        ValueError: ``id`` is no AMI id.
    """

    id: str
    driver_branch: int

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not (is_token(self.id) or _IMAGE_ID.fullmatch(self.id)):
            raise ValueError(f"custom image: id must be an AMI id such as 'ami-0123456789abcdef0', got {self.id!r}")
        refuse_unless_whole_number("custom image", "driver_branch", self.driver_branch, least=1)
