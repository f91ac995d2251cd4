"""A folder that Argo CD or Flux brings into a cluster, with what it changes there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from gpu_facts.light_dataclasses import dataclass
from gpu_preflight.reading.gitops.substitution import Variables
from gpu_preflight.reading.objects import Object


@dataclass(frozen=True, slots=True)
class Files:
    """Which files of a folder without kustomization and chart are applied.

    Source: argoproj/argo-cd v3.2 docs/user-guide/directory.md, reposerver/repository/repository.go ``findManifests``:
    patterns are those of github.com/gobwas/glob without separators, so that ``*`` also matches ``/`` (2026-11).

    Attributes:
        recursive: Whether files of subfolders are applied.
        include: Pattern of the files that are applied; empty for all.
        exclude: Pattern of the files that aren't.
    """

    recursive: bool = True
    include: str = ""
    exclude: str = ""

    def reach(self, path: PurePosixPath) -> bool:
        """Whether a file, by its path from the folder, is looked at."""
        return self.recursive or len(path.parts) <= 1

    def take(self, path: PurePosixPath) -> bool:
        """Whether a file, by its path from the folder, is applied."""
        if not self.reach(path) or (self.exclude and _matches(self.exclude, path)):
            return False
        return not self.include or not path.parts or _matches(self.include, path)


def _matches(pattern: str, path: PurePosixPath) -> bool:
    return any(fnmatchcase(str(path), each) for each in _without_braces(pattern))


def _without_braces(pattern: str) -> list[str]:
    """Return the patterns that one with ``{a,b}`` stands for."""
    found = re.search(r"\{([^{}]*)\}", pattern)
    if found is None:
        return [pattern]
    before, after = pattern[: found.start()], pattern[found.end() :]
    return [one for each in found[1].split(",") for one in _without_braces(f"{before}{each}{after}")]


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
        files: Which files of a plain folder it applies.
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
    files: Files = Files()
    needs_kustomization: bool = False

    @property
    def changes(self) -> tuple[str, ...]:
        """What it changes, in the words of the object."""
        named = [*self.kustomization, *(["components"] if self.components else [])]
        named += ["postBuild"] if self.variables else []
        named += ["helm values"] if self.values is not None else []
        return (*named, *self.unread)
