"""A connection to an API server that can only read. `get` is its only verb.

lightkube reads the kubeconfig, runs the programs for credentials and checks certificates. Among the clients compared in
November 2026 it is the smallest (24 MB, 0.25 s at import).

Source: https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/ for merged files (2026-11)
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Protocol

import yaml

from gpu_preflight.reading.documents import UnusableInput
from gpu_preflight.reading.unknown import dig, mapping, mappings

_DEFAULT_FILE = "~/.kube/config"
_EXEC = "client.authentication.k8s.io/"
_FORBIDDEN, _TOO_MANY = (401, 403), 429
SECONDS_PER_REQUEST = 5.0
# Limit of the whole collection. Lists that aren't read by then are "not looked at".
SECONDS = 20.0
_MAX_WAIT = 5.0
_MISSING = "install gpu-constructs[doctor], or write a dump with 'gpu-constructs doctor --print-commands'"


class Refused(Exception):
    """A request without an answer.

    Attributes:
        status: HTTP status; 0 if there was no answer.
        is_final: Whether no other request will be answered either.
    """

    def __init__(self, text: str, status: int = 0, *, is_final: bool = False) -> None:
        super().__init__(text)
        self.status, self.is_final = status, is_final


class Api(Protocol):
    """Something that answers GET requests."""

    @property
    def time(self) -> datetime | None:
        """Its time at the first answer; ``None`` if it doesn't send that."""

    def get(self, path: str, parameters: Mapping[str, str]) -> Any:
        """Return the answer to a GET request, parsed.

        Raises:
            Refused: There is no answer.
        """


