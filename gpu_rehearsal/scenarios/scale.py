"""Scale: a job on each pool is Pending, gets a node and its GPU, runs, ends, and the node is removed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_facts.resources import DEVICE_CLASS, GPU, NVIDIA
from gpu_rehearsal.cluster.client import Client, Object
from gpu_rehearsal.cluster.container import CLUSTER_AUTOSCALER
from gpu_rehearsal.cluster.pod_status import is_over, is_ready, owner
from gpu_rehearsal.report import Line, Moment, Outcome, Report
from gpu_rehearsal.scenarios.pools import (
    AUTO_MODE,
    GpuPool,
    cause,
    explain_pod,
    is_auto_mode,
    karpenter_absence,
    pool_nodes,
    wait_until,
    wait_until_none,
)
from gpu_rehearsal.stage import Stage

_DRA = "/apis/resource.k8s.io/v1"
# How often each node group is scaled up by one node.
MAX_ROUNDS = 4
_AUTOSCALER = "/cluster-autoscaler:"
NO_AUTOSCALER = f"{CLUSTER_AUTOSCALER} names no program of cluster autoscaler"
SCENARIO = "Scale"
# Max seconds of a step. An autoscaler decides in seconds, and machines start faster here.
STEP_SECONDS = 120.0
# How long Karpenter keeps an empty node during a play, instead of the minutes that a NodePool sets.
_EMPTY_FOR = "0s"
_JOB_SECONDS = "5"
# Duration of the pods of a job that also fills existing nodes: none may end before the last one has a node.
_FULL_NODES_JOB_SECONDS = "60"
# Duration of a job that still runs when a stack is updated or deleted.
_LONG_JOB_SECONDS = "86400"
# Cluster autoscaler waits ten minutes after a scale-up, and removes a node after it was unneeded for ten minutes.
# Source: https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md (2026-11)
_GROUP_SHRINK_SECONDS = 1500.0


def _advertised_device(client: Client, node: Object) -> str:
    """Return the first GPU resource of a node, or the device class of its DRA driver; empty for none."""
    names = sorted(each for each, amount in _allocatable(node).items() if each.startswith(NVIDIA) and int(amount))
    if names:
        return names[0]
    has_class = client.find(f"{_DRA}/deviceclasses/{DEVICE_CLASS}") is not None
    return DEVICE_CLASS if has_class and _devices(client, node) else ""


def _count_devices(client: Client, node: Object, device: str) -> int:
    """Return the number of devices of a node.

    Args:
        device: Name of the resource, or of the device class.
    """
    return int(_allocatable(node).get(device, 0)) if "/" in device else len(_devices(client, node))


def _free_devices(client: Client, nodes: Iterable[Object], device: str) -> Iterator[int]:
    """Yield the number of free devices of each node. Arguments as for `_count_devices`."""
    pods = client.list("/api/v1/pods")
    for node in nodes:
        name = node["metadata"]["name"]
        if "/" in device:
            used = sum(_requested(each, device) for each in pods if each["spec"].get("nodeName") == name)
        else:
            used = len(set(_allocated(client, name)))
        yield _count_devices(client, node, device) - used


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


def needs_manual_scaling(stage: Stage) -> bool:
    """Whether the stack has a cluster autoscaler whose program isn't available."""
    return any(stage.programs.find_program(each) is None for each in _autoscalers(stage))


def _has_autoscaler(stage: Stage) -> bool:
    """Whether the stack has a cluster autoscaler, real or simulated."""
    return bool(_autoscalers(stage))


def _autoscalers(stage: Stage) -> list[str]:
    """Return the images of cluster autoscaler in Deployments, with or without pods."""
    deployments = stage.client.list("/apis/apps/v1/deployments")
    pods = (each["spec"]["template"]["spec"] for each in deployments)
    return [image for pod in pods for each in pod["containers"] if _AUTOSCALER in (image := str(each["image"]))]


