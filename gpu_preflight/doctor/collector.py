"""Reads from a cluster what a question needs, in pages, and writes it as a dump.

Only GET requests of objects and lists are made. Secrets aren't read. Environment values, and annotations with the last
applied manifest, are removed before anything is kept.

Sources: https://kubernetes.io/docs/reference/using-api/api-concepts/ for pages, selectors and discovery (2026-11)
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gpu_facts.doctor_reads import CONFIG_MAPS, RESOURCES
from gpu_facts.kubernetes import KUBE_SYSTEM
from gpu_facts.labels import KUEUE_DOMAIN
from gpu_facts.today import now
from gpu_preflight.doctor.connection import Api, Refused
from gpu_preflight.doctor.dump import (
    LAST_APPLIED,
    OF_THE_POD,
    Dump,
    NotLooked,
    config_map_name,
    newest,
)
from gpu_preflight.reading.objects import Object, parse_objects
from gpu_preflight.reading.unknown import HIDDEN, dig, is_expression, mapping, mappings

PAGE = 500
# Pods that have succeeded hold nothing. The pod in question may be one of them, so it is read by name.
_WITHOUT_SUCCEEDED = {"fieldSelector": "status.phase!=Succeeded"}


class Collector:
    """Reads a cluster.

    Args:
        api: Answers GET requests.
        namespace: Namespace of the pod in question; ``None`` for all namespaces.
        planned: Objects of a plan with which the cluster is compared. Then all namespaces are read, the ConfigMaps of
            the plan too, and the field managers are kept.
    """

    def __init__(self, api: Api, namespace: str | None = None, planned: Iterable[Object] | None = None) -> None:
        self._api, self._namespace, self._compares = api, namespace, planned is not None
        named = (each for each in planned or () if each.kind == "ConfigMap")
        maps = {(each.namespace, each.name) for each in named if not is_expression(each.namespace + each.name)}
        self._maps = sorted({*maps, *((KUBE_SYSTEM, each) for each in CONFIG_MAPS)})
        self._absent: set[str] = set()
        self._lists: dict[str, dict[str, Any]] = {}
        self._errors: dict[str, str] = {}
        self._missing: set[str] = set()
        self._over = ""
        self.at: datetime = now().replace(microsecond=0)

    def collect(self, pod: str | None = None) -> Dump:
        """Return what is known about the pods of the cluster, or about one pod and everything that decides about it."""
        groups = self._groups()
        if pod is not None and self._namespace is not None:
            self._get("pod", f"/api/v1/namespaces/{quote(self._namespace)}/pods/{quote(pod)}")
        for resource in RESOURCES:
            name, _, group = resource.partition(".")
            versions = _GUESSED.get(group, ("v1",)) if groups is None else groups.get(group, ())
            self._list(resource, [_path(name, group, each, self._list_namespace(resource)) for each in versions])
        for namespace, name in self._maps:
            place = "" if namespace == KUBE_SYSTEM else f"{namespace}_"
            self._get(f"configmap-{place}{name}", f"/api/v1/namespaces/{quote(namespace)}/configmaps/{quote(name)}")
        self.at = self._api.time or self.at
        return self.dump()

    def _list_namespace(self, resource: str) -> str | None:
        return self._namespace if resource in OF_THE_POD and not self._compares else None

    def _groups(self) -> dict[str, list[str]] | None:
        """Return the versions of each API group, the preferred one first; ``None`` if they aren't readable."""
        try:
            answer = self._ask("/apis", {})
        except Refused as refused:
            self._errors["apis"] = str(refused)
            return None
        listed = mappings(dig(answer, "groups"))
        if not listed:
            # Each API server has groups.
            self._errors["apis"] = "the answer isn't a list of API groups"
            return None
        found: dict[str, list[str]] = {"": ["v1"]}
        for each in listed:
            every = [each.get("preferredVersion"), *mappings(each.get("versions"))]
            versions = (str(version) for one in every if (version := mapping(one).get("version")))
            found[str(each.get("name"))] = list(dict.fromkeys(versions))
        return found

    def _ask(self, path: str, parameters: Mapping[str, str]) -> Any:
        if self._over:
            raise Refused(self._over)
        try:
            return self._api.get(path, parameters)
        except Refused as refused:
            if refused.is_final:
                self._over = str(refused)
            raise

    def _get(self, name: str, path: str) -> None:
        try:
            self._lists[name] = projected(mapping(self._ask(path, {})), with_managers=self._compares)
        except Refused as refused:
            if refused.status != 404:
                self._errors[name] = str(refused)
            elif name.startswith("configmap-"):
                self._absent.add(name)

    def _list(self, resource: str, paths: Iterable[str]) -> None:
        """Read a list from the first path, one for each version of its group, that the API server has."""
        missing = ""
        for path in paths:
            items: list[Any] = []
            try:
                for page in self._pages(resource, path):
                    items += page
            except Refused as refused:
                if refused.status == 404 and not items:
                    missing = str(refused)
                    continue
                self._errors[resource] = str(refused)
                if items:
                    # A part of the list still shows causes, but not that there is no such object.
                    self._lists[resource] = {**_AS_LIST, "metadata": {"continue": "cut"}, "items": items}
                return
            self._lists[resource] = {**_AS_LIST, "items": items}
            return
        if "apis" in self._errors:
            # The versions are guessed.
            self._errors[resource] = missing
        else:
            # The resource isn't installed, so no such object exists.
            self._missing.add(resource)

    def _pages(self, resource: str, path: str) -> Iterator[list[Any]]:
        """Yield the objects of each page of a list.

        Raises:
            Refused: There is no answer, or it isn't a list.
        """
        parameters = {"limit": str(PAGE), **(_WITHOUT_SUCCEEDED if resource == "pods" else {})}
        while True:
            answer = mapping(self._ask(path, parameters))
            if "items" not in answer or not isinstance(answer["items"], (list, type(None))):
                raise Refused("the answer isn't a list")
            own = {"apiVersion": str(answer.get("apiVersion") or "v1"), "kind": RESOURCES[resource]}
            items = mappings(answer["items"])
            yield [projected({**own, **each}, with_managers=self._compares) for each in items]
            following = dig(answer, "metadata", "continue")
            if not following:
                return
            parameters["continue"] = str(following)

    def dump(self) -> Dump:
        """Return what was read as a dump."""
        found = Dump(at=self.at, namespace="" if self._compares else self._namespace or "")
        found.absent |= {config_map_name(each) for each in self._absent}
        for name, content in sorted(self._lists.items()):
            objects = list(parse_objects(content, name))
            found.objects += objects
            kind = RESOURCES.get(name)
            if kind is not None:
                (found.cut if "metadata" in content else found.complete).add(kind)
        found.unknown_kinds |= {RESOURCES[each] for each in self._missing}
        found.complete |= found.unknown_kinds
        found.objects = newest(found.objects)
        found.refused += [NotLooked(name, why) for name, why in self._errors.items()]
        return found

    def record(self, file: str, answers: Mapping[str, Any], refused: Iterable[NotLooked] = ()) -> None:
        """Write what was read to a zip file, one file per resource, in the form that `read_dump` reads.

        Args:
            file: The zip file.
            answers: Answers of AWS, each with a name.
            refused: Calls of AWS without an answer.
        """
        with zipfile.ZipFile(Path(file), "w", zipfile.ZIP_DEFLATED) as written:
            written.writestr("time.txt", self.at.astimezone(timezone.utc).isoformat())
            for name, content in (*self._lists.items(), *answers.items()):
                written.writestr(f"{name}.json", json.dumps(content, indent=1) + "\n")
            if self._namespace and not self._compares:
                written.writestr("namespace.txt", self._namespace)
            for name in self._missing:
                written.writestr(f"{name}.err", f"error: the server doesn't have a resource type {name}\n")
            errors = [*self._errors.items(), *((each.what, each.why) for each in refused)]
            for name, why in (*errors, *((each, "NotFound") for each in sorted(self._absent))):
                written.writestr(f"{name}.err", why + "\n")


