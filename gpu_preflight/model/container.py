"""A container of a pod, as typed values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from gpu_facts.light_dataclasses import dataclass
from gpu_facts.quantities import Resources, quantity, resources
from gpu_facts.resources import NVIDIA
from gpu_preflight.reading.unknown import Unknown, dig, items, known_text, mapping, mappings

# What is asked for, as it is written; `Unknown` where all of it is known at deployment only.
Amounts = Mapping[str, Any] | Unknown


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
class Container:
    """A container.

    Attributes:
        name: Its name.
        image: Its image; ``None`` where none is written, `Unknown` where it is not known.
        command: Its command.
        args: Its arguments.
        env: Its variables by name, those whose value stands elsewhere as ``None``.
        limits: Its limits.
        asked: Its requests.
        ports: Its ports.
        mounts: Names of the volumes that it mounts, by path.
        capabilities: Linux capabilities that are added.
        sidecar: Whether it is an init container that stays.
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

    @property
    def words(self) -> tuple[Any, ...]:
        """Command and arguments."""
        return (*self.command, *self.args)

    @property
    def image_text(self) -> str:
        """Its image; empty where it is not known."""
        return known_text(self.image) or ""

    @property
    def requests(self) -> Resources:
        """What it asks for; a limit is a request where none is written."""
        return resources(self.limits) | resources(self.asked)

    @property
    def names(self) -> set[str]:
        """The resources that it names."""
        return {*mapping(self.limits), *mapping(self.asked)}

    @property
    def devices(self) -> set[str]:
        """The names of NVIDIA's devices that it asks for; ``nvidia.com/gpu: 0`` asks for none."""
        amounts = {**mapping(self.limits), **mapping(self.asked)}
        return {name for name, amount in amounts.items() if name.startswith(NVIDIA) and quantity(name, amount) != 0}

    @property
    def is_open(self) -> bool:
        """Whether a request or a limit is known at deployment only."""
        return has_unknown(self.limits) or has_unknown(self.asked)

    @property
    def open_requests(self) -> tuple[str, ...] | None:
        """What it requests in amounts known at deployment only; ``None`` where not even which is known."""
        return open_amounts(self.limits, self.asked)


def has_unknown(amounts: Amounts) -> bool:
    """Whether an amount is known at deployment only."""
    return isinstance(amounts, Unknown) or any(isinstance(each, Unknown) for each in amounts.values())


def open_amounts(limits: Amounts, asked: Amounts) -> tuple[str, ...] | None:
    """Return the resources of unknown requests, as limits stand in for them; ``None`` where not even which is known."""
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
    image = raw.get("image")
    return Container(
        name=str(raw.get("name")),
        image=image if isinstance(image, Unknown) else known_text(image),
        command=tuple(items(raw.get("command"))),
        args=tuple(items(raw.get("args"))),
        env={str(each.get("name")): each.get("value") for each in mappings(raw.get("env")) if each.get("name")},
        limits=read_amounts(raw, "limits"),
        asked=read_amounts(raw, "requests"),
        ports=tuple(map(_port, mappings(raw.get("ports")))),
        mounts={str(each.get("mountPath")): str(each.get("name")) for each in mappings(raw.get("volumeMounts"))},
        capabilities=tuple(items(dig(raw, "securityContext", "capabilities", "add"))),
        sidecar=raw.get("restartPolicy") == "Always",
    )


def _port(raw: Mapping[str, Any]) -> Port:
    return Port(raw.get("containerPort"), raw.get("hostPort"), raw.get("hostIP"), raw.get("protocol"), raw.get("name"))
