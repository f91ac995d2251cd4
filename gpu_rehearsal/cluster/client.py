"""A small client of the Kubernetes API with persistent connections, and loops of simulators."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

from urllib3 import HTTPHeaderDict, HTTPSConnectionPool
from urllib3.exceptions import HTTPError

from gpu_rehearsal import processes

Object = dict[str, Any]

_JSON = "application/json"
_MERGE = "application/merge-patch+json"
# JSON is YAML.
_APPLY = "application/apply-patch+yaml"
FORBIDDEN = 403
NOT_FOUND = 404
CONFLICT = 409
# The server returns this while it reads definitions that were just created.
_BUSY = 429
_TRIES, _RETRY_SECONDS = 30, 0.5
# The server and the scheduler use all cores, so more threads would only wait.
THREADS = 8


class ApiError(Exception):
    """An error that the API server returns.

    Attributes:
        status: The HTTP status.
        message: The server's message.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status, self.message = status, message


class Client:
    """A thread-safe client of one API server on this machine, with the rights of an administrator."""

    def __init__(self, port: int, token: str, certificate: Path) -> None:
        self.port, self.token, self.certificate = port, token, certificate
        # The server closes connections that are idle for 90 seconds. The pool checks that before it uses one again.
        self._connections = HTTPSConnectionPool(
            "127.0.0.1", port, ca_certs=str(certificate), maxsize=THREADS, timeout=60, retries=False
        )
        self._collections: dict[tuple[str, str], Object] = {}
        # Pairs, because a header may occur more than once.
        self._impersonated: list[tuple[str, str]] = []

    def impersonating(self, user: str, groups: Iterable[str] = (), *, node: str = "") -> Client:
        """Return a client that acts as another user, over the same connections.

        Source: https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/

        Args:
            user: Name of the user.
            groups: Groups of the user, in addition to the ones that the server adds.
            node: The node of the user's pod, which the token of a service account contains.
        """
        other = Client(self.port, self.token, self.certificate)
        other._connections, other._collections = self._connections, self._collections
        other._impersonated = [("Impersonate-User", user), *(("Impersonate-Group", each) for each in groups)]
        if node:
            other._impersonated.append(("Impersonate-Extra-authentication.kubernetes.io%2Fnode-name", node))
        return other

    def get(self, path: str, **query: str) -> Object:
        """Read an object or a list. Retry while the server is busy."""
        for _ in range(_TRIES):
            try:
                return self._request("GET", path, None, _JSON, query)
            except ApiError as error:
                if error.status != _BUSY:
                    raise
            time.sleep(_RETRY_SECONDS)
        return self._request("GET", path, None, _JSON, query)

    def list(self, path: str, **query: str) -> list[Object]:
        """Return the objects of a collection."""
        return list(self.get(path, **query)["items"])

    def find(self, path: str) -> Object | None:
        """Return an object, or ``None`` if it doesn't exist."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            return None

    def create(self, manifest: Object, **query: str) -> Object:
        """Create an object. Fails if the name exists."""
        return self._request("POST", self.collection_path(manifest), manifest, _JSON, query)

    def post(self, path: str, body: Object) -> Object:
        """Post to a subresource, and return the response."""
        return self._request("POST", path, body, _JSON, {})

    def replace(self, path: str, manifest: Object) -> Object:
        """Replace an object. Fails if it changed since it was read."""
        return self._request("PUT", path, manifest, _JSON, {})

    def patch(self, path: str, changes: Object) -> Object:
        """Merge changes into an object. A list replaces the old list."""
        return self._request("PATCH", path, changes, _MERGE, {})

    def apply(self, manifest: Object) -> Object:
        """Apply an object as ``kubectl apply --server-side --validate=strict`` does."""
        query = {"fieldManager": "e2e", "fieldValidation": "Strict", "force": "true"}
        return self._request("PATCH", self.object_path(manifest), manifest, _APPLY, query)

    def apply_status(self, path: str, status: Object) -> Object:
        """Set the status of an object, as its controller does."""
        return self._request("PATCH", f"{path}/status", {"status": status}, _MERGE, {})

    def delete(self, path: str) -> None:
        """Delete an object or a whole collection at once, without an error if it doesn't exist."""
        now = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        try:
            self._request("DELETE", path, now, _JSON, {})
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise

    def object_path(self, manifest: Object) -> str:
        """Return the path of an object."""
        return f"{self.collection_path(manifest)}/{manifest['metadata']['name']}"

    def collection_path(self, manifest: Object) -> str:
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
                raise ApiError(404, f"the server has no {kind} in {root}")
            self._collections[root, kind] = known[kind]
        return self._collections[root, kind]

    def _request(self, method: str, path: str, body: Object | None, content: str, query: dict[str, str]) -> Object:
        headers = HTTPHeaderDict({"Authorization": f"Bearer {self.token}", "Content-Type": content, "Accept": _JSON})
        for name, value in self._impersonated:
            headers.add(name, value)
        sent = None if body is None else json.dumps(body)
        address = f"{path}?{urlencode(query)}"
        answer = self._connections.request(method, address, body=sent, headers=headers)
        if answer.status >= 400:
            raise ApiError(answer.status, _message(answer.data))
        return dict(json.loads(answer.data)) if answer.data.startswith(b"{") else {}

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()


def _message(text: bytes) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text.decode(errors="replace")


POLL_SECONDS = 0.2


class Loop:
    """A step that is repeated in its own thread.

    Attributes:
        errors: Distinct errors of the API server. The step was retried after each.
    """

    def __init__(self, name: str, step: Callable[[], None], *, seconds: float = POLL_SECONDS) -> None:
        self.errors: dict[str, None] = {}
        self._step, self._seconds = step, seconds
        self._stopping, self._failure = threading.Event(), list[BaseException]()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current step.

        Raises:
            RuntimeError: A step failed, so the loop had ended.
        """
        self._stopping.set()
        self._thread.join()
        self.check()

    def check(self) -> None:
        """Fail if a step failed.

        Raises:
            RuntimeError: A step failed.
        """
        if self._failure and not processes.stopping():
            raise RuntimeError(f"{self._thread.name} failed: {self._failure[0]}") from self._failure[0]

    def _run(self) -> None:
        while not self._stopping.wait(self._seconds):
            try:
                self._step()
            except (ApiError, HTTPError) as error:
                # Another client was faster, or the server ends. The next step reads the current state.
                self.errors[str(error)] = None
            except BaseException as error:
                self._failure.append(error)
                return


_Looped = TypeVar("_Looped", bound="Looped")


class Looped:
    """A simulator whose loop runs while its ``with`` block lasts."""

    loop: Loop

    def __enter__(self: _Looped) -> _Looped:
        self.loop.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.stop()
