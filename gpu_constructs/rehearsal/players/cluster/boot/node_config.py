"""The ``NodeConfig`` of Amazon Linux 2023, and the parts of user data that hold it.

Source: https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/
"""

from __future__ import annotations

import email.parser
import email.policy
import re
from collections.abc import Iterator, Mapping
from email.message import EmailMessage
from typing import Any

import yaml

from gpu_constructs.rehearsal.players.cluster.boot.bootstrap import Bootstrap, NeverJoins, taint

_NODE_CONFIG = "application/node.eks.aws"
_SCRIPT = "text/x-shellscript"
_API = "node.eks.aws/v1alpha1"
_NEEDED = ("name", "apiServerEndpoint", "certificateAuthority", "cidr")


def from_node_configs(written: str) -> Bootstrap:
    """Read what nodeadm makes of user data.

    Raises:
        NeverJoins: It makes nothing of it, or the kubelet does not start with that.
    """
    parts = list(_parts(written))
    merged: dict[str, Any] = {}
    for content in (content for kind, content in parts if kind == _NODE_CONFIG):
        merged = _merge(merged, _spec(content))
    cluster = merged.get("cluster") or {}
    missing = [each for each in _NEEDED if not cluster.get(each)]
    if missing:
        raise NeverJoins(f"its user data has no NodeConfig that says spec.cluster.{missing[0]}")
    return _bootstrap(cluster, merged, tuple(content for kind, content in parts if kind == _SCRIPT))


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
    if not isinstance(config, dict) or (config.get("apiVersion"), config.get("kind")) != (_API, "NodeConfig"):
        raise NeverJoins(f"nodeadm knows no such configuration: it must be a NodeConfig of {_API}")
    return config.get("spec") or {}


def _merge(first: Any, second: Any, *path: str) -> Any:
    """Merge as nodeadm does: maps in depth, flags one after another, of all else the later.

    Source: https://github.com/awslabs/amazon-eks-ami/blob/main/nodeadm/internal/api/merge.go
    """
    if isinstance(first, dict) and isinstance(second, dict):
        both = {key: _merge(first[key], second[key], *path, key) for key in first.keys() & second.keys()}
        return first | second | both
    if path == ("kubelet", "flags"):
        return [*first, *second]
    return second


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
        return [taint(each) for each in flags["register-with-taints"][-1].split(",") if each]
    return [_taint_of_file(each) for each in config.get("registerWithTaints") or ()]


def _taint_of_file(written: Mapping[str, Any]) -> dict[str, str]:
    return taint(f"{written.get('key', '')}={written.get('value') or ''}:{written.get('effect', '')}")
