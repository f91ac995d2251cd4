"""The Kubernetes API over connections that are kept: as little of it as the tests need."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from urllib3 import HTTPSConnectionPool

Object = dict[str, Any]

JSON = "application/json"
MERGE = "application/merge-patch+json"
# JSON is YAML.
APPLY = "application/apply-patch+yaml"
NOT_FOUND = 404
# The server and the scheduler take what cores there are: more threads only wait.
THREADS = 8
REFUSALS = (400, 403, 409, 422)


class Refused(Exception):
    """What the API server says no to.

    Attributes:
        status: The HTTP status.
        message: The server's own words.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status, self.message = status, message


class Client:
    """An administrator of one API server on this machine, for any number of threads.

    Args:
        port: Port of the server on loopback.
        token: Bearer token.
        certificate: File with the certificate of the server.
    """

    def __init__(self, port: int, token: str, certificate: Path) -> None:
        self.port, self.token, self.certificate = port, token, certificate
        # The server ends a connection that is idle for 90 seconds; the pool sees that before it uses one again.
        self._connections = HTTPSConnectionPool(
            "127.0.0.1", port, ca_certs=str(certificate), maxsize=THREADS, timeout=60, retries=False
        )
        self._collections: dict[tuple[str, str], Object] = {}

    def get(self, path: str, **query: str) -> Object:
        """Read an object or a list."""
        return self._request("GET", path, None, JSON, query)

    def create(self, manifest: Object, **query: str) -> Object:
        """Create an object; a name that is taken is refused."""
        return self._request("POST", self.collection_of(manifest), manifest, JSON, query)

    def apply(self, manifest: Object) -> Object:
        """Apply an object as ``kubectl apply --server-side --validate=strict`` does."""
        query = {"fieldManager": "e2e", "fieldValidation": "Strict", "force": "true"}
        return self._request("PATCH", self.path_of(manifest), manifest, APPLY, query)

    def apply_status(self, path: str, status: Object) -> Object:
        """Set the status of an object, as its controller does."""
        return self._request("PATCH", f"{path}/status", {"status": status}, MERGE, {})

    def delete(self, path: str) -> None:
        """Delete an object, or all of a collection, at once; what is not there is deleted."""
        now = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        try:
            self._request("DELETE", path, now, JSON, {})
        except Refused as refused:
            if refused.status != NOT_FOUND:
                raise

    def path_of(self, manifest: Object) -> str:
        """Return the path of an object."""
        return f"{self.collection_of(manifest)}/{manifest['metadata']['name']}"

    def collection_of(self, manifest: Object) -> str:
        """Return the path under which the server keeps objects of that kind."""
        version = manifest["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        kind = self._kind(root, manifest["kind"])
        place = f"/namespaces/{manifest['metadata'].get('namespace', 'default')}" if kind["namespaced"] else ""
        return f"{root}{place}/{kind['name']}"

    def _kind(self, root: str, kind: str) -> Object:
        if (root, kind) not in self._collections:
            known = {each["kind"]: each for each in self.get(root)["resources"] if "/" not in each["name"]}
            if kind not in known:
                raise Refused(404, f"the server knows no {kind} in {root}")
            self._collections[root, kind] = known[kind]
        return self._collections[root, kind]

    def _request(self, method: str, path: str, body: Object | None, content: str, query: dict[str, str]) -> Object:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content, "Accept": JSON}
        sent = None if body is None else json.dumps(body)
        address = f"{path}?{urlencode(query)}"
        answer = self._connections.request(method, address, body=sent, headers=headers)
        if answer.status >= 400:
            raise Refused(answer.status, _message(answer.data))
        return dict(json.loads(answer.data)) if answer.data.startswith(b"{") else {}

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()


def _message(text: bytes) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text.decode(errors="replace")
