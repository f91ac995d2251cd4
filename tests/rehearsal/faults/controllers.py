"""Karpenter's releases and events, and the order in which they are installed."""

from __future__ import annotations

from tests.rehearsal.faults.assembly import RELEASE, CloudAssembly
from tests.rehearsal.faults.fault import fault

_WITHOUT_ORDER = (
    "AWS::IAM::Role",
    "AWS::EKS::PodIdentityAssociation",
    "AWS::EKS::AccessEntry",
)


@fault(
    consequence="Karpenter's controller can't find its queue and exits, so the release fails after 12 minutes.",
    cause=("karpenter", r"queue"),
    changes=RELEASE,
    source="https://karpenter.sh/docs/reference/settings/",
)
def karpenter_values_with_another_queue(app: CloudAssembly) -> None:
    """Karpenter's values name an interruption queue that doesn't exist."""
    app.edit_values("karpenter", lambda it: it["settings"].update(interruptionQueue="karpenter-wrong"))


@fault(
    consequence="Pods that start before the association have no credentials, so the release fails.",
    cause=("karpenter", r"DependsOn|before|order|depend", r"role|association|access.?entry"),
    changes=RELEASE,
    source="https://docs.aws.amazon.com/eks/latest/userguide/pod-id-association.html",
)
def karpenter_before_its_role(app: CloudAssembly) -> None:
    """Karpenter's release doesn't depend on its role, its association and the access entry of its nodes."""
    unordered = {id for kind in _WITHOUT_ORDER for id in app.of_type(kind)}
    release = app.resources[app.find(RELEASE, Release="karpenter")]
    release["DependsOn"] = [each for each in release["DependsOn"] if each not in unordered]


@fault(
    consequence="Helm never updates the first version's definitions, so later versions of Karpenter run with old ones.",
    cause=(r"karpenter-crd|CRD|definition",),
    changes=RELEASE,
    source="https://karpenter.sh/docs/upgrading/upgrade-guide/#crd-upgrades",
)
def karpenter_without_its_definitions(app: CloudAssembly) -> None:
    """The release karpenter-crd is missing."""
    app.remove(app.find(RELEASE, Release="karpenter-crd"))


@fault(
    consequence="Karpenter receives no spot interruption or other EC2 event, so nodes end without a drain.",
    cause=(r"aws\.ec3",),
    changes="AWS::Events::Rule",
    source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html",
)
def events_of_another_source(app: CloudAssembly) -> None:
    """The EventBridge rules for EC2 have the source aws.ec3."""
    for rule in app.of_type("AWS::Events::Rule").values():
        pattern = rule["Properties"]["EventPattern"]
        pattern["source"] = [each.replace("aws.ec2", "aws.ec3") for each in pattern["source"]]


@fault(
    consequence="kubectl has no matches for the kind EC2NodeClass if the object comes first, and the stack fails.",
    cause=("EC2NodeClass", r"DependsOn|before|order|depend|no matches|definition"),
    changes="EC2NodeClass",
    source="https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/",
)
def class_before_its_definition(app: CloudAssembly) -> None:
    """The EC2NodeClass doesn't depend on Karpenter's releases."""
    node_class = app.resources[app.object_id("EC2NodeClass")]
    node_class["DependsOn"] = [each for each in node_class["DependsOn"] if each not in app.of_type(RELEASE)]
