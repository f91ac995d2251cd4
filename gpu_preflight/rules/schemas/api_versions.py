"""API versions that are gone, or go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from gpu_facts.api_versions import GONE, Gone
from gpu_facts.charts import KARPENTER, KEDA
from gpu_facts.kubernetes_support import is_ended
from gpu_facts.refusals import did_you_mean
from gpu_facts.schemas import KUBERNETES, SchemaSource, sources
from gpu_preflight.case import Case
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.node.nodes import minor
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import is_expression, known_text
from gpu_preflight.rules.rule import Problem, rule
from gpu_preflight.schema.fault import is_typo_of

_GUIDE = "https://kubernetes.io/docs/reference/using-api/deprecation-guide/"
_CHARTS = {"Karpenter": KARPENTER, "KEDA": KEDA}
# Of whose groups every kind that people write is known.
_WHOLE = (KUBERNETES, "Karpenter")
# Told by rules of their own, which know from which version on.
_ELSEWHERE = ("autoscaling", "resource.k8s.io")


@rule("GPU303", "error", source=_GUIDE)
def api_version_that_is_gone(case: Case) -> Iterator[Problem]:
    """API version or kind that is gone.

    The API server knows no such kind and refuses the object; what it was for does not happen.

    Fix: Write the object in the version that is served.
    """
    for each in case.cluster.objects:
        for text, unknown in _faults(each, case.cluster):
            for subject in case.cluster.parts_of(each):
                yield Problem(subject, f"{each.origin.path}: {text}", unknown=unknown)


def _faults(each: Object, cluster: Cluster) -> Iterator[tuple[str, bool]]:
    """Yield why no API server takes an object, and whether that is not certain."""
    version = known_text(each.content.get("apiVersion"))
    if version is None:
        return
    gone = GONE.get((version, each.kind))
    if gone is not None:
        yield from _gone(version, gone, cluster)
    elif each.group not in _ELSEWHERE:
        yield from _unknown(each, version)


def _gone(version: str, gone: Gone, cluster: Cluster) -> Iterator[tuple[str, bool]]:
    runs = _version_of(gone.of, cluster)
    if runs is None or runs >= minor(gone.since):
        instead = f"; write {gone.now}" if gone.now else ""
        yield f"{version} is gone since {gone.of} {gone.since}{instead}", runs is None and not is_ended(gone.until)


def _version_of(program: str, cluster: Cluster) -> tuple[int, int] | None:
    """Return the minor version of a program, ``None`` where it is not known."""
    if program not in _CHARTS:
        return minor(cluster.version) if cluster.version else None
    chart = cluster.chart(_CHARTS[program])
    return minor(chart.version) if chart is not None and chart.version else None


def _unknown(each: Object, version: str) -> Iterator[tuple[str, bool]]:
    """Yield that nobody is known to serve a kind in a version, where others of its group are known."""
    known = _of_group().get(each.group, ())
    if not known and _is_own(each, version):
        yield f"{version} is of no API group of Kubernetes{did_you_mean(each.group, _own_groups())}", False
    if not known or f"{version}/{each.kind}" in known:
        return
    served = [kind.split("/")[-2] for kind in known if kind.endswith(f"/{each.kind}")]
    meant = next((kind for kind in _kinds(known) if is_typo_of(each.kind, kind)), None)
    elsewhere = [kind for kind in _whole() if kind.endswith(f"/{each.kind}")] if _is_whole(each.group) else []
    if served:
        yield f"{version} is not served; known is {', '.join(served)}", True
    elif meant is not None:
        yield f"{version} has no kind {each.kind}; did you mean {meant!r}?", False
    elif elsewhere:
        yield f"{version} has no kind {each.kind}; write {elsewhere[0].rpartition('/')[0]}", False


def _is_own(each: Object, version: str) -> bool:
    """Whether only Kubernetes itself could serve a group: others have a domain with a dot.

    Files of programs such as Skaffold have such groups too, and no kinds of Kubernetes.

    Source: kubernetes/apiextensions-apiserver v0.36.1 pkg/apis/apiextensions/validation/validation.go: ``spec.group``
    must be "a domain with at least one dot"
    """
    own = bool(each.group) and "." not in each.group and not is_expression(version)
    return own and each.kind in _kinds(_whole())


@cache
def _own_groups() -> tuple[str, ...]:
    return tuple(each for each in _of_group() if each and "." not in each)


@cache
def _of_group() -> Mapping[str, tuple[str, ...]]:
    """Return every kind of an object that is known, by API group."""
    found: dict[str, list[str]] = {}
    for source in sources():
        for kind in source.kinds:
            version = kind.rpartition("/")[0]
            if "::" not in kind and version != "chart":
                found.setdefault(version.rpartition("/")[0], []).append(kind)
    return {group: tuple(kinds) for group, kinds in found.items()}


@cache
def _whole() -> tuple[str, ...]:
    """Return the kinds of those whose groups are known whole."""
    return tuple(kind for source in sources() if source.name in _WHOLE for kind in source.kinds)


def _is_whole(group: str) -> bool:
    return any(kind.rpartition("/")[0].rpartition("/")[0] == group for kind in _whole())


def _kinds(known: Iterable[str]) -> list[str]:
    return sorted({kind.rpartition("/")[2] for kind in known})


@rule("GPU304", "note", source=_GUIDE)
def api_version_that_goes(case: Case) -> Iterator[Problem]:
    """API version that its project takes away.

    It is served still, with a warning; a later release does not serve it.

    Fix: Write the object in the newest version before the upgrade.
    """
    for each in case.cluster.objects:
        kind = f"{each.content.get('apiVersion')}/{each.kind}"
        for source in sources():
            if kind in source.deprecated:
                goes = each.content.get("apiVersion")
                text = f"{each.origin.path}: {source.name} keeps {_newest(source, each)}, and serves {goes} for a while"
                yield Problem(each, text)


def _newest(source: SchemaSource, each: Object) -> str:
    """Return the version of a kind that its project keeps."""
    kept = [kind for kind in source.kinds if kind.endswith(f"/{each.kind}") and kind not in source.deprecated]
    return kept[-1].rpartition("/")[0] if kept else "none"
