"""Node groups, their nodes and device plugins of charts are compared with the plan."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_preflight.doctor.plan import Comparison
from tests.preflight.doctor.planned_clusters import (
    FOLDER,
    PLUGIN,
    Objects,
    World,
    compare_with_plan,
    only_difference,
    shrink_the_group,
)


def _change_the_type(world: World) -> None:
    world.files["aws-nodegroup-gpu.json"]["nodegroup"]["instanceTypes"] = ["g5.2xlarge"]


def _taint_the_group(world: World) -> None:
    taints = world.files["aws-nodegroup-gpu.json"]["nodegroup"]["taints"]
    taints.append({"key": "team", "value": "research", "effect": "NO_EXECUTE"})


def _label_the_group(world: World) -> None:
    del world.files["aws-nodegroup-gpu.json"]["nodegroup"]["labels"]["nvidia.com/gpu.present"]


def _shrink_the_scaling_group(world: World) -> None:
    world.files["aws-groups.json"]["AutoScalingGroups"][0]["MaxSize"] = 2


def _shrink_the_view(world: World) -> None:
    data = world.files["configmap-cluster-autoscaler-status.yaml"]["data"]
    data["status"] = data["status"].replace("maxSize: 4", "maxSize: 2")


@pytest.mark.parametrize(
    ("change", "message", "command"),
    [
        (
            shrink_the_group,
            "node group gpu: ScalingConfig.MaxSize is lowered to 2, planned 4",
            "aws eks update-nodegroup-config --cluster-name prod --nodegroup-name gpu "
            "--scaling-config '{\"maxSize\":4}'",
        ),
        (_change_the_type, "node group gpu: InstanceTypes is g5.2xlarge, planned g5.xlarge", ""),
        (
            _taint_the_group,
            "node group gpu has taints that aren't planned: team=research:NoExecute",
            "aws eks update-nodegroup-config --cluster-name prod --nodegroup-name gpu "
            '--taints \'{"removeTaints":[{"key":"team","value":"research","effect":"NO_EXECUTE"}]}\'',
        ),
        (
            _label_the_group,
            "node group gpu has no Labels[nvidia.com/gpu.present], planned true",
            "aws eks update-nodegroup-config --cluster-name prod --nodegroup-name gpu "
            '--labels \'{"addOrUpdateLabels":{"nvidia.com/gpu.present":"true"}}\'',
        ),
        (
            _shrink_the_scaling_group,
            "Auto Scaling group eks-gpu-0ac1: MaxSize is lowered to 2, planned 4",
            "aws autoscaling update-auto-scaling-group --auto-scaling-group-name eks-gpu-0ac1 --max-size 4",
        ),
        (_shrink_the_view, "Cluster Autoscaler's view of eks-gpu-0ac1: health.maxSize is lowered to 2, planned 4", ""),
    ],
)
def test_a_changed_node_group_is_reported_with_the_command_of_aws(
    change: Callable[[World], None], message: str, command: str, tmp_path: Path
) -> None:
    world = World("managed")
    change(world)

    found = only_difference(world, tmp_path)

    assert (found.message, found.command) == (message, command)
    assert found.autoscaler.startswith("Cluster Autoscaler reports min 0, max ")


def _template_of(folder: Path, change: Callable[[Objects], None]) -> str:
    """Write the template of the plan after a change, and return its path."""
    template = json.loads((FOLDER / "plans" / "managed" / "Gpu.template.json").read_text())
    change(template["Resources"])
    folder.mkdir()
    (folder / "Gpu.template.json").write_text(json.dumps(template))
    return str(folder / "Gpu.template.json")


@pytest.mark.parametrize(
    ("name", "tags"),
    [
        ("gpu-a1b2", {"aws:cloudformation:stack-name": "Gpu", "aws:cloudformation:logical-id": "Nodes"}),
        ("Nodes-a1b2c3", {}),
    ],
)
def test_a_group_without_a_planned_name_is_found_by_its_tags_or_its_logical_id(
    name: str, tags: dict[str, str], tmp_path: Path
) -> None:
    plan = _template_of(tmp_path / "plan", lambda every: every["Nodes"]["Properties"].pop("NodegroupName"))
    world = World("managed")
    shrink_the_group(world)
    world.files["aws-nodegroup-gpu.json"]["nodegroup"] |= {"nodegroupName": name, "tags": tags}
    (tmp_path / "dump").mkdir()

    found = compare_with_plan(world, tmp_path / "dump", plan).differences

    assert [each.message for each in found] == [f"node group {name}: ScalingConfig.MaxSize is lowered to 2, planned 4"]


def test_answers_of_aws_with_other_types_are_no_error(tmp_path: Path) -> None:
    world = World("managed")
    world.files["aws-groups.json"]["AutoScalingGroups"] += [{"AutoScalingGroupName": []}, None, "x"]
    world.files["aws-nodegroup-gpu.json"]["nodegroup"] |= {"clusterName": [], "labels": [1], "tags": "x"}

    assert [each.object for each in compare_with_plan(world, tmp_path).differences] == ["node group gpu"]


def test_a_group_that_is_not_in_the_dump_is_listed_as_not_compared(tmp_path: Path) -> None:
    world = World("managed")
    world.files["aws-nodegroup-gpu.json"]["nodegroup"]["nodegroupName"] = "other"

    found = compare_with_plan(world, tmp_path)

    assert found.differences == ()
    assert ("node group Gpu/Nodes", "isn't one of other") in [(each.what, each.why) for each in found.not_compared]


def test_a_self_managed_group_is_compared_with_its_auto_scaling_group(tmp_path: Path) -> None:
    group = {
        "Type": "AWS::AutoScaling::AutoScalingGroup",
        "Properties": {
            "AutoScalingGroupName": "eks-gpu-0ac1",
            "MinSize": "0",
            "MaxSize": "8",
            "DesiredCapacity": "1",
            "Tags": [{"Key": "kubernetes.io/cluster/prod", "Value": "owned", "PropagateAtLaunch": True}],
        },
    }
    plan = _template_of(tmp_path / "plan", lambda every: every.update(Nodes=group))
    (tmp_path / "dump").mkdir()

    found = compare_with_plan(World("managed"), tmp_path / "dump", plan).differences

    assert [(each.message, each.command) for each in found] == [
        (
            "Auto Scaling group eks-gpu-0ac1: MaxSize is lowered to 4, planned 8",
            "aws autoscaling update-auto-scaling-group --auto-scaling-group-name eks-gpu-0ac1 --max-size 8",
        )
    ]


def _release(every: Objects) -> None:
    values = {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}, {"key": "team", "operator": "Exists"}]}
    every["Plugin"] = {
        "Type": "Custom::AWSCDK-EKS-HelmChart",
        "Properties": {
            "ServiceToken": "arn:aws:lambda:us-west-2:111122223333:function:helm",
            "ClusterName": {"Ref": "Cluster"},
            "Release": "plugin",
            "Chart": "nvidia-device-plugin",
            "Version": "0.17.4",
            "Namespace": "kube-system",
            "Repository": "https://nvidia.github.io/k8s-device-plugin",
            "Values": json.dumps(values),
        },
    }


def test_a_device_plugin_of_a_chart_is_missed(tmp_path: Path) -> None:
    plan = _template_of(tmp_path / "plan", _release)
    world = World("managed")
    world.remove(PLUGIN)
    (tmp_path / "dump").mkdir()

    found = compare_with_plan(world, tmp_path / "dump", plan).differences

    assert [(each.live, each.message.partition(", which")[2]) for each in found] == [
        ("none", " advertises nvidia.com/gpu, isn't in the cluster")
    ]


def test_a_device_plugin_of_a_chart_with_other_tolerations_is_reported(tmp_path: Path) -> None:
    plan = _template_of(tmp_path / "plan", _release)
    (tmp_path / "dump").mkdir()

    found = compare_with_plan(World("managed"), tmp_path / "dump", plan).differences

    assert [(each.object, each.field) for each in found] == [(PLUGIN, "spec.template.spec.tolerations")]


def test_the_desired_size_of_a_group_belongs_to_cluster_autoscaler(tmp_path: Path) -> None:
    world = World("managed")
    assert compare_with_plan(world, tmp_path).differences == ()
    world.lists["deployments.apps"] = [
        each for each in world.lists["deployments.apps"] if "autoscaler" not in each["metadata"]["name"]
    ]
    del world.files["configmap-cluster-autoscaler-status.yaml"]
    (tmp_path / "configmap-cluster-autoscaler-status.json").unlink()
    world.files["aws-groups.json"]["AutoScalingGroups"][0]["Tags"] = []

    assert only_difference(world, tmp_path).field == "ScalingConfig.DesiredSize"


def _listed(found: Comparison) -> list[tuple[str, str]]:
    return [(each.what, each.why) for each in found.not_compared]


def test_labels_and_taints_of_nodes_are_not_compared_without_the_list_of_nodes(tmp_path: Path) -> None:
    world = World("karpenter")
    del world.lists["nodes"]

    found = compare_with_plan(world, tmp_path)

    assert found.differences == ()
    assert ("labels and taints of nodes", "the list of kind Node isn't in the dump") in _listed(found)


def test_a_group_with_a_longer_logical_id_is_another_group(tmp_path: Path) -> None:
    plan = _template_of(tmp_path / "plan", lambda every: every["Nodes"]["Properties"].pop("NodegroupName"))
    world = World("managed")
    world.files["aws-nodegroup-gpu.json"]["nodegroup"]["nodegroupName"] = "MoreNodes-a1b2c3"
    (tmp_path / "dump").mkdir()

    found = compare_with_plan(world, tmp_path / "dump", plan)

    assert found.differences == ()
    assert ("node group Gpu/Nodes", "isn't one of MoreNodes-a1b2c3") in _listed(found)


def test_unknown_sizes_and_nodes_of_a_self_managed_group_are_listed(tmp_path: Path) -> None:
    group = {
        "Type": "AWS::AutoScaling::AutoScalingGroup",
        "Properties": {
            "AutoScalingGroupName": "eks-gpu-0ac1",
            "MinSize": "0",
            "MaxSize": {"Fn::ImportValue": "max"},
            "MixedInstancesPolicy": {},
            "Tags": [{"Key": "kubernetes.io/cluster/prod", "Value": "owned", "PropagateAtLaunch": True}],
        },
    }
    plan = _template_of(tmp_path / "plan", lambda every: every.update(Nodes=group))
    (tmp_path / "dump").mkdir()

    found = _listed(compare_with_plan(World("managed"), tmp_path / "dump", plan))

    name = "Auto Scaling group eks-gpu-0ac1"
    assert (name, "MaxSize: the value is known at deployment only") in found
    assert (name, "these properties aren't compared: MixedInstancesPolicy") in found
    assert (f"nodes of {name}", "no label shows which nodes these are") in found


def test_the_desired_size_is_not_compared_if_it_is_not_known_whether_an_autoscaler_runs(tmp_path: Path) -> None:
    world = World("managed")
    del world.lists["deployments.apps"]
    del world.files["configmap-cluster-autoscaler-status.yaml"]
    world.files["aws-groups.json"]["AutoScalingGroups"][0]["Tags"] = []

    found = compare_with_plan(world, tmp_path)

    assert found.differences == ()
    why = "without the list of kind Deployment, Cluster Autoscaler may set the desired size"
    assert ("node group gpu", why) in _listed(found)


def test_a_device_plugin_of_a_chart_is_not_missed_without_the_list_of_daemon_sets(tmp_path: Path) -> None:
    plan = _template_of(tmp_path / "plan", _release)
    world = World("managed")
    del world.lists["daemonsets.apps"]
    (tmp_path / "dump").mkdir()

    found = compare_with_plan(world, tmp_path / "dump", plan)

    assert found.differences == ()
    assert "the list of kind DaemonSet isn't in the dump" in [
        why for what, why in _listed(found) if what.startswith("DaemonSet nvidia-device-plugin of ")
    ]


def test_a_device_plugin_of_a_chart_that_may_be_each_of_several_is_not_compared(tmp_path: Path) -> None:
    plan = _template_of(tmp_path / "plan", _release)
    world = World("managed")
    (other,) = (each for each in world.lists["daemonsets.apps"] if each is world[PLUGIN])
    for name in ("first", "second"):
        made = copy.deepcopy(other)
        made["metadata"] |= {"name": name, "uid": f"00000000-0000-4000-8000-0000000000{len(name)}"}
        world.lists["daemonsets.apps"].append(made)
    world.remove(PLUGIN)
    (tmp_path / "dump").mkdir()

    found = compare_with_plan(world, tmp_path / "dump", plan)

    assert found.differences == ()
    assert "it may be each of the running DaemonSets first, second" in [why for _, why in _listed(found)]
