"""A play: every scenario of some stacks that share a cluster, and the report of it.

Permissions and Network: every call was allowed, and every instance became a node that the API server reaches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from gpu_rehearsal.assemblies import Assembly, why_not_simulated
from gpu_rehearsal.cluster.control_plane import rbac_uses
from gpu_rehearsal.report import Line, Outcome, Report
from gpu_rehearsal.scenarios.deletion import Failures, account, destroy
from gpu_rehearsal.scenarios.deployment import CREATE, UPDATE, Announce, create, daemon_sets, update
from gpu_rehearsal.scenarios.pools import gpu_pools
from gpu_rehearsal.scenarios.scale import STEP_SECONDS, run_pool_jobs, scale
from gpu_rehearsal.stage import CLEAN_UP_SECONDS, PACE, Props, Stage, ended_in_order, stage


class _Ended(Exception):
    """`until` matched a reported line."""


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
        out: Folder of the report; ``None`` to write none.
        until: Ends the play after the first line for which it returns true.
        how: More arguments of `play`.

    Raises:
        SystemExit: A signal ended the play. The report up to then is written.
    """

    def show(line: Line) -> None:
        print(f"{line.outcome.value}: {line.scenario}: {line.statement}", flush=True)
        if out is not None:
            report.write(out, name)
        if until(line):
            raise _Ended

    def report_interruption(name: str) -> None:
        text = f"the play was ended by {name}"
        report.add([Line(scenario="End", promise="the rest of the play runs", outcome=Outcome.NOT_PLAYED, text=text)])

    report = Report(_join_stack_names(assemblies), listener=show)
    try:
        with ended_in_order(report_interruption, exit_after=CLEAN_UP_SECONDS):
            return play(assemblies, props, report=report, **how)
    except _Ended:
        return report
    finally:
        print(f"rehearsal: {name or report.stack}: {report.counts}", flush=True)
        if out is not None:
            report.write(out, name)


def _join_stack_names(assemblies: Sequence[Assembly]) -> str:
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
    """Play all scenarios of some stacks that share a cluster.

    Args:
        assemblies: The stacks, in the order of deployment.
        props: Programs and files.
        pace: Factor of the usual delays of machines and images.
        step_seconds: Max seconds of each step of a job.
        failures: How many creations of each stack fail first, each because of another custom resource; `None` for one
            for every handler and release.
        versions: Versions for updates of the first stack, as for `update`. The first one is in `assemblies`.
        announce: Predicts the effects of an update.
        tolerate: Keys of taints that jobs tolerate in addition to the GPU taint.
        report: Receives each line as soon as it is known. Default: a new report.
    """
    report = report or Report(_join_stack_names(assemblies))
    if reason := why_not_simulated(assemblies[0].template) or _why_no_control_plane(assemblies[0], props):
        promise = f"{assemblies[0].stack} is created"
        report.add([Line(scenario=CREATE, promise=promise, outcome=Outcome.NOT_PLAYED, text=reason)])
        return report
    with stage(assemblies[0], props, pace=pace) as running:
        before = account(running)
        tries = Failures(running, before, max_failures=failures)
        if create(running, assemblies, report, first=tries.create_with_failures):
            report.add(tries.check_recovery())
            pools = gpu_pools(running.client, running.aws, running.cluster, tolerate=tolerate)
            scale(running, pools, report, seconds=step_seconds)
            report.add(daemon_sets(running))
            if announce is not None:
                report.add(run_pool_jobs(running, pools, UPDATE))
                report.add(update(running, versions, announce))
                # An update may replace them.
                pools = gpu_pools(running.client, running.aws, running.cluster, tolerate=tolerate)
            report.add(_check_service_accounts(running, since=tries.calls))
            destroy(running, assemblies, pools, before, report)
        else:
            report.add(_check_service_accounts(running, since=tries.calls))
        report.add(_check_roles(running))
        report.add(check_network(running))
    return report


def _why_no_control_plane(assembly: Assembly, props: Props) -> str:
    try:
        props.control_plane(assembly.template)
    except LookupError as error:
        return str(error)
    return ""


PERMISSIONS = "Permissions"
_ACCOUNT_PREFIX = "system:serviceaccount:"
_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


def _check_roles(stage: Stage) -> Iterator[Line]:
    """Check the AWS calls of all earlier scenarios."""
    calls = [each for each in stage.aws.calls if each.principal]
    for role in sorted({each.principal for each in calls}):
        own = [each for each in calls if each.principal == role]
        denied = sorted({f"{each.action} ({each.message})" for each in own if not each.allowed})
        yield Line(
            scenario=PERMISSIONS,
            promise=f"role {role.rpartition('/')[2]} has the permissions that it uses",
            outcome=Outcome.FAILED if denied else Outcome.HELD,
            text="; ".join(denied) or f"{len({each.action for each in own})} actions",
        )


def _check_service_accounts(stage: Stage, *, since: int = 0) -> Iterator[Line]:
    """Check the calls to the API server in all earlier scenarios.

    Args:
        since: How many calls to skip, for example all calls of creations that were rolled back. While a release is
            removed, its pods lose their permissions before they end.
    """
    controllers = _controllers(stage)
    by_user = defaultdict(list)
    for use in list(rbac_uses(stage.plane.audit))[since:]:
        if use.user.startswith(_ACCOUNT_PREFIX) and use.user not in controllers:
            by_user[use.user].append(use)
    for user, own in sorted(by_user.items()):
        denied = sorted({f"{each.verb} {each.resource or each.path}" for each in own if each.decision != "allow"})
        yield Line(
            scenario=PERMISSIONS,
            promise=f"account {user.removeprefix(_ACCOUNT_PREFIX).replace(':', '/')} has the permissions that it uses",
            outcome=Outcome.FAILED if denied else Outcome.HELD,
            text="; ".join(denied) or f"{len({(each.verb, each.resource) for each in own})} kinds of call",
        )


def _controllers(stage: Stage) -> set[str]:
    """Return the accounts of Kubernetes' own controllers, which no stack configures.

    Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/#controller-roles
    """
    return {
        f"{_ACCOUNT_PREFIX}{subject['namespace']}:{subject['name']}"
        for each in stage.client.list(_BINDINGS)
        if each["roleRef"]["name"].startswith("system:controller:")
        for subject in each.get("subjects", ())
        if subject["kind"] == "ServiceAccount"
    }


NETWORK = "Network"
_NOT_CHECKED = (
    "network ACLs, DNS options of the VPC, policies of endpoints, transit gateways, peering and firewalls "
    "aren't checked"
)


def check_network(stage: Stage) -> Iterator[Line]:
    """Report on the instances of all earlier scenarios; nothing if there were none."""
    kubelets, never = stage.nodes.kubelets, stage.nodes.never
    if not kubelets and not never:
        return
    yield _line("every instance that starts becomes a node", len(kubelets), never.values())
    if kubelets:
        unreached = [why for why in kubelets.values() if why]
        yield _line("the API server reaches the kubelet of every node (port 10250)", len(kubelets), unreached)
    yield Line(
        scenario=NETWORK, promise="the rest of the network is open", outcome=Outcome.NOT_PLAYED, text=_NOT_CHECKED
    )


def _line(promise: str, count: int, faults: Iterable[str]) -> Line:
    text = "; ".join(sorted(set(faults)))
    return Line(
        scenario=NETWORK,
        promise=promise,
        outcome=Outcome.FAILED if text else Outcome.HELD,
        text=text or f"{count} of {count}",
    )
