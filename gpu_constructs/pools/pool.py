"""What every kind of pool tells those who place pods on it."""

from __future__ import annotations

from typing import Protocol

from gpu_constructs.pools.node_shape import NodeShape


class Pool(Protocol):
    """A pool of GPU nodes.

    Attributes:
        name: Value of its nodes' label ``gpu-constructs.io/pool``.
        shape: What every node looks like.
    """

    name: str
    shape: NodeShape
