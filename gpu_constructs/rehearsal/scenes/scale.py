"""Scale: a job on each pool is Pending, gets a node and its GPU, runs, ends, and the node goes."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from gpu_constructs.rehearsal.players.cluster.client import Client, Object
from gpu_constructs.rehearsal.players.cluster.pod.status import is_ready
from gpu_constructs.rehearsal.pools import Asked
from gpu_constructs.rehearsal.report import Line, Moment, Outcome, Report
from gpu_constructs.rehearsal.scenes.by_hand import NO_AUTOSCALER, has_autoscaler, waits_for_hands
from gpu_constructs.rehearsal.scenes.waiting import wait_until, wait_until_none
from gpu_constructs.rehearsal.scenes.witnesses import nodes_of, said_of
from gpu_constructs.rehearsal.stage import Stage

SCENE = "Scale"
# How long a step may take on stage; an autoscaler decides in seconds, and machines start faster here.
STEP_SECONDS = 120.0
# How long an empty node is kept while it is played: a NodePool's own minutes would be waited for in full.
EMPTY_FOR = "0s"
RUNS_FOR = "5"
# As long as that where pods of the job take the room that is there: none may end before the last has a node.
RUNS_BESIDE_OTHERS_FOR = "60"
# The cluster autoscaler keeps a node for ten minutes after the last one came, and for as many that it was not needed.
# Source: https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md (2026-11)
GROUP_SHRINKS_WITHIN = 1500.0


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a job's life that must come.

    Attributes:
        what: What is to be seen.
        seen: What was seen instead; empty where it came.
    """

    what: str
    seen: str = ""


def scale(stage: Stage, pools: Iterable[Asked], report: Report, *, seconds: float = STEP_SECONDS) -> None:
    """Play a job on each pool whose autoscaler is on stage.

    Args:
        stage: Where.
        pools: The pools.
        report: What happened goes there.
        seconds: How long a step may take.
    """
    for pool in pools:
        if reason := why_not_played(stage, pool):
            promise = f"a job gets a node of pool {pool.pool}"
            report.add([Line(scene=SCENE, promise=promise, outcome=Outcome.NOT_PLAYED, text=reason)])
            continue
        moments: list[Moment] = []
        report.add(_played(stage, pool, moments, seconds))
        report.follow(moments)
    report.add(_of_prices(stage))


def _of_prices(stage: Stage) -> Iterator[Line]:
    """Say that an autoscaler has asked for prices, of which neither moto nor the SDK knows any."""
    if any(each.action == "pricing:GetProducts" for each in stage.aws.calls):
        why = "nobody here knows them: Karpenter chooses by those that it was built with"
        yield Line(scene=SCENE, promise="nodes are chosen by today's prices", outcome=Outcome.NOT_PLAYED, text=why)


def why_not_played(stage: Stage, pool: Asked) -> str:
    """Return why no pod can ask a pool for nodes on this stage; empty where one can."""
    if not pool.resource:
        return "preflight knows no device of it that a pod could count"
    if pool.kind == "karpenter":
        missing = [each for each in stage.programs.not_played if "/karpenter/" in each]
        return f"no program for {missing[0]}" if missing else ""
    if pool.kind == "auto-mode":
        return "the autoscaler of Auto Mode runs at AWS only"
    return _why_no_group_grows(stage, pool)


def _why_no_group_grows(stage: Stage, pool: Asked) -> str:
    if not has_autoscaler(stage):
        return "the stack has no autoscaler that would make nodes of it"
    if waits_for_hands(stage):
        return NO_AUTOSCALER
    return "" if pool.selector else "no label holds a pod to it"


def _played(stage: Stage, pool: Asked, moments: list[Moment], seconds: float) -> Iterator[Line]:
    job, began, last = _Life(stage, pool), time.monotonic(), 0.0
    for step in job.steps(seconds):
        now = time.monotonic() - began
        moments.append(Moment(what=f"{pool.pool}: {step.what}", began=last, ended=now))
        last, outcome = now, Outcome.FAILED if step.seen else Outcome.HELD
        yield Line(scene=SCENE, promise=f"pool {pool.pool}: {step.what}", outcome=outcome, text=step.seen)
        if step.seen:
            return
    yield Line(
        scene=SCENE,
        promise=f"pool {pool.pool}: one node for one pod",
        outcome=Outcome.HELD if len(job.nodes) == 1 else Outcome.FAILED,
        text="" if len(job.nodes) == 1 else f"{len(job.nodes)} nodes",
    )


