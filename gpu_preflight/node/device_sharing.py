"""Under which resources, and how often, a device manager offers the GPUs of a node.

Sources: NVIDIA/k8s-device-plugin v0.20.0 api/config/v1/,
https://bottlerocket.dev/en/os/1.64.x/api/settings/kubelet-device-plugins/
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from gpu_facts.hardware.mig import BOTTLEROCKET_NAMES, PROFILES
from gpu_facts.light_dataclasses import dataclass
from gpu_facts.resources import GPU, SHARED, SHARED_GPU
from gpu_preflight.model.software import MissingConfig
from gpu_preflight.reading.unknown import Unknown, dig, is_true, known_number, known_text, mapping, mappings

_BOTTLEROCKET_PLUGIN = ("kubelet-device-plugins", "nvidia")
_BOTTLEROCKET_REPLICAS = 2


@dataclass(frozen=True, slots=True)
class Offer:
    """How GPUs are offered.

    Attributes:
        multiples: How many of each resource there are for one GPU.
        slices: Whether MIG slices are offered under names of their own.
        uniform: Whether MIG slices are offered under the name of the whole GPU, on nodes whose GPUs are partitioned.
        alone: Whether a pod that asks for more than one is turned away by kubelet.
        known: Whether the configuration could be read.
    """

    multiples: Mapping[str, int] = field(default_factory=lambda: {GPU: 1})
    slices: bool = False
    uniform: bool = False
    alone: bool = False
    known: bool = True


WHOLE = Offer()
NOT_KNOWN = Offer(known=False)


def plugin_offer(config: Any) -> Offer:
    """Return what NVIDIA's device plugin offers with a configuration; ``None`` is its default."""
    if config is None:
        return WHOLE
    if isinstance(config, MissingConfig):
        return Offer({})
    if isinstance(config, Unknown) or not isinstance(config, dict):
        return NOT_KNOWN
    strategy = dig(config, "flags", "migStrategy") or "none"
    if isinstance(strategy, Unknown):
        return NOT_KNOWN
    for way in ("timeSlicing", "mps"):
        sharing = mapping(dig(config, "sharing", way))
        if sharing:
            return _shared(sharing, way, strategy)
    return Offer(slices=strategy == "mixed", uniform=strategy == "single")


def _shared(sharing: Mapping[str, Any], way: str, strategy: str) -> Offer:
    multiples = {}
    for each in mappings(sharing.get("resources")):
        name, replicas = known_text(each.get("name")), known_number(each.get("replicas"))
        if name is None or replicas is None:
            return NOT_KNOWN
        renamed = known_text(each.get("rename")) or (name + SHARED if is_true(sharing.get("renameByDefault")) else name)
        multiples[renamed] = replicas
    # MPS turns away more than one share whatever the configuration says.
    alone = way == "mps" or is_true(sharing.get("failRequestsGreaterThanOne"))
    mixed, single = strategy == "mixed", strategy == "single"
    return Offer(multiples or {GPU: 1}, slices=mixed, uniform=single, alone=alone)


def bottlerocket_is_off(settings: Mapping[str, Any]) -> bool:
    """Whether Bottlerocket's own plugin is switched off."""
    return dig(settings, *_BOTTLEROCKET_PLUGIN, "enabled") is False


def bottlerocket_offer(settings: Mapping[str, Any], family: str) -> Offer:
    """Return what Bottlerocket's own plugin offers on an instance family where it is switched on."""
    plugin = mapping(dig(settings, *_BOTTLEROCKET_PLUGIN))
    way = plugin.get("device-sharing-strategy")
    if plugin.get("device-partitioning-strategy") == "mig":
        return _bottlerocket_slices(plugin, family)
    if way not in ("time-slicing", "mps"):
        return WHOLE
    sharing = mapping(plugin.get(way))
    replicas = known_number(sharing.get("replicas", _BOTTLEROCKET_REPLICAS))
    if replicas is None:
        return NOT_KNOWN
    # Bottlerocket renames unless told otherwise.
    renamed = sharing.get("rename-by-default") is not False
    alone = way == "mps" or sharing.get("fail-requests-greater-than-one") is not False
    return Offer({SHARED_GPU if renamed else GPU: replicas}, alone=alone)


def _bottlerocket_slices(plugin: Mapping[str, Any], family: str) -> Offer:
    """Slices keep the name of the whole GPU: Bottlerocket has only the strategy "single"."""
    profile = dig(plugin, "mig", "profile", BOTTLEROCKET_NAMES.get(family, ""))
    slices = PROFILES.get(family, {}).get(profile) if isinstance(profile, str) else None
    return Offer({GPU: slices}) if slices else NOT_KNOWN
