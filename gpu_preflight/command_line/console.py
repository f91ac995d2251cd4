"""Output, progress, errors and exit codes of all commands.

Names from an input must not become commands of the CI system that shows the output.

The runner of GitHub Actions reads each line that a step prints. ``::error::text`` at the beginning of a line, after
blanks, is a command, and so is ``##[error]text`` anywhere in a line. Azure Pipelines reads ``##vso[...]``. A report
wraps its lines, so a name such as ``y ::error::x`` can begin one.

Source: https://github.com/actions/runner/blob/main/src/Runner.Common/ActionCommand.cs (TryParseV2, TryParse; 2026-11)
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from gpu_preflight.judging.acknowledgements import Acknowledgement
    from gpu_preflight.reading.inputs import Input
    from gpu_preflight.report.finding_view import View

# Most commands end earlier.
DELAY_SECONDS = 2.0
_EVERY_SECONDS = 1.0
# Moves to the beginning of the line, and clears the line.
_CLEAR = "\r\x1b[K"
# It has no width, and isn't one of the blanks that the runner removes.
_BREAK = "\N{WORD JOINER}"
_LINE_START = re.compile(r"^(?=\s*::)", re.MULTILINE)
_LINE_START_COLON = re.compile(r"^(\s*):(?=:)", re.MULTILINE)
_ANYWHERE = re.compile(r"#(?=#\w*\[)")
PASSED, FAILED, UNUSABLE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143
DEFAULT_INPUT = "cdk.out"
STDIN = "-"
# Errors of a write to a full disk.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_JSON = ("json", "sarif", "gitlab")
# Each format has a function in report/ci.py.
CI_FORMS = ("concise", "github", "gitlab", "junit")
_MIN_WIDTH = 40
# If this variable is set, unexpected errors show their stack trace, for a bug report.
_DEBUG = "GPU_CONSTRUCTS_DEBUG"


class Progress:
    """Shows the current step on standard error, if that is a terminal, and clears it at the end.

    A system timer interrupts the work. A thread would not survive a fork. Windows has no such timer, so it shows
    nothing.
    """

    def __init__(self) -> None:
        self.step = "starting"
        self._began = 0.0
        self._is_shown = False

    def __enter__(self) -> Progress:
        if hasattr(signal, "setitimer") and sys.stderr.isatty():
            self._began = time.monotonic()
            signal.signal(signal.SIGALRM, self._show)
            signal.setitimer(signal.ITIMER_REAL, DELAY_SECONDS, _EVERY_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._began:
            signal.setitimer(signal.ITIMER_REAL, 0)
        self.clear()

    def clear(self) -> None:
        """Remove the line before other output."""
        if self._is_shown:
            self._write("")
            self._is_shown = False

    def _show(self, _number: int, _frame: FrameType | None) -> None:
        self._is_shown = True
        self._write(f"gpu-constructs: {self.step} ({time.monotonic() - self._began:.0f} s)")

    def _write(self, text: str) -> None:
        # The terminal may be closed, and the signal may arrive during another write.
        with contextlib.suppress(OSError, RuntimeError):
            sys.stderr.write(f"{_CLEAR}{text}")
            sys.stderr.flush()


# The progress of the running command.
PROGRESS = Progress()


def without_commands(text: str, form: str = "text") -> str:
    """Return a text in which no line is a command of a CI system.

    Args:
        text: Lines as they are printed.
        form: Its format. An escape doesn't change the content of JSON and HTML. In ``github``, the renderer writes
            commands on purpose, with escaped data.
    """
    if "::" not in text and "##" not in text:
        return text
    if form in _JSON:
        return _ANYWHERE.sub(r"\\u0023", text)
    if form == "html":
        return _ANYWHERE.sub("&#35;", _LINE_START_COLON.sub(r"\1&#58;", text))
    return _ANYWHERE.sub(f"#{_BREAK}", text if form == "github" else _LINE_START.sub(_BREAK, text))


class _Terminated(BaseException):
    """SIGTERM arrived. As for an interrupt, the command ends its child processes and deletes its temporary files."""


def end_cleanly_when_terminated() -> None:
    """On SIGTERM, end after the child processes, with the signal's exit code. A second SIGTERM ends it at once."""

    def terminate(number: int, _frame: object) -> None:
        """End the command, and let the next signal end the process."""
        signal.signal(number, signal.SIG_DFL)
        raise _Terminated

    signal.signal(signal.SIGTERM, terminate)


