"""Reads JSON and YAML of bounded size, depth and expansion. It doesn't execute or fetch anything in them."""

from __future__ import annotations

import contextlib
import json
import os
import select
import stat
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import yaml

from gpu_facts.light import dataclass, regex
from gpu_preflight.reading.folder_files import (
    Skipped,
    is_saved_plan,
    is_terraform_name,
    is_terraform_text,
    skipped_parts,
    terraform_error,
    walk,
)
from gpu_preflight.reading.notation import MAX_DIGITS, Loader, RepeatedKey, events
from gpu_preflight.reading.objects import has_actions, is_block_template, marked
from gpu_preflight.reading.unknown import dig, items

# Much longer than a command in a shell's pipeline takes to start.
WAIT_SECONDS = 10.0
# Longer than a command such as cdk synth runs before it writes its output.
SILENCE_SECONDS = 600.0
_PAUSE_SECONDS = 0.05
_MIB = 1024**2
MAX_FILE_BYTES = 16 * _MIB
# A List in JSON that is larger than this is read one object at a time.
_LONG_LIST_BYTES = 4 * _MIB
# A List of objects, such as kubectl's dump of a whole cluster. Each object is parsed, or pruned, separately.
MAX_LIST_BYTES = 256 * _MIB
MAX_NODES = 1_000_000
MAX_DEPTH = 200
MAX_FILES = 20_000
# The limit of all inputs together.
MAX_TOTAL_NODES = 4_000_000
# Characters of all strings of a document. The content of an alias in YAML counts each time.
MAX_CHARACTERS = 64 * _MIB
_TOO_LARGE = 10**MAX_DIGITS
_SURROGATE = regex(r"\\u[dD][89a-fA-F]")
_SUFFIXES = (".yaml", ".yml", ".json", ".template")
# Parts of a text that is, or was meant to be, a manifest or a template.
_SIGNS = ("apiVersion", "AWS::", "Resources", "acknowledge")
# Files of an assembly that are neither templates nor manifests, and may be large.
_NOT_INPUT = ("tree.json", "manifest.json", "validation-report.json", "package.json", "package-lock.json")
STDIN = "-"
# helm writes the template of each object into a comment: # Source: app/charts/db/templates/a.yaml
_HELM_SOURCE = "# Source: "
_HELM_TEMPLATE = regex(r"# Source: ([^/\s]+/(?:templates|crds|charts)/(?!\.\.?/)(?:[^/]+/(?!\.\.?/))*[^/]+)")
# A document, its repeated keys, and the chart template that helm rendered it from.
_Parsed = tuple[Any, tuple[RepeatedKey, ...], "str | None"]
# File names of a kustomization.
KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
# The start of Python's error for a number with too many digits. The rest is advice for programmers.
_TOO_MANY_DIGITS = "Exceeds the limit"
# Replaces the content of a chart's template, which isn't YAML until helm renders it.
NOT_RENDERED = "a template of a chart; run helm template first, and check its output"
# The prefix of a comment for the checker.
COMMENT_MARK = "gpu-constructs:"
# Fields of a cluster's objects that the API server sets and the checker doesn't read.
_PRUNED = ("managedFields", "images", "volumesAttached", "volumesInUse")
_LIST_START = regex(r'\A\s*\{?\s*"?apiVersion"?:\s*"?v1"?,?\s+"?(items|kind"?:\s*"?List)')


def is_pipe(file: Path) -> bool:
    """Whether a path is a named pipe."""
    try:
        return stat.S_ISFIFO(file.stat().st_mode)
    except (OSError, ValueError):
        return False


def is_device(file: Path) -> bool:
    """Whether a path is a device, such as a terminal, which may have no end."""
    try:
        return stat.S_ISCHR(file.stat().st_mode) or stat.S_ISBLK(file.stat().st_mode)
    except (OSError, ValueError):
        return False


