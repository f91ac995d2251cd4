"""The data with which a node that EKS doesn't manage joins its cluster."""

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

# Form of releases in the names of SSM parameters.
_PARAMETER_RELEASES: dict[OperatingSystem, re.Pattern[str]] = {
    "al2023": re.compile(r"v\d{8}", re.ASCII),
    "bottlerocket": re.compile(r"\d+\.\d+\.\d+(-[0-9a-f]{8})?", re.ASCII),
}
# Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_KubernetesNetworkConfigRequest.html
_LARGEST, _SMALLEST = 12, 24
# Index of the cluster DNS address in that block.
_DNS_INDEX = 10


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Bootstrap:
    """Attributes of an imported cluster that CloudFormation can't read, and the image release of its nodes.

    Attributes:
        kubernetes_version: Minor version, e.g. ``1.36``. Default: the cluster's, if this app creates it.
        service_cidr: Address block of its services, e.g. ``172.20.0.0/16``. ``aws eks describe-cluster`` returns it as
            ``kubernetesNetworkConfig.serviceIpv4Cidr`` or ``serviceIpv6Cidr``. Default: the cluster's, if this app
            creates it with one.
        ami_release: Image release, ``v20261012`` for AL2023 or ``1.66.0`` for Bottlerocket. Default: the release pinned
            in `gpu_facts.versions`.

    Raises:
        TypeError: An argument isn't a string.
        ValueError: ``service_cidr`` isn't an address block that EKS supports, or the version isn't supported.
    """

    kubernetes_version: str | None = None
    service_cidr: str | None = None
    ami_release: str | None = None

    def __post_init__(self) -> None:
        for argument in ("service_cidr", "ami_release"):
            value = getattr(self, argument)
            if value is not None and not isinstance(value, str):
                raise TypeError(f"bootstrap: {argument} must be a string, got {value!r}; write it as a string")
        if self.kubernetes_version is not None:
            kubernetes_minor(self.kubernetes_version, who="bootstrap")
        if self.service_cidr is not None and not is_token(self.service_cidr):
            _refuse_unless_service_cidr(self.service_cidr)


def _refuse_unless_service_cidr(given: str) -> None:
    block = address_block("bootstrap", "service_cidr", given, example="172.20.0.0/16")
    if block.version == 4 and not _LARGEST <= block.prefixlen <= _SMALLEST:
        raise ValueError(
            f"bootstrap: service_cidr must be between /{_SMALLEST} and /{_LARGEST}, got {given!r}; copy it from 'aws "
            "eks describe-cluster'"
        )
    if block.num_addresses <= _DNS_INDEX:
        raise ValueError(
            f"bootstrap: service_cidr must contain a tenth address for the cluster's DNS, got {given!r}; copy it from "
            "'aws eks describe-cluster'"
        )


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Membership:
    """Data about the cluster in a node's user data.

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
        """Address of the cluster's DNS: the tenth address of the service block."""
        if is_token(self.service_cidr):
            # Only for IPv6, whose block ends with "::".
            return cdk.Fn.join("", [cdk.Fn.select(0, cdk.Fn.split("/", self.service_cidr)), "a"])
        return str(ipaddress.ip_network(self.service_cidr)[_DNS_INDEX])


def membership(cluster: ClusterRef, given: Bootstrap, *, shape: NodeShape, who: object) -> Membership:
    """Return the bootstrap data of a node, from the cluster and from the given values.

    Raises:
        ValueError: A value is neither known for the cluster nor given, the image release doesn't exist, or the shape
            also has its own image.
    """
    if shape.image is not None and given.ami_release is not None:
        raise ValueError(
            f"{who}: bootstrap must be without ami_release if the shape has its own image, got {given.ami_release!r}; "
            "remove one"
        )
    version = cluster.kubernetes_version(given.kubernetes_version, who=who)
    service_cidr = given.service_cidr or cluster.service_cidr
    if service_cidr is None:
        raise ValueError(
            f"{who}: bootstrap must have service_cidr if the cluster states none, got None; copy it from 'aws eks "
            "describe-cluster', kubernetesNetworkConfig.serviceIpv4Cidr"
        )
    if cluster.endpoint is None or cluster.certificate_authority is None:
        raise ValueError(
            f"{who}: cluster must be imported with cluster_endpoint and cluster_certificate_authority_data, got "
            "neither or one; pass both, because a node needs them to join"
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
    if not is_token(given) and not _PARAMETER_RELEASES[operating_system].fullmatch(given):
        raise ValueError(
            f"{who}: bootstrap must have a release of {operating_system} as ami_release, got {given!r}; write one such "
            f"as {pinned!r}"
        )
    return given


def image_parameter(operating_system: str, architecture: str, version: str, release: str) -> str:
    """Return the SSM parameter with the id of an NVIDIA image release.

    Source: karpenter-provider-aws v1.14.1 pkg/providers/amifamily/al2023.go, bottlerocket.go
    """
    if operating_system == "bottlerocket":
        return f"/aws/service/bottlerocket/aws-k8s-{version}-nvidia/{architecture}/{release}/image_id"
    image = f"amazon-eks-node-al2023-{architecture}-nvidia-{version}-{release}"
    return f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{architecture}/nvidia/{image}/image_id"
