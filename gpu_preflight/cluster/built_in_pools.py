"""The NodePools that EKS Auto Mode creates, which are not in the input.

Assumption: the requirements come from public copies of both objects (2026-11-23). The AWS page wasn't read.
Source: https://docs.aws.amazon.com/eks/latest/userguide/set-builtin-node-pools.html
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpu_facts.labels import ARCH, CAPACITY_TYPE, EKS_DOMAIN, OS
from gpu_preflight.cluster.pools import node_pool
from gpu_preflight.cluster.references import setting
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import Unknown, is_true, items

_ARCHITECTURES = {"system": ("amd64", "arm64"), "general-purpose": ("amd64",)}
_CRITICAL = {"key": "CriticalAddonsOnly", "effect": "NoSchedule"}


def built_in_pools(cluster: Cluster) -> tuple[Pool, ...]:
    """Return the built-in pools of a cluster; all of them if only deployment sets which."""
    enabled = setting(cluster, "ComputeConfig", "Enabled")
    if cluster.resource is None or not (is_true(enabled) or isinstance(enabled, Unknown)):
        return ()
    written = setting(cluster, "ComputeConfig", "NodePools")
    names = [name for name in _ARCHITECTURES if isinstance(written, Unknown) or _may_name(items(written), name)]
    return tuple(node_pool(_manifest(name, cluster.resource.origin), (), {}) for name in names)


def has_unknown_built_in_pools(cluster: Cluster) -> bool:
    """Whether only deployment sets which built-in pools a cluster has."""
    written = setting(cluster, "ComputeConfig", "NodePools")
    settings = (setting(cluster, "ComputeConfig", "Enabled"), written, *items(written))
    return any(isinstance(each, Unknown) for each in settings)


def _may_name(names: Sequence[Any], name: str) -> bool:
    return any(each == name or isinstance(each, Unknown) for each in names)


def _manifest(name: str, origin: Origin) -> Object:
    requirements = {
        CAPACITY_TYPE: ("In", ["on-demand"]),
        f"{EKS_DOMAIN}/instance-category": ("In", ["c", "m", "r"]),
        f"{EKS_DOMAIN}/instance-generation": ("Gt", ["4"]),
        ARCH: ("In", list(_ARCHITECTURES[name])),
        OS: ("In", ["linux"]),
    }
    spec = {
        "nodeClassRef": {"group": EKS_DOMAIN, "kind": "NodeClass", "name": "default"},
        "requirements": [
            {"key": key, "operator": operator, "values": values} for key, (operator, values) in requirements.items()
        ],
        **({"taints": [_CRITICAL]} if name == "system" else {}),
    }
    content = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {"spec": spec}},
    }
    return Object(content, origin)
