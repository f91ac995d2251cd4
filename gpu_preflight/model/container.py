"""A container of a pod, and the sum of the requests of all containers of a pod.

The sum follows the scheduler.

Source: kubernetes/kubernetes v1.36.1 staging/src/k8s.io/component-helpers/resource/helpers.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from operator import attrgetter
from typing import Any, NamedTuple

from gpu_facts.light import dataclass
from gpu_facts.quantities import Resources, add, quantity, resources
from gpu_facts.resources import NVIDIA
from gpu_preflight.reading.unknown import (
    Unknown,
    dig,
    is_true,
    items,
    known_number,
    known_text,
    mapping,
    mappings,
    unless_hidden,
)

# Requested amounts as they are written; `Unknown` if all of them are known at deployment only.
Amounts = Mapping[str, Any] | Unknown
# Address, protocol and number.
HostPort = tuple[str, str, int]
_EVERY_ADDRESS = "0.0.0.0"
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
_PORTS_OF = ("httpGet", "tcpSocket", "grpc")
# The API server rejects a probe without one of them.
_HANDLERS = ("exec", *_PORTS_OF)
_PROBE_DEFAULTS = (("initialDelaySeconds", 0), ("periodSeconds", 10), ("failureThreshold", 3))
# A pod's limit for these resources may be higher than its request.
_OVERCOMMITTED = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a container.

    Attributes:
        container: Its number in the container.
        host: Its number on the node.
        address: The address on the node.
        protocol: ``TCP``, ``UDP`` or ``SCTP``.
        name: Its name.
    """

    container: Any
    host: Any
    address: Any
    protocol: Any
    name: Any = None


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe of a container, as it is written; ``None`` if it isn't set."""

    written: Any

    @property
    def port(self) -> Any:
        """The port that it checks; ``None`` if it checks no port, or if the port isn't known."""
        return next((dig(self.written, each, "port") for each in _PORTS_OF if each in mapping(self.written)), None)

    @property
    def allowed_seconds(self) -> int | None:
        """The seconds until it has failed often enough; ``None`` if it has no handler, or if they aren't known.

        Source: https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/ (2026-11)
        """
        if not isinstance(self.written, dict) or not any(each in self.written for each in _HANDLERS):
            return None
        delay, period, failures = (known_number(self.written.get(name, value)) for name, value in _PROBE_DEFAULTS)
        if delay is None or period is None or failures is None:
            return None
        return delay + max(period, 1) * max(failures, 1)


class Mount(NamedTuple):
    """The path, if it is known, and the name of a volume that a container mounts."""

    path: str | None
    volume: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class Container:
    """A container.

    Attributes:
        name: Its name.
        image: Its image; ``None`` if none is written, `Unknown` if it isn't known.
        command: Its command.
        args: Its arguments.
        env: Its variables by name, with ``None`` for a value from another object.
        limits: Its limits.
        asked: Its requests.
        ports: Its ports.
        mounts: Names of the volumes that it mounts, by path.
        capabilities: Linux capabilities that are added.
        sidecar: Whether it is an init container that keeps running.
        has_env_from: Whether it has all variables of a ConfigMap or Secret.
        volume_mounts: Its volume mounts; ``None`` if they aren't known.
        probes: Its probes by field name.
    """

    name: str
    image: str | Unknown | None = None
    command: tuple[Any, ...] = ()
    args: tuple[Any, ...] = ()
    env: Mapping[str, Any] = field(default_factory=dict)
    limits: Amounts = field(default_factory=dict)
    asked: Amounts = field(default_factory=dict)
    ports: tuple[Port, ...] = ()
    mounts: Mapping[str, str] = field(default_factory=dict)
    capabilities: tuple[Any, ...] = ()
    sidecar: bool = False
    has_env_from: bool = field(default=False, compare=False)
    volume_mounts: tuple[Mount, ...] | None = field(default=(), compare=False)
    probes: Mapping[str, Probe] = field(default_factory=dict, compare=False)

    @property
    def words(self) -> tuple[Any, ...]:
        """Command and arguments."""
        return (*self.command, *self.args)

    @property
    def image_text(self) -> str:
        """Its image; empty if it isn't known."""
        return known_text(self.image) or ""

    @property
    def requests(self) -> Resources:
        """Its requests. A limit counts as a request if no request is written."""
        return resources(self.limits) | resources(self.asked)

    @property
    def names(self) -> set[str]:
        """The names of the resources that it requests or limits."""
        return {*mapping(self.limits), *mapping(self.asked)}

    @property
    def devices(self) -> set[str]:
        """The names of the NVIDIA devices that it requests. ``nvidia.com/gpu: 0`` requests none."""
        amounts = {**mapping(self.limits), **mapping(self.asked)}
        return {name for name, amount in amounts.items() if name.startswith(NVIDIA) and quantity(name, amount) != 0}

    @property
    def is_open(self) -> bool:
        """Whether a request or a limit is known at deployment only."""
        return has_unknown(self.limits) or has_unknown(self.asked)

    @property
    def open_requests(self) -> tuple[str, ...] | None:
        """Resources that it requests in amounts known at deployment only; ``None`` if their names are unknown too."""
        return open_amounts(self.limits, self.asked)


