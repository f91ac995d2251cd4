"""Where the functions of custom resources answer CloudFormation: an address for each request, over TLS.

Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/crpg-ref-responses.html (2026-11)
"""

from __future__ import annotations

import json
import queue
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any

from gpu_constructs.rehearsal.players.authority import Authority

# Bytes that an answer may have.
MOST = 4096
_HOST = "localhost"
_STATUSES = ("SUCCESS", "FAILED")


class Answers:
    """A server that takes the answer to each request once, while its ``with`` block lasts.

    Args:
        authority: Vouches for it.
    """

    def __init__(self, authority: Authority) -> None:
        self._expected: dict[str, queue.SimpleQueue[bytes]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.socket = authority.context(_HOST).wrap_socket(self._server.socket, server_side=True)
        self._thread = Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Answers:
        """Start to serve."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Serve no longer."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def expect(self, request_id: str) -> str:
        """Return the ResponseURL of a request."""
        self._expected[request_id] = queue.SimpleQueue()
        return f"https://{_HOST}:{self._server.server_port}/{request_id}"

    def wait(self, request: Mapping[str, Any], seconds: float) -> dict[str, Any] | None:
        """Return the answer to a request, or nothing where none came in time.

        Raises:
            ValueError: CloudFormation would not take the answer.
        """
        try:
            given = self._expected[request["RequestId"]].get(timeout=max(seconds, 0))
        except queue.Empty:
            return None
        return checked(given, request)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        expected = self._expected

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                place = expected.get(self.path.strip("/"))
                given = self.rfile.read(int(self.headers["Content-Length"]))
                # The address is signed for a request without a type of content.
                allowed = place is not None and not self.headers.get("Content-Type")
                if allowed and place is not None:
                    place.put(given)
                self.send_response(200 if allowed else 403)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        return Handler


def checked(given: bytes, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer that CloudFormation would take.

    Raises:
        ValueError: It is too long, lacks a field, or answers another request.
    """
    if len(given) > MOST:
        raise ValueError(f"Response object is too long: {len(given)} bytes of at most {MOST}")
    answer: dict[str, Any] = json.loads(given)
    if answer.get("Status") not in _STATUSES:
        raise ValueError(f"Invalid response status {answer.get('Status')!r}")
    for name in ("StackId", "RequestId", "LogicalResourceId"):
        if answer.get(name) != request[name]:
            raise ValueError(f"Invalid response: {name} must be {request[name]!r}, got {answer.get(name)!r}")
    if not answer.get("PhysicalResourceId"):
        raise ValueError("Invalid PhysicalResourceId")
    if answer["Status"] == "FAILED" and not answer.get("Reason"):
        raise ValueError("Invalid response: Reason must be said of a failure")
    return answer
