"""The excerpts in the documents match the files."""

from __future__ import annotations

import os
import re
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from stacks.options import GpuClusterOptions, PoolOptions, options_from_context
from tests.conftest import ROOT
from tools import write_diagrams, write_examples, write_options, write_picture

# A changelog names what is no longer there.
OF_THE_PAST = ("CHANGELOG.md",)
DOCUMENTS = [each for each in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")) if each.name not in OF_THE_PAST]
# Pages that `make docs` generates are in the navigation of the site, and not in the repository.
SITE_PAGES = set(re.findall(r'= "([^"]+\.md)"', (ROOT / "zensical.toml").read_text()))
# Web Content Accessibility Guidelines 2.2, 1.4.3: text against its background.
LEAST_CONTRAST = 4.5
SVG = "{http://www.w3.org/2000/svg}"


def test_every_example_is_shown_from_its_file() -> None:
    assert {each.parent.name for each in (ROOT / "examples").glob("*/app.py")} == set(write_examples.EXAMPLES)
    assert write_examples.DOCUMENT.read_text() == write_examples.document(), "run: make examples"


def test_every_option_is_told_from_its_docstring() -> None:
    assert write_options.DOCUMENT.read_text() == write_options.document(), "run: make options"


@pytest.mark.parametrize("name", [each.name for each in fields(GpuClusterOptions)])
def test_the_example_of_an_option_is_accepted_and_says_something(name: str) -> None:
    said = options_from_context({name: write_options.EXAMPLES[name]})

    assert getattr(said, name) != getattr(GpuClusterOptions(), name)


def test_the_example_of_a_pool_is_accepted_and_says_something_with_every_key() -> None:
    [said] = options_from_context({"pools": [write_options.POOL_EXAMPLES]}).pools

    for each in fields(PoolOptions):
        assert getattr(said, each.name) != each.default


def test_the_picture_shows_what_the_command_says() -> None:
    for file, picture in write_picture.pictures().items():
        assert file.read_text() == picture, "run: make picture"


def pictures() -> list[Path]:
    return sorted(write_picture.FOLDER.glob("explain-*.svg"))


def test_the_diagrams_match_rules_and_change_table() -> None:
    for file, diagram in write_diagrams.diagrams().items():
        assert file.read_text() == diagram, "run: make picture"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_diagram_can_be_read_in_both_themes(theme: str) -> None:
    light, _, dark = write_diagrams.STYLE.partition("@media (prefers-color-scheme: dark)")
    style = light if theme == "light" else dark
    texts = re.findall(r"(?:text|\.strong)[^}]*fill: (#\w{6})", style)
    boxes = re.findall(r"\.(?:box|good|care|bad) \{ fill: (#\w{6})", style)

    assert len(texts) == 2
    assert len(boxes) == 4
    assert min(contrast(text, box) for text in texts for box in boxes) >= LEAST_CONTRAST


@pytest.mark.parametrize("file", pictures(), ids=lambda file: file.stem)
def test_a_picture_tells_the_story_and_fetches_nothing(file: Path) -> None:
    text = file.read_text().replace("&#160;", " ")

    assert re.findall(r"https?://[^\"]+", text) == ["http://www.w3.org/2000/svg"]
    assert "@import" not in text
    assert "@font-face" not in text
    verdicts = re.findall(r">(l40s|h100|t4) *<.*?>(runs|Pending) *<", text)
    assert verdicts == [("l40s", "runs"), ("h100", "Pending"), ("t4", "Pending")]


@pytest.mark.parametrize("file", pictures(), ids=lambda file: file.stem)
def test_a_picture_can_be_read(file: Path) -> None:
    root = ElementTree.parse(file).getroot()
    background = root.find(f"{SVG}rect")
    assert background is not None

    colours = re.findall(r"fill: (#\w{6})", root.findtext(f"{SVG}style") or "")
    assert colours
    assert min(contrast(each, background.attrib["fill"]) for each in colours) >= LEAST_CONTRAST


def contrast(one: str, other: str) -> float:
    """The ratio of two colours as WCAG 2.2 defines it, 1 to 21."""
    darker, lighter = sorted(map(luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def public_names() -> dict[str, str]:
    """From where each public name is imported: the root, or its folder."""
    stubs = ROOT.glob("gpu_*/**/__init__.pyi")
    packages = [".".join(stub.parent.relative_to(ROOT).parts) for stub in stubs]
    homes = {name: package for package in packages for name in exported(package)}
    return homes | dict.fromkeys(exported("gpu_constructs"), "gpu_constructs")


def exported(package: str) -> list[str]:
    module: Any = import_module(package)
    return list(module.__all__)


def test_every_public_name_stands_where_it_is_imported_from() -> None:
    rows = re.findall(
        r"^\| (`.+?) \| `([\w.]+)` \|", (ROOT / "docs" / "reference" / "names.md").read_text(), re.MULTILINE
    )
    told = [(name, home) for names, home in rows for name in re.findall(r"`(\w+)`", names)]

    assert sorted(told) == sorted(public_names().items())


def test_what_is_recommended_exists() -> None:
    recommended = re.findall(r"`\(?([A-Z]\w+)", (ROOT / "docs" / "explanation" / "choosing.md").read_text())

    assert len(set(recommended)) > 20
    assert set(recommended) - set(public_names()) == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    text = document.read_text()
    for target, anchor in re.findall(r"(?:\]\(|src=\"|srcset=\")([^)#\"]*)(#[\w-]+)?", text):
        if "://" not in target:
            page = document.parent / target if target else document
            if os.path.relpath(page, ROOT / "docs") in SITE_PAGES and not page.exists():
                continue
            assert page.exists(), target
            assert not anchor or anchor in anchors(page), f"{target}{anchor}"


def anchors(page: Path) -> set[str]:
    """The places of a page that can be linked to, as GitHub names them."""
    if page.suffix != ".md":
        return set()
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {"#" + re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}


def test_make_targets_named_in_documents_exist() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    for document in DOCUMENTS:
        text = document.read_text()
        commands = re.findall(r"`make ([a-z0-9 -]+)[^`]*`", text) + re.findall(
            r"^make ([a-z0-9-]+)", text, re.MULTILINE
        )
        assert {word for command in commands for word in command.split()} <= targets, document
