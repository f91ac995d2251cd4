"""What all resources of a stack share while it is created."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from gpu_constructs.rehearsal.players.cloudformation.account import Account
from gpu_constructs.rehearsal.players.cloudformation.answers import Answers
from gpu_constructs.rehearsal.players.cloudformation.functions.assets import Assets
from gpu_constructs.rehearsal.players.cloudformation.functions.functions import Functions


@dataclass(frozen=True, kw_only=True, slots=True)
class StackIdentity:
    """How a stack is named.

    Attributes:
        name: Name of the stack.
        id: Its ARN.
    """

    name: str
    id: str


class Clients:
    """A client of each service and role, made once: making one is not safe in threads, using it is."""

    def __init__(self, aws: Account) -> None:
        self._aws = aws
        self._made: dict[tuple[str, str], Any] = {}
        self._lock = threading.Lock()

    def of(self, service: str, role: str = "") -> Any:
        """Return the client of a service that acts as a role, or as the administrator."""
        with self._lock:
            if (service, role) not in self._made:
                self._made[service, role] = self._aws.client(service, role=role)
            return self._made[service, role]


@dataclass(frozen=True, kw_only=True, slots=True)
class Deployment:
    """A stack, and what makes its resources.

    Attributes:
        stack: Whose resources they are.
        aws: Where they are made.
        clients: By which they are made.
        functions: Runs those of the stack.
        answers: Where custom resources answer.
        assets: Files of functions and layers.
    """

    stack: StackIdentity
    aws: Account
    clients: Clients
    functions: Functions
    answers: Answers
    assets: Assets
