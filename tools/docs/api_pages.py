"""Pages of the Python API, a page for each folder, from docstrings that are read without an import.

Packages export their names lazily, from their stub `__init__.pyi`. The stub also lists the names here, each with the
module that defines it. Griffe parses that module, so the CDK isn't needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import griffe

from tools.docs.markdown import ROOT, Pages, fenced, table

_LINE = re.compile(r"^from (\S+) import (\w+) as \2$", re.MULTILINE)
_PRIVATE = re.compile(r"\b_[A-Za-z]\w*")
_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")
_UNRESOLVED = "…"
_ROOT_PACKAGE = "gpu_constructs"


@dataclass(frozen=True)
class Name:
    """A public name.

    Attributes:
        name: The name.
        package: The package whose page has it.
        imported_from: The package from which users import it: the root if it exports the name.
        definition: Griffe's object.
    """

    name: str
    package: str
    imported_from: str
    definition: Any


def api_pages() -> Pages:
    """Return the index and a page for each package."""
    loader = griffe.GriffeLoader(search_paths=[str(ROOT)], allow_inspection=False)
    for package in ("gpu_facts", _ROOT_PACKAGE):
        loader.load(package)
    loader.resolve_aliases(implicit=False, external=False)
    names = list(_public_names(loader))
    places = {each.name: f"{each.package}.md#{each.name}" for each in names}
    packages: dict[str, list[Name]] = {}
    for each in names:
        packages.setdefault(each.package, []).append(each)
    pages = {
        f"reference/api/{package}.md": _page(loader.modules_collection[package], found, places)
        for package, found in packages.items()
    }
    return {"reference/api/index.md": _index(packages), **pages}


def _public_names(loader: Any) -> Iterator[Name]:
    """Yield the names of all packages; a name that root and folder export is on the page of the folder."""
    stubs = sorted(ROOT.glob("gpu_*/**/__init__.pyi"), key=lambda stub: (-len(stub.parts), stub))
    exported = {
        ".".join(stub.parent.relative_to(ROOT).parts): _LINE.findall(stub.read_text(encoding="utf-8")) for stub in stubs
    }
    in_root = {name for _, name in exported[_ROOT_PACKAGE]}
    in_folders = {name for package, found in exported.items() if package != _ROOT_PACKAGE for _, name in found}
    for package, found in exported.items():
        for module, name in sorted(found, key=lambda line: line[1]):
            if name.startswith("_") or (package == _ROOT_PACKAGE and name in in_folders):
                continue
            definition: Any = loader.modules_collection[f"{module}.{name}"]
            while definition.is_alias:
                definition = definition.final_target
            yield Name(name, package, _ROOT_PACKAGE if name in in_root else package, definition)


def _index(packages: dict[str, list[Name]]) -> str:
    parts = ["# Python API\n", "Import each name from the package that its page states.\n"]
    for package, found in sorted(packages.items()):
        parts.append(f"## [{package}]({package}.md)\n")
        rows = [
            [f"[`{each.name}`]({package}.md#{each.name})", f"`{each.imported_from}`", _first_line(each.definition)]
            for each in found
        ]
        parts.append(table(("name", "import from", "purpose"), rows))
    return "\n".join(parts)


def _page(module: Any, names: list[Name], places: dict[str, str]) -> str:
    package = module.path
    parts = [f"# {package}\n", _linked(module.docstring.value if module.docstring else "", package, places) + "\n"]
    for each in names:
        parts.append(f"## `{each.name}` {{ #{each.name} }}\n")
        parts.append(fenced("python", f"from {each.imported_from} import {each.name}"))
        parts += _described(each.definition, package, places)
    return "\n".join(parts)


def _described(definition: Any, package: str, places: dict[str, str]) -> Iterator[str]:
    if definition.is_attribute:
        yield fenced("python", f"{definition.name} = {_public_value(str(definition.value), definition)}")
        yield _linked(definition.docstring.value if definition.docstring else "", package, places) + "\n"
        return
    called = definition.members.get("__init__") if definition.is_class else definition
    parameters = _parameters(called) if called is not None else _fields(definition)
    if parameters or not definition.is_class:
        returned = f" -> {definition.returns}" if definition.is_function and definition.returns else ""
        yield fenced("python", _signature(definition.name, parameters, returned))
    yield from _documented(definition, {name: default for name, _, default in parameters}, package, places)
    if definition.is_class:
        for member in _members(definition):
            call = "property" in member.labels or "attribute" in member.kind.value
            yield f"### `{definition.name}.{member.name}` {{ #{definition.name}.{member.name} }}\n"
            if call:
                yield fenced("python", f"{member.name}: {member.annotation}")
            else:
                yield fenced(
                    "python",
                    _signature(member.name, _parameters(member), f" -> {member.returns}" if member.returns else ""),
                )
            yield from _documented(member, {}, package, places)


def _members(definition: Any) -> Iterator[Any]:
    """Yield public methods and properties that have a docstring."""
    for member in definition.members.values():
        if member.is_alias or member.name.startswith("_") or not member.docstring:
            continue
        if member.is_function or "property" in member.labels:
            yield member


def _parameters(function: Any) -> list[tuple[str, str, str]]:
    """Return name, type and default of each parameter; a star is a parameter without type."""
    found: list[tuple[str, str, str]] = []
    starred = False
    for each in function.parameters:
        if each.name in ("self", "cls"):
            continue
        stars = {"variadic positional": "*", "variadic keyword": "**"}.get(each.kind.value, "")
        starred = starred or stars == "*"
        if each.kind.value == "keyword-only" and not starred:
            found.append(("*", "", ""))
            starred = True
        default = "" if each.default is None or stars else _public_value(str(each.default), function)
        found.append((stars + each.name, _public_type(each.annotation, function), default))
    return found


def _fields(definition: Any) -> list[tuple[str, str, str]]:
    """Return the fields of a value class as parameters."""
    if not any("dataclass" in str(each.value) for each in definition.decorators):
        return []
    found: list[tuple[str, str, str]] = []
    for each in definition.members.values():
        if each.is_attribute and each.annotation and not each.name.startswith("_") and "property" not in each.labels:
            default = _public_value(_field_default(str(each.value)), definition) if each.value is not None else ""
            found.append((each.name, _public_type(each.annotation, definition), default))
    positional = not any("kw_only=True" in str(each.value) for each in definition.decorators)
    return found if positional or not found else [("*", "", ""), *found]


def _field_default(value: str) -> str:
    made = re.fullmatch(r"field\((?:.*\b)?default(?:_factory)?=(\w+|\(\)|\{\})(?:,.*)?\)", value)
    return {"dict": "{}", "list": "[]", "tuple": "()"}.get(made[1], made[1]) if made else value


def _public_value(value: str, scope: Any) -> str:
    """Return a value without private names: constants are replaced by their values."""
    if _CONSTANT.fullmatch(value):
        value = _constant(value, scope)
    return _PRIVATE.sub(lambda name: _constant(name[0], scope), value)


def _constant(name: str, scope: Any) -> str:
    """Return the value of a constant of the module, an ellipsis if it is private and unknown."""
    found = scope.module.members.get(name)
    if found is not None and found.is_alias:
        try:
            found = found.final_target
        except griffe.AliasResolutionError:
            found = None
    value = getattr(found, "value", None)
    if value is None:
        return _UNRESOLVED if name.startswith("_") else name
    return _public_value(str(value), found)


def _public_type(annotation: Any, scope: Any) -> str:
    text = str(annotation) if annotation is not None else ""
    return _PRIVATE.sub(lambda name: _alias(name[0], scope), text)


def _alias(name: str, scope: Any) -> str:
    found = scope.module.members.get(name)
    return str(found.value) if found is not None and getattr(found, "value", None) is not None else "Any"


def _signature(name: str, parameters: list[tuple[str, str, str]], returned: str) -> str:
    written = []
    for parameter, annotation, default in parameters:
        typed = f"{parameter}: {annotation}" if annotation else parameter
        written.append(f"{typed} = {default}" if default and annotation else f"{typed}={default}" if default else typed)
    one_line = f"{name}({', '.join(written)}){returned}"
    if len(one_line) <= 80:
        return one_line
    return f"{name}(\n" + "".join(f"    {each},\n" for each in written) + f"){returned}"


def _documented(definition: Any, defaults: dict[str, str], package: str, places: dict[str, str]) -> Iterator[str]:
    if not definition.docstring:
        return
    for section in definition.docstring.parse("google", warnings=False):
        kind, value = section.kind.value, section.value
        if kind == "text":
            yield _linked(value, package, places) + "\n"
        elif kind in ("parameters", "other parameters", "attributes"):
            title = "Attributes" if kind == "attributes" else "Arguments"
            items = [
                (each.name, _public_type(each.annotation, definition), each.description)
                for each in value
                if not each.name.startswith("_")
            ]
            yield _list(title, items, package, places)
        elif kind == "raises":
            yield _list("Raises", [(str(each.annotation), "", each.description) for each in value], package, places)
        elif kind in ("returns", "yields"):
            text = " ".join(each.description for each in value)
            yield f"**{kind.capitalize()}** {_linked(text, package, places)}\n"
        elif kind == "examples":
            for example, text in value:
                yield fenced("python", text) if example.value == "examples" else _linked(text, package, places) + "\n"
        elif kind == "admonition":
            yield f"**{section.title}** {_linked(value.description, package, places)}\n"


def _list(title: str, items: list[tuple[str, str, str]], package: str, places: dict[str, str]) -> str:
    lines = [f"**{title}**\n"]
    for name, annotation, text in items:
        typed = f" (`{annotation}`)" if annotation else ""
        lines.append(f"* **`{name}`**{typed}: {_linked(' '.join(text.split()), package, places)}")
    return "\n".join(lines) + "\n"


def _linked(text: str, package: str, places: dict[str, str]) -> str:
    """Return a docstring as Markdown: a public name in backquotes becomes a link."""

    def link(code: re.Match[str]) -> str:
        name = code[1].partition("(")[0]
        place = places.get(name)
        if place is None:
            return f"`{code[1]}`"
        return f"[`{code[1]}`]({place.removeprefix(f'{package}.md') if place.startswith(f'{package}.md') else place})"

    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    text = re.sub(r"(?<![\w`/<(])(https://[^\s)>;,]+[^\s)>;,.])", r"<\1>", text)
    text = re.sub(r"(\S.*)\n( *[*-] )", r"\1\n\n\2", text, count=1)
    return re.sub(r"(?<!`)`([^`\n]+)`(?!`)", link, text)


def _first_line(definition: Any) -> str:
    return str(definition.docstring.value).partition("\n")[0].replace("``", "`") if definition.docstring else ""
