"""Objects that the API server does not take as they are meant: two of one name, or in a namespace that is not there."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.kubernetes import CLUSTER_SCOPED
from gpu_facts.light_dataclasses import dataclass
from gpu_preflight.case import Case
from gpu_preflight.cluster.objects.makers import Makers
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import Unknown, dig, is_expression, known_text, mapping
from gpu_preflight.reading.values import is_partly_unknown
from gpu_preflight.rules.rule import Problem, Subject, rule

_Identity = tuple[str, str, str, str]
_Scope = tuple[str, str]
# What Argo CD and Flux bring may come from one file to several clusters.
_GITOPS = ("argoproj.io", "kustomize.toolkit.fluxcd.io", "helm.toolkit.fluxcd.io")
# Helm deletes an object of a hook before it makes the next of its name.
_HOOK = "helm.sh/hook"


@dataclass(frozen=True, slots=True)
class _Place:
    """A file, without the pools that are made of what stands in it."""

    file: str

    @property
    def origin(self) -> Origin:
        """Where it is."""
        return Origin(self.file, self.file)


@rule("GPU452", "error", source="https://kubernetes.io/docs/concepts/overview/working-with-objects/names/")
def two_objects_of_one_name(case: Case) -> Iterator[Problem]:
    """Two objects of one name.

    They are one object: kubectl apply overwrites one with the other, and who removes one of them deletes it for both.

    Fix: Give one of them another name or namespace, or leave one out.
    """
    cluster = case.cluster
    delivered = any(each.group in _GITOPS for each in cluster.objects)
    known: dict[tuple[_Identity, _Scope], Object] = {}
    for each in cluster.objects:
        if (identity := _identity(each)) is None:
            continue
        firsts = [known.setdefault((identity, scope), each) for scope in _scopes(each, delivered)]
        if (first := next((one for one in firsts if _is_lost(one, each)), None)) is not None:
            for subject in _subjects(each, cluster):
                yield _taken(subject, each, first, cluster)


def _identity(each: Object) -> _Identity | None:
    """Return what tells an object from the others of its cluster; ``None`` where that is not known."""
    metadata = mapping(each.content.get("metadata"))
    name, space = known_text(metadata.get("name")), metadata.get("namespace")
    if not name or isinstance(space, Unknown) or is_expression(f"{space}{name}{each.group}"):
        return None
    return each.group, each.kind, "" if each.kind in CLUSTER_SCOPED else str(space or "default"), name


def _scopes(each: Object, delivered: bool) -> list[_Scope]:
    """Return what an object shares with others that certainly come into its cluster."""
    if each.origin.resource is None:
        return [] if delivered else [("file", each.origin.file)]
    # Stacks of two regions may name clusters alike, but who refers to one means that one.
    referred = [("cluster", each.cluster.expression)] if isinstance(each.cluster, Unknown) else []
    return [("template", each.origin.file), *referred]


def _is_lost(first: Object, each: Object) -> bool:
    """Whether one of two objects of one name is overwritten by the other."""
    if first is each or first.origin.resource != each.origin.resource:
        return first is not each
    hooked = _HOOK in first.annotations or _HOOK in each.annotations
    return not hooked and first.content != each.content


def _subjects(each: Object, cluster: Cluster) -> list[Subject]:
    """Return the workloads that are made of an object, or else the object."""
    if workloads := _workloads(each, cluster):
        return [*workloads]
    # Of two pools that stand at one place one is left.
    pools = each.origin.resource is None and any(isinstance(part, Pool) for part in cluster.parts_of(each))
    return [_Place(each.origin.file) if pools else each]


def _workloads(each: Object, cluster: Cluster) -> list[Workload]:
    return [part for part in cluster.parts_of(each) if isinstance(part, Workload)]


def _taken(subject: Subject, each: Object, first: Object, cluster: Cluster) -> Problem:
    applied = [cluster.resources.get(one.origin.resource or "") for one in (first, each)]
    conditional = any(one is not None and one.conditional for one in applied)
    paths = list(dict.fromkeys(one.path for one in applied if one is not None))
    where = f"{paths[0]} and {paths[1]} both apply it" if len(paths) > 1 else f"stands twice in {_place(first, paths)}"
    # A part that is filled in may be what tells the two apart.
    filled_in = applied[0] is None and any(is_partly_unknown(dict(one.content)) for one in (first, each))
    text = f"{each.origin.path}: {where}, and one overwrites the other"
    return Problem(subject, text, unknown=conditional or filled_in)


def _place(each: Object, paths: list[str]) -> str:
    return paths[0] if paths else each.origin.file.rpartition("/")[2]


@rule("GPU453", "error", source="https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/")
def namespace_that_nothing_makes(case: Case) -> Iterator[Problem]:
    """Namespace that nothing makes.

    A new cluster does not have it, so kubectl apply refuses what goes there and the first deployment fails.

    Fix: Make a Team of that namespace or apply a Namespace before it, or take a namespace that there is.
    """
    cluster = case.cluster
    homeless: dict[str, list[Object]] = {}
    for each in cluster.objects:
        if _is_applied_with_its_cluster(each, cluster) and each.kind not in CLUSTER_SCOPED:
            homeless.setdefault(each.namespace, []).append(each)
    makers = Makers(cluster)
    for namespace, objects in homeless.items():
        answer = makers.of(namespace)
        if answer is Answer.YES or is_expression(namespace):
            continue
        workloads = {id(one): one for each in objects for one in _workloads(each, cluster)}
        unknown = answer is Answer.UNKNOWN or cluster.resource is None or cluster.resource.conditional
        text = f"nothing makes its namespace {namespace} in the new cluster"
        for workload in workloads.values():
            yield Problem.of(workload, text, unknown=unknown)
        if not workloads:
            yield Problem(objects[0], f"{objects[0].kind} {objects[0].name}: {text}", unknown=unknown)


def _is_applied_with_its_cluster(each: Object, cluster: Cluster) -> bool:
    """Whether the deployment that makes a cluster applies an object to it, before anybody can make a namespace."""
    made, applied = cluster.resource, cluster.resources.get(each.origin.resource or "")
    if made is None or applied is None or isinstance(dig(dict(each.content), "metadata", "namespace"), Unknown):
        return False
    return applied.file == made.file
