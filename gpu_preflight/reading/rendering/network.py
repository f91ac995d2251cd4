"""Closes the network for a program, by a filter of system calls of Linux.

A proxy that doesn't exist stops no request to the machine itself: Go never uses a proxy for 127.0.0.1.

Sources: https://www.kernel.org/doc/html/latest/userspace-api/seccomp_filter.html, include/uapi/linux/seccomp.h,
include/uapi/linux/audit.h (2026-11)
"""

from __future__ import annotations

import errno
import os
import platform
import socket
import struct
import sys
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
# Of an architecture: its number in audit.h, and that of the system call socket.
_ARCHITECTURES = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
# Offsets in struct seccomp_data.
_CALL, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16


def _instructions(architecture: int, call: int) -> bytes:
    """Return a filter by which socket() fails for IPv4 and IPv6, and every other call is allowed."""
    lines = (
        (_LOAD, 0, 0, _ARCHITECTURE),
        # A call of another architecture has other numbers, and fails.
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
    """Return a function that closes the network for its own process; ``None`` where the system has no filter."""
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
    """Whether the network can be closed for a program: a process tries it."""
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
