"""Templates of the examples and of the matrix of pools: each is made once in a run, for all tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.apps import run_file
from tests.conftest import ROOT
from tests.matrix import KINDS, ON_NEWER, Tried
from tests.once import Once

EXAMPLES = sorted(each.parent.name for each in (ROOT / "examples").glob("*/app.py"))
Templates = Callable[[str], dict[str, dict[str, Any]]]
Matrix = Callable[[str], Tried]
Template = dict[str, Any]


@pytest.fixture(scope="session")
def templates_of(once: Once, tmp_path_factory: pytest.TempPathFactory) -> Templates:
    """The templates of an example's stacks; each example runs once in a run."""

    @cache
    def of(name: str) -> dict[str, dict[str, Any]]:
        return dict(once.json(f"example-{name}", lambda: run(name, tmp_path_factory.mktemp(name))))

    return of


def run(name: str, output: Path) -> dict[str, dict[str, Any]]:
    """Run an example and return the templates of its stacks."""
    run_file(ROOT / "examples" / name / "app.py", output)
    return {path.name.split(".")[0]: json.loads(path.read_text()) for path in output.glob("**/*.template.json")}


@pytest.fixture(scope="session")
def tried(once: Once, tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    """The results of all combinations of a kind, which are tried once in a run."""

    def of(kind: str) -> Tried:
        name = kind.replace(" ", "-")
        return Tried(**once.json(f"matrix-{name}", lambda: vars(Tried.of(kind, tmp_path_factory.mktemp(name)))))

    return of


@pytest.fixture(scope="session")
def emitted(templates_of: Templates, tried: Matrix) -> dict[str, Template]:
    """Every template of the examples, the reference stacks among them, and of the matrix."""
    examples = {f"{name}/{stack}": each for name in EXAMPLES for stack, each in templates_of(name).items()}
    matrix = {name: json.loads(text) for kind in (*KINDS, *ON_NEWER) for name, text in tried(kind).templates.items()}
    return examples | matrix
