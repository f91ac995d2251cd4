"""The user data that eksctl gives the nodes of a group.

Source: eksctl-io/eksctl 99984adb6 pkg/nodebootstrap (al2023.go, bottlerocket.go, userdata.go) (2026-08-21)
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gpu_preflight.reading.eksctl.groups import BOTTLEROCKET, family_of, labels_of, taints_of
from gpu_preflight.reading.eksctl.resources import metadata
from gpu_preflight.reading.embedded import parse_embedded
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, items, mapping

_BOUNDARY = "//"
_NODE_CONFIG = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig"}
# What eksctl asks EKS for once the cluster is there.
_ENDPOINT, _AUTHORITY, _RANGE = "Endpoint", "CertificateAuthorityData", "KubernetesNetworkConfig.ServiceIpv4Cidr"


def user_data(config: Object, group: dict[str, Any], *, joins_by_itself: bool) -> Any:
    """Return user data as a launch template has it, ``None`` without any.

    Args:
        config: The ClusterConfig.
        group: The group.
        joins_by_itself: Whether nobody but eksctl tells the nodes which cluster to join.
    """
    if str(family_of(group)).startswith(BOTTLEROCKET):
        text = _toml(config, group, joins_by_itself)
    else:
        text = _mime(config, group, joins_by_itself)
    return {"Fn::Base64": Unknown(text)} if text else None


def _mime(config: Object, group: dict[str, Any], joins_by_itself: bool) -> str:
    scripts = [f"#!/bin/bash\n{each}" for each in items(group.get("preBootstrapCommands"))]
    configs = [{**_NODE_CONFIG, "spec": each} for each in _node_configs(config, group, joins_by_itself)]
    override = parse_embedded(config.origin.file, group.get("overrideBootstrapCommand"))
    configs += [override] if isinstance(override, dict) else []
    parts = [("text/x-shellscript", each) for each in scripts]
    parts += [("application/node.eks.aws", json.dumps(each, default=str)) for each in configs]
    if not parts:
        return ""
    body = "".join(f"--{_BOUNDARY}\nContent-Type: {kind}\n\n{text}\n" for kind, text in parts)
    return f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{_BOUNDARY}"\n\n{body}--{_BOUNDARY}--\n'


def _node_configs(config: Object, group: dict[str, Any], joins_by_itself: bool) -> Iterator[dict[str, Any]]:
    if joins_by_itself:
        flags = [f"--node-labels={','.join(f'{key}={value}' for key, value in labels_of(config, group).items())}"]
        taints = ",".join(map(_flag, taints_of(group)))
        yield {
            "cluster": {
                "name": metadata(config).get("name"),
                "apiServerEndpoint": _of_cluster(config, _ENDPOINT),
                "certificateAuthority": _of_cluster(config, _AUTHORITY),
                "cidr": _of_cluster(config, _RANGE),
            },
            "kubelet": {
                "flags": [*flags, *([f"--register-with-taints={taints}"] if taints else [])],
                "config": mapping(group.get("kubeletExtraConfig")),
            },
        }
    if group.get("maxPodsPerNode"):
        yield {"kubelet": {"config": {"maxPods": group["maxPodsPerNode"]}}}


def _of_cluster(config: Object, attribute: str) -> str:
    return f"${{{config.name}/Cluster.{attribute}}}"


def _flag(taint: dict[str, Any]) -> str:
    return f"{taint.get('key')}={taint.get('value') or ''}:{taint.get('effect')}"


def _toml(config: Object, group: dict[str, Any], joins_by_itself: bool) -> str:
    settings = mapping(dig(group, "bottlerocket", "settings"))
    taints = {str(each.get("key")): f"{each.get('value') or ''}:{each.get('effect')}" for each in taints_of(group)}
    cluster = {"cluster-name": metadata(config).get("name")}
    if joins_by_itself:
        cluster["api-server"] = _of_cluster(config, _ENDPOINT)
        cluster["cluster-certificate"] = _of_cluster(config, _AUTHORITY)
    written = {**mapping(settings.get("kubernetes")), "node-labels": labels_of(config, group), "node-taints": taints}
    if group.get("maxPodsPerNode"):
        written["max-pods"] = group["maxPodsPerNode"]
    return "\n".join(_lines(("settings",), {**settings, "kubernetes": {**written, **cluster}}))


def _lines(path: tuple[str, ...], value: Any) -> Iterator[str]:
    """Yield a setting a line, each key in quotes, since those of Kubernetes have dots."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _lines((*path, str(key)), each)
    elif value is not None:
        yield f"{'.'.join(json.dumps(each) for each in path)} = {json.dumps(value, default=str)}"
