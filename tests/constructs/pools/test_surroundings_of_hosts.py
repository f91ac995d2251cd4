"""Mirrors, authorities and proxies that no node could use are refused."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import pytest

from gpu_constructs.pools import Host, Proxy
from tests.hosts import CERTIFICATE

NAMES = tuple(f"a{number}.example.com" for number in range(37))
KEY = "-----BEGIN PRIVATE KEY-----\nMC4=\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"registry_mirrors": "docker.io"}, TypeError, r"must map registries to addresses, got 'docker.io'"),
        (
            {"registry_mirrors": {"https://docker.io": "https://a"}},
            ValueError,
            "hosts as keys, got 'https://docker.io'; write one such as 'docker.io'",
        ),
        (
            {"registry_mirrors": {"docker.io": "mirror"}},
            ValueError,
            "got 'mirror' for 'docker.io'; configure a path in user_data",
        ),
        ({"registry_mirrors": {"docker.io": "https://a/v2"}}, ValueError, r"got 'https://a/v2' for 'docker.io'"),
        ({"registry_mirrors": {"docker.io": ()}}, ValueError, r"got '' for 'docker.io'"),
        ({"registry_mirrors": {"docker.io": 1}}, TypeError, r"registry_mirrors must be a list of names, got 1"),
        ({"certificate_authorities": CERTIFICATE}, TypeError, r"certificate_authorities must be a list of names"),
        (
            {"certificate_authorities": (KEY,)},
            ValueError,
            r"certificates in PEM and nothing else, got '-----BEGIN PRIV",
        ),
        ({"certificate_authorities": (CERTIFICATE + KEY,)}, ValueError, r"certificates in PEM and nothing else"),
        (
            {"certificate_authorities": ("ca.pem",)},
            ValueError,
            "got 'ca.pem'...; pass the content of the file that begins with",
        ),
        ({"proxy": "http://proxy:3128"}, TypeError, r"proxy must be a Proxy, got .*; write Proxy\(url="),
    ],
)
def test_refuses(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"host: .*{message}"):
        Host(**changes)


@pytest.mark.parametrize(
    ("says", "error", "message"),
    [
        (
            {"url": "proxy:3128"},
            ValueError,
            "url must be the address of a proxy, got 'proxy:3128'; write 'http://proxy.example.com:3128'",
        ),
        (
            {"url": "http://user:secret@proxy:3128"},
            ValueError,
            "url must be the address of a proxy, got 'http://user:secret@proxy:3128'",
        ),
        ({"url": 1}, ValueError, "url must be the address of a proxy, got 1"),
        ({"url": "http://p:1", "no_proxy": ".example.com"}, TypeError, r"no_proxy must be a list of names"),
        ({"url": "http://p:1", "no_proxy": ("a,b",)}, ValueError, "no_proxy must contain names and blocks, got 'a,b'"),
        ({"url": "http://p:1", "no_proxy": NAMES}, ValueError, r"no_proxy must be at most 36 names, got 37"),
    ],
)
def test_refuses_a_proxy(says: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"proxy: {message}"):
        Proxy(**says)


def test_accepts_the_nearest() -> None:
    proxy = Proxy(url="https://10.0.0.1:3128", no_proxy=NAMES[:36])
    host = Host(
        registry_mirrors={"registry.example.com:5000": ["http://a", "https://b:8443"]},
        certificate_authorities=(CERTIFICATE * 2,),
        proxy=proxy,
    )

    assert len(proxy.exceptions) == 50
    assert host.registry_mirrors == {"registry.example.com:5000": ("http://a", "https://b:8443")}
    assert hash(host) == hash(host)


@pytest.mark.parametrize(
    "name",
    [
        "0123456789abcdef0123456789abcdef.gr7.us-west-2.eks.amazonaws.com",
        "0123456789abcdef0123456789abcdef.eks-cluster.us-west-2.api.aws",
        "0123456789abcdef0123456789abcdef.gr7.cn-north-1.eks.amazonaws.com.cn",
        "0123456789abcdef0123456789abcdef.eks-cluster.cn-north-1.api.amazonwebservices.com.cn",
        "0123456789abcdef0123456789abcdef.eks-cluster.cn-north-1.amazonwebservices.com.cn",
    ],
)
def test_no_proxy_is_before_an_api_server(name: str) -> None:
    assert name.endswith(Proxy(url="http://p:1").exceptions)


def test_addresses_of_ipv6_are_written_as_go_reads_them() -> None:
    found = [each for each in Proxy(url="http://p:1").exceptions if ":" in each]

    assert found == ["::1", "fd00:ec2::254", "fd00:ec2::23"]
    assert all(ip_address(each) for each in found)


def test_what_only_deployment_tells_is_accepted() -> None:
    token = "${Token[TOKEN.42]}"

    assert Proxy(url=f"http://{token}:3128", no_proxy=(token,)).exceptions[-1] == token
    assert Host(registry_mirrors={"docker.io": f"https://{token}"}).registry_mirrors
