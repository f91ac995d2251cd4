"""NOTICE lists every data file of the library, every schema, and every module that is made after an upstream file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpu_facts import schemas
from tests.conftest import ROOT

TEXT = (ROOT / "NOTICE").read_text()
PACKAGES = ("gpu_constructs", "gpu_facts", "gpu_preflight")
CODE = (".py", ".pyi", ".typed", ".pyc")
# A module of which a whole file of another project is the source, by the words that its docstring has for that.
AFTER_A_FILE = re.compile(
    r'\A"""[^"]*?^Source: .*(?:deployments?/|iam_policy\.json|cloudformation\.yaml|\.csv)', re.MULTILINE
)
# These set values of a chart or read the data file, and hold nothing of the source themselves.
OWN = ("gpu_constructs/devices/gpu_operator.py", "gpu_constructs/exposure/load_balancer_controller.py")


def listed() -> set[str]:
    """The files that NOTICE names."""
    return set(re.findall(r"^(gpu_\S+/\S+)$", TEXT, re.MULTILINE))


def data_files() -> list[str]:
    found = (path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file())
    return sorted(path.relative_to(ROOT).as_posix() for path in found if path.suffix not in CODE)


def derived_modules() -> list[str]:
    modules = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return sorted(
        path.relative_to(ROOT).as_posix() for path in modules if AFTER_A_FILE.match(path.read_text(encoding="utf-8"))
    )


def test_every_data_file_has_an_entry() -> None:
    assert len(data_files()) > 5
    assert set(data_files()) - listed() == set()


def test_every_module_made_after_an_upstream_file_has_an_entry() -> None:
    assert "gpu_constructs/autoscaling/karpenter_policies.py" in derived_modules()
    assert set(derived_modules()) - listed() - set(OWN) == set()


@pytest.mark.parametrize("name", [each.name for each in schemas.sources()])
def test_every_schema_has_its_source_and_license(name: str) -> None:
    assert re.search(rf"^    {re.escape(name)}: https://\S+, (Apache-2\.0|MIT-0)\b", TEXT, re.MULTILINE)


def test_every_entry_names_files_that_exist() -> None:
    assert [each for each in sorted(listed()) if not Path(ROOT / each).is_file()] == []
