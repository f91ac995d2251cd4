"""References of Applications, Kustomizations and HelmReleases to folders, files and sources that don't exist."""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import normpath

from gpu_facts.refusals import did_you_mean, near
from gpu_preflight.reading.gitops import argo
from gpu_preflight.reading.gitops.beside import Beside
from gpu_preflight.reading.gitops.deployments import Deployment
from gpu_preflight.reading.objects import BrokenReference, Object
from gpu_preflight.reading.unknown import dig, is_expression, items, known_text, mapping, mappings

_SOURCES = "source.toolkit.fluxcd.io"
_FLUX = ("kustomize.toolkit.fluxcd.io", "helm.toolkit.fluxcd.io")
# The source that `flux bootstrap` creates next to the files that it reads.
_OF_FLUX = "flux-system"


def missing_folder(each: Deployment, beside: Beside) -> Iterator[BrokenReference]:
    """Yield a path of an Application or Kustomization that doesn't exist, where the folder around it does.

    The input may hold another repository than the path is in, so that the folder around it shows which is meant.
    """
    path = normpath(each.path).strip("/")
    above, _, name = path.rpartition("/")
    if is_expression(each.path) or "*" in path or name in ("", ".", ".."):
        return
    if each.owner.origin.resource is not None:
        return
    around = [beside.folder(above, each.owner)] if above else list(beside.roots)
    known = [one.name for place in around if place is not None for one in place.iterdir() if one.is_dir()]
    # At the top of a repository, only a similar name shows that it is this one.
    if not known or (not above and near(name, known) is None):
        return
    text = f"{each.owner.kind} {each.owner.namespace}/{each.owner.name}: path {each.path} doesn't exist"
    yield BrokenReference(each.owner.origin, f"{text}{did_you_mean(name, known)}", unsure=True)


def missing_source(each: Object, every: list[Object]) -> Iterator[BrokenReference]:
    """Yield a source that a Kustomization or HelmRelease of Flux names and that no object is, where others are."""
    if each.group not in _FLUX:
        return
    reference = mapping(each.spec.get("sourceRef") or dig(each.spec, "chart", "spec", "sourceRef"))
    kind, name = known_text(reference.get("kind")), known_text(reference.get("name"))
    alike = [one for one in every if one.group == _SOURCES]
    if kind is None or name is None or name == _OF_FLUX or is_expression(name) or not alike:
        return
    space = known_text(reference.get("namespace")) or each.namespace
    named = [one for one in alike if one.kind == kind and one.name == name]
    if any(one.namespace == space for one in named):
        return
    text = f"{each.kind} {each.namespace}/{each.name}: sourceRef names {kind} {space}/{name}, which isn't in the input"
    if named:
        text += f"; it is in namespace {named[0].namespace}"
    known = [one.name for one in alike if one.kind == kind]
    yield BrokenReference(each.origin, f"{text}{did_you_mean(name, known) if not named else ''}", unsure=True)


def missing_dependency(each: Object, every: list[Object]) -> Iterator[BrokenReference]:
    """Yield what an object of Flux depends on, or a project of an Application, that isn't there although others are.

    Flux waits for the dependency, and Argo CD rejects the Application, until it exists.
    """
    if each.group in _FLUX:
        alike = [one for one in every if (one.group, one.kind) == (each.group, each.kind) and one is not each]
        for depends in mappings(each.spec.get("dependsOn")):
            name, space = known_text(depends.get("name")), known_text(depends.get("namespace")) or each.namespace
            found = any((one.namespace, one.name) == (space, name) for one in alike)
            if name is not None and alike and not found and not is_expression(name):
                who = f"{each.kind} {each.namespace}/{each.name}"
                text = f"{who}: dependsOn names {space}/{name}, which isn't in the input"
                yield BrokenReference(each.origin, text + did_you_mean(name, [one.name for one in alike]), unsure=True)
    elif argo.is_application(each):
        projects = [one.name for one in every if one.group == argo.GROUP and one.kind == "AppProject"]
        name = known_text(argo.spec_of(each).get("project"))
        if projects and name not in (None, "", "default", *projects) and not is_expression(str(name)):
            text = f"{each.kind} {each.namespace}/{each.name}: project {name} isn't in the input"
            yield BrokenReference(each.origin, text + did_you_mean(str(name), projects), unsure=True)


def missing_value_files(each: Object, beside: Beside) -> Iterator[BrokenReference]:
    """Yield the files of values of an Application that its chart doesn't have, where the chart was read."""
    if not argo.is_application(each):
        return
    spec = argo.spec_of(each)
    sources = [*mappings(spec.get("sources")), mapping(spec.get("source"))]
    references = {f"${one['ref']}" for one in sources if isinstance(one.get("ref"), str)}
    for source in sources:
        for name in map(str, items(mapping(source.get("helm")).get("valueFiles"))):
            reference, _, path_in = name.partition("/")
            above = path_in.rpartition("/")[0]
            # Another repository may hold the file, unless the folder around it is here.
            near_by = reference in references and above and beside.folder(above, each) is not None
            if near_by and not is_expression(path_in) and beside.file(path_in, each) is None:
                text = f"{each.kind} {each.namespace}/{each.name}: file {path_in} of values doesn't exist"
                yield BrokenReference(each.origin, text, unsure=True)
        path, helm = known_text(source.get("path")), mapping(source.get("helm"))
        folder = beside.folder(path, each) if path else None
        if folder is None or not (folder / "Chart.yaml").is_file() or helm.get("ignoreMissingValueFiles") is True:
            continue
        for name in map(str, items(helm.get("valueFiles"))):
            if name.startswith("$") or "://" in name or is_expression(name) or "*" in name:
                continue
            if beside.file(name if name.startswith("/") else f"{path}/{name}", each) is None:
                text = f"{each.kind} {each.namespace}/{each.name}: chart {path} has no file {name} of values"
                # A path that leaves the chart may lead out of the input.
                yield BrokenReference(each.origin, text, unsure=".." in name or name.startswith("/"))
