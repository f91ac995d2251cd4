"""A play: every scene of some stacks that share a cluster, and the report of it."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_constructs.rehearsal.assemblies import Assembly
from gpu_constructs.rehearsal.existing import why_not_played
from gpu_constructs.rehearsal.pools import asked_of
from gpu_constructs.rehearsal.report import Line, Outcome, Report
from gpu_constructs.rehearsal.scenes.capacity_blocks import capacity_blocks
from gpu_constructs.rehearsal.scenes.create import SCENE as CREATE
from gpu_constructs.rehearsal.scenes.create import create
from gpu_constructs.rehearsal.scenes.hardship import hardship
from gpu_constructs.rehearsal.scenes.permissions import permissions
from gpu_constructs.rehearsal.scenes.scale import STEP_SECONDS, scale
from gpu_constructs.rehearsal.stage import PACE, Props, stage


def play(
    assemblies: Sequence[Assembly],
    props: Props,
    *,
    pace: float = PACE,
    step_seconds: float = STEP_SECONDS,
    long: bool = False,
) -> Report:
    """Play some stacks that share a cluster, from their creation on.

    Args:
        assemblies: The stacks, in the order of deployment.
        props: Programs and files.
        pace: How long delays of machines and images are, against those that AWS usually has.
        step_seconds: How long a step of a job's life may take.
        long: Whether there is hardship too, which takes minutes for each pool.
    """
    report = Report(", ".join(each.stack for each in assemblies))
    if reason := why_not_played(assemblies[0].template) or _why_no_control_plane(assemblies[0], props):
        promise = f"{assemblies[0].stack} is created"
        report.add([Line(scene=CREATE, promise=promise, outcome=Outcome.NOT_PLAYED, text=reason)])
        return report
    with stage(assemblies[0], props, pace=pace) as made:
        if create(made, assemblies, report):
            pools = asked_of(assemblies)
            scale(made, pools, report, seconds=step_seconds)
            if long:
                hardship(made, pools, report)
                capacity_blocks(made, report)
        report.add(permissions(made))
    return report


def _why_no_control_plane(assembly: Assembly, props: Props) -> str:
    try:
        props.control_plane(assembly.template)
    except LookupError as error:
        return str(error)
    return ""
