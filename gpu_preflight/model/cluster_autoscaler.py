"""Cluster Autoscaler: which groups it is configured to scale, and which taints it treats as permanent.

Sources: kubernetes/autoscaler cluster-autoscaler-1.36.1 cluster-autoscaler/cloudprovider/aws/auto_scaling_groups.go,
aws_manager.go ``buildNodeFromTemplate``, and cluster-autoscaler/utils/taints/taints.go ``SanitizeTaints``;
https://karpenter.sh/docs/concepts/nodepools/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from gpu_facts.cluster_autoscaler_flags import STARTUP_TAINTS as PREFIXES
from gpu_facts.labels import TAINT_TAG
from gpu_facts.light import dataclass, regex
from gpu_facts.storage import INSTALLED_BY, STARTUP_TAINTS
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.software import Autoscaler
from gpu_preflight.model.taints import Taint, node_group_taints
from gpu_preflight.reading.unknown import Unknown, is_expression, known_number, known_text, mappings

DISCOVERY = "node-group-auto-discovery"
EXPLICIT = "nodes"
_TAGS = regex(r"(?:^|\s)asg:tag=(\S+)")
_BLANK = regex(r"<[^<>]*>")
# EKS names the Auto Scaling group of a managed node group eks-<node group>-<uuid>.
_OF_EKS = "eks-"
# Charts and add-ons that remove a taint, by its key.
REMOVERS: Final[Mapping[str, tuple[str, ...]]] = {
    "node.cilium.io/agent-not-ready": ("cilium",),
    **{key: (INSTALLED_BY[driver],) for driver, key in STARTUP_TAINTS.items()},
}
# Kubernetes removes these taints when a node is ready. Cluster Autoscaler ignores them by default.
# Sources: kubernetes/kubernetes v1.36.3 pkg/controller/nodelifecycle/node_lifecycle_controller.go
# ``taintKeyToNodeConditionMap``, kubernetes/cloud-provider v0.36.3 controllers/node/node_controller.go,
# kubernetes/autoscaler @0af55ac cluster-autoscaler/utils/taints/taints.go ``NodeConditionTaints`` (2026-11)
_OF_CONDITIONS: Final = frozenset(
    (f"node.kubernetes.io/{name}", effect)
    for effect, names in (
        (
            "NoSchedule",
            (
                "disk-pressure",
                "memory-pressure",
                "network-unavailable",
                "not-ready",
                "pid-pressure",
                "unreachable",
                "unschedulable",
            ),
        ),
        ("NoExecute", ("not-ready", "unreachable")),
    )
    for name in names
)
_UNINITIALIZED: Final = "node.cloudprovider.kubernetes.io/uninitialized"
_BY_KEY = ("startup-taint", "ignore-taint")
_BY_PREFIX = "startup-taint-prefix"


@dataclass(frozen=True, slots=True)
class Named:
    """A group that a flag names.

    Attributes:
        name: Name of the Auto Scaling group.
        most: Max number of nodes according to the flag; ``None`` if it isn't known.
    """

    name: str
    most: int | None


def discovery_tags(autoscaler: Autoscaler) -> list[dict[str, str]]:
    """Return the tags that each discovery flag requires."""
    # A placeholder such as <your cluster> isn't a tag.
    written = _BLANK.sub("${}", str(autoscaler.flags.get(DISCOVERY) or ""))
    specs = _TAGS.findall(written)
    return [dict(pair.partition("=")[::2] for pair in each.split(",") if pair) for each in specs]


def named_groups(autoscaler: Autoscaler) -> list[Named]:
    """Return the groups that ``--nodes=<min>:<max>:<name>`` names."""
    parts = [each.split(":", 2) for each in str(autoscaler.flags.get(EXPLICIT) or "").split()]
    return [Named(each[2], known_number(each[1])) for each in parts if len(each) == 3]


def is_named(pool: Pool, named: Iterable[Named]) -> bool | None:
    """Whether a flag names a group; ``None`` if the group's name is known at deployment only."""
    if pool.kind == "managed":
        return None if any(is_expression(each.name) or each.name.startswith(_OF_EKS) for each in named) else False
    name = pool.properties.get("AutoScalingGroupName")
    if known_text(name) is not None:
        return True if any(each.name == name for each in named) else _may_be(named)
    own = pool.resource.ref() if pool.resource else None
    same = any(each.name in (str(name), str(own)) for each in named if name is not None or own is not None)
    return True if same else None


