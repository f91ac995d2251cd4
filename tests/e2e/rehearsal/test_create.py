"""Every stack and every example is created, what it brings runs, and what was not played is said."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

from gpu_constructs.rehearsal.assemblies import Assembly, synthesize
from gpu_constructs.rehearsal.existing import why_not_played
from gpu_constructs.rehearsal.report import Outcome, Report
from gpu_constructs.rehearsal.scenes.create import create
from gpu_constructs.rehearsal.stage import Props, stage
from tests.conftest import ROOT
from tools.rehearse import DEFINITIONS, REGION, ZONES

OBJECTS, RELEASE = "Custom::AWSCDK-EKS-KubernetesResource", "Custom::AWSCDK-EKS-HelmChart"
BY_HAND = "its autoscaler makes the nodes that its pods wait for"
KARPENTER = {"autoscaler": "karpenter"}

Synthesized = Callable[..., list[Assembly]]


@dataclass(frozen=True, kw_only=True)
class Played:
    """A play, and what of it is not played.

    Attributes:
        app: The app, from the root.
        stacks: Names of its stacks, in the order of deployment.
        not_played: Promises that nobody here can play.
        context: Context beside the usual.
    """

    app: str
    stacks: tuple[str, ...]
    not_played: frozenset[str] = frozenset()
    context: Mapping[str, Any] | None = None


def _example(name: str, *stacks: str, not_played: frozenset[str] = frozenset()) -> Played:
    return Played(app=f"examples/{name}/app.py", stacks=stacks, not_played=not_played)


def _delivered(by: str) -> Played:
    context = {**KARPENTER, "gpu-constructs:delivery": by}
    return Played(app="app.py", stacks=("GpuClusterStack",), context=context)


STAGING = tuple(f"staging-us-east-1-{each}" for each in ("Cluster", "Pools1", "Pools2"))
PLAYS = {
    "cluster autoscaler": Played(app="app.py", stacks=("GpuClusterStack",)),
    "karpenter": Played(app="app.py", stacks=("GpuClusterStack",), context=KARPENTER),
    "argocd": _delivered("argocd"),
    "flux": _delivered("flux"),
    "dra_pool": _example("dra_pool", "Claims"),
    "existing_cluster": _example("existing_cluster", "GpuResearch"),
    "fleet": _example("fleet", *STAGING),
    "llm_service": _example(
        "llm_service",
        "Llm",
        not_played=frozenset(
            {
                f"Llm: {RELEASE} KedaD250CD0E is created",
                f"Llm: {RELEASE} Prometheus84672C11 is created",
                "Llm: Custom::GpuChartDefinitions PrometheusResourceDefinitionsF1DDCCC9 is created",
            }
        ),
    ),
    "mig_on_p5": _example("mig_on_p5", "SmallModels", not_played=frozenset({BY_HAND})),
    "multi_node_training": _example(
        "multi_node_training",
        "Training",
        not_played=frozenset(
            {
                f"Training: {RELEASE} GpuEfaDevicePluginEBF9179E is created",
                "pods of default/pretrain-52a7d17b run",
                "webhooks of kueue-system/kueue-webhook-service let pass what they should",
            }
        ),
    ),
    "quickstart": _example("quickstart", "Inference"),
    "shared_notebooks": _example("shared_notebooks", "Notebooks"),
    "AutoMode": _example(
        "reference_stacks",
        "AutoMode",
        not_played=frozenset(
            f"AutoMode: {OBJECTS} {each} is created" for each in ("Pool9439FBB3", "PoolNodeClass469914F5")
        ),
    ),
    "Inference": _example("reference_stacks", "Inference"),
    "Training": _example(
        "reference_stacks",
        "Training",
        not_played=frozenset({f"Training: {RELEASE} EfaDevicePlugin8C8FCFC2 is created"}),
    ),
}


@pytest.fixture(scope="module")
def synthesized(tmp_path_factory: pytest.TempPathFactory) -> Synthesized:
    """The stacks of an app, which is run once for all plays of it."""
    usual = json.loads((ROOT / "cdk.json").read_text())["context"]

    @cache
    def of(app: str, context: str = "{}") -> list[Assembly]:
        folder = tmp_path_factory.mktemp("assembly")
        own = {"gpu-constructs:manifests": str(folder / "files"), **json.loads(context)}
        found = synthesize(ROOT / app, folder, root=ROOT, region=REGION, context={**usual, **ZONES, **own})
        delivered = "gpu-constructs:delivery" in own
        return [replace(each, files=folder / "files" / each.stack) if delivered else each for each in found]

    return of


@pytest.mark.parametrize("name", PLAYS)
def test_what_is_created_runs(name: str, synthesized: Synthesized, props: Props) -> None:
    if props.definitions is None:
        pytest.skip(f"{DEFINITIONS} names no folder of definitions of charts that are not there")
    play, report = PLAYS[name], Report(name)
    found = {each.stack: each for each in synthesized(play.app, json.dumps(dict(play.context or {})))}
    assemblies = [found[each] for each in play.stacks]

    with stage(assemblies[0], props) as made:
        create(made, assemblies, report)

    assert [f"{each.promise}: {each.text}" for each in report.failed] == []
    not_played = {each.promise for each in report.lines if each.outcome is Outcome.NOT_PLAYED}
    assert not_played == play.not_played


def test_a_cluster_of_somebody_else_is_not_played(synthesized: Synthesized) -> None:
    found = {each.stack: each for each in synthesized("examples/existing_cluster/app.py")}

    assert why_not_played(found["GpuPools"].template) == (
        "a rehearsal plays one cluster with a name in the template, got []"
    )