def grow(stage: Stage, group: str) -> bool:
    """Scale up an Auto Scaling group by one node, and return whether its max size allows that."""
    scaling = stage.aws.client("autoscaling")
    [found] = scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group])["AutoScalingGroups"]
    if found["DesiredCapacity"] >= found["MaxSize"]:
        return False
    scaling.set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=found["DesiredCapacity"] + 1)
    return True


def remove(stage: Stage, node: Object) -> None:
    """Terminate the instance of a node, as cluster autoscaler does with unneeded nodes."""
    stage.aws.client("autoscaling").terminate_instance_in_auto_scaling_group(
        InstanceId=str(node["spec"]["providerID"]).rpartition("/")[2], ShouldDecrementDesiredCapacity=True
    )


def grow_node_groups(stage: Stage) -> list[str]:
    """Scale up each managed node group that may be empty and isn't full by one node, and return their names."""
    eks = stage.aws.client("eks")
    scaled = []
    for name in eks.list_nodegroups(clusterName=stage.cluster)["nodegroups"]:
        where = {"clusterName": stage.cluster, "nodegroupName": name}
        sizes = eks.describe_nodegroup(**where)["nodegroup"]["scalingConfig"]
        if _has_room(sizes):
            eks.update_nodegroup_config(**where, scalingConfig={"desiredSize": sizes["desiredSize"] + 1})
            scaled.append(str(name))
    return scaled


def _has_room(sizes: dict[str, Any]) -> bool:
    return bool(sizes["minSize"] == 0 and sizes["desiredSize"] < sizes["maxSize"])


@dataclass(frozen=True, slots=True)
class Step:
    """An expected step of a job.

    Attributes:
        what: Its name.
        outcome: Whether it happened.
        seen: The actual state if it didn't happen.
    """

    what: str
    outcome: Outcome
    seen: str = ""


def scale(stage: Stage, pools: Sequence[GpuPool], report: Report, *, seconds: float = STEP_SECONDS) -> None:
    """Run a job on each pool.

    Args:
        pools: The pools.
        seconds: Max seconds of a step.
    """
    if not pools:
        reason = AUTO_MODE if is_auto_mode(stage) else "the cluster has no NodePool and no node group with GPUs"
        report.add([_line("a job gets a GPU node", Outcome.NOT_PLAYED, reason)])
    for pool in pools:
        if reason := why_not_simulated(stage, pool):
            report.add([_line(f"pool {pool.name}: a job gets a node", Outcome.NOT_PLAYED, reason)])
            continue
        moments: list[Moment] = []
        report.add(_job_lines(stage, pool, moments, seconds))
        report.follow(moments)


def why_not_simulated(stage: Stage, pool: GpuPool) -> str:
    """Return why no job can be run on a pool; empty if one can."""
    if pool.kind == "NodePool" and not pool.static and (why := karpenter_absence(stage)):
        return why
    return "" if pool.selector else "its Auto Scaling group has no tag with a label that a pod could select"


def run_pool_jobs(
    stage: Stage, pools: Sequence[GpuPool], scenario: str, *, prefix: str = "work", seconds: float = STEP_SECONDS
) -> Iterator[Line]:
    """Start a long-running job with one pod on each pool, and report whether it runs.

    Args:
        pools: The pools.
        scenario: Name of the scenario of the lines.
        prefix: Prefix of the names of the jobs.
        seconds: Max seconds of a step.
    """
    for pool in pools:
        promise, reason = f"pool {pool.name}: a user's pod runs", why_not_simulated(stage, pool)
        steps = [] if reason else list(_pool_job(stage, pool, prefix).start_long_job(seconds))
        bad = next((each for each in steps if each.outcome is not Outcome.HELD), None)
        outcome = Outcome.NOT_PLAYED if reason else bad.outcome if bad else Outcome.HELD
        yield Line(scenario=scenario, promise=promise, outcome=outcome, text=reason or (bad.seen if bad else ""))


