"""Who may reach pods that serve, and how long an answer may take."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import (
    address_block,
    is_token,
    refuse_unless_bool,
    refuse_unless_instance,
    refuse_unless_whole_number,
    words,
)

# Less, and clients get errors while the load balancer still sends.
_LEAST_DRAIN = 15
# A managed group fails its update where pods take longer than 15 minutes, and the server has to end in them, too.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html (2026-11)
_USUAL_DRAIN = 300
# A load balancer may wait up to 4,000 seconds for a byte, and up to an hour for the answers of a pod that ends.
# Source: https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_TargetGroupAttribute.html (2026-11)
_LONGEST_SECONDS = 3600
_CERTIFICATE = re.compile(r"arn:[a-z-]+:(acm:[a-z0-9-]+:\d{12}:certificate/|iam::\d{12}:server-certificate/)\S+")


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Internal:
    """Clients in the VPC, and in the networks that reach it.

    Attributes:
        idle_seconds: How long a connection may carry no byte: the longest answer that is not streamed. At most 3600.
        drain_seconds: How long a pod that is to end goes on before it is told, so that it ends what it began. Fewer
            are for servers that themselves end what they began when they are told. Default: ``idle_seconds``, 15 at
            least and 300 at most: an update of a managed group gives pods 15 minutes, and then fails.
        certificate_arn: Certificate of ACM or IAM, in the region of the cluster. Default: none, and plain HTTP.
        allow: Blocks of addresses that may connect. Default: all that reach the VPC.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A number is out of range, or a certificate or block is none.
    """

    idle_seconds: int = 900
    drain_seconds: int | None = None
    certificate_arn: str | None = None
    allow: Sequence[str] = ()

    def __post_init__(self) -> None:
        _refuse_unless_seconds("internal", self.idle_seconds, self.drain_seconds)
        _refuse_unless_certificate("internal", self.certificate_arn)
        object.__setattr__(self, "allow", _blocks("internal", self.allow))


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Public:
    """Clients on the internet, those of some addresses.

    Attributes:
        allow: Blocks of addresses that may connect; everybody is ``("0.0.0.0/0",)``, and ``"::/0"`` besides in a
            cluster of IPv6, with no password of the load balancer's.
        certificate_arn: Certificate of ACM or IAM, in the region of the cluster.
        plain_http: Do without certificate: everybody on the way reads requests, keys of your API among them.
        idle_seconds: How long a connection may carry no byte: the longest answer that is not streamed. At most 3600.
        drain_seconds: How long a pod that is to end goes on before it is told, so that it ends what it began. Fewer
            are for servers that themselves end what they began when they are told. Default: ``idle_seconds``, 15 at
            least and 300 at most: an update of a managed group gives pods 15 minutes, and then fails.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: Nobody is allowed, there is neither a certificate nor ``plain_http`` or both, or a value is none.
    """

    allow: Sequence[str]
    certificate_arn: str | None = None
    plain_http: bool = False
    idle_seconds: int = 900
    drain_seconds: int | None = None

    def __post_init__(self) -> None:
        who = "public"
        blocks = _blocks(who, self.allow)
        if not blocks:
            raise ValueError(
                f"{who}: allow must name the addresses of clients, got {self.allow!r}; everybody is ('0.0.0.0/0',), "
                "with '::/0' in a cluster of IPv6"
            )
        object.__setattr__(self, "allow", blocks)
        refuse_unless_bool(who, "plain_http", self.plain_http)
        _refuse_unless_certificate(who, self.certificate_arn)
        if self.certificate_arn is None and not self.plain_http:
            raise ValueError(
                f"{who}: certificate_arn must be given, got None; make a certificate with ACM, or write "
                "plain_http=True to send requests unencrypted over the internet"
            )
        if self.certificate_arn is not None and self.plain_http:
            raise ValueError(f"{who}: plain_http must be left out with certificate_arn, got True")
        _refuse_unless_seconds(who, self.idle_seconds, self.drain_seconds)


Exposure = Internal | Public


def refuse_unless_exposure(who: object, expose: Exposure | None, *, region: str, ipv6: bool) -> None:
    """Refuse what neither says who may reach pods nor is absent.

    Args:
        who: Who asks.
        expose: What says it.
        region: Region of the load balancer.
        ipv6: Whether the load balancer has addresses of IPv6, too.

    Raises:
        TypeError: It is something else.
        ValueError: Its certificate is of another region, or its load balancer has no address that all of ``allow``
            could connect to.
    """
    if expose is None:
        return
    refuse_unless_instance(who, "expose", expose, (Internal, Public), "Internal(...) or Public(...)")
    if expose.allow and not ipv6 and all(":" in each and not is_token(each) for each in expose.allow):
        raise ValueError(
            f"{who}: expose must allow a block of IPv4 in a cluster of IPv4, where the load balancer has no other "
            f"address, got {expose.allow!r}"
        )
    arn = expose.certificate_arn
    if arn is None or is_token(arn) or is_token(region):
        return
    of = arn.split(":")[3]
    if of and of != region:
        raise ValueError(
            f"{who}: expose must have a certificate of {region!r}, where its load balancer is, got one of {of!r}"
        )


def drain_seconds(expose: Exposure) -> int:
    """Return how long a pod that is to end goes on before it is told."""
    if expose.drain_seconds is not None:
        return expose.drain_seconds
    return min(max(_LEAST_DRAIN, expose.idle_seconds), _USUAL_DRAIN)


def _refuse_unless_seconds(who: str, idle: object, drain: object) -> None:
    refuse_unless_whole_number(who, "idle_seconds", idle, least=1, most=_LONGEST_SECONDS)
    if drain is not None:
        refuse_unless_whole_number(who, "drain_seconds", drain, least=_LEAST_DRAIN, most=_LONGEST_SECONDS)


def _refuse_unless_certificate(who: str, arn: object) -> None:
    if arn is None:
        return
    if not isinstance(arn, str):
        fix = "; write certificate.certificate_arn" if hasattr(arn, "certificate_arn") else ""
        raise TypeError(f"{who}: certificate_arn must be a string, got {arn!r}{fix}")
    if not is_token(arn) and not _CERTIFICATE.fullmatch(arn):
        raise ValueError(
            f"{who}: certificate_arn must be an ARN of ACM or IAM, got {arn!r}; list yours with "
            "'aws acm list-certificates'"
        )


def _blocks(who: str, allow: object) -> tuple[str, ...]:
    blocks = words(who, "allow", allow)
    for each in blocks:
        if not is_token(each):
            address_block(who, "allow", each, example="203.0.113.0/24")
    return blocks
