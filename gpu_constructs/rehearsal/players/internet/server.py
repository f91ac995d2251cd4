"""A server of packed charts on loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from gpu_constructs.rehearsal.players.internet.charts import Charts, Content

LOOPBACK = "127.0.0.1"


class ChartServer(ThreadingHTTPServer):
    """Answers as registry and as repository.

    Args:
        charts: What it has.
        handler: What answers a request.
    """

    daemon_threads = True

    def __init__(self, charts: Charts, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__((LOOPBACK, 0), handler)
        self.charts = charts

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"http://{LOOPBACK}:{self.server_address[1]}"

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Serve, and close in the end."""
        threading.Thread(target=self.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            self.shutdown()
            self.server_close()


class ChartHost(BaseHTTPRequestHandler):
    """Answers what is asked of a host."""

    protocol_version = "HTTP/1.1"
    server: ChartServer

    def do_GET(self) -> None:
        """Send it."""
        self._send(body=True)

    def do_HEAD(self) -> None:
        """Say what would be sent."""
        self._send(body=False)

    def _send(self, *, body: bool) -> None:
        found = self.server.charts.answer(urlsplit(self.path).path)
        content = found or Content("text/plain", b"not here")
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", content.kind)
        self.send_header("Content-Length", str(len(content.body)))
        self.send_header("Docker-Content-Digest", content.digest)
        self.end_headers()
        if body:
            self.wfile.write(content.body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""