def _pool_job(stage: Stage, pool: GpuPool, prefix: str = "rehearsal") -> _PoolJob:
    autoscaled = pool.kind == "NodePool" or (_has_autoscaler(stage) and not needs_manual_scaling(stage))
    return (_AutoscaledJob if autoscaled and not pool.static else _ManuallyScaledJob)(stage, pool, prefix)


def _job_lines(stage: Stage, pool: GpuPool, moments: list[Moment], seconds: float) -> Iterator[Line]:
    # The steps after a failed one would fail too.
    began, last = time.monotonic(), 0.0
    for step in _pool_job(stage, pool).steps(seconds):
        now = time.monotonic() - began
        moments.append(Moment(what=f"{pool.name}: {step.what}", began=last, ended=now))
        last = now
        yield _line(f"pool {pool.name}: {step.what}", step.outcome, step.seen)
        if step.outcome is not Outcome.HELD:
            return


def _line(promise: str, outcome: Outcome, text: str = "") -> Line:
    return Line(scenario=SCENARIO, promise=promise, outcome=outcome, text=text)


class _PoolJob:
    """A job on a pool, and the nodes that are created for it.

    Args:
        pool: The pool.
        prefix: Prefix of the name of the job.

    Attributes:
        nodes: Names of the nodes that were created.
    """

    def __init__(self, stage: Stage, pool: GpuPool, prefix: str) -> None:
        self._stage, self._pool, self._client = stage, pool, stage.client
        self._device, self._count = pool.resource or GPU, 1
        # From the name of the API object, because two groups may share a pool name. Valid as the name of a Job.
        self._name = f"{prefix}-{re.sub('[^a-z0-9]+', '-', (pool.group or pool.name).lower())}"[:63].rstrip("-")
        self._path = f"/apis/batch/v1/namespaces/default/jobs/{self._name}"
        self._before = self._pool_node_names()
        self.nodes: set[str] = set()

    def steps(self, seconds: float) -> Iterator[Step]:
        """Run the job, and yield each step after it happened or failed."""
        raise NotImplementedError

    def start_long_job(self, seconds: float) -> Iterator[Step]:
        """Start one long-running pod, on an existing or a new node."""
        for step in self._room(seconds):
            yield step
            if step.outcome is not Outcome.HELD:
                return
        self._start(_LONG_JOB_SECONDS)
        yield self._step("the job runs", self._all_run, seconds)

    def _room(self, seconds: float) -> Iterator[Step]:
        """Add a node for a pod if no autoscaler does."""
        yield from ()

    def _step(self, what: str, look: Callable[[], bool], seconds: float) -> Step:
        """Wait for an event, until it happens or the play can't continue."""
        happened = wait_until(lambda: bool(self._stage.stopped()) or look(), seconds) and look()
        return Step(what, Outcome.HELD if happened else Outcome.FAILED, "" if happened else self._describe_failure())

    def _describe_failure(self) -> str:
        """Return the images of its nodes that lack a driver, and the reports of its pods."""
        return "; ".join(filter(None, (*self._images_without_driver(), self._describe_pods())))

    def _images_without_driver(self) -> list[str]:
        ids = [str(each["spec"].get("providerID", "")).rpartition("/")[2] for each in self._own_nodes()]
        if not ids or not all(ids):
            return []
        found = self._stage.aws.client("ec2").describe_instances(InstanceIds=ids)["Reservations"]
        images = (self._stage.nodes.instances.image(each) for one in found for each in one["Instances"])
        return sorted({f"image {each.description} has no NVIDIA driver" for each in images if not each.has_driver})

    def _start(self, runs_for: str = "") -> None:
        if "/" not in self._device:
            self._client.create(_claim_template(self._name, self._device))
        runs_for = runs_for or (_JOB_SECONDS if self._count == 1 else _FULL_NODES_JOB_SECONDS)
        self._client.create(_job(self._pool, self._name, self._device, self._count, runs_for))

    def _runs_and_ends(self, seconds: float) -> Iterator[Step]:
        yield self._step("the job runs", self._all_run, seconds)
        yield self._step("the job ends", self._has_ended, seconds)
        what = "every DaemonSet pod on the node is ready"
        wait_until_none(self._unready_daemons, seconds)
        unready = "; ".join(self._unready_daemons())
        yield Step(what, Outcome.FAILED if unready else Outcome.HELD, unready)
        self._client.delete(self._path)

    def _node_removal(self, seconds: float) -> Step:
        gone = wait_until_none(self._remaining_nodes, seconds)
        left = "" if gone else f"still there: {', '.join(sorted(self._remaining_nodes()))}"
        return Step("the node is removed", Outcome.HELD if gone else Outcome.FAILED, left)

    def _pods(self) -> list[Object]:
        """Return its pods, and record new nodes."""
        label = f"batch.kubernetes.io/job-name={self._name}"
        self.nodes |= self._pool_node_names() - self._before
        return self._client.list("/api/v1/namespaces/default/pods", labelSelector=label)

    def _describe_pods(self) -> str:
        pods = self._pods()
        waiting = [each for each in pods if not _has_run(each)]
        return explain_pod(self._stage, self._pool, next(iter(waiting or pods), None))

    def _has_node(self) -> bool:
        self._pods()
        return bool(self.nodes)

    def _has_device(self) -> bool:
        return any(_count_devices(self._client, each, self._device) for each in self._own_nodes())

    def _own_nodes(self) -> list[Object]:
        return [each for each in pool_nodes(self._client, self._pool) if each["metadata"]["name"] in self.nodes]

    def _all_run(self) -> bool:
        return sum(_has_run(each) for each in self._pods()) == self._count

    def _has_ended(self) -> bool:
        self._pods()
        return bool(self._client.get(self._path)["status"].get("succeeded") == self._count)

    def _unready_daemons(self) -> list[str]:
        pods = [each for each in self._client.list("/api/v1/pods") if each["spec"].get("nodeName") in self.nodes]
        daemons = [(name, each) for each in pods if (name := owner(each, "DaemonSet"))]
        self._stage.daemon_sets_seen.update(name for name, each in daemons if is_ready(each))
        return sorted(f"{name}: {cause(self._stage, each)}" for name, each in daemons if not is_ready(each))

    def _remaining_nodes(self) -> set[str]:
        return self._pool_node_names() & self.nodes

    def _pool_node_names(self) -> set[str]:
        return {str(each["metadata"]["name"]) for each in pool_nodes(self._client, self._pool)}


