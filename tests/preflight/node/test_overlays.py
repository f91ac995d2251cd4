"""NodeOverlays apply by weight, and one that conflicts with another of its weight has no effect."""

from __future__ import annotations

from typing import Any

from gpu_preflight.model.label_values import Labels, exactly
from gpu_preflight.node.autoscaler_view import conflicts
from gpu_preflight.reading.objects import Object, Origin

SMALL: Labels = {"size": exactly("small"), "zone": exactly("a", "b")}
LARGE: Labels = {"size": exactly("large")}


def overlay(name: str, *values: str, weight: int | None = None, key: str = "size", **says: Any) -> Object:
    wanted = [{"key": key, "operator": "In", "values": list(values)}]
    spec = {"requirements": wanted, **says} | ({} if weight is None else {"weight": weight})
    content = {"kind": "NodeOverlay", "metadata": {"name": name}, "spec": spec}
    return Object(content, Origin("overlays.yaml", f"NodeOverlay {name}"))


def left_out(*overlays: Object, nodes: tuple[Labels, ...] = (SMALL, LARGE)) -> list[str]:
    return [each.overlay.name for each in conflicts(overlays, nodes)]


def test_of_one_weight_the_last_name_stays() -> None:
    both = (overlay("a", "small", capacity={"x/a": "1"}), overlay("b", "small", capacity={"x/a": "2"}))

    assert left_out(*both) == left_out(*reversed(both)) == ["a"]


def test_one_node_is_enough() -> None:
    wide, narrow = overlay("a", "small", "large", price="1"), overlay("b", "large", priceAdjustment="-10%")

    assert left_out(wide, narrow) == ["a"]
    assert left_out(wide, narrow, nodes=(SMALL,)) == []


def test_no_weight_is_no_weight_of_another() -> None:
    assert left_out(overlay("a", "small", price="1"), overlay("b", "small", price="1", weight=1)) == []


def test_an_overlay_that_is_left_out_leaves_none_out() -> None:
    names = ("a", "b", "c")

    assert left_out(*(overlay(each, "small", price="1") for each in names)) == ["b", "a"]


def test_only_the_nearest_before_counts() -> None:
    capacities = {"c": "x/a", "b": "x/b", "a": "x/a"}

    assert left_out(*(overlay(name, "small", capacity={each: "1"}) for name, each in capacities.items())) == []


def test_prices_of_other_zones_are_no_conflict() -> None:
    assert left_out(*(overlay(each, each, key="zone", price="1") for each in ("a", "b"))) == []
    assert left_out(overlay("all", "a", "b", key="zone", price="1"), overlay("b", "b", key="zone", price="1")) == [
        "all"
    ]


def test_resources_are_those_of_all_zones() -> None:
    assert left_out(*(overlay(each, each, key="zone", capacity={"x/a": "1"}) for each in ("a", "b"))) == ["a"]
