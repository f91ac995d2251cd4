"""Resources and objects that can remain after the deletion of a stack."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpu_rehearsal.cloudformation.changes import Event
from gpu_rehearsal.scenarios.deletion import helm_keeps, retained_resources

RELEASE = {"meta.helm.sh/release-name": "kueue"}


@pytest.mark.parametrize(
    ("kind", "manager", "annotations", "kept"),
    [
        ("Namespace", "helm", {}, True),
        ("CustomResourceDefinition", "helm", {}, True),
        ("CustomResourceDefinition", "helm", RELEASE, False),
        ("Namespace", "kubectl-client-side-apply", {}, False),
        ("ConfigMap", "helm", {}, False),
        ("ConfigMap", "helm", {**RELEASE, "helm.sh/resource-policy": "keep"}, True),
    ],
)
def test_helm_keeps_namespaces_and_definitions_outside_its_release(
    kind: str, manager: str, annotations: dict[str, Any], kept: bool
) -> None:
    metadata = {"name": "x", "annotations": annotations, "managedFields": [{"manager": manager}]}

    assert helm_keeps(kind, {"metadata": metadata}) is kept


TEAM = {"kind": "Namespace", "metadata": {"name": "team", "uid": "TOKEN"}}
START, END = json.dumps([TEAM]).split("TOKEN")


@pytest.mark.parametrize(
    ("kind", "properties", "name"),
    [
        ("KubernetesPatch", {"ResourceName": "namespace/default"}, "Namespace default"),
        ("KubernetesResource", {"Manifest": json.dumps([TEAM])}, "Namespace team"),
        ("KubernetesResource", {"Manifest": {"Fn::Join": ["", [START, {"Ref": "A"}, END]]}}, "Namespace team"),
    ],
)
def test_a_retained_resource_of_kubectl_keeps_its_objects(kind: str, properties: dict[str, Any], name: str) -> None:
    type = f"Custom::AWSCDK-EKS-{kind}"
    kept = Event(logical_id="Kept", type=type, status="DELETE_SKIPPED", physical_id="k")
    gone = Event(logical_id="Queue", type="AWS::SQS::Queue", status="DELETE_COMPLETE", physical_id="q")
    resources = {"Kept": {"Type": type, "Properties": properties}, "Queue": {"Type": gone.type}}

    assert retained_resources([kept, gone], resources) == {"k": type, name: type}


def test_an_object_that_another_resource_deletes_is_not_kept() -> None:
    patch = {"Type": "Custom::AWSCDK-EKS-KubernetesPatch", "Properties": {"ResourceName": "namespace/team"}}
    manifest = {"Type": "Custom::AWSCDK-EKS-KubernetesResource", "Properties": {"Manifest": json.dumps([TEAM])}}
    kept = Event(logical_id="Patch", type=str(patch["Type"]), status="DELETE_SKIPPED", physical_id="p")
    gone = Event(logical_id="Team", type=str(manifest["Type"]), status="DELETE_COMPLETE", physical_id="t")

    assert retained_resources([kept, gone], {"Patch": patch, "Team": manifest}) == {"p": patch["Type"]}
