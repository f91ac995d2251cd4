"""Unknown and renamed fields of resources and objects, and CEL rules of custom resource definitions.

A field may be missing if a definition requires it but its controller's webhook sets it: webhooks change an object
before the API server compares it with the schema. The extra ``cel`` installs the library that evaluates CEL.

Sources: https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#api-object (v2 of autoscaling),
https://github.com/kubernetes/autoscaler/blob/master/vertical-pod-autoscaler/docs/api.md,
https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta2/, https://karpenter.sh/docs/upgrading/v1-migration/,
https://kubernetes.io/docs/reference/kubernetes-api/, https://kubernetes.io/docs/reference/using-api/cel/ (2026-11)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from itertools import islice
from types import MappingProxyType
from typing import Any

from gpu_facts import schemas
from gpu_facts.light import dataclass, regex
from gpu_facts.schemas import Schema, find_schema, find_source
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.objects import Chart, Object
from gpu_preflight.reading.versions import is_partly_unknown
from gpu_preflight.schema.validation import (
    CHART,
    CLOUDFORMATION,
    CUSTOM_RESOURCE,
    EKSCTL,
    KUBERNETES,
    Fault,
    Judge,
    is_open,
    is_typo,
)

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
# By kind and old name of a field or a value.
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
# Max number of faults for one resource or object. More aren't useful.
_MOST = 20
# Dialects of the services that read objects. For every other kind, API servers use the definition.
_DIALECTS = {schemas.KUBERNETES: KUBERNETES, schemas.EKSCTL: EKSCTL}
INSTALL = "pip install 'gpu-constructs[cel]', with Python 3.11 or newer"
_LIBRARY = "cel"
# Reads the previous state of an object.
_BEFORE = "oldSelf"


def is_set_by_webhook(kind: str, path: str) -> bool:
    """Whether a webhook sets the field at a path of a kind."""
    return _NUMBER.sub("[]", path) in FILLED_IN.get(kind, ())


class Fields:
    """Checks resources and objects. Those with the same text are checked once."""

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._known: dict[tuple[str, str, str | int], tuple[Fault, ...]] = {}
        self._of_objects: dict[int, tuple[Fault, ...]] = {}

    def resource_faults(self, resource: Resource) -> tuple[Fault, ...]:
        """Return the faults for which CloudFormation rejects a resource."""
        schema = find_schema(resource.type)
        if schema is None:
            return ()
        found = Judge(CLOUDFORMATION).faults(dict(resource.properties), schema)
        return tuple(_placed(each, schema, resource.type) for each in islice(found, _MOST))

    def object_faults(self, each: Object) -> tuple[Fault, ...]:
        """Return the faults for which an API server, or eksctl, rejects an object. Keep the object as long as this."""
        if id(each) not in self._of_objects:
            self._of_objects[id(each)] = self._judged(each)
        return self._of_objects[id(each)]

    def _judged(self, each: Object) -> tuple[Fault, ...]:
        kind = schema_kind(each)
        schema, source = find_schema(kind), find_source(kind)
        if schema is None or source is None:
            return ()
        judge = Judge(_DIALECTS.get(source.name, CUSTOM_RESOURCE))
        found = self._part_faults(kind, each.content, schema, judge)
        return tuple(islice((each for each in found if not _is_given(kind, each)), _MOST))

    def chart_faults(self, chart: Chart) -> tuple[Fault, ...]:
        """Return the values of a release that its chart doesn't have and that are typos for a value that it has."""
        schema = find_schema(f"chart/{chart.name}")
        if schema is None:
            return ()
        found = (each for each in Judge(CHART).faults(dict(chart.values), schema) if each.kind == "unknown")
        return tuple(each for each in islice(found, _MOST) if each.nearest and is_typo(_last(each), each.nearest))

    def _part_faults(self, kind: str, content: Mapping[str, Any], schema: Schema, judge: Judge) -> Iterator[Fault]:
        for field, value in content.items():
            # Objects live as long as this instance. Many have the same spec, or the same metadata except the name.
            named = field == "metadata" and isinstance(value, dict) and isinstance(value.get("name"), str)
            judged = {**value, "name": ""} if named else value
            key = kind, str(field), id(value) if field == "spec" else repr(judged)
            if key not in self._known:
                found = judge.field(str(field), judged, schema)
                self._known[key] = tuple(_placed(each, schema, kind) for each in found)
            yield from self._known[key]
        for field in schema.get("required", ()):
            if field not in content:
                yield Fault("missing", field, "is missing, but required")


