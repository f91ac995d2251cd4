"""Two AWS accounts for tests of stacks: one on moto's server, and one whose clients check calls and send none."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import boto3
from botocore.model import ListShape, MapShape, Shape, StructureShape
from moto.server import ThreadedMotoServer

from gpu_rehearsal.credentials import Credentials, Source

REGION = "us-east-1"
# One session, because each session reads the service models again.
_SESSION, _MAKING = boto3.session.Session(), threading.Lock()


class MotoAccount:
    """An account on moto's server, which doesn't check permissions.

    Args:
        endpoint: Address of the server.
    """

    # The account is moto's own.
    region, account = REGION, "123456789012"
    functions: Callable[[str, bytes], bytes] | None = None

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.stack_resources: dict[str, Callable[[str], str]] = {}

    def credentials(self, role: str = "") -> Credentials:
        """Return credentials with the same key for any role."""
        return Credentials(role=role, access_key="AKIAIOSFODNN7EXAMPLE")

    def assume(self, role: str, *, service: str, source: Source | None = None) -> Credentials:
        """Return credentials with the same key for any role."""
        return self.credentials(role)

    def unreachable(self, source: Source, cluster: str, *services: str) -> str:
        """Return an empty text, because every source reaches every service."""
        return ""

    def client(self, service: str, *, role: str = "") -> Any:
        """Return a client of the server."""
        # Threads can share a client, but can't create clients at the same time.
        with _MAKING:
            return _SESSION.client(
                service,
                region_name=self.region,
                endpoint_url=self.endpoint,
                aws_access_key_id=self.credentials(role).access_key,
                aws_secret_access_key="secret",
            )


@contextmanager
def moto_account() -> Iterator[MotoAccount]:
    """Run moto's server, empty, for as long as the block lasts."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        account = MotoAccount(f"http://{host}:{port}")
        yield account
    finally:
        server.stop()


class UnsentAccount(MotoAccount):
    """An account whose clients check each call against botocore's models and return a sample of its output.

    Attributes:
        sent: Service, operation and parameters of each call.
    """

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:9")
        self.sent: list[tuple[str, str, dict[str, Any]]] = []

    def client(self, service: str, *, role: str = "") -> Any:
        """Return a client that sends nothing."""
        client = super().client(service, role=role)

        def note(params: dict[str, Any], model: Any, **_: object) -> None:
            self.sent.append((service, model.name, params))

        def answer(model: Any, **_: object) -> tuple[Any, Any]:
            return SimpleNamespace(status_code=200), sample(model.output_shape) if model.output_shape else {}

        client.meta.events.register("provide-client-params.*.*", note)
        client.meta.events.register("before-call.*.*", answer)
        return client


# Values in a sample that mean that a resource is ready and that the call succeeded.
READY: dict[str, Any] = {
    "Arn": "arn:aws:iam::123456789012:policy/any",
    "AssociationId": "dra-0123456789abcdef0",
    "AssumeRolePolicyDocument": json.dumps(
        {"Statement": [{"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}}]}
    ),
    "FailedEntries": [],
    "FileSystemId": "fs-0123456789abcdef0",
    "State": "available",
    "Unsuccessful": [],
    "status": "ACTIVE",
}


def sample(shape: Shape, depth: int = 5) -> Any:
    """Return a value of a shape: texts are "1", lists have one element."""
    if not depth:
        return None
    if isinstance(shape, StructureShape):
        return {name: READY.get(name, sample(member, depth - 1)) for name, member in shape.members.items()}
    if isinstance(shape, ListShape):
        element = sample(shape.member, depth - 1)
        return [] if element is None else [element]
    if isinstance(shape, MapShape):
        return {"QueueArn": sample(shape.value, depth - 1)}
    return 1 if shape.type_name in ("integer", "long") else "1"
