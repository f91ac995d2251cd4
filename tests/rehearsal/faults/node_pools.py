"""Karpenter's NodePool and EC2NodeClass."""

from __future__ import annotations

from typing import Any

from tests.rehearsal.faults.assembly import CloudAssembly
from tests.rehearsal.faults.fault import fault

_NODE_CLASSES = "https://karpenter.sh/docs/concepts/nodeclasses/"
_NODE_POOLS = "https://karpenter.sh/docs/concepts/nodepools/"
_TYPE = "node.kubernetes.io/instance-type"


def _require(app: CloudAssembly, key: str, *values: str) -> None:
    def change(pool: dict[str, Any]) -> None:
        [requirement] = [each for each in pool["spec"]["template"]["spec"]["requirements"] if each["key"] == key]
        requirement["values"] = list(values)

    app.edit("NodePool", change)


@fault(
    consequence="The node has no NVIDIA driver, so it never offers a GPU and chat stays Pending.",
    cause=("EC2NodeClass|g6", r"image|ami|ssm", r"driver|nvidia|standard"),
    changes="EC2NodeClass",
    source="https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html",
)
def class_with_standard_image(app: CloudAssembly) -> None:
    """The EC2NodeClass has the SSM parameter of the standard image, and the AMI family AL2023."""
    parameter = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id"
    image = {"amiFamily": "AL2023", "amiSelectorTerms": [{"ssmParameter": parameter}]}
    app.edit("EC2NodeClass", lambda it: it["spec"].update(image))


@fault(
    consequence="The AMI isn't found, the EC2NodeClass never gets ready and no node is launched.",
    cause=("EC2NodeClass|g6|al2023", r"v20190101"),
    changes="EC2NodeClass",
    source="https://github.com/awslabs/amazon-eks-ami/releases",
)
def class_with_unreleased_alias(app: CloudAssembly) -> None:
    """The EC2NodeClass has the alias al2023@v20190101, a release that never existed."""
    app.edit("EC2NodeClass", lambda it: it["spec"].update(amiSelectorTerms=[{"alias": "al2023@v20190101"}]))


@fault(
    consequence="EC2 rejects a volume that is smaller than the snapshot of the AMI, so no node is launched.",
    cause=("EC2NodeClass|g6", r"\b5 ?G(i|B)", r"snapshot|small|size|volume|disk"),
    changes="EC2NodeClass",
    source="https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_EbsBlockDevice.html",
)
def class_disk_below_snapshot(app: CloudAssembly) -> None:
    """The root volume of Karpenter's nodes has 5 GiB."""
    app.edit("EC2NodeClass", lambda it: it["spec"]["blockDeviceMappings"][0]["ebs"].update(volumeSize="5Gi"))


@fault(
    consequence="Karpenter finds no instance type for the NodePool, so chat stays Pending.",
    cause=("NodePool|g6", r"g6\.xlage"),
    changes="NodePool",
    source=_NODE_POOLS,
)
def pool_with_misspelled_type(app: CloudAssembly) -> None:
    """The NodePool requires the instance type g6.xlage."""
    _require(app, _TYPE, "g6.xlage")


@fault(
    consequence="No g6 type has this architecture, so Karpenter launches no node and chat stays Pending.",
    cause=("NodePool|g6", r"arm64"),
    changes="NodePool",
    source=_NODE_POOLS,
)
def pool_for_arm64(app: CloudAssembly) -> None:
    """The NodePool requires g6 types of the architecture arm64."""
    _require(app, "kubernetes.io/arch", "arm64")


@fault(
    consequence="Karpenter may launch no GPU, so chat stays Pending.",
    cause=("NodePool|g6", r"limit", r"\b0\b"),
    changes="NodePool",
    source=_NODE_POOLS + "#speclimits",
)
def pool_with_limit_zero(app: CloudAssembly) -> None:
    """The NodePool has a limit of 0 GPUs."""
    app.edit("NodePool", lambda it: it["spec"].update(limits={"nvidia.com/gpu": "0"}))


@fault(
    consequence="chat doesn't tolerate the taint, so it stays Pending and Karpenter launches no node for it.",
    cause=("chat|g6|NodePool", r"example\.com/team"),
    changes="NodePool",
    source="https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/",
)
def pool_with_another_taint(app: CloudAssembly) -> None:
    """The NodePool has a taint that its server doesn't tolerate."""
    taint = {"key": "example.com/team", "value": "nlp", "effect": "NoSchedule"}
    app.edit("NodePool", lambda it: it["spec"]["template"]["spec"]["taints"].append(taint))
