"""A named pipe is read like a file, and one without a writer is rejected."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from gpu_preflight.reading import documents
from gpu_preflight.reading.documents import UnusableInput, read, read_pipe


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def write(file: Path, *parts: bytes) -> threading.Thread:
    """Write to a pipe in the background, slowly."""

    def run() -> None:
        with file.open("wb", buffering=0) as stream:
            for part in parts:
                time.sleep(0.05)
                stream.write(part)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_a_pipe_is_read_to_its_end(pipe: Path) -> None:
    writer = write(pipe, b"kind: Pod\n", b"apiVersion: v1\n")

    [document] = read(str(pipe))

    writer.join()
    assert document.content == {"kind": "Pod", "apiVersion": "v1"}


def test_no_more_is_read_than_is_taken(pipe: Path) -> None:
    writer = write(pipe, b"abc")

    assert read_pipe(pipe, 2) == b"ab"
    writer.join()


def test_a_pipe_without_writer_is_refused(pipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "read_pipe", lambda file, most: read_pipe(file, most, wait=0.1))

    with pytest.raises(UnusableInput, match=r"pipe: must be a readable file or folder, got a pipe to which no program"):
        read(str(pipe))


def test_a_silent_writer_is_not_waited_for(pipe: Path) -> None:
    # Open for reading too, it doesn't wait for a reader.
    writer = os.open(pipe, os.O_RDWR)
    os.write(writer, b"abc")

    with pytest.raises(TimeoutError, match=r"a pipe whose writer sent nothing for 0\.1 seconds"):
        read_pipe(pipe, 10, silence=0.1)
    os.close(writer)
