"""Intrinsics are resolved as far as they can be, and no further."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.reading.cloudformation import Template
from gpu_preflight.reading.documents import parse
from gpu_preflight.reading.inputs import Input, read_input
from gpu_preflight.reading.unknown import Unknown

PARTS: dict[str, Any] = {
    "Parameters": {
        "Text": {"Type": "String", "Default": "text"},
        "Number": {"Type": "Number", "Default": 3},
        "Later": {"Type": "String"},
        "List": {"Type": "CommaDelimitedList", "Default": "a, b"},
        "Subnets": {"Type": "List<AWS::EC2::Subnet::Id>", "Default": "subnet-1"},
        "Image": {"Type": "AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>", "Default": "/aws/x"},
    },
    "Mappings": {"Map": {"us-east-1": {"key": "found"}}},
    "Conditions": {
        "Yes": {"Fn::Equals": [{"Ref": "Text"}, "text"]},
        "No": {"Fn::Not": [{"Condition": "Yes"}]},
        "Maybe": {"Fn::Equals": [{"Ref": "Later"}, "text"]},
        "Same": {"Fn::Equals": [{"Ref": "Later"}, {"Ref": "Later"}]},
    },
    "Resources": {"Thing": {"Type": "AWS::SNS::Topic"}},
}


def resolved(value: Any, *, region: str | None = "us-east-1", parameters: Any = None) -> Any:
    template = Template("file", "Stack", PARTS, region, "111122223333", parameters=parameters or {})
    return template.resolve(value)


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ({"Ref": "Text"}, "text"),
        ({"Ref": "Number"}, 3),
        ({"Ref": "Later"}, Unknown("${Stack/Later}")),
        ({"Ref": "List"}, ["a", "b"]),
        ({"Ref": "Subnets"}, ["subnet-1"]),
        ({"Ref": "Image"}, Unknown("{{resolve:ssm:/aws/x}}")),
        ({"Ref": "Missing"}, Unknown("${Stack/Missing}")),
        ({"Ref": "Thing"}, Unknown("${Stack/Thing}")),
        ({"Ref": "AWS::Region"}, "us-east-1"),
        ({"Ref": "AWS::Partition"}, "aws"),
        ({"Ref": "AWS::AccountId"}, "111122223333"),
        ({"Ref": "AWS::StackName"}, "Stack"),
        ({"Ref": "AWS::URLSuffix"}, Unknown("${AWS::URLSuffix}")),
        ({"Ref": "AWS::NoValue"}, None),
        ({"a": {"Ref": "AWS::NoValue"}, "b": 1}, {"b": 1}),
        (["a", {"Ref": "AWS::NoValue"}], ["a"]),
        ({"Fn::GetAtt": ["Thing", "Arn"]}, Unknown("${Stack/Thing.Arn}")),
        ({"Fn::GetAtt": "Thing.Arn"}, Unknown("${Stack/Thing.Arn}")),
        ({"Fn::Join": ["-", ["a", {"Ref": "Text"}]]}, "a-text"),
        ({"Fn::Join": ["-", {"Ref": "List"}]}, "a-b"),
        ({"Fn::Join": ["-", ["a", {"Ref": "Later"}]]}, Unknown("a-${Stack/Later}")),
        ({"Fn::Join": ["-", []]}, ""),
        ({"Fn::Sub": "${Text}-${AWS::Region}-${!Literal}"}, "text-us-east-1-${Literal}"),
        ({"Fn::Sub": "${Thing.Arn}"}, Unknown("${Stack/Thing.Arn}")),
        ({"Fn::Sub": ["${A}${Text}", {"A": "a"}]}, "atext"),
        ({"Fn::Select": [1, ["a", "b"]]}, "b"),
        ({"Fn::Select": ["0", {"Ref": "List"}]}, "a"),
        ({"Fn::Split": [",", "a,b"]}, ["a", "b"]),
        ({"Fn::If": ["Yes", "a", "b"]}, "a"),
        ({"Fn::If": ["No", "a", "b"]}, "b"),
        ({"Fn::If": ["Maybe", "a", "a"]}, "a"),
        ({"Fn::If": ["Same", "a", "b"]}, "a"),
        ({"Fn::FindInMap": ["Map", {"Ref": "AWS::Region"}, "key"]}, "found"),
        ({"Fn::FindInMap": ["Map", "eu-west-1", "key", {"DefaultValue": "d"}]}, "d"),
        ({"Fn::Base64": "a"}, "YQ=="),
        ({"Fn::Base64": {"Ref": "Later"}}, {"Fn::Base64": Unknown("${Stack/Later}")}),
        ({"Fn::ToJsonString": {"b": 1, "a": {"Ref": "Text"}}}, '{"a":"text","b":1}'),
        ({"Fn::Length": {"Ref": "List"}}, 2),
        ("{{resolve:secretsmanager:a}}", Unknown("{{resolve:secretsmanager:a}}")),
        ({"Fn::Join": ["", ["{{resolve:", "ssm:a}}"]]}, Unknown("{{resolve:ssm:a}}")),
        ({"Ref": "Text", "Other": 1}, {"Ref": "Text", "Other": 1}),
    ],
)
def test_intrinsic(value: Any, result: Any) -> None:
    assert resolved(value) == result


@pytest.mark.parametrize(
    "value",
    [
        {"Fn::If": ["Maybe", "a", "b"]},
        {"Fn::If": ["Missing", "a", "b"]},
        {"Fn::Select": [2, ["a", "b"]]},
        {"Fn::Select": [-1, ["a", "b"]]},
        {"Fn::Select": [0, {"Fn::GetAZs": ""}]},
        {"Fn::FindInMap": ["Map", "eu-west-1", "key"]},
        {"Fn::ImportValue": "nobody"},
        {"Fn::GetStackOutput": {"StackName": "nobody", "OutputName": "a"}},
        {"Fn::Cidr": ["10.0.0.0/16", 2, 8]},
        {"Fn::Brand::New": 1},
        {"Fn::Join": ["-", ["a", {"b": 1}]]},
        {"Fn::Join": ["-", ["a", None]]},
        {"Fn::Sub": "${AWS::NoValue}"},
        {"Fn::ToJsonString": {"a": {"Ref": "Later"}}},
        {"Fn::Length": "a"},
        {"Fn::Split": ["", "a"]},
    ],
)
def test_what_cannot_be_resolved_is_unknown(value: Any) -> None:
    assert isinstance(resolved(value), Unknown)


def test_two_unknown_values_of_one_expression_are_equal() -> None:
    value = {"Fn::Anything": {"Ref": "Later"}}

    assert resolved(value) == resolved(dict(value))


def test_an_unknown_text_holds_no_address_of_this_process() -> None:
    assert "object at" not in str(resolved({"Fn::Sub": ["${A}", {"A": {"Ref": "AWS::NoValue"}}]}))


@pytest.mark.parametrize(
    ("name", "given", "result"),
    [
        ("Text", "other", "other"),
        ("List", "x,y", ["x", "y"]),
        ("Image", "/mine", Unknown("{{resolve:ssm:/mine}}")),
        ("Later", "now", "now"),
    ],
)
def test_a_parameter_that_is_given_goes_before_its_default(name: str, given: str, result: Any) -> None:
    assert resolved({"Ref": name}, parameters={name: given}) == result


def test_without_a_region_its_pseudo_parameters_are_unknown() -> None:
    assert resolved({"Ref": "AWS::Region"}, region=None) == Unknown("${AWS::Region}")


def test_the_partition_of_an_unknown_region_is_unknown() -> None:
    assert resolved({"Ref": "AWS::Partition"}, region="nz-south-1") == Unknown("${AWS::Partition}")


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ({"Fn::And": [{"Condition": "Yes"}, {"Condition": "Yes"}]}, True),
        ({"Fn::And": [{"Condition": "Maybe"}, {"Condition": "No"}]}, False),
        ({"Fn::And": [{"Condition": "Maybe"}, {"Condition": "Yes"}]}, None),
        ({"Fn::Or": [{"Condition": "Maybe"}, {"Condition": "Yes"}]}, True),
        ({"Fn::Or": [{"Condition": "Maybe"}, {"Condition": "No"}]}, None),
        ({"Fn::Or": [{"Condition": "No"}, {"Condition": "No"}]}, False),
        ({"Fn::Not": [{"Condition": "Maybe"}]}, None),
        ({"Fn::Equals": [{"Ref": "Number"}, "3"]}, True),
        ({"Fn::Equals": ["true", True]}, True),
        ({"Fn::Equals": [{"Ref": "List"}, "a"]}, None),
    ],
)
def test_conditions(expression: Any, holds: bool | None) -> None:
    body = {**PARTS, "Conditions": {**PARTS["Conditions"], "Asked": expression}}
    body["Resources"] = {"Thing": {"Type": "AWS::SNS::Topic", "Condition": "Asked"}}

    found = Template("file", "Stack", body, "us-east-1").resources()

    assert [each.conditional for each in found] == {True: [False], None: [True], False: []}[holds]


def test_short_tags_are_the_long_names() -> None:
    text = (
        "a: !Ref B\nb: !GetAtt C.D\nc: !Sub '${E}'\nd: !Join ['-', [f, !Ref G]]\ne: !Condition H\n"
        "f: !If [I, !Ref J, k]\ng: !GetAtt [L, M]\nh: !Base64 {Ref: O}\n"
    )

    [document] = parse("a.yaml", text)

    assert document.content == {
        "a": {"Ref": "B"},
        "b": {"Fn::GetAtt": ["C", "D"]},
        "c": {"Fn::Sub": "${E}"},
        "d": {"Fn::Join": ["-", ["f", {"Ref": "G"}]]},
        "e": {"Condition": "H"},
        "f": {"Fn::If": ["I", {"Ref": "J"}, "k"]},
        "g": {"Fn::GetAtt": ["L", "M"]},
        "h": {"Fn::Base64": {"Ref": "O"}},
    }


def topic(name: Any) -> dict[str, Any]:
    return {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": name}}


def assembly(folder: Path, **stacks: Any) -> Input:
    artifacts = {}
    for name, body in stacks.items():
        (folder / f"{name}.template.json").write_text(json.dumps(body))
        properties = {"templateFile": f"{name}.template.json"}
        environment = "aws://111122223333/us-east-1"
        artifacts[name] = {"type": "aws:cloudformation:stack", "properties": properties, "environment": environment}
    (folder / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
    return read_input([str(folder)])


def name_of(found: Input, key: str) -> Any:
    return found.resources[key].properties["TopicName"]


def test_a_stack_reads_what_another_exports(tmp_path: Path) -> None:
    exporter = {"Resources": {"A": topic("a")}, "Outputs": {"O": {"Value": {"Ref": "A"}, "Export": {"Name": "shared"}}}}

    found = assembly(tmp_path, Z=exporter, A={"Resources": {"B": topic({"Fn::ImportValue": "shared"})}})

    assert name_of(found, "A/B") == Unknown("${Z/A}")


def test_a_stack_reads_the_output_of_another(tmp_path: Path) -> None:
    value = {"Fn::GetStackOutput": {"StackName": "Z", "OutputName": "O"}}

    found = assembly(
        tmp_path,
        Z={"Resources": {"A": topic("a")}, "Outputs": {"O": {"Value": "v"}}},
        A={"Resources": {"B": topic(value)}},
    )

    assert name_of(found, "A/B") == "v"


def test_values_pass_into_a_nested_stack_and_out_of_it(tmp_path: Path) -> None:
    inner = {
        "Parameters": {"P": {"Type": "String"}, "L": {"Type": "CommaDelimitedList"}},
        "Resources": {"B": topic({"Fn::Join": ["-", {"Ref": "L"}]})},
        "Outputs": {"O": {"Value": {"Fn::Sub": "${P}-${B}"}}},
    }
    (tmp_path / "inner.nested.template.json").write_text(json.dumps(inner))
    nested = {
        "Type": "AWS::CloudFormation::Stack",
        "Properties": {"Parameters": {"P": {"Ref": "Text"}, "L": "a,b"}},
        "Metadata": {"aws:asset:path": "inner.nested.template.json"},
    }
    outer = {
        "Parameters": {"Text": {"Type": "String", "Default": "given"}},
        "Resources": {"Inner": nested, "A": topic({"Fn::GetAtt": ["Inner", "Outputs.O"]})},
    }

    found = assembly(tmp_path, Outer=outer)

    assert name_of(found, "Outer.Inner/B") == "a-b"
    assert name_of(found, "Outer/A") == Unknown("given-${Outer.Inner/B}")


def test_a_loop_is_named_as_not_read(tmp_path: Path) -> None:
    found = assembly(tmp_path, Stack={"Resources": {"A": topic("a"), "Fn::ForEach::Many": ["X", ["a"], {}]}})

    assert [each.origin.path for each in found.problems] == ["Fn::ForEach::Many"]


@pytest.mark.parametrize(
    ("value", "choices"),
    [
        ({"Fn::FindInMap": ["Types", {"Ref": "Later"}, "type"]}, ("g6.xlarge", "g5.xlarge")),
        ({"Fn::FindInMap": ["Types", {"Ref": "AWS::Region"}, "type"]}, ("g6.xlarge", "g5.xlarge")),
        ({"Fn::FindInMap": ["Types", {"Ref": "Stage"}, "type"]}, "g6.xlarge"),
        ({"Fn::FindInMap": ["Types", {"Ref": "Later"}, "image"]}, "ami-1"),
        ({"Fn::FindInMap": ["Types", {"Ref": "Later"}, "type", {"DefaultValue": "g4dn.xlarge"}]}, 3),
        ({"Fn::FindInMap": ["Types", {"Ref": "Later"}, "image", {"DefaultValue": {"Ref": "Later"}}]}, ()),
        ({"Fn::If": ["Maybe", "g6.xlarge", "g5.xlarge"]}, ("g6.xlarge", "g5.xlarge")),
        ({"Fn::If": ["Maybe", "g6.xlarge", {"Ref": "AWS::NoValue"}]}, ()),
        ({"Fn::If": ["Maybe", {"Ref": "Stage"}, "prod"]}, ("a", "prod")),
        ({"Ref": "Kind"}, ("g6.xlarge", "g5.xlarge")),
    ],
)
def test_a_choice_at_deployment_is_reported_with_its_values(value: Any, choices: Any) -> None:
    parts = {
        **PARTS,
        "Parameters": {
            **PARTS["Parameters"],
            "Stage": {"Type": "String", "AllowedValues": ["a"]},
            "Kind": {"Type": "String", "AllowedValues": ["g6.xlarge", "g5.xlarge"]},
        },
        "Mappings": {"Types": {"a": {"type": "g6.xlarge", "image": "ami-1"}, "b": {"type": "g5.xlarge"}}},
    }

    found = Template("file", "Stack", parts).resolve(value)

    if isinstance(choices, str):
        assert found == choices
    else:
        assert isinstance(found, Unknown)
        assert len(found.choices) == choices if isinstance(choices, int) else found.choices == choices


@pytest.mark.parametrize(
    ("parts", "place", "why"),
    [
        ({"Transform": "Made"}, "a/Transform", "the template that macro Made returns"),
        ({"Transform": ["AWS::LanguageExtensions", {"Name": "AWS::Include"}]}, "a/Transform", "macro AWS::Include"),
        ({"Resources": {"Fn::Transform": {"Name": "AWS::Include"}}}, "a/Resources", "transform AWS::Include"),
        ({"Resources": {"A": {**topic("a"), "Fn::Transform": {"Name": "M"}}}}, "a/A", "transform M"),
        ({"Resources": {"A": {"Type": "AWS::SNS::Topic", "Properties": {"X": {"Fn::Transform": {}}}}}}, "a/A", "None"),
        (
            {"Resources": {"A": {"Type": "AWS::CloudFormation::Stack", "Properties": {"TemplateURL": "https://x/y"}}}},
            "a/A",
            "the template https://x/y can't be read before deployment",
        ),
        ({"Resources": {"A": {"Type": "AWS::CloudFormation::StackSet"}}}, "a/A", "its stacks"),
        ({"Resources": {"A": {"Type": "My::Own::Thing::MODULE"}}}, "a/A", "module My::Own::Thing::MODULE"),
    ],
)
def test_what_only_deployment_makes_is_named(tmp_path: Path, parts: dict[str, Any], place: str, why: str) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"Resources": {"B": topic("b")}, **parts}))

    found = read_input([str(tmp_path / "a.json")])

    origin, reason = found.problems[0].origin, found.problems[0].reason
    assert origin.path == place
    assert why in reason
    assert clusters(found)[0].unknown_software == (f"{place}, which can't be read",)


@pytest.mark.parametrize("transform", ["AWS::LanguageExtensions", ["AWS::Serverless-2016-10-31"]])
def test_what_a_known_transform_makes_is_known(tmp_path: Path, transform: Any) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"Transform": transform, "Resources": {"B": topic("b")}}))

    assert read_input([str(tmp_path / "a.json")]).problems == ()
