"""The example of the page on data and permissions is an app."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpu_preflight.judging.check import check
from gpu_preflight.reading.inputs import read_input
from tests.apps import programs_of, run_program
from tests.conftest import ROOT
from tests.emitted import Template
from tests.linting import cfn_lint
from tests.templates import manifests_of, of_type

PAGE = (ROOT / "docs" / "how-to" / "storage.md").read_text()


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The assembly of the example's app."""
    [example] = programs_of(PAGE)
    return run_program(example, tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def template(output: Path) -> Template:
    return dict(json.loads((output / "Training.template.json").read_text()))


@pytest.mark.linted
def test_cloudformation_takes_it(output: Path) -> None:
    found = cfn_lint([output / "Training.template.json"])

    # Zones are named on purpose, and the CDK lists a dependency twice where two of its constructs add it.
    assert [each for each in found if not any(known in str(each) for known in ("W3005", "W3010"))] == []


def test_the_pods_may_write_their_results(template: Template) -> None:
    resources = template["Resources"]

    [role] = [id for id in of_type(resources, "AWS::IAM::Role") if id.startswith("PodIdentityRoleTrain")]
    [policy] = [each for id, each in of_type(resources, "AWS::IAM::Policy").items() if id.startswith("TrainRole")]
    assert policy["Properties"]["Roles"] == [{"Ref": role}]
    assert "s3:PutObject" in json.dumps(policy)


def test_the_driver_may_read_the_weights_and_nothing_else(template: Template) -> None:
    resources = template["Resources"]

    [policy] = [each for id, each in of_type(resources, "AWS::IAM::RolePolicy").items() if "S3Permissions" in id]
    actions = [action for each in policy["Properties"]["PolicyDocument"]["Statement"] for action in each["Action"]]
    assert actions == ["s3:ListBucket", "s3:GetObject"]


def test_fresh_nodes_wait_for_every_driver_that_comes_with_them(template: Template) -> None:
    resources = template["Resources"]

    groups = [each["Properties"].get("Taints", []) for each in of_type(resources, "AWS::EKS::Nodegroup").values()]
    taints = {taint["Key"].removesuffix(".csi.aws.com/agent-not-ready") for each in groups for taint in each}
    addons = {each["Properties"]["AddonName"] for each in of_type(resources, "AWS::EKS::Addon").values()}
    assert taints == {"nvidia.com/gpu", "ebs", "fsx", "s3"}
    assert {"aws-ebs-csi-driver", "aws-fsx-csi-driver", "aws-mountpoint-s3-csi-driver"} <= addons


def test_the_file_system_is_in_the_zone_of_its_pool(template: Template) -> None:
    resources = template["Resources"]

    [data] = of_type(resources, "AWS::FSx::FileSystem").values()
    groups = [each["Properties"] for each in of_type(resources, "AWS::EKS::Nodegroup").values()]
    assert data["Properties"]["SubnetIds"] in [each["Subnets"] for each in groups if "Taints" in each]
    assert data["DeletionPolicy"] == "RetainExceptOnCreate"


def test_its_objects_are_those_that_the_page_names(template: Template) -> None:
    kinds = {each["kind"] for each in manifests_of(template["Resources"])}

    assert {"PersistentVolume", "PersistentVolumeClaim", "StorageClass", "ServiceAccount"} <= kinds


def test_preflight_has_nothing_against_it(output: Path) -> None:
    found = check(read_input([str(output)])).findings

    assert [
        f"{each.rule.id} {each.problem.message}"
        for each in found
        if each.rule.severity != "note" and each.rule.id != "GPU294"
    ] == []