class _AutoscaledJob(_PoolJob):
    """A job for which an autoscaler creates a node."""

    def steps(self, seconds: float) -> Iterator[Step]:
        """Run the job, and yield each step after it happened or failed."""
        if self._pool.kind == "NodePool":
            _keep_empty_nodes(self._client, self._pool, _EMPTY_FOR)
        # If another job of the stack ended meanwhile, this one would get its device.
        wait_until_none(self._unsettled_objects, seconds)
        self._before = self._pool_node_names()
        self._count = 1 + sum(_free_devices(self._client, pool_nodes(self._client, self._pool), self._device))
        self._start()
        yield self._step("a node joins for a job", self._has_node, seconds)
        yield self._step(f"the node shows {self._device}", self._has_device, seconds)
        yield from self._runs_and_ends(seconds)
        yield self._node_removal(2 * seconds if self._pool.kind == "NodePool" else _GROUP_SHRINK_SECONDS)
        one = len(self.nodes) == 1
        seen = "" if one else f"{len(self.nodes)} nodes"
        yield Step("one node for one pod", Outcome.HELD if one else Outcome.FAILED, seen)

    def _unsettled_objects(self) -> list[str]:
        """Return pods that end by themselves, and empty nodes that the autoscaler will remove."""
        pods = [each for each in self._client.list("/api/v1/pods") if not owner(each, "DaemonSet")]
        left = [each for each in pods if each["spec"].get("nodeName") in self._pool_node_names() and not is_over(each)]
        ending = [str(each["metadata"]["name"]) for each in left if each["spec"].get("restartPolicy") != "Always"]
        used = {each["spec"]["nodeName"] for each in left}
        return ending + (sorted(self._pool_node_names() - used) if self._pool.kind == "NodePool" else [])


