"""Settings of Karpenter and of Auto Mode that do not go with the pools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_facts.charts import KARPENTER
from gpu_facts.labels import CAPACITY_TYPE, INSTANCE_TYPE
from gpu_facts.refusals import did_you_mean
from gpu_preflight.case import Case
from gpu_preflight.cluster.references import setting
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.label_values import Labels, LabelValues, exactly
from gpu_preflight.node.gpu_pools import gpu_node_pools
from gpu_preflight.node.karpenter_options import feature_gate
from gpu_preflight.node.nodes import minor
from gpu_preflight.reading.objects import Chart
from gpu_preflight.reading.unknown import items, mapping
from gpu_preflight.rules.rule import Problem, rule

_SETTINGS = "https://karpenter.sh/docs/reference/settings/"
# Source: aws/karpenter-provider-aws v1.14.1 charts/karpenter/values.yaml
_KNOWN = (
    *("batchMaxDuration", "batchIdleDuration", "preferencePolicy", "minValuesPolicy", "clusterCABundle"),
    *("clusterName", "clusterEndpoint", "isolatedVPC", "eksControlPlane", "vmMemoryOverheadPercent"),
    *("interruptionQueue", "enableZonalShift", "reservedENIs", "ignoreDRARequests"),
    *("disableClusterStateObservability", "disableDryRun", "amiRefreshInterval", "subnetRefreshInterval"),
    *("securityGroupRefreshInterval", "instanceProfileRefreshInterval", "featureGates", "dnsPolicy"),
)
_KNOWN_GATES = (
    *("nodeRepair", "nodeOverlay", "reservedCapacity", "spotToSpotConsolidation", "staticCapacity"),
    "capacityBuffer",
)
# Names of older charts, with what they are called now.
_RENAMED = {
    "interruptionQueueName": "interruptionQueue",
    "aws": "settings without aws",
    "featureGates.drift": "nothing, it is always on",
}
_READ = (1, 14)
_BUILT_IN_POOLS = ("system", "general-purpose")


def _chart(cluster: Cluster) -> Chart | None:
    return cluster.chart(KARPENTER)


def _settings(chart: Chart) -> dict[str, Any] | None:
    values = chart.values.get("settings", {})
    return values if isinstance(values, dict) else None


@rule("GPU179", "error", source=f"{_SETTINGS}#feature-gates")
def karpenter_with_a_feature_switched_off_that_a_pool_needs(case: Case) -> Iterator[Problem]:
    """Karpenter with a feature switched off that a pool needs.

    Karpenter ignores the object or the field, and its pods stay Pending.

    Fix: Switch the gate on in settings.featureGates of the chart.
    """
    cluster = case.cluster
    karpenter_pools = [each for each in gpu_node_pools(cluster) if each.kind == "karpenter"]
    overlays = cluster.of_kind("NodeOverlay")
    if overlays and feature_gate(cluster, "nodeOverlay", default=False) is Answer.NO:
        yield Problem(overlays[0], f"NodeOverlay {overlays[0].name}: featureGates.nodeOverlay is off")
    for pool in karpenter_pools:
        if (
            pool.properties.get("replicas") is not None
            and feature_gate(cluster, "staticCapacity", default=False) is Answer.NO
        ):
            yield Problem.of(pool, "has replicas, and featureGates.staticCapacity is off")
        if _wants_reserved(pool) and feature_gate(cluster, "reservedCapacity", default=True) is Answer.NO:
            yield Problem.of(pool, "allows reserved capacity, and its gate is off")


@rule(
    "GPU460", "warning", source="sigs.k8s.io/karpenter 2266468 (2026-08-20) pkg/controllers/nodeoverlay/controller.go"
)
def nodeoverlay_that_another_contradicts(case: Case) -> Iterator[Problem]:
    """NodeOverlay that another contradicts.

    Karpenter marks the one that it comes to second with the condition Conflict and applies it to no node.

    Fix: Give them different weights, the one that is to count the greater, or requirements that no node meets both.
    """
    for each in case.overlays_in_conflict:
        text = (
            f"NodeOverlay {each.overlay.name}: {each.other.name} has the same weight and says {', '.join(each.about)}"
        )
        yield Problem(each.overlay, f"{text} too{_of_type(each.labels)}")


def _of_type(labels: Labels) -> str:
    named = labels.get(INSTANCE_TYPE)
    return f", for instance of {named.only}" if isinstance(named, LabelValues) and named.only else ""


def _wants_reserved(pool: Pool) -> bool:
    return any(each.key == CAPACITY_TYPE and "reserved" in (each.values or ()) for each in pool.requirements)


@rule("GPU185", "warning", source="https://karpenter.sh/docs/concepts/disruption/#interruption")
def spot_gpus_without_interruption_queue(case: Case) -> Iterator[Problem]:
    """Spot GPUs without interruption queue.

    Karpenter then learns of an interruption when the instance is gone, and its pods are killed at once.

    Fix: Make an SQS queue with its EventBridge rules and set settings.interruptionQueue.
    """
    cluster = case.cluster
    chart = _chart(cluster)
    settings = _settings(chart) if chart else None
    if (
        chart is None
        or settings is None
        or settings.get("interruptionQueue")
        or "INTERRUPTION_QUEUE" in str(chart.values)
    ):
        return
    spot = [each.name for each in gpu_node_pools(cluster) if each.kind == "karpenter" and _takes_spot(each)]
    if spot:
        text = f"Karpenter: has no interruption queue, and {', '.join(spot)} may run on spot"
        yield Problem(chart, text)


def _takes_spot(pool: Pool) -> bool:
    wanted = [each for each in pool.requirements if each.key == CAPACITY_TYPE]
    return all(each.met_by({CAPACITY_TYPE: exactly("spot")}) is not Answer.NO for each in wanted)


@rule("GPU197", "warning", source="aws/karpenter-provider-aws v1.14.1 charts/karpenter/values.yaml")
def setting_that_karpenters_chart_does_not_have(case: Case) -> Iterator[Problem]:
    """Setting that Karpenter's chart does not have.

    Helm takes any value, so that the setting is silently off.

    Fix: Correct the name as the message says.
    """
    chart = _chart(case.cluster)
    settings = _settings(chart) if chart else None
    if chart is None or settings is None or chart.version is None:
        return
    read = (1, 0) <= minor(chart.version) <= _READ
    gates = mapping(settings.get("featureGates"))
    found = [(each, _KNOWN) for each in settings] + [(f"featureGates.{each}", _KNOWN_GATES) for each in gates]
    for name, known in found:
        if name in _RENAMED and minor(chart.version) >= (1, 0):
            yield Problem(chart, f"chart karpenter: settings.{name} is gone, it is now {_RENAMED[name]}")
        elif read and (bare := name.rpartition(".")[2]) not in known and (hint := did_you_mean(bare, known)):
            yield Problem(chart, f"chart karpenter: settings.{name} does not exist{hint}")


@rule("GPU195", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/set-builtin-node-pools.html")
def built_in_pool_that_auto_mode_does_not_have(case: Case) -> Iterator[Problem]:
    """Built-in pool that Auto Mode does not have.

    Auto Mode has system and general-purpose only, and neither has GPUs.

    Fix: Correct the name; GPUs need a NodePool of your own.
    """
    cluster = case.cluster
    if cluster.resource is None or not cluster.auto_mode:
        return
    for name in items(setting(cluster, "ComputeConfig", "NodePools")):
        if isinstance(name, str) and name not in _BUILT_IN_POOLS:
            text = f"cluster {cluster.name}: Auto Mode has no built-in pool {name}{did_you_mean(name, _BUILT_IN_POOLS)}"
            yield Problem(next(each for each in cluster.autoscalers if each.kind == "auto-mode"), text)
