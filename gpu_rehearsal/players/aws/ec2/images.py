"""Images that EKS and Bottlerocket publish, their releases, and the parameters of SSM that name them.

Sources: https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html,
https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id-bottlerocket.html
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any

from moto.ec2.models.amis import Ami

from gpu_rehearsal.players.aws.api import AwsRefusal, Request, Unplayed, plays
from gpu_rehearsal.players.aws.region import Region, kept_by_moto

_DATES = """
20240227 20240307 20240315 20240329 20240409 20240415 20240424 20240506 20240514 20240522 20240531 20240605 20240615
20240625 20240703 20240729 20240807 20240817 20240828 20240904 20240910 20240917 20240924 20240928 20241011 20241016
20241024 20241106 20241109 20241115 20241121 20241205 20241213 20241225 20250103 20250116 20250123 20250203 20250212
20250224 20250228 20250304 20250317 20250403 20250410 20250419 20250501 20250505 20250514 20250519 20250610 20250620
20250627 20250704 20250715 20250801 20250804 20250807 20250813 20250819 20250821 20250829 20250904 20250915 20250920
20251002 20251007 20251016 20251023 20251029 20251103 20251108 20251112 20251120 20251209 20251217 20260107 20260114
20260116 20260120 20260128 20260129 20260209 20260224 20260304 20260310 20260311 20260318 20260403 20260409 20260415
20260423 20260505 20260512 20260520 20260523 20260527 20260529 20260610 20260618 20260625 20260707 20260709 20260714
20260724
"""
_RELEASES = frozenset(_DATES.split())
LAST_LISTED = max(_RELEASES)
_DATE = re.compile(r"[-v](\d{8})$")


def is_published(release: str) -> bool:
    """Whether there may be a release of AL2023: it is listed, or later than the list.

    Args:
        release: ``1.36.2-20260714``, or the name of an image that ends in ``v20260714``.
    """
    found = _DATE.search(release)
    return found is None or found[1] > LAST_LISTED or found[1] in _RELEASES


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
# Size of the snapshot that an image boots from. Bottlerocket's is 4 GiB in some variants.
# Sources: https://github.com/awslabs/amazon-eks-ami/pull/1581,
# https://github.com/aws/karpenter-provider-aws/issues/3302 and /7928 (2026-11)
_SNAPSHOT_GIB = {_OWNER["al2023"]: 20, _OWNER["bottlerocket"]: 2}


def check_image(image: Ami, kind: Mapping[str, Any], disks: Iterable[Mapping[str, Any]]) -> None:
    """Reject an instance that can't boot an image published here.

    Sources of the words: https://github.com/eksctl-io/eksctl/issues/8235,
    https://github.com/cilium/cilium/pull/43051 (2026-11)

    Args:
        image: The image; those that others published aren't checked.
        kind: The instance type, as DescribeInstanceTypes returns it.
        disks: Block device mappings.

    Raises:
        AwsRefusal: The type has another architecture, or the root volume is smaller than the snapshot.
    """
    least = _SNAPSHOT_GIB.get(image.owner_id)
    if least is None:
        return
    architectures = kind["ProcessorInfo"]["SupportedArchitectures"]
    if image.architecture not in architectures:
        message = (
            f"The architecture '{', '.join(architectures)}' of the specified instance type does not match the "
            f"architecture '{image.architecture}' of the specified AMI. Specify an instance type and an AMI that have "
            "matching architectures, and try again."
        )
        raise AwsRefusal("InvalidParameterValue", message)
    for each in disks:
        size = (each.get("Ebs") or {}).get("VolumeSize")
        if each.get("DeviceName") == image.root_device_name and size is not None and int(size) < least:
            snapshot = image.ebs_snapshot.id
            message = f"Volume of size {size}GB is smaller than snapshot '{snapshot}', expect size>= {least}GB"
            raise AwsRefusal("InvalidBlockDeviceMapping", message)


class Images:
    """The public images of a region."""

    def __init__(self, region: Region) -> None:
        self._region = region

    @plays("ssm", "GetParameter")
    def parameter(self, request: Request) -> Mapping[str, Any] | None:
        """Return the image that a public parameter names; other parameters are moto's."""
        name = str(request.parameters["Name"])
        if not name.startswith(("/aws/service/eks/", "/aws/service/bottlerocket/")):
            return None
        found = _AL2023.fullmatch(name)
        if found and is_published(found["release"]):
            image = self.image("al2023", found["arch"], found["variant"], found["minor"], found["release"])
        elif found := _BOTTLEROCKET.fullmatch(name):
            image = self.image("bottlerocket", found["arch"], found["variant"] or "", found["minor"], found["release"])
        else:
            raise AwsRefusal("ParameterNotFound", f"{name} is no parameter of a published image")
        told = {"Name": name, "Type": "String", "Value": image, "Version": 1, "DataType": "text"}
        return {"Parameter": told | {"ARN": f"arn:aws:ssm:{self._region.name}::parameter{name}"}}

    def architecture(self, ami_type: str) -> str:
        """Return the architecture of a managed group's AMI type.

        Raises:
            AwsRefusal: No image of this type is played.
        """
        if ami_type not in AMI_TYPES:
            raise Unplayed(f"the AMI type {ami_type}")
        return AMI_TYPES[ami_type][1]

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
        if system == "al2023" and release and not (release.startswith(f"{minor}.") and is_published(release)):
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
