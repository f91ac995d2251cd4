"""A running cluster is compared with its plan by meaning, and each difference names the pods that it stops."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from gpu_preflight.command_line.cli import cli
from gpu_preflight.doctor.collector import Collector
from gpu_preflight.doctor.commands import script
from gpu_preflight.doctor.connection import Refused
from gpu_preflight.doctor.difference import Difference
from gpu_preflight.doctor.dump import RESOURCES, Dump, read_dump
from gpu_preflight.doctor.live import Live
from gpu_preflight.doctor.plan import Comparison, compare
from gpu_preflight.reading.documents import UnusableInput
from gpu_preflight.reading.inputs import read_input

FOLDER = Path(__file__).parent
NODE = "Node ip-10-0-1-21.us-west-2.compute.internal"
POOL, PLUGIN, SERVE = "NodePool gpu", "DaemonSet kube-system/nvidia-device-plugin", "Deployment default/serve"
QUOTA, QUEUE, CONFIG = (
    "ResourceQuota default/team",
    "LocalQueue default/research",
    "ConfigMap kube-system/nvidia-device-plugin-config",
)
CLASS = "PriorityClass training"
# The objects of the plan that the base doesn't have, as the API server returns them.
MORE: dict[str, dict[str, Any]] = {
    "resourcequotas": {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "team", "namespace": "default"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "4", "requests.memory": "1024Gi"}},
        "status": {"hard": {"requests.nvidia.com/gpu": "4"}, "used": {"requests.nvidia.com/gpu": "2"}},
    },
    "priorityclasses.scheduling.k8s.io": {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "training"},
        "value": 1000,
        "preemptionPolicy": "PreemptLowerPriority",
    },
    "localqueues.kueue.x-k8s.io": {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "LocalQueue",
        "metadata": {"name": "research", "namespace": "default"},
        "spec": {"clusterQueue": "gpus", "stopPolicy": "None"},
    },
    "configmaps": {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "nvidia-device-plugin-config", "namespace": "kube-system"},
        "data": {
            "any": "version: v1\nsharing:\n  timeSlicing:\n    resources:\n"
            "    - name: nvidia.com/gpu\n      replicas: 2\n"
        },
    },
}
PENDING = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train", "namespace": "default", "uid": "00000000-0000-4000-8000-0000000000aa"},
    "spec": {
        "containers": [
            {"name": "app", "image": "app:1", "resources": {"limits": {"nvidia.com/gpu": "1", "memory": "1Gi"}}}
        ],
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
    },
    "status": {"phase": "Pending"},
}
Objects = dict[str, Any]


class World:
    """The files of a base, in memory."""

    def __init__(self, base: str) -> None:
        self.lists: dict[str, list[Objects]] = {}
        self.files: dict[str, Any] = {}
        for file in sorted((FOLDER / "bases" / base).iterdir()):
            content = yaml.safe_load(file.read_text())
            if file.stem in RESOURCES:
                self.lists[file.stem] = content["items"]
            else:
                self.files[file.name] = content
        if base == "karpenter":
            for name, each in MORE.items():
                self.lists.setdefault(name, []).append(copy.deepcopy(each))

    def __getitem__(self, title: str) -> Objects:
        return next(each for items in self.lists.values() for each in items if title == _title(each))

    def remove(self, title: str) -> None:
        """Delete an object. Its list stays complete."""
        for items in self.lists.values():
            items[:] = [each for each in items if title != _title(each)]

    def dump(self, folder: Path) -> str:
        """Write the files, and return their folder."""
        for name, items in self.lists.items():
            content = {"apiVersion": "v1", "kind": "List" if name != "configmaps" else "ConfigMapList", "items": items}
            (folder / f"{name}.json").write_text(json.dumps(content, default=str))
        for name, content in self.files.items():
            (folder / name).with_suffix(".json").write_text(json.dumps(content, default=str))
        return str(folder)


def _title(each: Objects) -> str:
    metadata = each["metadata"]
    return f"{each['kind']} {metadata['namespace'] + '/' if 'namespace' in metadata else ''}{metadata['name']}"


def _compared(world: World, folder: Path, plan: str | None = None) -> Comparison:
    live = Live(read_dump([world.dump(folder)]))
    base = "managed" if "aws-groups.json" in world.files else "karpenter.yaml"
    return compare(live, read_input([plan or str(FOLDER / "plans" / base)]), live.targets())


def _only(world: World, folder: Path) -> Difference:
    found = _compared(world, folder).differences
    assert len(found) == 1, [each.message for each in found]
    return found[0]


def _template(each: Objects) -> Objects:
    spec: Objects = each["spec"]["template"]["spec"]
    return spec


def _taint_the_pool(world: World) -> None:
    taints = _template(world[POOL])["taints"]
    taints.append({"key": "team", "value": "research", "effect": "NoSchedule"})


def _untaint_the_pool(world: World) -> None:
    del _template(world[POOL])["taints"]


def _taint_a_node(world: World) -> None:
    world[NODE]["spec"]["taints"].append({"key": "maintenance", "effect": "NoExecute"})


def _unlabel_a_node(world: World) -> None:
    del world[NODE]["metadata"]["labels"]["nvidia.com/gpu.present"]


def _lower_the_limit(world: World) -> None:
    world[POOL]["spec"]["limits"] = {"nvidia.com/gpu": "2"}


def _raise_the_limit(world: World) -> None:
    world[POOL]["spec"]["limits"] = {"nvidia.com/gpu": "16"}


def _limit_cpus(world: World) -> None:
    world[POOL]["spec"]["limits"]["cpu"] = "8"


def _take_an_instance_type(world: World) -> None:
    _template(world[POOL])["requirements"][0]["values"] = ["g5.xlarge"]


def _require_spot(world: World) -> None:
    _template(world[POOL])["requirements"].append({"key": "team", "operator": "Exists"})


def _take_the_tolerations(world: World) -> None:
    del _template(world[PLUGIN])["tolerations"]


def _select_other_nodes(world: World) -> None:
    _template(world[PLUGIN])["nodeSelector"]["pool"] = "old"


def _move_the_image(world: World) -> None:
    _template(world[PLUGIN])["containers"][0]["image"] = "nvcr.io/nvidia/k8s-device-plugin:v0.14.0"


def _share_more(world: World) -> None:
    text = world[CONFIG]["data"]["any"]
    world[CONFIG]["data"]["any"] = text.replace("replicas: 2", "replicas: 4")


def _lower_the_quota(world: World) -> None:
    world[QUOTA]["spec"]["hard"]["requests.nvidia.com/gpu"] = "2"


def _lower_the_priority(world: World) -> None:
    world[CLASS]["value"] = 10


def _hold_the_queue(world: World) -> None:
    world[QUEUE]["spec"]["stopPolicy"] = "Hold"


def _scale_down(world: World) -> None:
    world[SERVE]["spec"]["replicas"] = 1


def _pause(world: World) -> None:
    world[SERVE]["spec"]["paused"] = True


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_taint_the_pool, f"{POOL} has taints that aren't planned: team=research:NoSchedule"),
        (_untaint_the_pool, f"{POOL} lacks planned taints: nvidia.com/gpu=true:NoSchedule"),
        (_taint_a_node, f"{NODE} has taints that aren't planned: maintenance:NoExecute"),
        (_unlabel_a_node, f"{NODE} has no metadata.labels[nvidia.com/gpu.present], planned true"),
        (_lower_the_limit, f"{POOL}: spec.limits[nvidia.com/gpu] is lowered to 2, planned 8"),
        (_raise_the_limit, f"{POOL}: spec.limits[nvidia.com/gpu] is raised to 16, planned 8"),
        (_limit_cpus, f"{POOL} has spec.limits.cpu 8, which isn't planned"),
        (
            _take_an_instance_type,
            f"{POOL} has requirements that aren't planned: node.kubernetes.io/instance-type In (g5.xlarge); "
            "it lacks planned requirements: node.kubernetes.io/instance-type In (g5.2xlarge, g5.xlarge)",
        ),
        (_require_spot, f"{POOL} has requirements that aren't planned: team Exists"),
        (
            _take_the_tolerations,
            f"{PLUGIN} lacks planned tolerations: nvidia.com/gpu Exists:NoSchedule",
        ),
        (_select_other_nodes, f"{PLUGIN} has spec.template.spec.nodeSelector.pool old, which isn't planned"),
        (
            _move_the_image,
            f"{PLUGIN}: spec.template.spec.containers[app].image is nvcr.io/nvidia/k8s-device-plugin:v0.14.0, "
            "planned nvcr.io/nvidia/k8s-device-plugin:v0.20.0",
        ),
        (
            _share_more,
            f"{CONFIG}: data.any differs, planned value -> live value: sharing.timeSlicing.resources.replicas: 2 -> 4",
        ),
        (_lower_the_quota, f"{QUOTA}: spec.hard[requests.nvidia.com/gpu] is lowered to 2, planned 4"),
        (_lower_the_priority, f"{CLASS}: value is lowered to 10, planned 1000"),
        (_hold_the_queue, f"{QUEUE}: spec.stopPolicy is Hold, planned None"),
        (_scale_down, f"{SERVE}: spec.replicas is lowered to 1, planned 2"),
        (_pause, f"{SERVE}: spec.paused is True, planned False"),
        *(
            (lambda world, title=title: world.remove(title), f"{title} isn't in the cluster")
            for title in (POOL, PLUGIN, SERVE, QUOTA, CLASS, QUEUE, CONFIG)
        ),
    ],
)
def test_a_change_by_hand_is_reported_once_with_its_meaning(
    change: Callable[[World], None], message: str, tmp_path: Path
) -> None:
    world = World("karpenter")
    change(world)

    assert _only(world, tmp_path).message == message


def _shrink_the_group(world: World) -> None:
    world.files["aws-nodegroup-gpu.json"]["nodegroup"]["scalingConfig"]["maxSize"] = 2


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
            _shrink_the_group,
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

    found = _only(world, tmp_path)

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
    _shrink_the_group(world)
    world.files["aws-nodegroup-gpu.json"]["nodegroup"] |= {"nodegroupName": name, "tags": tags}
    (tmp_path / "dump").mkdir()

    found = _compared(world, tmp_path / "dump", plan).differences

    assert [each.message for each in found] == [f"node group {name}: ScalingConfig.MaxSize is lowered to 2, planned 4"]


def test_answers_of_aws_with_other_types_are_no_error(tmp_path: Path) -> None:
    world = World("managed")
    world.files["aws-groups.json"]["AutoScalingGroups"] += [{"AutoScalingGroupName": []}, None, "x"]
    world.files["aws-nodegroup-gpu.json"]["nodegroup"] |= {"clusterName": [], "labels": [1], "tags": "x"}

    assert [each.object for each in _compared(world, tmp_path).differences] == ["node group gpu"]


def test_a_group_that_is_not_in_the_dump_is_listed_as_not_compared(tmp_path: Path) -> None:
    world = World("managed")
    world.files["aws-nodegroup-gpu.json"]["nodegroup"]["nodegroupName"] = "other"

    found = _compared(world, tmp_path)

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

    found = _compared(World("managed"), tmp_path / "dump", plan).differences

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

    found = _compared(world, tmp_path / "dump", plan).differences

    assert [(each.live, each.message.partition(", which")[2]) for each in found] == [
        ("none", " advertises nvidia.com/gpu, isn't in the cluster")
    ]


def test_a_device_plugin_of_a_chart_with_other_tolerations_is_reported(tmp_path: Path) -> None:
    plan = _template_of(tmp_path / "plan", _release)
    (tmp_path / "dump").mkdir()

    found = _compared(World("managed"), tmp_path / "dump", plan).differences

    assert [(each.object, each.field) for each in found] == [(PLUGIN, "spec.template.spec.tolerations")]
    assert "team Exists" in found[0].message


def test_a_cluster_as_it_was_deployed_has_no_difference(tmp_path: Path) -> None:
    for base, compared in (("karpenter", 7), ("managed", 2)):
        folder = tmp_path / base
        folder.mkdir()

        found = _compared(World(base), folder)

        assert (found.differences, found.compared) == ((), compared)


def _add_defaults(world: World) -> None:
    serve = world[SERVE]
    serve["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": "3"}
    serve["spec"] |= {"revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "strategy": {"type": "RollingUpdate"}}
    template = _template(serve)
    template |= {"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler"}
    template["containers"][0] |= {"imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log"}
    template["containers"][0]["resources"]["requests"] = {"nvidia.com/gpu": "1"}
    world[POOL]["spec"]["template"]["spec"]["expireAfter"] = "720h"
    world[POOL]["metadata"]["annotations"] = {"karpenter.sh/nodepool-hash": "123"}


def _scale_by_an_autoscaler(world: World) -> None:
    _scale_down(world)
    goal = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "serve"}
    scaler = {"metadata": {"name": "serve", "namespace": "default"}, "spec": {"scaleTargetRef": goal}}
    world.lists["horizontalpodautoscalers.autoscaling"].append(
        {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", **scaler}
    )


def _label_nodes_like_karpenter(world: World) -> None:
    world[NODE]["metadata"]["labels"] |= {
        "karpenter.k8s.aws/instance-family": "g5",
        "nvidia.com/gpu.product": "NVIDIA-A10G",
    }


def _write_quantities_differently(world: World) -> None:
    world[POOL]["spec"]["limits"] = {"nvidia.com/gpu": "8000m"}
    world[QUOTA]["spec"]["hard"]["requests.memory"] = "1099511627776"
    world[POOL]["spec"]["disruption"]["consolidateAfter"] = "0h5m0s"


def _change_the_status(world: World) -> None:
    world[POOL]["status"]["resources"] = {"nvidia.com/gpu": "5"}
    world[SERVE]["status"]["readyReplicas"] = 0


def _reverse_lists(world: World) -> None:
    template = _template(world[POOL])
    template["requirements"].reverse()
    for each in template["requirements"]:
        each["values"].reverse()
    template["taints"] = [{"effect": "NoSchedule", "value": "true", "key": "nvidia.com/gpu"}]


def _cordon_and_disrupt(world: World) -> None:
    world[NODE]["spec"]["taints"] += [
        {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
    ]


def _restart(world: World) -> None:
    annotations = {"kubectl.kubernetes.io/restartedAt": "2026-11-20T10:00:00Z"}
    world[SERVE]["spec"]["template"]["metadata"]["annotations"] = annotations


@pytest.mark.parametrize(
    "change",
    [
        _add_defaults,
        _scale_by_an_autoscaler,
        _label_nodes_like_karpenter,
        _write_quantities_differently,
        _change_the_status,
        _reverse_lists,
        _cordon_and_disrupt,
        _restart,
    ],
)
def test_changes_by_the_api_server_and_controllers_are_no_differences(
    change: Callable[[World], None], tmp_path: Path
) -> None:
    world = World("karpenter")
    change(world)

    assert [each.message for each in _compared(world, tmp_path).differences] == []


def test_a_planned_value_that_means_the_same_as_none_is_no_difference(tmp_path: Path) -> None:
    planned = yaml.safe_load((FOLDER / "plans" / "karpenter.yaml").read_text().split("---")[1])
    _template(planned).update(hostNetwork=False, hostPID=False, initContainers=[], securityContext={})
    _template(planned)["containers"][0] |= {"tty": False, "env": [{"name": "CONFIG_FILE", "value": ""}]}
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(planned))
    world = World("karpenter")
    _template(world[PLUGIN])["containers"][0]["env"] = [{"name": "CONFIG_FILE"}]
    (tmp_path / "dump").mkdir()

    assert _compared(world, tmp_path / "dump", str(tmp_path / "plan.yaml")).differences == ()


def test_the_desired_size_of_a_group_belongs_to_cluster_autoscaler(tmp_path: Path) -> None:
    world = World("managed")
    assert _compared(world, tmp_path).differences == ()
    world.lists["deployments.apps"] = [
        each for each in world.lists["deployments.apps"] if "autoscaler" not in each["metadata"]["name"]
    ]
    del world.files["configmap-cluster-autoscaler-status.yaml"]
    (tmp_path / "configmap-cluster-autoscaler-status.json").unlink()
    world.files["aws-groups.json"]["AutoScalingGroups"][0]["Tags"] = []

    assert _only(world, tmp_path).field == "ScalingConfig.DesiredSize"


def test_a_lowered_limit_names_the_editor_the_time_the_autoscaler_and_the_stopped_pod(tmp_path: Path) -> None:
    world = World("karpenter")
    _lower_the_limit(world)
    for name in ("nodes", "gpu", "x"):
        fields: Objects = {"f:spec": {"f:limits": {".": {}, f"f:{name}": {}}}}
        entry = {"manager": f"other-{name}", "time": "2026-11-20T12:00:00Z", "fieldsV1": fields}
        world[POOL]["metadata"].setdefault("managedFields", []).append(entry)
    own: Objects = {"f:spec": {"f:limits": {".": {}, "f:nvidia.com/gpu": {}}}}
    world[POOL]["metadata"]["managedFields"].append(
        {"manager": "kubectl-edit", "operation": "Update", "time": "2026-11-20T09:58:00Z", "fieldsV1": own}
    )
    world.lists["pods"].append(PENDING)

    found = _only(world, tmp_path)

    assert (found.changed_by, found.changed_at) == ("kubectl-edit", "2026-11-20T09:58:00Z")
    assert found.autoscaler == "Karpenter reports in use: cpu 8, memory 32Gi, nvidia.com/gpu 2, nodes 2; Ready is True"
    assert found.stops == ("Pod default/train",)
    assert found.command == "kubectl patch nodepool.karpenter.sh gpu --type merge -p " + (
        '\'{"spec":{"limits":{"nvidia.com/gpu":8}}}\''
    )


def test_trials_that_are_left_out_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World("karpenter")
    _lower_the_limit(world)
    _scale_down(world)
    world.lists["pods"] += [copy.deepcopy(PENDING), copy.deepcopy(PENDING)]
    world.lists["pods"][-1]["metadata"] |= {"name": "other", "uid": "00000000-0000-4000-8000-0000000000ab"}
    for name in ("_MAX_TRIALS", "_MAX_WORKLOADS"):
        monkeypatch.setattr(f"gpu_preflight.doctor.plan.{name}", 1)

    skipped = [(each.what, each.why) for each in _compared(world, tmp_path).not_compared]

    assert ("pods that the differences stop", "only the first 1 of 2 differences were tried") in skipped
    assert ("pods that the differences stop", "only 1 of 2 workloads were tried") in skipped
    monkeypatch.setattr("gpu_preflight.doctor.plan._MAX_NODES", 2)
    skipped = [(each.what, each.why) for each in _compared(world, tmp_path).not_compared]
    assert ("pods that the differences stop", "the cluster has more than 2 nodes") in skipped


def test_a_raised_limit_stops_no_pod(tmp_path: Path) -> None:
    world = World("karpenter")
    _raise_the_limit(world)
    world.lists["pods"].append(copy.deepcopy(PENDING))

    assert _only(world, tmp_path).stops == ()


def test_a_changed_template_of_a_workload_stops_its_pods(tmp_path: Path) -> None:
    world = World("karpenter")
    selector = {"team": "nobody"}
    _template(world[SERVE])["nodeSelector"] = selector
    world["ReplicaSet default/serve-6d5f8b7c9"]["spec"]["template"]["spec"]["nodeSelector"] = selector
    pod = world["Pod default/serve-6d5f8b7c9-aaaaa"]
    pod["spec"] = {key: each for key, each in pod["spec"].items() if key != "nodeName"} | {"nodeSelector": selector}
    pod["status"] = {"phase": "Pending"}

    found = _only(world, tmp_path)

    assert found.field == "spec.template.spec.nodeSelector.team"
    assert found.stops == ("Pod default/serve-6d5f8b7c9-aaaaa",)
    assert found.command.endswith('{"spec":{"template":{"spec":{"nodeSelector":{"team":null}}}}}\'')


def test_a_smaller_node_group_stops_a_pod(tmp_path: Path) -> None:
    world = World("managed")
    _shrink_the_group(world)
    world.lists["pods"].append(copy.deepcopy(PENDING))

    assert _only(world, tmp_path).stops == ("Pod default/train",)


def test_a_taint_on_a_node_stops_a_pod_that_this_node_has_room_for(tmp_path: Path) -> None:
    world = World("managed")
    _taint_a_node(world)
    world.files["aws-nodegroup-gpu.json"]["nodegroup"]["scalingConfig"] |= {"maxSize": 2}
    world.remove("Pod default/serve-6d5f8b7c9-aaaaa")
    waiting = copy.deepcopy(PENDING)
    world.lists["pods"].append(waiting)

    found = {each.object: each for each in _compared(world, tmp_path).differences}

    assert found[NODE].stops == ("Pod default/train",)
    assert found[NODE].command == f"kubectl taint nodes {NODE.removeprefix('Node ')} maintenance:NoExecute-"


def test_a_missing_object_is_not_reported_without_its_list(tmp_path: Path) -> None:
    world = World("karpenter")
    world.remove(QUOTA)
    del world.lists["resourcequotas"]

    found = _compared(world, tmp_path)

    assert found.differences == ()
    assert (QUOTA, "the list of kind ResourceQuota isn't in the dump") in [
        (each.what, each.why) for each in found.not_compared
    ]


class Api:
    """A cluster that answers GET requests."""

    time = None

    def __init__(self, world: World) -> None:
        self.world = world
        self.paths: list[str] = []

    def get(self, path: str, parameters: Mapping[str, str]) -> Any:
        """Return the answer of a path."""
        self.paths.append(path)
        if path == "/apis":
            groups = sorted({each.partition(".")[2] for each in self.world.lists} - {""})
            return {"groups": [{"name": each, "preferredVersion": {"version": "v1"}} for each in groups]}
        name = path.rpartition("/")[2]
        if "/configmaps/" in path:
            found = [each for each in self.world.lists["configmaps"] if each["metadata"]["name"] == name]
            if not found:
                raise Refused("not found", status=404)
            return found[0]
        items = next((each for key, each in self.world.lists.items() if key.partition(".")[0] == name), [])
        return {"apiVersion": items[0]["apiVersion"] if items else "v1", "items": items}


def _collected(world: World) -> tuple[Comparison, Dump, Api]:
    plan, api = read_input([str(FOLDER / "plans" / "karpenter.yaml")]), Api(world)
    dump = Collector(api, "default", plan.objects).collect()
    return compare(Live(dump), plan, []), dump, api


def test_a_planned_config_map_is_read_from_the_cluster_and_missed() -> None:
    world = World("karpenter")
    assert [each.message for each in _collected(world)[0].differences] == []
    world.remove(CONFIG)

    found, _, _ = _collected(world)

    assert [each.message for each in found.differences] == [f"{CONFIG} isn't in the cluster"]


def test_a_comparison_reads_every_namespace_and_keeps_the_managers_of_fields() -> None:
    world = World("karpenter")
    _lower_the_quota(world)
    fields: Objects = {"f:spec": {"f:hard": {"f:requests.nvidia.com/gpu": {}}}}
    entry = {"manager": "kubectl-edit", "time": "2026-11-20T09:58:00Z", "fieldsV1": fields}
    world[QUOTA]["metadata"]["managedFields"] = [entry]

    found, dump, api = _collected(world)

    assert [each.changed_by for each in found.differences] == ["kubectl-edit"]
    assert "/api/v1/resourcequotas" in api.paths
    assert dump.namespace == ""


def test_hidden_values_of_environment_variables_are_no_differences(tmp_path: Path) -> None:
    plan = yaml.safe_load_all((FOLDER / "plans" / "karpenter.yaml").read_text())
    planned = [each for each in plan if each["kind"] == "Deployment"]
    _template(planned[0])["containers"][0]["env"] = [{"name": "TOKEN", "value": "secret"}]
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump_all(planned))
    world = World("karpenter")
    _template(world[SERVE])["containers"][0]["env"] = [{"name": "TOKEN", "value": "other"}]
    given = read_input([str(tmp_path / "plan.yaml")])

    found = compare(Live(Collector(Api(world), None, given.objects).collect()), given, [])

    assert found.differences == ()
    assert [each.why for each in found.not_compared] == ["values of environment variables are hidden in the dump"]


def test_a_record_of_one_pod_does_not_show_that_objects_of_other_namespaces_are_missing(tmp_path: Path) -> None:
    world = World("karpenter")
    for title in (QUOTA, PLUGIN):
        world.remove(title)
    collector = Collector(Api(world), "default")
    collector.collect("train")
    collector.record(str(tmp_path / "record.zip"), {})
    plan = read_input([str(FOLDER / "plans" / "karpenter.yaml")])

    found = compare(Live(read_dump([str(tmp_path / "record.zip")])), plan, [])

    assert [each.object for each in found.differences] == [QUOTA]
    assert (PLUGIN, "the dump is limited to namespace default") in [
        (each.what, each.why) for each in found.not_compared
    ]


def test_an_error_file_of_kubectl_shows_that_a_config_map_is_missing(tmp_path: Path) -> None:
    world = World("karpenter")
    del world.lists["configmaps"]
    error = 'Error from server (NotFound): configmaps "nvidia-device-plugin-config" not found'
    (tmp_path / "configmap-nvidia-device-plugin-config.err").write_text(error)

    assert _only(world, tmp_path).message == f"{CONFIG} isn't in the cluster"


def test_the_script_asks_for_the_managers_of_fields_except_of_pods_and_events() -> None:
    lines = script().splitlines()

    assert "get nodes nodes -A --show-managed-fields" in lines
    assert "get pods pods -A" in lines
    assert "get configmap-aws-auth configmap aws-auth -n kube-system" in lines


def test_values_that_only_deployment_knows_match_anything_and_are_listed(tmp_path: Path) -> None:
    found = _compared(World("managed"), tmp_path)

    assert found.differences == ()
    assert [(each.what, each.why) for each in found.not_compared] == [
        (SERVE, "metadata.annotations.role: the value is known at deployment only")
    ]


def test_another_version_of_the_api_is_not_compared(tmp_path: Path) -> None:
    world = World("karpenter")
    _lower_the_limit(world)
    world[POOL]["apiVersion"] = "karpenter.sh/v1beta1"

    found = _compared(world, tmp_path)

    assert found.differences == ()
    assert (POOL, "the plan has karpenter.sh/v1, and the dump has karpenter.sh/v1beta1") in [
        (each.what, each.why) for each in found.not_compared
    ]


def test_a_plan_with_other_clusters_only_is_rejected(tmp_path: Path) -> None:
    clusters = {
        name: {"Type": "AWS::EKS::Cluster", "Properties": {"Name": name.lower(), "ResourcesVpcConfig": {}}}
        for name in ("One", "Two")
    }
    plan = tmp_path / "template.json"
    plan.write_text(json.dumps({"Resources": clusters}))
    folder = tmp_path / "dump"
    folder.mkdir()

    with pytest.raises(UnusableInput, match=r"--against must hold one cluster.*got one, two"):
        _compared(World("managed"), folder, str(plan))


def _run(world: World, folder: Path, *arguments: str) -> tuple[int, str]:
    plan = str(FOLDER / "plans" / "karpenter.yaml")
    arguments = ("doctor", world.dump(folder), "--against", plan, *arguments)
    result = CliRunner().invoke(cli, arguments, standalone_mode=False)
    assert result.exception is None
    return result.return_value, result.stdout


def test_a_difference_that_stops_no_pod_does_not_fail_the_command(tmp_path: Path) -> None:
    world = World("karpenter")
    _lower_the_limit(world)

    code, text = _run(world, tmp_path)

    assert code == 0
    assert "1 difference from the plan: 7 planned objects compared" in text
    assert f"{POOL}: spec.limits[nvidia.com/gpu] is lowered to 2, planned 8" in text


def test_a_difference_that_stops_a_pod_fails_the_command(tmp_path: Path) -> None:
    world = World("karpenter")
    _lower_the_limit(world)
    world.lists["pods"].append(copy.deepcopy(PENDING))

    code, text = _run(world, tmp_path)

    assert code == 1
    assert "Pod default/train: with the planned value, the simulation runs it" in text


@pytest.mark.parametrize("form", ["text", "markdown", "html", "json"])
def test_each_format_has_the_differences(form: str, tmp_path: Path) -> None:
    world = World("karpenter")
    _lower_the_limit(world)

    code, text = _run(world, tmp_path, "--format", form)

    assert code == 0
    assert "is lowered to 2, planned 8" in text.replace("\\", "")


def test_without_a_plan_no_comparison_is_mentioned(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["doctor", World("karpenter").dump(tmp_path)])

    assert "plan" not in result.output


def test_a_plan_that_does_not_exist_is_one_line(tmp_path: Path) -> None:
    folder = World("karpenter").dump(tmp_path)
    result = CliRunner().invoke(cli, ["doctor", folder, "--against", str(tmp_path / "cdk.out")])

    assert result.exit_code == 2
    assert "cdk.out" in result.output.splitlines()[-1]
