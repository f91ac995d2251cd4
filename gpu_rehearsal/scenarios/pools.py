"""GPU pools of a running cluster, and the causes that each component reports if a pod of a pool doesn't run.

Pools are NodePools, managed node groups and Auto Scaling groups, as their APIs return them. Neither the template nor a
static check is read, so a pool that a check considers broken is tried too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from gpu_facts.labels import CLUSTER_TAG, GPU_TAINT, INSTANCE_TYPE, LABEL_TAG, NODE_GROUP, NODE_POOL, POOL, RESOURCE_TAG
from gpu_facts.resources import GPU, NVIDIA
from gpu_rehearsal.cluster.addons import DEVICES
from gpu_rehearsal.cluster.client import Client, Object
from gpu_rehearsal.cluster.pod_status import owner
from gpu_rehearsal.credentials import Cloud
from gpu_rehearsal.stage import Stage

Kind = Literal["NodePool", "node group", "Auto Scaling group"]
_POOLS, _OVERLAYS = "/apis/karpenter.sh/v1/nodepools", "/apis/karpenter.sh/v1alpha1/nodeoverlays"
# Requirements of a NodePool by which it can choose GPU instances.
# Source: https://karpenter.sh/docs/concepts/nodepools/ (2026-11)
_GPU_REQUIREMENT = "karpenter.k8s.aws/instance-gpu-"
_FAMILY = "karpenter.k8s.aws/instance-family"
_EKS_GROUP_TAG = "eks:nodegroup-name"


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuPool:
    """A GPU pool, and the fields of a pod that a user would start there.

    Attributes:
        name: Value of the pool label of its nodes, or else the name of the API object.
        kind: Kind of the API object that creates its nodes.
        selector: Labels that select the pool; empty if the pool declares none.
        resource: The resource that a pod requests; empty if only a node of the pool shows it.
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
        """The tolerations of a pod: the ones that EKS adds to a GPU pod, and the ones that the caller passed."""
        return [{"key": each, "operator": "Exists"} for each in self.tolerated]


def gpu_pools(client: Client, cloud: Cloud, cluster: str, *, tolerate: Iterable[str] = ()) -> list[GpuPool]:
    """Return the GPU pools of a cluster, sorted by name.

    Args:
        cloud: The account of the cluster.
        cluster: Name of the cluster.
        tolerate: Keys of taints that pods tolerate in addition to the GPU taint.
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
    """Return the objects of a collection; none if the cluster doesn't serve it."""
    found = client.find(path)
    return list(found["items"]) if found else []


def _has_gpus(spec: Object, types: set[str]) -> bool:
    """Whether any field of a NodePool requests GPU nodes, so that a pool with a typo in one type is tried too."""
    template = spec["template"]["spec"]
    named = [*spec.get("limits", {}), *(each["key"] for each in template.get("taints", ()))]
    return any(each.startswith(NVIDIA) for each in named) or any(
        _requests_gpus(each, types) for each in template.get("requirements", ())
    )


def _requests_gpus(requirement: Object, types: set[str]) -> bool:
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


POLL_SECONDS = 0.5
Seen = TypeVar("Seen")


def wait_until_found(look: Callable[[], Seen | None], seconds: float) -> Seen | None:
    """Call ``look`` until it returns a value, and return it; ``None`` after a timeout."""
    ends = time.monotonic() + seconds
    while True:
        seen = look()
        if seen is not None or time.monotonic() > ends:
            return seen
        time.sleep(POLL_SECONDS)


def wait_until(look: Callable[[], bool], seconds: float) -> bool:
    """Call ``look`` until it returns true. Return False if it doesn't within the given seconds."""
    return wait_until_found(lambda: look() or None, seconds) is not None


def wait_until_none(look: Callable[[], Sized], seconds: float) -> bool:
    """Call ``look`` until it returns nothing. Return False if it doesn't within the given seconds."""
    return wait_until(lambda: not look(), seconds)


# Karpenter's event for each change of a condition. The conditions have the same text.
_TRANSITION = "Status condition transitioned"
_CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
# The field of an EC2NodeClass behind each of its conditions.
_SELECTORS = {
    "AMIsReady": "amiSelectorTerms",
    "InstanceProfileReady": "role",
    "SecurityGroupsReady": "securityGroupSelectorTerms",
    "SubnetsReady": "subnetSelectorTerms",
}


