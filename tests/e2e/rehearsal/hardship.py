"""Failure scenarios: limits of pools, missing capacity, spot interruption, and GPUs that never appear."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import product

from gpu_facts.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from gpu_rehearsal.cluster.client import Client, Object
from gpu_rehearsal.cluster.pod_status import is_ready
from gpu_rehearsal.report import Line, Outcome, Report
from gpu_rehearsal.scenarios.pools import (
    GpuPool,
    conditions,
    event_messages,
    explain_pod,
    pool_node_claims,
    pool_nodes,
    wait_until_found,
)
from gpu_rehearsal.scenarios.scale import STEP_SECONDS, why_not_simulated
from gpu_rehearsal.stage import Stage

_LABEL = "rehearsal.gpu-constructs.io/server"
_PODS = "/api/v1/namespaces/default/pods"
GONE_SECONDS = 120.0


class Servers:
    """Pods of one Deployment, each with one device of a pool."""

    def __init__(self, stage: Stage, pool: GpuPool, name: str) -> None:
        self.pool, self.name = pool, name
        self._stage, self._client = stage, stage.client
        self._path = f"/apis/apps/v1/namespaces/default/deployments/{name}"

    @property
    def pods(self) -> list[Object]:
        """The remaining pods, without the terminating ones."""
        found = self._client.list(_PODS, labelSelector=f"{_LABEL}={self.name}")
        return [each for each in found if "deletionTimestamp" not in each["metadata"]]

    @property
    def ready(self) -> list[Object]:
        """Those that serve."""
        return [each for each in self.pods if is_ready(each)]

    @property
    def waiting(self) -> list[Object]:
        """Those that do not."""
        return [each for each in self.pods if not is_ready(each)]

    @property
    def nodes(self) -> list[Object]:
        """Nodes of the pool."""
        return pool_nodes(self._client, self.pool)

    def node_of(self, pod: Object) -> Object:
        """Return the node on which a pod runs."""
        return self._client.get(f"/api/v1/nodes/{pod['spec']['nodeName']}")

    def ask_for(self, count: int) -> None:
        """Have so many of them."""
        self._client.patch(self._path, {"spec": {"replicas": count}})

    def come(self, count: int, seconds: float) -> bool:
        """Wait until so many serve, and return whether they came."""
        return wait_until_found(lambda: len(self.ready) >= count or None, seconds) is not None

    def said(self) -> str:
        """Return the explanation of the first pod that doesn't serve."""
        return next((explain_pod(self._stage, self.pool, each) for each in self.waiting), "every pod serves")


@contextmanager
def servers(stage: Stage, pool: GpuPool, name: str, *, count: int = 1) -> Iterator[Servers]:
    """Have servers on a pool; afterwards they are gone, and their nodes too."""
    made = Servers(stage, pool, name)
    deployment = _deployment(pool, name, count)
    stage.client.create(deployment)
    try:
        yield made
    finally:
        stage.client.delete(stage.client.object_path(deployment))
        for claim in pool_node_claims(stage.client, pool):
            stage.client.delete(f"/apis/karpenter.sh/v1/nodeclaims/{claim['metadata']['name']}")
        wait_until_found(lambda: not (made.nodes or pool_node_claims(stage.client, pool)) or None, GONE_SECONDS)


def device_count(client: Client, node: Object, resource: str) -> int:
    """Return how many devices of a kind a node has."""
    found = client.get(f"/api/v1/nodes/{node['metadata']['name']}")
    return int(found["status"].get("allocatable", {}).get(resource, 0))


