"""Every rule, by id. A rule lives in the module of its family; `docs/rules.md` is written from here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType

from gpu_constructs.preflight.rules.rule import Rule

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
)


@cache
def rules() -> Mapping[str, Rule]:
    """Return every rule by id."""
    modules = (import_module(f"{__name__}.{family}") for family in FAMILIES)
    found = [rule for module in modules for rule in module.RULES]
    return MappingProxyType({rule.id: rule for rule in sorted(found, key=lambda each: each.id)})