def read_pipe(file: Path, most: int, *, wait: float = WAIT_SECONDS, silence: float = SILENCE_SECONDS) -> bytes:
    """Return the bytes that a program writes to a pipe, up to a limit.

    Args:
        file: The pipe.
        most: The max number of bytes.
        wait: How long to wait for a writer, in seconds.
        silence: How long to wait for the next bytes of the writer, in seconds.

    Raises:
        TimeoutError: No program writes to it, or the writer sends no more bytes and keeps it open.
        OSError: It cannot be read.
    """
    found, until = bytearray(), time.monotonic() + wait
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    try:
        while len(found) < most:
            try:
                data = os.read(descriptor, most - len(found))
            except BlockingIOError:
                # A writer has opened the pipe and hasn't written the next bytes yet.
                if not select.select([descriptor], [], [], silence)[0]:
                    raise TimeoutError(f"a pipe whose writer sent nothing for {silence:g} seconds") from None
                continue
            if data:
                found += data
            elif found:
                break
            elif time.monotonic() > until:
                raise TimeoutError(f"a pipe to which no program wrote within {wait:g} seconds")
            else:
                time.sleep(_PAUSE_SECONDS)
    finally:
        os.close(descriptor)
    return bytes(found)


class UnusableInput(ValueError):
    """A file or folder that cannot be checked, with the reason in one line."""


class NotRendered(UnusableInput):
    """A template of Helm or of another program. It isn't YAML until that program renders it."""


@dataclass(frozen=True, slots=True)
class Document:
    """One parsed document of a file.

    Attributes:
        file: Path as the user gave it.
        content: Mappings, lists and scalars.
        size: The number of its values.
        repeated: Keys that occur twice in one of its mappings.
        templated: Whether its text may have placeholders that another program fills in.
        commented: The text of its file, if it may have comments for the checker. Only the first document has it.
        template: Chart template that helm rendered it from, such as ``app/templates/a.yaml``, if helm states it.
    """

    file: str
    content: Any
    size: int = 0
    repeated: tuple[RepeatedKey, ...] = ()
    templated: bool = False
    commented: str = ""
    template: str | None = None


def read(path: str, *, skip: Collection[Path] = (), skipped: list[Skipped] | None = None) -> list[Document]:
    """Return the documents of a file, of a folder and its subfolders, or of standard input.

    Args:
        path: The file or folder, ``-`` for standard input.
        skip: Files of the folder to leave out.
        skipped: A list to which the skipped parts of the folder are added. Default: they aren't listed.

    Raises:
        UnusableInput: There is no such file, it is too large, or it cannot be parsed.
    """
    if path == STDIN:
        return list(parse("<stdin>", _decode("<stdin>", _read_bounded(sys.stdin.buffer))))
    place = Path(path)
    if not is_folder(place):
        if is_terraform_name(path):
            raise UnusableInput(terraform_error(path))
        return list(parse(path, read_text(place)))
    found: list[Document] = []
    total = 0
    left_out = {each.resolve() for each in skip}
    broken: list[str] = []
    for file in _input_files(place):
        documents = _quietly(file, broken) if file.resolve() not in left_out else []
        found += documents
        total += sum(each.size for each in documents)
        if total > MAX_TOTAL_NODES:
            raise UnusableInput(f"{path}: must have at most {MAX_TOTAL_NODES:,} values, got more; name a subfolder")
    if skipped is not None:
        skipped += [
            *skipped_parts(place),
            *([Skipped("files that aren't YAML or JSON", tuple(broken))] if broken else []),
        ]
    return found


def is_folder(place: Path) -> bool:
    """Whether a path is a folder. A text that can't be a path isn't one."""
    try:
        return place.is_dir()
    except (OSError, ValueError):
        return False


