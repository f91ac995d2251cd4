"""Templates nested in themselves, in each other, or outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.preflight.hostile.files import GROUP, file_of, refusal, template


def nested(asset: Any) -> dict[str, Any]:
    return {
        "Type": "AWS::CloudFormation::Stack",
        "Properties": {"Parameters": {"P": {"Fn::GetAtt": ["Inner", "Outputs.O"]}}},
        "Metadata": {"aws:asset:path": asset},
    }


def test_refuses_a_template_nested_in_itself(tmp_path: Path) -> None:
    path = file_of(tmp_path, template(Resources={"Inner": nested("s.json")}), "s.json")

    assert "nested in itself" in refusal(path)


def test_refuses_templates_nested_in_each_other(tmp_path: Path) -> None:
    path = file_of(tmp_path, template(Resources={"Inner": nested("b.json")}), "a.json")
    file_of(tmp_path, template(Resources={"Inner": nested("a.json")}), "b.json")

    refusal(path)


def test_refuses_nested_templates_that_double(tmp_path: Path) -> None:
    for level in range(30):
        inner = {f"Inner{each}": nested(f"{level + 1}.json") for each in range(2)}
        file_of(tmp_path, template(Resources=inner), f"{level}.json")
    file_of(tmp_path, template(), "30.json")

    assert "at most 1,000 templates" in refusal(str(tmp_path / "0.json"))


@pytest.mark.parametrize("asset", ["../x.json", "/etc/x.json", "a\0.json", "a" * 5_000 + ".json", "missing.json"])
def test_refuses_a_nested_template_outside(tmp_path: Path, asset: str) -> None:
    refusal(file_of(tmp_path, template(Resources={"Inner": nested(asset)})))


def test_refuses_a_nested_stack_that_feeds_itself(tmp_path: Path) -> None:
    path = file_of(tmp_path, template(Resources={"Nodes": GROUP, "Inner": nested("inner.json")}), "a.json")
    file_of(
        tmp_path, template(Parameters={"P": {"Type": "String"}}, Outputs={"O": {"Value": {"Ref": "P"}}}), "inner.json"
    )

    assert "values must refer to each other at most 200 deep" in refusal(path)
