"""What becomes of GPU nodes when a cluster is moved out of an Availability Zone."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.charts import KARPENTER
from gpu_preflight.case import Case
from gpu_preflight.cluster.references import setting
from gpu_preflight.cluster.subnets import are_apart, spans_zones
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.node.karpenter_options import option
from gpu_preflight.node.nodes import gpu_types, minor
from gpu_preflight.reading.unknown import is_true, known_text
from gpu_preflight.rules.rule import Problem, rule

# Source: aws/karpenter-provider-aws v1.12.0, which brought the setting
_KARPENTER_KNOWS_IT = (1, 12)


@rule("GPU445", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/zone-shift.html")
def zonal_shift_over_gpu_nodes_of_one_zone(case: Case) -> Iterator[Problem]:
    """Zonal shift over GPU nodes of one zone.

    A shift away from that zone, which AWS may start by itself, takes its nodes out of scheduling and out of every
    Service; no other zone has such GPUs.

    Fix: Give the types a pool in another zone, or set ZonalShiftConfig.Enabled to false.
    """
    if not _shifts(case.cluster):
        return
    for pool in case.gpu_pools:
        if spans_zones(pool) is Answer.NO and not any(_stands_in(each, pool) for each in case.gpu_pools):
            zone = known_text(pool.zones[0]) or "one zone"
            yield Problem.of(
                pool, f"its nodes are all in {zone}, and a zonal shift leaves them without pods and traffic"
            )


def _shifts(cluster: Cluster) -> bool:
    return is_true(setting(cluster, "ZonalShiftConfig", "Enabled"))


def _stands_in(other: Pool, pool: Pool) -> bool:
    """Whether another pool has, or may have, the same instance types in another zone."""
    types = set(gpu_types(pool))
    alike = not types or bool(types & set(gpu_types(other))) or other.undecided
    return other is not pool and alike and are_apart((*pool.zones, *other.zones)) is not Answer.NO


@rule("GPU446", "warning", source="https://karpenter.sh/docs/reference/settings/")
def karpenter_that_is_not_told_of_zonal_shift(case: Case) -> Iterator[Problem]:
    """Karpenter that is not told of zonal shift.

    It goes on to launch nodes in the zone that the cluster was moved out of, where they get no pods.

    Fix: Set settings.enableZonalShift of the chart to true; the controller may need arc-zonal-shift:GetManagedResource.
    """
    chart = case.cluster.chart(KARPENTER)
    if chart is None or not _shifts(case.cluster) or not chart.version or minor(chart.version) < _KARPENTER_KNOWS_IT:
        return
    if option(case.cluster, "enableZonalShift") in (None, False, "false"):
        yield Problem(chart, f"Karpenter {chart.version} does not ask whether the cluster is shifted out of a zone")
