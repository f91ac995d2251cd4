"""Causes of a pod that doesn't run, in the words of every component that reports one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import TypeVar

from gpu_facts.labels import NODE_POOL
from gpu_rehearsal.cluster.addons import DEVICES
from gpu_rehearsal.cluster.client import Client, Object
from gpu_rehearsal.cluster.pod_status import owner
from gpu_rehearsal.pools import GpuPool, gpu_pools
from gpu_rehearsal.stage import Stage

LOOKS_EVERY = 0.5
Seen = TypeVar("Seen")


def wait_until_found(look: Callable[[], Seen | None], seconds: float) -> Seen | None:
    """Look until there is something to be seen, and return it; ``None`` when the time is over."""
    ends = time.monotonic() + seconds
    while True:
        seen = look()
        if seen is not None or time.monotonic() > ends:
            return seen
        time.sleep(LOOKS_EVERY)


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
    """Return the nodes of a pool that a label names."""
    return client.list(
        "/api/v1/nodes", labelSelector=",".join(f"{key}={value}" for key, value in pool.selector.items())
    )


def pool_node_claims(client: Client, pool: GpuPool) -> list[Object]:
    """Return the NodeClaims of a pool: what Karpenter has asked EC2 for, whether it came or not."""
    return client.list(_CLAIMS, labelSelector=f"{NODE_POOL}={pool.name}")


def explain_pod(stage: Stage, pool: GpuPool, pod: Object | None) -> str:
    """Return what is reported about a pod, its pool, and what was created for it, each once; `None` is no pod."""
    return "; ".join(dict.fromkeys(_pod_reports(stage, pool, pod)))


def cause(stage: Stage, pod: Object) -> str:
    """Return why a pod isn't ready: the last error of its programs, what containers wait for, conditions, events."""
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
    """Return what events say about an object, the last of each reason and reporter.

    Args:
        about: The object, there still or gone.
        reasons: The kinds that are asked for; none for all.
    """
    metadata = about["metadata"]
    found = client.list("/api/v1/events", fieldSelector=f"involvedObject.name={metadata['name']}")
    own = [each for each in found if not reasons or each["reason"] in reasons]
    # The scheduler and Karpenter have reasons of the same name.
    last = {(each["reason"], each.get("reportingComponent")): f"{each['reason']}: {each['message']}" for each in own}
    return list(last.values())


def conditions(of: Object) -> list[str]:
    """Return the conditions of an object whose status isn't True, with their messages."""
    found = of.get("status", {}).get("conditions", ())
    who = f"{of['kind']} {of['metadata']['name']}" if "kind" in of else of["metadata"]["name"]
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
    yield from (f"{instance} is no node: {why}" for instance, why in stage.nodes.never.items())


def _karpenter_conditions(stage: Stage, pool: GpuPool) -> Iterator[str]:
    """Yield what Karpenter reports of a pool, its class and its NodeClaims, and why it launches no instance."""
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
        # Conditions don't have the reason of SSM or EC2.
        yield from _karpenter_errors(stage)
    if not claims:
        yield f"NodePool {pool.name} {_allowed(found['spec'])}"


def _unresolved(node_class: Object) -> Iterator[str]:
    """Yield the selectors of an EC2NodeClass for which Karpenter found nothing yet."""
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
            yield f"on {name}, with taints {', '.join(taints) or 'none'}, is no pod of {', '.join(sorted(absent))}"


AUTO_MODE = "the autoscaler of Auto Mode runs at AWS only"


def waits_for_the_absent(stage: Stage, pod: Object) -> str:
    """Return what a pod waits for that is not on stage; empty where it may run, or has a node already."""
    if pod["spec"].get("nodeName"):
        return ""
    asked = set(_devices(pod))
    for chart in sorted(stage.unplayed.missing):
        if found := sorted(each for each in asked if _is_chart_device(each, chart)):
            return f"asks for {', '.join(found)} of chart {chart}, which is not in the folder"
    if is_auto_mode(stage):
        return f"waits for a node: {AUTO_MODE}"
    why = karpenter_absence(stage) if asked else ""
    # A node group with GPUs might have to take the pod: what it waits for isn't Karpenter alone.
    if not why or any(each.kind != "NodePool" for each in gpu_pools(stage.client, stage.aws, stage.cluster)):
        return ""
    return f"waits for a node: {why}"


def karpenter_absence(stage: Stage) -> str:
    """Return why a Karpenter of the stacks doesn't run; empty if it runs, or there is none."""
    if "karpenter" in stage.unplayed.missing:
        return "chart karpenter isn't in a folder of packed charts; pass --charts FOLDER with it"
    missing = next((each for each in stage.programs.not_played if "/karpenter/" in each), "")
    return f"no program for {missing}; pass --karpenter VERSION=FILE, which make e2e-tools builds" if missing else ""


def _devices(pod: Object) -> Iterator[str]:
    for container in pod["spec"]["containers"]:
        yield from (each for each in container.get("resources", {}).get("limits", {}) if "/" in each)


def _is_chart_device(device: str, chart: str) -> bool:
    return any(device == each or (each.endswith("/") and device.startswith(each)) for each in DEVICES.get(chart, ()))


def is_auto_mode(stage: Stage) -> bool:
    """Whether EKS Auto Mode creates nodes of the cluster."""
    told = stage.aws.client("eks").describe_cluster(name=stage.cluster)["cluster"]
    return bool(told.get("computeConfig", {}).get("enabled"))