def run(command: click.Command) -> int:
    """Run a command and return its exit code. Every failure becomes one line on standard error."""
    try:
        with PROGRESS:
            code = command.main(prog_name="gpu-constructs", standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except _Terminated:
        return TERMINATED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return UNUSABLE
    except click.ClickException as error:
        return _refused(_error_message(error))
    except Exception as error:
        if os.environ.get(_DEBUG):
            raise
        if isinstance(error, OSError) and error.errno in _FULL and error.filename is None:
            # click itself prints help, versions and schemas.
            _discard_output()
            return _refused(f"standard output must be writable, got {error.strerror}")
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return _refused(f"failed unexpectedly with {what}; this is a bug in gpu-constructs, please report it")
    return code if isinstance(code, int) else PASSED


def _error_message(error: click.ClickException) -> str:
    """Return the error of a command line. For an unknown name, suggest only the nearest known one."""
    from gpu_facts.refusals import did_you_mean

    command = error.ctx.command if isinstance(error, click.UsageError) and error.ctx else None
    if isinstance(error, click.NoSuchCommand) and isinstance(command, click.Group):
        known = list(command.commands)
        hint = did_you_mean(error.command_name, known)
        return f"command must be one of {', '.join(known)}, got {error.command_name!r}{hint}"
    if isinstance(error, click.NoSuchOption) and command and error.ctx:
        names = {name for each in command.get_params(error.ctx) for name in each.opts if name.startswith("-")}
        options = sorted(names, key=lambda each: each.lstrip("-"))
        hint = did_you_mean(error.option_name, options)
        return f"option must be one of {', '.join(options)}, got {error.option_name!r}{hint}"
    return error.format_message()


def _refused(message: str) -> int:
    warn(message.strip())
    return UNUSABLE


def warn(message: str) -> None:
    """Write a line to standard error. If that fails, only the exit code reports the problem."""
    from gpu_preflight.report.wording import printable, with_short_names

    # It may quote names from files. They must not become commands of a terminal or a CI system.
    line = without_commands(f"gpu-constructs: {printable(with_short_names(message))}")
    PROGRESS.clear()
    with contextlib.suppress(OSError):
        click.echo(line, err=True)


def read(
    paths: tuple[str, ...],
    parameters: Mapping[str, str],
    *,
    stack: str | None = None,
    assumed: frozenset[str] = frozenset(),
    running: Input | None = None,
) -> Input:
    """Read the input in the paths.

    Args:
        paths: Files, folders, or ``-`` for standard input.
        parameters: Values of template parameters.
        stack: Name of the stack whose template a file is. Default: the name of the file.
        assumed: Components that run in the cluster although the input doesn't hold them.
        running: A running cluster, to which the paths are added.

    Raises:
        click.UsageError: They cannot be checked.
    """
    from gpu_preflight.reading.documents import UnusableInput
    from gpu_preflight.reading.inputs import read_input

    if paths.count(STDIN) > 1:
        raise click.UsageError("standard input must be named once, got '-' twice")
    PROGRESS.step = "reading"
    try:
        return read_input(paths, parameters=parameters, stack=stack, assumed=assumed, running=running)
    except UnusableInput as error:
        raise click.UsageError(str(error)) from None


def refuse_unknown_parameters(parameters: Mapping[str, str], *given: Input) -> None:
    """Reject a ``--parameter`` that no template has, because it has no effect. Warn if it is in the settings.

    Raises:
        click.UsageError: No template has the parameter.
    """
    from gpu_facts.refusals import did_you_mean
    from gpu_preflight.command_line.settings import is_parameter_setting

    known = frozenset(name for each in given for name in each.parameters)
    for name, value in parameters.items():
        if name not in known:
            have, hint = ", ".join(sorted(known)) or "none", did_you_mean(name, known)
            text = f"must name a parameter of a template ({have}), got {name!r}{hint}"
            if not is_parameter_setting(name, value):
                raise click.UsageError(f"--parameter {text}")
            # Settings apply to all inputs of a repository. This may be only one of them.
            warn(f"parameters in the settings: each {text}")


def tell_unused(lines: Iterable[Acknowledgement], mistaken: Iterable[str] = ()) -> None:
    """Warn about acknowledgements that don't accept any finding, and about invalid ones."""
    for text in mistaken:
        warn(text)
    for each in lines:
        within = getattr(each, "within", "*") if each.accepted_by == "settings" else "*"
        where = "".join(f" {word} {place}" for word, place in (("at", each.path), ("in", within)) if place != "*")
        text = f"{each.file}: acknowledgement of {each.id}{where} accepts nothing; remove it"
        warn(text)


def warn_of_old_data(*used: str) -> None:
    """Warn on standard error if data of this version is old as of the day of the check.

    Args:
        used: The names of the data that the answer uses. Default: all.
    """
    from gpu_facts.data_age import MAX_AGE_DAYS, outdated
    from gpu_facts.today import today

    if old := [each for each in outdated(today()) if each.name in (used or (each.name,))]:
        listed = ", ".join(f"{each.name} {each.day}" for each in old)
        warn(f"data is more than {MAX_AGE_DAYS} days old: {listed}; a newer version of gpu-constructs may know more")


def paths_or_default(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return the given paths. Default: the assembly that ``cdk synth`` writes.

    Raises:
        click.UsageError: There are no paths, and there is no assembly.
    """
    if paths:
        return tuple(dict.fromkeys(paths))
    if Path(DEFAULT_INPUT).is_dir():
        return (DEFAULT_INPUT,)
    raise click.UsageError(
        f"PATH must be given if there is no folder {DEFAULT_INPUT}; "
        "name an assembly, a template, manifests, '.' for everything in this folder or '-' for standard input, "
        "or run 'cdk synth' first"
    )


def renderer(form: str) -> Callable[..., str]:
    """Return the function that writes a view in a format; it loads only the module of this format."""
    from importlib import import_module

    module, function = ("ci", form) if form in CI_FORMS else (form, "render")
    render: Callable[..., str] = getattr(import_module(f"gpu_preflight.report.{module}"), function)
    return render


def emit(view: View, form: str, output: str | None = None) -> None:
    """Write a view to a file or to standard output.

    Args:
        view: The view.
        form: ``text``, ``json``, ``markdown``, ``sarif``, ``html`` or one of `CI_FORMS`.
        output: The file.

    Raises:
        click.UsageError: It cannot be written.
    """
    PROGRESS.step = "writing the report"
    text = renderer(form)(view, **(_terminal(output) if form == "text" else {}))
    text = without_commands(text, form)
    if output:
        write(output, text)
    else:
        _print(text)


def _terminal(output: str | None) -> dict[str, Any]:
    """Return width and color of a terminal. A file and output to another program get a fixed width.

    ``--color`` overrides ``NO_COLOR``, and ``NO_COLOR`` overrides ``FORCE_COLOR`` (https://no-color.org,
    https://force-color.org, 2026-11). Variables don't color a file.
    """
    context, is_terminal = click.get_current_context(silent=True), not output and sys.stdout.isatty()
    colour = context.color if context else None
    if colour is None:
        by_default = bool(os.environ.get("FORCE_COLOR")) or (is_terminal and os.environ.get("TERM") != "dumb")
        colour = not output and by_default and not os.environ.get("NO_COLOR")
    if not is_terminal:
        return {"colour": colour}
    from shutil import get_terminal_size

    return {"width": max(get_terminal_size().columns, _MIN_WIDTH), "colour": colour}


def _print(text: str) -> None:
    """Print a text. A reader that stops early, such as ``head``, causes no error and doesn't change the exit code."""
    PROGRESS.clear()
    try:
        sys.stdout.write(text.encode(sys.stdout.encoding or "utf-8", "replace").decode(sys.stdout.encoding or "utf-8"))
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
    except OSError as error:
        _discard_output()
        raise click.UsageError(f"standard output must be writable, got {error.strerror}") from None


def _discard_output() -> None:
    """Discard the rest of the output. Otherwise Python fails when it writes the rest at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write(file: str, text: str) -> None:
    """Write a file.

    Raises:
        click.UsageError: It cannot be written.
    """
    try:
        Path(file).write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise click.UsageError(
            f"{file}: must be a file that can be written, got {error.strerror}{_fix(file)}"
        ) from None


def _fix(file: str) -> str:
    """Return the fix for a file that can't be written."""
    folder = Path(file).parent
    with contextlib.suppress(OSError):
        if Path(file).is_dir():
            return f"; name a file in it, such as {Path(file) / 'report'}"
        if not folder.is_dir():
            return f"; create the folder {folder}, or name another one"
    return "; name another file"
