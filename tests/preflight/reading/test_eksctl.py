"""What eksctl makes of a ClusterConfig, and of what it installs more than it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_constructs.preflight.cluster.clusters import clusters
from gpu_constructs.preflight.judging.check import check
from gpu_constructs.preflight.model.cluster import Cluster, Pool
from gpu_constructs.preflight.reading.inputs import Input, read_input
from tests.preflight.inputs import template

METADATA = {"name": "demo", "region": "us-east-1", "version": "1.36"}


def given(folder: Path, **parts: Any) -> Input:
    config = {"apiVersion": "eksctl.io/v1alpha5", "kind": "ClusterConfig", "metadata": METADATA, **parts}
    (folder / "cluster.yaml").write_text(yaml.safe_dump(config))
    return read_input([str(folder / "cluster.yaml")])


def cluster(folder: Path, **parts: Any) -> Cluster:
    [found] = clusters(given(folder, **parts))
    return found


def group(folder: Path, **said: Any) -> Pool:
    [pool] = cluster(folder, managedNodeGroups=[{"name": "gpu", **said}]).pools
    return pool


def test_the_cluster_itself(tmp_path: Path) -> None:
    found = cluster(tmp_path, addons=[{"name": "vpc-cni", "version": "latest"}], karpenter={"version": "1.14.1"})

    assert (found.name, found.version, found.whole, found.auto_mode) == ("demo", "1.36", True, False)
    assert [(each.name, each.version) for each in found.addons] == [("vpc-cni", None)]
    assert [(each.kind, each.version) for each in found.autoscalers] == [("karpenter", "1.14.1")]
    assert not found.sees_software


def test_auto_mode(tmp_path: Path) -> None:
    assert cluster(tmp_path, autoModeConfig={"enabled": True}).auto_mode


def test_a_managed_group(tmp_path: Path) -> None:
    found = group(
        tmp_path,
        instanceTypes=["g6.xlarge"],
        minSize=0,
        maxSize=4,
        labels={"pool": "gpu"},
        taints=[{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}],
        spot=True,
    )

    assert (found.instance_types, found.min_nodes, found.max_nodes) == (("g6.xlarge",), 0, 4)
    assert (found.operating_system, found.capacity_types) == ("al2023", ("spot",))
    assert [str(each) for each in found.taints] == ["nvidia.com/gpu=true:NoSchedule"]
    assert "pool" in found.labels


@pytest.mark.parametrize(
    ("said", "image"),
    [
        ({"instanceType": "g6.xlarge"}, "AL2023_x86_64_NVIDIA"),
        ({"instanceType": "g5g.xlarge"}, "AL2023_ARM_64_NVIDIA"),
        ({"instanceType": "m6i.large"}, "AL2023_x86_64_STANDARD"),
        ({"instanceType": "m7g.large"}, "AL2023_ARM_64_STANDARD"),
        ({}, "AL2023_x86_64_STANDARD"),
        ({"instanceType": "g6.xlarge", "amiFamily": "Bottlerocket"}, "BOTTLEROCKET_x86_64_NVIDIA"),
        ({"instanceType": "g6.xlarge", "amiFamily": "AmazonLinux2"}, "AL2_x86_64_GPU"),
        ({"instanceType": "g6.xlarge", "amiFamily": "Ubuntu2404"}, None),
        ({"instanceType": "g6.xlarge", "ami": "ami-1"}, None),
        ({"instanceSelector": {"gpus": 1}}, None),
    ],
)
def test_the_image_that_eksctl_chooses(tmp_path: Path, said: dict[str, Any], image: str | None) -> None:
    found = group(tmp_path, **said).properties["AmiType"]

    assert (found if isinstance(found, str) else None) == image


@pytest.mark.parametrize(
    ("said", "least", "most"),
    [
        ({}, 2, 2),
        ({"minSize": 1, "maxSize": 3}, 1, 3),
        ({"desiredCapacity": 3}, 3, 3),
        ({"maxSize": 3}, 2, 3),
        ({"minSize": 0}, 0, 1),
        ({"desiredCapacity": 1, "maxSize": 4}, 1, 4),
    ],
)
def test_sizes_that_are_left_out(tmp_path: Path, said: dict[str, int], least: int, most: int) -> None:
    found = group(tmp_path, **said)

    assert (found.min_nodes, found.max_nodes) == (least, most)


def test_a_clean_config_has_no_certain_error(tmp_path: Path) -> None:
    groups = [
        {"name": "system", "instanceType": "m6i.large", "desiredCapacity": 2, "minSize": 2, "maxSize": 3},
        {"name": "gpu", "instanceType": "g6.xlarge", "desiredCapacity": 0, "minSize": 0, "maxSize": 4},
    ]

    report = check(given(tmp_path, managedNodeGroups=groups))

    assert [each.problem.message for each in report.findings if each.counts] == []


def test_what_eksctl_installs_by_api_is_told(tmp_path: Path) -> None:
    found = given(tmp_path, nodeGroups=[{"name": "old"}])

    assert [why for _, why in found.problems] == [
        "add-ons, a device plugin and more that eksctl installs by API stand in no file",
        "its nodeGroups are not read; managedNodeGroups are",
    ]


def test_a_template_of_eksctl_does_not_say_all(tmp_path: Path) -> None:
    written = {"Description": "EKS cluster (dedicated VPC: true) [created and managed by eksctl]", **template()}
    (tmp_path / "stack.yaml").write_text(yaml.safe_dump(written))

    [found] = clusters(read_input([str(tmp_path / "stack.yaml")]))

    assert not found.sees_software
    assert "stack/Description" in found.opaque[0]


def test_fargate_profiles_are_in_the_words_of_the_service(tmp_path: Path) -> None:
    selectors = [{"namespace": "kube-system"}, {"namespace": "dev", "labels": {"checks": "passed"}}]
    profiles = [{"name": "system", "selectors": selectors}]

    [profile] = cluster(tmp_path, fargateProfiles=profiles).resources_of("AWS::EKS::FargateProfile")

    assert profile.properties["Selectors"] == [
        {"Namespace": "kube-system"},
        {"Namespace": "dev", "Labels": [{"Key": "checks", "Value": "passed"}]},
    ]
