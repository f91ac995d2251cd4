"""Options that several commands share: they choose rules and clusters, accept findings, and limit a review."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from gpu_preflight.command_line import console
from gpu_preflight.command_line.parameter_types import Amount, F, File, IgnoredRule, RuleIds
from gpu_preflight.command_line.settings import current_settings, is_setting

if TYPE_CHECKING:
    from gpu_preflight.judging.acknowledgements import Acknowledgement
    from gpu_preflight.judging.baseline import Filters
    from gpu_preflight.judging.check import Report
    from gpu_preflight.judging.review import ReviewLimits


def accepting(command: F) -> F:
    """Add the options that choose rules, and that accept findings with a reason."""
    for option in (
        click.option(
            "--baseline", type=File(), metavar="FILE", help="Accept the findings that FILE lists; see --write-baseline."
        ),
        click.option(
            "--ignore",
            "ignored",
            type=IgnoredRule(),
            multiple=True,
            help="Accept the findings of a rule, for a reason that reports show. May be repeated.",
        ),
        click.option(
            "--select", "selected", type=RuleIds(), help="Report only these rules: ids or their beginnings, e.g. GPU3."
        ),
    ):
        command = option(command)
    return command


def filters(options: dict[str, Any], *, clusters: Sequence[str] = (), anywhere: bool = False) -> Filters | None:
    """Return the filters that options and settings ask for; ``None`` without any.

    Args:
        options: The options of `accepting`.
        clusters: Names of the only clusters whose findings are reported.
        anywhere: Whether files may be in another folder than they were, as two versions of a repository are.

    Raises:
        click.UsageError: The baseline can't be used.
    """
    baseline, selected = options["baseline"], options["selected"]
    ignored = list(_ignored(options["ignored"], anywhere=anywhere))
    if not (baseline or selected or ignored or clusters):
        return None
    from gpu_preflight.judging.baseline import Filters
    from gpu_preflight.rules import rules

    entries = _read_baseline(baseline, anywhere=anywhere) if baseline else ()
    ids = None if selected is None else frozenset(id for id in rules() if id.startswith(selected))
    return Filters((*ignored, *entries), ids, tuple(clusters))


def _ignored(ignored: Iterable[tuple[str, str]], *, anywhere: bool) -> Iterator[Acknowledgement]:
    settings = current_settings(click.get_current_context())
    if not ignored and not settings.ignored:
        return
    from gpu_preflight.judging.acknowledgements import Acknowledgement
    from gpu_preflight.judging.baseline import FileAcknowledgement

    for id, reason in ignored:
        yield Acknowledgement(id, reason, file="--ignore", accepted_by="--ignore")
    for each in settings.ignored:
        yield FileAcknowledgement(
            each.rule, each.reason, each.path, False, settings.file, "settings", None, each.file, anywhere
        )


def _read_baseline(file: str, *, anywhere: bool = False) -> tuple[Any, ...]:
    from gpu_preflight.judging.baseline import read_baseline
    from gpu_preflight.reading.documents import UnusableInput

    try:
        return read_baseline(file, anywhere=anywhere)
    except UnusableInput as error:
        raise click.UsageError(str(error)) from None


def filtered(report: Report, paths: Sequence[str], options: dict[str, Any]) -> Report:
    """Return a report without findings that options and settings hide, and write a baseline on request.

    Args:
        report: The report of a check.
        paths: The files and folders that were read.
        options: The options of `accepting` and of the command.

    Raises:
        click.UsageError: A baseline can't be used or written, or a cluster has another name.
    """
    clusters = chosen_clusters([each.cluster.title for each in report.cases], options["clusters"])
    written = options["write_baseline"]
    if written:
        return _written(report, paths, written, options, clusters)
    applied = filters(options, clusters=clusters)
    if applied is None:
        return report
    from gpu_preflight.judging.baseline import stale_entries, stale_settings

    result = applied.applied(report)
    unused = applied.unused(result)
    console.tell_unused((*stale_entries(unused, paths), *stale_settings(unused, paths)))
    return result


def _written(
    report: Report, paths: Sequence[str], file: str, options: dict[str, Any], clusters: Sequence[str]
) -> Report:
    from dataclasses import replace

    from gpu_preflight.judging.baseline import Filters, baseline_text, new_entries, stale_entries, updated_entries

    baseline = options["baseline"]
    other = baseline if baseline and os.path.abspath(baseline) != os.path.abspath(file) else None
    given = filters({**options, "baseline": other}, clusters=clusters) or Filters()
    old = _read_baseline(file) if os.path.exists(file) else ()
    stale = stale_entries(replace(given, accepted=old).unused(given.applied(report)), paths)
    entries = updated_entries(old, new_entries(file, report, given), stale)
    console.write(file, baseline_text(entries))
    result = replace(given, accepted=(*given.accepted, *entries)).applied(report)
    found = sum(each.accepted_by == "baseline" for each in result.findings)
    pending = f", Pending workloads: {len(result.waived)}" if result.waived else ""
    removed = f", stale entries removed: {len(stale)}" if stale else ""
    console.warn(f"wrote {file}, findings: {found}{pending}{removed}")
    return result


def chosen_clusters(known: Sequence[str], named: Sequence[str]) -> tuple[str, ...]:
    """Return the chosen clusters; none, and so all, where settings name only clusters of other inputs.

    Raises:
        click.UsageError: The command line names one that isn't in the input.
    """
    from gpu_facts.refusals import did_you_mean

    context = click.get_current_context()
    for each in named:
        if each not in known:
            text = f"must be one of {', '.join(dict.fromkeys(known))}, got {each!r}{did_you_mean(each, known)}"
            if not is_setting(context, "clusters"):
                raise click.UsageError(f"--cluster {text}")
            console.warn(f"{current_settings(context).file}: clusters {text}")
    return tuple(each for each in named if each in known)


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