def _is_given(kind: str, fault: Fault) -> bool:
    return fault.kind == "missing" and is_set_by_webhook(kind, fault.path)


def _last(fault: Fault) -> str:
    return fault.path.rpartition(".")[2]


def schema_kind(each: Object) -> str:
    """Return API version and kind of an object, as the schemas name it."""
    return f"{each.content.get('apiVersion')}/{each.kind}"


def _placed(fault: Fault, schema: Schema, kind: str) -> Fault:
    """Return a fault with the current name of a field or value, or with the path where its kind has this field."""
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
    """Whether a field belongs to a sibling: ``nodeGroups[]``, for a field of ``managedNodeGroups[0]``."""
    outer, dot, inner = path.partition(".")
    return bool(dot) and inner == today.partition(".")[2] and outer.endswith("]")


@dataclass(frozen=True, slots=True)
class _Place:
    path: str
    schema: Schema


def _find_field_path(field: str, schema: Schema) -> str | None:
    """Return the path of the field with a name; ``None`` if there is none, or if there are several."""
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


def can_ask() -> bool:
    """Whether the library is installed."""
    return find_spec(_LIBRARY) is not None


def has_rules(each: Object) -> bool:
    """Whether CEL rules for an object's kind are known."""
    source = find_source(schema_kind(each))
    return source is not None and source.rules


def broken_rules(each: Object) -> Iterator[tuple[str, str]]:
    """Yield path and message of each rule that an object breaks. Values known at deployment only break no rule."""
    schema = find_schema(schema_kind(each)) if has_rules(each) and can_ask() else None
    if schema is not None:
        yield from _broken(_apply_defaults(dict(each.content), schema), schema, "")


def _apply_defaults(value: Any, schema: Schema) -> Any:
    """Return a value with the defaults that an API server sets before it evaluates rules, and without null values."""
    if isinstance(value, list):
        items = schema.get("items") or {}
        return [_apply_defaults(each, items) for each in value]
    if not isinstance(value, dict):
        return value
    fields = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    given = {
        str(key): _apply_defaults(each, fields.get(key) or (others if isinstance(others, Mapping) else {}))
        for key, each in value.items()
        if each is not None
    }
    defaults = {key: each["default"] for key, each in fields.items() if "default" in each and key not in given}
    return {**given, **defaults}


def _broken(value: Any, schema: Schema, path: str) -> Iterator[tuple[str, str]]:
    rules = schema.get("rules")
    if rules and not is_partly_unknown(value) and not _is_filled_in_later(value):
        yield from ((path, message) for rule, message in rules if _BEFORE not in rule and not _holds(rule, value))
    if isinstance(value, list):
        items = schema.get("items") or {}
        for index, each in enumerate(value):
            yield from _broken(each, items, f"{path}[{index}]")
    elif isinstance(value, dict):
        others = schema.get("additionalProperties")
        for key, each in value.items():
            inner = (schema.get("properties") or {}).get(key) or others
            if isinstance(inner, Mapping):
                yield from _broken(each, inner, f"{path}.{key}" if path else key)


def _is_filled_in_later(value: Any) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return is_open(value) or any(map(_is_filled_in_later, parts))


def _holds(rule: str, value: Any) -> bool:
    """Whether a rule holds. A rule that ends in an error doesn't hold."""
    import cel

    try:
        context = cel.Context(variables={"self": value}, functions={"find": _find, "split": _split})
    except (OverflowError, TypeError, ValueError):
        # An API server can't store this number either, and reports it itself.
        return True
    try:
        return _compiled(rule).execute(context) is True
    except (KeyError, RuntimeError, TypeError, ValueError):
        return False


@cache
def _compiled(rule: str) -> Any:
    import cel

    return cel.compile(rule)


def _find(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    return found.group() if found else ""


def _split(text: str, separator: str) -> list[str]:
    return text.split(separator)
