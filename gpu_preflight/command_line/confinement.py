"""A process that reads one folder and changes nothing: what `gpu-constructs mcp` runs for each question.

An audit hook of Python rejects every other access. It sees what this process opens, and the arguments of the programs
that it starts (helm, kubectl kustomize), which have no network.

Source: https://peps.python.org/pep-0578/ and https://docs.python.org/3/library/audit_events.html (2026-11)
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_LISTING = frozenset(("os.listdir", "os.scandir"))
# Audit events of changes, and the positions of their arguments that are paths.
_CHANGING = {
    **{f"os.{name}": (0,) for name in ("chmod", "chown", "mkdir", "mkfifo", "remove", "rmdir", "truncate", "utime")},
    "os.link": (0, 1),
    "os.rename": (0, 1),
    "os.symlink": (1,),
}
# `shutil.rmtree` calls them with names in a folder that it has opened; the last argument is its descriptor.
_IN_OPEN_FOLDER = frozenset(("os.remove", "os.rmdir"))
_SOCKET = ("bind", "connect", "getaddrinfo", "gethostbyname", "sendmsg", "sendto")
_REJECTED = frozenset(("os.exec", "os.posix_spawn", "os.system", *(f"socket.{name}" for name in _SOCKET)))
# Devices, and the time zones and locales of the system.
_SYSTEM = ("/dev/urandom", "/usr/share/zoneinfo", "/usr/lib/locale", "/etc/localtime")
_MAX_FILES = 100_000
_PACKED = (".tgz", ".tar.gz")


class _Folders:
    """Folders that a process may read, and those that it may also write to."""

    def __init__(self, root: Path, scratch: Path) -> None:
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        self.root = os.path.realpath(root)
        own = (sys.prefix, sys.base_prefix, *filter(None, sys.path), str(Path(__file__).parents[2]))
        self.written = (*_real(str(scratch), os.path.join(cache, "gpu-constructs")), os.devnull)
        self.read = (self.root, *self.written, *_real(*own), *_SYSTEM)

    def check(self, path: Any, *, writes: bool) -> None:
        """Reject a path outside the folders.

        Raises:
            PermissionError: It is outside.
        """
        # A number is the descriptor of an open file, and None the current folder.
        if not isinstance(path, (str, bytes, os.PathLike)):
            return
        real = os.path.realpath(os.fsdecode(path))
        if not _is_below(real, self.written if writes else self.read):
            reason = "a file that must not be changed" if writes else f"a path outside {self.root}"
            raise PermissionError(errno.EACCES, reason, os.fsdecode(path))

    def check_arguments(self, arguments: Any) -> None:
        """Reject a program that is given a path outside the folders, or a folder with a link that leads outside.

        Raises:
            PermissionError: It would read something outside.
        """
        # The first is the program itself. An option may contain a path after "=".
        for argument in map(os.fsdecode, list(arguments)[1:]):
            parts = argument.split("=")
            for path in ("=".join(parts[start:]) for start in range(len(parts))):
                if os.path.lexists(path):
                    for each in _tree(path):
                        self.check(each, writes=False)


def _real(*paths: str) -> tuple[str, ...]:
    return tuple(os.path.realpath(path) for path in paths)


def _is_below(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(os.path.join(folder, "")) for folder in folders)


def _tree(path: str) -> Iterator[str]:
    """Return a path and the links below it, which a program would follow.

    Raises:
        PermissionError: There is a packed chart, whose schema may name any file, or there are too many files.
    """
    yield path
    count, visited = 0, {os.path.realpath(path)}
    for folder, folders, files in os.walk(path, followlinks=True):
        count += len(folders) + len(files)
        if count > _MAX_FILES:
            raise PermissionError(errno.EACCES, f"a folder with more than {_MAX_FILES:,} files", path)
        yield from (each for name in (*folders, *files) if os.path.islink(each := os.path.join(folder, name)))
        packed = next((name for name in files if name.endswith(_PACKED)), None)
        if packed:
            raise PermissionError(errno.EACCES, f"a folder with the packed chart {packed}", path)
        real = {name: os.path.realpath(os.path.join(folder, name)) for name in folders}
        folders[:] = [name for name in folders if real[name] not in visited]
        visited.update(real.values())


def confine(root: Path, scratch: Path) -> None:
    """Let this process read only a folder, Python and this library, and write only temporary files and its cache.

    It can't be undone. Existence, size and age of other files stay visible. A rejected call raises `PermissionError`.

    Args:
        root: The folder.
        scratch: The folder for temporary files.
    """
    tempfile.tempdir = str(scratch)
    folders = _Folders(root, scratch)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen":
            folders.check_arguments(arguments[1])
        elif event in _REJECTED:
            raise PermissionError(errno.EACCES, f"a call of {event}")
        elif event == "open":
            folders.check(arguments[0], writes=bool((arguments[2] or 0) & _WRITING))
        elif event in _LISTING:
            folders.check(arguments[0], writes=False)
        elif event in _CHANGING and not (event in _IN_OPEN_FOLDER and arguments[-1] != -1):
            for position in _CHANGING[event]:
                folders.check(arguments[position], writes=True)

    sys.addaudithook(hook)


def main() -> None:
    """Run ``ROOT SCRATCH ARGUMENT...``: the command line with these arguments, confined to two folders."""
    from gpu_preflight.command_line import console
    from gpu_preflight.command_line.cli import cli

    root, scratch, *sys.argv[1:] = sys.argv[1:]
    # The folder in which Python was started comes first. Nothing is imported from there or from the root.
    del sys.path[0]
    os.chdir(root)
    # Python reads the time zone once, from a file that may be anywhere.
    time.localtime()
    confine(Path(root), Path(scratch))
    sys.exit(console.run(cli))


if __name__ == "__main__":
    main()
