"""The example of the escape hatches synthesizes, and does as its page describes."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest

from tests.apps import run_program
from tests.conftest import ROOT
from tests.templates import of_type, only
from tests.user_data import parts_of

PAGE = (ROOT / "docs" / "how-to" / "pools.md").read_text()


@pytest.fixture(scope="module")
def resources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Resources of the stack of the example."""
    folder = tmp_path_factory.mktemp("hatches")
    section = PAGE.partition("## Escape hatches\n")[2].partition("\n## ")[0]
    [example] = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert "app = cdk.App()" in example
    run_program(f"{example}\napp.synth()\n", folder)
    template = json.loads((folder / "Gpu.template.json").read_text())
    return dict(template["Resources"])


def test_every_role_has_boundary_and_path(resources: dict[str, Any]) -> None:
    roles = of_type(resources, "AWS::IAM::Role")

    assert len(roles) > 5
    for id, role in roles.items():
        assert role["Properties"]["Path"] == "/gpu/", id
        assert "policy/developers" in str(role["Properties"]["PermissionsBoundary"]), id


def test_nodes_are_reached_and_tagged(resources: dict[str, Any]) -> None:
    templates = {id: each for id, each in of_type(resources, "AWS::EC2::LaunchTemplate").items() if id.startswith("L4")}
    [made] = templates.values()

    data = made["Properties"]["LaunchTemplateData"]
    assert "sg-0123456789abcdef0" in data["SecurityGroupIds"]
    assert len(data["SecurityGroupIds"]) == 2
    assert [each["ResourceType"] for each in data["TagSpecifications"]] == ["instance", "volume", "network-interface"]
    for each in data["TagSpecifications"]:
        assert {"Key": "cost-centre", "Value": "4711"} in each["Tags"]


def test_nodes_get_the_settings_of_the_host(resources: dict[str, Any]) -> None:
    [template] = [each for id, each in of_type(resources, "AWS::EC2::LaunchTemplate").items() if id.startswith("L4")]

    told = base64.b64decode(template["Properties"]["LaunchTemplateData"]["UserData"]).decode()
    assert [kind for kind, _ in parts_of(told)] == ["application/node.eks.aws", *["text/x-shellscript"] * 2]
    for words in ("shutdownGracePeriod: 60s", "mirror.example.com", "proxy.example.com:3128", "vm.max_map_count"):
        assert words in told


def test_a_third_of_the_group_is_updated_at_once(resources: dict[str, Any]) -> None:
    groups = of_type(resources, "AWS::EKS::Nodegroup")
    group = only({id: each for id, each in groups.items() if id.startswith("L4")}, "AWS::EKS::Nodegroup")

    assert group["UpdateConfig"] == {"MaxUnavailablePercentage": 33, "UpdateStrategy": "MINIMAL"}


def test_one_role_lets_session_manager_in(resources: dict[str, Any]) -> None:
    open_roles = [id for id, each in of_type(resources, "AWS::IAM::Role").items() if "SSMManagedInstance" in str(each)]

    assert len(open_roles) == 1
    assert "NodeRole" in open_roles[0]