def pool_nodes(client: Client, pool: GpuPool) -> list[Object]:
    """Return the nodes with the labels of a pool."""
    return client.list(
        "/api/v1/nodes", labelSelector=",".join(f"{key}={value}" for key, value in pool.selector.items())
    )


def pool_node_claims(client: Client, pool: GpuPool) -> list[Object]:
    """Return the NodeClaims of a pool."""
    return client.list(_CLAIMS, labelSelector=f"{NODE_POOL}={pool.name}")


def explain_pod(stage: Stage, pool: GpuPool, pod: Object | None) -> str:
    """Return all reports about a pod, its pool and its nodes. `None` is a missing pod."""
    return "; ".join(dict.fromkeys(_pod_reports(stage, pool, pod)))


def cause(stage: Stage, pod: Object) -> str:
    """Return why a pod isn't ready: the last error of its programs, waiting reasons, conditions and events."""
    return "; ".join(dict.fromkeys(_causes(stage, pod))) or str(pod["status"].get("phase", "not seen"))


def _causes(stage: Stage, pod: Object) -> Iterator[str]:
    states = list(_states(stage, pod))
    yield from states
    yield from (each for each in event_messages(stage.client, pod) if each.partition(": ")[2] not in states)


def _states(stage: Stage, pod: Object) -> Iterator[str]:
    yield from stage.kubelet.last_errors(pod)
    for each in pod["status"].get("containerStatuses", ()):
        if message := each.get("state", {}).get("waiting", {}).get("message"):
            yield f"container {each['name']}: {message}"
    conditions = pod["status"].get("conditions", ())
    yield from (str(each["message"]) for each in conditions if each["status"] != "True" and each.get("message"))
    if message := pod["status"].get("message"):
        yield str(message)


def event_messages(client: Client, about: Object, *reasons: str) -> list[str]:
    """Return the messages of events of an object, the last one for each reason and reporter.

    Args:
        about: The object, which may be deleted.
        reasons: Reasons of the events; none for all.
    """
    metadata = about["metadata"]
    found = client.list("/api/v1/events", fieldSelector=f"involvedObject.name={metadata['name']}")
    own = [each for each in found if not reasons or each["reason"] in reasons]
    # The scheduler and Karpenter have reasons of the same name.
    last = {(each["reason"], each.get("reportingComponent")): f"{each['reason']}: {each['message']}" for each in own}
    return list(last.values())


def conditions(found_object: Object) -> list[str]:
    """Return the conditions of an object whose status isn't True, with their messages."""
    found = found_object.get("status", {}).get("conditions", ())
    name = found_object["metadata"]["name"]
    who = f"{found_object['kind']} {name}" if "kind" in found_object else name
    return [
        f"{who}: {each['type']}: {each['message']}" for each in found if each["status"] != "True" and each["message"]
    ]


def _pod_reports(stage: Stage, pool: GpuPool, pod: Object | None) -> Iterator[str]:
    client = stage.client
    if why := stage.stopped():
        yield why
    if pod is not None:
        yield from _causes(stage, pod)
    yield from _karpenter_conditions(stage, pool)
    nodes = pool_nodes(client, pool)
    yield from _missing_daemon_sets(client, nodes)
    yield from (f"{name}: {why}" for name, why in stage.devices.failures.items())
    yield from (f"{instance} isn't a node: {why}" for instance, why in stage.nodes.never.items())


def _karpenter_conditions(stage: Stage, pool: GpuPool) -> Iterator[str]:
    """Yield Karpenter's reports about a pool, its class and its NodeClaims, and why it launches no instance."""
    client = stage.client
    found = client.find(f"/apis/karpenter.sh/v1/nodepools/{pool.name}")
    if found is None:
        return
    yield from conditions(found)
    named = found["spec"]["template"]["spec"]["nodeClassRef"]["name"]
    node_class = client.find(f"/apis/karpenter.k8s.aws/v1/ec2nodeclasses/{named}")
    claims = pool_node_claims(client, pool)
    unready = [line for each in (node_class, *claims) if each is not None for line in conditions(each)]
    yield from unready
    yield from (line for claim in claims for line in event_messages(client, claim) if _TRANSITION not in line)
    yield from _unresolved(node_class or {})
    if unready:
        # Conditions don't contain errors of SSM or EC2.
        yield from _karpenter_errors(stage)
    if not claims:
        yield f"NodePool {pool.name} {_allowed(found['spec'])}"


