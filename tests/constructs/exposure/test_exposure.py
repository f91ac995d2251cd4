"""Exposure states who can reach the pods, and rejects values that leave them open or cut responses off."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest

from gpu_constructs.exposure import Internal, Public
from gpu_constructs.exposure.load_balancer import (
    configure_graceful_shutdown,
    drain_seconds,
    ingress,
    refuse_unless_exposure,
)
from tests.schemas import validate

CERTIFICATE = "arn:aws:acm:us-east-1:111122223333:certificate/0a1b2c3d"
OFFICE = ("203.0.113.0/24",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"allow": ()},
            r"^public: allow must name the addresses of clients, got \(\); write \('0.0.0.0/0',\) for all addresses, "
            r"together",
        ),
        ({"allow": "10.0.0.0/8"}, r"^public: allow must be a list of names, got '10.0.0.0/8'; write \['10.0.0.0/8'\]$"),
        (
            {"allow": ("203.0.113.7/24",)},
            r"^public: allow must be an address block such as '203.0.113.0/24', got '203.0.113.7/24'; did you mean",
        ),
        ({"certificate_arn": None}, r"^public: certificate_arn must be given, got None; .*plain_http=True"),
        (
            {"plain_http": True},
            r"^public: plain_http must be left out with certificate_arn, got True; remove one of them$",
        ),
        ({"certificate_arn": "cert"}, r"^public: certificate_arn must be an ARN of ACM or IAM, got 'cert'; list yours"),
        ({"idle_seconds": 0}, r"^public: idle_seconds must be at least 1, got 0$"),
        ({"idle_seconds": 3601}, r"^public: idle_seconds must be at most 3600, got 3601; lower it$"),
        ({"drain_seconds": 14}, r"^public: drain_seconds must be at least 15, got 14$"),
    ],
)
def test_refuses_what_would_leave_pods_open_or_cut_answers_off(changes: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        Public(**{"allow": OFFICE, "certificate_arn": CERTIFICATE} | changes)


@pytest.mark.parametrize(
    "changes", [{"idle_seconds": 1}, {"idle_seconds": 3600}, {"drain_seconds": 15}, {"allow": ("::/0",)}]
)
def test_the_nearest_legal_values_are_taken(changes: dict[str, Any]) -> None:
    assert Public(**{"allow": OFFICE, "certificate_arn": CERTIFICATE} | changes)
    assert Internal(**changes)


def test_plain_http_for_all_addresses_must_be_explicit() -> None:
    assert Public(allow=("0.0.0.0/0",), plain_http=True).certificate_arn is None


def test_a_certificate_construct_is_no_arn() -> None:
    class Certificate:
        certificate_arn = CERTIFICATE

    with pytest.raises(TypeError, match=r"; write certificate.certificate_arn$"):
        Internal(certificate_arn=Certificate())  # type: ignore[arg-type]


def test_a_certificate_is_of_the_region_of_its_load_balancer() -> None:
    expose = Internal(certificate_arn=CERTIFICATE)

    refuse_unless_exposure("Test/Chat", expose, region="us-east-1", ipv6=False)
    refuse_unless_exposure("Test/Chat", expose, region=cdk.Aws.REGION, ipv6=False)
    refuse_unless_exposure(
        "Test/Chat", Internal(certificate_arn=cdk.Fn.import_value("arn")), region="eu-west-1", ipv6=False
    )
    with pytest.raises(
        ValueError,
        match=r"^Test/Chat: expose must have a certificate of region 'eu-west-1', got one of 'us-east-1'; create",
    ):
        refuse_unless_exposure("Test/Chat", expose, region="eu-west-1", ipv6=False)


def test_what_is_no_exposure_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^Test/Chat: expose must be Internal\(...\) or Public\(...\), got 'public'$"):
        refuse_unless_exposure("Test/Chat", "public", region="us-east-1", ipv6=False)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expose", "drain", "grace"),
    [
        (Internal(), 300, 1230),
        (Internal(idle_seconds=120), 120, 270),
        (Internal(drain_seconds=30), 30, 960),
        (Internal(idle_seconds=5), 15, 50),
    ],
)
def test_a_pod_lives_as_long_as_its_answers(expose: Internal, drain: int, grace: int) -> None:
    pod: dict[str, Any] = {"containers": [{"name": "chat", "livenessProbe": {}, "readinessProbe": {}}]}

    configure_graceful_shutdown(pod, expose)

    assert drain_seconds(expose) == drain
    assert pod["terminationGracePeriodSeconds"] == grace
    assert pod["containers"][0]["lifecycle"] == {"preStop": {"sleep": {"seconds": drain}}}
    # A server that hangs is not waited for; a readiness probe has no such field.
    assert pod["containers"][0]["livenessProbe"] == {"terminationGracePeriodSeconds": 30}
    assert pod["containers"][0]["readinessProbe"] == {}


@pytest.mark.parametrize(
    ("ipv6", "message"),
    [(False, r"must allow an IPv4 block in an IPv4 cluster, got \('2001:db8::/32',\)"), (True, None)],
)
def test_clients_have_an_address_to_connect_to(ipv6: bool, message: str | None) -> None:
    expose = Public(allow=("2001:db8::/32",), plain_http=True)
    if message is None:
        refuse_unless_exposure("Test/Chat", expose, region="us-east-1", ipv6=ipv6)
        return
    with pytest.raises(ValueError, match=f"^Test/Chat: expose {message}"):
        refuse_unless_exposure("Test/Chat", expose, region="us-east-1", ipv6=ipv6)


def said_by(expose: Internal | Public, *, ipv6: bool = False) -> dict[str, str]:
    made = ingress(
        name="chat", namespace="serve", service="chat", port="http", health_path="/health", expose=expose, ipv6=ipv6
    )
    for minor in ("1.33", "1.36"):
        validate(made, minor)
    said = made["metadata"]["annotations"]
    return {key.removeprefix("alb.ingress.kubernetes.io/"): value for key, value in said.items()}


def test_an_internal_load_balancer_is_for_the_vpc() -> None:
    said = said_by(Internal(idle_seconds=600))

    assert said["scheme"] == "internal"
    assert said["target-type"] == "ip"
    assert said["listen-ports"] == '[{"HTTP": 80}]'
    assert said["healthcheck-path"] == "/health"
    assert "idle_timeout.timeout_seconds=600" in said["load-balancer-attributes"].split(",")
    assert "deregistration_delay.timeout_seconds=600" in said["target-group-attributes"].split(",")
    assert said.keys().isdisjoint({"inbound-cidrs", "certificate-arn", "ssl-policy", "ip-address-type"})


def test_a_public_one_takes_the_clients_named_and_speaks_tls() -> None:
    said = said_by(Public(allow=("203.0.113.0/24", "2001:db8::/32"), certificate_arn=CERTIFICATE), ipv6=True)

    assert said["scheme"] == "internet-facing"
    assert said["listen-ports"] == '[{"HTTPS": 443}]'
    assert said["certificate-arn"] == CERTIFICATE
    assert said["ssl-policy"] == "ELBSecurityPolicy-TLS13-1-2-2021-06"
    assert said["inbound-cidrs"] == "203.0.113.0/24,2001:db8::/32"
    assert said["ip-address-type"] == "dualstack"
