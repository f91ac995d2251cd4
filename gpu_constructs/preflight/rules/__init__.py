"""Every rule, by id. A rule lives in the module of its family; `docs/rules.md` is written from here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType, ModuleType

from gpu_constructs.preflight.rules.rule import OutOfReach, Rule

FAMILIES = (
    "addons",
    "advertising",
    "autoscaler_groups",
    "autoscaler_identity",
    "bootstrap",
    "capacity",
    "claims",
    "cluster_autoscaler",
    "container_runtime",
    "definitions",
    "disruption",
    "efa",
    "exporters",
    "gpu_requests",
    "gpu_software",
    "held_pods",
    "images",
    "instance_types",
    "joining",
    "kai_queues",
    "karpenter_settings",
    "keda_triggers",
    "kueue_queues",
    "launch_habits",
    "launch_templates",
    "lifecycle",
    "network",
    "network_interfaces",
    "node_classes",
    "node_groups",
    "node_labels",
    "node_pool_habits",
    "node_pool_schema",
    "node_pools",
    "pending_pods",
    "placement",
    "pod_habits",
    "pod_scaling",
    "pod_zones",
    "reservations",
    "rightsizing",
    "scaling_signals",
    "sharing",
    "volumes",
    "write_ups",
)


@cache
def rules() -> Mapping[str, Rule]:
    """Return every rule by id."""
    found = [rule for module in _modules() for rule in module.RULES]
    return MappingProxyType({rule.id: rule for rule in sorted(found, key=lambda each: each.id)})


def out_of_reach() -> tuple[OutOfReach, ...]:
    """Return the causes that no template and no manifest shows."""
    return tuple(each for module in _modules() for each in getattr(module, "OUT_OF_REACH", ()))


def covered() -> Mapping[str, tuple[str, ...]]:
    """Return the rules that cover each cause, by the cause's id."""
    found: dict[str, tuple[str, ...]] = {}
    for rule in rules().values():
        for cause in rule.causes:
            found[cause] = (*found.get(cause, ()), rule.id)
    for module in _modules():
        for cause, rule_id in getattr(module, "COVERED", {}).items():
            found[cause] = (*found.get(cause, ()), rule_id)
    return MappingProxyType(found)


def _modules() -> list[ModuleType]:
    return [import_module(f"{__name__}.{family}") for family in FAMILIES]
