"""User data of an instance as its image reads it: NodeConfigs of Amazon Linux 2023, and settings of Bottlerocket.

Sources: https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/,
https://bottlerocket.dev/en/os/latest/#/api/settings/kubernetes/
"""

from __future__ import annotations

import base64
import binascii
import email.parser
import email.policy
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Any

import yaml

from gpu_facts.merging import merged
from gpu_facts.schemas import find_schema


class NeverJoins(Exception):
    """Why an instance becomes no node of its cluster."""


class Unreachable(NeverJoins):
    """Why an instance doesn't reach its cluster; it tries again for a while."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bootstrap:
    """Settings with which a kubelet starts.

    Attributes:
        cluster: Name of the cluster.
        endpoint: Address of its API server.
        certificate_authority: By what that is known: PEM in base64.
        labels: Labels with which the kubelet registers its node.
        taints: Taints with which it does, as ``key``, ``value`` and ``effect``.
        kubelet: What its configuration says otherwise than the image: ``maxPods``, ``kubeReserved``,
            ``systemReserved``, ``evictionHard``.
        local_disks: Whether pods and images lie on the instance's own disks: ``RAID0``, ``RAID10`` or ``Mount``; empty
            where they lie on its volume.
        data_volume: Name of the device on which they lie then.
        scripts: Shell scripts that run before the kubelet does.
    """

    cluster: str
    endpoint: str
    certificate_authority: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    kubelet: Mapping[str, Any] = field(default_factory=dict)
    local_disks: str = ""
    data_volume: str = "/dev/xvda"
    scripts: tuple[str, ...] = ()


def _taint(written: str) -> dict[str, str]:
    """Read a taint as the kubelet's flag takes it: ``key=value:Effect`` or ``key:Effect``.

    Raises:
        NeverJoins: It is none; the kubelet does not start.
    """
    said, colon, effect = written.rpartition(":")
    key, _, value = said.partition("=")
    if not colon or not key or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
        raise NeverJoins(f"the kubelet does not start: {written!r} is no taint")
    return {"key": key, "value": value, "effect": effect}


_NODE_CONFIG = "application/node.eks.aws"
_SCRIPT = "text/x-shellscript"
_API, _KIND = "node.eks.aws/v1alpha1", "NodeConfig"
_TYPES: Mapping[str, type] = {"array": list, "boolean": bool, "object": dict, "string": str}
_REQUIRED_CLUSTER_FIELDS = ("name", "apiServerEndpoint", "certificateAuthority", "cidr")


def _read_node_configs(written: str) -> Bootstrap:
    """Read what nodeadm makes of user data.

    Raises:
        NeverJoins: It makes nothing of it, or the kubelet does not start with that.
    """
    parts = list(_parts(written))
    spec: dict[str, Any] = {}
    for content in (content for kind, content in parts if kind == _NODE_CONFIG):
        spec = merged(spec, _spec(content), other=_append_flags)
    cluster = spec.get("cluster") or {}
    missing = [each for each in _REQUIRED_CLUSTER_FIELDS if not cluster.get(each)]
    if missing:
        raise NeverJoins(f"its user data has no NodeConfig that says spec.cluster.{missing[0]}")
    return _bootstrap(cluster, spec, tuple(content for kind, content in parts if kind == _SCRIPT))


def _bootstrap(cluster: Mapping[str, Any], spec: Mapping[str, Any], scripts: tuple[str, ...]) -> Bootstrap:
    kubelet = spec.get("kubelet") or {}
    config, flags = kubelet.get("config") or {}, _flags(kubelet.get("flags") or [])
    return Bootstrap(
        cluster=str(cluster["name"]),
        endpoint=str(cluster["apiServerEndpoint"]),
        certificate_authority=str(cluster["certificateAuthority"]),
        labels=_labels(flags.get("node-labels", [])),
        taints=tuple(_taints(config, flags)),
        kubelet=config | ({"maxPods": int(flags["max-pods"][-1])} if "max-pods" in flags else {}),
        local_disks=((spec.get("instance") or {}).get("localStorage") or {}).get("strategy") or "",
        scripts=scripts,
    )


def _parts(written: str) -> Iterator[tuple[str, str]]:
    """Return content type and content of each part; what is not in parts is one."""
    if re.match(r"\s*(MIME-Version|Content-Type):", written, re.IGNORECASE):
        message = email.parser.Parser(policy=email.policy.default).parsestr(written.lstrip())
        if message.defects or not message.is_multipart():
            raise NeverJoins(f"its user data is no MIME multipart: {[type(each).__name__ for each in message.defects]}")
        for part in message.iter_parts():
            assert isinstance(part, EmailMessage)
            yield part.get_content_type(), _text(part)
    elif written.startswith("#!"):
        yield _SCRIPT, written
    elif written.strip():
        yield _NODE_CONFIG, written


def _text(part: EmailMessage) -> str:
    content = part.get_payload(decode=True)
    return content.decode() if isinstance(content, bytes) else str(part.get_payload())


def _spec(written: str) -> dict[str, Any]:
    try:
        config = yaml.safe_load(written)
    except yaml.YAMLError as error:
        raise NeverJoins(f"nodeadm reads no NodeConfig: {error}") from error
    if not isinstance(config, dict) or (config.get("apiVersion"), config.get("kind")) != (_API, _KIND):
        raise NeverJoins(f"nodeadm knows no such configuration: it must be a {_KIND} of {_API}")
    if faults := list(_faults(config, find_schema(f"{_API}/{_KIND}") or {})):
        raise NeverJoins(f"nodeadm rejects its {_KIND}: {'; '.join(faults)}")
    return config.get("spec") or {}


def _faults(value: Any, schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield what nodeadm rejects: values of another type and unknown names. It ignores fields that it doesn't know.

    Source: awslabs/amazon-eks-ami nodeadm/internal/api/bridge/decode.go, which decodes into types of Go without
    ``strict``, and internal/system/local_disk.go, which makes names lower case (2026-11)
    """
    types = schema.get("type", "object")
    kinds = tuple(_TYPES[each] for each in ([types] if isinstance(types, str) else types))
    if value is None:
        return
    if not isinstance(value, kinds):
        yield f"{path} must be of type {types}, got {value!r}"
    elif "enum" in schema and str(value).lower() not in map(str.lower, schema["enum"]):
        yield f"{path} must be one of {', '.join(schema['enum'])}, got {value!r}"
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _faults(each, schema.get("items", {}), f"{path}[{number}]")
    elif isinstance(value, dict) and not schema.get("open"):
        fields, others = schema.get("properties", {}), schema.get("additionalProperties")
        for name, each in value.items():
            if known := fields.get(name, others):
                yield from _faults(each, known, f"{path}.{name}" if path else str(name))


