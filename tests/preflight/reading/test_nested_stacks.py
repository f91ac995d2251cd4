"""Nested stacks are checked as part of their app, with any way of synthesis."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.judging.check import check
from gpu_preflight.reading.inputs import read_input

HASH = "0ee3054d1e3cf4ba1c4a39e3c2c74c884bf3634fe4e11648f5facb5ca432af35"
FILE = "Nodes.nested.template.json"
URL = {"Fn::Join": ["", ["https://s3.us-east-1.", {"Ref": "AWS::URLSuffix"}, f"/assets/{HASH}.json"]]}


def written(folder: Path, nested: dict[str, Any]) -> str:
    """Write a stack and the one nested in it, and return the file of the outer one."""
    inner = {
        "Cluster": {"Type": "AWS::EKS::Cluster", "Properties": {"Version": "1.33"}},
        "Group": {
            "Type": "AWS::EKS::Nodegroup",
            "Properties": {
                "ClusterName": {"Ref": "Cluster"},
                "AmiType": "AL2_x86_64_GPU",
                "InstanceTypes": ["g5.xlarge"],
            },
        },
    }
    (folder / FILE).write_text(json.dumps({"Resources": inner}))
    (folder / "Gpu.template.json").write_text(json.dumps({"Resources": {"Nodes": nested}}))
    return str(folder / "Gpu.template.json")


@pytest.mark.parametrize(
    "nested",
    [
        {"Properties": {"TemplateURL": URL}},
        {"Properties": {"TemplateURL": "https://example.com"}, "Metadata": {"aws:asset:path": FILE}},
    ],
    ids=["by the hash of its asset", "by its metadata"],
)
def test_a_nested_stack_is_read(tmp_path: Path, nested: dict[str, Any]) -> None:
    assets = {"files": {HASH: {"source": {"path": FILE, "packaging": "file"}}}}
    (tmp_path / "Gpu.assets.json").write_text(json.dumps(assets))

    report = check(read_input([written(tmp_path, {"Type": "AWS::CloudFormation::Stack", **nested})]))

    [case] = report.cases
    assert case.cluster.whole
    assert "GPU003" in {each.rule.id for each in report.findings}


def test_resources_of_nested_stacks_have_their_own_construct_paths(tmp_path: Path) -> None:
    """Logical ids are unique in a template only, and a stack's metadata contains the ids of its nested stacks, too."""
    written(tmp_path, {"Type": "AWS::CloudFormation::Stack", "Metadata": {"aws:asset:path": FILE}})
    outer = json.loads((tmp_path / "Gpu.template.json").read_text())
    outer["Resources"] |= {"Group": {"Type": "AWS::EKS::Nodegroup"}, "Other": {"Type": "AWS::EKS::Nodegroup"}}
    (tmp_path / "Gpu.template.json").write_text(json.dumps(outer))
    ids = {
        "/Gpu/Mine/Resource": "Group",
        "/Gpu/Inner.NestedStack/Inner.NestedStackResource": "Nodes",
        "/Gpu/Inner/Group/Resource": "Group",
        "/Gpu/Inner/Cluster": "Cluster",
    }
    metadata = {path: [{"type": "aws:cdk:logicalId", "data": each}] for path, each in ids.items()}
    properties = {"templateFile": "Gpu.template.json"}
    artifact = {"type": "aws:cloudformation:stack", "properties": properties, "metadata": metadata}
    (tmp_path / "manifest.json").write_text(json.dumps({"artifacts": {"Gpu": artifact}}))

    resources = read_input([str(tmp_path)]).resources

    assert {key: each.path for key, each in resources.items()} == {
        "Gpu/Nodes": "Gpu/Inner.NestedStack/Inner.NestedStackResource",
        "Gpu/Group": "Gpu/Mine",
        "Gpu/Other": "Gpu/Other",
        "Gpu.Nodes/Group": "Gpu/Inner/Group",
        "Gpu.Nodes/Cluster": "Gpu/Inner/Cluster",
    }


def test_a_nested_stack_of_an_unknown_asset_is_passed_over(tmp_path: Path) -> None:
    nested = {"Type": "AWS::CloudFormation::Stack", "Properties": {"TemplateURL": URL}}

    report = check(read_input([written(tmp_path, nested)]))

    assert not report.findings
