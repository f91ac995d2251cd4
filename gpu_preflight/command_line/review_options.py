"""The options of `review` that set limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gpu_preflight.command_line.parameter_types import Amount

if TYPE_CHECKING:
    from gpu_preflight.judging.review import ReviewLimits

F = TypeVar("F", bound=Callable[..., Any])


def review_limits(command: F) -> F:
    """Add the options that set limits of a change."""
    month = "US dollars a month (730 hours, on-demand list prices)"
    for option in (
        click.option(
            "--fail-on-replace",
            is_flag=True,
            help="Exit with 1 if a pool or cluster is replaced, a pool is removed, or its nodes are drained.",
        ),
        click.option(
            "--max-added-gpus",
            type=Amount("GPUs", whole=True),
            metavar="GPUS",
            help="Exit with 1 if the change adds more GPUs to the most that the pools can have, or an unknown number.",
        ),
        click.option(
            "--max-added-usd-per-month",
            type=Amount("US dollars"),
            metavar="USD",
            help="Exit with 1 if the change adds more to the most that the pools can cost, or an unknown amount.",
        ),
        click.option(
            "--max-usd-per-month",
            type=Amount("US dollars"),
            metavar="USD",
            help=f"Exit with 1 if the pools can cost more {month} after the change, or an unknown amount.",
        ),
    ):
        command = option(command)
    return command


def limits_from_options(options: dict[str, Any]) -> ReviewLimits:
    """Return the limits that a call sets."""
    from gpu_preflight.judging.review import ReviewLimits

    return ReviewLimits(
        max_usd_per_month=options["max_usd_per_month"],
        max_added_usd_per_month=options["max_added_usd_per_month"],
        max_added_gpus=options["max_added_gpus"],
        fail_on_replace=options["fail_on_replace"],
    )