def parse(file: str, text: str) -> Iterator[Document]:
    """Yield the documents of a text.

    Raises:
        UnusableInput: The text is neither JSON nor YAML, has too many values, or is nested too deep.
    """
    templated = "$" in text or "{{" in text
    # Read a List one object at a time, because it may have more values than any other document.
    long = len(text) > _LONG_LIST_BYTES and text.lstrip()[:1] == "{" and is_list(text[:4096])
    if long or len(text) > MAX_FILE_BYTES:
        sizes: dict[int, int] = {}
        for content in _items_of_list(file, text):
            yield Document(file, content, _size_of_item(file, content, sizes), (), templated=False)
        return
    commented = text if COMMENT_MARK in text else ""
    for content, repeated, template in _parse(file, text):
        if content is not None:
            size = refuse_endless(file, content)
            yield Document(file, content, size, repeated, templated, commented, template)
            commented = ""


def _parse(file: str, text: str) -> list[_Parsed]:
    if text.lstrip()[:1] in ("{", "["):
        try:
            return [(_json(text), (), None)]
        except RecursionError:
            raise UnusableInput(f"{file}: must be nested at most {MAX_DEPTH} deep, got more") from None
        except ValueError as error:
            failure = f"{file}: must be JSON, got {_one_line(error)}"
            if file.endswith((".json", ".template")):
                raise UnusableInput(failure) from None
    try:
        _refuse_crash(file, text)
        return list(_load_all(text))
    except UnusableInput:
        raise
    except yaml.YAMLError as error:
        if not has_actions(text) or is_terraform_text(text):
            raise _unparsable(file, text, error) from None
        return _parse_template(file, text)
    except RecursionError:
        raise UnusableInput(f"{file}: must be nested at most {MAX_DEPTH} deep, got more") from None
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError) as error:
        raise UnusableInput(f"{file}: must be YAML or JSON, got {_one_line(error)}") from None


def _unparsable(file: str, text: str, error: yaml.YAMLError) -> UnusableInput:
    if is_terraform_text(text):
        return UnusableInput(terraform_error(file))
    return UnusableInput(f"{file}: must be YAML or JSON, got {_one_line(error)}")


def is_list(start: str) -> bool:
    """Whether a text begins like a List of objects that kubectl wrote."""
    return _LIST_START.match(start) is not None


def _items_of_list(file: str, text: str) -> Iterator[Any]:
    """Yield the objects of a large List: from JSON without the fields that no rule reads, from YAML one by one."""
    if text.lstrip()[:1] == "{":
        try:
            content = json.loads(text, object_hook=_Pruning(), parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise UnusableInput(f"{file}: must be JSON, got {_one_line(error)}") from None
        yield from items(dig(content, "items"))
        return
    for item in _yaml_items(text):
        yield from (content for content, _, _ in _parse(file, item) if content is not None)


class _Pruning:
    """Removes JSON fields that no rule reads, and replaces equal pod specs with one shared value."""

    def __init__(self) -> None:
        self._specs: dict[str, dict[str, Any]] = {}

    def __call__(self, content: dict[str, Any]) -> dict[str, Any]:
        """Return a mapping without those fields, or an equal pod spec that was read before."""
        for name in _PRUNED:
            # The images of a Node have sizes. The images of a Flux Kustomization have names.
            if isinstance(content.get(name), list) and (name != "images" or "sizeBytes" in str(content[name][:1])):
                del content[name]
        return self._specs.setdefault(repr(content), content) if "containers" in content else content


def _size_of_item(file: str, content: Any, sizes: dict[int, int]) -> int:
    """Return the number of values of an object in a list. A ``spec`` that several objects share is walked only once.

    Args:
        file: Path of the list.
        content: The object.
        sizes: The number of values of each ``spec`` so far, by its identity. The objects keep the specs alive.
    """
    spec = content.get("spec") if isinstance(content, dict) else None
    if spec is None:
        return refuse_endless(file, content)
    if id(spec) not in sizes:
        sizes[id(spec)] = refuse_endless(file, spec)
    return sizes[id(spec)] + refuse_endless(file, {key: each for key, each in content.items() if key != "spec"})


def _yaml_items(text: str) -> Iterator[str]:
    """Yield each item of a List as a separate document. kubectl begins each item with ``- ``."""
    lines: list[str] = []
    inside = False
    for line in text.split("\n"):
        begins = line.startswith("- ")
        # An empty line belongs to a multi-line string.
        ends = bool(line) and not line.startswith(" ")
        if lines and ends:
            yield "\n".join(lines)
            lines = []
        inside = begins or (inside and not ends)
        if inside:
            lines.append(f"  {line[2:]}" if begins else line)
    if lines:
        yield "\n".join(lines)


def _parse_template(file: str, text: str) -> list[_Parsed]:
    """Parse a template whose actions only replace values. Other templates must be rendered before a check."""
    if is_block_template(text):
        raise NotRendered(f"{file}: must be rendered first, got {NOT_RENDERED}")
    plain, marks = marked(text)
    try:
        _refuse_crash(file, plain)
        return [(marks.restore(content), *others) for content, *others in _load_all(plain)]
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, KeyError, OverflowError):
        raise NotRendered(f"{file}: must be rendered first, got {NOT_RENDERED}") from None


