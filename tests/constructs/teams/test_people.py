"""Viewers can read, operators can read and operate, and no principal is both."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import GpuCluster
from gpu_constructs.cluster import AutoMode
from gpu_constructs.teams.access import member_rules, operator_rules, viewer_rules
from tests.conftest import FLAGS
from tests.templates import Resources, manifests_of, of_type, resources_of, text_of

ADMIN, ON_CALL, EVERYBODY = (f"arn:aws:iam::111122223333:role/{each}" for each in ("admin", "on-call", "everybody"))
# Resources that create pods, and so run an image as any service account of a namespace.
MAKES_PODS = {"create", "update", "patch"}


@pytest.fixture(scope="module")
def resources() -> Resources:
    app = cdk.App(context=FLAGS, analytics_reporting=False)
    stack = cdk.Stack(app, "Test", env=cdk.Environment(account="111122223333", region="us-east-1"))
    people = {"admins": [ADMIN], "operators": [ON_CALL], "viewers": [EVERYBODY]}
    GpuCluster(stack, "Gpu", auto_mode=AutoMode(), **people)  # type: ignore[arg-type]
    return resources_of(stack)


def entry_of(resources: Resources, arn: str) -> dict[str, Any]:
    found = of_type(resources, "AWS::EKS::AccessEntry").values()
    [entry] = [each["Properties"] for each in found if each["Properties"]["PrincipalArn"] == arn]
    return dict(entry)


@pytest.mark.parametrize(
    ("arn", "groups"),
    [
        (EVERYBODY, ["gpu-constructs:viewers"]),
        (ON_CALL, ["gpu-constructs:viewers", "gpu-constructs:operators"]),
    ],
)
def test_they_see_everything_but_secrets(resources: Resources, arn: str, groups: list[str]) -> None:
    entry = entry_of(resources, arn)

    [policy] = entry["AccessPolicies"]
    assert text_of(policy["PolicyArn"]).endswith("/AmazonEKSViewPolicy")
    assert policy["AccessScope"] == {"Type": "cluster"}
    assert entry["KubernetesGroups"] == groups


def test_administrators_are_in_no_group(resources: Resources) -> None:
    assert "KubernetesGroups" not in entry_of(resources, ADMIN)


def test_roles_of_the_cluster(resources: Resources, snapshot_yaml: SnapshotAssertion) -> None:
    found = [each for each in manifests_of(resources) if each["kind"].startswith("ClusterRole")]

    assert found == snapshot_yaml


def test_a_cluster_without_them_has_no_roles(stack: cdk.Stack) -> None:
    GpuCluster(stack, "Gpu", auto_mode=AutoMode(), admins=[ADMIN])

    assert not [each for each in manifests_of(resources_of(stack)) if each["kind"].startswith("ClusterRole")]


def test_operators_make_no_pods() -> None:
    of_pods = {"pods", "jobs", "deployments", "statefulsets", "daemonsets", "replicasets", "cronjobs", "rayclusters"}
    for rule in operator_rules():
        if of_pods & set(rule["resources"]):
            assert not MAKES_PODS & set(rule["verbs"]), rule


@pytest.mark.parametrize("rules", [member_rules("view"), member_rules("edit"), viewer_rules(), operator_rules()])
def test_no_member_has_all_rights_or_secrets(rules: list[dict[str, list[str]]]) -> None:
    words = {word for rule in rules for part in rule.values() for word in part}

    assert not words & {"*", "secrets", "impersonate", "bind", "escalate"}


def test_who_views_changes_nothing() -> None:
    for rule in (*member_rules("view"), *viewer_rules()):
        assert rule["verbs"] == ["get", "list", "watch"]


@pytest.mark.parametrize(
    ("people", "message"),
    [
        (
            {"admins": [ADMIN], "viewers": [ADMIN]},
            "viewers must not name a principal of admins, got 'arn:aws:iam::111122223333:role/admin'",
        ),
        ({"viewers": [ADMIN], "operators": [ADMIN]}, "operators must not name a principal of viewers"),
        ({"viewers": [ADMIN, ADMIN]}, "viewers must differ"),
        ({"operators": "arn:aws:iam::111122223333:role/x"}, "operators must be a list of names"),
        ({"viewers": ["arn:aws:sts::111122223333:assumed-role/x/y"]}, "viewers must be literal ARNs of IAM users"),
        ({"network_policies": "true"}, "network_policies must be True or False"),
    ],
)
def test_refuses(stack: cdk.Stack, people: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        GpuCluster(stack, "Gpu", **people)
