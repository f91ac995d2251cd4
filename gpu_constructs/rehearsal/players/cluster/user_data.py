"""User data of an instance, read as its image does."""

from __future__ import annotations

import base64
import binascii

from gpu_constructs.rehearsal.players.cluster.boot.bootstrap import Bootstrap, NeverJoins
from gpu_constructs.rehearsal.players.cluster.boot.bottlerocket import from_settings
from gpu_constructs.rehearsal.players.cluster.boot.node_config import from_node_configs


def bootstrap(encoded: str, *, is_bottlerocket: bool = False) -> Bootstrap:
    """Return what an instance is told about its node.

    Args:
        encoded: User data in base64, as EC2 keeps it.
        is_bottlerocket: Whether Bottlerocket reads it; nodeadm of Amazon Linux 2023 otherwise.

    Raises:
        NeverJoins: The instance becomes no node with that, and why.
    """
    try:
        written = base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise NeverJoins(f"its user data is no text in base64: {error}") from error
    if not written.strip():
        raise NeverJoins("it has no user data")
    return from_settings(written) if is_bottlerocket else from_node_configs(written)