def _deployment(pool: GpuPool, name: str, count: int) -> Object:
    labels = {_LABEL: name}
    pod = {
        "nodeSelector": dict(pool.selector),
        "tolerations": pool.tolerations,
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "rehearsal", "resources": {"limits": {pool.resource: "1"}}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


SCENARIO = "Hardship"
# How long nothing may happen that should not. Karpenter gathers pods for at most 10 seconds, and looks again after as
# many. Source: https://karpenter.sh/docs/reference/settings/ (BATCH_MAX_DURATION)
QUIET_SECONDS = 25.0
# From EC2's warning to the end of a spot instance; the real programs do their work in real seconds.
WARNED_SECONDS = 120.0
# Above that many nodes a limit is not filled up.
MOST_NODES = 8
_KARPENTER = "app.kubernetes.io/name=karpenter"


def hardship(stage: Stage, pools: Iterable[GpuPool], report: Report) -> None:
    """Play every hardship on each pool of Karpenter's."""
    for pool in pools:
        reason = _why_not_played(stage, pool)
        if reason:
            report.add([_line(pool, "failure scenarios run", Outcome.NOT_PLAYED, reason)])
            continue
        for each in HARDSHIPS:
            report.add(each(stage, pool))


def _why_not_played(stage: Stage, pool: GpuPool) -> str:
    if pool.kind != "NodePool":
        return "limits, capacity and notices are played on pools of Karpenter's"
    return why_not_simulated(stage, pool)


def the_limit(stage: Stage, pool: GpuPool) -> Iterator[Line]:
    """At the limit of a pool one more pod stays Pending, and no program requests an instance for it."""
    promise = "at the limit a pod stays Pending, and no node is made for it"
    most = _nodepool(stage, pool)["spec"].get("limits", {}).get(pool.resource)
    if most is None or int(most) > MOST_NODES:
        why = f"its limit of {pool.resource} is {most or 'none'}: more than {MOST_NODES} nodes are not played"
        yield _line(pool, promise, Outcome.NOT_PLAYED, why)
        return
    with servers(stage, pool, "limit", count=int(most) + 1) as made:
        if not made.come(int(most), 2 * STEP_SECONDS):
            yield _line(pool, promise, Outcome.FAILED, f"up to the limit: {made.said()}")
            return
        full = len(pool_node_claims(stage.client, pool))
        over = wait_until_found(
            lambda: (len(pool_node_claims(stage.client, pool)) > full or len(made.ready) > int(most)) or None,
            QUIET_SECONDS,
        )
        said = [each for pod in made.waiting for each in event_messages(stage.client, pod, "FailedScheduling")]
        limited = any("limit" in each for each in said)
        yield _line(pool, promise, _outcome(limited and not over), "; ".join(said) or "no event gives a reason")


def one_zone_is_out(stage: Stage, pool: GpuPool) -> Iterator[Line]:
    """A zone has no more of a type: the node comes in another."""
    promise = "out of capacity in one zone, a node comes in another"
    with servers(stage, pool, "one-zone") as made:
        if not made.come(1, STEP_SECONDS):
            yield _line(pool, promise, Outcome.FAILED, f"with capacity: {made.said()}")
            return
        zone = _label(made.node_of(made.ready[0]), ZONE)
        for kind, lifecycle in product(_types(stage, pool), ("on-demand", "spot")):
            stage.aws.capacity.exhaust(kind, zone, lifecycle=lifecycle)
        count = device_count(stage.client, made.node_of(made.ready[0]), pool.resource) + 1
        made.ask_for(count)
        came = made.come(count, STEP_SECONDS)
        zones = sorted({_label(each, ZONE) for each in made.nodes} - {zone})
        text = f"{zone} is out, the node is in {', '.join(zones)}" if came and zones else made.said()
        yield _line(pool, promise, _outcome(came and bool(zones)), text)
    _forget(stage)


def every_zone_is_out(stage: Stage, pool: GpuPool) -> Iterator[Line]:
    """No zone has a type: the pod stays Pending, and EC2's message is reported."""
    promise = "out of capacity everywhere, a pod stays Pending and EC2's message is reported"
    for kind, zone, lifecycle in product(_types(stage, pool), _zones(stage), ("on-demand", "spot")):
        stage.aws.capacity.exhaust(kind, zone, lifecycle=lifecycle)
    with servers(stage, pool, "no-zone") as made:
        said = wait_until_found(lambda: _of_capacity(stage) or None, STEP_SECONDS)
        came = made.come(1, QUIET_SECONDS)
        text = "a pod runs" if came else said or f"no event has EC2's message: {made.said()}"
        yield _line(pool, promise, _outcome(bool(said) and not came), text)
    _forget(stage)


def broken_gpus(stage: Stage, pool: GpuPool) -> Iterator[Line]:
    """A node comes and shows no GPU: that is reported, and its pod gets no second one."""
    promise = "a node whose GPUs never come is reported, and its pod gets no second one"
    with servers(stage, pool, "broken") as made:
        found = wait_until_found(lambda: _broken(stage, made) or None, STEP_SECONDS)
        said = found and wait_until_found(lambda: _unregistered(stage, pool) or None, STEP_SECONDS)
        if not said:
            yield _line(pool, promise, Outcome.FAILED, made.said())
            return
        more = made.come(1, QUIET_SECONDS) or len(pool_node_claims(stage.client, pool)) > 1
        text = (
            f"{len(pool_node_claims(stage.client, pool))} NodeClaims, {len(made.ready)} pods run"
            if more
            else made.said()
        )
        yield _line(pool, promise, _outcome(not more), f"{said}; {text}")
    stage.devices.broken.clear()


def interruption(stage: Stage, pool: GpuPool) -> Iterator[Line]:
    """EC2 warns of the end of a spot instance: pods are on another node before it comes."""
    promise = f"a spot interruption is answered within {WARNED_SECONDS:.0f} seconds: drained, and replaced"
    with servers(stage, pool, "spot") as made:
        node = _spot_node(made)
        if isinstance(node, str):
            yield _line(pool, promise, Outcome.NOT_PLAYED if made.ready else Outcome.FAILED, node)
            return
        old, began = node["metadata"]["name"], time.monotonic()
        stage.aws.interrupt(_instance(node))
        gone = wait_until_found(
            lambda: old not in {each["metadata"]["name"] for each in made.nodes} or None, WARNED_SECONDS
        )
        stage.aws.terminate(_instance(node))
        replaced = gone and made.come(1, WARNED_SECONDS - (time.monotonic() - began))
        text = "" if replaced else made.said() if gone else f"{old} is still there"
        yield _line(pool, promise, _outcome(bool(replaced)), text)
    _forget(stage)


HARDSHIPS: tuple[Callable[[Stage, GpuPool], Iterator[Line]], ...] = (
    the_limit,
    broken_gpus,
    interruption,
    one_zone_is_out,
    every_zone_is_out,
)


def _line(pool: GpuPool, promise: str, outcome: Outcome, text: str = "") -> Line:
    return Line(scenario=SCENARIO, promise=f"pool {pool.name}: {promise}", outcome=outcome, text=text)


def _outcome(held: bool) -> Outcome:
    return Outcome.HELD if held else Outcome.FAILED


def _nodepool(stage: Stage, pool: GpuPool) -> Object:
    return stage.client.get(f"/apis/karpenter.sh/v1/nodepools/{pool.name}")


def _types(stage: Stage, pool: GpuPool) -> list[str]:
    """Return the instance types that a pool may ask for."""
    asked = _nodepool(stage, pool)["spec"]["template"]["spec"]["requirements"]
    named = [
        kind for each in asked if each["key"] == INSTANCE_TYPE and each["operator"] == "In" for kind in each["values"]
    ]
    if named:
        return named
    told = stage.aws.client("ec2").get_paginator("describe_instance_types").paginate()
    return [str(each["InstanceType"]) for page in told for each in page["InstanceTypes"]]


def _zones(stage: Stage) -> list[str]:
    found = stage.aws.client("ec2").describe_availability_zones()["AvailabilityZones"]
    return [str(each["ZoneName"]) for each in found]


def _label(node: Object, key: str) -> str:
    return str(node["metadata"]["labels"].get(key, ""))


def _instance(node: Object) -> str:
    return str(node["spec"]["providerID"]).rpartition("/")[2]


def _spot_node(made: Servers) -> Object | str:
    """Return the node of the first pod, or why there is none that could be interrupted."""
    if not made.come(1, STEP_SECONDS):
        return made.said()
    node = made.node_of(made.ready[0])
    bought = _label(node, CAPACITY_TYPE)
    return node if bought == "spot" else f"its nodes are bought as {bought}"


def _broken(stage: Stage, made: Servers) -> set[str]:
    """Break the devices of all nodes of a pool, and return their names."""
    stage.devices.broken.update(str(each["metadata"]["name"]) for each in made.nodes)
    return stage.devices.broken


def _unregistered(stage: Stage, pool: GpuPool) -> str:
    said = [each for claim in pool_node_claims(stage.client, pool) for each in conditions(claim)]
    return next((each for each in said if pool.resource in each and "not registered" in each), "")


def _of_capacity(stage: Stage) -> str:
    """Return Karpenter's messages about capacity that EC2 doesn't have."""
    found = stage.client.list("/api/v1/events", fieldSelector="reason=InsufficientCapacityError")
    return next((str(each["message"]) for each in found if "do not have sufficient" in each["message"]), "")


def _forget(stage: Stage) -> None:
    """Have all capacity again, and Karpenter know it: it keeps for minutes in memory what EC2 had not.

    Source: https://github.com/aws/karpenter-provider-aws/blob/v1.14.1/pkg/cache/cache.go (UnavailableOfferingsTTL)
    """
    stage.aws.capacity.restore_all()
    pods = stage.client.list("/api/v1/pods", labelSelector=_KARPENTER)
    for each in pods:
        stage.client.delete(stage.client.object_path({"apiVersion": "v1", "kind": "Pod", **each}))
