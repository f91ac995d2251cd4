"""The public names are there, typed, documented, and cheap until they are used."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import subprocess
import sys
from typing import Any

import pytest
from constructs import Construct

import gpu_constructs
from gpu_facts.light import lazy_names
from tests.conftest import ROOT

PACKAGES = {
    ".".join(stub.parent.relative_to(ROOT).parts): ast.parse(stub.read_text())
    for stub in sorted(ROOT.glob("gpu_*/**/__init__.pyi"))
}
FOLDERS = [package for package in PACKAGES if package != "gpu_constructs"]
CLASSES: dict[str, Any] = {
    name: each
    for folder in FOLDERS
    for name in importlib.import_module(folder).__all__
    if inspect.isclass(each := getattr(importlib.import_module(folder), name))
}
CONSTRUCTS = [name for name, each in CLASSES.items() if issubclass(each, Construct)]
VALUES = [name for name, each in CLASSES.items() if dataclasses.is_dataclass(each)]


def test_the_kinds_of_names_are_told_apart() -> None:
    assert (len(CONSTRUCTS), len(VALUES)) == (50, 63)


def test_the_root_has_what_most_apps_need_and_no_more() -> None:
    assert len(lazy_names("gpu_constructs")[2]) <= 30


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_of_a_stub_is_there(package: str) -> None:
    module = importlib.import_module(package)
    stated = [
        (each.module, alias.name)
        for each in PACKAGES[package].body
        if isinstance(each, ast.ImportFrom)
        for alias in each.names
        if alias.asname == alias.name and alias.name != "__version__"
    ]

    assert module.__all__ == sorted(name for _, name in stated)
    assert set(module.__all__) <= set(dir(module))
    for home, name in stated:
        assert getattr(module, name) is getattr(importlib.import_module(str(home)), name)


def test_a_name_of_the_root_is_that_of_its_folder() -> None:
    of_folders = {name: folder for folder in FOLDERS for name in importlib.import_module(folder).__all__}

    for name in set(lazy_names("gpu_constructs")[2]) & of_folders.keys():
        assert getattr(gpu_constructs, name) is getattr(importlib.import_module(of_folders[name]), name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'gpu_constructs' has no attribute 'GpuClutser'"):
        _ = gpu_constructs.GpuClutser  # type: ignore[attr-defined]


def test_a_failed_lookup_imports_nothing() -> None:
    program = (
        "import sys, gpu_constructs\n"
        "loaded = set(sys.modules)\n"
        "assert not hasattr(gpu_constructs, 'no_such_name')\n"
        "try: gpu_constructs.Kueue\n"
        "except ImportError as error: assert 'gpu_constructs.queueing' in str(error), error\n"
        "else: raise AssertionError\n"
        "new = [each for each in set(sys.modules) - loaded if each.startswith('gpu_constructs')]\n"
        "assert not new, new\n"
        "import gpu_constructs.teams; gpu_constructs.teams"
    )

    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_a_folder_is_an_attribute_after_a_construct_was_loaded() -> None:
    program = (
        "from gpu_constructs import GpuCluster\n"
        "import gpu_constructs.pod_scaling, gpu_preflight.command_line\n"
        "gpu_constructs.pod_scaling, gpu_preflight.command_line"
    )

    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_a_name_of_a_folder_says_which() -> None:
    with pytest.raises(ImportError, match=r"^Kueue is one folder down: from gpu_constructs.queueing import Kueue$"):
        from gpu_constructs import Kueue  # type: ignore[attr-defined]  # noqa: F401


def test_a_construct_without_the_cdk_says_how_to_get_it() -> None:
    program = (
        "import sys; sys.modules['aws_cdk'] = None\n"
        "from gpu_constructs import NodeShape\n"
        "try: from gpu_constructs import GpuCluster\n"
        "except ModuleNotFoundError as error: print(error)\n"
        "try: from gpu_constructs.queueing import Kueue\n"
        "except ModuleNotFoundError as error: print(error)"
    )

    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True)

    assert done.stdout.splitlines() == [
        f"{name} needs the AWS CDK: pip install 'gpu-constructs[cdk]'" for name in ("GpuCluster", "Kueue")
    ]


def test_values_and_catalogue_load_no_cdk() -> None:
    program = (
        "import sys, gpu_constructs as g; g.NodeShape(instance_types=('g6.xlarge',)); g.find_instance_types(); "
        "g.Spot(); "
        "assert not {'aws_cdk', 'jsii', 'constructs', 'cdk8s'} & sys.modules.keys(), sorted(sys.modules)"
    )

    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_constructs_load_no_typed_kubernetes_classes_before_they_need_them() -> None:
    program = (
        "import importlib, sys\n"
        f"for folder in {FOLDERS}:\n"
        "    module = importlib.import_module(folder); [getattr(module, name) for name in module.__all__]\n"
        "assert not {'cdk8s', 'cdk8s_plus_28'} & sys.modules.keys(), sorted(sys.modules)"
    )

    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def documented(text: str | None, section: str) -> list[str]:
    """The names that a Google-style section of a docstring explains."""
    body = re.split(rf"^{section}:\n", inspect.cleandoc(text or ""), flags=re.MULTILINE)[1]
    names = []
    for line in body.splitlines():
        if line and not line.startswith(" "):
            break
        if found := re.match(r" {4}(\w+): ", line):
            names.append(found[1])
    return names


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_every_argument_of_a_construct_is_documented(name: str) -> None:
    construct = CLASSES[name]

    arguments = [
        each for each in inspect.signature(construct.__init__).parameters if each not in ("self", "scope", "id")
    ]
    # GpuNodes is the base of every pool, and can't be created itself.
    if name != "GpuNodes":
        assert documented(construct.__doc__, "Args") == arguments
        assert "Raises:" in str(construct.__doc__)


@pytest.mark.parametrize("name", VALUES)
def test_every_field_of_a_value_is_documented(name: str) -> None:
    value = CLASSES[name]

    fields = [each.name for each in dataclasses.fields(value) if each.init]
    if fields:
        assert documented(value.__doc__, "Attributes") == fields


def test_the_console_script_says_what_it_is() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpu_constructs", "--version"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )

    assert done.stdout.splitlines()[0] == f"gpu-constructs {gpu_constructs.__version__}"


def test_every_argument_of_add_pool_is_documented() -> None:
    arguments = [each for each in inspect.signature(gpu_constructs.GpuCluster.add_pool).parameters if each != "self"]

    assert documented(gpu_constructs.GpuCluster.add_pool.__doc__, "Args") == arguments
