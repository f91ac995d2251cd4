"""Nodes by hand: what an operator does for pods that wait where no program of cluster autoscaler is given."""

from __future__ import annotations

from typing import Any

from gpu_constructs.rehearsal.players.cluster.programs import CLUSTER_AUTOSCALER
from gpu_constructs.rehearsal.stage import Stage

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
