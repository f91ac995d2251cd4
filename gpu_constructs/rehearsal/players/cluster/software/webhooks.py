"""Admission webhooks of software whose program is not here: one server stands in for all of them.

It lets everything pass once the service has a ready pod, and until then nothing, as a webhook that nobody answers; so
the order in which software and its objects come is judged, and what the webhook would say is not.
Source: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
"""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from gpu_constructs.rehearsal.players.authority import Authority
from gpu_constructs.rehearsal.players.cluster.client import Client, Object, Refused
from gpu_constructs.rehearsal.players.cluster.loop import Loop
from gpu_constructs.rehearsal.players.cluster.ports import LOOPBACK

_GROUP = "/apis/admissionregistration.k8s.io/v1"
_KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_UNAVAILABLE = 503


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    client: Client


class _Answer(BaseHTTPRequestHandler):
    """Answers what the API server asks."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        """Allow it, where the service could answer."""
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        [namespace, service] = self.path.partition("?")[0].strip("/").split("/")
        if not has_ready_pod(self.server.client, namespace, service):
            self._send(_UNAVAILABLE, f'no endpoints available for service "{service}"'.encode())
            return
        response = {"uid": review["request"]["uid"], "allowed": True}
        self._send(200, json.dumps({**review, "request": None, "response": response}).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Webhooks:
    """The webhooks of one cluster.

    Attributes:
        stood_in: Services that were stood in for, as ``namespace/name``.

    Args:
        client: An administrator of the cluster.
        authority: Vouches for the server.
    """

    def __init__(self, client: Client, authority: Authority) -> None:
        self._client = client
        self._server = _Server((LOOPBACK, 0), _Answer)
        self._server.client = client
        self._server.socket = authority.context(LOOPBACK).wrap_socket(self._server.socket, server_side=True)
        self._trusted = base64.b64encode(authority.certificate.read_bytes()).decode()
        self.stood_in: set[str] = set()
        self.loop = Loop("webhooks", self.step)

    def __enter__(self) -> Webhooks:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.loop.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.stop()
        self._server.shutdown()
        self._server.server_close()

    def step(self) -> None:
        """Have the server called instead of every service that is to be called now."""
        for kind in _KINDS:
            for found in self._client.list(f"{_GROUP}/{kind}"):
                called = [each for each in found.get("webhooks", ()) if "service" in each["clientConfig"]]
                for each in called:
                    each["clientConfig"] = self._instead(each["clientConfig"]["service"])
                if called:
                    self._client.replace(f"{_GROUP}/{kind}/{found['metadata']['name']}", found)

    def _instead(self, service: Object) -> Object:
        name = f"{service['namespace']}/{service['name']}"
        self.stood_in.add(name)
        return {"url": f"https://{LOOPBACK}:{self._server.server_address[1]}/{name}", "caBundle": self._trusted}


def has_ready_pod(client: Client, namespace: str, service: str) -> bool:
    """Whether a service has a pod that serves."""
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    try:
        slices = client.list(path, labelSelector=f"kubernetes.io/service-name={service}")
    except Refused:
        return False
    found = [each for one in slices for each in one.get("endpoints") or ()]
    return any(each.get("conditions", {}).get("ready") for each in found)
