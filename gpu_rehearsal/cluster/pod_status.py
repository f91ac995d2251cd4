"""The status of a pod, and the ConfigMaps and Secrets that its containers refer to, as its kubelet evaluates them.

Sources: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/,
https://kubernetes.io/docs/tasks/inject-data-application/
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from gpu_rehearsal.cluster.client import Client, Object
from gpu_rehearsal.cluster.instances import now, number

_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
# $$ is an escaped dollar sign.
_VARIABLE = re.compile(r"\$\$|\$\(([^()]+)\)")


def environment(pod: Object, container: Object, kubelet: Client) -> dict[str, str]:
    """Return the variables of a container.

    Args:
        pod: Its pod, with addresses in its status.
        container: The container.
        kubelet: The client of its node's kubelet.

    Raises:
        LookupError: A variable refers to a missing object or key.
        ValueError: A source of a variable isn't supported.
    """
    found: dict[str, str] = {}
    for each in container.get("envFrom", ()):
        found |= _prefixed_data(each, pod, kubelet)
    for each in container.get("env", ()):
        value = _value(each, pod, container, kubelet, found)
        if value is not None:
            found[each["name"]] = value
    return found


def expanded(written: str, variables: Mapping[str, str]) -> str:
    """Return text with its variables expanded. Unknown variables stay unchanged."""

    def value(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else variables.get(match[1], match[0])

    return _VARIABLE.sub(value, written)


def _value(variable: Object, pod: Object, container: Object, kubelet: Client, before: Mapping[str, str]) -> str | None:
    source_kinds = variable.get("valueFrom")
    if not source_kinds:
        return expanded(variable.get("value", ""), before)
    [(kind, source)] = source_kinds.items()
    if kind == "fieldRef":
        return _field(pod, source["fieldPath"])
    if kind == "resourceFieldRef":
        return _resource(pod, container, source)
    if kind in ("configMapKeyRef", "secretKeyRef"):
        plural = "configmaps" if kind == "configMapKeyRef" else "secrets"
        return _key_value(_data(pod, plural, source, kubelet), source)
    raise ValueError(f"{variable['name']}: valueFrom must be a field, a resource, a ConfigMap or a Secret, got {kind}")


def _key_value(data: Mapping[str, str], source: Object) -> str | None:
    if source["key"] not in data:
        _absent(source, f"key {source['key']} in {source['name']}")
    return data.get(source["key"])


def _field(pod: Object, path: str) -> str:
    keyed = _KEYED.fullmatch(path)
    if keyed:
        return str(pod["metadata"].get(keyed[1], {}).get(keyed[2], ""))
    found: object = pod
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    if found is None:
        raise LookupError(f"the pod has no {path}")
    return str(found)


def _resource(pod: Object, container: Object, source: Object) -> str:
    every = {each["name"]: each for each in pod["spec"]["containers"]}
    owner_container = every[source["containerName"]] if source.get("containerName") else container
    part, _, name = source["resource"].partition(".")
    if name not in owner_container.get("resources", {}).get(part, {}):
        raise LookupError(f"container {owner_container['name']} has no {source['resource']}; a default isn't supported")
    divisor = number(source.get("divisor") or 1) or 1
    return str(math.ceil(number(owner_container["resources"][part][name]) / divisor))


def _prefixed_data(entry: Object, pod: Object, kubelet: Client) -> dict[str, str]:
    plural, source = (
        ("configmaps", entry["configMapRef"]) if "configMapRef" in entry else ("secrets", entry["secretRef"])
    )
    return {entry.get("prefix", "") + key: value for key, value in _data(pod, plural, source, kubelet).items()}


def _data(pod: Object, plural: str, source: Object, kubelet: Client) -> dict[str, str]:
    found = kubelet.find(f"/api/v1/namespaces/{pod['metadata']['namespace']}/{plural}/{source['name']}")
    if found is None:
        _absent(source, source["name"])
        return {}
    data = found.get("data") or {}
    return data if plural == "configmaps" else {key: base64.b64decode(each).decode() for key, each in data.items()}


def _absent(source: Object, what: str) -> None:
    if not source.get("optional"):
        raise LookupError(f"{what} doesn't exist")


def missing(pod: Object, kubelet: Client) -> str:
    """Return the missing object that a pod waits for, in the kubelet's words; empty if all exist.

    Args:
        pod: The pod.
        kubelet: The client of its node's kubelet. It may only read objects that pods on the node refer to.
    """
    namespace = pod["metadata"]["namespace"]
    for plural, name in dict.fromkeys(_references(pod["spec"])):
        if kubelet.find(f"/api/v1/namespaces/{namespace}/{plural}/{name}") is None:
            return f'{plural.removesuffix("s")} "{name}" not found'
    return ""


def _references(spec: Object) -> Iterator[tuple[str, str]]:
    """Yield plural and name of each required ConfigMap and Secret."""
    for volume in spec.get("volumes", ()):
        for source in (volume, *volume.get("projected", {}).get("sources", ())):
            yield from _source_references(source)
    for container in chain(spec.get("initContainers", ()), spec["containers"]):
        for each in container.get("envFrom", ()):
            yield from _required_reference(each.get("configMapRef"), "configmaps")
            yield from _required_reference(each.get("secretRef"), "secrets")
        for each in container.get("env", ()):
            taken = each.get("valueFrom", {})
            yield from _required_reference(taken.get("configMapKeyRef"), "configmaps")
            yield from _required_reference(taken.get("secretKeyRef"), "secrets")


def _source_references(source: Object) -> Iterator[tuple[str, str]]:
    yield from _required_reference(source.get("configMap"), "configmaps")
    secret = source.get("secret")
    if secret:
        # The field is secretName in a volume, and name in a projection.
        yield from _required_reference(secret | {"name": secret.get("secretName") or secret.get("name")}, "secrets")


def _required_reference(reference: Object | None, plural: str) -> Iterator[tuple[str, str]]:
    if reference and reference.get("name") and not reference.get("optional"):
        yield plural, str(reference["name"])


_TIMES = ("startTime", "startedAt", "finishedAt", "lastTransitionTime")
RUNS_FOR = "rehearsal.gpu-constructs.io/runs-for"


def pod_path(pod: Object) -> str:
    """Return the path of a pod."""
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def is_over(pod: Object) -> bool:
    """Whether all its containers ended permanently."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def is_ready(pod: Object) -> bool:
    """Whether it is ready."""
    return _is_true(pod.get("status", {}), "Ready")


