"""Reads JSON and YAML of bounded size, depth and expansion; nothing in them is executed or fetched."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

_MIB = 1024**2
MAX_FILE_BYTES = 16 * _MIB
MAX_NODES = 1_000_000
MAX_DEPTH = 200
MAX_FILES = 20_000
_SUFFIXES = (".yaml", ".yml", ".json", ".template")
# Of an assembly, files that are neither template nor manifest and may be large.
_NOT_INPUT = ("tree.json", "manifest.json", "validation-report.json", "package.json", "package-lock.json")
STDIN = "-"


class UnusableInput(ValueError):
    """A file or folder that cannot be judged, with one line that says why."""


@dataclass(frozen=True, slots=True)
class Document:
    """One parsed document of a file.

    Attributes:
        file: Path as the user gave it.
        content: Mappings, lists and scalars.
    """

    file: str
    content: Any


class _Loader(yaml.CSafeLoader):
    """Knows CloudFormation's short tags, and dates as the texts they are written as."""


def _intrinsic(loader: yaml.CSafeLoader, suffix: str, node: yaml.Node) -> Any:
    value: Any = None
    name = suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
        if suffix == "GetAtt":
            value = value.split(".", 1)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    elif isinstance(node, yaml.MappingNode):
        value = loader.construct_mapping(node, deep=True)
    return {name: value}


def _as_written(loader: yaml.CSafeLoader, node: yaml.ScalarNode) -> Any:
    return loader.construct_scalar(node)


_Loader.add_multi_constructor("!", _intrinsic)
for _tag in ("timestamp", "binary", "value"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _as_written)


def read(path: str) -> list[Document]:
    """Return the documents of a file, of a folder and its subfolders, or of standard input.

    Raises:
        UnusableInput: There is no such file, it is too large, or it cannot be parsed.
    """
    if path == STDIN:
        return list(parse("<stdin>", _decode("<stdin>", sys.stdin.buffer.read(MAX_FILE_BYTES + 1))))
    place = Path(path)
    if place.is_dir():
        return [document for file in _files(place) for document in _quietly(file)]
    return list(parse(path, _text(place)))


def parse(file: str, text: str) -> Iterator[Document]:
    """Yield the documents of a text.

    Raises:
        UnusableInput: The text is neither JSON nor YAML, or its parts are too many or too deep.
    """
    for content in _parse(file, text):
        if content is not None:
            _refuse_bomb(file, content)
            yield Document(file, content)


def _parse(file: str, text: str) -> list[Any]:
    if text.lstrip()[:1] in ("{", "["):
        try:
            return [json.loads(text)]
        except RecursionError:
            raise UnusableInput(f"{file}: must be nested at most {MAX_DEPTH} deep, got more") from None
        except ValueError as error:
            failure = f"{file}: must be JSON, got {error}"
            if file.endswith((".json", ".template")):
                raise UnusableInput(failure) from None
    try:
        # The loader is a SafeLoader with texts in place of three tags.
        return list(yaml.load_all(text, Loader=_Loader))
    except RecursionError:
        raise UnusableInput(f"{file}: must be nested at most {MAX_DEPTH} deep, got more") from None
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise UnusableInput(f"{file}: must be YAML or JSON, got {_one_line(error)}") from None


def _one_line(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0] if str(error) else type(error).__name__
    return f"{problem} in line {mark.line + 1}" if mark is not None else str(problem)


def _refuse_bomb(file: str, content: Any) -> None:
    """Refuse what is small on disk and endless when walked: anchors that refer to themselves or to each other."""
    left, level = 0, [content]
    for _ in range(MAX_DEPTH):
        left += len(level)
        if left > MAX_NODES:
            raise UnusableInput(f"{file}: must have at most {MAX_NODES:,} values, got more; aliases count each time")
        level = [
            child
            for each in level
            if isinstance(each, (dict, list))
            for child in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return
    raise UnusableInput(f"{file}: must be nested at most {MAX_DEPTH} deep, got more; an alias may contain itself")


def _files(folder: Path) -> list[Path]:
    found: list[Path] = []
    for file in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
        asset = any(part.startswith("asset.") for part in file.relative_to(folder).parts)
        if not hidden and not asset and file.suffix in _SUFFIXES and file.name not in _NOT_INPUT and file.is_file():
            found.append(file)
        if len(found) > MAX_FILES:
            raise UnusableInput(f"{folder}: must hold at most {MAX_FILES:,} files, got more; name a subfolder")
    return found


def _quietly(file: Path) -> list[Document]:
    """Read a file of a folder; what is plainly no input, such as a chart's template, is left out."""
    text = _text(file)
    if "{{" in text and file.parent.name == "templates":
        return []
    return list(parse(str(file), text))


def _text(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return _decode(str(file), stream.read(MAX_FILE_BYTES + 1))
    except OSError as error:
        raise UnusableInput(f"{file}: must be a readable file or folder, got {error.strerror}") from None


def _decode(name: str, data: bytes) -> str:
    if len(data) > MAX_FILE_BYTES:
        raise UnusableInput(f"{name}: must be at most {MAX_FILE_BYTES // _MIB} MiB, got more; split it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnusableInput(f"{name}: must be UTF-8 text, got a byte that is not at {error.start}") from None