def _append_flags(key: str, first: Any, second: Any) -> Any:
    """Merge as nodeadm does: flags of kubelet are appended, of all else that is no mapping the later value holds.

    Source: https://github.com/awslabs/amazon-eks-ami/blob/main/nodeadm/internal/api/merge.go
    """
    return [*first, *second] if key == "flags" and isinstance(first, list) and isinstance(second, list) else second


def _flags(written: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in written:
        name, _, value = each.lstrip("-").partition("=")
        found.setdefault(name, []).append(value.strip("\"'"))
    return found


def _labels(written: list[str]) -> dict[str, str]:
    pairs = (each.partition("=") for said in written for each in said.split(",") if each)
    return {key.strip(): value.strip() for key, _, value in pairs}


def _taints(config: Mapping[str, Any], flags: Mapping[str, list[str]]) -> list[dict[str, str]]:
    """Of two flags the last holds, and a flag is stronger than the file.

    Source: https://github.com/kubernetes/kubernetes/blob/v1.36.2/cmd/kubelet/app/options/options.go
    """
    if "register-with-taints" in flags:
        return [_taint(each) for each in flags["register-with-taints"][-1].split(",") if each]
    return [_file_taint(each) for each in config.get("registerWithTaints") or ()]


def _file_taint(written: Mapping[str, Any]) -> dict[str, str]:
    return _taint(f"{written.get('key', '')}={written.get('value') or ''}:{written.get('effect', '')}")


if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_REQUIRED_SETTINGS = ("cluster-name", "api-server", "cluster-certificate")
# The names of the kubelet's own configuration for those of the settings.
_KUBELET = {
    "max-pods": "maxPods",
    "kube-reserved": "kubeReserved",
    "system-reserved": "systemReserved",
    "eviction-hard": "evictionHard",
}


def _read_settings(written: str) -> Bootstrap:
    """Read what Bottlerocket makes of user data.

    Raises:
        NeverJoins: It is no TOML, or says nothing of a cluster.
    """
    try:
        settings = tomllib.loads(written).get("settings", {})
    except tomllib.TOMLDecodeError as error:
        raise NeverJoins(f"Bottlerocket reads no TOML: {error}") from error
    said = settings.get("kubernetes", {})
    missing = [each for each in _REQUIRED_SETTINGS if not said.get(each)]
    if missing:
        raise NeverJoins(f"its user data has no settings.kubernetes.{missing[0]}")
    return Bootstrap(
        cluster=said["cluster-name"],
        endpoint=said["api-server"],
        certificate_authority=said["cluster-certificate"],
        labels={key: str(value) for key, value in said.get("node-labels", {}).items()},
        taints=tuple(_taint(f"{key}={each}") for key, values in said.get("node-taints", {}).items() for each in values),
        kubelet={name: said[key] for key, name in _KUBELET.items() if key in said} | _devices(settings),
        local_disks=_disks(settings),
        data_volume="/dev/xvdb",
    )


def _devices(settings: dict[str, Any]) -> dict[str, Any]:
    """What the built-in device plugin is told, under the name of its settings."""
    nvidia = settings.get("kubelet-device-plugins", {}).get("nvidia", {})
    return {"kubelet-device-plugins": nvidia} if nvidia else {}


def _disks(settings: dict[str, Any]) -> str:
    """Whether its bootstrap command puts pods on the disks of the instance.

    Source: https://bottlerocket.dev/en/os/latest/#/api/settings/bootstrap-commands/
    """
    commands = settings.get("bootstrap-commands", {}).values()
    run = [command for each in commands for command in each.get("commands", ())]
    return "RAID0" if any(each[:3] == ["apiclient", "ephemeral-storage", "init"] for each in run) else ""


def read_user_data(encoded: str, *, is_bottlerocket: bool = False) -> Bootstrap:
    """Return what an instance is told about its node.

    Args:
        encoded: User data in base64, as EC2 keeps it.
        is_bottlerocket: Whether Bottlerocket reads it; nodeadm of Amazon Linux 2023 otherwise.

    Raises:
        NeverJoins: The instance becomes no node with that, and why.
    """
    try:
        written = base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise NeverJoins(f"its user data is no text in base64: {error}") from error
    if not written.strip():
        raise NeverJoins("it has no user data")
    return _read_settings(written) if is_bottlerocket else _read_node_configs(written)
