"""Every rule, by id. A rule lives in the module of its family; `docs/rules.md` is written from here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType

from gpu_constructs.preflight.rules.rule import Rule

FAMILIES = (
    "advertising",
    "capacity",
    "claims",
    "gpu_requests",
    "held_pods",
    "images",
    "instance_types",
    "launch_templates",
    "network_interfaces",
    "node_groups",
    "pending_pods",
    "placement",
    "pod_zones",
    "reservations",
    "volumes",
)


@cache
def rules() -> Mapping[str, Rule]:
    """Return every rule by id."""
    modules = (import_module(f"{__name__}.{family}") for family in FAMILIES)
    found = [rule for module in modules for rule in module.RULES]
    return MappingProxyType({rule.id: rule for rule in sorted(found, key=lambda each: each.id)})
