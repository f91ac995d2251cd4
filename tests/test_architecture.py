"""The page on the architecture matches folders, contracts and Makefile, and the folders follow it."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path
from xml.etree import ElementTree

import grimp
import pytest

from tests.conftest import ROOT
from tools import write_architecture as architecture

PAGE = architecture.DOCUMENT.read_text()
PACKAGE = ROOT / "gpu_constructs"
PREFLIGHT = ROOT / "gpu_preflight"
PACKAGES = ("gpu_constructs", "gpu_facts", "gpu_preflight", "gpu_rehearsal")
FOLDERS = sorted(each.parent for name in PACKAGES for each in (ROOT / name).glob("**/__init__.py"))
DRAWN = [each for side in architecture.SIDES for layer in architecture.layers(side) for each in layer]
ODD_NAME = re.compile(
    r"^_?(of|by|at|on|over|told|said|asked|shown|kept|made|beside|put|let|from_what|as_they|beyond)(_|$)"
    r"|_(of|by|at|on|to|for|in|with|off)$"
)
# As many letters as a box is wide, in the widest of the fonts that the picture may get.
MOST_LETTERS = 23


def rooms_of(folder: Path) -> set[str]:
    return {each.parent.name for each in folder.glob("*/__init__.py")}


def listed(name: str) -> list[str]:
    """The names in a list of the page, in its order."""
    rows = PAGE.partition(f"<!-- {name} -->")[2].partition("<!-- end -->")[0]
    return re.findall(r"^\| `([^`]+)`", rows, re.MULTILINE)


def test_the_picture_is_what_its_source_makes() -> None:
    assert architecture.PICTURE.read_text() == architecture.picture(), "run: make architecture"


def test_the_lists_are_what_the_folders_and_contracts_say() -> None:
    assert architecture.document(PAGE) == PAGE, "run: make architecture"


def test_the_page_is_read_in_two_minutes() -> None:
    assert len(PAGE.splitlines()) <= 120


def test_every_folder_is_named() -> None:
    for folder in FOLDERS:
        assert f"`{folder.name}`" in PAGE or f"/{folder.name}/`" in PAGE, folder


def test_every_folder_has_a_layer() -> None:
    named = set(DRAWN)

    for folder, package in ((PACKAGE, "gpu_constructs"), (PREFLIGHT, architecture.ROOMS)):
        assert {f"{package}.{each}" for each in rooms_of(folder)} <= named, "name it in a layer of pyproject.toml"


def test_rooms_stand_in_the_order_of_the_contract() -> None:
    settings = (ROOT / "pyproject.toml").read_text()
    [contract] = re.findall(r'^name = "Preflight: dependencies.*?^\]', settings, re.MULTILINE | re.DOTALL)

    rooms = [each for each in listed("preflight") if (PREFLIGHT / each).exists()]
    assert rooms
    assert [each.removesuffix(".py") for each in reversed(rooms)] == re.findall(r"gpu_preflight\.(\w+)", contract)


def test_what_the_page_names_exists() -> None:
    paths = re.findall(r"(?:gpu_\w+|tests|tools|examples|stacks|docs)/[\w./-]*", PAGE)
    files = re.findall(r"`([\w-]+\.(?:py|toml|json|md|txt))`", PAGE)

    assert [each for each in paths if not (ROOT / each).exists()] == []
    assert [each for each in files if not (list(ROOT.glob(each)) or list(ROOT.glob(f"gpu_*/**/{each}")))] == []


@pytest.mark.parametrize("module", [*DRAWN, architecture.FACTS])
def test_the_picture_names_what_is_defined_there(module: str) -> None:
    place = architecture.place(module)
    files = place.rglob("*.py") if place.is_dir() else [place]
    defined = {
        each.name
        for file in files
        for each in ast.parse(file.read_text()).body
        if isinstance(each, (ast.ClassDef, ast.FunctionDef))
    }

    nouns = architecture.NOUNS.get(module, "").split()
    assert nouns, f"say in tools/write_architecture.py by which names {module} is known"
    assert set(nouns) - defined == set()
    assert len(", ".join(nouns)) <= MOST_LETTERS


def test_the_picture_fits_any_page() -> None:
    text = architecture.PICTURE.read_text()
    picture = ElementTree.fromstring(text)

    assert {"width", "height"} & picture.attrib.keys() == set()
    wide, smallest = float(picture.attrib["viewBox"].split()[2]), min(map(int, re.findall(r"(\d+)px", text)))
    assert smallest * 700 / wide >= 12
    assert "prefers-color-scheme: dark" in text


def test_no_module_imports_itself_through_others() -> None:
    """Nor does a package through its own modules, which the contract on siblings does not see."""
    graph = grimp.build_graph(*PACKAGES, "stacks", cache_dir=None)

    TopologicalSorter({each: graph.find_modules_directly_imported_by(each) for each in graph.modules}).prepare()


def test_few_functions_are_named_by_a_preposition_or_participle() -> None:
    """The share may fall and not rise: lower the limit when it falls."""
    names = [
        each.name
        for name in PACKAGES
        for file in (ROOT / name).rglob("*.py")
        for each in ast.walk(ast.parse(file.read_text()))
        if isinstance(each, ast.FunctionDef) and not each.name.startswith("__")
    ]

    assert sum(bool(ODD_NAME.search(each)) for each in names) / len(names) <= 0.002


def test_the_command_starts_without_what_it_seldom_uses() -> None:
    # Used by each start of the command, by constructs, or for values that must not change when the program runs.
    known = {
        "gpu_facts/named_arguments.py",
        "gpu_preflight/command_line/console.py",
        "gpu_preflight/scheduling/packing.py",
    }
    files = [file for folder in ("gpu_preflight", "gpu_facts") for file in sorted((ROOT / folder).rglob("*.py"))]
    slow = re.compile(r"^from dataclasses import .*\bdataclass\b|^\w+ = re\.compile\(", re.MULTILINE)

    assert {str(each.relative_to(ROOT)) for each in files if slow.search(each.read_text())} == known
