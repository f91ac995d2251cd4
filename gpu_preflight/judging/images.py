"""Images and charts that a cluster pulls, which workload pulls them, and their place in a mirror.

The place in the mirror is the one where nodes and charts that are configured for the mirror look for them.

An image keeps its path, because containerd and Bottlerocket look there on a mirror without a path prefix. Charts are in
one folder, as in the library's context key ``gpu-constructs:chartMirror``.

Sources: https://github.com/containerd/containerd/blob/main/docs/hosts.md,
https://bottlerocket.dev/en/os/1.64.x/api/settings/container-registry/ (2026-11)
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal

from gpu_facts.light import dataclass, regex
from gpu_facts.software.images_of_charts import known_images, opaque, pulled
from gpu_facts.versions import pinned_charts
from gpu_preflight.cluster.network import region_of_cluster
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.documents import UnusableInput, parse
from gpu_preflight.reading.objects import Chart, Object, Origin, parse_objects
from gpu_preflight.reading.rendering.folders import helm_template
from gpu_preflight.reading.rendering.programs import Rendering
from gpu_preflight.reading.unknown import Unknown, as_written, dig, is_expression, known_text

# Source: https://github.com/distribution/reference/blob/main/regexp.go (2026-11)
_NAME = regex(
    r"(?:(?P<registry>localhost|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::\d+)?|[A-Za-z0-9-]+:\d+)/)?"
    r"(?P<path>[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>[a-z0-9]+:[a-f0-9]{32,}))?",
    re.ASCII,
)
_HUB = "docker.io"
_ECR = regex(r"\d{12}\.dkr[.-]ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|on\.aws)")
# Arguments and variables that pass an image to a program that starts pods.
_ARGUMENT = regex(r"--?(?!\S*default)[\w-]*(?:image|config-reloader)[\w-]*=(?P<image>\S+/\S+:\S+)", re.IGNORECASE)
_VARIABLE = regex(r"\w*IMAGE\w*")
How = Literal["rendered", "read", "not known"]
# Kinds that only describe charts, definitions or images, and pull none.
_WITHOUT_IMAGES = ("Application", "ApplicationSet", "ConfigMap", "CustomResourceDefinition", "HelmRelease", "Secret")
# The GPU Operator's settings, and parts of it whose tags end with the kernel or system of the node.
_CLUSTER_POLICY, _OF_KERNELS = "ClusterPolicy", ("driver", "gds", "gdrcopy")
_TELLS = "pass its packed chart with --charts to render it"
CHARTS = "charts"
_HOST = regex(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:\d{1,5})?", re.ASCII)
_OCI = "oci://"
_CHART_NAME = regex(r"[A-Za-z0-9][\w.-]*", re.ASCII)
_VERSION = regex(r"\w[\w.+-]*", re.ASCII)
_ADDRESS = regex(r"(oci|https?)://[A-Za-z0-9][\w./:~%+-]*", re.ASCII)


@dataclass(frozen=True, order=True, slots=True)
class ImageName:
    """The name of an image.

    Attributes:
        registry: Host of its registry, with a port if it has one.
        path: Its path in the registry.
        tag: Its tag, empty if it has none.
        digest: Its digest, empty if it has none.
    """

    registry: str
    path: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        return f"{self.registry}/{self.path}{self.suffix}"

    @property
    def suffix(self) -> str:
        """Tag and digest, as they follow its path; ``latest`` if it has neither."""
        tag = self.tag or ("" if self.digest else "latest")
        return f"{f':{tag}' if tag else ''}{f'@{self.digest}' if self.digest else ''}"


def parsed(image: str | Unknown) -> ImageName | None:
    """Return the full name of an image; ``None`` if a part of it is known at deployment only."""
    found = _NAME.fullmatch(str(image))
    if found is None:
        return None
    registry, path = found["registry"] or _HUB, found["path"]
    if registry == _HUB and "/" not in path:
        path = f"library/{path}"
    return ImageName(registry, path, found["tag"] or "", found["digest"] or "")


def find_images(content: Any) -> Iterator[str | Unknown]:
    """Yield the images that an object names: of containers and volumes, and of fields, arguments and variables."""
    left = [content]
    while left:
        value = left.pop()
        if isinstance(value, Mapping):
            # A disabled part of an operator's settings pulls nothing.
            if value.get("enabled") is not False:
                left += value.values()
                yield from _named(value)
        elif isinstance(value, (list, tuple)):
            left += value
            words = (each for each in value if isinstance(each, str))
            yield from (found["image"] for each in words if (found := _ARGUMENT.fullmatch(each)))


def _named(value: Mapping[str, Any]) -> Iterator[str | Unknown]:
    image = value.get("image")
    if isinstance(image, Mapping):
        image = image.get("reference") if "reference" in image else _joined(image)
    elif isinstance(image, str) and isinstance(value.get("repository"), str) and "/" not in image:
        image = _joined({**value, "name": image, "tag": value.get("version", value.get("tag"))})
    if isinstance(image, Unknown) or (isinstance(image, str) and (parsed(image) or is_expression(image))):
        yield image
    name, text = value.get("name"), value.get("value")
    if isinstance(name, str) and isinstance(text, str) and _VARIABLE.fullmatch(name) and "/" in text and parsed(text):
        yield text


def _joined(parts: Mapping[str, Any]) -> str | None:
    """Return the image from a mapping of its parts; ``None`` if one is missing."""
    last, tag = parts.get("name"), parts.get("tag")
    named = [parts.get("registry"), parts.get("repository"), last]
    texts = [each for each in named if isinstance(each, str) and each]
    if not isinstance(parts.get("repository"), str) or not isinstance(tag, (str, int, float)) or not tag:
        return None
    return f"{'/'.join(texts)}{'@' if str(tag).startswith('sha256:') else ':'}{tag}"


def ecr_region(registry: str) -> str | None:
    """Return the region of a private registry in ECR; ``None`` for any other registry."""
    found = _ECR.fullmatch(registry)
    return found["region"] if found else None


@dataclass(frozen=True, slots=True)
class Asker:
    """The object or chart that pulls an image.

    Attributes:
        what: Kind, namespace and name of an object, or name and version of a chart.
        origin: Its place in the input.
        value: Path of the chart's value that names the image, if it is known.
    """

    what: str
    origin: Origin
    value: str | None = None


@dataclass(frozen=True, slots=True)
class PulledChart:
    """A chart that the cluster's installer pulls.

    Attributes:
        chart: The release.
        repository: Its repository, with its name in an OCI registry; ``None`` if it isn't known.
        images: How its images are known.
        source: Source of the list of images; empty if they weren't read.
        as_of: Date of that source.
    """

    chart: Chart
    repository: str | None
    images: How
    source: str = ""
    as_of: str = ""


@dataclass(slots=True)
class Pulls:
    """Images and charts that a cluster pulls.

    Attributes:
        cluster: The cluster.
        region: Its region; ``None`` if it isn't known.
        images: The objects and charts that pull each image.
        charts: Its charts.
        not_known: Unknown images: the object or chart, its place, and the reason.
    """

    cluster: Cluster
    region: str | None
    images: dict[ImageName, list[Asker]] = field(default_factory=dict)
    charts: list[PulledChart] = field(default_factory=list)
    not_known: list[tuple[str, Origin, str]] = field(default_factory=list)

    def add(self, image: str | Unknown, asker: Asker) -> None:
        """Add an image, or report that it isn't known."""
        name = parsed(image)
        if name is None:
            reason = f"image {image} is known at deployment only"
            self.not_known.append((asker.what, asker.origin, reason))
            return
        askers = self.images.setdefault(name, [])
        if asker not in askers:
            askers.append(asker)


