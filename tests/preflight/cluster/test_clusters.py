"""Which clusters an input has, and which objects belong to each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.cluster.clusters import MAX_CLUSTERS
from gpu_preflight.reading.documents import UnusableInput
from tests.preflight.inputs import BAD, template
from tests.preflight.readers import clusters_of


def test_each_cluster_has_its_own_pools(tmp_path: Path) -> None:
    resources = {
        **template()["Resources"],
        "Other": {"Type": "AWS::EKS::Cluster", "Properties": {"Name": "other"}},
        "More": {"Type": "AWS::EKS::Nodegroup", "Properties": {**BAD, "ClusterName": "other"}},
        "Bare": {"Type": "AWS::EKS::Nodegroup", "Properties": {**BAD, "ClusterName": "elsewhere"}},
    }

    found = clusters_of(tmp_path, {"Resources": resources})

    assert [(each.name, len(each.pools), each.whole) for each in found] == [
        ("demo", 1, True),
        ("other", 1, True),
        ("elsewhere", 1, False),
    ]


def many(count: int) -> dict[str, Any]:
    """A template with so many clusters."""
    properties = ({"Name": f"c{number}"} for number in range(count))
    return {"Resources": {each["Name"]: {"Type": "AWS::EKS::Cluster", "Properties": each} for each in properties}}


def test_takes_as_many_clusters_as_allowed(tmp_path: Path) -> None:
    assert len(clusters_of(tmp_path, many(MAX_CLUSTERS))) == MAX_CLUSTERS


def test_refuses_one_cluster_more(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="at most 500 clusters, got 501"):
        clusters_of(tmp_path, many(MAX_CLUSTERS + 1))


@pytest.mark.parametrize(
    ("chosen", "types", "undecided"),
    [
        ({"Fn::FindInMap": ["Types", {"Ref": "AWS::Region"}, "one"]}, ("g6.xlarge", "g5.xlarge"), True),
        ({"Fn::FindInMap": ["Types", {"Ref": "AWS::Region"}, "alike"]}, ("g6.xlarge",), False),
        ([{"Fn::FindInMap": ["Types", {"Ref": "AWS::Region"}, "one"]}], ("g6.xlarge", "g5.xlarge"), True),
        ({"Fn::FindInMap": ["Types", {"Ref": "AWS::Region"}, "several"]}, ("g6.xlarge", "g6.2xlarge"), True),
        (["g6.xlarge", "g5.xlarge"], ("g6.xlarge", "g5.xlarge"), False),
    ],
)
def test_types_that_deployment_chooses_among(
    tmp_path: Path, chosen: Any, types: tuple[str, ...], undecided: bool
) -> None:
    maps = {
        "Types": {
            "us-east-1": {"one": "g6.xlarge", "alike": ["g6.xlarge"], "several": ["g6.xlarge"]},
            "eu-west-1": {"one": "g5.xlarge", "alike": ["g6.xlarge"], "several": ["g6.xlarge", "g6.2xlarge"]},
        }
    }

    [cluster] = clusters_of(tmp_path, {"Mappings": maps, **template({**BAD, "InstanceTypes": chosen})})

    assert (cluster.pools[0].instance_types, cluster.pools[0].undecided) == (types, undecided)
