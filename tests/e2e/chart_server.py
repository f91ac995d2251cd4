"""Packed charts on loopback: as a registry, and as a repository with an index."""

from __future__ import annotations

import hashlib
import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import yaml

from tests.e2e.control_plane import LOOPBACK
from tests.e2e.helm import Helm

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_HELM = "application/vnd.cncf.helm"


class _Charts(BaseHTTPRequestHandler):
    """Answers what helm asks of a registry and of a repository."""

    protocol_version = "HTTP/1.1"
    # Content type and content, by path.
    held: ClassVar[dict[str, tuple[str, bytes]]]

    def do_GET(self) -> None:
        """Send it."""
        self._send(body=True)

    def do_HEAD(self) -> None:
        """Say what would be sent."""
        self._send(body=False)

    def _send(self, *, body: bool) -> None:
        kind, content = self.held.get(self.path, ("", b""))
        self.send_response(200 if kind else 404)
        self.send_header("Content-Type", kind or "text/plain")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Docker-Content-Digest", _digest(content))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _held(chart: Path) -> dict[str, tuple[str, bytes]]:
    """What a registry holds of a chart."""
    content = chart.read_bytes()
    with tarfile.open(chart) as archive:
        inner = archive.extractfile(
            next(each for each in archive.getnames() if each.count("/") == 1 and each.endswith("Chart.yaml"))
        )
        assert inner is not None
        said = yaml.safe_load(inner.read())
    config = json.dumps({"name": said["name"], "version": said["version"], "apiVersion": said["apiVersion"]}).encode()
    layer = {"mediaType": f"{_HELM}.chart.content.v1.tar+gzip", "digest": _digest(content), "size": len(content)}
    about = {"mediaType": f"{_HELM}.config.v1+json", "digest": _digest(config), "size": len(config)}
    manifest = json.dumps({"schemaVersion": 2, "mediaType": _MANIFEST, "config": about, "layers": [layer]}).encode()
    base = f"/v2/{said['name']}"
    return {
        f"{base}/manifests/{said['version']}": (_MANIFEST, manifest),
        f"{base}/manifests/{_digest(manifest)}": (_MANIFEST, manifest),
        f"{base}/blobs/{_digest(config)}": ("application/octet-stream", config),
        f"{base}/blobs/{_digest(content)}": ("application/octet-stream", content),
    }


@contextmanager
def chart_server(helm: Helm) -> Iterator[str]:
    """Serve the packed charts, and return the host and port."""
    held = {"/v2/": ("application/json", b"{}")}
    with TemporaryDirectory() as folder:
        for chart in helm.charts.glob("*.tgz"):
            held |= _held(chart) | {f"/{chart.name}": ("application/gzip", chart.read_bytes())}
            Path(folder, chart.name).symlink_to(chart)
        helm.run("repo", "index", folder)
        held["/index.yaml"] = ("text/yaml", Path(folder, "index.yaml").read_bytes())
    handler = type("Charts", (_Charts,), {"held": held})
    with ThreadingHTTPServer((LOOPBACK, 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"{LOOPBACK}:{server.server_address[1]}"
        server.shutdown()
