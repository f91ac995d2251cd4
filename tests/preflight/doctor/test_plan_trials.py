"""Each difference from a plan names the pods that it stops, who wrote it and the command that restores the plan."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from tests.preflight.doctor.planned_clusters import (
    NODE,
    PENDING,
    POOL,
    SERVE,
    Objects,
    World,
    compare_with_plan,
    lower_the_limit,
    only_difference,
    pod_spec,
    raise_the_limit,
    scale_down,
    shrink_the_group,
    taint_a_node,
)


def test_a_lowered_limit_names_the_editor_the_time_the_autoscaler_and_the_stopped_pod(tmp_path: Path) -> None:
    world = World("karpenter")
    lower_the_limit(world)
    for name in ("nodes", "gpu", "x"):
        fields: Objects = {"f:spec": {"f:limits": {".": {}, f"f:{name}": {}}}}
        entry = {"manager": f"other-{name}", "time": "2026-11-20T12:00:00Z", "fieldsV1": fields}
        world[POOL]["metadata"].setdefault("managedFields", []).append(entry)
    own: Objects = {"f:spec": {"f:limits": {".": {}, "f:nvidia.com/gpu": {}}}}
    world[POOL]["metadata"]["managedFields"].append(
        {"manager": "kubectl-edit", "operation": "Update", "time": "2026-11-20T09:58:00Z", "fieldsV1": own}
    )
    world.lists["pods"].append(PENDING)

    found = only_difference(world, tmp_path)

    assert (found.changed_by, found.changed_at) == ("kubectl-edit", "2026-11-20T09:58:00Z")
    assert found.autoscaler == "Karpenter reports in use: cpu 8, memory 32Gi, nvidia.com/gpu 2, nodes 2; Ready is True"
    assert found.stops == ("Pod default/train",)
    assert found.command == "kubectl patch nodepool.karpenter.sh gpu --type merge -p " + (
        '\'{"spec":{"limits":{"nvidia.com/gpu":8}}}\''
    )


def test_trials_that_are_left_out_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World("karpenter")
    lower_the_limit(world)
    scale_down(world)
    world.lists["pods"] += [copy.deepcopy(PENDING), copy.deepcopy(PENDING)]
    world.lists["pods"][-1]["metadata"] |= {"name": "other", "uid": "00000000-0000-4000-8000-0000000000ab"}
    for name in ("_MAX_TRIALS", "_MAX_WORKLOADS"):
        monkeypatch.setattr(f"gpu_preflight.doctor.plan.{name}", 1)

    skipped = [(each.what, each.why) for each in compare_with_plan(world, tmp_path).not_compared]

    assert ("pods that the differences stop", "only the first 1 of 2 differences were tried") in skipped
    assert ("pods that the differences stop", "only 1 of 2 workloads were tried") in skipped
    monkeypatch.setattr("gpu_preflight.doctor.plan._MAX_NODES", 2)
    skipped = [(each.what, each.why) for each in compare_with_plan(world, tmp_path).not_compared]
    assert ("pods that the differences stop", "the cluster has more than 2 nodes") in skipped


def test_a_raised_limit_stops_no_pod(tmp_path: Path) -> None:
    world = World("karpenter")
    raise_the_limit(world)
    world.lists["pods"].append(copy.deepcopy(PENDING))

    assert only_difference(world, tmp_path).stops == ()


def test_a_changed_template_of_a_workload_stops_its_pods(tmp_path: Path) -> None:
    world = World("karpenter")
    selector = {"team": "nobody"}
    pod_spec(world[SERVE])["nodeSelector"] = selector
    world["ReplicaSet default/serve-6d5f8b7c9"]["spec"]["template"]["spec"]["nodeSelector"] = selector
    pod = world["Pod default/serve-6d5f8b7c9-aaaaa"]
    pod["spec"] = {key: each for key, each in pod["spec"].items() if key != "nodeName"} | {"nodeSelector": selector}
    pod["status"] = {"phase": "Pending"}

    found = only_difference(world, tmp_path)

    assert found.field == "spec.template.spec.nodeSelector.team"
    assert found.stops == ("Pod default/serve-6d5f8b7c9-aaaaa",)
    assert found.command.endswith('{"spec":{"template":{"spec":{"nodeSelector":{"team":null}}}}}\'')


def test_a_smaller_node_group_stops_a_pod(tmp_path: Path) -> None:
    world = World("managed")
    shrink_the_group(world)
    world.lists["pods"].append(copy.deepcopy(PENDING))

    assert only_difference(world, tmp_path).stops == ("Pod default/train",)


def test_a_taint_on_a_node_stops_a_pod_that_this_node_has_room_for(tmp_path: Path) -> None:
    world = World("managed")
    taint_a_node(world)
    world.files["aws-nodegroup-gpu.json"]["nodegroup"]["scalingConfig"] |= {"maxSize": 2}
    world.remove("Pod default/serve-6d5f8b7c9-aaaaa")
    waiting = copy.deepcopy(PENDING)
    world.lists["pods"].append(waiting)

    found = {each.object: each for each in compare_with_plan(world, tmp_path).differences}

    assert found[NODE].stops == ("Pod default/train",)
    assert found[NODE].command == f"kubectl taint nodes {NODE.removeprefix('Node ')} maintenance:NoExecute-"


def test_a_planned_value_that_the_simulation_cannot_try_is_listed(tmp_path: Path) -> None:
    world = World("managed")
    world.files["aws-groups.json"]["AutoScalingGroups"][0]["MaxSize"] = 2
    world.lists["pods"].append(copy.deepcopy(PENDING))
    world.lists["pods"][-1]["spec"]["nodeSelector"] = {"team": "nobody"}

    found = compare_with_plan(world, tmp_path)

    assert [each.stops for each in found.differences] == [()]
    assert ("Auto Scaling group eks-gpu-0ac1", "the simulation can't try the planned value") in [
        (each.what, each.why) for each in found.not_compared
    ]
