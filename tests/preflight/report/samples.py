"""Things to show: made by hand, so that no rule that is added changes them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.case import Case
from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.judging.changes import Change, Effect, ResourceChange
from gpu_preflight.judging.check import Report, Shared
from gpu_preflight.judging.explain import Explanation, explain
from gpu_preflight.judging.pool_changes import Evicted, PoolChange
from gpu_preflight.judging.pool_costs import PoolCost
from gpu_preflight.judging.review import Fate, Move, Review, ReviewLimits
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.software import Autoscaler
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.reading.objects import Origin, Unread
from gpu_preflight.report.review_view import ReviewView, review_view
from gpu_preflight.report.view import CheckView, ExplainView, check_view, explain_view
from gpu_preflight.rule import Finding, Problem, Rule
from tests.preflight.readers import pool

HERE = Path(__file__).parent
CLUSTER, WORKLOADS = str(HERE / "cluster.yaml"), str(HERE / "workloads.yaml")
# Characters in a name that must not break a page, a table, a comment or a terminal.
HOSTILE = "<script>alert(1)</script>|`@everyone`\x1b[31m #1 </style>"


def rule(**changes: Any) -> Rule:
    """A rule that finds nothing."""
    says: dict[str, Any] = {
        "id": "GPU901",
        "severity": "error",
        "title": "Pool without plugin",
        "why": "No GPU is advertised, so the pod it was for stays Pending.",
        "source": "https://example.com/plugin",
        "fix": "Install the plugin.",
        "check": lambda case: (),
    }
    return Rule(**says | changes)


def finding(*, acknowledged: str | None = None, unknown: bool = False, name: str = "Train", **changes: Any) -> Finding:
    """A finding about a pool."""
    about = pool(name=name, origin=Origin("app.yaml", f"Stack/{name}", f"Stack/{name}1A"))
    return Finding(rule(**changes), "demo", Problem.from_subject(about, "has none", unknown=unknown), acknowledged)


FINDINGS = (
    finding(),
    finding(name="Infer"),
    finding(id="GPU902", title="Small disk", severity="warning", source="a book of 2026"),
    finding(id="GPU903", title="Zones", severity="note", unknown=True),
    finding(id="GPU902", title="Small disk", severity="warning", acknowledged="images are small here"),
)


def write_app(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the template in which the pool ``Train`` of `finding` has a line, and make its folder the current one."""
    (folder / "app.yaml").write_text("Resources:\n  Train1A:\n    Type: AWS::EKS::Nodegroup\n")
    monkeypatch.chdir(folder)


def case() -> Case:
    """The cluster of `cluster.yaml`, with short paths."""
    [found] = clusters(read_input([CLUSTER, WORKLOADS]))
    return Case(found)


def explanation() -> Explanation:
    """The verdicts on `workloads.yaml`, as if read beside it."""
    cluster = case().cluster
    near = tuple(replace(each, origin=_near(each.origin)) for each in cluster.workloads)
    return explain(Case(replace(cluster, workloads=near)))


def _near(origin: Origin) -> Origin:
    return replace(origin, file=Path(origin.file).name)


def report(findings: Iterable[Finding] = FINDINGS) -> Report:
    """A report on no cluster, of which one manifest could not be read."""
    return Report(
        (),
        tuple(findings),
        Shared((), findings),
        (Unread(Origin("app.yaml", "Stack/Manifest"), "its manifest is a parameter"),),
    )


def _change(change: Change, what: str, detail: str, effect: Effect | None = None) -> ResourceChange:
    return ResourceChange(what, change, detail, Origin("app.yaml", f"Stack/{what}"), effect)


def cost(pool: str = "Train", **changes: Any) -> PoolCost:
    """The cost of a pool of up to 2 p4d.24xlarge, one of which always runs."""
    found: dict[str, Any] = {
        "instance_types": ("p4d.24xlarge",),
        "capacity_types": ("on-demand",),
        "region": "us-east-1",
        "price_list": "us-east-1",
        "min_nodes": 1,
        "requested_nodes": 2,
        "max_nodes": 2,
        "max_gpus": 16,
        "min_usd_per_hour": 21.96,
        "requested_usd_per_hour": 43.91,
        "max_usd_per_hour": 43.91,
        "vcpus": {"L-417A185B": 192},
    }
    return PoolCost(cluster="demo", pool=pool, **(found | changes))


