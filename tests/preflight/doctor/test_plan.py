"""A running cluster is compared with its plan by meaning."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_preflight.doctor.dump import read_dump
from gpu_preflight.doctor.live import Live
from gpu_preflight.doctor.plan import Comparison, compare
from gpu_preflight.reading.documents import UnusableInput
from gpu_preflight.reading.inputs import read_input
from tests.preflight.doctor.planned_clusters import (
    CLASS,
    CONFIG,
    FOLDER,
    NODE,
    PLUGIN,
    POOL,
    QUEUE,
    QUOTA,
    SERVE,
    World,
    compare_with_plan,
    lower_the_limit,
    lower_the_quota,
    only_difference,
    pod_spec,
    raise_the_limit,
    scale_down,
    taint_a_node,
)


def _taint_the_pool(world: World) -> None:
    taints = pod_spec(world[POOL])["taints"]
    taints.append({"key": "team", "value": "research", "effect": "NoSchedule"})


def _untaint_the_pool(world: World) -> None:
    del pod_spec(world[POOL])["taints"]


def _unlabel_a_node(world: World) -> None:
    del world[NODE]["metadata"]["labels"]["nvidia.com/gpu.present"]


def _limit_cpus(world: World) -> None:
    world[POOL]["spec"]["limits"]["cpu"] = "8"


def _take_an_instance_type(world: World) -> None:
    pod_spec(world[POOL])["requirements"][0]["values"] = ["g5.xlarge"]


def _require_spot(world: World) -> None:
    pod_spec(world[POOL])["requirements"].append({"key": "team", "operator": "Exists"})


def _take_the_tolerations(world: World) -> None:
    del pod_spec(world[PLUGIN])["tolerations"]


def _select_other_nodes(world: World) -> None:
    pod_spec(world[PLUGIN])["nodeSelector"]["pool"] = "old"


def _move_the_image(world: World) -> None:
    pod_spec(world[PLUGIN])["containers"][0]["image"] = "nvcr.io/nvidia/k8s-device-plugin:v0.14.0"


def _share_more(world: World) -> None:
    text = world[CONFIG]["data"]["any"]
    world[CONFIG]["data"]["any"] = text.replace("replicas: 2", "replicas: 4")


def _lower_the_priority(world: World) -> None:
    world[CLASS]["value"] = 10


def _hold_the_queue(world: World) -> None:
    world[QUEUE]["spec"]["stopPolicy"] = "Hold"


def _pause(world: World) -> None:
    world[SERVE]["spec"]["paused"] = True


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_taint_the_pool, f"{POOL} has taints that aren't planned: team=research:NoSchedule"),
        (_untaint_the_pool, f"{POOL} lacks planned taints: nvidia.com/gpu=true:NoSchedule"),
        (taint_a_node, f"{NODE} has taints that aren't planned: maintenance:NoExecute"),
        (_unlabel_a_node, f"{NODE} has no metadata.labels[nvidia.com/gpu.present], planned true"),
        (lower_the_limit, f"{POOL}: spec.limits[nvidia.com/gpu] is lowered to 2, planned 8"),
        (raise_the_limit, f"{POOL}: spec.limits[nvidia.com/gpu] is raised to 16, planned 8"),
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
        (lower_the_quota, f"{QUOTA}: spec.hard[requests.nvidia.com/gpu] is lowered to 2, planned 4"),
        (_lower_the_priority, f"{CLASS}: value is lowered to 10, planned 1000"),
        (_hold_the_queue, f"{QUEUE}: spec.stopPolicy is Hold, planned None"),
        (scale_down, f"{SERVE}: spec.replicas is lowered to 1, planned 2"),
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

    assert only_difference(world, tmp_path).message == message


def test_a_cluster_as_it_was_deployed_has_no_difference(tmp_path: Path) -> None:
    for base, objects in (("karpenter", 7), ("managed", 2)):
        folder = tmp_path / base
        folder.mkdir()

        found = compare_with_plan(World(base), folder)

        assert (found.differences, found.compared) == ((), objects)


def _add_defaults(world: World) -> None:
    serve = world[SERVE]
    serve["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": "3"}
    serve["spec"] |= {"revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "strategy": {"type": "RollingUpdate"}}
    template = pod_spec(serve)
    template |= {"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler"}
    template["containers"][0] |= {"imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log"}
    template["containers"][0]["resources"]["requests"] = {"nvidia.com/gpu": "1"}
    world[POOL]["spec"]["template"]["spec"]["expireAfter"] = "720h"
    world[POOL]["metadata"]["annotations"] = {"karpenter.sh/nodepool-hash": "123"}


def _scale_by_an_autoscaler(world: World) -> None:
    scale_down(world)
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
    template = pod_spec(world[POOL])
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

    assert [each.message for each in compare_with_plan(world, tmp_path).differences] == []


def test_a_planned_value_that_means_the_same_as_none_is_no_difference(tmp_path: Path) -> None:
    planned = yaml.safe_load((FOLDER / "plans" / "karpenter.yaml").read_text().split("---")[1])
    pod_spec(planned).update(hostNetwork=False, hostPID=False, initContainers=[], securityContext={})
    pod_spec(planned)["containers"][0] |= {"tty": False, "env": [{"name": "CONFIG_FILE", "value": ""}]}
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(planned))
    world = World("karpenter")
    pod_spec(world[PLUGIN])["containers"][0]["env"] = [{"name": "CONFIG_FILE"}]
    (tmp_path / "dump").mkdir()

    assert compare_with_plan(world, tmp_path / "dump", str(tmp_path / "plan.yaml")).differences == ()


def test_a_missing_object_is_not_reported_without_its_list(tmp_path: Path) -> None:
    world = World("karpenter")
    world.remove(QUOTA)
    del world.lists["resourcequotas"]

    found = compare_with_plan(world, tmp_path)

    assert found.differences == ()
    assert (QUOTA, "the list of kind ResourceQuota isn't in the dump") in [
        (each.what, each.why) for each in found.not_compared
    ]


def test_values_that_only_deployment_knows_match_anything_and_are_listed(tmp_path: Path) -> None:
    found = compare_with_plan(World("managed"), tmp_path)

    assert found.differences == ()
    assert [(each.what, each.why) for each in found.not_compared] == [
        (SERVE, "metadata.annotations.role: the value is known at deployment only"),
        ("node group gpu", "these properties aren't compared: NodeRole, Subnets"),
        ("2 other resources of the plan", "only Kubernetes objects and node groups are compared"),
    ]


def test_another_version_of_the_api_is_not_compared(tmp_path: Path) -> None:
    world = World("karpenter")
    lower_the_limit(world)
    world[POOL]["apiVersion"] = "karpenter.sh/v1beta1"

    found = compare_with_plan(world, tmp_path)

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
        compare_with_plan(World("managed"), folder, str(plan))


def _write(file: Path, *objects: dict[str, Any]) -> str:
    file.write_text(yaml.safe_dump_all(objects))
    return str(file)


def _compare_objects(tmp_path: Path, planned: dict[str, Any], live: dict[str, Any] | None) -> Comparison:
    """Compare one planned object with a dump that has the complete list of its kind."""
    items = [live] if live is not None else []
    content = {"apiVersion": "v1", "kind": f"{planned['kind']}List", "items": items}
    (tmp_path / "list.json").write_text(json.dumps(content))
    plan = read_input([_write(tmp_path / "plan.yaml", planned)])
    return compare(Live(read_dump([str(tmp_path / "list.json")])), plan, [])


@pytest.mark.parametrize(
    ("kind", "spec", "path"),
    [
        ("NodePool", {"limits": {"nvidia.com/gpu": 0}}, "spec.limits[nvidia.com/gpu]"),
        ("ClusterQueue", {"namespaceSelector": {}}, "spec.namespaceSelector"),
        ("ClusterPolicy", {"driver": {"enabled": False}}, "spec.driver.enabled"),
    ],
)
def test_a_removed_value_that_differs_from_no_value_is_reported(
    kind: str, spec: dict[str, Any], path: str, tmp_path: Path
) -> None:
    planned = {"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "gpu"}, "spec": spec}

    found = _compare_objects(tmp_path, planned, planned | {"spec": {}}).differences

    assert [(each.field, each.live) for each in found] == [(path, "none")]
    assert found[0].fix.startswith(f"Set {path} of {kind} gpu to ") or found[0].fix.startswith(f"Restore {path}")
    assert "planned " + found[0].planned in found[0].message
    assert found[0].planned != ""


def test_a_scratch_volume_that_became_a_folder_of_the_node_is_reported(tmp_path: Path) -> None:
    def pod(source: dict[str, Any]) -> dict[str, Any]:
        volumes = [{"name": "scratch", **source}]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"volumes": volumes}}

    found = _compare_objects(tmp_path, pod({"emptyDir": {}}), pod({"hostPath": {"path": "/"}})).differences

    assert [each.message for each in found] == ["Pod x has no spec.volumes[scratch].emptyDir, planned {}"]


def test_an_object_without_a_namespace_in_the_plan_is_not_missing_if_another_namespace_has_it(tmp_path: Path) -> None:
    planned = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "serve"}, "spec": {"replicas": 2}}
    live = planned | {"metadata": {"name": "serve", "namespace": "team"}}

    found = _compare_objects(tmp_path, planned, live)

    assert found.differences == ()
    why = "the plan doesn't set its namespace, and the dump has Deployment team/serve"
    assert ("Deployment serve", why) in [(each.what, each.why) for each in found.not_compared]


def test_an_object_without_a_namespace_in_the_plan_is_not_missing_in_a_dump_of_another_namespace(
    tmp_path: Path,
) -> None:
    planned = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus"}, "spec": {}}
    dump = read_dump([World("karpenter").dump(tmp_path)])
    dump.namespace = "team"

    found = compare(Live(dump), read_input([_write(tmp_path / "plan.yaml", planned)]), [])

    assert found.differences == ()
    assert [(each.what, each.why) for each in found.not_compared] == [
        ("ResourceQuota gpus", "the dump is limited to namespace team")
    ]


def test_an_object_is_not_missing_because_another_api_group_has_no_such_kind(tmp_path: Path) -> None:
    planned = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "gpus"}}
    (tmp_path / "queues.scheduling.run.ai.json").write_text('{"apiVersion": "v1", "kind": "List", "items": []}')
    dump = read_dump([str(tmp_path / "queues.scheduling.run.ai.json")])

    found = compare(Live(dump), read_input([_write(tmp_path / "plan.yaml", planned)]), [])

    assert (found.differences, found.compared) == ((), 0)
    assert [each.why for each in found.not_compared] == [
        "the list of kind Queue of scheduling.volcano.sh isn't in the dump"
    ]


def test_an_object_whose_name_the_api_server_completes_is_not_compared(tmp_path: Path) -> None:
    planned = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"generateName": "train-"}, "spec": {}}

    found = _compare_objects(tmp_path, planned, None)

    assert [each.why for each in found.not_compared] == ["the API server completes its name"]


def test_replicas_that_an_autoscaler_may_set_are_not_a_difference_without_the_list_of_autoscalers(
    tmp_path: Path,
) -> None:
    world = World("karpenter")
    scale_down(world)
    del world.lists["horizontalpodautoscalers.autoscaling"]

    found = compare_with_plan(world, tmp_path)

    assert found.differences == ()
    why = "without the list of kind HorizontalPodAutoscaler, an autoscaler of pods may set it"
    assert (SERVE, f"spec.replicas is 1, planned 2: {why}") in [(each.what, each.why) for each in found.not_compared]


def test_parts_of_the_plan_that_are_not_read_are_listed(tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    plan.mkdir()
    (plan / "kustomization.yaml").write_text("resources: [missing.yaml]\n")
    (plan / "pool.yaml").write_text((FOLDER / "plans" / "karpenter.yaml").read_text())
    (plan / "broken.yaml").write_text("kind: [\n")
    (tmp_path / "dump").mkdir()

    found = compare_with_plan(World("karpenter"), tmp_path / "dump", str(plan)).not_compared

    assert any("missing.yaml" in each.why for each in found)
    assert any("broken.yaml" in each.what for each in found)


def test_a_plan_of_another_cluster_is_rejected(tmp_path: Path) -> None:
    template = (FOLDER / "plans" / "managed" / "Gpu.template.json").read_text()
    plan = tmp_path / "Gpu.template.json"
    plan.write_text(template.replace('"Name": "prod"', '"Name": "staging"'))
    (tmp_path / "dump").mkdir()

    with pytest.raises(UnusableInput, match=r"--against must hold cluster prod of the dump, got staging"):
        compare_with_plan(World("managed"), tmp_path / "dump", str(plan))
