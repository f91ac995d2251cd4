"""Containers that run before that of the GPUs, or beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from gpu_constructs.workloads.parts.command import command_words
from gpu_constructs.workloads.parts.environment import (
    EnvSource,
    EnvValue,
    env_manifest,
    env_sources,
    refuse_unless_env,
)
from gpu_constructs.workloads.parts.mounts import Mount, mounts_of
from gpu_facts.kubernetes import refuse_unless_object_name
from gpu_facts.named_arguments import named_arguments
from gpu_facts.quantities import millicores
from gpu_facts.refusals import refuse_unless_bool, refuse_unless_image, refuse_unless_whole_number

# The least that Kubernetes counts.
LEAST_CPUS = 0.001


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class InitContainer:
    """A container without GPUs that ends before the one with GPUs starts, for example after it has loaded weights.

    The GPUs are the pod's while it runs, and cost as much.

    Attributes:
        name: Name, unlike that of other containers of the pod.
        image: Image with tag or digest.
        command: Command instead of the image's.
        args: Arguments instead of the image's.
        env: Environment variables.
        env_from: Secrets and ConfigMaps all of whose keys are variables.
        mounts: What it sees of volumes; a `ScratchMount` that the pod has too is one folder for both.
        cpus: Virtual CPUs it asks for. Only a sidecar's are asked for beside those of the pod.
        memory_gib: Memory it asks for and may take, in GiB; likewise.
        sidecar: Whether it starts before, and stays as long as the pod runs.
        run_as_user: User id. Default: the pod's.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: No such container can be.

    Source: https://kubernetes.io/docs/concepts/workloads/pods/init-containers/ (2026-11)
    """

    name: str
    image: str
    command: Sequence[str] = ()
    args: Sequence[str] = ()
    env: Mapping[str, EnvValue] = field(default_factory=dict, hash=False)
    env_from: Sequence[EnvSource] = ()
    mounts: Sequence[Mount] = ()
    cpus: float = 1
    memory_gib: int = 1
    sidecar: bool = False
    run_as_user: int | None = None

    def __post_init__(self) -> None:
        refuse_unless_object_name("init container", "name", self.name)
        who = f"init container {self.name!r}"
        refuse_unless_image(who, "image", self.image)
        for argument in ("command", "args"):
            object.__setattr__(self, argument, command_words(who, argument, getattr(self, argument)))
        refuse_unless_env(who, self.env)
        object.__setattr__(self, "env", MappingProxyType(dict(self.env)))
        object.__setattr__(self, "env_from", env_sources(who, self.env_from))
        object.__setattr__(self, "mounts", mounts_of(who, self.mounts))
        refuse_unless_cpus(who, self.cpus)
        refuse_unless_whole_number(who, "memory_gib", self.memory_gib, least=1)
        refuse_unless_bool(who, "sidecar", self.sidecar)
        if self.run_as_user is not None:
            refuse_unless_whole_number(who, "run_as_user", self.run_as_user, least=0)

    def to_manifest(self) -> dict[str, Any]:
        """Return the container as Kubernetes spells it."""
        memory = {"memory": f"{self.memory_gib}Gi"}
        said = {
            "args": list(self.args),
            "command": list(self.command),
            "env": env_manifest(self.env),
            "envFrom": [each.to_manifest() for each in self.env_from],
            "image": self.image,
            "name": self.name,
            "resources": {"limits": memory, "requests": {"cpu": millicores(self.cpus)} | memory},
            "restartPolicy": "Always" if self.sidecar else None,
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}} | self._user(),
            "volumeMounts": [each.to_manifest() for each in self.mounts],
        }
        return {key: value for key, value in said.items() if value}

    def _user(self) -> dict[str, Any]:
        if self.run_as_user is None:
            return {}
        return ({"runAsNonRoot": True} if self.run_as_user else {}) | {"runAsUser": self.run_as_user}


def init_containers_of(who: object, containers: object) -> tuple[InitContainer, ...]:
    """Return the containers that run before that of the GPUs, in their order.

    Raises:
        TypeError: One is none.
        ValueError: Two have one name.
    """
    if not isinstance(containers, (list, tuple)) or not all(isinstance(each, InitContainer) for each in containers):
        raise TypeError(f"{who}: init_containers must be a list of InitContainer, got {containers!r}")
    names = [each.name for each in containers]
    if twice := next((each for each in names if names.count(each) > 1), None):
        raise ValueError(f"{who}: init_containers must each have a name of their own, got {twice!r} twice")
    return tuple(containers)


def refuse_unless_cpus(who: object, cpus: object) -> None:
    """Refuse what is no amount of virtual CPUs.

    Raises:
        TypeError: ``cpus`` is no number.
        ValueError: It is less than Kubernetes counts, or no amount.
    """
    if isinstance(cpus, bool) or not isinstance(cpus, (int, float)):
        raise TypeError(f"{who}: cpus must be a number, got {cpus!r}")
    # Also what is no number: it is neither below nor above.
    if not (LEAST_CPUS <= cpus < math.inf):
        raise ValueError(f"{who}: cpus must be at least {LEAST_CPUS}, got {cpus}")