_AS_LIST = {"apiVersion": "v1", "kind": "List"}
# The versions of groups without a version v1 of all resources, if the API server doesn't list its groups.
_GUESSED = {
    # The status of v1 has no conditions.
    "autoscaling": ("v2",),
    "resource.k8s.io": ("v1", "v1beta2", "v1beta1"),
    KUEUE_DOMAIN: ("v1beta2", "v1beta1"),
    "jobset.x-k8s.io": ("v1alpha2",),
    "keda.sh": ("v1alpha1",),
    # Queues and PodGroups have different versions.
    "scheduling.run.ai": ("v2", "v2alpha2"),
}


def _path(name: str, group: str, version: str, namespace: str | None) -> str:
    start = f"/apis/{group}/{version}" if group else f"/api/{version}"
    return f"{start}/namespaces/{quote(namespace)}/{name}" if namespace else f"{start}/{name}"


def projected(content: dict[str, Any], *, with_managers: bool = False) -> dict[str, Any]:
    """Return an object without parts that no cause reads, and without values that may be secret.

    Args:
        content: The object.
        with_managers: Whether to keep the managers of its fields. They have names of fields, and no values.
    """
    written = mapping(content.get("metadata"))
    metadata = {key: value for key, value in written.items() if with_managers or key != "managedFields"}
    if LAST_APPLIED in mapping(metadata.get("annotations")):
        metadata["annotations"] = {k: v for k, v in metadata["annotations"].items() if k != LAST_APPLIED}
    found = {**content, "metadata": metadata}
    if content.get("kind") == "Node":
        status = mapping(content.get("status"))
        found["status"] = {
            key: value for key, value in status.items() if key not in ("images", "volumesAttached", "volumesInUse")
        }
    if content.get("kind") == "Secret":
        return {key: found[key] for key in ("apiVersion", "kind", "metadata") if key in found}
    without: dict[str, Any] = _without_environment(found)
    return without


def _without_environment(value: Any) -> Any:
    """Return a value in which each literal of an environment variable is hidden."""
    if isinstance(value, list):
        return [_without_environment(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {key: _without_environment(each) for key, each in value.items()}
    if isinstance(value.get("env"), list):
        found["env"] = [{**each, "value": HIDDEN} if "value" in each else each for each in mappings(value["env"])]
    return found
