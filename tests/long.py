"""How many generated inputs a test tries: a few in `make test`, and many in `make long`."""

from __future__ import annotations

import os

LONG = bool(os.environ.get("GPU_CONSTRUCTS_LONG"))


def count(few: int, many: int) -> int:
    """Return the number of inputs for this run."""
    return many if LONG else few
