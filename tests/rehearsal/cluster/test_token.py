"""Tokens of AWS, signed by botocore as ``aws eks get-token`` does."""

from __future__ import annotations

import base64
from datetime import datetime, timedelta, timezone

import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from gpu_rehearsal.cluster.identities import BadToken, read_token


def signed(cluster: str = "training", *, action: str = "GetCallerIdentity", secret: str = "secret") -> str:
    url = f"http://127.0.0.1:5000/?Action={action}&Version=2011-06-15"
    request = AWSRequest("GET", url, headers={"x-k8s-aws-id": cluster} if cluster else {})
    SigV4QueryAuth(Credentials("AKIAONE", secret, "session/+="), "sts", "us-east-1", expires=60).add_auth(request)
    return "k8s-aws-v1." + base64.urlsafe_b64encode(request.url.encode()).decode().rstrip("=")


def now() -> datetime:
    return datetime.now(timezone.utc)


def test_a_token_tells_whose_key_signed_it() -> None:
    token = read_token(signed(), now=now())

    token.check("training", "secret")
    assert token.access_key == "AKIAONE"


@pytest.mark.parametrize(("cluster", "secret"), [("other", "secret"), ("training", "stolen")])
def test_a_token_is_for_one_cluster_and_of_one_key(cluster: str, secret: str) -> None:
    with pytest.raises(BadToken, match="was not signed for cluster training"):
        read_token(signed(cluster, secret=secret), now=now()).check("training", "secret")


def test_a_token_for_no_cluster_is_none() -> None:
    with pytest.raises(BadToken, match="names no cluster"):
        read_token(signed(""), now=now())


def test_a_token_lasts_a_quarter_of_an_hour() -> None:
    read_token(signed(), now=now() + timedelta(minutes=14))
    with pytest.raises(BadToken, match="has expired or isn't valid yet"):
        read_token(signed(), now=now() + timedelta(minutes=16))


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("eyJhbGciOiJSUzI1NiJ9.e30.sig", "does not begin with k8s-aws-v1"),
        ("k8s-aws-v1.%", "isn't base64|doesn't sign a call"),
        (signed(action="AssumeRole"), "doesn't sign a call of GetCallerIdentity"),
    ],
)
def test_what_is_no_token(written: str, reason: str) -> None:
    with pytest.raises(BadToken, match=reason):
        read_token(written, now=now())
