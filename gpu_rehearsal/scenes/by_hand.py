"""Nodes that are added by hand, and the devices that nodes show and that no pod uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gpu_facts.resources import DEVICE_CLASS, NVIDIA
from gpu_rehearsal.players.cluster.client import Client, Object
from gpu_rehearsal.players.cluster.container import CLUSTER_AUTOSCALER
from gpu_rehearsal.stage import Stage

_DRA = "/apis/resource.k8s.io/v1"


def shown(client: Client, node: Object) -> str:
    """Return the first GPU resource that a node shows, else the class of devices that its driver publishes, if any."""
    names = sorted(each for each, amount in _allocatable(node).items() if each.startswith(NVIDIA) and int(amount))
    if names:
        return names[0]
    has_class = client.find(f"{_DRA}/deviceclasses/{DEVICE_CLASS}") is not None
    return DEVICE_CLASS if has_class and _devices(client, node) else ""


def devices_of(client: Client, node: Object, device: str) -> int:
    """Return how many devices a node shows.

    Args:
        device: Name of the resource, or of the class of devices.
    """
    return int(_allocatable(node).get(device, 0)) if "/" in device else len(_devices(client, node))


def free_devices(client: Client, nodes: Iterable[Object], device: str) -> Iterator[int]:
    """Yield how many devices of each node no pod uses; arguments as for `devices_of`."""
    pods = client.list("/api/v1/pods")
    for node in nodes:
        name = node["metadata"]["name"]
        if "/" in device:
            used = sum(_requested(each, device) for each in pods if each["spec"].get("nodeName") == name)
        else:
            used = len(set(_allocated(client, name)))
        yield devices_of(client, node, device) - used


def _allocatable(node: Object) -> Object:
    return dict(node["status"].get("allocatable", {}))


def _requested(pod: Object, resource: str) -> int:
    if pod["status"].get("phase") in ("Succeeded", "Failed"):
        return 0
    containers = pod["spec"]["containers"]
    return sum(int(each.get("resources", {}).get("limits", {}).get(resource, 0)) for each in containers)


def _devices(client: Client, node: Object) -> list[Object]:
    slices = client.list(f"{_DRA}/resourceslices", fieldSelector=f"spec.nodeName={node['metadata']['name']}")
    return [device for each in slices if each["spec"]["driver"] == DEVICE_CLASS for device in each["spec"]["devices"]]


def _allocated(client: Client, pool: str) -> Iterator[str]:
    for each in client.list(f"{_DRA}/resourceclaims"):
        allocation = each.get("status", {}).get("allocation", {})
        for result in allocation.get("devices", {}).get("results", ()):
            if result["pool"] == pool:
                yield str(result["device"])


# How often each group is asked for one node more.
ROUNDS = 4
_AUTOSCALER = "/cluster-autoscaler:"
NO_AUTOSCALER = f"no program of cluster autoscaler is given by {CLUSTER_AUTOSCALER}"


def waits_for_hands(stage: Stage) -> bool:
    """Whether the stack has a cluster autoscaler whose program is not here."""
    return any(stage.programs.of(each) is None for each in _autoscalers(stage))


def has_autoscaler(stage: Stage) -> bool:
    """Whether the stack has a cluster autoscaler, its program or pods that are played."""
    return bool(_autoscalers(stage))


def _autoscalers(stage: Stage) -> list[str]:
    """Return the images of cluster autoscaler in deployments, whether their pods are there by now or not."""
    deployments = stage.client.list("/apis/apps/v1/deployments")
    pods = (each["spec"]["template"]["spec"] for each in deployments)
    return [image for pod in pods for each in pod["containers"] if _AUTOSCALER in (image := str(each["image"]))]


def grow(stage: Stage, group: str) -> bool:
    """Ask an Auto Scaling group for one node more, and return whether its maximum allows that."""
    scaling = stage.aws.client("autoscaling")
    [found] = scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group])["AutoScalingGroups"]
    if found["DesiredCapacity"] >= found["MaxSize"]:
        return False
    scaling.set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=found["DesiredCapacity"] + 1)
    return True


def remove(stage: Stage, node: Object) -> None:
    """End the instance of a node, as cluster autoscaler does with a node that is no longer needed."""
    stage.aws.client("autoscaling").terminate_instance_in_auto_scaling_group(
        InstanceId=str(node["spec"]["providerID"]).rpartition("/")[2], ShouldDecrementDesiredCapacity=True
    )


def one_node_more(stage: Stage) -> list[str]:
    """Ask each managed group that may be empty, and is not full, for one node more; return their names."""
    eks = stage.aws.client("eks")
    asked = []
    for name in eks.list_nodegroups(clusterName=stage.cluster)["nodegroups"]:
        where = {"clusterName": stage.cluster, "nodegroupName": name}
        sizes = eks.describe_nodegroup(**where)["nodegroup"]["scalingConfig"]
        if _has_room(sizes):
            eks.update_nodegroup_config(**where, scalingConfig={"desiredSize": sizes["desiredSize"] + 1})
            asked.append(str(name))
    return asked


def _has_room(sizes: dict[str, Any]) -> bool:
    return bool(sizes["minSize"] == 0 and sizes["desiredSize"] < sizes["maxSize"])
