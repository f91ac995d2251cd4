"""The line of an app's own code that created a construct, from the stack traces that CDK writes into its assembly.

CDK 2.275 writes a trace of each resource and stack as metadata ``aws:cdk:creationStack``. Older versions write
``trace`` of ``aws:cdk:logicalId``. An app in Python has its own frames there only with ``JSII_HOST_STACK_TRACES=1``. An
app in TypeScript always has traces, but only of the 10 innermost frames.

Source: aws-cdk-lib 2.275.0 core/lib/private/stack-trace.js, core/lib/cfn-element.js (2026-11)
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpu_facts.light import dataclass, regex
from gpu_preflight.reading.construct_paths import MAX_PATH, ConstructPaths
from gpu_preflight.reading.documents import UnusableInput, read, read_text
from gpu_preflight.reading.inputs import assembly_manifest, read_metadata
from gpu_preflight.reading.objects import Origin, Position
from gpu_preflight.reading.unknown import items, mapping

HINT = "For lines of code: JSII_HOST_STACK_TRACES=1 (Python), NODE_OPTIONS=--stack-trace-limit=100 (TypeScript)."
# The end of a frame: <module> (/src/app.py:9), new Pool (/src/lib/pool.ts:12:5), /src/bin/app.js:5:1
_LINE = regex(r":([1-9][0-9]{0,7})(?::([1-9][0-9]{0,4}))?\)?$")
# Code that isn't the user's: installed packages, and files of Python, Node.js and jsii.
_FOREIGN = regex(
    r"(?:^|[/\\])(?:site-packages|dist-packages|node_modules|jsii-kernel-\w+|lib[/\\]python3[\d.]*)[/\\]|^(?:node:|internal/|<)"
)
_SYNTH = regex(r"\bsynth\(")


def own_folders(library: Path) -> tuple[str, ...]:
    """Return the path prefixes of this library's code in a checkout. `_FOREIGN` matches an installed library."""
    return tuple(str(library / name) + os.sep for name in ("gpu_constructs", "gpu_facts"))


# A checkout, e.g. after pip install -e.
_OWN = own_folders(Path(__file__).parents[2])


@dataclass(slots=True)
class _Assembly:
    """Metadata of an assembly about its constructs.

    Attributes:
        traces: Frames of the stack trace by construct path, the innermost first.
        paths: Construct paths by name and by file of the outermost stack.
    """

    traces: dict[str, list[str]] = field(default_factory=dict)
    paths: dict[str, ConstructPaths] = field(default_factory=dict)

    def note(self, paths: ConstructPaths, path: str, entry: dict[str, Any]) -> None:
        """Add an entry from the metadata of a construct in a stack."""
        data, is_trace = entry.get("data"), entry.get("type") == "aws:cdk:creationStack"
        if entry.get("type") == "aws:cdk:logicalId":
            paths.note(str(data), path)
        trace = [each for each in items(data if is_trace else entry.get("trace")) if isinstance(each, str)]
        if is_trace or path not in self.traces:
            self.traces[path] = trace

    def find_path(self, origin: Origin) -> str | None:
        """Return the construct path of a resource; ``None`` if no path, or more than one, matches."""
        stack, _, logical_id = (origin.resource or "").rpartition("/")
        name, *nested = stack.split(".")
        paths = self.paths.get(Path(origin.file).name) or self.paths.get(name)
        return paths.find(logical_id, nested) if paths else None


class CreationStacks:
    """Finds the code that created the constructs of assemblies. The metadata of each assembly is read once.

    Attributes:
        is_incomplete: Whether `find` found a construct whose trace has no frame of the app.
    """

    def __init__(self) -> None:
        """Begin without an assembly."""
        self.is_incomplete = False
        self._assemblies: dict[Path, _Assembly] = {}
        self._line = lru_cache(_line)

    def has_assembly(self, file: str) -> bool:
        """Whether a file is in an assembly with metadata of its constructs."""
        return bool(self._assembly(file).traces)

    def find(self, origin: Origin) -> Position | None:
        """Return the line of code that created the construct at an origin; ``None`` if it isn't known."""
        assembly = self._assembly(origin.file)
        path = above = assembly.find_path(origin)
        while above:
            frame = next(_own_frames(assembly.traces.get(above, ())), None)
            # Constructs that CDK adds during synthesis belong to the construct around them.
            if frame is not None and not _SYNTH.search(self._line(frame)):
                return frame
            above = above.rpartition("/")[0]
        self.is_incomplete |= path is not None
        return None

    def _assembly(self, file: str) -> _Assembly:
        folder = Path(file).parent
        if folder not in self._assemblies:
            self._assemblies[folder] = _read(folder)
        return self._assemblies[folder]


def _own_frames(trace: Iterable[str]) -> Iterator[Position]:
    """Yield the frames of an app's own code."""
    for frame in trace:
        if found := _LINE.search(frame):
            function, parenthesis, file = frame[: found.start()].partition(" (")
            file = (file if parenthesis else function.strip().removeprefix("at ")).removeprefix("file://")
            if file and not _FOREIGN.search(file) and not file.startswith(_OWN):
                file = os.path.relpath(file) if file.startswith(os.getcwd() + os.sep) else file
                yield Position(file, int(found[1]), int(found[2]) if found[2] else None)


def _line(frame: Position) -> str:
    """Return the line of code of a frame; empty if its file doesn't exist."""
    try:
        lines = read_text(Path(frame.file)).split("\n") if Path(frame.file).is_file() else []
    except (UnusableInput, OSError, ValueError):
        lines = []
    return "".join(lines[frame.line - 1 : frame.line])


def _read(folder: Path) -> _Assembly:
    """Return the metadata of an assembly, as far as it can be read."""
    found = _Assembly()
    try:
        artifacts = mapping((assembly_manifest(folder) or {}).get("artifacts"))
        for name, artifact in artifacts.items():
            properties = mapping(mapping(artifact).get("properties"))
            paths = ConstructPaths()
            for path, entry in read_metadata(folder, mapping(artifact), read):
                if len(path) <= MAX_PATH:
                    found.note(paths, path, entry)
            found.paths |= {
                str(properties.get("templateFile")): paths,
                str(properties.get("stackName") or name): paths,
            }
    except (UnusableInput, OSError, ValueError):
        pass
    return found
