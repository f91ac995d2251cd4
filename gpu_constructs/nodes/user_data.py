"""What a node is told at boot, beside what EKS tells it. EKS merges this into its own user data."""

from __future__ import annotations

from email.mime.multipart import MIMEMultipart
from email.mime.nonmultipart import MIMENonMultipart
from functools import cache
from typing import Any

import tomli_w
import yaml

from gpu_constructs.pools.node_shape import EFA_HUGEPAGES, NodeShape

# Fixed, because a random boundary would roll every node at each synth.
_BOUNDARY = "//gpu-constructs//"


def user_data(shape: NodeShape) -> str | None:
    """Return the user data of a managed node, or ``None`` when EKS' own suffices."""
    if shape.operating_system == "bottlerocket":
        settings = (_BOTTLEROCKET_RAID0 if shape.uses_raid0 else {}) | (_BOTTLEROCKET_HUGEPAGES if shape.efa else {})
        return tomli_w.dumps({"settings": settings}) if settings else None
    return _nodeadm_raid0() if shape.uses_raid0 else None


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


@cache
def _nodeadm_raid0() -> str:
    # Without a strategy nodeadm leaves local NVMe unused.
    # Source: https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/#localstorageoptions
    return _mime(
        {
            "apiVersion": "node.eks.aws/v1alpha1",
            "kind": "NodeConfig",
            "spec": {"instance": {"localStorage": {"strategy": "RAID0"}}},
        }
    )


def _mime(node_config: dict[str, Any]) -> str:
    part = MIMENonMultipart("application", "node.eks.aws")
    del part["MIME-Version"]
    part.set_payload(yaml.safe_dump(node_config, sort_keys=False))
    document = MIMEMultipart("mixed", boundary=_BOUNDARY, _subparts=[part])
    return document.as_string()
