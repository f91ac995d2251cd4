"""The kubelets of played nodes: their pods start, run, end and report, the known programs among them for real.

Own code rather than kwok: kwok plays what a pod reports, and would have to be told of programs, of what mounts lack and
of the device plugins' refusals by a second process that writes to the same status.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpu_rehearsal.cluster import pod_status as status
from gpu_rehearsal.cluster.client import CONFLICT, FORBIDDEN, NOT_FOUND, Client, Object, Refused
from gpu_rehearsal.cluster.container import Container, Starter, last_error
from gpu_rehearsal.cluster.instances import Node, now
from gpu_rehearsal.cluster.pod_status import ContainerState, missing
from gpu_rehearsal.cluster.process import Loop, Looped

# Pulling an image and starting it, and each container before the others; what is usual, not what is promised.
START_SECONDS, FIRST_SECONDS = 5.0, 2.0
# How long a pod runs that ends by itself.
RUN_SECONDS = 3.0
# How often a program may end by itself before it counts as a crash loop.
_MAX_ENDS = 1
# The exit code of a program that a signal ended.
_SIGTERM = 143
# How long a pod takes to end that is asked to: most listen.
STOP_SECONDS = 1.0


@dataclass
class Attended:
    """A pod that a kubelet cares for.

    Attributes:
        pod: The pod, as it was seen last.
        node: Its node.
        address: Its own address.
        seen: When it came.
        containers: Those that run as programs, by name.
        started: When its containers started.
        began: The same as the server writes it.
        ending: When it was first seen that it is to end.
        deleted: Whether the server was told that it ended.
        refused: Why its node does not take it.
        told: What was reported last.
    """

    pod: Object
    node: Node
    address: str
    seen: float
    containers: dict[str, Container] = field(default_factory=dict)
    started: float | None = None
    began: str = ""
    ending: float | None = None
    deleted: bool = False
    refused: str = ""
    told: Object = field(default_factory=dict)


class Kubelet(Looped):
    """The kubelets of all nodes that joined.

    Attributes:
        waits: What a pod waits for that is not there, by namespace and name.
        crash_loops: Why a pod keeps crashing, by namespace and name; from its second crash until it serves.

    Args:
        nodes: The nodes, by name; it may change.
        starter: Starts the containers whose programs are known; without, all are played.
        refuses: Says why a device of a node refuses a pod; empty where it does not.
        pace: How long delays are, against those of a cluster.
        clock: Seconds from some point.
    """

    def __init__(
        self,
        client: Client,
        nodes: Mapping[str, Node],
        *,
        starter: Starter | None = None,
        refuses: Callable[[Object, Node], str] = lambda pod, node: "",
        pace: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._nodes, self._starter = client, nodes, starter
        self._refuses, self._pace, self._clock = refuses, pace, clock
        self.waits: dict[str, str] = {}
        self.crash_loops: dict[str, str] = {}
        self._attended: dict[str, Attended] = {}
        self._addresses = itertools.count(1)
        self.loop = Loop("kubelet", self.step)

    def __exit__(self, *_: object) -> None:
        try:
            self.loop.stop()
        finally:
            for each in self._attended.values():
                self._stop(each)

    @property
    def logs(self) -> dict[str, Path]:
        """Output of each program, by namespace, pod and container; of those that ended too."""
        return dict(self._starter.logs) if self._starter else {}

    def step(self) -> None:
        """Bring every pod on the nodes further."""
        pods = {each["metadata"]["uid"]: each for each in self._client.list("/api/v1/pods")}
        for uid in [uid for uid in self._attended if uid not in pods]:
            self._stop(self._attended.pop(uid))
        for uid, pod in pods.items():
            node = self._nodes.get(pod["spec"].get("nodeName", ""))
            if node is None:
                # Its machine is gone, and all that ran there.
                if uid in self._attended:
                    self._stop(self._attended.pop(uid))
            else:
                self._attend(uid, pod, node)

    def _attend(self, uid: str, pod: Object, node: Node) -> None:
        one = self._attended.get(uid)
        if one is None:
            one = self._attended[uid] = Attended(pod, node, self._address(pod, node), self._clock())
        one.pod = pod
        try:
            if "deletionTimestamp" in pod["metadata"]:
                self._end(one)
            elif not status.is_over(pod):
                self._update_pod(one)
        except Refused as refused:
            # It changed or went meanwhile, or the server does not yet know that it is on that node.
            if refused.status not in (NOT_FOUND, CONFLICT, FORBIDDEN):
                raise
            self.loop.refusals[str(refused)] = None

    def _address(self, pod: Object, node: Node) -> str:
        if status.has_host_network(pod):
            return str(node.instance.said["PrivateIpAddress"])
        number = next(self._addresses)
        # Of the range that AWS suggests for pods where a VPC has no more addresses.
        return f"100.{64 + number // 65536}.{number // 256 % 256}.{number % 256}"

    def _update_pod(self, one: Attended) -> None:
        if one.started is None:
            self._wait(one)
        for each in one.containers.values():
            each.keep()
        self._note_crashes(one)
        if one.started is not None and self._is_done(one):
            self._report(one, "Succeeded", self._states(one, lambda _: status.ended(one.began)))
        elif one.started is not None:
            self._report(one, "Running", self._states(one, lambda _: status.running(one.began, ready=True)))

    def _wait(self, one: Attended) -> None:
        """Start its containers when all that they need is there, and say what is not."""
        at, name = self._clock(), _name(one.pod)
        one.refused = one.refused or self._refuses(one.pod, one.node)
        if one.refused:
            states = self._states(one, lambda _: status.waiting("ContainerCreating"))
            self._report(one, "Failed", states, reason="UnexpectedAdmissionError", message=one.refused)
            return
        lacks = self._lacks(one)
        self.waits.pop(name, None)
        if lacks:
            self.waits[name] = lacks
        first = len(one.pod["spec"].get("initContainers", ()))
        if lacks or at - one.seen < (START_SECONDS + FIRST_SECONDS * first) * self._pace:
            self._report(one, "Pending", self._states(one, lambda _: status.waiting("ContainerCreating", lacks)))
            return
        one.started, one.began = at, now()
        if self._starter:
            one.containers = self._starter.start(one.pod | {"status": self._addressed(one)}, one.node)

    def _lacks(self, one: Attended) -> str:
        if not one.node.ready and not status.has_host_network(one.pod):
            return "network is not ready: container runtime network not ready"
        lacks = missing(one.pod, one.node.client)
        return lacks or (self._starter.lacks(one.pod, one.node) if self._starter else "")

    def _addressed(self, one: Attended) -> Object:
        addresses = {"podIP": one.address, "hostIP": self._host(one)}
        return {**one.pod.get("status", {}), **addresses}

    def _host(self, one: Attended) -> str:
        return str(one.node.instance.said["PrivateIpAddress"])

    def _note_crashes(self, one: Attended) -> None:
        for name, each in one.containers.items():
            if each.state().ready:
                self.crash_loops.pop(_name(one.pod), None)
            elif each.ends > _MAX_ENDS and _name(one.pod) not in self.crash_loops:
                why = [last_error(each.log), self._starter.without_role(one.pod, one.node) if self._starter else ""]
                text = "; ".join(filter(None, why))
                self.crash_loops[_name(one.pod)] = f"container {name} crashed {each.ends} times: {text}"

    def last_errors(self, pod: Object) -> list[str]:
        """Return the last error line of each program of a pod, with the name of its container."""
        prefix = f"{_name(pod)}/"
        found = {each.removeprefix(prefix): log for each, log in self.logs.items() if each.startswith(prefix)}
        return [f"container {name}: {said}" for name, log in sorted(found.items()) if (said := last_error(log))]

    def _is_done(self, one: Attended) -> bool:
        lasts = status.run_seconds(one.pod, RUN_SECONDS)
        return lasts is not None and self._clock() - (one.started or 0.0) >= lasts

    def _states(self, one: Attended, played: Callable[[Object], ContainerState]) -> dict[str, ContainerState]:
        """Return how each container stands: programs as they do, the others as they are played."""
        spec = one.pod["spec"]
        states = {each["name"]: played(each) for each in spec["containers"]}
        for each in spec.get("initContainers", ()):
            stays = each.get("restartPolicy") == "Always"
            through = played(each) if stays else status.ended(one.began, until=one.began)
            states[each["name"]] = through if one.started is not None else status.waiting("PodInitializing")
        return states | {name: each.state() for name, each in one.containers.items()}

    def _report(self, one: Attended, phase: str, states: dict[str, ContainerState], **why: str) -> None:
        """Write the status, if it says something new."""
        said = status.status(one.pod, phase, states, host=self._host(one), address=one.address, **why)
        new = status.without_times(said)
        if new != one.told:
            one.node.client.apply_status(status.pod_path(one.pod), said)
            one.told = new

    def _end(self, one: Attended) -> None:
        """End its containers, say how they ended, and let the server forget it then."""
        one.ending = self._clock() if one.ending is None else one.ending
        grace = one.pod["metadata"].get("deletionGracePeriodSeconds", 0)
        self._stop(one, grace)
        if one.deleted or self._clock() - one.ending < min(STOP_SECONDS * self._pace, grace):
            return
        if one.started is not None and not status.is_over(one.pod):
            self._report(one, "Failed", self._states(one, lambda _: status.ended(one.began, exit_code=_SIGTERM)))
        one.node.client.delete(status.pod_path(one.pod))
        one.deleted = True

    def _stop(self, one: Attended, seconds: float = 0.0) -> None:
        for each in one.containers.values():
            each.stop(seconds)
        one.containers.clear()
        self.waits.pop(_name(one.pod), None)


def _name(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
