"""The pins name no project, and the lowest versions are those that pyproject.toml allows."""

from __future__ import annotations

from tests.conftest import ROOT, types_by_id
from tools import floor, write_constraints

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


def test_of_a_template_only_types_and_ids_count() -> None:
    template = {"Group": {"Type": "AWS::EKS::Nodegroup", "Properties": {"Labels": {}}}}

    assert types_by_id(template) == {"Group": "AWS::EKS::Nodegroup"}
    for other in ({"kind": "Pod"}, {"Group": {"Type": "Pod"}}, {}, ["a"], "a"):
        assert types_by_id(other) == other
