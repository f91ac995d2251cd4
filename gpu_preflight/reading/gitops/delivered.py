"""What an input comes to once Argo CD and Flux have brought in what they find there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from pathlib import Path, PurePosixPath

from gpu_facts.light_dataclasses import dataclass
from gpu_preflight.reading.gitops import argo, flux
from gpu_preflight.reading.gitops.application_sets import applications
from gpu_preflight.reading.gitops.beside import Beside
from gpu_preflight.reading.gitops.broken_deployments import (
    missing_dependency,
    missing_folder,
    missing_source,
    missing_value_files,
)
from gpu_preflight.reading.gitops.deployments import Deployment
from gpu_preflight.reading.gitops.destinations import namespaces, other_clusters
from gpu_preflight.reading.gitops.rendered import NotRendered, has_kustomization, is_chart, rendered
from gpu_preflight.reading.objects import BrokenReference, Chart, Object, Unread
from gpu_preflight.reading.rendering.rendering import Rendering

# Of folders that are rendered for an object of Argo CD or Flux.
_MAX_FOLDERS = 100


@dataclass(slots=True)
class Delivered:
    """What comes into a cluster.

    Attributes:
        objects: The objects, as they are once they are there.
        charts: The charts.
        problems: What is not read, and where that is said.
        broken: References to what doesn't exist.
    """

    objects: list[Object]
    charts: list[Chart] = field(default_factory=list)
    problems: list[Unread] = field(default_factory=list)
    broken: list[BrokenReference] = field(default_factory=list)


def delivered(objects: Iterable[Object], roots: Iterable[Path] = ()) -> Delivered:
    """Return what objects come to, with what Argo CD and Flux change and install.

    Args:
        objects: The objects as they were read.
        roots: Folders that were read, in which paths of a repository are looked up.
    """
    beside = Beside(tuple(roots))
    found = Delivered([])
    for each in objects:
        made, problems = applications(each)
        found.objects += made
        found.problems += problems
    _deploy(found, beside)
    for each in found.objects:
        if argo.is_application(each):
            argo.releases(each, beside, found.charts, found.problems)
        elif flux.is_release(each) and not _is_folder(each, beside):
            flux.release(each, found.objects, found.charts, found.problems)
    found.problems += [one for each in found.objects for one in flux.left_out(each, found.objects, beside)]
    for each in found.objects:
        found.broken += missing_source(each, found.objects)
        found.broken += missing_value_files(each, beside)
        found.broken += missing_dependency(each, found.objects)
    found.problems += other_clusters(found.objects, beside)
    found.objects += namespaces(found.objects)
    return found


def _is_folder(each: Object, beside: Beside) -> bool:
    """Whether the chart of a HelmRelease is a folder that was read."""
    path = flux.chart_path(each)
    return path is not None and beside.folder(path, each) is not None


def _deploy(found: Delivered, beside: Beside) -> None:
    """Put what folders become in the place of what was read there, those that bring others first."""
    done: set[Path] = set()
    made = Rendering()
    folders, elsewhere = _by_folder(found, beside)
    while left := [each for each in folders if each not in done]:
        folder = next((each for each in left if not _is_brought(folders[each], left, each)), left[0])
        if len(done) == _MAX_FOLDERS:
            text = f"folders after the first {_MAX_FOLDERS} are judged as they stand"
            found.problems.append(Unread(folders[folder][0].owner.origin, text))
            break
        done.add(folder)
        if _deploy_folder(folder, folders[folder], found, beside, made):
            # Among what it became there may be objects that bring others.
            folders, elsewhere = _by_folder(found, beside)
    for each in elsewhere:
        found.problems += _elsewhere(each, found.objects)
        found.broken += missing_folder(each, beside)


def _by_folder(found: Delivered, beside: Beside) -> tuple[dict[Path, list[Deployment]], list[Deployment]]:
    """Return what is brought by the folder that it stands in, and that whose folder is not found."""
    folders: dict[Path, list[Deployment]] = {}
    elsewhere: list[Deployment] = []
    for each in _deployments(found.objects, beside):
        folder = beside.folder(each.path, each.owner) if each.owner.origin.resource is None else None
        (elsewhere if folder is None else folders.setdefault(folder, [])).append(each)
    return folders, elsewhere


def _deployments(objects: list[Object], beside: Beside) -> list[Deployment]:
    return [one for each in objects for one in (*argo.deployments(each, beside), *flux.deployments(each, objects))]


def _is_brought(deployments: list[Deployment], left: list[Path], folder: Path) -> bool:
    """Whether what brings a folder stands itself in a folder that is still to be brought."""
    files = [Path(each.owner.origin.file).resolve() for each in deployments]
    return any(other != folder and other in (file, *file.parents) for other in left for file in files)


def _deploy_folder(
    folder: Path, deployments: list[Deployment], found: Delivered, beside: Beside, made: Rendering
) -> bool:
    """Put what a folder becomes in the place of what was read there, and say whether that is something else."""
    paths = {id(each): _path_in(folder, each) for each in found.objects if _stands_in(each, folder)}
    reached = {each for each, path in paths.items() if any(one.files.reach(path) for one in deployments)}
    plain = [each for each in found.objects if id(each) in reached]
    # A file of a subfolder that no other object applies isn't deployed.
    applied = [each for each in _by_folder(found, beside)[0] if each != folder and folder in each.parents]
    lost = {
        id(each)
        for each in found.objects
        if id(each) in paths
        and id(each) not in reached
        and not _is_in(each, applied)
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
            found.problems.append(Unread(each.owner.origin, f"variables of {names} are not read"))
    if [id(each) for each in becomes] == [id(each) for each in plain] and not lost:
        return False
    gone = lost | {id(each) for each in plain}
    place = next((index for index, each in enumerate(found.objects) if id(each) in gone), len(found.objects))
    found.objects = found.objects[:place] + becomes + [each for each in found.objects[place:] if id(each) not in gone]
    return True


def _stands_in(each: Object, folder: Path) -> bool:
    """Whether an object is one of a folder: what its kustomization or chart makes, or else what lies there."""
    if each.origin.resource is not None:
        return False
    file = Path(each.origin.file).resolve()
    return file == folder or (folder in file.parents and not has_kustomization(folder) and not is_chart(folder))


def _is_in(each: Object, folders: Iterable[Path]) -> bool:
    file = Path(each.origin.file).resolve()
    return any(folder in (file, *file.parents) for folder in folders)


def _makes_applications(found: Delivered) -> bool:
    """Whether a set may make applications of folders that only its controller knows."""
    return any(each.kind == "ApplicationSet" for each in found.objects)


def _path_in(folder: Path, each: Object) -> PurePosixPath:
    """Return the path of an object's file from a folder; empty for one that its kustomization or chart makes."""
    return PurePosixPath(Path(each.origin.file).resolve().relative_to(folder))


def _unread(each: Deployment, why: str) -> list[Unread]:
    names = ", ".join(each.changes)
    because = f", because {why}" if why else ""
    text = f"what its {names} change in {each.path} is not read" if names else f"what {each.path} holds is not read"
    return [Unread(each.owner.origin, text + because)]


def _elsewhere(each: Deployment, objects: list[Object]) -> list[Unread]:
    """Return what is told of a folder that is not found."""
    if each.changes:
        return _unread(each, "")
    path = each.path.strip("./")
    if not path or any(f"/{path}/" in f"/{one.origin.file}/" for one in objects):
        return []
    source = f" of {each.source}" if each.source else ""
    return [Unread(each.owner.origin, f"what path {each.path}{source} holds is not among the files that are judged")]
