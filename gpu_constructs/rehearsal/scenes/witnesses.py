"""Witnesses: what everybody who takes part says of a pod that does not run, so that a failure names its cause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpu_constructs.facts.labels import NODE_POOL
from gpu_constructs.rehearsal.players.cluster.client import Client, Object
from gpu_constructs.rehearsal.players.cluster.pod.status import owner
from gpu_constructs.rehearsal.pools import Asked
from gpu_constructs.rehearsal.stage import Stage

# What Karpenter tells of every condition, which conditions tell as well.
_TRANSITION = "Status condition transitioned"
_CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"


def nodes_of(client: Client, pool: Asked) -> list[Object]:
    """Return the nodes of a pool that a label names."""
    return client.list(
        "/api/v1/nodes", labelSelector=",".join(f"{key}={value}" for key, value in pool.selector.items())
    )


def claims_of(client: Client, pool: Asked) -> list[Object]:
    """Return the NodeClaims of a pool: what Karpenter has asked EC2 for, whether it came or not."""
    return client.list(_CLAIMS, labelSelector=f"{NODE_POOL}={pool.pool}")


def said_of(stage: Stage, pool: Asked, pod: Object) -> str:
    """Return what is said of a pod, its pool, and what was made for it, each once."""
    return "; ".join(dict.fromkeys(_said(stage, pool, pod)))


def told(client: Client, about: Object, *reasons: str) -> list[str]:
    """Return what events say about an object, the last of each kind.

    Args:
        client: An administrator of the cluster.
        about: The object, there still or gone.
        reasons: The kinds that are asked for; none for all.
    """
    metadata = about["metadata"]
    found = client.list("/api/v1/events", fieldSelector=f"involvedObject.name={metadata['name']}")
    own = [each for each in found if not reasons or each["reason"] in reasons]
    return list({each["reason"]: f"{each['reason']}: {each['message']}" for each in own}.values())


def conditions(of: Object) -> list[str]:
    """Return the conditions of an object that are not so, with why."""
    found = of.get("status", {}).get("conditions", ())
    who = f"{of['kind']} {of['metadata']['name']}" if "kind" in of else of["metadata"]["name"]
    return [
        f"{who}: {each['type']}: {each['message']}" for each in found if each["status"] != "True" and each["message"]
    ]


def _said(stage: Stage, pool: Asked, pod: Object) -> Iterator[str]:
    client = stage.client
    said = [each["message"] for each in pod["status"].get("conditions", ()) if each.get("message")]
    yield from said
    yield from (each for each in told(client, pod) if each.partition(": ")[2] not in said)
    yield from _of_pool(client, pool)
    nodes = nodes_of(client, pool)
    yield from _of_daemon_sets(client, nodes)
    yield from (f"{name}: {why}" for name, why in stage.devices.failures.items())
    yield from (f"{instance} is no node: {why}" for instance, why in stage.nodes.never.items())


def _of_pool(client: Client, pool: Asked) -> Iterator[str]:
    """Say what Karpenter tells of a pool, its class and its NodeClaims."""
    found = client.find(f"/apis/karpenter.sh/v1/nodepools/{pool.pool}")
    if found is None:
        return
    yield from conditions(found)
    named = found["spec"]["template"]["spec"]["nodeClassRef"]["name"]
    of_class = client.find(f"/apis/karpenter.k8s.aws/v1/ec2nodeclasses/{named}")
    if of_class is not None:
        yield from conditions(of_class)
    for claim in claims_of(client, pool):
        yield from conditions(claim)
        yield from (each for each in told(client, claim) if _TRANSITION not in each)


def _of_daemon_sets(client: Client, nodes: Iterable[Object]) -> Iterator[str]:
    """Say which DaemonSets have no pod on a node, and what the node keeps off."""
    sets = {str(each["metadata"]["name"]) for each in client.list("/apis/apps/v1/daemonsets")}
    for node in nodes:
        name = node["metadata"]["name"]
        pods = client.list("/api/v1/pods", fieldSelector=f"spec.nodeName={name}")
        absent = sets - {owner(each, "DaemonSet") for each in pods}
        taints = [f"{each['key']}:{each['effect']}" for each in node["spec"].get("taints", ())]
        if absent:
            yield f"on {name}, with taints {', '.join(taints) or 'none'}, is no pod of {', '.join(sorted(absent))}"
