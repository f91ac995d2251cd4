"""A folder that Argo CD or Flux brings into a cluster, with what it changes there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_constructs.preflight.reading.gitops.substitution import Variables
from gpu_constructs.preflight.reading.objects import Object


@dataclass(frozen=True, slots=True)
class Deployment:
    """A folder of a repository that an object brings into a cluster.

    Attributes:
        owner: The object.
        path: Path of the folder in its repository.
        kustomization: What is added to the kustomization of the folder.
        components: Folders of components, by their paths from the folder.
        variables: What is put into the objects once they are made.
        namespace: Namespace of objects that state none.
        values: Values for the chart that the folder is; ``None`` where it is rendered with its own.
        release: Name of the release of the chart.
        source: Where the repository is, in the words of the object.
        unread: What of the object is not read, in its words.
        needs_kustomization: Whether the folder must have a kustomization of its own for the changes.
    """

    owner: Object
    path: str
    kustomization: Mapping[str, Any] = field(default_factory=dict)
    components: tuple[str, ...] = ()
    variables: Variables = field(default_factory=Variables)
    namespace: str | None = None
    values: Mapping[str, Any] | None = None
    release: str = ""
    source: str = ""
    unread: tuple[str, ...] = ()
    needs_kustomization: bool = False

    @property
    def changes(self) -> tuple[str, ...]:
        """What it changes, in the words of the object."""
        named = [*self.kustomization, *(["components"] if self.components else [])]
        named += ["postBuild"] if self.variables else []
        named += ["helm values"] if self.values is not None else []
        return (*named, *self.unread)
