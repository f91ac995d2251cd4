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
    """The reason why an instance never becomes a node of its cluster."""


class Unreachable(NeverJoins):
    """The reason why an instance doesn't reach its cluster. It retries for some time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bootstrap:
    """The settings of a kubelet at its start.

    Attributes:
        cluster: Name of the cluster.
        endpoint: Address of its API server.
        certificate_authority: Certificate authority of the API server: PEM in base64.
        labels: Labels of the node at its registration.
        taints: Taints of the node at its registration, as ``key``, ``value`` and ``effect``.
        kubelet: Settings that differ from the image's: ``maxPods``, ``kubeReserved``, ``systemReserved``,
            ``evictionHard``.
        local_disks: How pods and images use the instance store: ``RAID0``, ``RAID10`` or ``Mount``; empty if they use
            the EBS volume.
        data_volume: Device name of the EBS volume for pods.
        scripts: Shell scripts that run before the kubelet starts.
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
    """Parse a taint in the format of the kubelet's flag: ``key=value:Effect`` or ``key:Effect``.

    Raises:
        NeverJoins: It isn't a taint, so the kubelet doesn't start.
    """
    key_value, colon, effect = written.rpartition(":")
    key, _, value = key_value.partition("=")
    if not colon or not key or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
        raise NeverJoins(f"the kubelet doesn't start: {written!r} isn't a taint")
    return {"key": key, "value": value, "effect": effect}


_NODE_CONFIG = "application/node.eks.aws"
_SCRIPT = "text/x-shellscript"
_API, _KIND = "node.eks.aws/v1alpha1", "NodeConfig"
_TYPES: Mapping[str, type] = {"array": list, "boolean": bool, "object": dict, "string": str}
_REQUIRED_CLUSTER_FIELDS = ("name", "apiServerEndpoint", "certificateAuthority", "cidr")


def _read_node_configs(written: str) -> Bootstrap:
    """Return the kubelet's settings from user data, as nodeadm reads it.

    Raises:
        NeverJoins: nodeadm rejects the user data, or the kubelet doesn't start.
    """
    parts = list(_parts(written))
    spec: dict[str, Any] = {}
    for content in (content for kind, content in parts if kind == _NODE_CONFIG):
        spec = merged(spec, _spec(content), other=_append_flags)
    cluster = spec.get("cluster") or {}
    missing = [each for each in _REQUIRED_CLUSTER_FIELDS if not cluster.get(each)]
    if missing:
        raise NeverJoins(f"its user data has no NodeConfig with spec.cluster.{missing[0]}")
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
    """Yield content type and content of each part. User data that isn't multipart has one part."""
    if re.match(r"\s*(MIME-Version|Content-Type):", written, re.IGNORECASE):
        message = email.parser.Parser(policy=email.policy.default).parsestr(written.lstrip())
        if message.defects or not message.is_multipart():
            raise NeverJoins(f"its user data isn't MIME multipart: {[type(each).__name__ for each in message.defects]}")
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
        raise NeverJoins(f"nodeadm can't parse its NodeConfig: {error}") from error
    if not isinstance(config, dict) or (config.get("apiVersion"), config.get("kind")) != (_API, _KIND):
        raise NeverJoins(f"nodeadm doesn't support this configuration: it must be a {_KIND} of {_API}")
    if faults := list(_faults(config, find_schema(f"{_API}/{_KIND}") or {})):
        raise NeverJoins(f"nodeadm rejects its {_KIND}: {'; '.join(faults)}")
    return config.get("spec") or {}


def _faults(value: Any, schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield what nodeadm rejects: values of a wrong type and unknown enum values. It ignores unknown fields.

    Source: awslabs/amazon-eks-ami nodeadm/internal/api/bridge/decode.go, which decodes into types of Go without
    ``strict``, and internal/system/local_disk.go, which lowercases names (2026-11)
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
    """Merge as nodeadm does: append flags of the kubelet, and replace all other values that aren't mappings.

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
    pairs = (each.partition("=") for flag in written for each in flag.split(",") if each)
    return {key.strip(): value.strip() for key, _, value in pairs}


def _taints(config: Mapping[str, Any], flags: Mapping[str, list[str]]) -> list[dict[str, str]]:
    """Return the taints. The last of several flags wins, and a flag overrides the file.

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
# Field of the kubelet's configuration for each setting of Bottlerocket.
_KUBELET = {
    "max-pods": "maxPods",
    "kube-reserved": "kubeReserved",
    "system-reserved": "systemReserved",
    "eviction-hard": "evictionHard",
}


def _read_settings(written: str) -> Bootstrap:
    """Return the kubelet's settings from user data, as Bottlerocket reads it.

    Raises:
        NeverJoins: It isn't TOML, or has no settings of a cluster.
    """
    try:
        settings = tomllib.loads(written).get("settings", {})
    except tomllib.TOMLDecodeError as error:
        raise NeverJoins(f"Bottlerocket can't parse its TOML: {error}") from error
    kubernetes = settings.get("kubernetes", {})
    missing = [each for each in _REQUIRED_SETTINGS if not kubernetes.get(each)]
    if missing:
        raise NeverJoins(f"its user data has no settings.kubernetes.{missing[0]}")
    return Bootstrap(
        cluster=kubernetes["cluster-name"],
        endpoint=kubernetes["api-server"],
        certificate_authority=kubernetes["cluster-certificate"],
        labels={key: str(value) for key, value in kubernetes.get("node-labels", {}).items()},
        taints=tuple(
            _taint(f"{key}={each}") for key, values in kubernetes.get("node-taints", {}).items() for each in values
        ),
        kubelet={name: kubernetes[key] for key, name in _KUBELET.items() if key in kubernetes} | _devices(settings),
        local_disks=_disks(settings),
        data_volume="/dev/xvdb",
    )


def _devices(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the built-in device plugin, under their own key."""
    nvidia = settings.get("kubelet-device-plugins", {}).get("nvidia", {})
    return {"kubelet-device-plugins": nvidia} if nvidia else {}


def _disks(settings: dict[str, Any]) -> str:
    """Return the use of the instance store that a bootstrap command sets; empty for none.

    Source: https://bottlerocket.dev/en/os/latest/#/api/settings/bootstrap-commands/
    """
    commands = settings.get("bootstrap-commands", {}).values()
    run = [command for each in commands for command in each.get("commands", ())]
    return "RAID0" if any(each[:3] == ["apiclient", "ephemeral-storage", "init"] for each in run) else ""


def read_user_data(encoded: str, *, is_bottlerocket: bool = False) -> Bootstrap:
    """Return the kubelet's settings from the user data of an instance.

    Args:
        encoded: User data in base64, as EC2 stores it.
        is_bottlerocket: Whether the image is Bottlerocket. Otherwise nodeadm of Amazon Linux 2023 reads the user data.

    Raises:
        NeverJoins: The instance doesn't become a node.
    """
    try:
        written = base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise NeverJoins(f"its user data isn't text in base64: {error}") from error
    if not written.strip():
        raise NeverJoins("it has no user data")
    return _read_settings(written) if is_bottlerocket else _read_node_configs(written)
