"""The published files: the wheel has the library and all its data, and the links of its index page work."""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from pathlib import Path

import pytest

from gpu_constructs import __version__
from gpu_facts.versions import DEFAULT_KUBERNETES, KUBERNETES
from gpu_preflight.report.wording import RULES_PAGE
from tests.conftest import ROOT
from tests.once import Once

PACKAGES = ("gpu_constructs", "gpu_facts", "gpu_preflight")
# The imports of preflight and the command line, without the CDK.
BASE = {"click", "pyyaml", "rich", "tomli"}


@pytest.fixture(scope="session")
def built(once: Once, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the sdist and the wheel, which one process builds."""
    return Path(once.json("dist", lambda: build(tmp_path_factory.mktemp("dist"))))


def build(folder: Path) -> str:
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True)
    return str(folder)


@pytest.fixture
def wheel(built: Path) -> zipfile.ZipFile:
    [file] = built.glob("*.whl")
    return zipfile.ZipFile(file)


@pytest.fixture
def metadata(wheel: zipfile.ZipFile) -> Message:
    [name] = [each for each in wheel.namelist() if each.endswith(".dist-info/METADATA")]
    return email.message_from_bytes(wheel.read(name))


def page(metadata: Message) -> str:
    return bytes(metadata.get_payload(decode=True)).decode()


def requirements(metadata: Message, extra: str | None) -> set[str]:
    """Names of the requirements of an extra, or of the base install."""
    rows = [each.partition(";") for each in metadata.get_all("Requires-Dist", ())]
    marked = f"extra == '{extra}'" if extra else "extra =="
    chosen = [name for name, _, marker in rows if (marked in marker) == (extra is not None)]
    return {re.split(r"[<>=!~ \[]", name)[0] for name in chosen}


def test_wheel_has_every_file_of_the_library_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    files = {
        path.relative_to(ROOT).as_posix() for each in PACKAGES for path in (ROOT / each).rglob("*") if path.is_file()
    }
    library = {name for name in wheel.namelist() if ".dist-info/" not in name}

    assert library == {file for file in files if "__pycache__" not in file}


def test_wheel_has_types_and_data(wheel: zipfile.ZipFile) -> None:
    kinds = {Path(name).suffix or Path(name).name for name in wheel.namelist() if name.startswith("gpu_")}

    assert {".json", ".css", ".js", ".pyi", ".py"} <= kinds
    assert "gpu_constructs/py.typed" in wheel.namelist()


def test_base_install_is_the_command_line_without_the_cdk(metadata: Message) -> None:
    assert requirements(metadata, None) == BASE


def test_an_extra_brings_the_constructs_with_one_kubectl(metadata: Message) -> None:
    layers = {each for each in requirements(metadata, "cdk") if "kubectl" in each}

    assert {"aws-cdk-lib", "constructs", "cdk8s", "cdk8s-plus-28", "tomli-w"} <= requirements(metadata, "cdk")
    assert layers == {distribution(KUBERNETES[DEFAULT_KUBERNETES].kubectl_layer)}


@pytest.mark.parametrize("minor", KUBERNETES)
def test_every_kubernetes_version_has_an_extra_with_its_kubectl(metadata: Message, minor: str) -> None:
    layer = distribution(KUBERNETES[minor].kubectl_layer)

    assert requirements(metadata, f"kubectl-{layer.rpartition('-')[2]}") == {layer}
    assert layer in requirements(metadata, "all")


def test_all_is_every_extra(metadata: Message) -> None:
    extras = set(metadata.get_all("Provides-Extra", ())) - {"all"}

    assert requirements(metadata, "all") == set().union(*(requirements(metadata, each) for each in extras))


def distribution(module: str) -> str:
    """Name on the index of a module's distribution."""
    return re.sub(r"[._]", "-", module)


def test_page_of_the_index_leads_out_of_it(metadata: Message) -> None:
    text = page(metadata)
    images = re.findall(r"<img\b[^>]*?\bsrc=[\"']([^\"']*)", text)

    assert [each for each in re.findall(r"\]\(([^)\s]*)", text) if not each.startswith(("https://", "#"))] == []
    assert [each for each in images if not each.startswith("https://")] == []
    assert "<picture" not in text


def test_page_of_the_index_ends_with_the_newest_changes(metadata: Message) -> None:
    newest = page(metadata).rpartition("# Newest changes\n")[2]

    assert len(re.findall(r"^## ", newest, re.MULTILINE)) == 1
    assert re.search(r"^- ", newest, re.MULTILINE)


def test_version_is_that_of_the_library(metadata: Message) -> None:
    assert metadata["Version"] == __version__


def test_version_and_classifier_are_those_of_an_alpha_until_something_was_deployed(metadata: Message) -> None:
    never_deployed = "Nothing has been deployed to AWS yet" in (ROOT / "README.md").read_text()
    status = [each for each in metadata.get_all("Classifier", ()) if each.startswith("Development Status")]

    assert never_deployed == ("never deployed to AWS" in metadata["Summary"])
    assert never_deployed == bool(re.fullmatch(r"\d+\.\d+\.\d+a\d+", metadata["Version"]))
    assert never_deployed == (status == ["Development Status :: 3 - Alpha"])


def test_license_and_notice_are_in_the_wheel_and_the_license_is_one_expression(
    wheel: zipfile.ZipFile, metadata: Message
) -> None:
    assert metadata["License-Expression"] == "Apache-2.0"
    assert {"LICENSE", "NOTICE"} <= {name.rpartition("licenses/")[2] for name in wheel.namelist()}
    assert not [each for each in metadata.get_all("Classifier", ()) if each.startswith("License")]


def test_addresses_are_below_one_repository(metadata: Message) -> None:
    addresses = [each.split(", ")[1] for each in metadata.get_all("Project-URL", ())]
    repository = min(addresses, key=len)

    assert {each.partition(",")[0] for each in metadata.get_all("Project-URL", ())} >= {"Source", "Issues", "Changelog"}
    assert [each for each in addresses if not each.startswith(repository)] == []
    assert (ROOT / "pyproject.toml").read_text().count(repository) == 1
    # An installed package writes links, too.
    assert f"{repository}/blob/main/docs/reference/rules.md" == RULES_PAGE


def test_sdist_has_everything_that_is_kept(built: Path) -> None:
    [file] = built.glob("*.tar.gz")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("no git here, which lists the files")
    with tarfile.open(file) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    kept = {each for each in listed.stdout.splitlines() if (ROOT / each).exists() and not each.startswith(".ci/")}

    assert kept - names == set()
