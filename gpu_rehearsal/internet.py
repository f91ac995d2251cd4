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
    """What a request is answered with.

    Attributes:
        kind: Media type.
        body: Bytes.
    """

    kind: str
    body: bytes

    @property
    def digest(self) -> str:
        """The digest by which a registry names it."""
        return f"sha256:{hashlib.sha256(self.body).hexdigest()}"


class Charts:
    """Packed charts of one folder, whichever registry or repository they come from.

    Where a chart comes from is not checked: the same file answers for every address that ends in its name.

    Args:
        folder: Holds ``<name>-<version>.tgz``; ``None`` for no chart at all.
    """

    def __init__(self, folder: Path | None) -> None:
        files = sorted(folder.glob("*.tgz")) if folder else []
        self._packed = {
            (said["name"], str(said["version"])): (said, file) for file in files if (said := _chart_metadata(file))
        }

    def has(self, name: str, version: str) -> bool:
        """Whether a chart is there in that version, with or without the leading ``v`` that some registries have."""
        return self._find(name, version) is not None

    def file(self, name: str, version: str) -> Path:
        """Return the packed chart.

        Raises:
            KeyError: It is not there.
        """
        found = self._find(name, version)
        if found is None:
            raise KeyError(f"no chart {name} {version} in the folder of charts")
        return self._packed[found][1]

    def answer(self, path: str) -> Content | None:
        """Answer a request to a registry or a repository; ``None`` for what is not there."""
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
        """Return all that a registry holds of one chart: its manifest, its configuration and the chart."""
        return [self._manifest(name, version), self._configuration(name, version), self._layer(name, version)]

    def _layer(self, name: str, version: str) -> Content:
        return Content("application/octet-stream", self._packed[name, version][1].read_bytes())

    def _configuration(self, name: str, version: str) -> Content:
        said = self._packed[name, version][0]
        body = {key: said[key] for key in ("name", "version", "apiVersion")}
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
        for said, file in self._packed.values():
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            entries.setdefault(said["name"], []).append({**said, "urls": [file.name], "digest": digest})
        return {"apiVersion": "v1", "entries": entries}


def _described(content: Content, kind: str) -> dict[str, Any]:
    return {"mediaType": kind, "digest": content.digest, "size": len(content.body)}


def _chart_metadata(file: Path) -> Mapping[str, Any] | None:
    """Return what a packed chart says of itself."""
    with tarfile.open(file) as archive:
        own = (each for each in archive.getnames() if each.count("/") == 1 and each.endswith("/Chart.yaml"))
        name = next(own, None)
        inner = archive.extractfile(name) if name else None
        said = yaml.safe_load(inner.read()) if inner else None
    return said if isinstance(said, Mapping) else None


class _ChartHost(Handler):
    """Answers requests to a host as registry and as repository."""

    server: Internet

    def do_GET(self) -> None:
        """Send a chart, or what leads to it."""
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
    """A proxy on loopback, and every host behind it: all of them have the same charts.

    Attributes:
        charts: The charts.
        authority: Vouches for the hosts.
        requested_hosts: Names of the hosts that were connected to.
    """

    def __init__(self, charts: Charts, authority: Authority) -> None:
        super().__init__(_ChartHost)
        self.charts, self.authority = charts, authority
        self.requested_hosts: set[str] = set()

    def environment(self) -> dict[str, str]:
        """Return the environment by which programs go through the proxy and trust its hosts."""
        return {"HTTPS_PROXY": self.address, "NO_PROXY": f"{LOOPBACK},localhost", **self.authority.environment()}
