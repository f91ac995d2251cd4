"""Delivery: charts and objects of a stack that come as files for Argo CD or Flux."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from gpu_constructs.rehearsal.players.cluster.software.gitops import GitOps, Release, read
from gpu_constructs.rehearsal.report import Line, Outcome
from gpu_constructs.rehearsal.stage import Stage

SCENE = "Create"


def deliver(stage: Stage, stack: str, folder: Path) -> Iterator[Line]:
    """Bring the files of a stack to the cluster, charts first, as docs/gitops.md says.

    Args:
        stage: Where the stack is created already.
        stack: Its name.
        folder: Its files.
    """
    if stage.helm is None:
        text = "no program of helm is given"
        yield Line(scene=SCENE, promise=f"{stack}: its files are delivered", outcome=Outcome.NOT_PLAYED, text=text)
        return
    environment, own = stage.internet.environment(), stage.folder / f"{stack}-delivered"
    gitops = GitOps(stage.helm, stage.client, environment=environment, folder=own)
    found = read(folder, stage.stacks[stack].outputs)
    # Releases wait for none of the others: each tries again until it succeeds.
    with ThreadPoolExecutor() as pool:
        yield from pool.map(partial(_of_release, stage, gitops, stack), found.releases)
    for name, objects in found.objects.items():
        refused = gitops.apply(objects)
        outcome = Outcome.FAILED if refused else Outcome.HELD
        yield Line(scene=SCENE, promise=f"{stack}: objects of {name} are taken", outcome=outcome, text=refused)


def _of_release(stage: Stage, gitops: GitOps, stack: str, release: Release) -> Line:
    promise = f"{stack}: chart {release.chart} is installed from its file"
    if why := stage.unplayed.of_chart(release.chart, release.version, definitions=release.definitions):
        return Line(scene=SCENE, promise=promise, outcome=Outcome.NOT_PLAYED, text=why)
    said = gitops.install(release)
    return Line(scene=SCENE, promise=promise, outcome=Outcome.FAILED if said else Outcome.HELD, text=said)