def has_unknown(amounts: Amounts) -> bool:
    """Whether an amount is known at deployment only."""
    return isinstance(amounts, Unknown) or any(isinstance(each, Unknown) for each in amounts.values())


def open_amounts(limits: Amounts, asked: Amounts) -> tuple[str, ...] | None:
    """Return the resources of unknown requests, with limits as defaults; ``None`` if their names are unknown."""
    if isinstance(asked, Unknown) or isinstance(limits, Unknown):
        return None
    return tuple(name for name, value in {**limits, **asked}.items() if isinstance(value, Unknown))


def read_amounts(raw: Any, part: str) -> Amounts:
    """Return ``limits`` or ``requests`` of a container or a pod."""
    whole = raw.get("resources")
    written = whole if isinstance(whole, Unknown) else dig(whole, part)
    return written if isinstance(written, Unknown) else mapping(written)


def read_container(raw: Mapping[str, Any]) -> Container:
    """Return a container of a manifest."""
    image, mounts = raw.get("image"), raw.get("volumeMounts")
    return Container(
        name=str(raw.get("name")),
        image=image if isinstance(image, Unknown) else known_text(image),
        command=tuple(items(raw.get("command"))),
        args=tuple(items(raw.get("args"))),
        env={
            str(each.get("name")): unless_hidden(each.get("value"))
            for each in mappings(raw.get("env"))
            if each.get("name")
        },
        limits=read_amounts(raw, "limits"),
        asked=read_amounts(raw, "requests"),
        ports=tuple(map(_port, mappings(raw.get("ports")))),
        mounts={str(each.get("mountPath")): str(each.get("name")) for each in mappings(mounts)},
        capabilities=tuple(items(dig(raw, "securityContext", "capabilities", "add"))),
        sidecar=raw.get("restartPolicy") == "Always",
        has_env_from=bool(raw.get("envFrom")),
        volume_mounts=None if isinstance(mounts, Unknown) else tuple(map(_mount, mappings(mounts))),
        probes={name: Probe(raw.get(name)) for name in PROBES},
    )


def _mount(raw: Mapping[str, Any]) -> Mount:
    return Mount(known_text(raw.get("mountPath")), str(raw.get("name")), is_true(raw.get("readOnly")))


def _port(raw: Mapping[str, Any]) -> Port:
    return Port(raw.get("containerPort"), raw.get("hostPort"), raw.get("hostIP"), raw.get("protocol"), raw.get("name"))


def requests(
    containers: Iterable[Container], init_containers: Iterable[Container], whole: Resources, overhead: Resources
) -> Resources:
    """Return what a pod requests of a node, including room for one pod.

    Args:
        containers: Its containers.
        init_containers: Its init containers, in order.
        whole: Requests of the pod itself, which override the sum of its containers.
        overhead: The overhead of its RuntimeClass.
    """
    return add({**aggregate_container_amounts(containers, init_containers), **whole}, overhead, {"pods": 1})


