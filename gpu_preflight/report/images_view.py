"""What clusters pull, as plain data, and where a mirror has it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpu_preflight.judging.images import Asker, ImageName, Mirror, PulledChart, Pulls, ecr_region
from gpu_preflight.report.finding_view import View, origin_view

_ADDON = "EKS has its images in its own ECR of the region; they are not to be copied"


def clusters_view(found: Iterable[Pulls], mirror: Mirror | None) -> list[View]:
    """Return what each cluster pulls."""
    return [_cluster(each, mirror) for each in found]


def mirror_view(mirror: Mirror | None, found: Sequence[Pulls]) -> View | None:
    """Return what nodes and charts are to be told of a mirror.

    A registry of ECR asks for a password, which kubelet gives for names of images in ECR alone: there images are named
    in the mirror themselves.
    """
    if mirror is None:
        return None
    copied = {
        image.registry for each in found for image in each.images if mirror.image_destination(image, each.region).target
    }
    return {
        "registry": mirror.registry,
        "ecrRegion": mirror.region,
        "chartMirror": mirror.charts,
        "registryMirrors": {} if mirror.region else {each: f"https://{mirror.registry}" for each in sorted(copied)},
    }


def _cluster(found: Pulls, mirror: Mirror | None) -> View:
    return {
        "name": found.cluster.title,
        "region": found.region,
        "images": [_image(name, found.images[name], found.region, mirror) for name in sorted(found.images)],
        "charts": [_chart(each, mirror) for each in found.charts],
        "addons": [
            {"name": each.name, "version": each.version, "origin": origin_view(each.origin), "images": _ADDON}
            for each in found.cluster.addons
        ],
        "notKnown": [
            {"what": what, "origin": origin_view(origin), "reason": reason} for what, origin, reason in found.not_known
        ],
    }


def _image(name: ImageName, askers: Iterable[Asker], region: str | None, mirror: Mirror | None) -> View:
    place = mirror.image_destination(name, region) if mirror else None
    return {
        "reference": str(name),
        "registry": name.registry,
        "ecrRegion": ecr_region(name.registry),
        "askedBy": [
            {"what": each.what, "origin": origin_view(each.origin), "value": each.at or None} for each in askers
        ],
        "target": place.target if place else None,
        "notCopied": place.why or None if place else None,
    }


def _chart(found: PulledChart, mirror: Mirror | None) -> View:
    place = mirror.chart_destination(found) if mirror else None
    return {
        "name": found.chart.name,
        "version": found.chart.version,
        "repository": found.repository,
        "origin": origin_view(found.chart.origin),
        "images": found.images,
        "source": found.source or None,
        "asOf": found.as_of or None,
        "target": place.target if place else None,
        "notCopied": place.why or None if place else None,
    }
