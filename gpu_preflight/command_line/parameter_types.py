"""Types of the command line's arguments and options: accepted values, errors for other values, shell completion."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gpu_preflight.command_line import console

F = TypeVar("F", bound=Callable[..., Any])

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SHELLS = ("bash", "zsh", "fish")
_PROGRAM, _VARIABLE = "gpu-constructs", "_GPU_CONSTRUCTS_COMPLETE"
PLAIN = ("text", "json", "markdown")
# The formats of `check` and `review`.
JUDGED = ("text", "json", "sarif", "markdown", "html", *console.CI_FORMS)


def completion_script(command: click.Command, shell: str) -> str:
    """Return the script by which a shell completes a command."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    return found(command, {}, _PROGRAM, _VARIABLE).source()


def complete_rule(_context: click.Context, _option: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return rule ids with their titles."""
    from gpu_preflight.rules import rules

    return _items({id: each.title for id, each in rules().items()}, incomplete)


def complete_family(_context: click.Context, _option: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return EC2 families with GPUs."""
    from gpu_facts.hardware.catalogue import catalogue

    return _items({each.family: each.gpu_model for each in catalogue().values()}, incomplete)


def complete_gpu(_context: click.Context, _option: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return GPU models as EC2 names them."""
    from gpu_facts.hardware.catalogue import catalogue

    return _items(dict.fromkeys((each.gpu_model for each in catalogue().values()), ""), incomplete)


def complete_file(incomplete: str) -> list[CompletionItem]:
    """Have the shell complete a path."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def _items(names: Mapping[str, str], incomplete: str) -> list[CompletionItem]:
    """Return the names that begin like this, each with a help text, which some shells show."""
    from click.shell_completion import CompletionItem

    begun = incomplete.lower()
    return [CompletionItem(name, help=names[name]) for name in sorted(names) if name.lower().startswith(begun)]


class File(click.ParamType[Any]):
    """The path of a file or folder. An empty path is usually a shell variable that isn't set."""

    name = "FILE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Accept a path."""
        if not value:
            self.fail("must name a file or folder, got ''", param, ctx)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """Have the shell complete a path."""
        return complete_file(incomplete)


class Parameter(click.ParamType[Any]):
    """``KEY=VALUE``."""

    name = "KEY=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Split a key and its value."""
        key, equals, text = str(value).partition("=")
        if not key or not equals:
            self.fail(f"must be KEY=VALUE, got {value!r}", param, ctx)
        return key, text


class Bound(click.ParamType[Any]):
    """A number with a comparison, such as ``>=80``."""

    name = "BOUND"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read a bound."""
        from gpu_facts.hardware.capability import Bound as Amount

        try:
            return Amount.parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Amount(click.ParamType[Any]):
    """A number from 0.

    Args:
        of: The unit, for errors.
        whole: Whether it is a whole number.
    """

    name = "NUMBER"

    def __init__(self, of: str, *, whole: bool = False) -> None:
        self._of, self._whole = of, whole

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read a number."""
        try:
            number = float(str(value))
        except ValueError:
            number = math.nan
        if not math.isfinite(number) or number < 0 or (self._whole and number % 1):
            kind = "a whole number" if self._whole else "a number"
            self.fail(
                f"must be {kind} of {self._of} from 0, such as {40 if self._whole else 40000}, got {value!r}",
                param,
                ctx,
            )
        return number


class Word(click.Choice[str]):
    """One of a few words."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Accept one of the words."""
        from gpu_facts.refusals import did_you_mean

        if value not in self.choices:
            hint = did_you_mean(str(value), self.choices)
            self.fail(f"must be one of {', '.join(self.choices)}, got {value!r}{hint}", param, ctx)
        return str(value)


class Time(click.ParamType[Any]):
    """A time as Kubernetes writes it, with any offset."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Accept a date with a time."""
        from gpu_preflight.doctor.dump import parse_time

        found = parse_time(value) if isinstance(value, datetime) or "T" in str(value) else None
        if found is None:
            self.fail(f"must be a time such as 2026-11-20T10:00:00Z, got {str(value)!r}", param, ctx)
        return found


class Format(Word):
    """A format that the command can write."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Accept one of the formats."""
        if value in JUDGED and value not in self.choices:
            self.fail(
                f"must be one of {', '.join(self.choices)}, got {value!r}, which is for check and review", param, ctx
            )
        return super().convert(value, param, ctx)


class FormatFile(click.ParamType[Any]):
    """A further format, and the file for it."""

    name = "FORMAT=FILE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Split a format and its file."""
        form, equals, file = str(value).partition("=")
        if not equals or not file:
            self.fail(f"must be FORMAT=FILE, got {value!r}", param, ctx)
        return Word(JUDGED).convert(form, param, ctx), file


class Components(click.ParamType[Any]):
    """Components that run in the cluster although the input doesn't contain them."""

    name = "COMPONENT,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> frozenset[str]:
        """Accept names of components, with commas between them."""
        from gpu_facts.charts import DEVICE_PLUGIN, EFA_DEVICE_PLUGIN, GPU_OPERATOR
        from gpu_facts.refusals import near
        from gpu_preflight.model.cluster import COMPONENTS

        # Names of programs that users may write for a component.
        programs = {
            **dict.fromkeys((DEVICE_PLUGIN, "k8s-device-plugin", GPU_OPERATOR), "device-plugin"),
            EFA_DEVICE_PLUGIN: "efa-device-plugin",
        }
        named = [each.strip() for each in str(value).split(",") if each.strip()]
        for each in named:
            if each not in COMPONENTS:
                meant = near(each, (*COMPONENTS, *programs))
                hint = f"; did you mean {programs.get(meant, meant)!r}?" if meant else ""
                self.fail(f"must be among {', '.join(COMPONENTS)}, got {each!r}{hint}", param, ctx)
        return frozenset(named)


class RuleIds(click.ParamType[Any]):
    """Ids of rules, or the beginnings of ids."""

    name = "RULE,..."

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """Complete the last id."""
        before, comma, last = incomplete.rpartition(",")
        found = complete_rule(ctx, param, last)
        for each in found:
            each.value = f"{before}{comma}{each.value}"
        return found

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Accept ids or their beginnings, with commas between them."""
        from gpu_preflight.rule import id_hint, rule_id
        from gpu_preflight.rules import rules

        if isinstance(value, tuple):
            return value
        found = {each: rule_id(each).upper() for part in str(value).split(",") if (each := part.strip())}
        for each, start in found.items():
            if not any(id.startswith(start) for id in rules()):
                help = id_hint(each, rules()) or "; 'gpu-constructs rules' lists them"
                self.fail(f"must be rule ids or their beginnings, e.g. GPU361 or GPU3, got {each!r}{help}", param, ctx)
        if not found:
            self.fail(f"must name a rule, got {str(value)!r}", param, ctx)
        return tuple(found.values())


class IgnoredRule(click.ParamType[Any]):
    """A rule and the reason for accepting its findings."""

    name = "RULE=REASON"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Split a rule and the reason."""
        from gpu_preflight.judging.acknowledgements import rejection
        from gpu_preflight.rule import rule_id

        if isinstance(value, tuple):
            return value
        id, _, reason = str(value).partition("=")
        id = rule_id(id)
        if why := rejection(id, reason):
            fix = "" if why.startswith("id ") else f"; write {id}='why you accept it'"
            self.fail(f"must be RULE=REASON: {why.replace('id must', 'RULE must', 1)}{fix}", param, ctx)
        return id, reason.strip()
