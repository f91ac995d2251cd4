"""Tokens of ``aws eks get-token``: a signed call of STS, made for one cluster, that tells whose key signed it.

Source: https://github.com/kubernetes-sigs/aws-iam-authenticator/blob/master/pkg/token/token.go
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from urllib.parse import SplitResult, parse_qsl, quote, urlsplit

PREFIX = "k8s-aws-v1."
# Longer than that no token lasts, whatever it says.
_LONGEST = timedelta(minutes=15)
_NEEDED = ("X-Amz-Credential", "X-Amz-Date", "X-Amz-SignedHeaders", "X-Amz-Signature")
_CLUSTER_HEADER = "x-k8s-aws-id"


class BadToken(Exception):
    """Why a token lets nobody in."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """A token whose form is right.

    Attributes:
        url: The call that it signs.
        query: What that asks, in the order of names.
        access_key: Whose key signed.
    """

    url: SplitResult
    query: dict[str, str]
    access_key: str

    def check(self, cluster: str, secret_key: str) -> None:
        """Check that it was signed for a cluster.

        Raises:
            BadToken: It was signed for another, or with another key.
        """
        if not hmac.compare_digest(self._signature(cluster, secret_key), self.query["X-Amz-Signature"]):
            raise BadToken(f"the token of {self.access_key} was not signed for cluster {cluster}")

    def _signature(self, cluster: str, secret_key: str) -> str:
        """Sign it again.

        Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
        """
        asked = sorted((key, value) for key, value in self.query.items() if key != "X-Amz-Signature")
        query = "&".join(f"{quote(key, safe='-_.~')}={quote(value, safe='-_.~')}" for key, value in asked)
        headers = {"host": self.url.netloc, _CLUSTER_HEADER: cluster}
        signed = self.query["X-Amz-SignedHeaders"]
        lines = "".join(f"{name}:{headers.get(name, '')}\n" for name in signed.split(";"))
        body = hashlib.sha256(b"").hexdigest()
        request = f"GET\n{self.url.path or '/'}\n{query}\n{lines}\n{signed}\n{body}"
        scope = self.query["X-Amz-Credential"].partition("/")[2]
        digest = hashlib.sha256(request.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{self.query['X-Amz-Date']}\n{scope}\n{digest}"
        key = f"AWS4{secret_key}".encode()
        for part in (*scope.split("/"), text):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        return key.hex()


def read(written: str, *, now: datetime) -> Token:
    """Read a token.

    Raises:
        BadToken: It is none, or too old.
    """
    url = urlsplit(_decoded(written))
    query = dict(parse_qsl(url.query))
    missing = [each for each in _NEEDED if each not in query]
    if query.get("Action") != "GetCallerIdentity" or missing:
        raise BadToken(f"the token signs no call of GetCallerIdentity: {missing or query.get('Action')}")
    if _CLUSTER_HEADER not in query["X-Amz-SignedHeaders"].split(";"):
        raise BadToken(f"the token is for no cluster: it does not sign {_CLUSTER_HEADER}")
    made = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    if not -_LONGEST < now - made < _LONGEST:
        raise BadToken(f"the token of {made} is not of now")
    return Token(url=url, query=query, access_key=query["X-Amz-Credential"].partition("/")[0])


def _decoded(written: str) -> str:
    if not written.startswith(PREFIX):
        raise BadToken(f"the token does not begin with {PREFIX}")
    encoded = written.removeprefix(PREFIX)
    try:
        return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise BadToken(f"the token is no base64: {error}") from error
