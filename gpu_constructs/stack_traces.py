"""Errors of this library without a stack trace, because jsii's frames would hide the cause.

The function of the module is `gpu_constructs.plain_errors`; a module of that name would hide it.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType

_OURS = {__name__.partition(".")[0], "gpu_facts"}
# Shows the whole trace, for apps and for the command line.
_DEBUG = "GPU_CONSTRUCTS_DEBUG"
_LIBRARIES = tuple(f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib"))

# CDK prints this before the errors that constructs report at synth, one per line. If its validation report has them,
# CDK prints the report itself, and the exception has a shorter text.
_AT_SYNTH = "ValidationFailedWithErrors"
_SAID_OF = re.compile(r"\[(?P<path>[^\]]+)\] (?P<who>[^:]+): ")

Hook = Callable[[type[BaseException], BaseException, TracebackType | None], object]


def plain_errors(*packages: str) -> None:
    """Print an error of a construct as one line: file and line of the app, and the fault. Call it first in your app.

        app.py:12: gpu-constructs: Inference/L4: max_nodes must be at least 1, got 0; delete the group to switch it off

    Each error at synth is also one line. Every other error is shown as before. ``GPU_CONSTRUCTS_DEBUG=1`` shows full
    stack traces.

    Args:
        packages: Your own packages whose ``ValueError`` and ``TypeError`` are printed the same way.
    """
    before = sys.excepthook.before if isinstance(sys.excepthook, _PlainErrors) else sys.excepthook
    sys.excepthook = _PlainErrors(before, frozenset({*_OURS, *packages}))


@dataclass(frozen=True, slots=True)
class _PlainErrors:
    before: Hook
    packages: frozenset[str]

    def __call__(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """Show an uncaught error."""
        frames = [frame for frame, _ in traceback.walk_tb(trace)]
        if os.environ.get(_DEBUG) or not frames:
            self.before(kind, error, trace)
        elif _is_validation(error, frames[-1]):
            for line in _refused_at_synth(str(error)):
                print(f"{self._place(trace)}{line}", file=sys.stderr)
        elif isinstance(error, (TypeError, ValueError)) and self._was_refused(trace):
            print(f"{self._place(trace)}gpu-constructs: {error}", file=sys.stderr)
        else:
            self.before(kind, error, trace)

    def _was_refused(self, trace: TracebackType | None) -> bool:
        """Whether the innermost line is a `raise` in one of these packages. For a bug it is another line."""
        *_, (frame, line) = traceback.walk_tb(trace)
        text = linecache.getline(frame.f_code.co_filename, line, frame.f_globals).strip()
        return _package(frame) in self.packages and text.startswith("raise")

    def _place(self, trace: TracebackType | None) -> str:
        """Return the innermost line that is neither in a library nor in one of these packages."""
        for frame, line in reversed(list(traceback.walk_tb(trace))):
            file = frame.f_code.co_filename
            if _package(frame) not in self.packages and not file.startswith((*_LIBRARIES, "<frozen")):
                return f"{_short(file)}:{line}: "
        return ""


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _is_validation(error: BaseException, innermost: FrameType) -> bool:
    """Whether CDK stops because of errors that it found at synth."""
    return isinstance(error, RuntimeError) and _package(innermost) == "jsii" and "ValidationFailed" in str(error)


def _refused_at_synth(text: str) -> list[str]:
    """Return the errors that constructs report at synth, each once, or nothing if CDK has printed its own report."""
    lines = (each.strip() for each in text.splitlines()[1:]) if _AT_SYNTH in text else ()
    return list(dict.fromkeys(_without_path(each) for each in lines if each))


def _without_path(line: str) -> str:
    """Remove the path that CDK puts before an error, if the error itself begins with it or a parent's path."""
    found = _SAID_OF.match(line)
    if found is None or not f"{found['path']}/".startswith(f"{found['who']}/"):
        return line
    return f"gpu-constructs: {line[found.start('who') :]}"


def _short(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
