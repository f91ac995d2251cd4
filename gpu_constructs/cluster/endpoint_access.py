"""Who reaches the API server of a cluster."""

from __future__ import annotations

from ipaddress import IPv4Network

from aws_cdk import aws_eks_v2 as eks

from gpu_constructs.cluster.network import PRIVATE
from gpu_facts.refusals import address_block, words

_LOOPBACK = IPv4Network("127.0.0.0/8")


def endpoint_access(who: object, cidrs: object) -> eks.EndpointAccess:
    """Return from where the endpoint is reached.

    Args:
        who: The cluster, for messages.
        cidrs: Blocks outside the VPC; empty for none, ``None`` for all.

    Raises:
        TypeError: ``cidrs`` is no list of words.
        ValueError: One is no block of public addresses.
    """
    if cidrs is None:
        return eks.EndpointAccess.PUBLIC_AND_PRIVATE
    blocks = words(who, "public_access_cidrs", cidrs)
    if not blocks:
        return eks.EndpointAccess.PRIVATE
    for block in blocks:
        network = address_block(who, "public_access_cidrs", block, example="203.0.113.0/24")
        if isinstance(network, IPv4Network) and any(network.subnet_of(each) for each in (*PRIVATE, _LOOPBACK)):
            raise ValueError(
                f"{who}: public_access_cidrs must be public, such as '198.51.100.7/32', got "
                f"{block!r}; from inside the VPC the endpoint is reached anyway"
            )
    return eks.EndpointAccess.PUBLIC_AND_PRIVATE.only_from(*blocks)
