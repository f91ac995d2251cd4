"""What a node that EKS does not manage must be told to join its cluster."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

import aws_cdk as cdk

from gpu_constructs.facts.versions import AMI_RELEASES
from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.named_arguments import named_arguments
from gpu_constructs.refusals import address_block, is_token


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Bootstrap:
    """What CloudFormation cannot read of an imported cluster, and which image its nodes boot.

    Attributes:
        kubernetes_version: Minor version, e.g. ``1.36``. Default: the cluster's, where it is created here.
        service_cidr: Address block of its services, e.g. ``172.20.0.0/16``; ``aws eks describe-cluster`` shows it as
            ``kubernetesNetworkConfig.serviceIpv4Cidr`` or ``serviceIpv6Cidr``. Default: the cluster's, where it is
            created here with one.
        ami_release: Image release, ``v20260714`` for AL2023 or ``1.66.0`` for Bottlerocket.
            Default: the release pinned in `gpu_constructs.facts.versions`.

    Raises:
        ValueError: ``service_cidr`` is no address block.
    """

    kubernetes_version: str | None = None
    service_cidr: str | None = None
    ami_release: str | None = None

    def __post_init__(self) -> None:
        if self.service_cidr is None or is_token(self.service_cidr):
            return
        address_block("bootstrap", "service_cidr", self.service_cidr, example="172.20.0.0/16")


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Membership:
    """Everything a node is told of its cluster.

    Attributes:
        name: Name of the cluster.
        endpoint: URL of the API server.
        certificate_authority: Its certificate, base64.
        service_cidr: Address block of the services.
        image_parameter: SSM parameter with the id of the image.
    """

    name: str
    endpoint: str
    certificate_authority: str
    service_cidr: str
    image_parameter: str

    @property
    def dns_ip(self) -> str:
        """Address of the cluster's DNS: the tenth of the service block."""
        if is_token(self.service_cidr):
            # Only of IPv6, whose block ends in "::".
            return cdk.Fn.join("", [cdk.Fn.select(0, cdk.Fn.split("/", self.service_cidr)), "a"])
        return str(ipaddress.ip_network(self.service_cidr)[10])


def membership(
    cluster: ClusterRef, given: Bootstrap, *, operating_system: str, architecture: str, who: object
) -> Membership:
    """Return what a node is told, from the cluster and from what was given.

    Raises:
        ValueError: Something is neither known of the cluster nor given.
    """
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
    release = given.ami_release or AMI_RELEASES[operating_system].version
    return Membership(
        name=cluster.name_token,
        endpoint=cluster.endpoint,
        certificate_authority=cluster.certificate_authority,
        service_cidr=service_cidr,
        image_parameter=image_parameter(operating_system, architecture, version, release),
    )


def image_parameter(operating_system: str, architecture: str, version: str, release: str) -> str:
    """Return the SSM parameter that holds the id of a release of an NVIDIA image.

    Source: karpenter-provider-aws v1.14.1 pkg/providers/amifamily/al2023.go, bottlerocket.go
    """
    if operating_system == "bottlerocket":
        return f"/aws/service/bottlerocket/aws-k8s-{version}-nvidia/{architecture}/{release}/image_id"
    image = f"amazon-eks-node-al2023-{architecture}-nvidia-{version}-{release}"
    return f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{architecture}/nvidia/{image}/image_id"
