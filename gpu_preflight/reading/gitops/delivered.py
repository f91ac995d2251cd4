"""The input after Argo CD and Flux deploy their objects, and the references that they can't deploy.

The module also finds the destination of Applications: the cluster, and the namespace that Argo CD creates.

Sources: argoproj/argo-cd v3.2 docs/user-guide/sync-options.md (Namespace Metadata),
manifests/crds/application-crd.yaml (2026-11)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from pathlib import Path, PurePosixPath
from posixpath import normpath

from gpu_facts.light import dataclass
from gpu_facts.refusals import did_you_mean, near
from gpu_preflight.reading.gitops.applications import (
    GROUP,
    add_argo_charts,
    add_flux_chart,
    application_spec,
    applications,
    argo_deployments,
    flux_deployments,
    helm_release_path,
    is_application,
    is_helm_release,
    unread_flux_parts,
)
from gpu_preflight.reading.gitops.deployments import (
    Beside,
    Deployment,
    NotRendered,
    has_kustomization,
    is_chart,
    rendered,
)
from gpu_preflight.reading.objects import BrokenReference, Chart, Object, Unread
from gpu_preflight.reading.rendering.programs import Rendering
from gpu_preflight.reading.unknown import dig, is_expression, items, known_text, mapping, mappings

# The cluster in which Argo CD runs, by its address and by its name.
_OWN = "https://kubernetes.default.svc"
_OWN_NAME = "in-cluster"
_CREATES = "CreateNamespace=true"
_SOURCES = "source.toolkit.fluxcd.io"
_FLUX = ("kustomize.toolkit.fluxcd.io", "helm.toolkit.fluxcd.io")
# The source that `flux bootstrap` creates next to the files that it reads.
_OF_FLUX = "flux-system"
# Max number of folders that are rendered for objects of Argo CD or Flux.
_MAX_FOLDERS = 100


def namespaces(objects: Iterable[Object]) -> list[Object]:
    """Return the namespaces that Argo CD creates with labels, unless the namespace itself is in the input."""
    listed = list(objects)
    written = {each.name for each in listed if each.kind == "Namespace"}
    made: dict[str, Object] = {}
    for each in filter(is_application, listed):
        policy = mapping(application_spec(each).get("syncPolicy"))
        metadata = mapping(policy.get("managedNamespaceMetadata"))
        name = known_text(dig(application_spec(each), "destination", "namespace"))
        if name and name not in written and metadata and _CREATES in items(policy.get("syncOptions")):
            labels = {**(made[name].labels if name in made else {}), **mapping(metadata.get("labels"))}
            content = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
            made[name] = Object(content, each.origin, each.cluster)
    return list(made.values())


def other_clusters(objects: Iterable[Object], beside: Beside) -> Iterator[Unread]:
    """Yield the Applications that deploy into another cluster than the first one does."""
    listed = list(objects)
    first = ""
    for each in filter(is_application, listed):
        place = "" if _brings_applications(each, listed, beside) else _destination(each)
        first = first or place
        if place and place != first:
            text = f"it deploys to cluster {place}, others to {first}, and all are checked as one cluster"
            yield Unread(each.origin, text)


def _destination(application: Object) -> str:
    """Return the destination cluster in an Application's words; empty if it isn't known."""
    destination = mapping(application_spec(application).get("destination"))
    called = known_text(destination.get("name")) or known_text(destination.get("server")) or ""
    if is_expression(called):
        return ""
    return _OWN_NAME if called.rstrip("/") == _OWN else called


def _brings_applications(each: Object, objects: Iterable[Object], beside: Beside) -> bool:
    """Whether an Application deploys Applications, which have separate destinations."""
    folders = {beside.folder(one.path, one.owner) for one in argo_deployments(each, beside)} - {None}
    files = (Path(one.origin.file).resolve() for one in objects if one is not each and is_application(one))
    return any(folder in (file, *file.parents) for file in files for folder in folders)


def missing_folder(each: Deployment, beside: Beside) -> Iterator[BrokenReference]:
    """Yield a path of an Application or Kustomization that doesn't exist, if its parent folder does.

    The path may be in another repository. The parent folder shows that the input has the right one.
    """
    path = normpath(each.path).strip("/")
    above, _, name = path.rpartition("/")
    if is_expression(each.path) or "*" in path or name in ("", ".", ".."):
        return
    if each.owner.origin.resource is not None:
        return
    around = [beside.folder(above, each.owner)] if above else list(beside.roots)
    known = [one.name for place in around if place is not None for one in place.iterdir() if one.is_dir()]
    # At the top of a repository, only a similar name shows that the input has the right repository.
    if not known or (not above and near(name, known) is None):
        return
    text = f"{each.owner.title}: path {each.path} doesn't exist"
    yield BrokenReference(each.owner.origin, f"{text}{did_you_mean(name, known)}", unsure=True)


def missing_source(each: Object, every: list[Object]) -> Iterator[BrokenReference]:
    """Yield a missing source of a Flux Kustomization or HelmRelease, if the input has other sources."""
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
    text = f"{each.title}: sourceRef names {kind} {space}/{name}, which isn't in the input"
    if named:
        text += f"; it is in namespace {named[0].namespace}"
    known = [one.name for one in alike if one.kind == kind]
    yield BrokenReference(each.origin, f"{text}{did_you_mean(name, known) if not named else ''}", unsure=True)


def missing_dependency(each: Object, every: list[Object]) -> Iterator[BrokenReference]:
    """Yield a missing dependency of a Flux object, or a missing project of an Application, if the input has others.

    Until it exists, Flux waits for the dependency, and Argo CD rejects the Application.
    """
    if each.group in _FLUX:
        alike = [one for one in every if (one.group, one.kind) == (each.group, each.kind) and one is not each]
        for depends in mappings(each.spec.get("dependsOn")):
            name, space = known_text(depends.get("name")), known_text(depends.get("namespace")) or each.namespace
            found = any((one.namespace, one.name) == (space, name) for one in alike)
            if name is not None and alike and not found and not is_expression(name):
                text = f"{each.title}: dependsOn names {space}/{name}, which isn't in the input"
                yield BrokenReference(each.origin, text + did_you_mean(name, [one.name for one in alike]), unsure=True)
    elif is_application(each):
        projects = [one.name for one in every if one.group == GROUP and one.kind == "AppProject"]
        name = known_text(application_spec(each).get("project"))
        if projects and name not in (None, "", "default", *projects) and not is_expression(str(name)):
            text = f"{each.title}: project {name} isn't in the input"
            yield BrokenReference(each.origin, text + did_you_mean(str(name), projects), unsure=True)


def missing_value_files(each: Object, beside: Beside) -> Iterator[BrokenReference]:
    """Yield the values files of an Application that its chart doesn't have, if the chart was read."""
    if not is_application(each):
        return
    spec = application_spec(each)
    sources = [*mappings(spec.get("sources")), mapping(spec.get("source"))]
    references = {f"${one['ref']}" for one in sources if isinstance(one.get("ref"), str)}
    for source in sources:
        for name in map(str, items(mapping(source.get("helm")).get("valueFiles"))):
            reference, _, path_in = name.partition("/")
            above = path_in.rpartition("/")[0]
            # The file may be in another repository, unless its parent folder is in the input.
            near_by = reference in references and above and beside.folder(above, each) is not None
            if near_by and not is_expression(path_in) and beside.file(path_in, each) is None:
                text = f"{each.title}: values file {path_in} doesn't exist"
                yield BrokenReference(each.origin, text, unsure=True)
        path, helm = known_text(source.get("path")), mapping(source.get("helm"))
        folder = beside.folder(path, each) if path else None
        if folder is None or not (folder / "Chart.yaml").is_file() or helm.get("ignoreMissingValueFiles") is True:
            continue
        for name in map(str, items(helm.get("valueFiles"))):
            if name.startswith("$") or "://" in name or is_expression(name) or "*" in name:
                continue
            if beside.file(name if name.startswith("/") else f"{path}/{name}", each) is None:
                text = f"{each.title}: chart {path} has no values file {name}"
                # A path that leaves the chart may point outside the input.
                yield BrokenReference(each.origin, text, unsure=".." in name or name.startswith("/"))


