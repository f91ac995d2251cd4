"""Every image and chart that a cluster pulls, and who asks for it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal

from gpu_facts.light_dataclasses import dataclass
from gpu_facts.software.chart_images import opaque, pulled
from gpu_facts.software.images_of_charts import known_images
from gpu_facts.versions import pinned_charts
from gpu_preflight.cluster.subnets import region_of_cluster
from gpu_preflight.judging.image_names import ImageName, images_in, parsed
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.documents import UnusableInput, parse
from gpu_preflight.reading.objects import Chart, Object, Origin, objects_of
from gpu_preflight.reading.rendering.charts import helm_template
from gpu_preflight.reading.rendering.rendering import Rendering
from gpu_preflight.reading.unknown import Unknown, as_written, dig, known_text

How = Literal["rendered", "read", "not known"]
# What only tells of charts, definitions or images, and pulls none itself.
_WITHOUT_IMAGES = ("Application", "ApplicationSet", "ConfigMap", "CustomResourceDefinition", "HelmRelease", "Secret")
# The GPU Operator's settings, and parts of it whose tags end with what the node is.
_CLUSTER_POLICY, _OF_KERNELS = "ClusterPolicy", ("driver", "gds", "gdrcopy")
_TELLS = "render it: give its packed chart with --charts"


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks for an image.

    Attributes:
        what: Kind, namespace and name of an object, or name and version of a chart.
        origin: Where it stands.
        at: Path of the value of the chart that names it, where that is known.
    """

    what: str
    origin: Origin
    at: str = ""


@dataclass(frozen=True, slots=True)
class PulledChart:
    """A chart that somebody pulls.

    Attributes:
        chart: The release.
        repository: Where it is kept, with its name in an OCI registry; ``None`` where that is not known.
        images: How its images are known.
        source: Where they were read, empty for what was not.
        as_of: Day of that.
    """

    chart: Chart
    repository: str | None
    images: How
    source: str = ""
    as_of: str = ""


@dataclass(slots=True)
class Pulls:
    """What a cluster pulls.

    Attributes:
        cluster: The cluster.
        region: Its region, ``None`` where it is not known.
        images: Who asks for each image.
        charts: Its charts.
        not_known: What could not be told: what, where it stands, and why.
    """

    cluster: Cluster
    region: str | None
    images: dict[ImageName, list[Asker]] = field(default_factory=dict)
    charts: list[PulledChart] = field(default_factory=list)
    not_known: list[tuple[str, Origin, str]] = field(default_factory=list)

    def add(self, image: str | Unknown, asker: Asker) -> None:
        """Count an image, or tell that it is not known."""
        name = parsed(image)
        if name is None:
            told = f"image {image} is known at deployment only"
            self.not_known.append((asker.what, asker.origin, told))
            return
        askers = self.images.setdefault(name, [])
        if asker not in askers:
            askers.append(asker)


def pulls(clusters: Iterable[Cluster], charts: Path | None = None) -> list[Pulls]:
    """Return what each cluster pulls.

    Args:
        clusters: The clusters.
        charts: Folder of packed charts, to be rendered with the values of their releases.
    """
    made = Rendering()
    return [_of_cluster(each, charts, made) for each in clusters]


def _of_cluster(cluster: Cluster, folder: Path | None, made: Rendering) -> Pulls:
    found = Pulls(cluster, region_of_cluster(cluster))
    for each in cluster.objects:
        _add_object(each, Asker(f"{each.kind} {each.namespace}/{each.name}", each.origin), found)
    for chart in cluster.charts:
        _add_chart(chart, found, folder, made)
    return found


