"""The device plugins that eksctl applies itself when it makes node groups.

Sources: eksctl-io/eksctl 99984adb6 pkg/eks/tasks.go, pkg/addons/device_plugin.go and pkg/addons/assets,
https://docs.aws.amazon.com/eks/latest/eksctl/gpu-support.html (2026-08-21)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gpu_facts.charts import DEVICE_PLUGIN, DRA_DRIVERS, EFA_DEVICE_PLUGIN, GPU_OPERATOR
from gpu_facts.kubernetes import KUBE_SYSTEM, NODE_CRITICAL
from gpu_facts.labels import COMPUTE_TYPE, GPU_TAINT, INSTANCE_TYPE
from gpu_facts.software.instance_lists import EKSCTL_EFA_DEVICE_PLUGIN
from gpu_facts.software.placement import CRITICAL_ADDONS
from gpu_preflight.reading.eksctl.groups import (
    AL2,
    AL2023,
    BOTTLEROCKET,
    family_of,
    has_nvidia_gpus,
    taints_of,
)
from gpu_preflight.reading.eksctl.resources import metadata
from gpu_preflight.reading.objects import Chart, Object, objects_of
from gpu_preflight.reading.unknown import dig, mappings

_OF_NVIDIA, _OF_EFA = "nvidia-device-plugin-daemonset", EFA_DEVICE_PLUGIN
# Next to a manager of GPUs, a user passes --install-nvidia-plugin=false; where not, GPU011 says what happens.
_MANAGERS = (DEVICE_PLUGIN, GPU_OPERATOR, *DRA_DRIVERS)
_IMAGES = ("k8s-device-plugin", DEVICE_PLUGIN)


def device_plugins(config: Object, objects: Iterable[Object], charts: Iterable[Chart]) -> Iterator[Object]:
    """Yield the DaemonSets of device plugins that eksctl applies for the groups of a config."""
    # What names another cluster is none of this one's.
    here = (None, metadata(config).get("name"))
    every = [each for each in objects if each.cluster in here]
    groups = _groups(config)
    # On nodes of Bottlerocket it would be a second one: who has both keeps it off, which no config says.
    beside = any(has_nvidia_gpus(each) and str(family_of(each)).startswith(BOTTLEROCKET) for each in groups)
    managed = any(each.name in _MANAGERS for each in charts if each.cluster in here) or any(
        map(_is_device_plugin, every)
    )
    if not beside and not managed:
        yield from default_plugin(config)
    if any(each.get("efaEnabled") is True for each in groups) and not any(each.name == _OF_EFA for each in every):
        yield from _applied(config, _efa(config))


def default_plugin(config: Object) -> Iterator[Object]:
    """Yield NVIDIA's device plugin, which eksctl applies for a config unless its command line forbids it.

    Bottlerocket has one built in, and other families have no driver.
    """
    of_gpus = [each for each in _groups(config) if has_nvidia_gpus(each) and family_of(each) in (AL2, AL2023)]
    if of_gpus:
        yield from _applied(config, _nvidia(of_gpus))


def _groups(config: Object) -> list[dict[str, Any]]:
    return [each for kind in ("nodeGroups", "managedNodeGroups") for each in mappings(config.content.get(kind))]


def _is_device_plugin(each: Object) -> bool:
    containers = mappings(dig(each.content, "spec", "template", "spec", "containers"))
    images = [str(one.get("image")).partition("@")[0].rpartition("/")[2] for one in containers]
    return each.kind == "ClusterPolicy" or (each.kind == "DaemonSet" and any(one.startswith(_IMAGES) for one in images))


def _applied(config: Object, content: dict[str, Any]) -> Iterator[Object]:
    return objects_of(content, config.origin.file, cluster=metadata(config).get("name"))


def _nvidia(groups: list[dict[str, Any]]) -> dict[str, Any]:
    """Return NVIDIA's device plugin, which tolerates the taints of the groups; of each key the first."""
    tolerations: dict[str, dict[str, Any]] = {
        GPU_TAINT: {"key": GPU_TAINT, "operator": "Exists", "effect": "NoSchedule"},
    }
    for taint in (each for group in groups for each in taints_of(group)):
        tolerations.setdefault(str(taint.get("key")), {"key": taint.get("key"), "value": taint.get("value") or ""})
    container = {"name": "nvidia-device-plugin-ctr", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"}
    return _daemon_set(_OF_NVIDIA, container, {"tolerations": list(tolerations.values())})


def _efa(config: Object) -> dict[str, Any]:
    types = {"key": INSTANCE_TYPE, "operator": "In", "values": list(EKSCTL_EFA_DEVICE_PLUGIN)}
    automatic = {"key": COMPUTE_TYPE, "operator": "NotIn", "values": ["auto"]}
    terms = [{"matchExpressions": [types, automatic]}]
    tolerations = [
        dict(CRITICAL_ADDONS),
        {"key": "aws.amazon.com/efa", "operator": "Exists", "effect": "NoSchedule"},
    ]
    registry = f"602401143452.dkr.ecr.{metadata(config).get('region')}.amazonaws.com"
    container = {
        "name": _OF_EFA,
        "image": f"{registry}/eks/{_OF_EFA}:v0.5.4",
        "resources": {"requests": {"cpu": "10m", "memory": "20Mi"}},
    }
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    return _daemon_set(_OF_EFA, container, {"tolerations": tolerations, "affinity": affinity, "hostNetwork": True})


def _daemon_set(name: str, container: dict[str, Any], pod: dict[str, Any]) -> dict[str, Any]:
    labels = {"name": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": KUBE_SYSTEM},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"priorityClassName": NODE_CRITICAL, "containers": [container], **pod},
            },
        },
    }
