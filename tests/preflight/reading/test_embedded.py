"""Manifests inside templates, as both generations of the CDK write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.model.label_values import Requirement
from gpu_preflight.reading.unknown import Unknown
from gpu_preflight.reading.user_data import parse_embedded
from tests.preflight.readers import cluster_of

FILE = "stack.template.json"


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ('{"a": "b"}', {"a": "b"}),
        ("a: b", {"a": "b"}),
        ('[{"a": 1}]', [{"a": 1}]),
        ({"a": 1}, {"a": 1}),
        (Unknown('{"a":"${S/B}"}'), {"a": Unknown("${S/B}")}),
        (Unknown('{"a":"x-${S/B}-y"}'), {"a": Unknown("x-${S/B}-y")}),
        (Unknown('{"${S/B}":"a"}'), {"${S/B}": "a"}),
        (Unknown('{"a":${S/B}}'), {"a": Unknown("${S/B}")}),
        (Unknown('{"a":"${Fn::If ["C","x",{"y":"}"}]}"}'), {"a": Unknown('${Fn::If ["C","x",{"y":"}"}]}')}),
        (Unknown('{"a":"${Fn::Select [0,"${S/B}"]}"}'), {"a": Unknown('${Fn::Select [0,"${S/B}"]}')}),
        (Unknown('{"a":"{{resolve:ssm:/b}}"}'), {"a": Unknown("{{resolve:ssm:/b}}")}),
        (None, None),
        (7, None),
    ],
)
def test_reads_a_document_with_unknown_parts(text: Any, content: Any) -> None:
    assert parse_embedded(FILE, text) == content


@pytest.mark.parametrize(
    "text", ["{", "a: [", "\0", Unknown("${S/B}${"), Unknown("\ue0000\ue001${S/B}"), Unknown("{${S/B}")]
)
def test_what_cannot_be_read_is_unknown(text: Any) -> None:
    assert isinstance(parse_embedded(FILE, text), Unknown)


POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeSelector": {"a": "TOKEN"}}}


def manifest(cluster: Any) -> dict[str, Any]:
    start, end = json.dumps([POD]).split("TOKEN")
    text = {"Fn::Join": ["", [start, {"Ref": "Topic"}, end]]}
    return {"Type": "Custom::AWSCDK-EKS-KubernetesResource", "Properties": {"Manifest": text, "ClusterName": cluster}}


@pytest.mark.parametrize(
    "cluster",
    [
        {"Type": "AWS::EKS::Cluster", "Properties": {"Name": "demo", "Version": "1.35"}},
        {"Type": "Custom::AWSCDK-EKS-Cluster", "Properties": {"Config": {"name": "demo", "version": "1.35"}}},
    ],
    ids=["aws_eks_v2", "aws_eks"],
)
def test_a_manifest_belongs_to_its_cluster(tmp_path: Path, cluster: Any) -> None:
    found = cluster_of(
        tmp_path,
        {"Resources": {"Cluster": cluster, "Pod": manifest({"Ref": "Cluster"}), "Topic": {"Type": "AWS::SNS::Topic"}}},
    )

    assert (found.name, found.version, found.whole) == ("demo", "1.35", True)
    assert found.workloads[0].pod.selection.selector == (Requirement("a", "In", None),)


def test_a_cluster_without_a_name_is_called_by_its_path(tmp_path: Path) -> None:
    resources = {"Cluster": {"Type": "AWS::EKS::Cluster", "Properties": {}}, "Pod": manifest({"Ref": "Cluster"})}

    assert cluster_of(tmp_path, {"Resources": resources}).name == "stack/Cluster"


def test_a_cluster_that_is_not_in_the_input_is_not_whole(tmp_path: Path) -> None:
    found = cluster_of(tmp_path, {"Resources": {"Pod": manifest("imported")}})

    assert (found.name, found.whole) == ("imported", False)
