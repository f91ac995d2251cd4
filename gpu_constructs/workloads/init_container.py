"""Init containers, sidecars, commands and environment variables."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, get_args

from gpu_constructs.workloads.mounts import Mount, parse_mounts
from gpu_facts.access_tokens import access_token_kind
from gpu_facts.kubernetes import refuse_unless_data_key, refuse_unless_dotted_name, refuse_unless_object_name
from gpu_facts.named_arguments import named_arguments
from gpu_facts.quantities import millicores
from gpu_facts.refusals import (
    refuse_unless_bool,
    refuse_unless_image,
    refuse_unless_strings,
    refuse_unless_whole_number,
)

# Operators that only a shell interprets.
_OF_A_SHELL = frozenset({"&&", "||", "|", ";", "&", ">", ">>", "<"})
# Source: https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/4369-allow-special-characters-environment-variable
_NAME = re.compile(r"[ -<>-~]+")
# The smallest amount that Kubernetes supports.
_LEAST_CPUS = 0.001


def command_words(who: object, argument: str, value: object) -> tuple[str, ...]:
    """Return a command, or its arguments, as Kubernetes expects it: a list of words, without a shell.

    Raises:
        TypeError: The value is one string, or a word isn't a string.
        ValueError: It contains an access token.
    """
    if isinstance(value, str):
        _refuse_tokens(who, argument, [value])
        raise TypeError(f"{who}: {argument} must be a list of strings, got {value!r}; write {_split(argument, value)}")
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{who}: {argument} must be a list of strings, got {value!r}; write ['word', ...]")
    _refuse_tokens(who, argument, [each for each in value if isinstance(each, str)])
    refuse_unless_strings(who, argument, value, as_text=True)
    return tuple(value)


def _split(argument: str, line: str) -> list[str]:
    try:
        found = shlex.split(line)
    except ValueError:
        return [line]
    if argument == "command" and any(each in _OF_A_SHELL or each.endswith(";") for each in found):
        return ["sh", "-c", line]
    return found


def _refuse_tokens(who: object, argument: str, words: Sequence[str]) -> None:
    kind = next((found for each in words if (found := access_token_kind(each)) is not None), None)
    if kind is not None:
        raise ValueError(
            f"{who}: {argument} must contain no secret in the template, got {kind}; put it into a Secret of the "
            "cluster, set a variable from it with SecretKey, and write $(NAME) here [GPU413]"
        )


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class SecretKey:
    """One key of a Secret, as the value of a variable. A change affects only pods that start later.

    Attributes:
        secret: Name of an existing Secret in the pod's namespace. Without it the pod doesn't start.
        key: Key in it.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The name or the key is invalid.
    """

    secret: str
    key: str

    def __post_init__(self) -> None:
        refuse_unless_dotted_name("secret key", "secret", self.secret)
        refuse_unless_data_key("secret key", "key", self.key)

    def to_manifest(self) -> dict[str, Any]:
        """Return the source of the value."""
        return {"secretKeyRef": {"key": self.key, "name": self.secret}}


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigMapKey:
    """One key of a ConfigMap, as the value of a variable. A change affects only pods that start later.

    Attributes:
        config_map: Name of an existing ConfigMap in the pod's namespace. Without it the pod doesn't start.
        key: Key in it.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The name or the key is invalid.
    """

    config_map: str
    key: str

    def __post_init__(self) -> None:
        refuse_unless_dotted_name("config map key", "config_map", self.config_map)
        refuse_unless_data_key("config map key", "key", self.key)

    def to_manifest(self) -> dict[str, Any]:
        """Return the source of the value."""
        return {"configMapKeyRef": {"key": self.key, "name": self.config_map}}


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class SecretEnv:
    """All keys of a Secret as variables with the same names. Variables in ``env`` take precedence.

    Attributes:
        secret: Name of an existing Secret in the pod's namespace. Without it the pod doesn't start.
        prefix: Prefix of the variables' names, before each key.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The name or the prefix is invalid.
    """

    secret: str
    prefix: str = ""

    def __post_init__(self) -> None:
        refuse_unless_dotted_name("secret env", "secret", self.secret)
        _refuse_unless_prefix("secret env", self.prefix)

    def to_manifest(self) -> dict[str, Any]:
        """Return the source of variables."""
        return _prefixed(self.prefix) | {"secretRef": {"name": self.secret}}


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigMapEnv:
    """All keys of a ConfigMap as variables with the same names. Variables in ``env`` take precedence.

    Attributes:
        config_map: Name of an existing ConfigMap in the pod's namespace. Without it the pod doesn't start.
        prefix: Prefix of the variables' names, before each key.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The name or the prefix is invalid.
    """

    config_map: str
    prefix: str = ""

    def __post_init__(self) -> None:
        refuse_unless_dotted_name("config map env", "config_map", self.config_map)
        _refuse_unless_prefix("config map env", self.prefix)

    def to_manifest(self) -> dict[str, Any]:
        """Return the source of variables."""
        return _prefixed(self.prefix) | {"configMapRef": {"name": self.config_map}}


EnvValue = str | SecretKey | ConfigMapKey
EnvSource = SecretEnv | ConfigMapEnv


def refuse_unless_env(who: object, env: object) -> None:
    """Reject an invalid environment. Messages don't contain values, which may be secret.

    Raises:
        TypeError: The value isn't a mapping of names to values.
        ValueError: A name is invalid, or a value is an access token.
    """
    if not isinstance(env, Mapping):
        raise TypeError(
            f"{who}: env must map names to strings, SecretKey or ConfigMapKey, got {_kind(env)}; write "
            "{'NAME': 'value'}"
        )
    for name, value in env.items():
        if not isinstance(name, str):
            raise TypeError(f"{who}: env must have names that are strings, got {name!r}; write it as a string")
        if not isinstance(value, EnvValue):
            raise TypeError(
                f"{who}: env must map names to strings, SecretKey or ConfigMapKey, got {_kind(value)} for {name!r}; "
                f"{_fix(name, value)}"
            )
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{who}: env must have names of ASCII letters and signs other than '=', got {name!r}; rename it"
            )
        kind = access_token_kind(value, variable=name) if isinstance(value, str) else None
        if kind is not None:
            raise ValueError(
                f"{who}: env must contain no secret in the template, got {kind} in {name!r}; put it into a Secret of "
                f"the cluster and write {{{name!r}: SecretKey(secret=..., key=...)}} [GPU413]"
            )


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeio' else 'a'} {name}"


def _fix(name: str, value: object) -> str:
    if value is None:
        return "leave it out, or write ''"
    if isinstance(value, (bool, int, float)):
        return "write it as a string"
    if isinstance(value, Mapping):
        return f"write {{{name!r}: SecretKey(secret=..., key=...)}}, or a ConfigMapKey(config_map=..., key=...)"
    return f"put it into a Secret of the cluster and write {{{name!r}: SecretKey(secret=..., key=...)}}"


def env_sources(who: object, sources: object) -> tuple[EnvSource, ...]:
    """Return the whole Secrets and ConfigMaps that are sources of variables.

    Raises:
        TypeError: A source is neither.
    """
    if not isinstance(sources, (list, tuple)) or not all(isinstance(each, EnvSource) for each in sources):
        kinds = " or ".join(each.__name__ for each in get_args(EnvSource))
        raise TypeError(f"{who}: env_from must be a list of {kinds}, got {sources!r}; write [SecretEnv(secret=...)]")
    return tuple(sources)


def env_manifest(env: Mapping[str, EnvValue]) -> list[dict[str, Any]]:
    """Return variables in their order: one may refer to those before it."""
    return [
        {"name": name} | ({"value": value} if isinstance(value, str) else {"valueFrom": value.to_manifest()})
        for name, value in env.items()
    ]


def _refuse_unless_prefix(who: str, prefix: object) -> None:
    if not isinstance(prefix, str):
        raise TypeError(f"{who}: prefix must be a string, got {prefix!r}; write '' for none")
    if prefix and not _NAME.fullmatch(prefix):
        raise ValueError(f"{who}: prefix must be of ASCII letters and signs other than '=', got {prefix!r}; change it")


def _prefixed(prefix: str) -> dict[str, Any]:
    return {"prefix": prefix} if prefix else {}


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class InitContainer:
    """A container without GPUs that exits before the GPU container starts, for example after it has loaded weights.

    While it runs, the pod holds its GPUs, and you pay for them.

    Attributes:
        name: Unique name among the containers of the pod.
        image: Image with tag or digest.
        command: Command that replaces the image's.
        args: Arguments that replace the image's.
        env: Environment variables.
        env_from: Secrets and ConfigMaps whose keys all become variables.
        mounts: Its mounts of volumes. A `ScratchMount` that the pod also has is one folder for both.
        cpus: Requested virtual CPUs. Only a sidecar's request is added to the pod's.
        memory_gib: Memory request and limit in GiB. Only a sidecar's request is added to the pod's.
        sidecar: Whether it starts before the GPU container and runs as long as the pod.
        run_as_user: User id. Default: the pod's.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The container is invalid.

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
        object.__setattr__(self, "mounts", parse_mounts(who, self.mounts))
        refuse_unless_cpus(who, self.cpus)
        refuse_unless_whole_number(who, "memory_gib", self.memory_gib, least=1)
        refuse_unless_bool(who, "sidecar", self.sidecar)
        if self.run_as_user is not None:
            refuse_unless_whole_number(who, "run_as_user", self.run_as_user, least=0)

    def to_manifest(self) -> dict[str, Any]:
        """Return the container in Kubernetes' spelling."""
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


