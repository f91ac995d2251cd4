"""Into which slices the GPUs of a node are cut: by user data, by settings of Bottlerocket, or as a label says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from gpu_facts.charts import GPU_OPERATOR
from gpu_facts.hardware.catalogue import InstanceType
from gpu_facts.hardware.mig import PROFILES
from gpu_facts.labels import MIG_CONFIG
from gpu_facts.light_patterns import regex
from gpu_facts.resources import MIG
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.label_values import LabelValues
from gpu_preflight.node.daemon_reach import Reached
from gpu_preflight.reading.unknown import Unknown, dig, mapping

# What cuts the GPUs of a node as its label MIG_CONFIG says.
# Source: NVIDIA/gpu-operator v26.7.0 assets/state-mig-manager (2026-11)
_MANAGER = "mig-manager"
_EVERY_GPU = "all-"
_DISABLED = "all-disabled"
_PROFILE = regex(r"[0-9]g\.[0-9]{1,4}gb")
_MADE_BY_SCRIPT = regex(r"nvidia-smi\s{1,9}mig\b[^\n;|&]{0,200}?-cgi\s{1,9}([0-9a-z.,+]{1,400})")


def label_of(pool: Pool, key: str) -> str | None:
    """Return the value of a label that every node of a pool has; ``None`` where there is none, or no single one."""
    value = pool.labels.get(key)
    return value.only if isinstance(value, LabelValues) else None


def of_bottlerocket(pool: Pool) -> Mapping[str, Any]:
    """Return the settings of Bottlerocket's device plugin, where they cut GPUs."""
    plugin = mapping(dig(pool.user_data.settings, "kubelet-device-plugins", "nvidia"))
    return plugin if plugin.get("device-partitioning-strategy") == "mig" else {}


def by_script(pool: Pool) -> Counter[str] | None:
    """Return the instances that user data makes on each GPU, ``None`` when it makes none."""
    found = next((hit for each in pool.user_data.scripts if (hit := _MADE_BY_SCRIPT.search(each))), None)
    return Counter(found.group(1).split(",")) if found else None


def is_partitioned(pool: Pool) -> bool:
    """Whether something is to cut the GPUs of a pool."""
    named = label_of(pool, MIG_CONFIG)
    return bool(of_bottlerocket(pool) or by_script(pool) or (named and named != _DISABLED))


def has_own_geometries(cluster: Cluster) -> bool:
    """Whether the GPU Operator is told of geometries beside those of its chart."""
    chart = cluster.chart(GPU_OPERATOR)
    return chart is not None and dig(chart.values, "migManager", "config") is not None


def slices(pool: Pool, row: InstanceType, cluster: Cluster, running: Reached) -> Mapping[str, int] | None:
    """Return how many slices a node has, by resource; nothing of whole GPUs, ``None`` where it is not known.

    Args:
        pool: The pool.
        row: The row of its instance type.
        cluster: The cluster.
        running: Its DaemonSets, and whether they reach the node.
    """
    if not row.mig or not (is_partitioned(pool) or isinstance(pool.labels.get(MIG_CONFIG), Unknown)):
        return {}
    if by_script(pool):
        return None
    answers = {answer for each, answer in running if _MANAGER in each.name}
    if answers <= {Answer.NO} and cluster.sees_programs:
        return {}
    profile = (label_of(pool, MIG_CONFIG) or "").removeprefix(_EVERY_GPU)
    count = PROFILES.get(row.family, {}).get(profile) if _PROFILE.fullmatch(profile) else None
    told = Answer.YES in answers and not has_own_geometries(cluster)
    return {f"{MIG}{profile}": count * row.gpus} if told and count else None
