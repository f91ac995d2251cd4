"""A node whose kubelet is played."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_constructs.rehearsal.players.cluster.client import Client
from gpu_constructs.rehearsal.players.cluster.node.instances import Instance


@dataclass
class Node:
    """A node that registered.

    Attributes:
        name: Its name.
        instance: The instance.
        client: Its kubelet at the API server.
        since: When it registered.
        ready: Whether it takes pods beside those on the network of their host.
        renewed: When its lease was renewed.
    """

    name: str
    instance: Instance
    client: Client
    since: float
    ready: bool = False
    renewed: float = 0.0