def _is_true(status: Object, kind: str) -> bool:
    return any(each["type"] == kind and each["status"] == "True" for each in status.get("conditions", ()))


def owner(pod: Object, kind: str) -> str:
    """Return the name of its owner of a kind; empty if there is none."""
    owners = pod["metadata"].get("ownerReferences", ())
    return next((str(each["name"]) for each in owners if each["kind"] == kind), "")


def has_host_network(pod: Object) -> bool:
    """Whether it uses the network of its host."""
    return bool(pod["spec"].get("hostNetwork"))


def run_seconds(pod: Object, default: float) -> float | None:
    """Return how many seconds a simulated pod runs; ``None`` if it runs until it is deleted.

    Raises:
        ValueError: Its annotation isn't a number.
    """
    if pod["spec"].get("restartPolicy", "Always") == "Always":
        return None
    return float(pod["metadata"].get("annotations", {}).get(RUNS_FOR, default))


@dataclass(kw_only=True)
class ContainerState:
    """The state of a container.

    Attributes:
        state: ``waiting``, ``running`` or ``terminated``, with its fields.
        ready: Whether it is ready.
        restarts: Number of restarts.
        last: Its state before the last restart.
    """

    state: Mapping[str, Any]
    ready: bool = False
    restarts: int = 0
    last: Mapping[str, Any] = field(default_factory=dict)


def waiting(reason: str, message: str = "") -> ContainerState:
    """Return the state of a container that waits for its start or restart."""
    return ContainerState(state={"waiting": {"reason": reason} | ({"message": message} if message else {})})


def running(since: str, *, ready: bool, restarts: int = 0) -> ContainerState:
    """Return the state of a running container."""
    return ContainerState(state={"running": {"startedAt": since}}, ready=ready, restarts=restarts)


def ended(since: str, *, until: str = "", exit_code: int = 0) -> ContainerState:
    """Return the state of a container that ended. `until` defaults to now."""
    reason = "Error" if exit_code else "Completed"
    terminated = {"exitCode": exit_code, "reason": reason, "startedAt": since, "finishedAt": until or now()}
    return ContainerState(state={"terminated": terminated})


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
    """Return the status that a kubelet reports.

    Args:
        pod: The pod.
        phase: Its phase.
        states: States of all containers, including init containers, by name.
        host: Address of its node.
        address: Its own.
        reason: Reason of the phase.
        message: Message of the phase.
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
    other_conditions = [each for each in old.get("conditions", ()) if each["type"] not in truths]
    report = {
        "phase": phase,
        "conditions": other_conditions + [_condition(old, kind, true) for kind, true in truths.items()],
        "containerStatuses": _statuses(spec["containers"], states),
        "initContainerStatuses": _statuses(spec.get("initContainers", ()), states),
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "startTime": old.get("startTime") or now(),
    }
    if phase != "Pending" or initialized:
        report |= {"podIP": address, "podIPs": [{"ip": address}]}
    return report | ({"reason": reason, "message": message} if reason else {})


def _is_through(container: Object, state: ContainerState) -> bool:
    """Whether an init container is done: a sidecar runs, any other has ended."""
    return ("running" if container.get("restartPolicy") == "Always" else "terminated") in state.state


def _condition(old: Object, kind: str, true: bool) -> Object:
    value = "True" if true else "False"
    before = [each for each in old.get("conditions", ()) if each["type"] == kind and each["status"] == value]
    return before[0] if before else {"type": kind, "status": value, "lastTransitionTime": now()}


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


def without_times(status: Any) -> Any:
    """Return a status without times."""
    if isinstance(status, dict):
        return {key: without_times(each) for key, each in status.items() if key not in _TIMES}
    return [without_times(each) for each in status] if isinstance(status, list) else status
