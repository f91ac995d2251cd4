"""Unknown and renamed fields of resources and objects.

Fields that a definition demands, and that its controller's webhook fills in before the API server looks.

Webhooks that change an object come before its schema is asked, so that who leaves such a field out is right.

Fields and values that have another name today.

Sources: https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#api-object (v2 of autoscaling),
https://github.com/kubernetes/autoscaler/blob/master/vertical-pod-autoscaler/docs/api.md,
https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta2/, https://karpenter.sh/docs/upgrading/v1-migration/,
https://kubernetes.io/docs/reference/kubernetes-api/ (2026-11)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import Any

from gpu_facts.light import dataclass, regex
from gpu_facts.schemas import EKSCTL, KUBERNETES, Schema, find_schema, find_source
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.objects import Chart, Object
from gpu_preflight.schema import dialect
from gpu_preflight.schema.fault import Fault, is_typo
from gpu_preflight.schema.judge import Judge

# By kind.
# Sources: kubernetes-sigs/jobset 08dfbdfd6 pkg/webhooks/jobset_webhook.go,
# kubernetes-sigs/lws 060ab4da1 pkg/webhooks/leaderworkerset_webhook.go (2026-08)
FILLED_IN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "jobset.x-k8s.io/v1alpha2/JobSet": ("spec.failurePolicy.rules[].name",),
        "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet": ("spec.networkConfig.subdomainPolicy",),
    }
)
_NUMBER = regex(r"\[\d+\]")
# By kind and old name, of a field or a value.
RENAMED: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("HorizontalPodAutoscaler", "metric"): "pods.metric",
        ("HorizontalPodAutoscaler", "metricName"): "metric.name",
        ("HorizontalPodAutoscaler", "metricSelector"): "metric.selector",
        ("HorizontalPodAutoscaler", "targetAverageUtilization"): "target.averageUtilization",
        ("HorizontalPodAutoscaler", "targetAverageValue"): "target.averageValue",
        ("HorizontalPodAutoscaler", "targetValue"): "target.value",
        ("VerticalPodAutoscaler", "maxResources"): "maxAllowed",
        ("VerticalPodAutoscaler", "minResources"): "minAllowed",
        ("ClusterQueue", "admissionChecks"): "admissionChecksStrategy",
        ("ClusterQueue", "cohort"): "cohortName",
        ("EC2NodeClass", "amiSelector"): "amiSelectorTerms",
        ("EC2NodeClass", "securityGroupSelector"): "securityGroupSelectorTerms",
        ("EC2NodeClass", "subnetSelector"): "subnetSelectorTerms",
        ("NodePool", "ttlSecondsAfterEmpty"): "spec.disruption.consolidateAfter",
        ("NodePool", "ttlSecondsUntilExpired"): "spec.template.spec.expireAfter",
        ("NodePool", "consolidation"): "spec.disruption.consolidationPolicy",
        ("NodePool", "WhenUnderutilized"): "WhenEmptyOrUnderutilized",
        ("NodePool", "providerRef"): "nodeClassRef",
        ("NodePool", "apiVersion"): "group",
    }
)
# More of one resource or object help nobody.
_MOST = 20
# How the readers of objects read them; API servers ask the definition of every other kind.
_DIALECTS = {KUBERNETES: dialect.KUBERNETES, EKSCTL: dialect.EKSCTL}


def is_set_by_webhook(kind: str, path: str) -> bool:
    """Whether a webhook fills in the field at a path of a kind."""
    return _NUMBER.sub("[]", path) in FILLED_IN.get(kind, ())


class Fields:
    """Judges resources and objects; what is written alike is judged once."""

    def __init__(self) -> None:
        """Begin with nothing judged."""
        self._known: dict[tuple[str, str, str | int], tuple[Fault, ...]] = {}
        self._of_objects: dict[int, tuple[Fault, ...]] = {}

    def resource_faults(self, resource: Resource) -> tuple[Fault, ...]:
        """Return what CloudFormation refuses of a resource."""
        schema = find_schema(resource.type)
        if schema is None:
            return ()
        found = Judge(dialect.CLOUDFORMATION).faults(dict(resource.properties), schema)
        return tuple(_placed(each, schema, resource.type) for each in islice(found, _MOST))

    def object_faults(self, each: Object) -> tuple[Fault, ...]:
        """Return what an API server, or eksctl, refuses of an object, which must live as long as this."""
        if id(each) not in self._of_objects:
            self._of_objects[id(each)] = self._judged(each)
        return self._of_objects[id(each)]

    def _judged(self, each: Object) -> tuple[Fault, ...]:
        kind = schema_kind(each)
        schema, source = find_schema(kind), find_source(kind)
        if schema is None or source is None:
            return ()
        judge = Judge(_DIALECTS.get(source.name, dialect.CUSTOM_RESOURCE))
        found = self._part_faults(kind, each.content, schema, judge)
        return tuple(islice((each for each in found if not _is_given(kind, each)), _MOST))

    def chart_faults(self, chart: Chart) -> tuple[Fault, ...]:
        """Return the values of a release that its chart does not have, and that are slips for one that it has."""
        schema = find_schema(f"chart/{chart.name}")
        if schema is None:
            return ()
        found = (each for each in Judge(dialect.CHART).faults(dict(chart.values), schema) if each.kind == "unknown")
        return tuple(each for each in islice(found, _MOST) if each.nearest and is_typo(_last(each), each.nearest))

    def _part_faults(self, kind: str, content: Mapping[str, Any], schema: Schema, judge: Judge) -> Iterator[Fault]:
        for field, value in content.items():
            # Objects live as long as this, and many share a spec, or metadata but for the name.
            named = field == "metadata" and isinstance(value, dict) and isinstance(value.get("name"), str)
            judged = {**value, "name": ""} if named else value
            key = kind, str(field), id(value) if field == "spec" else repr(judged)
            if key not in self._known:
                found = judge.field(str(field), judged, schema)
                self._known[key] = tuple(_placed(each, schema, kind) for each in found)
            yield from self._known[key]
        for field in schema.get("required", ()):
            if field not in content:
                yield Fault("missing", field, "is missing")


def _is_given(kind: str, fault: Fault) -> bool:
    return fault.kind == "missing" and is_set_by_webhook(kind, fault.path)


def _last(fault: Fault) -> str:
    return fault.path.rpartition(".")[2]


def schema_kind(each: Object) -> str:
    """Return API version and kind of an object, as the schemas name it."""
    return f"{each.content.get('apiVersion')}/{each.kind}"


def _placed(fault: Fault, schema: Schema, kind: str) -> Fault:
    """Return a fault with the name of today, or with the place where a field belongs that its kind has elsewhere."""
    kind = kind.rpartition("/")[2]
    if fault.kind == "missing":
        return fault
    name = fault.path.rpartition(".")[2]
    if fault.kind == "value":
        today = RENAMED.get((kind, fault.got)) if isinstance(fault.got, str) else None
    else:
        today = RENAMED.get((kind, name)) or (_find_field_path(name, schema) if fault.newer else None)
    return replace(fault, nearest=today, newer=fault.newer and _is_siblings(fault.path, today)) if today else fault


def _is_siblings(path: str, today: str) -> bool:
    """Whether a field belongs to what stands beside: ``nodeGroups[]``, for one of ``managedNodeGroups[0]``."""
    outer, dot, inner = path.partition(".")
    return bool(dot) and inner == today.partition(".")[2] and outer.endswith("]")


@dataclass(frozen=True, slots=True)
class _Place:
    path: str
    schema: Schema


def _find_field_path(field: str, schema: Schema) -> str | None:
    """Return the path of the field of a name, ``None`` where there is none or several."""
    found: list[str] = []
    todo = [_Place("", schema)]
    while todo:
        place = todo.pop()
        for name, inner in (place.schema.get("properties") or {}).items():
            path = f"{place.path}.{name}" if place.path else name
            if name == field:
                found.append(path)
            if isinstance(inner, Mapping) and name not in ("metadata", "status"):
                todo.append(_Place(path, inner))
        items = place.schema.get("items")
        if isinstance(items, Mapping):
            todo.append(_Place(f"{place.path}[]", items))
    return found[0] if len(found) == 1 else None
