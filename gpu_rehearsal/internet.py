"""Hosts of charts behind a proxy: packed charts as an OCI registry and as a repository with an index."""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from ssl import SSLError
from typing import Any
from urllib.parse import urlsplit

import yaml

from gpu_rehearsal.credentials import Authority
from gpu_rehearsal.processes import LOOPBACK, Handler, Server

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_HELM = "application/vnd.cncf.helm"
_REGISTRY = re.compile(r"/v2/(?P<repository>.+)/(?P<what>manifests|blobs)/(?P<reference>[^/]+)")


@dataclass(frozen=True, slots=True)
class Content:
    """The response to a request.

    Attributes:
        kind: Media type.
        body: Bytes.
    """

    kind: str
    body: bytes

    @property
    def digest(self) -> str:
        """Its digest in a registry."""
        return f"sha256:{hashlib.sha256(self.body).hexdigest()}"


class Charts:
    """Packed charts of one folder, for every registry and repository.

    The address of a chart isn't checked: every address that ends in its name returns the same file.

    Args:
        folder: Holds ``<name>-<version>.tgz``; ``None`` for no chart at all.
    """

    def __init__(self, folder: Path | None) -> None:
        files = sorted(folder.glob("*.tgz")) if folder else []
        self._packed = {
            (metadata["name"], str(metadata["version"])): (metadata, file)
            for file in files
            if (metadata := _chart_metadata(file))
        }

    def has(self, name: str, version: str) -> bool:
        """Whether a version of a chart is in the folder. A leading ``v``, which some registries add, is ignored."""
        return self._find(name, version) is not None

    def file(self, name: str, version: str) -> Path:
        """Return the packed chart.

        Raises:
            KeyError: It isn't in the folder.
        """
        found = self._find(name, version)
        if found is None:
            raise KeyError(f"no chart {name} {version} in the folder of charts")
        return self._packed[found][1]

    def answer(self, path: str) -> Content | None:
        """Return the response to a request to a registry or repository; ``None`` if nothing is found."""
        if path in ("/v2", "/v2/"):
            return Content("application/json", b"{}")
        match = _REGISTRY.fullmatch(path)
        if match:
            return self._registry_content(match["repository"].rpartition("/")[2], match["what"], match["reference"])
        last = path.rpartition("/")[2]
        if last == "index.yaml":
            return Content("text/yaml", yaml.safe_dump(self._index()).encode())
        files = {file.name: file for _, file in self._packed.values()}
        return Content("application/gzip", files[last].read_bytes()) if last in files else None

    def _find(self, name: str, version: str) -> tuple[str, str] | None:
        bare = version.removeprefix("v")
        return next((key for key in self._packed if key[0] == name and key[1].removeprefix("v") == bare), None)

    def _registry_content(self, name: str, what: str, reference: str) -> Content | None:
        versions = [version for held, version in self._packed if held == name]
        if what == "manifests" and not reference.startswith("sha256:"):
            found = self._find(name, reference)
            return self._manifest(*found) if found else None
        held = [each for version in versions for each in self._parts(name, version)]
        return next((each for each in held if each.digest == reference), None)

    def _parts(self, name: str, version: str) -> list[Content]:
        """Return the contents of a registry for one chart: its manifest, its configuration and the chart."""
        return [self._manifest(name, version), self._configuration(name, version), self._layer(name, version)]

    def _layer(self, name: str, version: str) -> Content:
        return Content("application/octet-stream", self._packed[name, version][1].read_bytes())

    def _configuration(self, name: str, version: str) -> Content:
        metadata = self._packed[name, version][0]
        body = {key: metadata[key] for key in ("name", "version", "apiVersion")}
        return Content("application/octet-stream", json.dumps(body).encode())

    def _manifest(self, name: str, version: str) -> Content:
        layer, configuration = self._layer(name, version), self._configuration(name, version)
        body = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _described(configuration, f"{_HELM}.config.v1+json"),
            "layers": [_described(layer, f"{_HELM}.chart.content.v1.tar+gzip")],
        }
        return Content(_MANIFEST, json.dumps(body).encode())

    def _index(self) -> dict[str, Any]:
        """Return the index of a repository that holds every chart.

        Source: https://helm.sh/docs/topics/chart_repository/#the-index-file
        """
        entries: dict[str, list[dict[str, Any]]] = {}
        for metadata, file in self._packed.values():
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            entries.setdefault(metadata["name"], []).append({**metadata, "urls": [file.name], "digest": digest})
        return {"apiVersion": "v1", "entries": entries}


def _described(content: Content, kind: str) -> dict[str, Any]:
    return {"mediaType": kind, "digest": content.digest, "size": len(content.body)}


def _chart_metadata(file: Path) -> Mapping[str, Any] | None:
    """Return the metadata in a packed chart."""
    with tarfile.open(file) as archive:
        own = (each for each in archive.getnames() if each.count("/") == 1 and each.endswith("/Chart.yaml"))
        name = next(own, None)
        inner = archive.extractfile(name) if name else None
        metadata = yaml.safe_load(inner.read()) if inner else None
    return metadata if isinstance(metadata, Mapping) else None


class _ChartHost(Handler):
    """Simulates a registry and a repository."""

    server: Internet

    def do_GET(self) -> None:
        """Send a chart, an index or a manifest."""
        found = self.server.charts.answer(urlsplit(self.path).path)
        content = found or Content("text/plain", b"not here")
        self.send(200 if found else 404, content.body, content.kind, Docker_Content_Digest=content.digest)

    do_HEAD = do_GET

    def do_CONNECT(self) -> None:
        """Simulate the host to which a tunnel is requested."""
        host = self.path.rpartition(":")[0]
        self.server.requested_hosts.add(host)
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
        try:
            tunnel = self.server.authority.context(host).wrap_socket(self.connection, server_side=True)
        except (SSLError, ConnectionError):
            return
        with tunnel:
            _ChartHost(tunnel, self.client_address, self.server)


class Internet(Server):
    """A proxy on loopback that simulates all hosts. All hosts have the same charts.

    Attributes:
        charts: The charts.
        authority: Signs the certificates of the hosts.
        requested_hosts: Names of the hosts to which a client connected.
    """

    def __init__(self, charts: Charts, authority: Authority) -> None:
        super().__init__(_ChartHost)
        self.charts, self.authority = charts, authority
        self.requested_hosts: set[str] = set()

    def environment(self) -> dict[str, str]:
        """Return the variables that make programs use the proxy and trust its hosts."""
        return {"HTTPS_PROXY": self.address, "NO_PROXY": f"{LOOPBACK},localhost", **self.authority.environment()}