@dataclass(slots=True)
class Delivered:
    """The result of a deployment.

    Attributes:
        objects: The objects after deployment.
        charts: The charts.
        problems: Parts that aren't read, with their places.
        broken: References to targets that don't exist.
    """

    objects: list[Object]
    charts: list[Chart] = field(default_factory=list)
    problems: list[Unread] = field(default_factory=list)
    broken: list[BrokenReference] = field(default_factory=list)


def delivered(objects: Iterable[Object], roots: Iterable[Path] = ()) -> Delivered:
    """Return the objects after Argo CD and Flux apply their changes and charts.

    Args:
        objects: The objects as they were read.
        roots: Folders of the input, in which paths of a repository are searched.
    """
    beside = Beside(tuple(roots))
    found = Delivered([])
    for each in objects:
        made, problems = applications(each)
        found.objects += made
        found.problems += problems
    _deploy(found, beside)
    for each in found.objects:
        if is_application(each):
            add_argo_charts(each, beside, found.charts, found.problems)
        elif is_helm_release(each) and not _is_folder(each, beside):
            add_flux_chart(each, found.objects, found.charts, found.problems)
    found.problems += [one for each in found.objects for one in unread_flux_parts(each, found.objects, beside)]
    for each in found.objects:
        found.broken += missing_source(each, found.objects)
        found.broken += missing_value_files(each, beside)
        found.broken += missing_dependency(each, found.objects)
    found.problems += other_clusters(found.objects, beside)
    found.objects += namespaces(found.objects)
    return found


def _is_folder(each: Object, beside: Beside) -> bool:
    """Whether the chart of a HelmRelease is a folder of the input."""
    path = helm_release_path(each)
    return path is not None and beside.folder(path, each) is not None


