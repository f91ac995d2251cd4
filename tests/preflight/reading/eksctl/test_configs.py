"""The resources that eksctl creates from a ClusterConfig, and those that it installs in addition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.judging.check import check
from gpu_preflight.reading.inputs import read_input
from tests.preflight.inputs import template
from tests.preflight.reading.eksctl.config import METADATA, cluster, given


def test_the_cluster_itself(tmp_path: Path) -> None:
    found = cluster(tmp_path, addons=[{"name": "vpc-cni", "version": "latest"}], karpenter={"version": "1.14.1"})

    assert (found.name, found.version, found.whole, found.auto_mode) == ("demo", "1.36", True, False)
    assert [each.name for each in found.addons] == ["vpc-cni", "kube-proxy", "coredns", "metrics-server"]
    assert {each.version for each in found.addons} == {None}
    assert [(each.kind, each.version) for each in found.autoscalers] == [("karpenter", "1.14.1")]
    assert not found.sees_software


def test_auto_mode(tmp_path: Path) -> None:
    assert cluster(tmp_path, autoModeConfig={"enabled": True}).auto_mode


def test_a_clean_config_has_no_certain_error(tmp_path: Path) -> None:
    groups = [
        {"name": "system", "instanceType": "m6i.large", "desiredCapacity": 2, "minSize": 2, "maxSize": 3},
        {"name": "gpu", "instanceType": "g6.xlarge", "desiredCapacity": 0, "minSize": 0, "maxSize": 4},
    ]

    report = check(given(tmp_path, managedNodeGroups=groups))

    assert [each.problem.message for each in report.findings if each.counts] == []


def test_settings_in_no_file_are_reported(tmp_path: Path) -> None:
    found = given(tmp_path, gitops={"flux": {"gitProvider": "github"}})

    assert [each.origin.path for each in found.problems] == [
        "command line of eksctl for ClusterConfig demo",
        "ClusterConfig demo/gitops",
    ]
    assert [each.reason for each in found.problems] == [
        "options of eksctl's command line, such as --install-nvidia-plugin=false, are in no file",
        "objects that Flux applies, which eksctl installs, aren't read",
    ]


def test_a_template_of_eksctl_does_not_say_all(tmp_path: Path) -> None:
    written = {"Description": "EKS cluster (dedicated VPC: true) [created and managed by eksctl]", **template()}
    (tmp_path / "stack.yaml").write_text(yaml.safe_dump(written))

    [found] = clusters(read_input([str(tmp_path / "stack.yaml")]))

    assert not found.sees_software
    assert found.unknown_software[0] == "API calls of eksctl for stack, which can't be read"


@pytest.mark.parametrize(
    ("parts", "names"),
    [
        ({}, ["vpc-cni", "kube-proxy", "coredns", "metrics-server"]),
        ({"autoModeConfig": {"enabled": True}}, ["metrics-server"]),
        ({"addonsConfig": {"disableDefaultAddons": True}}, []),
        ({"metadata": {**METADATA, "region": "us-gov-west-1"}}, ["vpc-cni", "kube-proxy", "coredns"]),
    ],
)
def test_addons_that_eksctl_adds(tmp_path: Path, parts: dict[str, Any], names: list[str]) -> None:
    assert [each.name for each in cluster(tmp_path, **parts).addons] == names


def test_pools_of_auto_mode(tmp_path: Path) -> None:
    chosen = cluster(tmp_path, autoModeConfig={"enabled": True, "nodePools": []})
    left_out = cluster(tmp_path, autoModeConfig={"enabled": True})

    assert [each.resource.properties["ComputeConfig"]["NodePools"] for each in (chosen, left_out) if each.resource] == [
        [],
        ["general-purpose", "system"],
    ]


def test_pod_identities(tmp_path: Path) -> None:
    said = {"namespace": "ai", "serviceAccountName": "models", "permissionPolicyARNs": ["arn:aws:iam::aws:policy/A"]}

    [found] = cluster(tmp_path, iam={"podIdentityAssociations": [said]}).resources_of_type(
        "AWS::EKS::PodIdentityAssociation"
    )

    assert (found.properties["Namespace"], found.properties["ServiceAccount"]) == ("ai", "models")
    assert "role of eksctl" in str(found.properties["RoleArn"])


def test_fargate_profiles_are_in_the_words_of_the_service(tmp_path: Path) -> None:
    selectors = [{"namespace": "kube-system"}, {"namespace": "dev", "labels": {"checks": "passed"}}]
    profiles = [{"name": "system", "selectors": selectors}]

    [profile] = cluster(tmp_path, fargateProfiles=profiles).resources_of_type("AWS::EKS::FargateProfile")

    assert profile.properties["Selectors"] == [
        {"Namespace": "kube-system"},
        {"Namespace": "dev", "Labels": [{"Key": "checks", "Value": "passed"}]},
    ]


def test_a_config_with_broken_parts_is_checked(tmp_path: Path) -> None:
    groups = [
        {"name": "gpu", "amiFamily": {"a": 1}, "instanceType": "g6.xlarge"},
        {"name": "gpu", "instanceType": "g6.xlarge", "taints": [{"key": ["a"]}]},
        {"name": "gpu", "overrideBootstrapCommand": 'a: "\\ue0009\\ue001"'},
        {"name": "gpu", "taints": {1: "a"}, "labels": {1: "a"}, "subnets": ["a"]},
    ]

    found = given(tmp_path, managedNodeGroups=groups, nodeGroups=groups, vpc={"subnets": {"private": {1: {}}}})

    assert len(check(found).cases) == 1


def test_groups_that_are_no_list_are_reported(tmp_path: Path) -> None:
    found = given(tmp_path, managedNodeGroups={"gpu": {"instanceType": "g6.xlarge"}})

    assert "the groups can't be read, because they aren't a list" in [each.reason for each in found.problems]