class _ManuallyScaledJob(_PoolJob):
    """A job without an autoscaler, on an existing node or on a node that is added by hand."""

    _grown = False

    def steps(self, seconds: float) -> Iterator[Step]:
        """Run the job, and yield each step after it happened or failed."""
        for step in self._room(seconds):
            yield step
            if step.outcome is not Outcome.HELD:
                return
        self._start()
        yield from self._runs_and_ends(seconds)
        if self._grown:
            for each in self._own_nodes():
                remove(self._stage, each)
            yield self._node_removal(2 * seconds)
            why = NO_AUTOSCALER if _has_autoscaler(self._stage) else "the stack has no autoscaler for it"
            yield Step("its autoscaler creates nodes", Outcome.NOT_PLAYED, why)

    def _room(self, seconds: float) -> Iterator[Step]:
        self._grown = not self._has_room()
        if self._grown:
            if not (self._pool.group and grow(self._stage, self._pool.group)):
                yield Step("a job gets a node", Outcome.NOT_PLAYED, "all its GPUs are in use, and it can't grow")
                return
            yield self._step("a node joins after its group is scaled by hand", self._has_node, seconds)
        else:
            self.nodes = self._pool_node_names()
        yield self._step(f"the node shows {self._pool.resource or 'a GPU'}", self._shows_any, seconds)

    def _has_room(self) -> bool:
        """Whether a node has a free device, possibly after a wait for its devices."""
        nodes = pool_nodes(self._client, self._pool)
        if not nodes:
            return False
        self.nodes = self._pool_node_names()
        wait_until(self._shows_any, STEP_SECONDS)
        self.nodes = set()
        return any(_free_devices(self._client, nodes, self._device))

    def _shows_any(self) -> bool:
        """Whether a node shows a device. If the pool declares no device, the job requests this one."""
        if self._pool.resource:
            return self._has_device()
        found = next(filter(None, (_advertised_device(self._client, each) for each in self._own_nodes())), "")
        self._device = found or self._device
        return bool(found)


def _has_run(pod: Object) -> bool:
    return is_ready(pod) or pod["status"].get("phase") == "Succeeded"


def _job(pool: GpuPool, name: str, device: str, count: int, runs_for: str) -> Object:
    """Return a job whose pods each request one device of a pool.

    Args:
        pool: The pool.
        name: Name of the job.
        device: The resource, or the device class.
        count: Number of pods.
        runs_for: Duration of each pod in seconds.
    """
    by_claim = {"claims": [{"name": "gpu"}]}
    pod = {
        "restartPolicy": "Never",
        "nodeSelector": dict(pool.selector),
        "tolerations": pool.tolerations,
        "containers": [
            {
                "name": "main",
                "image": "rehearsal",
                "resources": {"limits": {device: "1"}} if "/" in device else by_claim,
            }
        ],
    }
    if "/" not in device:
        pod["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": name}]
    annotations = {"rehearsal.gpu-constructs.io/runs-for": runs_for}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "parallelism": count,
            "completions": count,
            "template": {"metadata": {"annotations": annotations}, "spec": pod},
        },
    }


def _claim_template(name: str, device_class: str) -> Object:
    request = {"name": "gpu", "exactly": {"deviceClassName": device_class}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def _keep_empty_nodes(client: Client, pool: GpuPool, long: str) -> None:
    """Let Karpenter remove only empty nodes of a pool. Otherwise a pod of the stack could move to the job's node."""
    path = f"/apis/karpenter.sh/v1/nodepools/{pool.name}"
    # If the pool wasn't created, the first step fails.
    if client.find(path) is not None:
        client.patch(path, {"spec": {"disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": long}}})
