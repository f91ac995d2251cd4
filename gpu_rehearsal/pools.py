"""GPU pools of a running cluster: NodePools, managed node groups and Auto Scaling groups, as their APIs return them.

The template isn't read, and neither is any static check of it: a pool that a check considers broken is tried too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from gpu_facts.labels import CLUSTER_TAG, GPU_TAINT, INSTANCE_TYPE, LABEL_TAG, NODE_GROUP, NODE_POOL, POOL, RESOURCE_TAG
from gpu_facts.resources import GPU, NVIDIA
from gpu_rehearsal.cluster.client import Client, Object
from gpu_rehearsal.credentials import Cloud

Kind = Literal["NodePool", "node group", "Auto Scaling group"]
_POOLS, _OVERLAYS = "/apis/karpenter.sh/v1/nodepools", "/apis/karpenter.sh/v1alpha1/nodeoverlays"
# Requirements of a NodePool by which it can choose GPU instances.
# Source: https://karpenter.sh/docs/concepts/nodepools/ (2026-11)
_GPU_REQUIREMENT = "karpenter.k8s.aws/instance-gpu-"
_FAMILY = "karpenter.k8s.aws/instance-family"
_EKS_GROUP_TAG = "eks:nodegroup-name"


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuPool:
    """A pool whose nodes have GPUs, and the pod that a user would start there.

    Attributes:
        name: Name of the pool: its label, if its nodes have one, or else the name of the API object.
        kind: The API object that creates its nodes.
        selector: Labels that hold a pod to the pool; empty if the pool declares none.
        resource: The resource that a pod requests; empty if only a node of the pool can tell.
        group: Name of its Auto Scaling group; empty for a NodePool.
        static: Whether its size is fixed, so that no node is created for a pod.
        tolerated: Keys of taints that its pods tolerate.
    """

    name: str
    kind: Kind
    selector: Mapping[str, str]
    resource: str = GPU
    group: str = ""
    static: bool = False
    tolerated: tuple[str, ...] = (GPU_TAINT,)

    @property
    def tolerations(self) -> list[dict[str, str]]:
        """The tolerations of a pod: those that EKS adds to a GPU pod, and those that the caller named."""
        return [{"key": each, "operator": "Exists"} for each in self.tolerated]


def gpu_pools(client: Client, cloud: Cloud, cluster: str, *, tolerate: Iterable[str] = ()) -> list[GpuPool]:
    """Return the GPU pools of a cluster, sorted by name.

    Args:
        cloud: The account of the cluster.
        cluster: Name of the cluster.
        tolerate: Keys of taints that pods tolerate, besides the GPU taint.
    """
    types = _gpu_types(cloud)
    found = (*_karpenter_pools(client, types), *_group_pools(cloud, cluster, types))
    tolerated = (GPU_TAINT, *tolerate)
    return sorted((replace(each, tolerated=tolerated) for each in found), key=lambda pool: pool.name)


def _gpu_types(cloud: Cloud) -> set[str]:
    pages = cloud.client("ec2").get_paginator("describe_instance_types").paginate()
    return {
        str(each["InstanceType"])
        for page in pages
        for each in page["InstanceTypes"]
        if any(gpu["Manufacturer"] == "NVIDIA" for gpu in each.get("GpuInfo", {}).get("Gpus", ()))
    }


def _karpenter_pools(client: Client, types: set[str]) -> Iterator[GpuPool]:
    overlays = _listed(client, _OVERLAYS)
    for each in _listed(client, _POOLS):
        if _has_gpus(each["spec"], types):
            name = str(each["metadata"]["name"])
            yield GpuPool(
                name=name,
                kind="NodePool",
                selector={NODE_POOL: name},
                resource=_overlaid(overlays, name) or GPU,
                static=each["spec"].get("replicas") is not None,
            )


def _listed(client: Client, path: str) -> list[Object]:
    """Return the objects of a collection; none where the cluster doesn't serve it."""
    found = client.find(path)
    return list(found["items"]) if found else []


