"""A large archive is unpacked once, and identified by its content."""

from __future__ import annotations

import zipfile
from pathlib import Path

from gpu_rehearsal.cloudformation.assets import unpacked_once


def archive(path: Path, text: str) -> Path:
    with zipfile.ZipFile(path, "w") as opened:
        opened.writestr("bin/program", text)
    return path


def test_an_archive_of_the_same_bytes_is_unpacked_once(tmp_path: Path) -> None:
    one = unpacked_once(archive(tmp_path / "one.zip", "1"), tmp_path / "kept")
    (one / "compiled").touch()

    same = unpacked_once(archive(tmp_path / "same.zip", "1"), tmp_path / "kept")
    other = unpacked_once(archive(tmp_path / "other.zip", "2"), tmp_path / "kept")

    assert (same / "compiled").exists()
    assert (other / "bin" / "program").read_text() == "2"
    assert sorted(each.name for each in (tmp_path / "kept").iterdir()) == sorted([one.name, other.name])
