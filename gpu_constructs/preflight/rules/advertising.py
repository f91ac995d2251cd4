"""Nodes that have GPUs which nobody, or more than one, advertises."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_constructs.preflight.answer import Answer
from gpu_constructs.preflight.images import has_driver
from gpu_constructs.preflight.model import GPU, Cluster, Pool
from gpu_constructs.preflight.nodes import reaches, sees_software
from gpu_constructs.preflight.rules.rule import Problem, Rule

_DEVICE_MANAGEMENT = "https://docs.aws.amazon.com/eks/latest/userguide/device-management-nvidia.html"
_DRA = "gpu.nvidia.com"


def _built_in(pool: Pool) -> str | None:
    """Return the name of the device manager that a pool's nodes bring along."""
    if pool.kind == "auto-mode":
        return "EKS Auto Mode"
    enabled = pool.user_data.settings.get("kubelet-device-plugins", {}) if pool.user_data.settings else {}
    switched_off = isinstance(enabled, dict) and enabled.get("nvidia", {}).get("enabled") is False
    if pool.operating_system == "bottlerocket" and has_driver(pool) is not Answer.NO and not switched_off:
        return "Bottlerocket"
    return None


def _managers(cluster: Cluster, pool: Pool) -> list[tuple[str, Answer]]:
    found = [(each.name, reaches(each, pool, cluster)) for each in cluster.daemon_sets if GPU in each.advertises]
    built_in = _built_in(pool)
    return [*([(built_in, Answer.YES)] if built_in else []), *found]


def _nobody(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.gpu_pools:
        answers = [answer for _, answer in _managers(cluster, pool)]
        if Answer.YES in answers or cluster.chart("dra-driver-nvidia-gpu"):
            continue
        unknown = Answer.UNKNOWN in answers or not sees_software(cluster)
        if cluster.whole or not unknown:
            message = f"pool {pool.name}: nothing that reaches its nodes advertises {GPU}"
            yield Problem(pool.origin, message, unknown=unknown)


def _two(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.gpu_pools:
        names = [name for name, answer in _managers(cluster, pool) if answer is Answer.YES]
        if len(names) > 1:
            yield Problem(pool.origin, f"pool {pool.name}: {' and '.join(names)} both advertise its GPUs")


RULES = (
    Rule(
        id="GPU010",
        severity="error",
        title="Nothing advertises the GPUs of a pool",
        why="The node joins without nvidia.com/gpu in its allocatable resources; the pod it was for stays Pending.",
        source=_DEVICE_MANAGEMENT,
        fix="Install NVIDIA's device plugin with tolerations and node affinity that reach the pool.",
        causes=("D1", "D2", "D3"),
        check=_nobody,
    ),
    Rule(
        id="GPU011",
        severity="error",
        title="Two device managers on one node",
        why="Both register the same GPUs with kubelet, so pods are given GPUs that others already have.",
        source=_DEVICE_MANAGEMENT,
        fix="Keep one, and keep the other off the pool by node affinity.",
        causes=("D4", "D5"),
        check=_two,
    ),
)
