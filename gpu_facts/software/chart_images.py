"""What is known of the images of a chart, and what they come to with somebody's values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from gpu_facts.light_dataclasses import dataclass
from gpu_facts.software.model import Switch

# How values name an image: `repository` whole; `registry` and `repository`; a folder in `repository` and a name in it.
Style = Literal["repository", "registry", "folder"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ChartImage:
    """An image of a chart.

    Attributes:
        repository: Its name with its registry.
        tag: Its tag; empty where a node or the cluster decides for it.
        at: Path of the values that name it.
        digest: Its digest, where the chart has one.
        switches: Values it depends on; it is pulled when all are on.
    """

    repository: str
    tag: str
    at: str
    digest: str = ""
    switches: tuple[Switch, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ChartImages:
    """The images of a version of a chart.

    Attributes:
        name: Name of the chart.
        version: Its version.
        images: Its images.
        style: How its values name one.
        registry_path: Path of a value that names the registry, or the folder, of all.
        tag_path: Path of a value that is the tag of all.
        opaque_paths: Values with which it pulls images that are not here.
        source: Where it was read.
        as_of: Day of what was read, ISO 8601.
    """

    name: str
    version: str
    images: tuple[ChartImage, ...] = ()
    style: Style = "repository"
    registry_path: str = ""
    tag_path: str = ""
    opaque_paths: tuple[str, ...] = ()
    source: str
    as_of: str


@dataclass(frozen=True, slots=True)
class PulledImage:
    """An image of a chart with somebody's values.

    Attributes:
        reference: The image; ``None`` where its name or its tag is not known.
        default: The image without values, as far as it is known.
        at: Path of the values that name it.
    """

    reference: str | None
    default: str
    at: str


def pulled(chart: ChartImages, values: Mapping[str, Any]) -> tuple[PulledImage, ...]:
    """Return the images that a chart pulls with some values; what may be switched on is counted."""
    return tuple(
        _pulled(chart, each, values) for each in chart.images if all(_may_be_on(s, values) for s in each.switches)
    )


def opaque(chart: ChartImages, values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the paths of values that bring images which are not known."""
    return tuple(each for each in chart.opaque_paths if _at(values, each) not in (None, False, "", [], {}))


def _pulled(chart: ChartImages, image: ChartImage, values: Mapping[str, Any]) -> PulledImage:
    default = _reference(image.repository, image.tag, image.digest)
    said = _at(values, image.at)
    if said is None:
        said = {}
    parts = list(_said(chart, image, said, values)) if isinstance(said, Mapping) else [None]
    texts = [str(each) for each in parts if isinstance(each, (str, int, float)) and not isinstance(each, bool)]
    if len(texts) != len(parts) or not texts[1]:
        return PulledImage(None, default, image.at)
    return PulledImage(_reference(*texts), default, image.at)


def _said(chart: ChartImages, image: ChartImage, said: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[Any]:
    """Yield repository, tag and digest as the values have them; what is no text is not known."""
    given = _at(values, chart.registry_path)
    tag = said.get("version") or said.get("tag") or _at(values, chart.tag_path) or image.tag
    digest = said.get("digest", image.digest)
    if sha := said.get("sha"):
        digest = f"sha256:{sha}" if isinstance(sha, str) else sha
    if chart.style == "folder":
        folder, _, last = image.repository.rpartition("/")
        yield _joined(said.get("repository") or given or folder, said.get("image") or said.get("name") or last)
    elif chart.style == "registry":
        registry, _, path = image.repository.partition("/")
        yield _joined(given or said.get("registry") or registry, said.get("repository") or path)
    else:
        yield said.get("repository") or image.repository
    yield tag
    yield digest or ""


def _joined(first: Any, last: Any) -> Any:
    return f"{first}/{last}" if isinstance(first, str) and isinstance(last, str) else None


def _reference(repository: str, tag: str, digest: str) -> str:
    if tag.startswith("sha256:"):
        tag, digest = "", tag
    return f"{repository}{f':{tag}' if tag else ''}{f'@{digest}' if digest else ''}"


def _may_be_on(switch: Switch, values: Mapping[str, Any]) -> bool:
    path = (switch.path,) if isinstance(switch.path, str) else switch.path
    found = next((each for each in (_at(values, one) for one in path) if each is not None), switch.default)
    return not isinstance(found, type(switch.on)) or found == switch.on


def _at(values: Any, path: str) -> Any:
    if not path:
        return None
    for key in path.split("."):
        values = values.get(key) if isinstance(values, Mapping) else None
    return values
