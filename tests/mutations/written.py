"""An input as its author wrote it, and short ways to change a field of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpu_preflight.reading.documents import parse

Step = str | int
_OF_ITS_OWN = ("Pod",)
_NESTED = {
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "JobSet": ("spec", "replicatedJobs", 0, "template", "spec", "template"),
}
_RUNS = ("Deployment", "StatefulSet", "ReplicaSet", "Job", "CronJob", "JobSet", "Pod")


@dataclass(slots=True)
class Written:
    """The documents of a file.

    Attributes:
        documents: Templates and Kubernetes objects, as they are parsed.
    """

    documents: list[Any]

    @classmethod
    def of(cls, text: str) -> Written:
        """Return the documents of a text, each on its own."""
        return cls([each.content for each in parse("input.yaml", text)])

    def objects(self, *kinds: str) -> list[Any]:
        """Return the Kubernetes objects of some kinds."""
        return [each for each in self.documents if isinstance(each, dict) and each.get("kind") in kinds]

    def resources(self, kind: str) -> list[Any]:
        """Return the properties of a template's resources of a type."""
        return [each.setdefault("Properties", {}) for _, each in self._resources(kind)]

    def named_resources(self, kind: str) -> list[tuple[str, Any]]:
        """Return them with their logical ids."""
        return [(name, each.setdefault("Properties", {})) for name, each in self._resources(kind)]

    def _resources(self, kind: str) -> Iterator[tuple[str, Any]]:
        for template in self.templates:
            for name, each in template["Resources"].items():
                if isinstance(each, dict) and each.get("Type") == kind:
                    yield name, each

    @property
    def templates(self) -> list[Any]:
        """The CloudFormation templates."""
        return [each for each in self.documents if isinstance(each, dict) and isinstance(each.get("Resources"), dict)]

    def remove(self, kind: str) -> bool:
        """Remove the first object of a kind, or the first resource of a type."""
        for each in self.objects(kind):
            self.documents.remove(each)
            return True
        for template in self.templates:
            for name, each in list(template["Resources"].items()):
                if each.get("Type") == kind:
                    del template["Resources"][name]
                    return True
        return False

    @property
    def gpu_workloads(self) -> list[Any]:
        """The objects whose pods ask for GPUs by an extended resource."""
        return [each for each in self.objects(*_RUNS) if any(map(asks_for_gpu, containers(each)))]


def pod(each: Any) -> Any:
    """Return the pod of an object: the mapping with its ``metadata`` and ``spec``."""
    if each["kind"] in _OF_ITS_OWN:
        return each
    return look(each, *_NESTED.get(each["kind"], ("spec", "template"))) or {}


def containers(each: Any) -> list[Any]:
    """Return the containers of an object's pods."""
    return look(pod(each), "spec", "containers") or []


def asks_for_gpu(container: Any) -> bool:
    """Whether a container has a limit on GPUs."""
    limits = look(container, "resources", "limits") or {}
    return any(name.startswith("nvidia.com/") for name in limits)


def look(value: Any, *path: Step) -> Any:
    """Return the value at a path, ``None`` if there is none."""
    for step in path:
        within = step in value if isinstance(value, dict) else isinstance(value, list) and step in range(len(value))
        if not within:
            return None
        value = value[step]
    return value


def put(value: Any, *path: Step, to: Any) -> bool:
    """Write a field of a mapping or list that is there; say whether there is one and it was something else."""
    *way, last = path
    place: Any = look(value, *way)
    if not isinstance(place, dict) and look(place, last) is None:
        return False
    if look(place, last) == to:
        return False
    place[last] = to
    return True


def replace(value: Any, *path: Step, to: Any) -> bool:
    """Write a field that is there already."""
    return look(value, *path) is not None and put(value, *path, to=to)


def drop(value: Any, *path: Step) -> bool:
    """Remove a field, and say whether it was there."""
    *way, last = path
    place = look(value, *way)
    if look(place, last) is None:
        return False
    del place[last]
    return True


def swap(value: Any, *path: Step, old: str, new: str) -> bool:
    """Replace a part of a text, and say whether it was there."""
    text = look(value, *path)
    return isinstance(text, str) and old in text and put(value, *path, to=text.replace(old, new))
