"""The files of a release: versions agree, it installs with packages of known hashes, and the SBOM lists them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from gpu_constructs import __version__
from tests.commands import run_outside
from tests.conftest import ROOT
from tools.build_distribution import environment, install

P5 = ROOT / "docs" / "pictures" / "p5.yaml"
PINNED = re.compile(r"^([\w.-]+)==([\w.]+)( ; python_version < \"3\.11\")? \\$", re.MULTILINE)


@pytest.fixture
def tag() -> str:
    """The tag of the release."""
    tag = os.environ.get("GPU_CONSTRUCTS_TAG")
    if not tag:
        pytest.skip("no tag: a release runs 'TAG=v1.2.3 make release-check'")
    return tag


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel and the packages of requirements-command.txt, and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    environment(folder, ROOT / "requirements-command.txt")
    install(folder, "--no-deps", str(wheel))
    return folder / "bin"


def test_every_file_is_of_this_version(dist: Path) -> None:
    names = sorted(path.name for path in dist.iterdir())

    assert names == [
        "gpu-constructs.pyz",
        f"gpu_constructs-{__version__}-py3-none-any.whl",
        f"gpu_constructs-{__version__}.cdx.json",
        f"gpu_constructs-{__version__}.tar.gz",
    ]


def test_the_tag_is_the_version(tag: str) -> None:
    assert tag == f"v{__version__}"


def test_the_changelog_has_a_section_of_the_version(tag: str) -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    section = re.search(
        rf"^## {re.escape(tag.removeprefix('v'))} \(\d{{4}}-\d\d-\d\d\)\n(.*?)(?=^## |\Z)", text, re.M | re.S
    )

    assert section, f"CHANGELOG.md: must have a section '## {tag.removeprefix('v')} (YYYY-MM-DD)'; rename 'Unreleased'"
    assert re.search(r"^- ", section[1], re.MULTILINE)


def test_the_wheel_and_the_sdist_have_license_and_notice(dist: Path, wheel: Path) -> None:
    [sdist] = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}

    files = {name.rpartition("licenses/")[2] for name in zipfile.ZipFile(wheel).namelist() if "licenses/" in name}
    assert files == {"LICENSE", "NOTICE"}
    assert files <= packed


def test_the_wheel_installs_and_checks(installed: Path, tmp_path: Path) -> None:
    assert run_outside([sys.executable, "-m", "pip", "--python", installed / "python", "check"], tmp_path)[0] == 0
    code, version = run_outside([installed / "gpu-constructs", "--version"], tmp_path)
    assert (code, version.splitlines()[0]) == (0, f"gpu-constructs {__version__}")
    code, text = run_outside([installed / "gpu-constructs", "check", P5], tmp_path)
    assert code == 1
    assert "GPU001" in text


def test_the_zipapp_checks_in_a_scratch_repository(dist: Path, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / "p5.yaml").write_text(P5.read_text())

    code, text = run_outside([sys.executable, "-I", "-S", dist / "gpu-constructs.pyz", "check", "p5.yaml"], tmp_path)

    assert code == 1
    assert "GPU001" in text


def test_the_sbom_lists_the_wheel_and_exactly_the_packages_with_hashes(dist: Path) -> None:
    [file] = dist.glob("*.cdx.json")
    content = json.loads(file.read_text())
    subject = content["metadata"]["component"]
    pinned = {
        (name.lower(), version)
        for name, version, old in PINNED.findall((ROOT / "requirements-command.txt").read_text())
        if not old or sys.version_info < (3, 11)
    }

    assert (subject["name"], subject["version"]) == ("gpu-constructs", __version__)
    assert {(each["name"].lower(), each["version"]) for each in content["components"]} == pinned
    [root] = [each for each in content["dependencies"] if each["ref"] == subject["bom-ref"]]
    assert len(root["dependsOn"]) >= 3
    assert "file:" not in file.read_text()
