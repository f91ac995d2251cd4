"""Second deployments that AWS rejects, or that replace what people use."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.rehearsal.faults.apps import EXPORT, P5
from tests.rehearsal.faults.assembly import NODE_GROUP, CloudAssembly
from tests.rehearsal.faults.fault import pair

_GROUP = "AWS::EKS::Nodegroup"
_CLUSTER = "AWS::EKS::Cluster"
_COMBINED = "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-eks-nodegroup.html"
_UPGRADE = "https://docs.aws.amazon.com/eks/latest/userguide/update-cluster.html"
_NAMED = "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cfn-whatis-concepts.html"


def _write_sizes(app: CloudAssembly) -> dict[str, Any]:
    """Write the sizes of the p5 group into the template, as most libraries do."""
    app.remove(app.containing("Custom::GpuNodeGroupSize", '"Max": 2'))
    sizes: dict[str, Any] = app.node_group(P5)["ScalingConfig"]
    sizes["DesiredSize"] = 1
    return sizes


def _cluster(app: CloudAssembly) -> dict[str, Any]:
    [found] = app.of_type(_CLUSTER).values()
    properties: dict[str, Any] = found["Properties"]
    return properties


def _set_version(app: CloudAssembly, version: str) -> None:
    """Give the cluster and its groups a version, and the groups the newest image of it."""
    _cluster(app)["Version"] = version
    for group in app.of_type(NODE_GROUP).values():
        group["Properties"]["Version"] = version
        group["Properties"].pop("ReleaseVersion", None)


@pair(
    consequence="CloudFormation rejects it: a version change can't be combined with another change of a node group.",
    cause=("p5|Nodegroup", "ReleaseVersion", "ScalingConfig|size"),
    changes=_GROUP,
    source="https://github.com/aws/containers-roadmap/issues/1258",
)
def group_release_with_sizes(old: CloudAssembly, new: CloudAssembly) -> None:
    """The p5 group gets a newer image and other sizes in one deployment."""
    _write_sizes(old)
    _write_sizes(new).update(MaxSize=4, DesiredSize=2)
    new.node_group(P5)["ReleaseVersion"] = "1.36.2-20260801"


@pair(
    consequence="CloudFormation rejects it: a launch template change can't be combined with a change of tags.",
    cause=("p5|Nodegroup", "LaunchTemplate", "Tags"),
    changes=f"{_GROUP} AWS::EC2::LaunchTemplate",
    source="https://github.com/aws/aws-cdk/issues/16644",
)
def group_template_with_tags(old: CloudAssembly, new: CloudAssembly) -> None:
    """The p5 group gets a larger disk in its launch template and another tag in one deployment."""
    new.launch_template(P5)["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] = 200
    new.node_group(P5)["Tags"]["team"] = "nlp"


@pair(
    consequence="The update sets the number of nodes back to 1, and EKS drains nodes whose pods are running.",
    cause=("p5|Nodegroup", "DesiredSize|desired"),
    changes=_GROUP,
    source="https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupConfig.html",
)
def group_size_is_reset(old: CloudAssembly, new: CloudAssembly) -> None:
    """The template has the desired size of the p5 group, and a change of MaxSize deploys it again."""
    _write_sizes(old)
    _write_sizes(new).update(MaxSize=4)


@pair(
    consequence="EKS rejects it: a control plane is upgraded by one minor version at a time.",
    cause=(_CLUSTER + "|cluster", r"1\.34", r"1\.36"),
    changes=f"{_CLUSTER} {_GROUP}",
    source=_UPGRADE,
)
def cluster_up_by_two_minors(old: CloudAssembly, new: CloudAssembly) -> None:
    """The cluster goes from Kubernetes 1.34 to 1.36."""
    _set_version(old, "1.34")
    _set_version(new, "1.36")


@pair(
    consequence="EKS rejects it: a control plane can't go back to an earlier minor version.",
    cause=(_CLUSTER + "|cluster", r"1\.36", r"1\.35"),
    changes=f"{_CLUSTER} {_GROUP}",
    source=_UPGRADE,
)
def cluster_down_by_a_minor(old: CloudAssembly, new: CloudAssembly) -> None:
    """The cluster goes from Kubernetes 1.36 to 1.35."""
    _set_version(old, "1.36")
    _set_version(new, "1.35")


@pair(
    consequence="CloudFormation can't replace a cluster with a fixed name, so the update is rolled back.",
    cause=(_CLUSTER + "|cluster", "EncryptionConfig|key"),
    changes=f"{_CLUSTER} AWS::KMS::Key",
    source=_NAMED,
)
def cluster_key_is_replaced(old: CloudAssembly, new: CloudAssembly) -> None:
    """The secrets of the cluster get another KMS key."""
    [key] = new.of_type("AWS::KMS::Key").values()
    new.add("OwnKey", "AWS::KMS::Key", **key["Properties"])
    [encryption] = _cluster(new)["EncryptionConfig"]
    encryption["Provider"]["KeyArn"] = {"Fn::GetAtt": ["OwnKey", "Arn"]}


@pair(
    consequence="The access entry of the old role is deleted while its nodes run, so the nodes become NotReady.",
    cause=("AccessEntry|access entry", r"role|PrincipalArn|node"),
    changes="AWS::IAM::Role AWS::EKS::AccessEntry AWS::IAM::ManagedPolicy EC2NodeClass",
    source="https://docs.aws.amazon.com/eks/latest/userguide/access-entries.html",
)
def node_role_is_replaced(old: CloudAssembly, new: CloudAssembly) -> None:
    """Karpenter's node role gets another logical id, so it is another role."""
    [arn] = [
        each["Properties"]["PrincipalArn"]
        for each in new.of_type("AWS::EKS::AccessEntry").values()
        if _is_for_nodes(each)
    ]
    new.rename(arn["Fn::GetAtt"][0], "NodeRole")


