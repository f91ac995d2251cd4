"""What a node that EKS does not manage must be told to join its cluster."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

import aws_cdk as cdk

from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.pools.node_shape import NodeShape
from gpu_facts.image_releases import OperatingSystem
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import address_block, is_token
from gpu_facts.versions import AMI_RELEASES, kubernetes_minor

# How the names of SSM parameters spell a release.
_RELEASES: dict[OperatingSystem, re.Pattern[str]] = {
    "al2023": re.compile(r"v\d{8}", re.ASCII),
    "bottlerocket": re.compile(r"\d+\.\d+\.\d+(-[0-9a-f]{8})?", re.ASCII),
}
# Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_KubernetesNetworkConfigRequest.html
_LARGEST, _SMALLEST = 12, 24
# The address of the cluster's DNS in that block.
_DNS = 10


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Bootstrap:
    """What CloudFormation cannot read of an imported cluster, and which image its nodes boot.

    Attributes:
        kubernetes_version: Minor version, e.g. ``1.36``. Default: the cluster's, where it is created here.
        service_cidr: Address block of its services, e.g. ``172.20.0.0/16``; ``aws eks describe-cluster`` shows it as
            ``kubernetesNetworkConfig.serviceIpv4Cidr`` or ``serviceIpv6Cidr``. Default: the cluster's, where it is
            created here with one.
        ami_release: Image release, ``v20261012`` for AL2023 or ``1.66.0`` for Bottlerocket.
            Default: the release pinned in `gpu_facts.versions`.

    Raises:
        TypeError: An argument is no string.
        ValueError: ``service_cidr`` is no address block that EKS takes, or the version is not supported.
    """

    kubernetes_version: str | None = None
    service_cidr: str | None = None
    ami_release: str | None = None

    def __post_init__(self) -> None:
        for argument in ("service_cidr", "ami_release"):
            value = getattr(self, argument)
            if value is not None and not isinstance(value, str):
                raise TypeError(f"bootstrap: {argument} must be a string, got {value!r}")
        if self.kubernetes_version is not None:
            kubernetes_minor(self.kubernetes_version, who="bootstrap")
        if self.service_cidr is not None and not is_token(self.service_cidr):
            _refuse_unless_service_cidr(self.service_cidr)


def _refuse_unless_service_cidr(given: str) -> None:
    block = address_block("bootstrap", "service_cidr", given, example="172.20.0.0/16")
    if block.version == 4 and not _LARGEST <= block.prefixlen <= _SMALLEST:
        raise ValueError(f"bootstrap: service_cidr must be between /{_SMALLEST} and /{_LARGEST}, got {given!r}")
    if block.num_addresses <= _DNS:
        raise ValueError(f"bootstrap: service_cidr must hold the cluster's DNS at its tenth address, got {given!r}")


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Membership:
    """Everything a node is told of its cluster.

    Attributes:
        name: Name of the cluster.
        endpoint: URL of the API server.
        certificate_authority: Its certificate, base64.
        service_cidr: Address block of the services.
        kubernetes_version: Minor version of the nodes.
        ami_release: Release of the image.
        image_parameter: SSM parameter with the id of the image.
    """

    name: str
    endpoint: str
    certificate_authority: str
    service_cidr: str
    kubernetes_version: str
    ami_release: str
    image_parameter: str

    @property
    def dns_ip(self) -> str:
        """Address of the cluster's DNS: the tenth of the service block."""
        if is_token(self.service_cidr):
            # Only of IPv6, whose block ends in "::".
            return cdk.Fn.join("", [cdk.Fn.select(0, cdk.Fn.split("/", self.service_cidr)), "a"])
        return str(ipaddress.ip_network(self.service_cidr)[_DNS])


def membership(cluster: ClusterRef, given: Bootstrap, *, shape: NodeShape, who: object) -> Membership:
    """Return what a node is told, from the cluster and from what was given.

    Raises:
        ValueError: Something is neither known of the cluster nor given, there is no such release of the image, or the
            shape has an image of its own beside it.
    """
    if shape.image is not None and given.ami_release is not None:
        raise ValueError(
            f"{who}: bootstrap must be without ami_release where the shape has an image of its own, got "
            f"{given.ami_release!r}; leave one out"
        )
    version = cluster.kubernetes_version(given.kubernetes_version, who=who)
    service_cidr = given.service_cidr or cluster.service_cidr
    if service_cidr is None:
        raise ValueError(
            f"{who}: bootstrap must have service_cidr when the cluster states none, got None; 'aws eks "
            "describe-cluster' shows it as kubernetesNetworkConfig.serviceIpv4Cidr"
        )
    if cluster.endpoint is None or cluster.certificate_authority is None:
        raise ValueError(
            f"{who}: cluster must be imported with cluster_endpoint and cluster_certificate_authority_data, got "
            "neither or one; a node joins by them"
        )
    release = _release(who, given.ami_release, shape.os)
    return Membership(
        name=cluster.name_token,
        endpoint=cluster.endpoint,
        certificate_authority=cluster.certificate_authority,
        service_cidr=service_cidr,
        kubernetes_version=version,
        ami_release=release,
        image_parameter=image_parameter(shape.os, shape.architecture, version, release),
    )


def _release(who: object, given: str | None, operating_system: OperatingSystem) -> str:
    pinned = AMI_RELEASES[operating_system].version
    if given is None:
        return pinned
    # It becomes part of a dynamic reference, which CloudFormation resolves.
    if not is_token(given) and not _RELEASES[operating_system].fullmatch(given):
        raise ValueError(
            f"{who}: bootstrap must have a release of {operating_system} as ami_release, such as {pinned!r}, got "
            f"{given!r}"
        )
    return given


def image_parameter(operating_system: str, architecture: str, version: str, release: str) -> str:
    """Return the SSM parameter that holds the id of a release of an NVIDIA image.

    Source: karpenter-provider-aws v1.14.1 pkg/providers/amifamily/al2023.go, bottlerocket.go
    """
    if operating_system == "bottlerocket":
        return f"/aws/service/bottlerocket/aws-k8s-{version}-nvidia/{architecture}/{release}/image_id"
    image = f"amazon-eks-node-al2023-{architecture}-nvidia-{version}-{release}"
    return f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{architecture}/nvidia/{image}/image_id"
