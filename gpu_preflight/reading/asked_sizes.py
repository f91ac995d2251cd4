"""Sizes of groups that no template states: a function is asked for them at deployment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_facts.labels import SIZE_RESOURCE
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.unknown import Unknown, mapping

# What the function is told, by what it answers. The wanted size is the least at creation and then what runs, which is
# what it is where nobody states one.
_TOLD = {"MinSize": "Min", "MaxSize": "Max", "DesiredSize": None}


def with_asked_sizes(properties: Mapping[str, Any], resources: Mapping[str, Resource]) -> dict[str, Any]:
    """Return the properties of a managed or Auto Scaling group with the sizes that it will have."""
    found = _filled(properties, resources)
    if "ScalingConfig" in found:
        found["ScalingConfig"] = _filled(mapping(found["ScalingConfig"]), resources) or found["ScalingConfig"]
    return found


def _filled(sizes: Mapping[str, Any], resources: Mapping[str, Resource]) -> dict[str, Any]:
    asked = {name: _answer(value, resources) for name, value in sizes.items() if _asks(value, resources)}
    return {name: asked.get(name, value) for name, value in sizes.items() if asked.get(name, value) is not None}


def _asks(value: Any, resources: Mapping[str, Resource]) -> bool:
    source = resources.get(value.resource or "") if isinstance(value, Unknown) else None
    return source is not None and source.type == SIZE_RESOURCE and value.attribute in _TOLD


def _answer(value: Unknown, resources: Mapping[str, Resource]) -> Any:
    told = _TOLD[value.attribute or ""]
    return resources[value.resource or ""].properties.get(told) if told is not None else None
