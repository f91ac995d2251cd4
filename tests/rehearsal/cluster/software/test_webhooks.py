"""The substitute for webhooks allows each request once a pod of the webhook's Service is ready, and none before."""

from __future__ import annotations

import json
import ssl
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from gpu_rehearsal.cluster.addons import Webhooks
from gpu_rehearsal.credentials import Authority

VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/kueue-system/endpointslices"


class Server:
    """Keeps the configuration of one webhook, and the endpoints of its service."""

    def __init__(self) -> None:
        service = {"namespace": "kueue-system", "name": "webhook", "path": "/validate"}
        self.configuration: dict[str, Any] = {
            "metadata": {"name": "kueue"},
            "webhooks": [{"name": "job.kb.io", "clientConfig": {"service": service}}],
        }
        self.endpoints: list[dict[str, Any]] | None = None

    def list(self, path: str, **_: str) -> list[dict[str, Any]]:
        """Return the objects of a path."""
        return {VALIDATING: [self.configuration], SLICES: [{"endpoints": self.endpoints}]}.get(path, [])

    def replace(self, path: str, manifest: dict[str, Any]) -> None:
        """Keep the configuration."""
        assert path == f"{VALIDATING}/kueue"
        self.configuration = manifest


@pytest.fixture
def server() -> Server:
    """The API server."""
    return Server()


@pytest.fixture
def webhooks(server: Server, tmp_path: Path) -> Iterator[Webhooks]:
    """The substitutes, after one poll of the API server."""
    with Webhooks(server, Authority(tmp_path)) as made:  # type: ignore[arg-type]
        made.step()
        yield made


def _review(server: Server, trusted: Path) -> dict[str, Any]:
    """Send an AdmissionReview as the API server does, and return the response."""
    [webhook] = server.configuration["webhooks"]
    body = json.dumps({"kind": "AdmissionReview", "request": {"uid": "1"}}).encode()
    context = ssl.create_default_context(cafile=str(trusted))
    with urllib.request.urlopen(f"{webhook['clientConfig']['url']}?timeout=10s", body, context=context) as answer:
        return dict(json.loads(answer.read())["response"])


@pytest.mark.parametrize("endpoints", [None, [], [{"conditions": {"ready": False}}]])
def test_nothing_passes_before_a_pod_is_ready(
    endpoints: Any, server: Server, webhooks: Webhooks, tmp_path: Path
) -> None:
    server.endpoints = endpoints

    with pytest.raises(HTTPError, match="503"):
        _review(server, tmp_path / "authority.pem")
    assert webhooks.substitutes == {"kueue-system/webhook"}


def test_everything_passes_once_a_pod_is_ready(server: Server, webhooks: Webhooks, tmp_path: Path) -> None:
    server.endpoints = [{"conditions": {"ready": True}}]

    assert _review(server, tmp_path / "authority.pem") == {"uid": "1", "allowed": True}
    assert webhooks.substitutes == {"kueue-system/webhook"}
