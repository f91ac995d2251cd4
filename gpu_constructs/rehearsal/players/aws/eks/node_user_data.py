"""User data of a managed node: what the group's template says, and what EKS adds so that it joins.

Sources: https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html#launch-template-user-data,
https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/, https://bottlerocket.dev/en/os/latest/api/settings/kubernetes/
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email import message_from_string
from email.message import Message
from email.mime.multipart import MIMEMultipart
from email.mime.nonmultipart import MIMENonMultipart
from typing import Any

import yaml

from gpu_constructs.rehearsal.players.aws.api.refusals import AwsRefusal

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

NODE_CONFIG = "application/node.eks.aws"


@dataclass(frozen=True, kw_only=True, slots=True)
class Membership:
    """As what a node joins which cluster.

    Attributes:
        cluster: Name of the cluster.
        endpoint: Where its API is.
        certificate_authority: Base64 of the PEM.
        service_cidr: Addresses of services.
        dns_ip: Address of the cluster's DNS.
        max_pods: Most pods of the node.
        labels: Labels that its kubelet gives it.
        taints: Key, value and effect of each taint.
    """

    cluster: str
    endpoint: str
    certificate_authority: str
    service_cidr: str
    dns_ip: str
    max_pods: int
    labels: Mapping[str, str]
    taints: tuple[tuple[str, str, str], ...]


def nodeadm(own: str, membership: Membership) -> str:
    """Return user data of AL2023: EKS's NodeConfig, then the parts of the template, which nodeadm merges over it.

    Source: https://github.com/awslabs/amazon-eks-ami/issues/1988 (a template that EKS made, 2024-10)

    Args:
        own: User data of the template; empty when it has none.
        membership: What EKS knows.

    Raises:
        AwsRefusal: The template's is not in MIME multi-part format.
    """
    merged = MIMEMultipart(boundary="//")
    merged.attach(_part(NODE_CONFIG, yaml.safe_dump(_node_config(membership), sort_keys=False)))
    for part in _parts(own):
        merged.attach(part)
    return merged.as_string()


def bottlerocket(own: str, membership: Membership) -> str:
    """Return user data of Bottlerocket: the template's settings, and EKS's over them.

    Args:
        own: User data of the template; empty when it has none.
        membership: What EKS knows.

    Raises:
        AwsRefusal: The template's is no TOML.
    """
    try:
        settings = tomllib.loads(own)
    except tomllib.TOMLDecodeError as error:
        raise AwsRefusal(
            "Ec2LaunchTemplateInvalidConfiguration", f"User data was not in the TOML format: {error}"
        ) from error
    taints: dict[str, list[str]] = {}
    for key, value, effect in membership.taints:
        taints.setdefault(key, []).append(f"{value}:{effect}")
    joins = {
        "cluster-name": membership.cluster,
        "api-server": membership.endpoint,
        "cluster-certificate": membership.certificate_authority,
        "cluster-dns-ip": membership.dns_ip,
        "node-labels": dict(membership.labels),
    } | ({"node-taints": taints} if taints else {})
    defaults = {"settings": {"kubernetes": {"max-pods": membership.max_pods}}}
    return "\n".join(_toml(_merged(_merged(defaults, settings), {"settings": {"kubernetes": joins}}))) + "\n"


def _node_config(membership: Membership) -> dict[str, Any]:
    labels = ",".join(f"{key}={value}" for key, value in membership.labels.items())
    taints = ",".join(f"{key}={value}:{effect}" for key, value, effect in membership.taints)
    flags = [f"--node-labels={labels}"] + ([f"--register-with-taints={taints}"] if taints else [])
    cluster = {
        "name": membership.cluster,
        "apiServerEndpoint": membership.endpoint,
        "certificateAuthority": membership.certificate_authority,
        "cidr": membership.service_cidr,
    }
    config = {"maxPods": membership.max_pods, "clusterDNS": [membership.dns_ip]}
    spec = {"cluster": cluster, "kubelet": {"config": config, "flags": flags}}
    return {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}


def _part(kind: str, text: str) -> Message:
    main, _, sub = kind.partition("/")
    part = MIMENonMultipart(main, sub)
    part.set_payload(text)
    return part


def _parts(own: str) -> Iterator[Message]:
    if not own.strip():
        return
    message = message_from_string(own)
    if not message.is_multipart():
        raise AwsRefusal("Ec2LaunchTemplateInvalidConfiguration", "User data was not in the MIME multipart format.")
    yield from (part for part in message.walk() if not part.is_multipart())


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merged(merged[key], value) if both else value
    return merged


def _toml(value: Mapping[str, Any], *path: str) -> Iterator[str]:
    """Yield one line for each value, under the dotted key of where it stands."""
    for key, one in value.items():
        here = (*path, json.dumps(key))
        if isinstance(one, Mapping):
            yield from _toml(one, *here)
        else:
            yield f"{'.'.join(here)} = {_toml_value(one)}"


def _toml_value(value: Any) -> str:
    """Write a value: strings, numbers, booleans and lists are in TOML as in JSON, tables within lists are not."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml_value(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml_value(one) for one in value) + "]"
    return json.dumps(value)