def _may_be(named: Iterable[Named]) -> bool | None:
    return None if any(is_expression(each.name) for each in named) else False


def bounded(pools: Iterable[Pool], autoscalers: Iterable[Autoscaler]) -> tuple[Pool, ...]:
    """Return pools with the max number of nodes of their flags, if it is lower than the max of the group."""
    named = [one for each in autoscalers if each.kind == "cluster-autoscaler" for one in named_groups(each)]
    return tuple(_bounded(each, named) for each in pools)


def _bounded(pool: Pool, named: list[Named]) -> Pool:
    if pool.kind != "self-managed" or not named:
        return pool
    names = (pool.properties.get("AutoScalingGroupName"), str(pool.resource.ref()) if pool.resource else None)
    most = [
        one.most
        for one in named
        if one.most is not None and one.name in [_format_value(each) for each in names if each]
    ]
    return replace(pool, max_nodes=min(most + ([] if pool.max_nodes is None else [pool.max_nodes]))) if most else pool


def _format_value(value: object) -> str:
    return value.expression if isinstance(value, Unknown) else str(value)


@dataclass(frozen=True, slots=True)
class _StartupTaintFlags:
    """Startup taints in the flags of Cluster Autoscaler.

    Attributes:
        keys: Their keys.
        prefixes: Prefixes of their keys.
        is_open: Whether deployment may add more.
    """

    keys: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = PREFIXES
    is_open: bool = False

    @classmethod
    def from_autoscaler(cls, autoscaler: Autoscaler) -> _StartupTaintFlags:
        """Return the startup taints in the flags of an autoscaler."""
        keys = [each for flag in _BY_KEY for each in _words(autoscaler.flags.get(flag))]
        prefixes = _words(autoscaler.flags.get(_BY_PREFIX))
        return cls(frozenset(keys), (*PREFIXES, *prefixes), any(map(is_expression, (*keys, *prefixes))))

    def names(self, key: str) -> bool:
        """Whether the flags name a key."""
        return key in self.keys or key.startswith(self.prefixes)


def goes_by_itself(taint: Taint) -> bool:
    """Whether Kubernetes itself removes a taint when the node is ready."""
    return taint.key == _UNINITIALIZED or (taint.key, taint.effect) in _OF_CONDITIONS


def with_startup_taints(pools: Iterable[Pool], autoscalers: Iterable[Autoscaler]) -> tuple[Pool, ...]:
    """Return pools with their permanent taints separated from their startup taints."""
    found = next((each for each in autoscalers if each.kind == "cluster-autoscaler"), None)
    return tuple(_split_group_taints(each, found) if each.is_group else _split_node_pool_taints(each) for each in pools)


def _split_group_taints(pool: Pool, autoscaler: Autoscaler | None) -> Pool:
    flags = _StartupTaintFlags.from_autoscaler(autoscaler) if autoscaler is not None else _StartupTaintFlags()
    startup = tuple(each for each in pool.taints if _goes(each) or flags.names(each.key))
    seen = autoscaler is not None and not flags.is_open
    unlisted = (each for each in startup if seen and not flags.names(each.key) and not goes_by_itself(each))
    mistaken = tuple(each for each in unlisted if _is_described(each, pool))
    return _split(pool, startup, mistaken)


def _is_described(taint: Taint, pool: Pool) -> bool:
    """Whether Cluster Autoscaler sees a taint of an empty group: in the node group or in its tags."""
    if pool.kind == "managed":
        # It ignores a taint without a value.
        return taint in node_group_taints(pool.properties) and not taint.written_without_value
    return any(str(each.get("Key")) == f"{TAINT_TAG}{taint.key}" for each in mappings(pool.properties.get("Tags")))


def _split_node_pool_taints(pool: Pool) -> Pool:
    startup = tuple(filter(_goes, pool.taints))
    return _split(pool, startup, startup)


def _goes(taint: Taint) -> bool:
    return taint.key in REMOVERS or goes_by_itself(taint)


def _split(pool: Pool, startup: tuple[Taint, ...], mistaken: tuple[Taint, ...]) -> Pool:
    if not startup:
        return pool
    lasting = tuple(each for each in pool.taints if each not in startup)
    return replace(pool, taints=lasting, startup_taints=(*pool.startup_taints, *startup), mistaken_taints=mistaken)


def _words(value: object) -> list[str]:
    listed = value if isinstance(value, list) else [] if value is None else [value]
    return [word for each in listed for word in str(each).split()]
