"""What may be left after the deletion of a stack."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpu_rehearsal.players.cloudformation.events import Event
from gpu_rehearsal.scenes.destroy import helm_keeps, retained_resources

RELEASE = {"meta.helm.sh/release-name": "kueue"}


@pytest.mark.parametrize(
    ("kind", "manager", "annotations", "kept"),
    [
        ("Namespace", "helm", {}, True),
        ("CustomResourceDefinition", "helm", {}, True),
        ("CustomResourceDefinition", "helm", RELEASE, False),
        ("Namespace", "kubectl-client-side-apply", {}, False),
        ("ConfigMap", "helm", {}, False),
    ],
)
def test_helm_keeps_namespaces_and_definitions_beside_its_release(
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
    template = {"Resources": {"Kept": {"Type": type, "Properties": properties}, "Queue": {"Type": gone.type}}}

    assert retained_resources([kept, gone], template) == {"k": type, name: type}