def _is_for_nodes(entry: dict[str, Any]) -> bool:
    return bool(entry["Properties"].get("Type") == "EC2_LINUX")


@pair(
    consequence=(
        "A new cluster is created and the old one is deleted with its workloads. NodePools of the old one are never "
        "deleted, so their instances keep running."
    ),
    cause=(_CLUSTER + "|cluster", "mine", "replace|destructive|gone|delete"),
    changes=f"{_CLUSTER} AWS::EC2::LaunchTemplate AWS::IAM::ManagedPolicy AWS::Logs::LogGroup EC2NodeClass",
    source=_NAMED,
)
def cluster_is_renamed(old: CloudAssembly, new: CloudAssembly) -> None:
    """The cluster gets another name."""
    new.template = json.loads(re.sub(r"\bmine\b", "yours", json.dumps(new.template)))


@pair(
    consequence="CloudFormation creates the new subnet next to the old one, and EC2 rejects the overlapping block.",
    cause=("Subnet", r"CidrBlock|10\.0\.32\.0"),
    changes="AWS::EC2::Subnet",
    source="https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html",
)
def subnet_block_overlaps(old: CloudAssembly, new: CloudAssembly) -> None:
    """A private subnet gets a smaller block inside of its old one."""
    new.one("AWS::EC2::Subnet", CidrBlock="10.0.32.0/19")["CidrBlock"] = "10.0.32.0/20"


@pair(
    consequence="CloudFormation rejects the first stack: its export is in use until the second one is deployed.",
    cause=("export", f"{EXPORT}|NodeSubnet"),
    changes="Output AWS::SSM::Parameter",
    source="https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-stack-exports.html",
    app="mine-with-import",
)
def export_in_use(old: CloudAssembly, new: CloudAssembly) -> None:
    """A stack drops an export that another stack imported until now."""
    del new.template["Outputs"]["NodeSubnet"]
    new.stack("Consumer").one("AWS::SSM::Parameter", Type="String")["Value"] = "none"
