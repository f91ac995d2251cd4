"""What a node is told at boot, beside what EKS tells it. EKS merges this into its own user data."""

from __future__ import annotations

from email.mime.multipart import MIMEMultipart
from email.mime.nonmultipart import MIMENonMultipart
from functools import cache
from typing import Any

import tomli_w
import yaml

from gpu_constructs.nodes.bootstrap import Membership
from gpu_constructs.pools.node_shape import EFA_HUGEPAGES, NodeShape

# Fixed, because a random boundary would roll every node at each synth.
_BOUNDARY = "//gpu-constructs//"


def user_data(shape: NodeShape) -> str | None:
    """Return the user data of a managed node, or ``None`` when EKS' own suffices."""
    if shape.operating_system == "bottlerocket":
        settings = _bottlerocket_settings(shape)
        return tomli_w.dumps({"settings": settings}) if settings else None
    return _nodeadm_raid0() if shape.uses_raid0 else None


def joining_user_data(shape: NodeShape, pool: str, cluster: Membership) -> str:
    """Return the user data of a node that EKS does not manage: how to join, and as what.

    Sources: https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/, https://bottlerocket.dev/en/os/latest/api/settings/kubernetes/
    """
    labels = shape.node_labels(pool)
    if shape.operating_system == "bottlerocket":
        kubernetes = {
            "cluster-name": cluster.name,
            "api-server": cluster.endpoint,
            "cluster-certificate": cluster.certificate_authority,
            "cluster-dns-ip": cluster.dns_ip,
            "node-labels": labels,
            "node-taints": {taint.key: [f"{taint.value}:{taint.effect}"] for taint in shape.taints},
        }
        return tomli_w.dumps({"settings": _bottlerocket_settings(shape) | {"kubernetes": kubernetes}})
    taints = ",".join(f"{taint.key}={taint.value}:{taint.effect}" for taint in shape.taints)
    flags = [f"--node-labels={','.join(f'{key}={value}' for key, value in labels.items())}"]
    spec: dict[str, Any] = {
        "cluster": {
            "name": cluster.name,
            "apiServerEndpoint": cluster.endpoint,
            "certificateAuthority": cluster.certificate_authority,
            "cidr": cluster.service_cidr,
        },
        "kubelet": {"flags": flags + ([f"--register-with-taints={taints}"] if taints else [])},
    }
    return _node_config(spec | (_NODEADM_RAID0 if shape.uses_raid0 else {}))


def _bottlerocket_settings(shape: NodeShape) -> dict[str, Any]:
    return (_BOTTLEROCKET_RAID0 if shape.uses_raid0 else {}) | (_BOTTLEROCKET_HUGEPAGES if shape.efa else {})


# Bottlerocket 1.22 and newer. The bare key keeps the header free of quotes, which EKS' merger does not read.
# Source: karpenter-provider-aws v1.14.1 pkg/providers/amifamily/bootstrap/bottlerocket.go
_BOTTLEROCKET_RAID0: dict[str, Any] = {
    "bootstrap-commands": {
        "000-mount-instance-storage": {
            "commands": [
                ["apiclient", "ephemeral-storage", "init"],
                [
                    *("apiclient", "ephemeral-storage", "bind", "--dirs"),
                    *("/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"),
                ],
            ],
            "mode": "always",
            "essential": True,
        }
    }
}
_BOTTLEROCKET_HUGEPAGES: dict[str, Any] = {"kernel": {"sysctl": {"vm.nr_hugepages": str(EFA_HUGEPAGES)}}}


# Without a strategy nodeadm leaves local NVMe unused.
_NODEADM_RAID0: dict[str, Any] = {"instance": {"localStorage": {"strategy": "RAID0"}}}


@cache
def _nodeadm_raid0() -> str:
    return _node_config(_NODEADM_RAID0)


def _node_config(spec: dict[str, Any]) -> str:
    return _mime({"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec})


def _mime(node_config: dict[str, Any]) -> str:
    part = MIMENonMultipart("application", "node.eks.aws")
    del part["MIME-Version"]
    part.set_payload(yaml.safe_dump(node_config, sort_keys=False))
    document = MIMEMultipart("mixed", boundary=_BOUNDARY, _subparts=[part])
    return document.as_string()
