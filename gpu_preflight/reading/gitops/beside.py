"""Paths of a repository, looked up in the folders that were read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath

from gpu_facts.light_dataclasses import dataclass
from gpu_preflight.reading.objects import Object


@dataclass(frozen=True, slots=True)
class Beside:
    """What lies beside the objects of an input.

    Attributes:
        roots: The folders that were read. Nothing outside of them is.
    """

    roots: tuple[Path, ...] = ()

    def folder(self, path: str, owner: Object) -> Path | None:
        """Return the folder of a path, ``None`` where it is not there or where only the repository tells."""
        return self._place(path, owner, Path.is_dir)

    def file(self, path: str, owner: Object) -> Path | None:
        """Return the file of a path, ``None`` where it is not there."""
        return self._place(path, owner, Path.is_file)

    def holds(self, place: Path) -> bool:
        """Whether a folder lies in what was read."""
        return place.is_dir() and any(root.resolve() in (place, *place.parents) for root in self.roots)

    def _place(self, path: str, owner: Object, is_there: Callable[[Path], bool]) -> Path | None:
        parts = [each for each in PurePosixPath(normpath(path)).parts if each not in ("/", "//", ".")]
        if not parts or ".." in parts:
            return None
        try:
            return next((place for each in self._tops(owner) if is_there(place := self._inside(each, parts))), None)
        except (OSError, ValueError, RuntimeError):
            # No path can have such a name, or a link leads to itself.
            return None

    def _inside(self, top: Path, parts: list[str]) -> Path:
        """Return a path below the top of a repository; one that leads out of what was read is no path."""
        place = top.joinpath(*parts).resolve()
        inside = any(root.resolve() in (place, *place.parents) for root in self.roots)
        return place if inside else Path("/", "\0")

    def _tops(self, owner: Object) -> Iterator[Path]:
        """Yield where the repository may begin: above the object, the outermost first, or else where reading began."""
        around = Path(owner.origin.file).resolve()
        if any(root.resolve() in around.parents for root in self.roots):
            yield from reversed(around.parents)
        yield from (root.resolve() for root in self.roots)
