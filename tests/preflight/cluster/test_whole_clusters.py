"""Which inputs contain a whole cluster: an object that they lack is missing there, and unknown elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.inputs import read_input
from tests.preflight.inputs import template

NOTES = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "notes", "namespace": "kube-system"}}
IMAGES = {"karpenter": "public.ecr.aws/karpenter/controller:1.14.1"}


def applied(*objects: dict[str, Any]) -> dict[str, Any]:
    """The template of a cluster that applies some objects itself, as the CDK does."""
    manifest = {"ClusterName": {"Ref": "Cluster"}, "Manifest": json.dumps(objects)}
    own = {"Type": "Custom::AWSCDK-EKS-KubernetesResource", "Properties": manifest}
    return {"Resources": {**template()["Resources"], "Manifest": own}}


def live(kind: str, name: str, namespace: str = "kube-system", **more: Any) -> dict[str, Any]:
    """An object as ``kubectl`` writes it."""
    pod = {"containers": [{"name": "main", "image": IMAGES.get(name, f"example.com/{name}:1")}]}
    spec = {"template": {"spec": pod}} if kind in ("Deployment", "DaemonSet") else {}
    metadata = {"name": name, "namespace": namespace, "uid": f"{kind}-{name}"}
    if kind == "Node":
        del metadata["namespace"]
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec, **more}


NODE = live("Node", "ip-10-0-0-1.ec2.internal")
SYSTEM = [live("Deployment", "coredns"), live("DaemonSet", "kube-proxy"), live("DaemonSet", "aws-node")]
SHOP = live("Deployment", "web", "shop")
NODE_POOL = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "gpu"}, "spec": {}}


def with_files(folder: Path, *objects: dict[str, Any], whole: dict[str, Any] | None = None) -> Cluster:
    """The cluster read from plain files, next to the template of a cluster or alone."""
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(objects or (NOTES,)))
    (folder / "stack.template.json").write_text(json.dumps(whole or NOTES))
    [found] = clusters(read_input([str(folder / name) for name in ("stack.template.json", "objects.yaml")]))
    return found


@pytest.mark.parametrize(
    "objects",
    [
        [NOTES],
        [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a", "namespace": "kube-system"}}],
        [{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reader"}}],
        [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}}],
        [{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "logs", "namespace": "logging"}}],
        [*SYSTEM, SHOP],
    ],
    ids=["config map", "account", "role", "namespace", "daemon set", "without nodes"],
)
def test_files_next_to_a_template_are_not_the_whole_cluster(tmp_path: Path, objects: list[dict[str, Any]]) -> None:
    found = with_files(tmp_path, *objects, whole=template())

    assert not any((found.sees_software, found.sees_programs))
    # A dump that lists the Deployments of kube-system lists the autoscaler too.
    assert found.runs("cluster-autoscaler") is (Answer.NO if SHOP in objects else Answer.UNKNOWN)


def test_what_the_template_applies_is_all_that_runs(tmp_path: Path) -> None:
    found = with_files(tmp_path, NOTES, whole=applied(NOTES))

    assert found.sees_software
    assert found.sees_objects
    assert found.runs("cluster-autoscaler") is Answer.NO


def test_the_map_of_roles_that_cdk_writes_tells_of_no_software(tmp_path: Path) -> None:
    roles = {**NOTES, "metadata": {"name": "aws-auth", "namespace": "kube-system"}}

    assert not with_files(tmp_path, whole=applied(roles)).sees_software


def test_who_writes_some_objects_writes_the_one_that_a_pod_names(tmp_path: Path) -> None:
    classes = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}}

    assert with_files(tmp_path, classes, whole=template()).sees_objects
    assert not with_files(tmp_path, classes).sees_objects


def test_who_writes_a_device_plugin_writes_no_second_one(tmp_path: Path) -> None:
    pod = {"containers": [{"name": "plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"}]}
    plugin = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "nvidia-device-plugin", "namespace": "kube-system"},
        "spec": {"template": {"spec": pod}},
    }

    assert with_files(tmp_path, plugin, whole=template()).sees_device_plugins("nvidia.com/gpu")
    assert not with_files(tmp_path, whole=template()).sees_device_plugins("nvidia.com/gpu")


def test_a_dump_of_the_whole_cluster_says_what_does_not_run(tmp_path: Path) -> None:
    found = with_files(tmp_path, NODE, *SYSTEM, SHOP, NODE_POOL)

    assert found.sees_programs
    assert (found.runs("karpenter"), found.runs("cluster-autoscaler")) == (Answer.UNKNOWN, Answer.NO)
    # A dump contains objects without a program only on request.
    assert not found.sees_objects
    assert not found.sees_software


def test_karpenter_of_a_dump_runs(tmp_path: Path) -> None:
    found = with_files(tmp_path, NODE, *SYSTEM, live("Deployment", "karpenter", "karpenter"), NODE_POOL)

    assert found.runs("karpenter") is Answer.YES


def test_auto_mode_is_no_program_of_a_dump(tmp_path: Path) -> None:
    assert with_files(tmp_path, NODE, *SYSTEM, SHOP).runs("auto-mode") is Answer.UNKNOWN


@pytest.mark.parametrize(
    "objects",
    [
        [*SYSTEM, SHOP],
        [NODE, *SYSTEM],
        [NODE, *SYSTEM[1:], SHOP],
        [NODE, *({**each, "metadata": {**each["metadata"], "uid": None}} for each in SYSTEM), SHOP],
        [{**NODE, "status": {"allocatable": {"nvidia.com/gpu": "1"}}}, *SYSTEM, SHOP],
    ],
    ids=["no nodes", "one namespace", "no dns", "written by hand", "nodes with GPUs"],
)
def test_less_than_that_is_no_dump_of_the_whole_cluster(tmp_path: Path, objects: list[dict[str, Any]]) -> None:
    found = with_files(tmp_path, *objects, NODE_POOL)

    assert not found.sees_programs
    assert found.runs("karpenter") is Answer.YES