def _has_gpus(spec: Object, types: set[str]) -> bool:
    """Whether any part of a NodePool asks for GPU nodes: a pool with a typo in one of its types is tried too."""
    template = spec["template"]["spec"]
    named = [*spec.get("limits", {}), *(each["key"] for each in template.get("taints", ()))]
    return any(each.startswith(NVIDIA) for each in named) or any(
        _asks_for_gpus(each, types) for each in template.get("requirements", ())
    )


def _asks_for_gpus(requirement: Object, types: set[str]) -> bool:
    key, values = str(requirement["key"]), set(requirement.get("values", ()))
    if requirement["operator"] in ("NotIn", "DoesNotExist"):
        return False
    families = {each.partition(".")[0] for each in types}
    return (
        key.startswith(_GPU_REQUIREMENT)
        or (key == INSTANCE_TYPE and bool(values & types))
        or (key == _FAMILY and bool(values & families))
    )


def _overlaid(overlays: Iterable[Object], pool: str) -> str:
    """Return the first GPU resource that a NodeOverlay declares for nodes of a pool; empty if none does."""
    names = sorted(
        resource
        for overlay in overlays
        if all(pool in each["values"] for each in overlay["spec"]["requirements"] if each["key"] == NODE_POOL)
        for resource, amount in overlay["spec"].get("capacity", {}).items()
        if resource.startswith(NVIDIA) and str(amount) != "0"
    )
    return names[0] if names else ""


def _group_pools(cloud: Cloud, cluster: str, types: set[str]) -> Iterator[GpuPool]:
    for each in cloud.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]:
        name, tags = str(each["AutoScalingGroupName"]), _tags(each)
        managed = tags.get(_EKS_GROUP_TAG, "")
        if f"{CLUSTER_TAG}{cluster}" not in tags:
            continue
        group = _node_group(cloud, cluster, managed) if managed else {}
        is_tainted = any(str(taint["key"]).startswith(NVIDIA) for taint in group.get("taints", ()))
        if not (_group_instance_types(cloud, each) & types or _resource(tags) or is_tainted):
            continue
        declared = {key.removeprefix(LABEL_TAG): tags[key] for key in tags if key.startswith(LABEL_TAG)}
        labels = {**declared, **group.get("labels", {})}
        yield GpuPool(
            name=labels.get(POOL) or managed or name,
            kind="node group" if managed else "Auto Scaling group",
            selector={NODE_GROUP: managed} if managed else declared,
            resource=_resource(tags),
            group=name,
        )


def _node_group(cloud: Cloud, cluster: str, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = cloud.client("eks").describe_nodegroup(clusterName=cluster, nodegroupName=name)
    group: Mapping[str, Any] = found["nodegroup"]
    return group


def _tags(group: Mapping[str, Any]) -> dict[str, str]:
    return {str(each["Key"]): str(each["Value"]) for each in group.get("Tags", ())}


def _resource(tags: Mapping[str, str]) -> str:
    """Return the first GPU resource that tags declare to cluster autoscaler; empty if they declare none."""
    names = sorted(key.removeprefix(RESOURCE_TAG) for key in tags if key.startswith(f"{RESOURCE_TAG}{NVIDIA}"))
    return names[0] if names else ""


def _group_instance_types(cloud: Cloud, group: Mapping[str, Any]) -> set[str]:
    """Return the instance types that an Auto Scaling group launches."""
    policy = group.get("MixedInstancesPolicy", {}).get("LaunchTemplate", {})
    overrides = {str(each["InstanceType"]) for each in policy.get("Overrides", ()) if "InstanceType" in each}
    template = policy.get("LaunchTemplateSpecification") or group.get("LaunchTemplate") or {}
    return overrides or _launched(cloud, template)


def _launched(cloud: Cloud, template: Mapping[str, Any]) -> set[str]:
    """Return the instance type in a launch template, if it names one."""
    [found] = cloud.client("ec2").describe_launch_template_versions(
        LaunchTemplateId=template["LaunchTemplateId"], Versions=[str(template.get("Version", "$Default"))]
    )["LaunchTemplateVersions"]
    named = found["LaunchTemplateData"].get("InstanceType")
    return {str(named)} if named else set()