def _load_all(text: str) -> Iterator[_Parsed]:
    is_rendered = _HELM_SOURCE in text
    loader = Loader(text, MAX_NODES)
    try:
        while loader.check_data():  # type: ignore[no-untyped-call]
            before = len(loader.repeated)
            content = loader.get_data()
            template = _helm_template(text, loader.start) if is_rendered else None
            yield content, tuple(loader.repeated[before:]), template
    finally:
        loader.dispose()


def _helm_template(text: str, start: int) -> str | None:
    """Return the template that helm names in a comment above a document; ``None`` without such a comment.

    Source: helm/helm v4.0.0 pkg/cmd/template.go and pkg/action/action.go ``renderResources`` (2026-11)
    """
    found, end = None, text.rfind("\n", 0, start)
    while end >= 0:
        begin = text.rfind("\n", 0, end) + 1
        line = text[begin:end].strip()
        if line and not line.startswith("#"):
            break
        # The first comment is helm's. Others may come from the template.
        source = _HELM_TEMPLATE.fullmatch(line)
        found, end = source[1] if source else found, begin - 1
    return found


def _json(text: str) -> Any:
    content = json.loads(text, parse_constant=_no_constant)
    if _SURROGATE.search(text):
        # One half of a surrogate pair isn't a character, so UTF-8 can't encode it.
        json.dumps(content, ensure_ascii=False).encode()
    return content


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name}, which isn't a JSON number")


def _refuse_crash(file: str, text: str) -> None:
    """Reject a text that is nested too deep: libyaml 0.2.5 builds its tree by recursion and crashes the process."""
    depth = count = 0
    for event in events(text):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        count += isinstance(event, yaml.NodeEvent)
        if depth > MAX_DEPTH:
            raise UnusableInput(f"{file}: must be nested at most {MAX_DEPTH} deep, got more")
        if count > MAX_NODES:
            raise UnusableInput(f"{file}: must have at most {MAX_NODES:,} values, got more")


