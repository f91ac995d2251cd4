"""Why there are too few replicas: the autoscaler of pods has no metric, or is at its max.

Source: kubernetes/kubernetes v1.36.2 pkg/controller/podautoscaler/horizontal.go for the conditions (read 2026-11)
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_preflight.doctor.cause import Cause
from gpu_preflight.doctor.live import Live, Target
from gpu_preflight.reading.objects import Object


def find(live: Live, target: Target) -> Iterator[Cause]:
    """Yield why an autoscaler keeps an owner at too few pods."""
    if target.pod is not None:
        return
    for owner in target.owners:
        for scaler in live.objects("HorizontalPodAutoscaler", owner.namespace):
            if live.limits_owner(scaler, owner):
                yield from _scaler_causes(live, scaler, owner)


def _scaler_causes(live: Live, scaler: Object, owner: Object) -> Iterator[Cause]:
    active, limited = live.condition(scaler, "ScalingActive"), live.condition(scaler, "ScalingLimited")
    if active is not None and active.status == "False":
        text = f"{scaler.title} can't read the metric that scales {owner.title}: {active.message}"
        fix = "check the adapter that serves the metric: kubectl get apiservices, then its pods"
        yield Cause("H-1", scaler.title, text, "proven", (live.condition_evidence(scaler, active),), fix)
    elif limited is not None:
        most = scaler.spec.get("maxReplicas")
        text = f"{scaler.title} keeps {owner.title} at its max of {most} replicas"
        yield Cause(
            "H-2", scaler.title, text, "proven", (live.condition_evidence(scaler, limited),), "raise maxReplicas"
        )
