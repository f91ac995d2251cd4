"""What may be left after the deletion of a stack."""

from __future__ import annotations

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


def test_a_retained_patch_keeps_its_object() -> None:
    patch: dict[str, Any] = {
        "Type": "Custom::AWSCDK-EKS-KubernetesPatch",
        "Properties": {"ResourceName": "namespace/default"},
    }
    events = [
        Event(logical_id="Patch", type=patch["Type"], status="DELETE_SKIPPED", started=0, ended=0, physical_id="p"),
        Event(
            logical_id="Bucket", type="AWS::S3::Bucket", status="DELETE_SKIPPED", started=0, ended=0, physical_id="b"
        ),
        Event(
            logical_id="Queue", type="AWS::SQS::Queue", status="DELETE_COMPLETE", started=0, ended=0, physical_id="q"
        ),
    ]
    template = {"Resources": {"Patch": patch, "Bucket": {"Type": "AWS::S3::Bucket"}}}

    kept = retained_resources(events, template)

    assert kept == {"p": patch["Type"], "b": "AWS::S3::Bucket", "Namespace default": patch["Type"]}
