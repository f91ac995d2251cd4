"""Nested stacks are judged as part of their app, however it was synthesized."""

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


def test_a_nested_stack_of_an_unknown_asset_is_passed_over(tmp_path: Path) -> None:
    nested = {"Type": "AWS::CloudFormation::Stack", "Properties": {"TemplateURL": URL}}

    report = check(read_input([written(tmp_path, nested)]))

    assert not report.findings
