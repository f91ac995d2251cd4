"""The default stack under Karpenter is created, updated and deleted with its real handlers and a real API server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpu_rehearsal.assemblies import Assembly
from gpu_rehearsal.cloudformation.changes import Event
from gpu_rehearsal.report import Outcome
from gpu_rehearsal.scenarios.deletion import account, nothing_left, retained_resources
from gpu_rehearsal.stage import Props, Stage, stage
from tools.plays import ROOT, synthesize_app

TRAIN = {"name": "train", "instance_types": ["g6.xlarge"]}
INFER = {"name": "infer", "instance_types": ["g6e.xlarge"]}
OBJECTS, RELEASE = "Custom::AWSCDK-EKS-KubernetesResource", "Custom::AWSCDK-EKS-HelmChart"
NODE_POOLS = "/apis/karpenter.sh/v1/nodepools"


def synthesize(folder: Path, *pools: dict[str, Any]) -> Assembly:
    (made,) = synthesize_app(ROOT / "app.py", folder, {"autoscaler": "karpenter", "pools": list(pools)})
    return made


def failures(events: list[Event]) -> list[str]:
    return [f"{each.phase} {each.logical_id} {each.type}: {each.reason}" for each in events if each.failed]


def changes(events: list[Event], kind: str) -> set[tuple[str, str]]:
    """Return logical id and status of each changed resource of a type."""
    return {(each.logical_id, each.status) for each in events if each.type == kind}


def pools(made: Stage) -> dict[str, Any]:
    return {each["metadata"]["name"]: each["spec"] for each in made.client.list(NODE_POOLS)}


def test_a_stack_is_created_updated_and_deleted(tmp_path: Path, props: Props) -> None:
    first = synthesize(tmp_path / "first", TRAIN)
    more = synthesize(tmp_path / "more", {**TRAIN, "max_nodes": 3}, INFER)
    fewer = synthesize(tmp_path / "fewer", INFER)

    with stage(first, props) as made:
        empty = account(made)
        assert failures(made.deploy(first)) == []
        limits = pools(made)["train"]["limits"]

        events = made.update(more)
        assert failures(events) == []
        assert {each for _, each in changes(events, OBJECTS)} == {"CREATE_COMPLETE", "UPDATE_COMPLETE"}
        assert set(pools(made)) == {"train", "infer"}
        assert pools(made)["train"]["limits"] != limits

        events = made.update(fewer)
        assert failures(events) == []
        assert {each for _, each in changes(events, OBJECTS)} == {"DELETE_COMPLETE"}
        assert set(pools(made)) == {"infer"}

        stack = made.stacks[first.stack]
        events = stack.delete()
        assert failures(events) == []
        assert stack.status == "DELETE_COMPLETE"
        # The controller still runs when its pool is deleted.
        [pool] = [each for each in events if each.type == OBJECTS and each.logical_id.startswith("NodePoolInfer")]
        assert all(pool.ended <= each.started for each in events if each.type == RELEASE)
        left = nothing_left(made, "Destroy", "", empty, retained_resources(events, first.template["Resources"]))
        assert [each.statement for each in left if each.outcome is not Outcome.HELD] == []