def pulls(clusters: Iterable[Cluster], charts: Path | None = None) -> list[Pulls]:
    """Return the images and charts of each cluster.

    Args:
        clusters: The clusters.
        charts: Folder of packed charts, which are rendered with the values of their releases.
    """
    made = Rendering()
    return [_collect_pulls(each, charts, made) for each in clusters]


def _collect_pulls(cluster: Cluster, folder: Path | None, made: Rendering) -> Pulls:
    found = Pulls(cluster, region_of_cluster(cluster))
    for each in cluster.objects:
        _add_object(each, Asker(each.title, each.origin), found)
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
                reason = f"the image of {name} depends on the node's kernel and operating system"
                found.not_known.append((asker.what, asker.origin, reason))
    for image in find_images(content):
        found.add(image, asker)


def _add_chart(chart: Chart, found: Pulls, folder: Path | None, made: Rendering) -> None:
    asker = Asker(f"chart {chart.name} {chart.version or ''}".rstrip(), chart.origin)
    repository = _repository(chart)
    if repository is None:
        found.not_known.append((asker.what, asker.origin, "the repository of the chart isn't known"))
    if chart.version is None:
        found.not_known.append((asker.what, asker.origin, "the version of the chart isn't known"))
    rendered = _add_rendered(chart, asker, found, folder, made)
    if known := known_images(chart.name, chart.version):
        for image in pulled(known, chart.values):
            if image.reference is not None:
                found.add(image.reference, replace(asker, value=image.at or None))
            else:
                reason = f"{image.default}: its {'tag' if image.at else 'name'} depends on the node or the deployment"
                found.not_known.append((asker.what, asker.origin, reason))
        for path in () if rendered else opaque(known, chart.values):
            reason = f"images of its value {path} aren't known; {_TELLS}"
            found.not_known.append((asker.what, asker.origin, reason))
        how: How = "rendered" if rendered else "read"
        found.charts.append(PulledChart(chart, repository, how, known.source, known.as_of))
        return
    for image_of_values in find_images(chart.values):
        found.add(image_of_values, asker)
    if not rendered:
        reason = f"images of this version of the chart aren't known, except images that its values name; {_TELLS}"
        found.not_known.append((asker.what, asker.origin, reason))
    found.charts.append(PulledChart(chart, repository, "rendered" if rendered else "not known"))


def _repository(chart: Chart) -> str | None:
    """Return the repository of a chart. For a pinned chart, also if the input has a mirror."""
    pins = [each for each in pinned_charts() if (each.name, each.version) == (chart.name, chart.version)]
    return pins[0].repository if pins else known_text(chart.properties.get("Repository"))