def _add_object(each: Object, asker: Asker, found: Pulls) -> None:
    if each.kind in _WITHOUT_IMAGES:
        return
    content: Mapping[str, Any] = each.content
    if each.kind == _CLUSTER_POLICY:
        content = {name: part for name, part in each.spec.items() if name not in _OF_KERNELS}
        for name in _OF_KERNELS:
            if dig(each.spec, name) is not None and dig(each.spec, name, "enabled") is not False:
                told = f"the node's kernel and operating system decide for the image of {name}"
                found.not_known.append((asker.what, asker.origin, told))
    for image in images_in(content):
        found.add(image, asker)


def _add_chart(chart: Chart, found: Pulls, folder: Path | None, made: Rendering) -> None:
    asker = Asker(f"chart {chart.name} {chart.version or ''}".rstrip(), chart.origin)
    repository = _repository(chart)
    if repository is None:
        found.not_known.append((asker.what, asker.origin, "where the chart is kept is not known"))
    if chart.version is None:
        found.not_known.append((asker.what, asker.origin, "which version of the chart is installed is not known"))
    rendered = _add_rendered(chart, asker, found, folder, made)
    if known := known_images(chart.name, chart.version):
        for image in pulled(known, chart.values):
            if image.reference is not None:
                found.add(image.reference, replace(asker, at=image.at))
            else:
                told = f"{image.default}: the node or the deployment decides for its {'tag' if image.at else 'name'}"
                found.not_known.append((asker.what, asker.origin, told))
        for path in () if rendered else opaque(known, chart.values):
            told = f"images that its value {path} brings are not known; {_TELLS}"
            found.not_known.append((asker.what, asker.origin, told))
        how: How = "rendered" if rendered else "read"
        found.charts.append(PulledChart(chart, repository, how, known.source, known.as_of))
        return
    for image_of_values in images_in(chart.values):
        found.add(image_of_values, asker)
    if not rendered:
        told = f"images of this version of the chart are not known, but for those that its values name; {_TELLS}"
        found.not_known.append((asker.what, asker.origin, told))
    found.charts.append(PulledChart(chart, repository, "rendered" if rendered else "not known"))


def _repository(chart: Chart) -> str | None:
    """Return where a chart is kept; of one that is pinned here, also where a mirror is named instead."""
    pins = [each for each in pinned_charts() if (each.name, each.version) == (chart.name, chart.version)]
    return pins[0].repository if pins else known_text(chart.properties.get("Repository"))


def _add_rendered(chart: Chart, asker: Asker, found: Pulls, folder: Path | None, made: Rendering) -> bool:
    """Add the images of a chart as it is rendered, and say whether it was."""
    packed = _packed(chart, folder)
    if packed is None:
        return False
    try:
        text, why = _rendered(chart, packed, made)
        documents = [] if text is None else list(parse(packed.name, text))
    except UnusableInput as error:
        text, why = None, str(error)
    if text is None:
        found.not_known.append((asker.what, asker.origin, f"it is not rendered, because {why}"))
        return False
    is_known = known_images(chart.name, chart.version) is not None
    for each in (one for document in documents for one in objects_of(document.content, packed.name)):
        # What the operator makes of its settings is read, where it is known.
        if not _is_test(each.annotations) and not (is_known and each.kind == _CLUSTER_POLICY):
            _add_object(each, asker, found)
    return True


def _rendered(chart: Chart, packed: Path, made: Rendering) -> tuple[str | None, str]:
    with tempfile.TemporaryDirectory() as place:
        values = Path(place, "values.json")
        values.write_text(json.dumps(as_written(dict(chart.values))))
        return helm_template(packed, chart.name, made, values=values, namespace=chart.namespace)


def _is_test(annotations: Mapping[str, Any]) -> bool:
    """Whether only `helm test` runs it."""
    return str(annotations.get("helm.sh/hook", "")).startswith("test")


def _packed(chart: Chart, folder: Path | None) -> Path | None:
    if folder is None or chart.version is None:
        return None
    names = [f"{chart.name}-{version}.tgz" for version in (chart.version, chart.version.removeprefix("v"))]
    return next((folder / each for each in names if (folder / each).is_file()), None)