class Cluster:
    """The API server of a context of the kubeconfig.

    Args:
        context: Name of the context. Default: the current one.
        clock: Returns seconds, for the time limit.
        sleep: Waits for some seconds.
    """

    def __init__(
        self,
        context: str | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Connect to nothing yet.

        Raises:
            UnusableInput: The client isn't installed, or the kubeconfig has no such context.
        """
        try:
            import httpx2
            from lightkube.config.client_adapter import Client, ConnectionParams
            from lightkube.config.kubeconfig import KubeConfig
            from lightkube.core.exceptions import ConfigError
        except ImportError:
            raise UnusableInput(
                f"doctor needs the package lightkube to read a cluster, which is missing; {_MISSING}"
            ) from None
        config, file = read_kubeconfig()
        known = [str(each.get("name")) for each in mappings(config.get("contexts"))]
        name = context or str(config.get("current-context") or "")
        if name not in known:
            from gpu_facts.refusals import did_you_mean

            listed = ", ".join(known) or "none"
            raise UnusableInput(f"--context must be one of {listed}, got {name!r}{did_you_mean(name, known)}")
        user = _entry(config, "users", _entry(config, "contexts", name).get("user"))
        self.context, self.program = name, mapping(user.get("exec"))
        self._errors = (httpx2.HTTPError, httpx2.InvalidURL, ConfigError, OSError, ValueError, KeyError, TypeError)
        self._clock, self._sleep = clock, sleep
        self.time: datetime | None = None
        self._until = clock() + SECONDS
        try:
            single = KubeConfig.from_dict(config, fname=file).get(name)
            assert single is not None, "it must name a cluster"
            self.server = str(single.cluster.server)
            self._client = Client(single, ConnectionParams(timeout=httpx2.Timeout(SECONDS_PER_REQUEST)))
        except (*self._errors, AssertionError) as error:
            raise UnusableInput(
                f"context {name} of the kubeconfig must be usable, got {_line(error)}; {_MISSING}"
            ) from None

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def get(self, path: str, parameters: Mapping[str, str]) -> Any:
        """Return the answer to a GET request, parsed. A server that is busy is asked again once.

        Raises:
            Refused: There is no answer.
        """
        if self._clock() > self._until:
            raise Refused(f"the time limit of {SECONDS:g} s is over", is_final=True)
        for again in (True, False):
            try:
                answer = self._client.get(path, params=dict(parameters))
            except self._errors as error:
                # A program for credentials that fails does so for each request.
                raise Refused(_line(error), is_final=type(error).__name__ in ("ConfigError", "ConnectError")) from None
            self.time = self.time or _header_time(answer.headers.get("Date"))
            header = answer.headers.get("Retry-After")
            wait = min(float(header), _MAX_WAIT) if header and header.isdecimal() else 1.0
            if answer.status_code != _TOO_MANY or not again or self._clock() + wait > self._until:
                break
            self._sleep(wait)
        if answer.status_code != 200:
            raise Refused(
                _reason(answer.status_code, answer.text), answer.status_code, is_final=answer.status_code == 401
            )
        try:
            return json.loads(answer.content)
        except ValueError:
            raise Refused("the answer isn't JSON") from None


def _header_time(text: str | None) -> datetime | None:
    """Return the time in a header ``Date``; ``None`` without a valid one."""
    try:
        found = parsedate_to_datetime(text or "")
    except (ValueError, TypeError):
        return None
    return found.replace(tzinfo=found.tzinfo or timezone.utc)


def _reason(status: int, text: str) -> str:
    try:
        message = str(dig(json.loads(text), "message") or "")
    except ValueError:
        message = ""
    kind = "Forbidden: " if status in _FORBIDDEN else ""
    return f"{kind}{message or f'the server answers {status}'}"


def _line(error: BaseException) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:300]


def read_kubeconfig() -> tuple[dict[str, Any], Path]:
    """Return the merged kubeconfig, in which the first file counts, and its first file.

    Raises:
        UnusableInput: There is none, or it can't be read.
    """
    named = os.environ.get("KUBECONFIG") or _DEFAULT_FILE
    files = [Path(each).expanduser() for each in named.split(os.pathsep) if each]
    found: dict[str, Any] = {}
    first: Path | None = None
    for file in files:
        if not file.is_file():
            continue
        try:
            read = mapping(yaml.safe_load(file.read_text()))
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise UnusableInput(f"{file}: must be a kubeconfig, got {_line(error)}") from None
        first = first or file
        for key in ("clusters", "contexts", "users"):
            known = [each.get("name") for each in mappings(found.get(key))]
            added = [_absolute(each, file) for each in mappings(read.get(key)) if each.get("name") not in known]
            found[key] = [*mappings(found.get(key)), *added]
        found["current-context"] = found.get("current-context") or read.get("current-context")
    if first is None:
        listed = ", ".join(map(str, files))
        raise UnusableInput(
            f"a kubeconfig must exist, got none at {listed}; run 'aws eks update-kubeconfig --name NAME'"
        )
    return found, first


def context_namespace(context: str | None) -> str:
    """Return the namespace of a context of the kubeconfig; ``default`` if it names none.

    Args:
        context: Its name. Default: the current one.

    Raises:
        UnusableInput: There is no kubeconfig.
    """
    config, _ = read_kubeconfig()
    return str(_entry(config, "contexts", context or config.get("current-context")).get("namespace") or "default")


def _entry(config: Mapping[str, Any], part: str, name: Any) -> dict[str, Any]:
    """Return a named entry of a part of a kubeconfig, such as a context; empty without one."""
    found = (each.get(part.removesuffix("s")) for each in mappings(config.get(part)) if each.get("name") == name)
    return mapping(next(found, None))


_FILES = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


def _absolute(entry: dict[str, Any], file: Path) -> dict[str, Any]:
    """Return an entry with absolute paths, and with the version of the exec protocol that the client knows."""
    for part in ("cluster", "user"):
        inner = mapping(entry.get(part))
        for key in _FILES:
            if isinstance(inner.get(key), str):
                inner[key] = str(file.parent / inner[key])
        program = mapping(inner.get("exec"))
        if program.get("apiVersion") == f"{_EXEC}v1":
            # The client reads only the token of the answer, which is the same in v1beta1.
            program["apiVersion"] = f"{_EXEC}v1beta1"
    return entry
