"""TODO."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_preflight.doctor.cause import Cause
from gpu_preflight.doctor.live import Live, Target


def find(live: Live, target: Target) -> Iterator[Cause]:
    """Yield the causes."""
    yield from ()
