"""The reason why a program failed is found in its log."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_rehearsal.cluster.container import MAX_CHARACTERS, last_error


@pytest.mark.parametrize(
    ("log", "found"),
    [
        (
            '{"level":"INFO"}\n{"level":"ERROR","message":"no queue","error":"denied"}\n{"level":"INFO"}',
            "no queue: denied",
        ),
        (
            '{"level":"ERROR","message":"no image"}\n{"level":"ERROR","message":"healthz check failed"}',
            "no image",
        ),
        ('{"level":"ERROR","message":"healthz check failed"}', "healthz check failed"),
        (
            "panic: no credentials\n\ngoroutine 1 [running]:\n\tsome/errors.go:12 error\nexit status 2",
            "panic: no credentials",
        ),
        ("starts\nError: port is in use\nbye", "Error: port is in use"),
        ("starts\nbye\n\n", "bye"),
        ("", ""),
        ("x" * 1000, "x" * MAX_CHARACTERS + " ..."),
    ],
)
def test_the_last_error_is_found(tmp_path: Path, log: str, found: str) -> None:
    (tmp_path / "program.log").write_text(log)

    assert last_error(tmp_path / "program.log") == found


def test_no_log_has_no_error(tmp_path: Path) -> None:
    assert last_error(None) == last_error(tmp_path / "none") == ""
