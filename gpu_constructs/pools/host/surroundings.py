"""What a company's network asks of a machine: mirrors of registries, its own authorities, a proxy."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import is_token, words

_HOST = r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:\d{1,5})?"
_REGISTRY = re.compile(_HOST, re.ASCII)
_URL = re.compile(rf"https?://{_HOST}", re.ASCII)
_EXCEPTION = re.compile(r"[A-Za-z0-9.:/\[\]-]+", re.ASCII)
_CERTIFICATES = re.compile(r"(-----BEGIN CERTIFICATE-----\n[A-Za-z0-9+/=\n]+\n-----END CERTIFICATE-----\s*)+", re.ASCII)
# What no proxy may stand before: the node itself, metadata, Pod Identity, services, names in the VPC, the API server of
# clusters of IPv4 and IPv6, in China too, where .amazonwebservices.com.cn holds .api.amazonwebservices.com.cn.
# Software of nodes is written in Go, which knows addresses of IPv6 without brackets only.
# Sources: https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html,
# https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html,
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html,
# https://github.com/golang/net/blob/master/http/httpproxy/proxy.go (2026-11)
_NEVER = (
    "localhost",
    "127.0.0.1",
    "169.254.169.254",
    "169.254.170.23",
    "::1",
    "fd00:ec2::254",
    "fd00:ec2::23",
    ".svc",
    ".cluster.local",
    ".internal",
    ".eks.amazonaws.com",
    ".api.aws",
    ".eks.amazonaws.com.cn",
    ".amazonwebservices.com.cn",
)
# Source: https://docs.aws.amazon.com/eks/latest/userguide/create-node-class.html (2026-11)
_MOST_EXCEPTIONS = 50


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Proxy:
    """A proxy between the software of a node and the internet; pods are told of it by nobody.

    Attributes:
        url: Where it listens, e.g. ``http://proxy.example.com:3128``.
        no_proxy: Names and address blocks that are reached directly, beside the node, the metadata service, services of
            the cluster and its API server: the VPC's and the services' blocks, and the names of VPC endpoints.

    Raises:
        TypeError: ``no_proxy`` is no list of names.
        ValueError: ``url`` is no address of a proxy.
    """

    url: str
    no_proxy: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.url, str) or not (is_token(self.url) or _URL.fullmatch(self.url)):
            raise ValueError(f"proxy: url must be one such as 'http://proxy.example.com:3128', got {self.url!r}")
        names = words("proxy", "no_proxy", self.no_proxy)
        object.__setattr__(self, "no_proxy", names)
        for name in names:
            if not is_token(name) and not _EXCEPTION.fullmatch(name):
                raise ValueError(
                    f"proxy: no_proxy must hold names such as '.example.com' and blocks such as '10.0.0.0/16', got "
                    f"{name!r}"
                )
        if len(self.exceptions) > _MOST_EXCEPTIONS:
            raise ValueError(
                f"proxy: no_proxy must be at most {_MOST_EXCEPTIONS - len(_NEVER)} names, got {len(names)}; a dot "
                "before a domain stands for all in it"
            )

    @property
    def exceptions(self) -> tuple[str, ...]:
        """All that is reached directly."""
        return tuple(dict.fromkeys((*_NEVER, *self.no_proxy)))


def checked_mirrors(given: object) -> dict[str, tuple[str, ...]]:
    """Return the mirrors of each registry, in the order in which they are tried.

    Raises:
        TypeError: ``given`` is no mapping.
        ValueError: A registry is no host, or a mirror no address of one.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"host: registry_mirrors must map registries to addresses, got {given!r}")
    found: dict[str, tuple[str, ...]] = {}
    for registry, mirrors in given.items():
        if not isinstance(registry, str) or not _REGISTRY.fullmatch(registry):
            raise ValueError(f"host: registry_mirrors must have hosts such as 'docker.io' as keys, got {registry!r}")
        found[registry] = words("host", "registry_mirrors", [mirrors] if isinstance(mirrors, str) else mirrors)
        for mirror in found[registry] or ("",):
            if not is_token(mirror) and not _URL.fullmatch(mirror):
                raise ValueError(
                    f"host: registry_mirrors must have addresses such as 'https://mirror.example.com', got {mirror!r} "
                    f"for {registry!r}; a path is for a part of user_data"
                )
    return found


def checked_certificates(given: object) -> tuple[str, ...]:
    """Return certificates of authorities.

    Raises:
        TypeError: ``given`` is no list of texts.
        ValueError: One is no certificate, or has something else beside it.
    """
    found = words("host", "certificate_authorities", given)
    for each in found:
        if not _CERTIFICATES.fullmatch(each):
            raise ValueError(
                "host: certificate_authorities must hold certificates in PEM and nothing else, got "
                f"{each[:27]!r}...; read the file that begins with '-----BEGIN CERTIFICATE-----'"
            )
    return tuple(each.strip() + "\n" for each in found)
