"""A base cluster in memory, changes of it, and its comparison with its plan."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import yaml

from gpu_facts.doctor_reads import RESOURCES
from gpu_preflight.doctor.difference import Difference
from gpu_preflight.doctor.dump import read_dump
from gpu_preflight.doctor.live import Live
from gpu_preflight.doctor.plan import Comparison, compare
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


def compare_with_plan(world: World, folder: Path, plan: str | None = None) -> Comparison:
    """Return the differences of a changed base from its plan, or from another one."""
    live = Live(read_dump([world.dump(folder)]))
    base = "managed" if "aws-groups.json" in world.files else "karpenter.yaml"
    return compare(live, read_input([plan or str(FOLDER / "plans" / base)]), live.targets())


def only_difference(world: World, folder: Path) -> Difference:
    """Return the difference of a changed base from its plan, which must be the only one."""
    found = compare_with_plan(world, folder).differences
    assert len(found) == 1, [each.message for each in found]
    return found[0]


def pod_spec(each: Objects) -> Objects:
    spec: Objects = each["spec"]["template"]["spec"]
    return spec


def taint_a_node(world: World) -> None:
    world[NODE]["spec"]["taints"].append({"key": "maintenance", "effect": "NoExecute"})


def lower_the_limit(world: World) -> None:
    world[POOL]["spec"]["limits"] = {"nvidia.com/gpu": "2"}


def raise_the_limit(world: World) -> None:
    world[POOL]["spec"]["limits"] = {"nvidia.com/gpu": "16"}


def lower_the_quota(world: World) -> None:
    world[QUOTA]["spec"]["hard"]["requests.nvidia.com/gpu"] = "2"


def scale_down(world: World) -> None:
    world[SERVE]["spec"]["replicas"] = 1


def shrink_the_group(world: World) -> None:
    world.files["aws-nodegroup-gpu.json"]["nodegroup"]["scalingConfig"]["maxSize"] = 2
