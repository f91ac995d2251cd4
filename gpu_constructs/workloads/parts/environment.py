"""The environment of a container: written out, or taken from Secrets and ConfigMaps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from gpu_facts.access_tokens import token_in
from gpu_facts.kubernetes import refuse_unless_data_key, refuse_unless_dotted_name
from gpu_facts.named_arguments import named_arguments

# Source: https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/4369-allow-special-characters-environment-variable
_NAME = re.compile(r"[ -<>-~]+")


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class SecretKey:
    """One key of a Secret, as the value of a variable; a change reaches pods that start later.

    Attributes:
        secret: Name of an existing Secret in the pod's namespace; without it the pod does not start.
        key: Key in it.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The name or the key cannot be.
    """

    secret: str
    key: str

    def __post_init__(self) -> None:
        refuse_unless_dotted_name("secret key", "secret", self.secret)
        refuse_unless_data_key("secret key", "key", self.key)

    def to_manifest(self) -> dict[str, Any]:
        """Return where the value comes from."""
        return {"secretKeyRef": {"key": self.key, "name": self.secret}}


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigMapKey:
    """One key of a ConfigMap, as the value of a variable; a change reaches pods that start later.

    Attributes:
        config_map: Name of an existing ConfigMap in the pod's namespace; without it the pod does not start.
        key: Key in it.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The name or the key cannot be.
    """

    config_map: str
    key: str

    def __post_init__(self) -> None:
        refuse_unless_dotted_name("config map key", "config_map", self.config_map)
        refuse_unless_data_key("config map key", "key", self.key)

    def to_manifest(self) -> dict[str, Any]:
        """Return where the value comes from."""
        return {"configMapKeyRef": {"key": self.key, "name": self.config_map}}


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class SecretEnv:
    """Every key of a Secret as a variable of its name; what ``env`` names goes before it.

    Attributes:
        secret: Name of an existing Secret in the pod's namespace; without it the pod does not start.
        prefix: What stands before each key in the name of its variable.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The name or the prefix cannot be.
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
    """Every key of a ConfigMap as a variable of its name; what ``env`` names goes before it.

    Attributes:
        config_map: Name of an existing ConfigMap in the pod's namespace; without it the pod does not start.
        prefix: What stands before each key in the name of its variable.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The name or the prefix cannot be.
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
    """Refuse what is no environment, without repeating values, which may be secret.

    Raises:
        TypeError: It is no mapping of names to values.
        ValueError: A name cannot be, or a value is an access token.
    """
    if not isinstance(env, Mapping):
        raise TypeError(
            f"{who}: env must map names to strings, SecretKey or ConfigMapKey, got {_kind(env)}; write "
            "{'NAME': 'value'}"
        )
    for name, value in env.items():
        if not isinstance(name, str):
            raise TypeError(f"{who}: env must have names that are strings, got {name!r}")
        if not isinstance(value, EnvValue):
            raise TypeError(
                f"{who}: env must map names to strings, SecretKey or ConfigMapKey, got {_kind(value)} for {name!r}; "
                f"{_fix(name, value)}"
            )
        if not _NAME.fullmatch(name):
            raise ValueError(f"{who}: env must have names of ASCII letters and signs other than '=', got {name!r}")
        kind = token_in(value, variable=name) if isinstance(value, str) else None
        if kind is not None:
            raise ValueError(
                f"{who}: env must name no secret in the template, got {kind} in {name!r}; put it into a Secret of the "
                f"cluster and write {{{name!r}: SecretKey(secret=..., key=...)}} [GPU413]"
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
    """Return whole Secrets and ConfigMaps that variables come from.

    Raises:
        TypeError: One is neither.
    """
    if not isinstance(sources, (list, tuple)) or not all(isinstance(each, EnvSource) for each in sources):
        kinds = " or ".join(each.__name__ for each in get_args(EnvSource))
        raise TypeError(f"{who}: env_from must be a list of {kinds}, got {sources!r}")
    return tuple(sources)


def env_manifest(env: Mapping[str, EnvValue]) -> list[dict[str, Any]]:
    """Return variables in their order: one may name those before it."""
    return [
        {"name": name} | ({"value": value} if isinstance(value, str) else {"valueFrom": value.to_manifest()})
        for name, value in env.items()
    ]


def _refuse_unless_prefix(who: str, prefix: object) -> None:
    if not isinstance(prefix, str):
        raise TypeError(f"{who}: prefix must be a string, got {prefix!r}")
    if prefix and not _NAME.fullmatch(prefix):
        raise ValueError(f"{who}: prefix must be of ASCII letters and signs other than '=', got {prefix!r}")


def _prefixed(prefix: str) -> dict[str, Any]:
    return {"prefix": prefix} if prefix else {}
