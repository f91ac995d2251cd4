"""Managed groups: image, disk, user data, sizes, versions, labels and taints."""

from __future__ import annotations

import base64

from tests.rehearsal.faults.apps import P5
from tests.rehearsal.faults.assembly import NODE_GROUP, CloudAssembly
from tests.rehearsal.faults.fault import fault

_AMI_TYPES = "https://docs.aws.amazon.com/eks/latest/APIReference/API_Nodegroup.html"
_VOLUMES = "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_EbsBlockDevice.html"
_NODEADM = "https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/"


@fault(
    consequence="The node has no NVIDIA driver, so it never offers a GPU and train stays Pending.",
    cause=("p5|AmiType", r"STANDARD", r"driver|NVIDIA"),
    changes=NODE_GROUP,
    source="https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-optimized-ami.html",
)
def p5_with_standard_image(app: CloudAssembly) -> None:
    """The p5 group has the AMI type AL2023_x86_64_STANDARD."""
    app.node_group(P5)["AmiType"] = "AL2023_x86_64_STANDARD"


@fault(
    consequence="EKS rejects the group: the AMI type doesn't match the architecture of the instance type.",
    cause=("p5|AmiType", r"ARM|arm64|architecture"),
    changes=NODE_GROUP,
    source=_AMI_TYPES,
)
def p5_with_arm_image(app: CloudAssembly) -> None:
    """The p5 group has the AMI type AL2023_ARM_64_NVIDIA."""
    app.node_group(P5)["AmiType"] = "AL2023_ARM_64_NVIDIA"


@fault(
    consequence="EC2 rejects a volume that is smaller than the snapshot of the AMI, so the group creates no instance.",
    cause=(r"launch.?template|p5|volume|disk", r"\b5(\b|GB)", r"GiB|snapshot|small|size"),
    changes="AWS::EC2::LaunchTemplate",
    source=_VOLUMES,
)
def p5_disk_below_snapshot(app: CloudAssembly) -> None:
    """The root volume of the p5 group has 5 GiB."""
    app.launch_template(P5)["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] = 5


@fault(
    consequence="nodeadm rejects the NodeConfig, so the instance never joins and the group fails.",
    cause=(r"RAID9",),
    changes="AWS::EC2::LaunchTemplate",
    source=_NODEADM,
)
def node_config_with_raid9(app: CloudAssembly) -> None:
    """The NodeConfig of the p5 group has the local storage strategy RAID9."""
    data = app.launch_template(P5)
    text = base64.b64decode(data["UserData"]).decode().replace("RAID0", "RAID9")
    data["UserData"] = base64.b64encode(text.encode()).decode()


@fault(
    consequence="EKS rejects the group: there is no such AMI release for Kubernetes 1.36.",
    cause=(r"1\.33\.1", r"1\.36|minor|release"),
    changes=NODE_GROUP,
    source=_AMI_TYPES,
)
def release_of_another_minor(app: CloudAssembly) -> None:
    """The p5 group has the release version of another Kubernetes minor version."""
    app.node_group(P5)["ReleaseVersion"] = "1.33.1-20250620"


@fault(
    consequence="EKS rejects the group: the minimum size is above the maximum size.",
    cause=("p5|Nodegroup|ScalingConfig", r"min", r"max"),
    changes=NODE_GROUP,
    source="https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupScalingConfig.html",
)
def minimum_above_maximum(app: CloudAssembly) -> None:
    """The p5 group has MinSize 3 and MaxSize 2."""
    app.node_group(P5)["ScalingConfig"].update(MinSize=3, MaxSize=2)


@fault(
    consequence="EKS rejects the cluster: it doesn't offer this Kubernetes version.",
    cause=(r"1\.20",),
    changes="AWS::EKS::Cluster",
    source="https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html",
)
def cluster_of_an_ended_version(app: CloudAssembly) -> None:
    """The cluster has the Kubernetes version 1.20."""
    [cluster] = app.of_type("AWS::EKS::Cluster").values()
    cluster["Properties"]["Version"] = "1.20"


@fault(
    consequence="The job selects nodes by this label, so it stays Pending next to a running p5 node.",
    cause=(r"train|p5", r"gpu-constructs\.io/pool|label|selector"),
    changes=NODE_GROUP,
    source="https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#nodeselector",
)
def p5_without_its_label(app: CloudAssembly) -> None:
    """The p5 group doesn't have the label by which the training job selects its nodes."""
    del app.node_group(P5)["Labels"]["gpu-constructs.io/pool"]
