"""The line of an app's own code that created a construct, from the stack traces that CDK writes into its assembly.

CDK 2.275 writes a trace of each resource and stack as metadata ``aws:cdk:creationStack``, older versions as ``trace``
of ``aws:cdk:logicalId``. An app in Python has its own frames there only with ``JSII_HOST_STACK_TRACES=1``. An app in
TypeScript always has traces, but only of the 10 innermost frames.

Source: aws-cdk-lib 2.275.0 core/lib/private/stack-trace.js, core/lib/cfn-element.js (2026-11)
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpu_facts.light import dataclass, regex
from gpu_preflight.reading.documents import UnusableInput, read, read_text
from gpu_preflight.reading.inputs import assembly_manifest, file_inside
from gpu_preflight.reading.objects import Origin, Position
from gpu_preflight.reading.unknown import items, mapping, mappings

HINT = "For lines of your code, synthesize with JSII_HOST_STACK_TRACES=1 (TypeScript: --stack-trace-limit=100)."
# The end of a frame: <module> (/src/app.py:9), new Pool (/src/lib/pool.ts:12:5), /src/bin/app.js:5:1
_LINE = regex(r":([1-9][0-9]{0,7})(?::([1-9][0-9]{0,4}))?\)?$")
# Not the user's own: installed packages, and what belongs to Python, Node.js and jsii.
_FOREIGN = regex(
    r"(?:^|[/\\])(?:site-packages|dist-packages|node_modules|jsii-kernel-\w+|lib[/\\]python3[\d.]*)[/\\]|^(?:node:|internal/|<)"
)
# This library, where it isn't installed but runs from a checkout.
_OWN = tuple(str(Path(__file__).parents[2] / name) + os.sep for name in ("gpu_constructs", "gpu_facts"))
_NESTED = ".nested.template.json"
_SYNTH = regex(r"\bsynth\(")


@dataclass(frozen=True, slots=True)
class _Assembly:
    """What the metadata of an assembly says of its constructs.

    Attributes:
        traces: Frames of the stack trace by construct path, the innermost first.
        paths: Construct paths by logical id, by file of the stack's template.
    """

    traces: dict[str, tuple[str, ...]]
    paths: dict[str, dict[str, str]]

    def find_path(self, origin: Origin) -> str | None:
        """Return the construct path of an origin; ``None`` where there is none, or several may be meant."""
        file, logical_id = Path(origin.file).name, (origin.resource or "").rpartition("/")[2]
        # The constructs of a nested stack are among those of the stack around it.
        stacks = list(self.paths.values()) if file.endswith(_NESTED) else [self.paths.get(file, {})]
        named = {each[logical_id] for each in stacks if logical_id in each}
        own = [each for each in (f"/{origin.path}/Resource", f"/{origin.path}") if any(stacks) and each in self.traces]
        return own[0] if own else named.pop() if len(named) == 1 else None


class CreationStacks:
    """Finds the code that created the constructs of assemblies. The metadata of each assembly is read once.

    Attributes:
        is_incomplete: Whether a construct was asked for whose trace has no frame of the app.
    """

    def __init__(self) -> None:
        """Begin without an assembly."""
        self.is_incomplete = False
        self._assemblies: dict[Path, _Assembly] = {}
        self._lines: dict[str, list[str]] = {}

    def has_assembly(self, file: str) -> bool:
        """Whether a file is in an assembly with metadata of its constructs."""
        return bool(self._assembly(file).traces)

    def _assembly(self, file: str) -> _Assembly:
        folder = Path(file).parent
        if folder not in self._assemblies:
            self._assemblies[folder] = _read(folder)
        return self._assemblies[folder]

    def find(self, origin: Origin) -> Position | None:
        """Return the line of code that created what is at an origin; ``None`` where that isn't known."""
        assembly = self._assembly(origin.file)
        path = assembly.find_path(origin)
        if path is None:
            return None
        above = path
        while above:
            frame = next(_own_frames(assembly.traces.get(above, ())), None)
            # What CDK adds while it synthesizes belongs to the construct around it.
            if frame is not None and not self._is_synth(frame):
                return Position(_relative(frame.file), frame.line, frame.column)
            above = above.rpartition("/")[0]
        self.is_incomplete = True
        return None

    def _is_synth(self, frame: Position) -> bool:
        if frame.file not in self._lines:
            try:
                self._lines[frame.file] = read_text(Path(frame.file)).split("\n") if Path(frame.file).is_file() else []
            except (UnusableInput, OSError, ValueError):
                self._lines[frame.file] = []
        return any(map(_SYNTH.search, self._lines[frame.file][frame.line - 1 : frame.line]))


def _own_frames(trace: tuple[str, ...]) -> Iterator[Position]:
    """Yield the frames of an app's own code."""
    for frame in trace:
        if found := _LINE.search(frame):
            function, parenthesis, file = frame[: found.start()].partition(" (")
            file = (file if parenthesis else function.strip().removeprefix("at ")).removeprefix("file://")
            if file and not _FOREIGN.search(file) and not file.startswith(_OWN):
                yield Position(file, int(found[1]), int(found[2]) if found[2] else None)


def _relative(file: str) -> str:
    return os.path.relpath(file) if file.startswith(os.getcwd() + os.sep) else file


def _read(folder: Path) -> _Assembly:
    """Return what the metadata of an assembly says; nothing of what cannot be read."""
    found = _Assembly({}, {})
    try:
        manifest = assembly_manifest(folder) or {}
        for artifact in map(mapping, mapping(manifest.get("artifacts")).values()):
            template = str(mapping(artifact.get("properties")).get("templateFile"))
            metadata = dict(mapping(artifact.get("metadata")))
            if (name := artifact.get("additionalMetadataFile")) is not None:
                for document in read(str(file_inside(folder, name))):
                    metadata |= mapping(document.content)
            for path, entries in metadata.items():
                for entry in mappings(entries):
                    _note(found, template, str(path), entry)
    except (UnusableInput, OSError, ValueError):
        pass
    return found


def _note(found: _Assembly, template: str, path: str, entry: dict[str, Any]) -> None:
    kind, data = entry.get("type"), entry.get("data")
    if kind == "aws:cdk:logicalId":
        found.paths.setdefault(template, {})[str(data)] = path
        found.traces.setdefault(path, _frames(entry.get("trace")))
    elif kind == "aws:cdk:creationStack":
        found.traces[path] = _frames(data)


def _frames(trace: Any) -> tuple[str, ...]:
    return tuple(each for each in items(trace) if isinstance(each, str))
