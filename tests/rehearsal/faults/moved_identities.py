"""Second deployments in which something moves to another logical id, stays behind or is deleted too early."""

from __future__ import annotations

from typing import Any

from tests.rehearsal.faults.assembly import RELEASE, CloudAssembly
from tests.rehearsal.faults.fault import pair

_CLEANUP = (
    "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-updating-stacks-update-behaviors.html"
)
_POOLS = ("NodePool", "EC2NodeClass")
_CRDS = "https://karpenter.sh/docs/upgrading/upgrade-guide/#crd-upgrades"


@pair(
    consequence="The cleanup runs `helm uninstall karpenter` after the upgrade, so Karpenter is gone.",
    cause=("karpenter", r"uninstall|logical id|moves?"),
    changes=RELEASE,
    source=_CLEANUP,
)
def release_moves(old: CloudAssembly, new: CloudAssembly) -> None:
    """Karpenter's release gets another logical id."""
    new.rename(new.find(RELEASE, Release="karpenter"), "KarpenterChart")


@pair(
    consequence="EKS rejects the new entry: there is an access entry for this principal already.",
    cause=("AccessEntry|access entry", r"logical id|moves?|exists|already"),
    changes="AWS::EKS::AccessEntry",
    source="https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAccessEntry.html",
)
def access_entry_moves(old: CloudAssembly, new: CloudAssembly) -> None:
    """The access entry of the admin gets another logical id."""
    new.rename(new.containing("AWS::EKS::AccessEntry", "role/Admin"), "AdminAccess")


@pair(
    consequence="EKS rejects the new add-on: the cluster has it already.",
    cause=("Addon|add-on|vpc-cni", r"logical id|moves?|exists|already"),
    changes="AWS::EKS::Addon",
    source="https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAddon.html",
)
def addon_moves(old: CloudAssembly, new: CloudAssembly) -> None:
    """The add-on vpc-cni gets another logical id."""
    new.rename(new.find("AWS::EKS::Addon", AddonName="vpc-cni"), "VpcCni")


@pair(
    consequence="EKS rejects the new association: the service account has one already.",
    cause=("PodIdentityAssociation|association|karpenter", r"logical id|moves?|exists|already"),
    changes="AWS::EKS::PodIdentityAssociation",
    source="https://docs.aws.amazon.com/eks/latest/APIReference/API_CreatePodIdentityAssociation.html",
)
def association_moves(old: CloudAssembly, new: CloudAssembly) -> None:
    """The Pod Identity association of Karpenter gets another logical id."""
    new.rename(new.find("AWS::EKS::PodIdentityAssociation", ServiceAccount="karpenter"), "KarpenterIdentity")


@pair(
    consequence="kubectl applies the new NodePool and leaves the old one, whose nodes keep running in no stack.",
    cause=("NodePool", r"\bg6\b", r"left behind|keeps|stays|old"),
    changes="NodePool",
    source="https://kubernetes.io/docs/reference/kubectl/generated/kubectl_apply/",
)
def pool_is_renamed_under_one_id(old: CloudAssembly, new: CloudAssembly) -> None:
    """The NodePool gets another name under the same logical id."""
    new.edit("NodePool", lambda it: it["metadata"].update(name="l4"))


@pair(
    consequence="The namespace is deleted in the cleanup, with the volume claims and notebooks that people made in it.",
    cause=("Namespace", r"\bnlp\b", r"delete|lost|destructive"),
    changes="Namespace",
    source="https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/",
)
def namespace_with_data_is_deleted(old: CloudAssembly, new: CloudAssembly) -> None:
    """A team's namespace gets another name and another logical id."""
    for app, name in ((old, "nlp"), (new, "vision")):
        app.apply(f"Team{name}", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


@pair(
    consequence="If Karpenter is uninstalled first, its objects keep their finalizers and its instances keep running.",
    cause=(r"karpenter|HelmChart|NodePool", r"before|order|DependsOn|finalizer"),
    changes=f"{RELEASE} NodePool EC2NodeClass Deployment Service PodDisruptionBudget",
    source="https://karpenter.sh/docs/concepts/disruption/#termination-controller",
)
def controller_is_deleted_before_its_objects(old: CloudAssembly, new: CloudAssembly) -> None:
    """Karpenter and its NodePool are removed together, and the NodePool never depended on Karpenter's release."""
    releases = old.of_type(RELEASE)
    for kind in _POOLS:
        [resource] = old.objects(kind).values()
        resource["DependsOn"] = [each for each in resource["DependsOn"] if each not in releases]
    served = ("Deployment", "Service", "PodDisruptionBudget")
    new.remove(*new.of_type(RELEASE), *(id for kind in (*_POOLS, *served) for id in new.objects(kind)))


@pair(
    consequence="The newer Karpenter starts on the older definitions, which may reject or drop the fields it writes.",
    cause=("karpenter-crd|karpenter", r"before|order|DependsOn|depend"),
    changes=RELEASE,
    source=_CRDS,
)
def charts_in_the_wrong_order(old: CloudAssembly, new: CloudAssembly) -> None:
    """Karpenter and its definitions get a newer version, and the definitions depend on Karpenter."""
    controller, definitions = (new.find(RELEASE, Release=each) for each in ("karpenter", "karpenter-crd"))
    resources: dict[str, Any] = new.resources
    for id in (controller, definitions):
        resources[id]["Properties"]["Version"] = "1.15.1"
    resources[controller]["DependsOn"] = [each for each in resources[controller]["DependsOn"] if each != definitions]
    resources[definitions]["DependsOn"] = [*resources[definitions]["DependsOn"], controller]
