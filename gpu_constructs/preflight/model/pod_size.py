"""What a pod asks for, as the scheduler adds it up.

Source: kubernetes/kubernetes v1.36.1 staging/src/k8s.io/component-helpers/resource/helpers.go
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpu_constructs.preflight.reading.quantity import add, quantity, resources
from gpu_constructs.preflight.reading.unknown import Unknown, dig, known_number, known_text, mapping, mappings


def container_requests(container: Mapping[str, Any]) -> dict[str, int]:
    """Return what a container asks for; a limit is a request where none is written."""
    limits = resources(dig(dict(container), "resources", "limits"))
    return limits | resources(dig(dict(container), "resources", "requests"))


def pod_requests(pod: Mapping[str, Any]) -> dict[str, int]:
    """Return what a pod asks of a node, one place for a pod included."""
    total = add(*(container_requests(each) for each in mappings(pod.get("containers"))))
    before: dict[str, int] = {}
    beside: dict[str, int] = {}
    for each in mappings(pod.get("initContainers")):
        asked = container_requests(each)
        if each.get("restartPolicy") == "Always":
            # A sidecar stays, beside the containers and beside every later init container.
            beside = add(beside, asked)
            total = add(total, asked)
            before = _larger(before, beside)
        else:
            before = _larger(before, add(beside, asked))
    total = _larger(total, before)
    # A request of the whole pod goes before the sum of its containers.
    whole = resources(dig(dict(pod), "resources", "limits")) | resources(dig(dict(pod), "resources", "requests"))
    return add({**total, **whole}, resources(pod.get("overhead")), {"pods": 1})


def invalid_requests(pod: Mapping[str, Any]) -> list[str]:
    """Return why the API server would refuse what the containers of a pod ask for.

    Source: kubernetes/kubernetes v1.36.1 pkg/apis/core/validation/validation.go
    """
    found = []
    if not isinstance(pod.get("containers"), (list, Unknown)):
        found.append("spec.containers is no list")
    for container in (*mappings(pod.get("containers")), *mappings(pod.get("initContainers"))):
        asked = {part: mapping(dig(container, "resources", part)) for part in ("limits", "requests")}
        for part, amounts in asked.items():
            found += [f"{part} {name}: {why}" for name, value in amounts.items() if (why := _invalid(name, value))]
        for name in asked["requests"].keys() & asked["limits"].keys():
            pair = [quantity(name, asked[part][name]) for part in ("requests", "limits")]
            if _is_extended(name) and None not in pair and pair[0] != pair[1]:
                found.append(f"{name} is requested {pair[0]} times and limited to {pair[1]}; they must be equal")
    return found


def _is_extended(name: str) -> bool:
    return "/" in name and not name.startswith("kubernetes.io/")


def _invalid(name: str, value: Any) -> str | None:
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        return None if isinstance(value, Unknown) else f"{value!r} is no quantity"
    amount = quantity(name, value)
    if amount is None:
        return f"{value!r} is no quantity"
    if amount < 0:
        return f"{value!r} is below 0"
    whole = quantity("cpu", value)
    return f"{value!r} is no whole number" if _is_extended(name) and whole is not None and whole % 1000 else None


def has_unknown_requests(pod: Mapping[str, Any]) -> bool:
    """Whether a request of a pod is known at deployment only."""
    parts = (
        dig(each, "resources", part)
        for each in (*mappings(pod.get("containers")), *mappings(pod.get("initContainers")), pod)
        for part in ("limits", "requests")
    )
    if _has_unknown(mapping(pod.get("overhead")).values()):
        return True
    return any(isinstance(part, Unknown) or _has_unknown(mapping(part).values()) for part in parts)


def _has_unknown(values: Iterable[Any]) -> bool:
    return any(isinstance(each, Unknown) for each in values)


def _larger(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in {**left, **right}}


def host_ports(pod: Mapping[str, Any]) -> frozenset[tuple[str, str, int]]:
    """Return the address, protocol and number of each host port of a pod."""
    network = pod.get("hostNetwork") is True
    found = set()
    sidecars = [each for each in mappings(pod.get("initContainers")) if each.get("restartPolicy") == "Always"]
    for container in [*mappings(pod.get("containers")), *sidecars]:
        for port in mappings(container.get("ports")):
            number = known_number(port.get("hostPort")) or (
                known_number(port.get("containerPort")) if network else None
            )
            if number:
                address = known_text(port.get("hostIP")) or "0.0.0.0"
                found.add((address, known_text(port.get("protocol")) or "TCP", number))
    return frozenset(found)


def has_unknown_ports(pod: Mapping[str, Any]) -> bool:
    """Whether a host port of a pod is known at deployment only."""
    ports = [port for each in mappings(pod.get("containers")) for port in mappings(each.get("ports"))]
    return any(isinstance(port.get(key), Unknown) for port in ports for key in ("hostPort", "hostIP", "protocol"))


def ports_clash(left: Iterable[tuple[str, str, int]], right: Iterable[tuple[str, str, int]]) -> bool:
    """Whether two sets of host ports cannot be on one node."""
    every = "0.0.0.0"
    return any(
        protocol == other_protocol and number == other_number and (address == other or every in (address, other))
        for address, protocol, number in left
        for other, other_protocol, other_number in right
    )
