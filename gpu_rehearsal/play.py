"""A play: every scenario of some stacks that share a cluster, and the report of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from gpu_rehearsal.assemblies import Assembly, why_not_played
from gpu_rehearsal.pools import gpu_pools
from gpu_rehearsal.report import Line, Outcome, Report
from gpu_rehearsal.scenarios.create import SCENARIO as CREATE
from gpu_rehearsal.scenarios.create import create, daemon_sets
from gpu_rehearsal.scenarios.destroy import account, destroy
from gpu_rehearsal.scenarios.failure import Failures
from gpu_rehearsal.scenarios.permissions import check_roles, check_service_accounts, network
from gpu_rehearsal.scenarios.scale import STEP_SECONDS, run_pool_jobs, scale
from gpu_rehearsal.scenarios.update import SCENARIO as UPDATE
from gpu_rehearsal.scenarios.update import Announce, update
from gpu_rehearsal.stage import CLEAN_UP_SECONDS, PACE, Props, ended_in_order, stage


class _Ended(Exception):
    """The line that ends a play was reported."""


def play_and_write(
    assemblies: Sequence[Assembly],
    props: Props,
    *,
    name: str = "",
    out: Path | None = None,
    until: Callable[[Line], bool] = lambda line: False,
    **how: Any,
) -> Report:
    """Play some stacks, print each line as soon as it is known, and write the report after each line.

    Args:
        assemblies: The stacks, in the order of deployment.
        props: Programs and files.
        name: Name of the report. Default: the names of the stacks.
        out: Folder of the report; ``None`` for none.
        until: Ends the play after the first line for which it returns true.
        how: More arguments of `play`.

    Raises:
        SystemExit: A signal ended the play; the report so far is written.
    """

    def show(line: Line) -> None:
        print(f"{line.outcome.value}: {line.scenario}: {line.statement}", flush=True)
        if out is not None:
            report.write(out, name)
        if until(line):
            raise _Ended

    def report_interruption(name: str) -> None:
        text = f"the play was ended by {name}"
        report.add([Line(scenario="End", promise="the rest is played", outcome=Outcome.NOT_PLAYED, text=text)])

    report = Report(join_stack_names(assemblies), listener=show)
    try:
        with ended_in_order(report_interruption, exit_after=CLEAN_UP_SECONDS):
            return play(assemblies, props, report=report, **how)
    except _Ended:
        return report
    finally:
        print(f"rehearsal: {name or report.stack}: {report.counts}", flush=True)
        if out is not None:
            report.write(out, name)


def join_stack_names(assemblies: Sequence[Assembly]) -> str:
    """Return the names of stacks as one."""
    return ", ".join(each.stack for each in assemblies)


def play(
    assemblies: Sequence[Assembly],
    props: Props,
    *,
    pace: float = PACE,
    step_seconds: float = STEP_SECONDS,
    failures: int | None = 0,
    versions: Sequence[tuple[str, Assembly]] = (),
    announce: Announce | None = None,
    tolerate: Iterable[str] = (),
    report: Report | None = None,
) -> Report:
    """Play some stacks that share a cluster, from their creation on.

    Args:
        assemblies: The stacks, in the order of deployment.
        props: Programs and files.
        pace: How long delays of machines and images are, against those that AWS usually has.
        step_seconds: How long a step of a job's life may take.
        failures: In how many creations of each stack another custom resource fails first; `None` for every handler and
            release.
        versions: Versions of the first stack to which it is updated, as for `update`; the first is the one in
            `assemblies`.
        announce: Predicts what a change of it does.
        tolerate: Keys of taints that jobs tolerate, besides the GPU taint.
        report: Gets each line as soon as it is known. Default: a new one.
    """
    report = report or Report(join_stack_names(assemblies))
    if reason := why_not_played(assemblies[0].template) or _why_no_control_plane(assemblies[0], props):
        promise = f"{assemblies[0].stack} is created"
        report.add([Line(scenario=CREATE, promise=promise, outcome=Outcome.NOT_PLAYED, text=reason)])
        return report
    with stage(assemblies[0], props, pace=pace) as made:
        before = account(made)
        tries = Failures(made, before, most=failures)
        if create(made, assemblies, report, first=tries.create_with_failures):
            report.add(tries.check_recovery())
            pools = gpu_pools(made.client, made.aws, made.cluster, tolerate=tolerate)
            scale(made, pools, report, seconds=step_seconds)
            report.add(daemon_sets(made))
            if announce is not None:
                report.add(run_pool_jobs(made, pools, UPDATE))
                report.add(update(made, versions, announce))
                # An update may replace them.
                pools = gpu_pools(made.client, made.aws, made.cluster, tolerate=tolerate)
            report.add(check_service_accounts(made, since=tries.calls))
            destroy(made, assemblies, pools, before, report)
        else:
            report.add(check_service_accounts(made, since=tries.calls))
        report.add(check_roles(made))
        report.add(network(made))
    return report


def _why_no_control_plane(assembly: Assembly, props: Props) -> str:
    try:
        props.control_plane(assembly.template)
    except LookupError as error:
        return str(error)
    return ""
