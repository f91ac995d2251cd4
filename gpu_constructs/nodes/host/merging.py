"""One document of user data out of this library's and the user's parts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial, reduce
from typing import Any

from gpu_facts.merging import merged

# Before base64.
# Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/user-data.html (2026-08)
MAX_BYTES = 16 * 1024


def joined(ours: Mapping[str, Any], *theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with others laid over it: mappings are merged, lists joined, of two values the later one wins.

    Nodeadm itself merges so, and joins the flags of kubelet alone; other lists are not of ours.
    """
    return reduce(partial(merged, other=_both), theirs, dict(ours))


def _both(_key: str, ours: Any, theirs: Any) -> Any:
    return [*ours, *theirs] if isinstance(ours, list) and isinstance(theirs, list) else theirs


def within_bounds(user_data: str) -> str:
    """Return user data that EC2 takes, as far as synth knows: what only deployment tells may be longer than its token.

    Raises:
        ValueError: It is too long.
    """
    size = len(user_data.encode())
    if size > MAX_BYTES:
        raise ValueError(
            f"host: user_data must come to at most {MAX_BYTES} bytes with what this library tells the node, got {size}"
            "; fetch long scripts from a bucket, or build an image"
        )
    return user_data
