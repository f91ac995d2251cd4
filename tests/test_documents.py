"""What the documents show is what the files say."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

import gpu_constructs
from stacks.options import GpuClusterOptions, PoolOptions
from tests.conftest import ROOT
from tools import write_examples

README = (ROOT / "README.md").read_text()
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]


def test_readmes_example_is_the_example() -> None:
    [shown] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    source = (ROOT / "examples" / "quickstart" / "app.py").read_text()

    assert source.endswith(shown)
    assert source.removesuffix(shown).strip().count("\n") == 0


def test_every_example_is_shown_from_its_file() -> None:
    assert {each.parent.name for each in (ROOT / "examples").glob("*/app.py")} == set(write_examples.EXAMPLES)
    assert write_examples.DOCUMENT.read_text() == write_examples.document(), "run: make examples"


def test_readme_names_every_public_name_and_option() -> None:
    named = set(re.findall(r"`(\w+)`", README)) | set(re.findall(r'"(\w+)"', README))
    options = {each.name for kind in (GpuClusterOptions, PoolOptions) for each in fields(kind)}

    assert options - named == set()
    # Type aliases and a row of the catalogue are not for calling.
    assert set(gpu_constructs.__all__) - named == {"Capacity", "GPU_TAINT", "InstanceType", "Pool", "Sharing"}


def test_readme_is_one_sitting() -> None:
    assert len(README.splitlines()) <= 150


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
        if "://" not in target:
            assert (document.parent / target).exists(), target


def test_make_targets_named_in_documents_exist() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    for document in DOCUMENTS:
        text = document.read_text()
        commands = re.findall(r"`make ([a-z0-9 -]+)[^`]*`", text) + re.findall(
            r"^make ([a-z0-9-]+)", text, re.MULTILINE
        )
        assert {word for command in commands for word in command.split()} <= targets, document
