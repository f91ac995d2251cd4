"""The report of `images`: images and charts that clusters pull, and their names in a mirror."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from gpu_facts.light import dataclass
from gpu_preflight.judging.images import Asker, How, ImageName, Mirror, PulledChart, Pulls, ecr_region
from gpu_preflight.reading.objects import Origin, Unread
from gpu_preflight.report.finding_view import OutcomeView, outcome

_ADDON = "EKS provides the images in its own ECR registry of the Region; don't copy them"


@dataclass(frozen=True, kw_only=True, slots=True)
class PulledImageView:
    """An image that a cluster pulls.

    Attributes:
        reference: Full reference with registry, and with tag or digest.
        ecr_region: Region of the registry, if it is a private registry in ECR.
        target: Its name in the mirror; ``None`` if it isn't copied.
        not_copied: Why it isn't copied into the mirror.
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
        images: How the checker knows its images.
        source: Where the images were read.
        as_of: The day on which they were read.
        target: Its name in the mirror; ``None`` if it isn't copied.
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
    """An image or chart that a cluster pulls and that isn't known, with the reason."""

    what: str
    origin: Origin
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PullsView:
    """The images, charts and add-ons that a cluster pulls."""

    name: str
    region: str | None
    images: tuple[PulledImageView, ...]
    charts: tuple[PulledChartView, ...]
    addons: tuple[AddonView, ...]
    not_known: tuple[NotKnown, ...]


@dataclass(frozen=True, slots=True)
class MirrorView:
    """The registry of ``--mirror``, and the settings of charts and nodes for it.

    ECR requires a password, and kubelet sends one only for image names in ECR. With such a mirror, set the images of
    workloads and charts to their names in the mirror.

    Attributes:
        chart_mirror: Value of the context key ``gpu-constructs:chartMirror``.
        registry_mirrors: Value of ``Host(registry_mirrors=...)``; empty for ECR, which nodes can't use as a mirror.
    """

    registry: str
    ecr_region: str | None
    chart_mirror: str
    registry_mirrors: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class ImagesView(OutcomeView):
    """The images and charts that clusters pull."""

    command: Literal["images"] = "images"
    mirror: MirrorView | None
    clusters: tuple[PullsView, ...]
    unread: tuple[Unread, ...]


def images_view(found: Iterable[Pulls], unread: Iterable[Unread] = (), *, mirror: Mirror | None = None) -> ImagesView:
    """Return the images and charts that clusters pull, with their names in a mirror.

    Raises:
        ValueError: Two images would have the same name in the mirror.
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