def _add_rendered(chart: Chart, asker: Asker, found: Pulls, folder: Path | None, made: Rendering) -> bool:
    """Add the images of a rendered chart, and return whether it was rendered."""
    packed = _packed(chart, folder)
    if packed is None:
        return False
    try:
        text, why = _rendered(chart, packed, made)
        documents = [] if text is None else list(parse(packed.name, text))
    except UnusableInput as error:
        text, why = None, str(error)
    if text is None:
        found.not_known.append((asker.what, asker.origin, f"it isn't rendered, because {why}"))
        return False
    is_known = known_images(chart.name, chart.version) is not None
    for each in (one for document in documents for one in parse_objects(document.content, packed.name)):
        # If the version is known, the operator's settings are read as its known images.
        if not _is_test(each.annotations) and not (is_known and each.kind == _CLUSTER_POLICY):
            _add_object(each, asker, found)
    return True


def _rendered(chart: Chart, packed: Path, made: Rendering) -> tuple[str | None, str]:
    with tempfile.TemporaryDirectory() as place:
        values = Path(place, "values.json")
        values.write_text(json.dumps(as_written(dict(chart.values))))
        return helm_template(packed, chart.name, made, values=values, namespace=chart.namespace)


def _is_test(annotations: Mapping[str, Any]) -> bool:
    """Whether only `helm test` runs an object."""
    return str(annotations.get("helm.sh/hook", "")).startswith("test")


def _packed(chart: Chart, folder: Path | None) -> Path | None:
    if folder is None or chart.version is None:
        return None
    names = [f"{chart.name}-{version}.tgz" for version in (chart.version, chart.version.removeprefix("v"))]
    return next((folder / each for each in names if (folder / each).is_file()), None)


@dataclass(frozen=True, slots=True)
class Place:
    """The place in a mirror to which an image or chart is copied.

    Attributes:
        target: Its name in the mirror, including the mirror; ``None`` if it isn't copied.
        why: Why it isn't copied; empty if it is.
    """

    target: str | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Mirror:
    """A registry to which images and charts are copied.

    Attributes:
        registry: Its host, with a port if it has one.

    Raises:
        ValueError: It isn't a host.
    """

    registry: str

    def __post_init__(self) -> None:
        if not _HOST.fullmatch(self.registry) or not {".", ":"} & set(self.registry):
            raise ValueError(
                "--mirror must be the host of a registry, such as 111122223333.dkr.ecr.eu-west-1.amazonaws.com or "
                f"registry.example.com:5000, got {self.registry!r}; nodes accept mirrors without scheme and path"
            )

    @property
    def region(self) -> str | None:
        """Its region in ECR; ``None`` for another registry."""
        return ecr_region(self.registry)

    @property
    def charts(self) -> str:
        """The location of charts, in the form of the app's context key."""
        return f"{_OCI}{self.registry}/{CHARTS}"

    def image_destination(self, image: ImageName, region: str | None) -> Place:
        """Return the destination of an image, for a cluster in a region."""
        home, near = ecr_region(image.registry), region or self.region
        if image.registry == self.registry:
            return Place(None, "it is already in the mirror")
        if home is not None and near is None:
            return Place(None, f"it is in ECR of {home}; copy it if the cluster is in another region")
        if home is not None and home == near:
            return Place(None, f"it is in ECR of {home}, like the cluster")
        # An image that is pulled by digest keeps its digest under any tag.
        suffix = f":{image.tag}" if image.tag else image.suffix
        return Place(f"{self.registry}/{image.path}{suffix}")

    def chart_destination(self, chart: PulledChart) -> Place:
        """Return the destination of a chart."""
        if chart.repository is None or chart.chart.version is None:
            return Place(None, "its repository, or its version, isn't known")
        if chart.repository.startswith(f"{_OCI}{self.registry}/"):
            return Place(None, "it is already in the mirror")
        words = (chart.chart.name, chart.chart.version, chart.repository)
        if not all(rule.fullmatch(each) for rule, each in zip((_CHART_NAME, _VERSION, _ADDRESS), words, strict=True)):
            return Place(None, "its name, version or address isn't valid")
        # OCI tags can't have a plus sign.
        return Place(f"{self.registry}/{CHARTS}/{chart.chart.name}:{chart.chart.version.replace('+', '_')}")

    def refuse_twins(self, found: Iterable[Pulls]) -> None:
        """Reject images that would have the same name in the mirror.

        Raises:
            ValueError: Two images of different registries have the same name there.
        """
        names: dict[str, ImageName] = {}
        for pulls in found:
            for image in pulls.images:
                target = self.image_destination(image, pulls.region).target
                other = names.setdefault(target, image) if target else image
                unlike = other.digest != image.digest and bool(other.digest and image.digest)
                if other.registry != image.registry or unlike:
                    raise ValueError(
                        f"--mirror {self.registry} must have a name for each image, got {target} for {other} and for "
                        f"{image}; use another registry or another tag for one of them"
                    )