def pod_level_requests(limits: Resources, asked: Resources, parts: Resources) -> Resources:
    """Return the requests of a pod itself, with the defaults that the API server sets from its limits.

    Source: kubernetes/kubernetes v1.36.3 pkg/apis/core/v1/defaults.go ``defaultPodRequests``

    Args:
        limits: Its limits.
        asked: Its requests as they are written.
        parts: The requests of its containers, which override its limits.
    """
    summed = {name: parts[name] for name in _OVERCOMMITTED if limits and name in parts}
    return {**limits, **summed, **asked}


def aggregate_container_amounts(
    containers: Iterable[Container],
    init_containers: Iterable[Container],
    amounts: Callable[[Container], Resources] = attrgetter("requests"),
) -> Resources:
    """Return the total requests of a pod's containers, or the total of other amounts. Init containers run in order."""
    total = add(*(amounts(each) for each in containers))
    before: Resources = {}
    beside: Resources = {}
    for each in init_containers:
        if each.sidecar:
            # A sidecar keeps running next to the containers and to every later init container.
            beside = add(beside, amounts(each))
            total = add(total, amounts(each))
            before = _larger(before, beside)
        else:
            before = _larger(before, add(beside, amounts(each)))
    return _larger(total, before)


def _larger(left: Resources, right: Resources) -> Resources:
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in {**left, **right}}


def invalid(containers: Iterable[Container]) -> list[str]:
    """Return why the API server would reject the requests of containers.

    Source: kubernetes/kubernetes v1.36.1 pkg/apis/core/validation/validation.go
    """
    found = []
    for container in containers:
        asked = {"limits": mapping(container.limits), "requests": mapping(container.asked)}
        for part, written in asked.items():
            found += [f"{part} {name}: {why}" for name, value in written.items() if (why := _invalid(name, value))]
        found += _unequal(asked["requests"], asked["limits"])
    return found


def _unequal(asked: Mapping[str, Any], limits: Mapping[str, Any]) -> list[str]:
    pairs = {name: (quantity(name, asked[name]), quantity(name, limits[name])) for name in asked.keys() & limits.keys()}
    return [
        f"the request of {name} is {pair[0]} and its limit is {pair[1]}; they must be equal"
        for name, pair in pairs.items()
        if is_extended(name) and None not in pair and pair[0] != pair[1]
    ]


def is_extended(name: str) -> bool:
    """Whether a resource is an extended resource, which Kubernetes doesn't define itself."""
    return "/" in name and not name.startswith("kubernetes.io/")


def _invalid(name: str, value: Any) -> str | None:
    if value is None:
        # An empty value means 0, or a missing field in a custom resource.
        return None
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        return None if isinstance(value, Unknown) else f"{value!r} isn't a quantity"
    amount = quantity(name, value)
    if amount is None:
        return f"{value!r} isn't a quantity"
    if amount < 0:
        return f"{value!r} is below 0"
    whole = quantity("cpu", value)
    return f"{value!r} isn't a whole number" if is_extended(name) and whole is not None and whole % 1000 else None


def host_ports(containers: Iterable[Container], *, host_network: bool) -> frozenset[HostPort]:
    """Return each port that containers use on their node."""
    found = set()
    for port in (port for each in containers for port in each.ports):
        number = known_number(port.host) or (known_number(port.container) if host_network else None)
        if number:
            found.add((known_text(port.address) or _EVERY_ADDRESS, known_text(port.protocol) or "TCP", number))
    return frozenset(found)


def ports_clash(left: Iterable[HostPort], right: Iterable[HostPort]) -> bool:
    """Whether two sets of host ports can't be on one node."""
    return any(
        protocol == other_protocol
        and number == other_number
        and (address == other or _EVERY_ADDRESS in (address, other))
        for address, protocol, number in left
        for other, other_protocol, other_number in right
    )
