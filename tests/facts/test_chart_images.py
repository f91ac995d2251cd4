"""The table of images of charts: its versions, and the images that values result in."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from gpu_facts import charts
from gpu_facts.software.images_of_charts import CHARTS, ChartImages, known_images, opaque, pulled
from gpu_facts.versions import KARPENTER, KEDA, KUBE_PROMETHEUS_STACK, pinned_charts
from tests.chart_values import unknown_values

PINNED = {(each.name, each.version) for each in pinned_charts()}
# Versions that weren't read: `gpu-constructs images` reports that.
NOT_READ = {charts.DYNAMO}
OF_OTHERS = ("grafana", charts.KUBE_STATE_METRICS, "prometheus-node-exporter")


def read(name: str) -> ChartImages:
    """The newest row of a chart."""
    return [each for each in CHARTS if each.name == name][-1]


def references(name: str, values: Mapping[str, Any]) -> list[str | None]:
    return [each.reference for each in pulled(read(name), values)]


def test_rows_are_of_pinned_versions() -> None:
    assert {(each.name, each.version) for each in CHARTS} <= PINNED


def test_every_pinned_chart_was_read_or_is_named_here() -> None:
    assert {name for name, _ in PINNED} - {each.name for each in CHARTS} == NOT_READ


@pytest.mark.parametrize("row", CHARTS, ids=lambda each: f"{each.name}-{each.version}")
def test_rows_have_source_and_day(row: ChartImages) -> None:
    assert row.source.startswith("https://")
    assert date.fromisoformat(row.as_of) <= date(2026, 11, 22)


def test_other_versions_are_not_known() -> None:
    assert known_images(KEDA.name, "2.0.0") is None
    assert known_images(KEDA.name, None) is None
    assert known_images("grafana", "1.0.0") is None


def test_values_name_another_image() -> None:
    ours = {"controller": {"image": {"repository": "example.com/karpenter", "tag": 1.5, "digest": ""}}}

    assert references(charts.KARPENTER, ours) == ["example.com/karpenter:1.5"]


def test_a_digest_stays_unless_values_take_it_away() -> None:
    row = known_images(KARPENTER.name, "1.14.1")

    assert row is not None
    [image] = pulled(row, {"controller": {"image": {"repository": "example.com/karpenter"}}})
    assert str(image.reference).startswith("example.com/karpenter:1.14.1@sha256:")


def test_one_value_names_the_registry_of_all() -> None:
    found = references(KUBE_PROMETHEUS_STACK.name, {"global": {"imageRegistry": "example.com"}})

    assert len(found) == 9
    assert all(str(each).startswith("example.com/") for each in found)


def test_what_is_off_is_not_pulled() -> None:
    found = references(KUBE_PROMETHEUS_STACK.name, {"grafana": {"enabled": False}, "alertmanager": {"enabled": False}})

    assert not [each for each in found if "grafana" in str(each) or "alertmanager" in str(each)]


def test_what_is_not_read_as_a_switch_counts_as_on() -> None:
    assert "docker.io/grafana/grafana:13.2.0" in references(
        KUBE_PROMETHEUS_STACK.name, {"grafana": {"enabled": "${X}"}}
    )


def test_a_driver_s_tag_is_the_nodes() -> None:
    found = {each.default: each.reference for each in pulled(read(charts.GPU_OPERATOR), {})}

    assert found["nvcr.io/nvidia/driver"] is None
    assert "nvcr.io/nvidia/driver" not in references(charts.GPU_OPERATOR, {"driver": {"enabled": False}})


def test_a_folder_and_a_name_are_named_apart() -> None:
    values = {"toolkit": {"repository": "example.com/nvidia", "version": "sha256:" + "a" * 64}}

    assert f"example.com/nvidia/container-toolkit@sha256:{'a' * 64}" in references(charts.GPU_OPERATOR, values)
    moved = references(charts.KAI_SCHEDULER, {"global": {"registry": "example.com/kai", "tag": "v9"}})
    assert "example.com/kai/scheduler:v9" in moved


@pytest.mark.parametrize("said", [{"repository": object()}, "text", 7, {"tag": object()}])
def test_what_is_no_text_is_not_known(said: object) -> None:
    assert references(charts.JOBSET, {"image": said}) == [None]


def test_values_that_bring_other_images_are_named() -> None:
    values = {"grafana": {"imageRenderer": {"enabled": True}}, "crds": {"upgradeJob": {"enabled": False}}}

    assert opaque(read(KUBE_PROMETHEUS_STACK.name), values) == ("grafana.imageRenderer.enabled",)


@pytest.mark.parametrize(
    "row", [each for each in CHARTS if each.images], ids=lambda each: f"{each.name}-{each.version}"
)
def test_its_paths_are_values_of_the_chart(row: ChartImages, chart_values: Path) -> None:
    files = sorted(chart_values.glob(f"{row.name}-*.yaml")) or sorted(chart_values.glob(f"{row.name}.yaml"))
    if not files:
        pytest.skip(f"{row.name}: its values are not in {chart_values}")

    for image in row.images:
        # Values of the charts inside another are in the values of those.
        if image.at and image.at.split(".")[0] not in OF_OTHERS:
            said: object = "x"
            for key in reversed(image.at.split(".")):
                said = {key: said}
            assert isinstance(said, dict)
            assert unknown_values(files[-1], said) == []
