"""The table of images of charts, and the packed ones as the real helm renders them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_constructs.devices.dra_driver import dra_driver_values
from gpu_constructs.queueing.kai import kai_values
from gpu_facts import charts
from gpu_facts.charts import NAMESPACES
from gpu_facts.software.images_of_charts import CHARTS, ChartImages, pulled
from gpu_preflight.judging.images import find_images, parsed
from gpu_preflight.reading.documents import parse
from gpu_preflight.reading.rendering.folders import helm_template
from gpu_preflight.reading.rendering.programs import Rendering
from gpu_preflight.reading.unknown import dig
from tools import charts as packed

# A script of the release writes registry or tag into these, and the tool that packs them here does not.
PACKED_OTHERWISE = (charts.JOBSET, charts.KUEUE, charts.DRA_DRIVER, charts.NODE_TERMINATION_HANDLER)
VALUES: Mapping[str, Mapping[str, Any]] = {
    charts.DRA_DRIVER: dra_driver_values(),
    charts.KAI_SCHEDULER: kai_values(),
    charts.KARPENTER: {"settings": {"clusterName": "demo"}},
}
# Images that an operator starts from its settings, which are in the table but in no object.
OF_OPERATORS = (charts.GPU_OPERATOR,)


@pytest.fixture(scope="module")
def folder() -> Path:
    found = packed.folder_of_charts()
    if found is None:
        pytest.skip(packed.MISSING)
    return found


@pytest.mark.parametrize("row", CHARTS, ids=lambda each: f"{each.name}-{each.version}")
def test_the_table_has_what_helm_renders(row: ChartImages, folder: Path, tmp_path: Path) -> None:
    file, values = folder / f"{row.name}-{row.version}.tgz", VALUES.get(row.name, {})
    if not file.is_file():
        pytest.skip(f"{row.name} {row.version} is not in {folder}")
    given = tmp_path / "values.yaml"
    given.write_text(yaml.safe_dump(dict(values)))

    text, why = helm_template(file, row.name, Rendering(), values=given, namespace=NAMESPACES.get(row.name, "x"))

    assert text is not None, why
    rendered = {name(str(each), row) for one in documents(text) for each in find_images(one)}
    known = {name(each.reference or each.default, row) for each in pulled(row, values)}
    assert rendered <= known
    assert row.name in OF_OPERATORS or known <= rendered


def documents(text: str) -> list[Any]:
    """Objects that pull images: neither definitions, nor tests, nor objects that operators create from settings."""
    found = [each.content for each in parse("chart", text)]
    left = [each for each in found if each["kind"] not in ("CustomResourceDefinition", "ClusterPolicy")]
    return [each for each in left if "test" not in str(dig(each, "metadata", "annotations", "helm.sh/hook"))]


def name(image: str, row: ChartImages) -> str:
    """The image without its digest, which its registry knows; of some charts only its last word."""
    found = parsed(image)
    assert found is not None, image
    if row.name in PACKED_OTHERWISE:
        return found.path.rpartition("/")[2]
    return f"{found.registry}/{found.path}:{found.tag}"
