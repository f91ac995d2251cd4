"""Parts of user data that a user adds: a script and a NodeConfig for AL2023, settings for Bottlerocket."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

from gpu_constructs.pools.host.owned_settings import BOTTLEROCKETS, FLAGS, KNOWN, NODEADMS
from gpu_facts.access_tokens import token_in
from gpu_facts.named_arguments import named_arguments
from gpu_facts.operating_systems import OperatingSystem
from gpu_facts.refusals import did_you_mean

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class ShellScript:
    """A script that cloud-init runs once, as root, when an AL2023 node boots.

    Nodeadm has written its configuration before it, and starts containerd and kubelet after it. A script that fails
    does not keep the node from joining.
    Source: awslabs/amazon-eks-ami v20260724 nodeadm/doc/api-concepts.md

    Attributes:
        text: The script, from its ``#!`` on, in ASCII.

    Raises:
        TypeError: ``text`` is no string.
        ValueError: cloud-init would not run it, or it has an access token in it.
    """

    text: str
    operating_system: ClassVar[OperatingSystem] = "al2023"

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise TypeError(f"shell script: text must be a string, got {self.text!r}")
        if not self.text.startswith("#!"):
            raise ValueError(f"shell script: text must begin with '#!/bin/bash', got {self.text[:20]!r}")
        if not self.text.isascii():
            odd = next(each for each in self.text if not each.isascii())
            raise ValueError(f"shell script: text must be ASCII, as MIME is here, got {odd!r}")
        if (kind := token_in(self.text)) is not None:
            raise ValueError(
                f"shell script: text must name no secret in the template, got {kind}; have the script read it from "
                "Secrets Manager with the role of the nodes"
            )


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class NodeConfig:
    """What nodeadm is told beside what this library tells it, on AL2023. Both become one document.

    Source: https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/ (2026-11)

    Attributes:
        spec: ``spec`` of a NodeConfig, e.g. ``{"kubelet": {"config": {"shutdownGracePeriod": "60s"}}}``.

    Raises:
        TypeError: ``spec`` is no mapping, or not of what JSON has.
        ValueError: nodeadm does not know a field, or the shape of the nodes says it.
    """

    spec: Mapping[str, Any] = field(hash=False)
    operating_system: ClassVar[OperatingSystem] = "al2023"

    def __post_init__(self) -> None:
        object.__setattr__(self, "spec", _frozen("node config", "spec", self.spec))
        for path, value in _paths(self.spec):
            _refuse_unknown(path, value)
        _refuse_owned("node config", "spec", self.spec, NODEADMS)
        flags = self.spec.get("kubelet", {}).get("flags", ())
        if not isinstance(flags, (list, tuple)) or not all(isinstance(flag, str) for flag in flags):
            raise TypeError(f"node config: spec.kubelet.flags must be a list of flags, got {flags!r}")
        for flag in flags:
            if flag.partition("=")[0] in FLAGS:
                raise ValueError(
                    f"node config: spec.kubelet.flags must leave out {flag.partition('=')[0]}, got {flag!r}; "
                    f"{FLAGS[flag.partition('=')[0]]} says it, and autoscalers with it"
                )


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class BottlerocketSettings:
    """Settings of Bottlerocket beside those of this library. Both become one document.

    Source: https://bottlerocket.dev/en/os/latest/api/settings/ (2026-11)

    Attributes:
        settings: What stands under ``settings``, e.g. ``{"motd": "GPU node"}``.

    Raises:
        TypeError: ``settings`` is no mapping, or not of what TOML has.
        ValueError: The shape of the nodes says it, or EKS cannot merge it into its own settings.
    """

    settings: Mapping[str, Any] = field(hash=False)
    operating_system: ClassVar[OperatingSystem] = "bottlerocket"

    def __post_init__(self) -> None:
        who = "bottlerocket settings"
        object.__setattr__(self, "settings", _frozen(who, "settings", self.settings))
        _refuse_owned(who, "settings", self.settings, BOTTLEROCKETS)
        for path, value in _paths(self.settings):
            _refuse_unmergeable(who, path, value)


UserDataPart = ShellScript | NodeConfig | BottlerocketSettings


def _frozen(who: str, argument: str, given: object) -> Mapping[str, Any]:
    if not isinstance(given, Mapping) or not given:
        raise TypeError(f"{who}: {argument} must be a mapping of fields to values, at least one, got {given!r}")
    odd = next((path[-1] for path, _ in _paths(given) if not isinstance(path[-1], str)), None)
    if odd is not None:
        raise TypeError(f"{who}: {argument} must have texts as keys, got {odd!r}")
    try:
        return MappingProxyType(json.loads(json.dumps(dict(given), allow_nan=False)))
    except (TypeError, ValueError):
        rule = "must hold mappings, lists, texts, numbers and truths"
        raise TypeError(f"{who}: {argument} {rule}, got {given!r}") from None


def _paths(value: Mapping[str, Any], *parents: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, each in value.items():
        yield (*parents, key), each
        if isinstance(each, Mapping):
            yield from _paths(each, *parents, key)


def _refuse_unknown(path: tuple[str, ...], value: Any) -> None:
    if path in KNOWN and not isinstance(value, Mapping):
        raise TypeError(f"node config: spec.{'.'.join(path)} must be a mapping, got {value!r}")
    known = KNOWN.get(path[:-1])
    if known is not None and path[-1] not in known:
        raise ValueError(
            f"node config: spec must have fields that nodeadm knows, got {'.'.join(path)!r}, which it ignores"
            f"{did_you_mean(path[-1], known)}"
        )


def _refuse_owned(who: str, argument: str, given: Mapping[str, Any], owned: Mapping[tuple[str, ...], str]) -> None:
    for path, value in _paths(given):
        if path in owned:
            raise ValueError(f"{who}: {argument} must leave out {'.'.join(path)}, got {value!r}; {owned[path]} says it")


def _refuse_unmergeable(who: str, path: tuple[str, ...], value: Any) -> None:
    # Source: https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html (2026-11)
    if isinstance(value, Mapping) and not _BARE_KEY.fullmatch(path[-1]):
        raise ValueError(
            f"{who}: settings must have letters, digits, '-' and '_' in the names of tables, got {path[-1]!r}; EKS "
            "does not merge others"
        )
    texts = value if isinstance(value, list) else [value]
    if '"' in path[-1] or any(isinstance(each, str) and '"' in each for each in texts):
        raise ValueError(f"{who}: settings must be without quotes in texts, got {value!r}; EKS does not merge them")
    if isinstance(value, list) and len({type(each) for each in value}) > 1:
        raise ValueError(f"{who}: settings must have lists of one type, got {value!r}; EKS does not merge others")
    if value is None:
        raise ValueError(f"{who}: settings must have a value for {'.'.join(path)}, got None, which TOML has not")
