"""The pins name no project, and the lowest versions are those that pyproject.toml allows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT, types_by_id
from tests.without_cdk import Watch
from tools import base_install, build_zipapp, floor, write_constraints

LOWEST = {"aws-cdk-lib": "2.262.1", "aws-cdk-lambda-layer-kubectl-v36": "2.0.0"}


def test_lowest_versions_are_the_lower_bounds_of_all_extras() -> None:
    extras = {
        "cdk": ["aws-cdk-lib>=2.262.1,<3", "gpu-constructs[kubectl-v36]"],
        "kubectl-v36": ["aws-cdk.lambda-layer-kubectl-v36>=2.0.0,<3"],
    }

    assert floor.lowest_versions(extras) == LOWEST


def test_lowest_versions_stand_in_place_of_the_pins() -> None:
    rows = ["# A comment.", "-c constraints.txt", "aws-cdk-lib==2.275.0", "aws-cdk.lambda-layer-kubectl-v36==2.0.1"]
    rows += ['tomli==2.5.0; python_version < "3.11"', "pytest==9.2.0", "", "-e .[cdk]"]

    assert floor.replaced(rows, LOWEST) == [
        "aws-cdk-lib==2.262.1",
        "aws-cdk-lambda-layer-kubectl-v36==2.0.0",
        'tomli==2.5.0; python_version < "3.11"',
        "pytest==9.2.0",
    ]


def test_what_the_cdk_brings_is_not_held_at_the_pinned_versions() -> None:
    rows = ["aws-cdk-lib==2.275.0", "aws-cdk-cloud-assembly-schema==55.3.0", "jsii==1.142.0"]

    assert floor.others(rows, LOWEST) == ["jsii==1.142.0"]


def test_constraints_leave_out_the_project_itself() -> None:
    assert write_constraints.pins("-e .\nclick==8.5.1\n\n# pip\n") == "click==8.5.1\n\n# pip\n"
    assert "gpu-constructs" not in (ROOT / "constraints.txt").read_text()
    assert (ROOT / "requirements.txt").read_text().endswith("\n-e .[cdk]\n")


@pytest.mark.parametrize("name", write_constraints.HASHED)
def test_every_package_with_hashes_is_the_pinned_one(name: str) -> None:
    text = (ROOT / name).read_text()
    pinned = re.findall(r"^([\w.-]+==\S+)", text, re.MULTILINE)

    assert set(pinned) - set((ROOT / "constraints.txt").read_text().split()) == set()
    assert len(re.findall(r"^[\w.-]+==.* \\\n    --hash=sha256:[0-9a-f]{64}\b", text, re.MULTILINE)) == len(pinned) > 5


def test_packages_with_hashes_are_those_that_the_wheel_and_its_build_name() -> None:
    table = (ROOT / "pyproject.toml").read_text()
    [base] = re.findall(r"^dependencies = \[(.*?)^\]", table, re.MULTILINE | re.DOTALL)
    [build] = re.findall(r"^requires = \[(.*)\]$", table, re.MULTILINE)

    for named, file in ((base, "requirements-command.txt"), (build, "requirements-build.txt")):
        names = {each.lower() for each in re.findall(r'"([\w-]+)[<>=]', named)}
        assert names
        assert names - set(re.findall(r"^([\w.-]+)==", (ROOT / file).read_text(), re.MULTILINE)) == set()


def test_the_zipapp_has_what_an_older_python_needs() -> None:
    rows = 'rich==15.0.0 \\\n    --hash=sha256:0\ntomli==2.5.0 ; python_version < "3.11" \\\n    --hash=sha256:1\n'

    assert build_zipapp.unconditional(rows).splitlines()[2] == "tomli==2.5.0 \\"


def test_of_a_template_only_types_and_ids_count() -> None:
    template = {"Group": {"Type": "AWS::EKS::Nodegroup", "Properties": {"Labels": {}}}}

    assert types_by_id(template) == {"Group": "AWS::EKS::Nodegroup"}
    for other in ({"kind": "Pod"}, {"Group": {"Type": "Pod"}}, {}, ["a"], "a"):
        assert types_by_id(other) == other


def test_who_looks_for_the_cdk_is_noted() -> None:
    watch = Watch()

    assert [watch.find_spec(name, None) for name in ("json", "constructs", "aws_cdk.aws_eks", "cdk8s_extra")] == [
        None
    ] * 4
    assert watch.wanted == ["constructs", "aws_cdk.aws_eks"]


def test_a_base_install_has_a_largest_size(tmp_path: Path) -> None:
    for name, mib in (("pip", 100), ("click", 20), ("typing_extensions.py", 0)):
        (tmp_path / name).mkdir()
        with (tmp_path / name / "data").open("wb") as stream:
            stream.truncate(mib * 1024**2)

    base_install.refuse_unless_light(tmp_path)

    with (tmp_path / "one_file.py").open("wb") as stream:
        stream.truncate(6 * 1024**2)
    with pytest.raises(SystemExit, match=r"base install: must be at most 25 MiB, got 26.0"):
        base_install.refuse_unless_light(tmp_path)
