"""Charts in folders, and what they come to."""

from __future__ import annotations

from pathlib import Path

from gpu_facts.light_patterns import regex
from gpu_preflight.reading.documents import UnusableInput, is_hidden, read
from gpu_preflight.reading.objects import Origin, Unread
from gpu_preflight.reading.rendering.chart_schemas import outside_reference
from gpu_preflight.reading.rendering.programs import program
from gpu_preflight.reading.rendering.rendering import MAX_FOLDERS, Rendering
from gpu_preflight.reading.unknown import known_text, mapping

_CHART = "Chart.yaml"
_UNCHECKED = "--skip-schema-validation"
# A name in DNS, as helm asks for; https://kubernetes.io/docs/concepts/overview/working-with-objects/names/ (2026-11).
_RELEASE = regex(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def render_charts(folder: Path, made: Rendering) -> None:
    """Render the charts of a folder."""
    charts: list[Path] = []
    for file in sorted(folder.rglob(_CHART), key=lambda each: len(each.parts)):
        inside = any(each in file.parents for each in charts)
        if not inside and not is_hidden(file, folder) and len(charts) < MAX_FOLDERS:
            charts.append(file.parent)
    for chart in charts:
        _render_chart(chart, made)


def _render_chart(chart: Path, made: Rendering) -> None:
    made.covered |= {each for each in chart.rglob("*") if each.is_file()}
    try:
        content = mapping(next((each.content for each in read(str(chart / _CHART))), {}))
    except UnusableInput as error:
        made.problems.append(Unread(Origin(str(chart), str(chart)), f"its chart cannot be read: {error}"))
        return
    if content.get("type") == "library":
        return
    text, why = helm_template(chart, known_text(content.get("name")) or chart.name, made)
    if text is not None:
        made.texts[str(chart)] = text
    else:
        told = f"its chart is not rendered, because {why}; run helm template, and judge what it prints"
        made.problems.append(Unread(Origin(str(chart), str(chart)), told))


def helm_template(
    chart: Path, release: str, made: Rendering, *, values: Path | None = None, namespace: str | None = None
) -> tuple[str | None, str]:
    """Return what a chart comes to, or else why that is not known.

    Args:
        chart: Its folder.
        release: Name of the release.
        made: How long rendering may take, and what it has come to.
        values: A file of values on top of its own.
        namespace: Namespace of the release.
    """
    helm = program("helm")
    if helm is None:
        return None, "helm is not on PATH"
    said = [*([f"--values={values}"] if values else []), *([f"--namespace={namespace}"] if namespace else [])]
    if not _RELEASE.fullmatch(release):
        return None, f"helm takes no release of the name {release[:100]!r}"
    outside = outside_reference(chart)
    flags = [*said, *([_UNCHECKED] if outside else [])]
    # What the input names stands after the last flag, and is none itself.
    text, why = made.run([helm, "template", "--include-crds", *flags, "--", release, str(chart)])
    if outside is None:
        return text, why
    if text is None:
        old = f"a schema of its values refers to {outside}, which this helm would read; helm 3.16 and newer need not"
        return None, old if _UNCHECKED in why else why
    told = f"its values are not checked against a schema that refers to {outside}, which is not fetched"
    made.problems.append(Unread(Origin(str(chart), str(chart)), told, frozenset()))
    return text, why
