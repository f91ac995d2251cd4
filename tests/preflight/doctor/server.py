"""An API server that serves the objects of a dump with pages, and fails on request. It records each request."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import yaml

from gpu_facts.doctor_reads import RESOURCES
from gpu_preflight.doctor.dump import read_dump

_NAMES = {kind: resource.partition(".")[0] for resource, kind in RESOURCES.items()} | {"ConfigMap": "configmaps"}


@dataclass
class Faults:
    """Faults of the server: statuses by a part of the path, and others.

    Attributes:
        status: Status by a part of the path.
        busy: How often the server answers 429 first, by a part of the path.
        gone_after: Number of requests after which the server is gone; ``None`` for never.
        broken: Parts of paths whose answer is cut in the middle.
        slow: Seconds to wait, by a part of the path.
    """

    status: Mapping[str, int] = field(default_factory=dict)
    busy: dict[str, int] = field(default_factory=dict)
    gone_after: int | None = None
    broken: tuple[str, ...] = ()
    slow: Mapping[str, float] = field(default_factory=dict)


class ApiServer:
    """The objects, the faults and the requests so far."""

    def __init__(self, paths: list[str], faults: Faults | None = None, *, page: int | None = None) -> None:
        self.objects = [dict(each.content) for each in read_dump(paths).objects]
        self.faults, self.page = faults or Faults(), page
        self.requests: list[tuple[str, str]] = []
        self._found: dict[tuple[str, str, str | None], list[dict[str, Any]]] = {}
        groups = {each.partition(".")[2] for each in RESOURCES} - {""}
        known = {str(each["apiVersion"]).partition("/")[0] for each in self.objects if "/" in str(each["apiVersion"])}
        self.groups = {
            group: self._version(group)
            for group in groups
            if group in known or group.endswith((".k8s.io", "apps", "batch", "policy", "autoscaling"))
        }
        self.groups = {
            key: value
            for key, value in self.groups.items()
            if ("kueue" not in key and "jobset" not in key) or key in known
        }

    def _version(self, group: str) -> str:
        found = (str(each["apiVersion"]) for each in self.objects if str(each["apiVersion"]).startswith(f"{group}/"))
        return next(found, f"{group}/v1").partition("/")[2]

    def answer(self, method: str, target: str) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body."""
        self.requests.append((method, target))
        path, query = urlparse(target).path, parse_qs(urlparse(target).query)
        for part, seconds in self.faults.slow.items():
            if part in path:
                time.sleep(seconds)
        for part, left in self.faults.busy.items():
            if part in path and left:
                self.faults.busy[part] = left - 1
                return 429, {"Retry-After": "1"}, b'{"message": "too many requests"}'
        for part, status in self.faults.status.items():
            if part in path:
                return status, {}, json.dumps({"message": f'{part} is forbidden: User "dev" cannot list it'}).encode()
        body = json.dumps(self._content(path, query)).encode()
        status = 404 if b'"code": 404' in body else 200
        return status, {}, body[: len(body) // 2] if any(part in path for part in self.faults.broken) else body

    def _content(self, path: str, query: Mapping[str, list[str]]) -> Any:
        if path == "/apis":
            return {
                "kind": "APIGroupList",
                "groups": [{"name": n, "preferredVersion": {"version": v}} for n, v in self.groups.items()],
            }
        parts = path.strip("/").split("/")
        group = parts[1] if parts[0] == "apis" else ""
        rest = parts[3:] if parts[0] == "apis" else parts[2:]
        namespace, rest = (rest[1], rest[2:]) if rest[0] == "namespaces" and len(rest) > 2 else (None, rest)
        key = group, rest[0], namespace
        if key not in self._found:
            self._found[key] = [each for each in self.objects if self._is(each, *key)]
        without = [each.partition("!=")[2] for each in query.get("fieldSelector", [""])[0].split(",")]
        found = [each for each in self._found[key] if each.get("status", {}).get("phase") not in without]
        if len(rest) > 1:
            named = [each for each in found if each["metadata"]["name"] == rest[1]]
            return named[0] if named else {"kind": "Status", "code": 404}
        start, size = int(query.get("continue", ["0"])[0]), self.page or int(query["limit"][0])
        following = str(start + size) if start + size < len(found) else None
        page = found[start : start + size]
        items = [{key: value for key, value in each.items() if key not in ("kind", "apiVersion")} for each in page]
        kind = next((kind for kind, name in _NAMES.items() if name == rest[0]), "Unknown")
        version = f"{group}/{parts[2]}" if group else "v1"
        metadata = {"continue": following} if following else {}
        return {
            "kind": f"{kind}List",
            "apiVersion": version,
            "metadata": metadata,
            "items": items,
        }

    def _is(self, each: Mapping[str, Any], group: str, resource: str, namespace: str | None) -> bool:
        own = str(each["apiVersion"]).partition("/")[0] if "/" in str(each["apiVersion"]) else ""
        is_there = namespace is None or each["metadata"].get("namespace") == namespace
        return own == group and _NAMES.get(str(each["kind"])) == resource and is_there


@contextmanager
def serving(server: ApiServer, folder: Path, user: Mapping[str, Any] | None = None) -> Iterator[str]:
    """Serve on a port of loopback, and yield the path of a kubeconfig for it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # One packet per answer. With several, each request waits 40 ms for an acknowledgement.
        wbufsize = 1024**2

        def handle_any(self) -> None:
            gone = server.faults.gone_after
            if gone is not None and len(server.requests) >= gone:
                self.close_connection = True
                self.connection.close()
                return
            status, headers, body = server.answer(self.command, self.path)
            self.send_response(status)
            for name, value in {
                **headers,
                "Content-Type": "application/json",
                "Content-Length": str(len(body)),
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web.daemon_threads = True
    threading.Thread(target=web.serve_forever, daemon=True).start()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "prod",
        "clusters": [{"name": "prod", "cluster": {"server": f"http://127.0.0.1:{web.server_port}"}}],
        "contexts": [{"name": "prod", "context": {"cluster": "prod", "user": "dev", "namespace": "default"}}],
        "users": [{"name": "dev", "user": dict(user or {"token": "secret-token"})}],
    }
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    try:
        yield str(file)
    finally:
        web.shutdown()
        web.server_close()