UNBOUNDED = cost(
    "Spill", max_nodes=None, max_gpus=None, max_usd_per_hour=None, unknown="it has no known bound", vcpus={}
)


def review(**changes: Any) -> Review:
    """A change that replaces one pool and adds another."""
    found: dict[str, Any] = dict(
        pools=(
            PoolChange(
                "demo",
                "Train",
                "managed",
                "replaced",
                ("InstanceTypes: p4d.24xlarge -> p5.48xlarge (replaces the group)", "Labels a: b -> c (in place)"),
                drains=True,
                max_nodes=2,
                evicted=(Evicted("Job default/train", 2, "pending"),),
            ),
            PoolChange("demo", "Infer", "karpenter", "added", ("g6.xlarge", "at most 4 nodes")),
        ),
        changes=(
            _change(
                "destructive", "Job default/train-1a2b", "default/train-1a2b -> default/train-3c4d; a run is stopped"
            ),
            _change("fails", "AWS::EKS::Nodegroup Stack/Train", "CloudFormation rejects LaunchTemplate, Tags together"),
            _change("replaced", "PersistentVolume default.data", "default.data -> default.more"),
            _change("left behind", "AWS::FSx::FileSystem Stack/Data", "it stays, in no stack"),
            _change("removed", "Deployment web/old", ""),
            _change("removed", "Service web/old", ""),
            _change("in place", "Deployment web/chat", "spec.replicas: 1 -> 2"),
            _change(
                "in place",
                "Deployment web/code",
                "spec.template.spec.nodeName: a -> b; the pods restart",
                effect="pods restart",
            ),
            _change("added", "Service web/chat", ""),
        ),
        moves=(Move("Kubernetes of demo", "1.35", "1.36"),),
        fates=(
            Fate(
                "Job default/train",
                Answer.YES,
                Answer.NO,
                "runs",
                "pending",
                "pool Train: requests 9 nvidia.com/gpu, p5 has 8",
            ),
            Fate("Deployment web/chat", None, Answer.YES, None, "runs"),
        ),
        costs_before=(cost(), UNBOUNDED),
        costs_after=(
            cost(
                instance_types=("p5.48xlarge",),
                min_usd_per_hour=55.04,
                requested_usd_per_hour=55.04,
                max_usd_per_hour=110.08,
                vcpus={"L-417A185B": 384},
            ),
            cost(
                "Infer",
                max_gpus=4,
                min_usd_per_hour=0.0,
                requested_usd_per_hour=0.8,
                max_usd_per_hour=3.22,
                vcpus={"L-DB2E81BA": 16},
            ),
            UNBOUNDED,
        ),
        uncounted=("Deployment web/maybe",),
        new=(FINDINGS[0],),
        fixed=(FINDINGS[2],),
        standing=FINDINGS[3:],
    )
    return Review(**found | changes)


def views() -> dict[str, CheckView | ExplainView | ReviewView]:
    """A view of each kind."""
    return {
        "check": check_view(report()),
        "explain": explain_view([explanation()]),
        "review": review_view(
            review(explained_before=(explain(case()),), explained_after=(explain(case()),)),
            ReviewLimits(max_usd_per_month=1, max_added_usd_per_month=1, max_added_gpus=100, fail_on_replace=True),
        ),
    }


def with_text(view: Any, texts: Iterable[str], new: str) -> Any:
    """A view in which some texts are another one."""
    if isinstance(view, str):
        return new if view in texts else view
    if isinstance(view, tuple):
        return tuple(with_text(each, texts, new) for each in view)
    if isinstance(view, dict):
        return {with_text(key, texts, new): with_text(each, texts, new) for key, each in view.items()}
    if not is_dataclass(view) or isinstance(view, (type, Autoscaler)):
        return view
    return replace(view, **{each.name: with_text(getattr(view, each.name), texts, new) for each in fields(view)})
