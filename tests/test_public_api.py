"""The public names are there, typed, documented, and cheap until they are used."""

from __future__ import annotations

import dataclasses
import inspect
import re
import subprocess
import sys

import pytest
from constructs import Construct

import gpu_constructs
from tests.conftest import ROOT

CLASSES = {name: each for name in gpu_constructs.__all__ if inspect.isclass(each := getattr(gpu_constructs, name))}
CONSTRUCTS = [name for name, each in CLASSES.items() if issubclass(each, Construct)]
VALUES = [name for name, each in CLASSES.items() if dataclasses.is_dataclass(each)]


def test_the_kinds_of_names_are_told_apart() -> None:
    assert (len(CONSTRUCTS), len(VALUES)) == (35, 31)


def test_names_exist() -> None:
    assert len(set(gpu_constructs.__all__)) == len(gpu_constructs.__all__)
    assert set(gpu_constructs._MODULES) == set(gpu_constructs.__all__)
    assert set(gpu_constructs.__all__) <= set(dir(gpu_constructs))
    for name in gpu_constructs.__all__:
        assert getattr(gpu_constructs, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'gpu_constructs' has no attribute 'GpuClutser'"):
        _ = gpu_constructs.GpuClutser


def test_values_and_catalogue_load_no_cdk() -> None:
    program = (
        "import sys, gpu_constructs as g; g.NodeShape(instance_types=('g6.xlarge',)); g.catalogue(); g.Spot(); "
        "assert not {'aws_cdk', 'jsii', 'constructs', 'cdk8s'} & sys.modules.keys(), sorted(sys.modules)"
    )

    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_constructs_load_no_typed_kubernetes_classes_before_they_need_them() -> None:
    program = (
        f"import sys, gpu_constructs as g; [getattr(g, name) for name in {CONSTRUCTS}]; "
        "assert not {'cdk8s', 'cdk8s_plus_28'} & sys.modules.keys(), sorted(sys.modules)"
    )

    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def documented(text: str, section: str) -> list[str]:
    """The names that a Google-style section of a docstring explains."""
    body = re.split(rf"^{section}:\n", inspect.cleandoc(text), flags=re.MULTILINE)[1]
    names = []
    for line in body.splitlines():
        if line and not line.startswith(" "):
            break
        if found := re.match(r" {4}(\w+): ", line):
            names.append(found[1])
    return names


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_every_argument_of_a_construct_is_documented(name: str) -> None:
    construct = getattr(gpu_constructs, name)

    arguments = [
        each for each in inspect.signature(construct.__init__).parameters if each not in ("self", "scope", "id")
    ]
    assert documented(construct.__doc__, "Args") == arguments
    assert "Raises:" in construct.__doc__


@pytest.mark.parametrize("name", VALUES)
def test_every_field_of_a_value_is_documented(name: str) -> None:
    value = getattr(gpu_constructs, name)

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

    assert done.stdout.strip() == gpu_constructs.__version__
