"""The words about what clusters pull that text and Markdown share."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_preflight.report.finding_view import View
from gpu_preflight.report.wording import count, listed

Rows = tuple[tuple[str, ...], list[tuple[str, ...]]]


def image_rows(cluster: View, *, mirrored: bool) -> Rows:
    """Return the columns and the rows of a cluster's images."""
    columns = ("Image", "Asked for by", *(("In the mirror",) if mirrored else ()))
    return columns, [_image(each, mirrored=mirrored) for each in cluster["images"]]


def _image(image: View, *, mirrored: bool) -> tuple[str, ...]:
    askers = [f"{each['what']} ({each['value']})" if each["value"] else each["what"] for each in image["askedBy"]]
    return image["reference"], listed(askers, "object"), *(_place(image) if mirrored else ())


def chart_rows(cluster: View, *, mirrored: bool) -> Rows:
    """Return the columns and the rows of a cluster's charts."""
    columns = ("Chart", "From", "Its images", *(("In the mirror",) if mirrored else ()))
    return columns, [_chart(each, mirrored=mirrored) for each in cluster["charts"]]


def _chart(chart: View, *, mirrored: bool) -> tuple[str, ...]:
    name = f"{chart['name']} {chart['version'] or '(version not known)'}"
    how = f"read {chart['asOf']}" if chart["images"] == "read" else chart["images"]
    return name, chart["repository"] or "not known", how, *(_place(chart) if mirrored else ())


def _place(each: View) -> tuple[str]:
    return (each["target"] or f"not copied: {each['notCopied']}",)


def addon_lines(cluster: View) -> Iterator[str]:
    """Yield what is said of the add-ons of a cluster."""
    if cluster["addons"]:
        names = [each["name"] for each in cluster["addons"]]
        yield f"Add-ons {', '.join(names)}: {cluster['addons'][0]['images']}."


def images_summary(view: View) -> str:
    """Return how much is pulled, in one line."""
    images = len({each["reference"] for one in view["clusters"] for each in one["images"]})
    charts = len({(each["name"], each["version"]) for one in view["clusters"] for each in one["charts"]})
    missing = sum(len(each["notKnown"]) for each in view["clusters"]) + len(view["unread"])
    told = f"{count(images, 'image')} and {count(charts, 'chart')} in {count(len(view['clusters']), 'cluster')}"
    return f"{told}; {missing} not known" if missing else told


def mirror_lines(view: View) -> Iterator[str]:
    """Yield what charts and nodes are to be told of the mirror."""
    mirror = view["mirror"]
    if mirror is None:
        return
    yield f"Charts: the context key gpu-constructs:chartMirror is {mirror['chartMirror']}"
    if mirror["ecrRegion"]:
        yield "Images: name them in the mirror by image= and values=; nodes do not take ECR as a mirror of others"
    elif mirror["registryMirrors"]:
        said = ", ".join(f'"{name}": "{address}"' for name, address in mirror["registryMirrors"].items())
        yield f"Images: Host(registry_mirrors={{{said}}})"