def _one_line(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    if str(error).startswith(_TOO_MANY_DIGITS):
        return f"a number of more than {MAX_DIGITS} digits"
    problem = getattr(error, "problem", None) or str(error).splitlines()[0] if str(error) else type(error).__name__
    return f"{problem} in line {mark.line + 1}" if mark is not None else str(problem)


def refuse_endless(file: str, content: Any) -> int:
    """Return the number of values. Reject a content that is small on disk and endless when it is walked.

    Raises:
        UnusableInput: There are too many values, they are nested too deep, or a number or the texts are too long.
            Anchors in YAML may refer to themselves or to each other.
    """
    count, characters, level = 0, 0, [content]
    for _ in range(MAX_DEPTH):
        count += len(level)
        if count > MAX_NODES:
            raise UnusableInput(f"{file}: must have at most {MAX_NODES:,} values, got more; aliases count each time")
        characters += sum(len(each) for each in level if isinstance(each, str))
        characters += sum(len(key) for each in level if isinstance(each, dict) for key in each)
        if characters > MAX_CHARACTERS:
            raise UnusableInput(f"{file}: must have at most {MAX_CHARACTERS // _MIB} Mi characters, got more")
        if any(isinstance(each, int) and not -_TOO_LARGE < each < _TOO_LARGE for each in level):
            raise UnusableInput(f"{file}: must have numbers of at most {MAX_DIGITS} digits, got more")
        level = [
            child
            for each in level
            if isinstance(each, (dict, list))
            for child in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return count
    raise UnusableInput(f"{file}: must be nested at most {MAX_DEPTH} deep, got more; an alias may contain itself")


def _input_files(folder: Path) -> list[Path]:
    found: list[Path] = []
    for file in sorted(walk(folder)):
        named = file.suffix in _SUFFIXES and file.name not in _NOT_INPUT and not is_terraform_name(file.name)
        if named and file.is_file():
            found.append(file)
        if len(found) > MAX_FILES:
            raise UnusableInput(f"{folder}: must hold at most {MAX_FILES:,} files, got more; name a subfolder")
    return found


def _quietly(file: Path, broken: list[str]) -> list[Document]:
    """Read a file of a folder. A file that clearly isn't an input is added to ``broken`` and isn't an error."""
    try:
        text = read_text(file)
    except UnusableInput:
        if _is_large_data(file):
            broken.append(str(file))
            return []
        raise
    if "{{" in text and file.parent.name == "templates":
        return [Document(str(file), NOT_RENDERED)]
    try:
        return list(parse(str(file), text))
    except NotRendered:
        return [Document(str(file), NOT_RENDERED)]
    except UnusableInput:
        # A manifest that can't be parsed is an error. Files of other tools may have the same suffixes.
        if any(each in text for each in _SIGNS):
            raise
        broken.append(str(file))
        return []


def _is_large_data(file: Path) -> bool:
    """Whether a file is larger than an input may be, and doesn't begin like one."""
    with contextlib.suppress(OSError):
        with file.open("rb") as stream:
            start = stream.read(65_536).decode("utf-8", "ignore")
        return file.stat().st_size > MAX_FILE_BYTES and not any(each in start for each in _SIGNS)
    return False


def read_text(file: Path) -> str:
    """Return the text of a file.

    Raises:
        UnusableInput: It is too large, isn't UTF-8, or cannot be read.
    """
    try:
        data = _bytes(file)
    except TimeoutError as error:
        raise UnusableInput(f"{file}: must be a readable file or folder, got {error}") from None
    except OSError as error:
        raise UnusableInput(f"{file}: must be a readable file or folder, got {error.strerror}") from None
    except ValueError as error:
        raise UnusableInput(f"{str(file)!r}: must be a readable file or folder, got {error}") from None
    return _decode(str(file), data)


def _bytes(file: Path) -> bytes:
    if is_pipe(file):
        return read_pipe(file, MAX_LIST_BYTES + 1)
    if is_device(file):
        raise ValueError("a device")
    # /proc/kmsg is a regular file that waits for the next message of the kernel.
    with open(file, "rb", opener=lambda path, flags: os.open(path, flags | getattr(os, "O_NONBLOCK", 0))) as stream:
        return _read_bounded(stream)


def _read_bounded(stream: BinaryIO) -> bytes:
    """Read at most the max size of a file, or the larger max size of a List."""
    data = stream.read(MAX_FILE_BYTES + 1)
    if data is None:
        raise ValueError("a file without content yet")
    if len(data) > MAX_FILE_BYTES and _begins_list(data):
        data += stream.read(MAX_LIST_BYTES - MAX_FILE_BYTES)
    return data


def _begins_list(data: bytes) -> bool:
    return is_list(data[:4096].decode("utf-8-sig", "ignore"))


def _decode(name: str, data: bytes) -> str:
    allowed = MAX_LIST_BYTES if _begins_list(data) else MAX_FILE_BYTES
    if len(data) > allowed:
        raise UnusableInput(f"{name}: must be at most {allowed // _MIB} MiB, got more; split it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if is_saved_plan(data):
            raise UnusableInput(terraform_error(name)) from None
        raise UnusableInput(f"{name}: must be UTF-8 text, got an invalid byte at position {error.start}") from None