class _Life:
    """A job on a pool, and the nodes that were made while it lived.

    Args:
        stage: Where.
        pool: The pool.

    Attributes:
        nodes: Names of the nodes that were made.
    """

    def __init__(self, stage: Stage, pool: Asked) -> None:
        self._stage, self._pool, self._client = stage, pool, stage.client
        if pool.kind == "karpenter":
            _keep_empty_nodes(self._client, pool, EMPTY_FOR)
        self._before = self._all()
        self.nodes: set[str] = set()
        self._count = 1 + _free(stage.client, pool)
        job = _job(pool, self._count)
        self._client.create(job)
        self._name = str(job["metadata"]["name"])
        self._path = f"/apis/batch/v1/namespaces/default/jobs/{self._name}"

    def steps(self, seconds: float) -> Iterator[Step]:
        """Watch each step of its life until it comes.

        Args:
            seconds: How long a step may take.
        """
        for what, look in (
            ("a node comes for a job", self._has_node),
            (f"the node shows {self._pool.resource}", self._has_device),
            ("the job runs", self._runs),
            ("the job ends", self._ended),
        ):
            yield Step(what, "" if wait_until(look, seconds) else self._said())
        what = "the DaemonSets on the node are those that preflight names"
        yield Step(what, "" if wait_until_none(self._astray, seconds) else self._astray())
        self._client.delete(self._path)
        left = (
            ""
            if wait_until_none(self._left, self._goes_within(seconds))
            else f"still there: {', '.join(sorted(self._left()))}"
        )
        yield Step("the node goes", left)

    def _goes_within(self, seconds: float) -> float:
        return 2 * seconds if self._pool.kind == "karpenter" else GROUP_SHRINKS_WITHIN

    def _pods(self) -> list[Object]:
        """Return its pods, and note what nodes there are by now."""
        label = f"batch.kubernetes.io/job-name={self._name}"
        self.nodes |= self._all() - self._before
        return self._client.list("/api/v1/namespaces/default/pods", labelSelector=label)

    def _said(self) -> str:
        pods = self._pods()
        waiting = [each for each in pods if not _has_run(each)]
        return said_of(self._stage, self._pool, (waiting or pods)[0]) if pods else "no pod"

    def _has_node(self) -> bool:
        self._pods()
        return bool(self.nodes)

    def _has_device(self) -> bool:
        nodes = [each for each in nodes_of(self._client, self._pool) if each["metadata"]["name"] in self.nodes]
        return any(int(each["status"].get("allocatable", {}).get(self._pool.resource, 0)) for each in nodes)

    def _runs(self) -> bool:
        return sum(_has_run(each) for each in self._pods()) == self._count

    def _ended(self) -> bool:
        self._pods()
        return bool(self._client.get(self._path)["status"].get("succeeded") == self._count)

    def _astray(self) -> str:
        return _astray(self._client, self._pool, self.nodes, self._stage.unplayed.missing)

    def _left(self) -> set[str]:
        return self._all() & self.nodes

    def _all(self) -> set[str]:
        return {str(each["metadata"]["name"]) for each in nodes_of(self._client, self._pool)}


def _astray(client: Client, pool: Asked, nodes: set[str], absent: Collection[str]) -> str:
    """Return where the DaemonSets on nodes differ from what preflight says of the pool; empty where they do not.

    Args:
        client: An administrator of the cluster.
        pool: The pool.
        nodes: Names of its nodes.
        absent: Charts that are not played, and thus nothing that has their names.
    """
    pods = [each for each in client.list("/api/v1/pods") if each["spec"].get("nodeName") in nodes]
    owners = [owner for each in pods for owner in each["metadata"].get("ownerReferences", ())]
    there = {owner["name"] for owner in owners if owner["kind"] == "DaemonSet"}
    expected = (name for name, runs in pool.daemons.items() if runs and not any(chart in name for chart in absent))
    missing = sorted(name for name in expected if name not in there)
    beyond = sorted(name for name, runs in pool.daemons.items() if not runs and name in there)
    return "; ".join(
        f"{what}: {', '.join(names)}" for what, names in (("not there", missing), ("there", beyond)) if names
    )


def _has_run(pod: Object) -> bool:
    return is_ready(pod) or pod["status"].get("phase") == "Succeeded"


def _free(client: Client, pool: Asked) -> int:
    """Return how many devices of a pool's nodes no pod has: so many pods need no node of their own."""
    nodes = {each["metadata"]["name"]: each for each in nodes_of(client, pool)}
    there = sum(int(each["status"].get("allocatable", {}).get(pool.resource, 0)) for each in nodes.values())
    pods = (each for each in client.list("/api/v1/pods") if each["spec"].get("nodeName") in nodes)
    containers = (container for each in pods for container in each["spec"]["containers"])
    return there - sum(int(each.get("resources", {}).get("limits", {}).get(pool.resource, 0)) for each in containers)


def _job(pool: Asked, count: int) -> Object:
    """Return a job whose pods ask for one device of a pool each, and tolerate what the pool keeps others off with.

    Args:
        pool: The pool.
        count: How many pods.
    """
    pod = {
        "restartPolicy": "Never",
        "nodeSelector": pool.selector,
        "tolerations": pool.tolerations,
        "containers": [{"name": "main", "image": "rehearsal", "resources": {"limits": {pool.resource: "1"}}}],
    }
    annotations = {"rehearsal.gpu-constructs.io/runs-for": RUNS_FOR if count == 1 else RUNS_BESIDE_OTHERS_FOR}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"rehearsal-{pool.pool}", "namespace": "default"},
        "spec": {
            "parallelism": count,
            "completions": count,
            "template": {"metadata": {"annotations": annotations}, "spec": pod},
        },
    }


def _keep_empty_nodes(client: Client, pool: Asked, long: str) -> None:
    """Have empty nodes of a pool go after some time, and no others: a pod of the stack might move to the job's node."""
    path = f"/apis/karpenter.sh/v1/nodepools/{pool.pool}"
    # Of a pool that was not created no node comes, which the first step says.
    if client.find(path) is not None:
        client.patch(path, {"spec": {"disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": long}}})
