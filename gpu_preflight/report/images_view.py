"""What `images` reports: what clusters pull, and where a mirror has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from gpu_facts.light import dataclass
from gpu_preflight.judging.images import Asker, How, ImageName, Mirror, PulledChart, Pulls, ecr_region
from gpu_preflight.reading.objects import Origin, Unread
from gpu_preflight.report.finding_view import OutcomeView, outcome

_ADDON = "EKS has its images in its own ECR of the region; they are not to be copied"


@dataclass(frozen=True, kw_only=True, slots=True)
class PulledImageView:
    """An image that a cluster pulls.

    Attributes:
        reference: In full, with registry, and tag or digest.
        ecr_region: Region of the registry, where it is a private one in ECR.
        target: Its name in the mirror; ``None`` where it is not copied.
        not_copied: Why it is not copied into the mirror.
    """

    reference: str
    registry: str
    ecr_region: str | None
    asked_by: tuple[Asker, ...]
    target: str | None
    not_copied: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PulledChartView:
    """A chart that a cluster pulls.

    Attributes:
        images: How its images are known.
        source: Where they were read.
        as_of: Day of that.
        target: Its name in the mirror; ``None`` where it is not copied.
    """

    name: str
    version: str | None
    repository: str | None
    origin: Origin
    images: How
    source: str | None
    as_of: str | None
    target: str | None
    not_copied: str | None


@dataclass(frozen=True, slots=True)
class AddonView:
    """An EKS add-on.

    Attributes:
        images: Where its images come from.
    """

    name: str
    version: str | None
    origin: Origin
    images: str = _ADDON


@dataclass(frozen=True, slots=True)
class NotKnown:
    """What a cluster pulls that isn't known, and why."""

    what: str
    origin: Origin
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PullsView:
    """What a cluster pulls."""

    name: str
    region: str | None
    images: tuple[PulledImageView, ...]
    charts: tuple[PulledChartView, ...]
    addons: tuple[AddonView, ...]
    not_known: tuple[NotKnown, ...]


@dataclass(frozen=True, slots=True)
class MirrorView:
    """The registry of ``--mirror``, and the settings of charts and nodes for it.

    A registry of ECR asks for a password, which kubelet gives for names of images in ECR alone: there images are named
    in the mirror themselves.

    Attributes:
        chart_mirror: Value of the context key ``gpu-constructs:chartMirror``.
        registry_mirrors: Value of ``Host(registry_mirrors=...)``; empty for ECR, which nodes do not take as a mirror.
    """

    registry: str
    ecr_region: str | None
    chart_mirror: str
    registry_mirrors: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class ImagesView(OutcomeView):
    """What clusters pull."""

    command: Literal["images"] = "images"
    mirror: MirrorView | None
    clusters: tuple[PullsView, ...]
    unread: tuple[Unread, ...]


def images_view(found: Iterable[Pulls], unread: Iterable[Unread] = (), *, mirror: Mirror | None = None) -> ImagesView:
    """Return what clusters pull, and where a mirror has it.

    Raises:
        ValueError: Two images would take each other's place in the mirror.
    """
    listed, missing = list(found), tuple(unread)
    if mirror is not None:
        mirror.refuse_twins(listed)
    return ImagesView(
        outcome=outcome(fails=False, unknown=bool(missing) or any(each.not_known for each in listed)),
        mirror=_mirror(mirror, listed) if mirror else None,
        clusters=tuple(_cluster(each, mirror) for each in listed),
        unread=missing,
    )


def _mirror(mirror: Mirror, found: Sequence[Pulls]) -> MirrorView:
    copied = {
        image.registry for each in found for image in each.images if mirror.image_destination(image, each.region).target
    }
    registries = {} if mirror.region else {each: f"https://{mirror.registry}" for each in sorted(copied)}
    return MirrorView(mirror.registry, mirror.region, mirror.charts, registries)


def _cluster(found: Pulls, mirror: Mirror | None) -> PullsView:
    return PullsView(
        name=found.cluster.title,
        region=found.region,
        images=tuple(_image(name, found.images[name], found.region, mirror) for name in sorted(found.images)),
        charts=tuple(_chart(each, mirror) for each in found.charts),
        addons=tuple(AddonView(each.name, each.version, each.origin) for each in found.cluster.addons),
        not_known=tuple(NotKnown(*each) for each in found.not_known),
    )


def _image(name: ImageName, askers: Iterable[Asker], region: str | None, mirror: Mirror | None) -> PulledImageView:
    place = mirror.image_destination(name, region) if mirror else None
    return PulledImageView(
        reference=str(name),
        registry=name.registry,
        ecr_region=ecr_region(name.registry),
        asked_by=tuple(askers),
        target=place.target if place else None,
        not_copied=place.why or None if place else None,
    )


def _chart(found: PulledChart, mirror: Mirror | None) -> PulledChartView:
    place = mirror.chart_destination(found) if mirror else None
    return PulledChartView(
        name=found.chart.name,
        version=found.chart.version,
        repository=found.repository,
        origin=found.chart.origin,
        images=found.images,
        source=found.source or None,
        as_of=found.as_of or None,
        target=place.target if place else None,
        not_copied=place.why or None if place else None,
    )
