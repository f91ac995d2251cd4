"""A pod as its kubelet reports on it.

Source: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_constructs.rehearsal.players.cluster.client import Object
from gpu_constructs.rehearsal.players.cluster.node.registration import now

_TIMES = ("startTime", "startedAt", "finishedAt", "lastTransitionTime")
RUNS_FOR = "rehearsal.gpu-constructs.io/runs-for"


def path_of(pod: Object) -> str:
    """Return the path of a pod."""
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def is_over(pod: Object) -> bool:
    """Whether all its containers ended for good."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def is_ready(pod: Object) -> bool:
    """Whether it serves."""
    return _is_true(pod.get("status", {}), "Ready")


def _is_true(status: Object, kind: str) -> bool:
    return any(each["type"] == kind and each["status"] == "True" for each in status.get("conditions", ()))


def owner(pod: Object, kind: str) -> str:
    """Return the name of its owner of that kind; empty where there is none."""
    owners = pod["metadata"].get("ownerReferences", ())
    return next((str(each["name"]) for each in owners if each["kind"] == kind), "")


def on_host_network(pod: Object) -> bool:
    """Whether it needs no network of pods."""
    return bool(pod["spec"].get("hostNetwork"))


def runs_for(pod: Object, default: float) -> float | None:
    """Return for how many seconds it runs; ``None`` where it runs until it is deleted.

    Raises:
        ValueError: Its annotation is no number.
    """
    if pod["spec"].get("restartPolicy", "Always") == "Always":
        return None
    return float(pod["metadata"].get("annotations", {}).get(RUNS_FOR, default))


@dataclass(kw_only=True)
class ContainerState:
    """How a container stands.

    Attributes:
        state: ``waiting``, ``running`` or ``terminated``, with what is said of it.
        ready: Whether it serves.
        restarts: How often it was started again.
        last: How it ended the last time.
    """

    state: Mapping[str, Any]
    ready: bool = False
    restarts: int = 0
    last: Mapping[str, Any] = field(default_factory=dict)


def waiting(reason: str, message: str = "") -> ContainerState:
    """A container that does not run yet, or not again yet."""
    return ContainerState(state={"waiting": {"reason": reason} | ({"message": message} if message else {})})


def running(since: str, *, ready: bool, restarts: int = 0) -> ContainerState:
    """A container that runs."""
    return ContainerState(state={"running": {"startedAt": since}}, ready=ready, restarts=restarts)


def ended(since: str, *, until: str = "", exit_code: int = 0) -> ContainerState:
    """A container that ended, just now where it is not said when."""
    reason = "Error" if exit_code else "Completed"
    said = {"exitCode": exit_code, "reason": reason, "startedAt": since, "finishedAt": until or now()}
    return ContainerState(state={"terminated": said})


def status(
    pod: Object,
    phase: str,
    states: Mapping[str, ContainerState],
    *,
    host: str,
    address: str,
    reason: str = "",
    message: str = "",
) -> Object:
    """Render what a kubelet reports.

    Args:
        pod: The pod.
        phase: Its phase.
        states: How each of its containers stands, the first ones included, by name.
        host: Address of its node.
        address: Its own.
        reason: Why its phase is that.
        message: The same in words.
    """
    spec, old = pod["spec"], pod.get("status", {})
    is_serving = phase == "Running" and all(states[each["name"]].ready for each in spec["containers"])
    initialized = all(_is_through(each, states[each["name"]]) for each in spec.get("initContainers", ()))
    truths = {
        "PodReadyToStartContainers": phase == "Running" or initialized,
        "Initialized": initialized,
        "ContainersReady": is_serving,
        "Ready": is_serving and all(_is_true(old, each["conditionType"]) for each in spec.get("readinessGates", ())),
    }
    of_others = [each for each in old.get("conditions", ()) if each["type"] not in truths]
    said = {
        "phase": phase,
        "conditions": of_others + [_condition(old, kind, true) for kind, true in truths.items()],
        "containerStatuses": _statuses(spec["containers"], states),
        "initContainerStatuses": _statuses(spec.get("initContainers", ()), states),
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "startTime": old.get("startTime") or now(),
    }
    if phase != "Pending" or initialized:
        said |= {"podIP": address, "podIPs": [{"ip": address}]}
    return said | ({"reason": reason, "message": message} if reason else {})


def _is_through(container: Object, state: ContainerState) -> bool:
    """Whether a first container lets the others start: one that stays runs, any other has ended."""
    return ("running" if container.get("restartPolicy") == "Always" else "terminated") in state.state


def _condition(old: Object, kind: str, true: bool) -> Object:
    said = "True" if true else "False"
    before = [each for each in old.get("conditions", ()) if each["type"] == kind and each["status"] == said]
    return before[0] if before else {"type": kind, "status": said, "lastTransitionTime": now()}


def _statuses(containers: Iterable[Object], states: Mapping[str, ContainerState]) -> list[Object]:
    return [
        {
            "name": each["name"],
            "image": each["image"],
            "imageID": each["image"],
            "ready": states[each["name"]].ready,
            "started": "running" in states[each["name"]].state,
            "restartCount": states[each["name"]].restarts,
            "state": dict(states[each["name"]].state),
            "lastState": dict(states[each["name"]].last),
        }
        for each in containers
    ]


def without_times(said: Any) -> Any:
    """Return a status without when anything was."""
    if isinstance(said, dict):
        return {key: without_times(each) for key, each in said.items() if key not in _TIMES}
    return [without_times(each) for each in said] if isinstance(said, list) else said