def _unresolved(node_class: Object) -> Iterator[str]:
    """Yield the selectors of an EC2NodeClass without a match."""
    for each in node_class.get("status", {}).get("conditions", ()):
        if each["status"] != "True" and (field := _SELECTORS.get(each["type"])):
            yield f"EC2NodeClass {node_class['metadata']['name']} has {field} {node_class['spec'].get(field)}"


def _allowed(spec: Object) -> str:
    """Return the nodes that a NodePool may launch."""
    template = spec["template"]["spec"]
    wanted = [f"{each['key']} {each['operator']} {each.get('values', [])}" for each in template["requirements"]]
    taints = [f"{each['key']}:{each['effect']}" for each in template.get("taints", ())]
    return f"has requirements {', '.join(wanted)}; taints {', '.join(taints)}; limits {spec.get('limits', {})}"


def _karpenter_errors(stage: Stage) -> Iterator[str]:
    pods = stage.client.list("/api/v1/pods", labelSelector="app.kubernetes.io/name=karpenter")
    yield from (f"Karpenter: {error}" for pod in pods for error in stage.kubelet.last_errors(pod))


def _missing_daemon_sets(client: Client, nodes: Iterable[Object]) -> Iterator[str]:
    """Yield the DaemonSets that have no pod on a node, and the node's taints."""
    sets = {str(each["metadata"]["name"]) for each in client.list("/apis/apps/v1/daemonsets")}
    for node in nodes:
        name = node["metadata"]["name"]
        pods = client.list("/api/v1/pods", fieldSelector=f"spec.nodeName={name}")
        absent = sets - {owner(each, "DaemonSet") for each in pods}
        taints = [f"{each['key']}:{each['effect']}" for each in node["spec"].get("taints", ())]
        if absent:
            described = f"node {name} with taints {', '.join(taints) or 'none'}"
            yield f"{described} has no pod of {', '.join(sorted(absent))}"


AUTO_MODE = "the autoscaler of Auto Mode only runs at AWS"


def unsimulated_dependency(stage: Stage, pod: Object) -> str:
    """Return what a pod waits for and isn't simulated; empty if it can run or has a node."""
    if pod["spec"].get("nodeName"):
        return ""
    devices = set(_devices(pod))
    for chart in sorted(stage.skipped.missing):
        if found := sorted(each for each in devices if _is_chart_device(each, chart)):
            return f"requests {', '.join(found)} of chart {chart}, which is not in the folder"
    if is_auto_mode(stage):
        return f"waits for a node: {AUTO_MODE}"
    why = karpenter_absence(stage) if devices else ""
    # A node group with GPUs may have to run the pod, so it doesn't only wait for Karpenter.
    if not why or any(each.kind != "NodePool" for each in gpu_pools(stage.client, stage.aws, stage.cluster)):
        return ""
    return f"waits for a node: {why}"


def karpenter_absence(stage: Stage) -> str:
    """Return why a Karpenter of the stacks doesn't run; empty if it runs, or there is none."""
    if "karpenter" in stage.skipped.missing:
        return "chart karpenter isn't in a folder of packed charts; pass --charts FOLDER with it"
    missing = next((each for each in stage.programs.not_simulated if "/karpenter/" in each), "")
    return f"no program for {missing}; pass --karpenter VERSION=FILE, which make e2e-tools builds" if missing else ""


def _devices(pod: Object) -> Iterator[str]:
    for container in pod["spec"]["containers"]:
        yield from (each for each in container.get("resources", {}).get("limits", {}) if "/" in each)


def _is_chart_device(device: str, chart: str) -> bool:
    return any(device == each or (each.endswith("/") and device.startswith(each)) for each in DEVICES.get(chart, ()))


def is_auto_mode(stage: Stage) -> bool:
    """Whether EKS Auto Mode creates nodes of the cluster."""
    cluster = stage.aws.client("eks").describe_cluster(name=stage.cluster)["cluster"]
    return bool(cluster.get("computeConfig", {}).get("enabled"))
