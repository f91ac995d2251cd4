"""Options that several commands take, and what they accept."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
PLAIN = ("text", "json", "markdown")
WITH_SARIF = ("text", "json", "sarif", "markdown")


class _Parameter(click.ParamType[Any]):
    """``KEY=VALUE``."""

    name = "KEY=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        key, equals, text = str(value).partition("=")
        if not key or not equals:
            self.fail(f"must be KEY=VALUE, got {value!r}", param, ctx)
        return key, text


class Bound(click.ParamType[Any]):
    """A figure and how others compare to it."""

    name = "BOUND"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read a bound."""
        from gpu_facts.hardware.capability import Bound as Amount

        try:
            return Amount.parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class File(click.ParamType[Any]):
    """The path of a file or folder; an empty one is a variable of a shell that isn't set."""

    name = "FILE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Take a path."""
        if not value:
            self.fail("must name a file or folder, got ''", param, ctx)
        return str(value)


class Word(click.Choice[str]):
    """One of a few words."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Take one of the words."""
        from gpu_facts.refusals import did_you_mean

        if value not in self.choices:
            hint = did_you_mean(str(value), self.choices)
            self.fail(f"must be one of {', '.join(self.choices)}, got {value!r}{hint}", param, ctx)
        return str(value)


class _Components(click.ParamType[Any]):
    """Components that run in the cluster although the input doesn't hold them."""

    name = "COMPONENT,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> frozenset[str]:
        from gpu_facts.refusals import did_you_mean
        from gpu_preflight.model.cluster import COMPONENTS

        named = [each.strip() for each in str(value).split(",") if each.strip()]
        for each in named:
            if each not in COMPONENTS:
                self.fail(
                    f"must be among {', '.join(COMPONENTS)}, got {each!r}{did_you_mean(each, COMPONENTS)}", param, ctx
                )
        return frozenset(named)


class _Form(Word):
    """A format that the command can write."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value == "sarif" and value not in self.choices:
            self.fail(
                f"must be one of {', '.join(self.choices)}, got 'sarif', which is for check and review", param, ctx
            )
        return super().convert(value, param, ctx)


def written(*forms: str) -> Callable[[F], F]:
    """Add the options of what a command writes."""

    def add(command: F) -> F:
        to = click.option(
            "--output", "-o", type=File(), metavar="FILE", help="Write to FILE instead of standard output."
        )
        form = click.option("--format", "form", type=_Form(forms), default="text", help="How to write it.")
        return to(form(command))

    return add


def _say(_context: click.Context, _option: click.Parameter, day: datetime | None) -> None:
    from gpu_facts.today import now, say

    if day is not None:
        say(day.replace(tzinfo=timezone.utc))
    try:
        now()
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def parameters(command: F) -> F:
    """Add the option of what a command reads."""
    return click.option("--parameter", "parameters", type=_Parameter(), multiple=True, help="Value of a parameter.")(
        command
    )


def strict(command: F) -> F:
    """Add the option of how a command ends."""
    return click.option("--strict", is_flag=True, help="Fail also where something is known at deployment only.")(
        command
    )


def assumed(command: F) -> F:
    """Add the option that satisfies conditions of a result."""
    told = (
        "Components that run in the cluster and aren't in the input: device-plugin, efa-device-plugin, "
        "cluster-autoscaler, karpenter."
    )
    return click.option("--assume", "assumed", type=_Components(), default="", help=told)(command)


def judged(command: F) -> F:
    """Add the options of what a command reads and of how it ends."""
    for option in (
        parameters,
        assumed,
        click.option(
            "--as-of",
            type=click.DateTime(["%Y-%m-%d"]),
            callback=_say,
            expose_value=False,
            help="Judge dates as of this day, in UTC. Default: SOURCE_DATE_EPOCH, else today.",
        ),
        strict,
        click.option("--html", type=File(), metavar="FILE", help="Write a page for browsers to FILE, too."),
    ):
        command = option(command)
    return command