def parse_init_containers(who: object, containers: object) -> tuple[InitContainer, ...]:
    """Return the containers that run before the GPU container, in order.

    Raises:
        TypeError: The value isn't a list of init containers.
        ValueError: Two have one name.
    """
    if not isinstance(containers, (list, tuple)) or not all(isinstance(each, InitContainer) for each in containers):
        raise TypeError(
            f"{who}: init_containers must be a list of InitContainer, got {containers!r}; write [InitContainer(...)]"
        )
    names = [each.name for each in containers]
    if twice := next((each for each in names if names.count(each) > 1), None):
        raise ValueError(f"{who}: init_containers must have different names, got {twice!r} twice; rename one")
    return tuple(containers)


def refuse_unless_cpus(who: object, cpus: object) -> None:
    """Reject an invalid number of virtual CPUs.

    Raises:
        TypeError: ``cpus`` isn't a number.
        ValueError: It is below the smallest amount that Kubernetes supports, or isn't finite.
    """
    if isinstance(cpus, bool) or not isinstance(cpus, (int, float)):
        raise TypeError(f"{who}: cpus must be a number, got {cpus!r}; write it as a number")
    # This form also rejects NaN, which is neither below nor above.
    if not (_LEAST_CPUS <= cpus < math.inf):
        raise ValueError(f"{who}: cpus must be at least {_LEAST_CPUS}, got {cpus}; raise it")