def _deploy(found: Delivered, beside: Beside) -> None:
    """Replace the objects that were read from folders by their rendered objects, outer folders first."""
    done: set[Path] = set()
    made = Rendering()
    folders, elsewhere = _group_by_folder(found, beside)
    while left := [each for each in folders if each not in done]:
        folder = next((each for each in left if not _is_brought(folders[each], left, each)), left[0])
        if len(done) == _MAX_FOLDERS:
            text = f"folders after the first {_MAX_FOLDERS} are checked as they are written"
            found.problems.append(Unread(folders[folder][0].owner.origin, text))
            break
        done.add(folder)
        if _deploy_folder(folder, folders[folder], found, beside, made):
            # The rendered objects may include objects that deploy other folders.
            folders, elsewhere = _group_by_folder(found, beside)
    for each in elsewhere:
        found.problems += _elsewhere(each, found.objects)
        found.broken += missing_folder(each, beside)


def _group_by_folder(found: Delivered, beside: Beside) -> tuple[dict[Path, list[Deployment]], list[Deployment]]:
    """Return the deployments by their folder, and the deployments whose folder isn't found."""
    folders: dict[Path, list[Deployment]] = {}
    elsewhere: list[Deployment] = []
    for each in _deployments(found.objects, beside):
        folder = beside.folder(each.path, each.owner) if each.owner.origin.resource is None else None
        (elsewhere if folder is None else folders.setdefault(folder, [])).append(each)
    return folders, elsewhere


def _deployments(objects: list[Object], beside: Beside) -> list[Deployment]:
    return [one for each in objects for one in (*argo_deployments(each, beside), *flux_deployments(each, objects))]


def _is_brought(deployments: list[Deployment], left: list[Path], folder: Path) -> bool:
    """Whether an object that deploys a folder is itself in a folder that isn't deployed yet."""
    files = [Path(each.owner.origin.file).resolve() for each in deployments]
    return any(other != folder and other in (file, *file.parents) for other in left for file in files)


def _deploy_folder(
    folder: Path, deployments: list[Deployment], found: Delivered, beside: Beside, made: Rendering
) -> bool:
    """Replace the objects of a folder by its rendered objects, and return whether they differ."""
    paths = {id(each): _relative_path(folder, each) for each in found.objects if _belongs_to_folder(each, folder)}
    reached = {each for each, path in paths.items() if any(one.files.reach(path) for one in deployments)}
    plain = [each for each in found.objects if id(each) in reached]
    # A file in a subfolder isn't deployed, unless another object applies it.
    applied = [each for each in _group_by_folder(found, beside)[0] if each != folder and folder in each.parents]
    lost = {
        id(each)
        for each in found.objects
        if id(each) in paths
        and id(each) not in reached
        and not _is_under_folders(each, applied)
        and not _makes_applications(found)
    }
    becomes: list[Object] = []
    for each in deployments:
        try:
            becomes += rendered(each, folder, [one for one in plain if each.files.take(paths[id(one)])], beside, made)
        except NotRendered as error:
            becomes += plain
            found.problems += _unread(each, str(error))
        names = ", ".join(each.variables.unread)
        if names:
            found.problems.append(Unread(each.owner.origin, f"variables of {names} aren't read"))
    if [id(each) for each in becomes] == [id(each) for each in plain] and not lost:
        return False
    gone = lost | {id(each) for each in plain}
    place = next((index for index, each in enumerate(found.objects) if id(each) in gone), len(found.objects))
    found.objects = found.objects[:place] + becomes + [each for each in found.objects[place:] if id(each) not in gone]
    return True


def _belongs_to_folder(each: Object, folder: Path) -> bool:
    """Whether an object belongs to a folder: rendered from its kustomization or chart, or else a file in it."""
    if each.origin.resource is not None:
        return False
    file = Path(each.origin.file).resolve()
    return file == folder or (folder in file.parents and not has_kustomization(folder) and not is_chart(folder))


def _is_under_folders(each: Object, folders: Iterable[Path]) -> bool:
    file = Path(each.origin.file).resolve()
    return any(folder in (file, *file.parents) for folder in folders)


def _makes_applications(found: Delivered) -> bool:
    """Whether a set may create Applications for folders that only its controller knows."""
    return any(each.kind == "ApplicationSet" for each in found.objects)


def _relative_path(folder: Path, each: Object) -> PurePosixPath:
    """Return the path of an object's file from a folder; empty if its kustomization or chart renders the object."""
    return PurePosixPath(Path(each.origin.file).resolve().relative_to(folder))


def _unread(each: Deployment, why: str) -> list[Unread]:
    names = ", ".join(each.changes)
    because = f", because {why}" if why else ""
    text = f"changes to {each.path} by its {names} aren't read" if names else f"{each.path} isn't read"
    return [Unread(each.owner.origin, text + because)]


def _elsewhere(each: Deployment, objects: list[Object]) -> list[Unread]:
    """Return the unread parts for a folder that isn't found."""
    if each.changes:
        return _unread(each, "")
    path = each.path.strip("./")
    if not path or any(f"/{path}/" in f"/{one.origin.file}/" for one in objects):
        return []
    source = f" of {each.source}" if each.source else ""
    return [Unread(each.owner.origin, f"path {each.path}{source} isn't in the input")]
