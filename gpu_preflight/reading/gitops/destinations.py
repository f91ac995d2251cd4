"""Where Applications of Argo CD bring what they hold: the cluster, and the namespace that Argo CD makes there.

Sources: argoproj/argo-cd v3.2 docs/user-guide/sync-options.md (Namespace Metadata),
manifests/crds/application-crd.yaml (2026-11)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from gpu_preflight.reading.gitops import argo
from gpu_preflight.reading.gitops.beside import Beside
from gpu_preflight.reading.objects import Object, Unread
from gpu_preflight.reading.unknown import dig, is_expression, items, known_text, mapping

# The cluster that Argo CD runs in, by its address and by its name.
_OWN = "https://kubernetes.default.svc"
_OWN_NAME = "in-cluster"
_CREATES = "CreateNamespace=true"


def namespaces(objects: Iterable[Object]) -> list[Object]:
    """Return the namespaces that Argo CD makes with labels; one that is written has what is written there."""
    listed = list(objects)
    written = {each.name for each in listed if each.kind == "Namespace"}
    made: dict[str, Object] = {}
    for each in filter(argo.is_application, listed):
        policy = mapping(argo.spec_of(each).get("syncPolicy"))
        metadata = mapping(policy.get("managedNamespaceMetadata"))
        name = known_text(dig(argo.spec_of(each), "destination", "namespace"))
        if name and name not in written and metadata and _CREATES in items(policy.get("syncOptions")):
            labels = {**(made[name].labels if name in made else {}), **mapping(metadata.get("labels"))}
            content = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
            made[name] = Object(content, each.origin, each.cluster)
    return list(made.values())


def other_clusters(objects: Iterable[Object], beside: Beside) -> Iterator[Unread]:
    """Yield the Applications that bring something into another cluster than the first one does."""
    listed = list(objects)
    first = ""
    for each in filter(argo.is_application, listed):
        place = "" if _brings_applications(each, listed, beside) else _destination(each)
        first = first or place
        if place and place != first:
            text = f"it installs into cluster {place}, others into {first}, and all is judged as one cluster"
            yield Unread(each.origin, text)


def _destination(application: Object) -> str:
    """Return how an Application calls its cluster; empty where that is not known."""
    said = mapping(argo.spec_of(application).get("destination"))
    called = known_text(said.get("name")) or known_text(said.get("server")) or ""
    if is_expression(called):
        return ""
    return _OWN_NAME if called.rstrip("/") == _OWN else called


def _brings_applications(each: Object, objects: Iterable[Object], beside: Beside) -> bool:
    """Whether what an Application brings are Applications, which name clusters of their own."""
    folders = {beside.folder(one.path, one.owner) for one in argo.deployments(each, beside)} - {None}
    files = (Path(one.origin.file).resolve() for one in objects if one is not each and argo.is_application(one))
    return any(folder in (file, *file.parents) for file in files for folder in folders)
