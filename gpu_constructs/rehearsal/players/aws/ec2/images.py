"""Images that EKS and Bottlerocket publish, and the parameters of SSM that name them.

Which releases there are is not known here: whatever release is asked for, there is an image of it.
Sources: https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html,
https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id-bottlerocket.html
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from moto.ec2.models.amis import Ami

from gpu_constructs.rehearsal.players.aws.api.operations import plays
from gpu_constructs.rehearsal.players.aws.api.refusals import AwsRefusal, Unplayed
from gpu_constructs.rehearsal.players.aws.api.requests import Request
from gpu_constructs.rehearsal.players.aws.kept import kept_by_moto
from gpu_constructs.rehearsal.players.aws.region import Region

_AL2023 = re.compile(
    r"/aws/service/eks/optimized-ami/(?P<minor>1\.\d\d)/amazon-linux-2023/(?P<arch>x86_64|arm64)"
    r"/(?P<variant>standard|nvidia|neuron)/(?P<release>recommended|amazon-eks-node-[^/]+)/image_id"
)
_BOTTLEROCKET = re.compile(
    r"/aws/service/bottlerocket/aws-k8s-(?P<minor>1\.\d\d)(?P<variant>-nvidia|-fips|-nvidia-fips)?"
    r"/(?P<arch>x86_64|arm64)/(?P<release>[^/]+)/image_id"
)
# Image of a managed group's AMI type, as the parameters have it.
# Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html (amiType, 2026-11)
AMI_TYPES = {
    "AL2023_x86_64_STANDARD": ("al2023", "x86_64", "standard"),
    "AL2023_ARM_64_STANDARD": ("al2023", "arm64", "standard"),
    "AL2023_x86_64_NVIDIA": ("al2023", "x86_64", "nvidia"),
    "AL2023_ARM_64_NVIDIA": ("al2023", "arm64", "nvidia"),
    "AL2023_x86_64_NEURON": ("al2023", "x86_64", "neuron"),
    "BOTTLEROCKET_x86_64": ("bottlerocket", "x86_64", ""),
    "BOTTLEROCKET_ARM_64": ("bottlerocket", "arm64", ""),
    "BOTTLEROCKET_x86_64_NVIDIA": ("bottlerocket", "x86_64", "-nvidia"),
    "BOTTLEROCKET_ARM_64_NVIDIA": ("bottlerocket", "arm64", "-nvidia"),
}
# Accounts that own the images, and the disk they boot from.
# Sources: https://docs.aws.amazon.com/eks/latest/userguide/add-ons-images.html, the pages above
_OWNER = {"al2023": "602401143452", "bottlerocket": "092701018921"}


class Images:
    """The public images of a region.

    Args:
        region: Where they are.
    """

    def __init__(self, region: Region) -> None:
        self._region = region

    @plays("ssm", "GetParameter")
    def parameter(self, request: Request) -> Mapping[str, Any] | None:
        """Return the image that a public parameter names; other parameters are moto's."""
        name = str(request.parameters["Name"])
        if not name.startswith(("/aws/service/eks/", "/aws/service/bottlerocket/")):
            return None
        found = _AL2023.fullmatch(name)
        if found:
            image = self.image("al2023", found["arch"], found["variant"], found["minor"], found["release"])
        elif found := _BOTTLEROCKET.fullmatch(name):
            image = self.image("bottlerocket", found["arch"], found["variant"] or "", found["minor"], found["release"])
        else:
            raise AwsRefusal("ParameterNotFound", f"{name} is no parameter of a published image")
        told = {"Name": name, "Type": "String", "Value": image, "Version": 1, "DataType": "text"}
        return {"Parameter": told | {"ARN": f"arn:aws:ssm:{self._region.name}::parameter{name}"}}

    def of_group(self, ami_type: str, minor: str, release: str | None) -> str:
        """Return the image of a managed group.

        Args:
            ami_type: AMI type of the group.
            minor: Minor of Kubernetes, ``1.36``.
            release: Release that is asked for; ``None`` for the newest.

        Raises:
            AwsRefusal: No image of this type is played, or the release is of another minor.
        """
        if ami_type not in AMI_TYPES:
            raise Unplayed(f"the AMI type {ami_type}")
        system, arch, variant = AMI_TYPES[ami_type]
        if system == "al2023" and release and not release.startswith(f"{minor}."):
            message = f"Requested release version {release} is not valid for kubernetes version {minor}."
            raise AwsRefusal("InvalidParameterException", message)
        return self.image(system, arch, variant, minor, release or "recommended")

    def image(self, system: str, arch: str, variant: str, minor: str, release: str) -> str:
        """Return the id of an image, which is published when it is first asked for."""
        name = "-".join(filter(None, (system, arch, variant.strip("-"), minor, release)))
        identity = "ami-" + hashlib.sha256(f"{self._region.name}/{name}".encode()).hexdigest()[:17]
        kept = kept_by_moto(self._region)
        if identity not in kept.amis:
            kept.amis[identity] = Ami(
                kept,
                identity,
                name=name if release.startswith("recommended") else release,
                description=name,
                owner_id=_OWNER[system],
                owner_alias="amazon",
                public=True,
                virtualization_type="hvm",
                architecture=arch,
                root_device_type="ebs",
                root_device_name="/dev/xvda",
                region_name=self._region.name,
                creation_date=datetime.now(timezone.utc).replace(tzinfo=None),
            )
        return identity
