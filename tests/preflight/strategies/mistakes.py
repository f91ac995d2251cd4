"""Mistakes in pods that the API server always rejects."""

from __future__ import annotations

import copy
from collections.abc import Callable

from hypothesis import strategies as st

from tests.preflight.strategies.vocabulary import GPU, Json

_RESOURCES: tuple[Json, ...] = (
    # Devices and huge pages need a limit, which is also the request.
    {"requests": {GPU: "1"}},
    {"requests": {GPU: "1"}, "limits": {GPU: "2"}},
    {"limits": {GPU: "0.5"}},
    {"limits": {GPU: "-1"}},
    {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
    {"requests": {"memory": "2Gi"}, "limits": {"memory": "2000"}},
    {"limits": {"hugepages-2Mi": "64Mi"}},
    {"limits": {"hugepages-2Mi": "3Mi", "memory": "1Gi"}},
    {"requests": {"hugepages-2Mi": "2Mi", "memory": "1Gi"}},
    {"limits": {"gpu": "1"}},
    {"limits": {"cpu": "one"}},
)
_TOLERATIONS: tuple[Json, ...] = (
    {},
    {"key": GPU, "operator": "Exists", "value": "true"},
    {"key": GPU, "operator": "exists"},
    {"key": GPU, "operator": "Exists", "effect": "NoRun"},
    {"key": GPU, "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 60},
    {"key": "a b", "operator": "Exists"},
)
_EXPRESSIONS: tuple[Json, ...] = (
    {"key": "team", "operator": "Gt", "values": ["5", "6"]},
    {"key": "team", "operator": "Gt", "values": ["five"]},
    {"key": "team", "operator": "In"},
    {"key": "team", "operator": "Exists", "values": ["vision"]},
    {"key": "team", "operator": "Equals", "values": ["vision"]},
    {"key": "team", "operator": "NotIn", "values": ["a b"]},
)
_SPREADS: tuple[Json, ...] = (
    {"maxSkew": 0, "topologyKey": "team", "whenUnsatisfiable": "ScheduleAnyway"},
    {"maxSkew": 1, "topologyKey": "team", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2},
    {"maxSkew": 1, "topologyKey": "team"},
)
_PARTS: tuple[Json, ...] = (
    {"nodeSelector": {"team": "a b"}},
    {"overhead": {"cpu": "1"}},
    {"hostNetwork": True, "containers": [{"ports": [{"containerPort": 9400, "hostPort": 8080}]}]},
    {"restartPolicy": "Sometimes"},
    {"resources": {"requests": {GPU: "1"}}},
    {"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "500m"}}},
    {"priority": 7},
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@st.composite
def mistaken(draw: st.DrawFn, spec: Json) -> Json:
    """The ``spec`` of a pod with one of them in it."""
    add, parts = draw(st.sampled_from(WAYS))
    changed = copy.deepcopy(spec)
    add(changed, copy.deepcopy(draw(st.sampled_from(parts))))
    return changed


def _resources(spec: Json, part: Json) -> None:
    spec["containers"][0]["resources"] = part


def _toleration(spec: Json, part: Json) -> None:
    spec.setdefault("tolerations", []).append(part)


def _expression(spec: Json, part: Json) -> None:
    spec["affinity"] = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [part]}]}}}


def _spread(spec: Json, part: Json) -> None:
    spec["topologySpreadConstraints"] = [part]


def _part(spec: Json, part: Json) -> None:
    [container] = part.pop("containers", [{}])
    spec["containers"][0] |= container
    spec |= part


WAYS: tuple[tuple[Callable[[Json, Json], None], tuple[Json, ...]], ...] = (
    (_resources, _RESOURCES),
    (_toleration, _TOLERATIONS),
    (_expression, _EXPRESSIONS),
    (_spread, _SPREADS),
    (_part, _PARTS),
)
