"""Fields of a ClusterConfig that eksctl does not know: it refuses the config, or leaves out one in another case.

Source: eksctl-io/eksctl 99984adb6 pkg/eks/api.go (2026-08-21)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gpu_constructs.facts.software.eksctl_fields import CLUSTER_CONFIG, MANAGED_NODE_GROUP, NODE_GROUP
from gpu_constructs.preflight.reading.objects import Object
from gpu_constructs.preflight.reading.unknown import items, mapping
from gpu_constructs.preflight.schema.fault import Fault
from gpu_constructs.refusals import near

_GROUPS = {"managedNodeGroups": MANAGED_NODE_GROUP, "nodeGroups": NODE_GROUP}


def config_faults(each: Object) -> Iterator[Fault]:
    """Yield the fields of a ClusterConfig, and of its node groups, that eksctl does not know."""
    if each.kind != "ClusterConfig" or each.group != "eksctl.io":
        return
    yield from _unknown("", each.content, CLUSTER_CONFIG)
    for name, known in _GROUPS.items():
        for number, group in enumerate(items(each.content.get(name))):
            yield from _unknown(f"{name}[{number}].", mapping(group), known)


def _unknown(path: str, written: Iterable[Any], known: Iterable[str]) -> Iterator[Fault]:
    for name in (each for each in written if each not in known):
        nearest = near(str(name), known)
        yield Fault("unknown", f"{path}{name}", "is no field that eksctl has", nearest=nearest, newer=nearest is None)
