"""The API server as one of a release: built from sources it calls itself v0.0.0, and charts that ask refuse it.

Everything but its version is passed on as it is, to the byte and as it comes, for helm watches what it waits for.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

from tests.e2e.client import Client
from tests.e2e.control_plane import LOOPBACK

VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.2", "platform": "linux/amd64"}
_OF_A_CONNECTION = {"connection", "transfer-encoding", "keep-alive", "content-length"}


class _Passing(BaseHTTPRequestHandler):
    """One request, passed on with the administrator's token."""

    client: ClassVar[Client]

    def do_GET(self) -> None:
        """Pass it on, unless it asks for the version."""
        if self.path.partition("?")[0] == "/version":
            self._answer(200, json.dumps(VERSION).encode())
        else:
            self._pass_on()

    def _pass_on(self) -> None:
        server = HTTPSConnection(
            LOOPBACK, self.client.port, context=ssl.create_default_context(cafile=str(self.client.certificate))
        )
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {key: value for key, value in self.headers.items() if key.lower() not in _OF_A_CONNECTION}
        headers |= {"Authorization": f"Bearer {self.client.token}", "Accept-Encoding": "identity"}
        # Either side may leave: helm when it has seen enough, the server at the end.
        with closing(server), suppress(OSError, HTTPException):
            server.request(self.command, self.path, body or None, headers)
            self._pass_back(server.getresponse())

    def _pass_back(self, answer: HTTPResponse) -> None:
        with closing(answer):
            self.send_response(answer.status)
            for key, value in answer.getheaders():
                if key.lower() not in _OF_A_CONNECTION:
                    self.send_header(key, value)
            self.end_headers()
            while part := answer.read1(65536):
                self.wfile.write(part)
                self.wfile.flush()

    do_POST = do_PUT = do_PATCH = do_DELETE = _pass_on

    def _answer(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def as_of_a_release(client: Client) -> Iterator[dict[str, object]]:
    """Return how kubectl and helm reach the server as one of a release."""
    passing = type("Passing", (_Passing,), {"client": client})
    with ThreadingHTTPServer((LOOPBACK, 0), passing) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://{LOOPBACK}:{server.server_address[1]}"
        yield {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "e2e", "cluster": {"server": address}}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": ""}}],
            "current-context": "e2e",
        }
        server.shutdown()
