"""The effects of a deployment on each resource and object that differs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.judging.changes import resource_changes
from gpu_preflight.judging.review import review
from tests.preflight.inputs import given

MANIFEST, CHART = "Custom::AWSCDK-EKS-KubernetesResource", "Custom::AWSCDK-EKS-HelmChart"
QUEUED = {"kueue.x-k8s.io/queue-name": "nlp"}


def applied(kind: str, spec: Any, *, api: str = "v1", name: str = "it", **metadata: Any) -> dict[str, Any]:
    manifest = {"apiVersion": api, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}
    return {
        "Type": MANIFEST,
        "Properties": {"ServiceToken": "arn:1", "ClusterName": "demo", "Manifest": json.dumps([manifest])},
        "DeletionPolicy": "Delete",
    }


def aws(type: str, **properties: Any) -> dict[str, Any]:
    return {"Type": type, "Properties": properties}


def changes(folder: Path, old: Any, new: Any) -> list[tuple[str, str]]:
    before, after = ({"Resources": each} for each in (old, new))
    found = resource_changes(given(folder / "old", before), given(folder / "new", after))
    return [(each.change, each.kind) for each in found]


def group(**pod: Any) -> Any:
    spec = {"leaderWorkerTemplate": {"size": 2, "workerTemplate": {"spec": {"containers": [pod]}}}}
    return applied("LeaderWorkerSet", spec, api="leaderworkerset.x-k8s.io/v1", labels=QUEUED)


def needs(operator: str, *families: Any) -> Any:
    """A requirement of a NodePool for instance families."""
    return {"key": "karpenter.k8s.aws/instance-family", "operator": operator, "values": list(families)}


def flavor(**spec: Any) -> Any:
    return applied("ResourceFlavor", {"nodeLabels": {"a": "b"}, **spec}, api="kueue.x-k8s.io/v1beta2")


def endpoint(kind: str, private: bool | None) -> Any:
    properties = {"VpcId": "vpc-1", "ServiceName": "com.amazonaws.us-east-1.s3", "VpcEndpointType": kind}
    return aws("AWS::EC2::VPCEndpoint", **properties, **({} if private is None else {"PrivateDnsEnabled": private}))


def subnet(block: str, *, vpc: str = "vpc-1", zone: str = "a") -> Any:
    return aws("AWS::EC2::Subnet", VpcId=vpc, CidrBlock=block, AvailabilityZone=f"us-west-2{zone}")


def control_plane(*subnets: str) -> Any:
    return aws("AWS::EKS::Cluster", Name="demo", ResourcesVpcConfig={"SubnetIds": [{"Ref": each} for each in subnets]})


def launch(profile: Any = None, user_data: str = "") -> Any:
    return aws(
        "AWS::EC2::LaunchTemplate", LaunchTemplateData={"IamInstanceProfile": {"Arn": profile}, "UserData": user_data}
    )


def rolled(*, labels: str, user_data: str) -> Any:
    template = {"Id": {"Ref": "L"}, "Version": {"Fn::GetAtt": ["L", "LatestVersionNumber"]}}
    nodes = aws("AWS::EKS::Nodegroup", ClusterName="demo", Labels={"team": labels}, LaunchTemplate=template)
    return {"N": nodes, "L": launch(user_data=user_data)}


def node_class(role: Any) -> Any:
    # As the CDK writes a manifest with a reference.
    kind = {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "it"}}
    before, after = json.dumps([{**kind, "spec": {"role": "@"}}]).split("@")
    made = applied("EC2NodeClass", {})
    return {**made, "Properties": {**made["Properties"], "Manifest": {"Fn::Join": ["", [before, role, after]]}}}


def versioned(cluster: str, nodes: str | None) -> Any:
    group = aws("AWS::EKS::Nodegroup", ClusterName={"Ref": "C"}, Version=nodes)
    return {"C": aws("AWS::EKS::Cluster", Version=cluster), "N": group}


def sized(most: int, desired: Any = None, **labels: str) -> Any:
    sizes = {"MinSize": 0, "MaxSize": most, **({} if desired is None else {"DesiredSize": desired})}
    return {"N": aws("AWS::EKS::Nodegroup", ClusterName="demo", ScalingConfig=sizes, Labels=labels)}


def scaled(most: str, desired: str) -> Any:
    return {"N": aws("AWS::AutoScaling::AutoScalingGroup", MinSize="0", MaxSize=most, DesiredCapacity=desired)}


ROLE = aws("AWS::IAM::Role", AssumeRolePolicyDocument={})
NODE_ENTRY = aws(
    "AWS::EKS::AccessEntry", ClusterName="demo", PrincipalArn={"Fn::GetAtt": ["R", "Arn"]}, Type="EC2_LINUX"
)
PROFILE = aws("AWS::IAM::InstanceProfile", Roles=[{"Ref": "R"}])
FILES = {"FileSystemType": "LUSTRE", "SubnetIds": ["subnet-1"]}
NODE_GROUP = {"ClusterName": "demo", "NodegroupName": "l4", "AmiType": "AL2023_x86_64_NVIDIA"}
ENTRY = {"ClusterName": "demo", "PrincipalArn": "arn:aws:iam::111122223333:role/Ann"}
RELEASE = aws(CHART, ClusterName="demo", Namespace="keda", Release="keda", Chart="keda")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"A": aws("AWS::SQS::Queue", DelaySeconds=1)}, {"A": aws("AWS::SQS::Queue", DelaySeconds=1)}, []),
        (
            {"A": aws("AWS::SQS::Queue", DelaySeconds=1)},
            {"A": aws("AWS::SQS::Queue", DelaySeconds=2)},
            [("in place", "Queue")],
        ),
        ({}, {"A": aws("AWS::SQS::Queue")}, [("added", "Queue")]),
        ({"A": aws("AWS::SQS::Queue")}, {}, [("removed", "Queue")]),
        ({"A": aws("AWS::SQS::Queue")}, {"A": aws("AWS::SNS::Topic")}, [("fails", "Topic")]),
        ({"A": aws("AWS::Some::Thing", A=1)}, {"A": aws("AWS::Some::Thing", A=2)}, [("unknown", "Thing")]),
        (
            {"A": aws("Custom::Own", ServiceToken="arn:1")},
            {"A": aws("Custom::Own", ServiceToken="arn:2")},
            [("fails", "Own")],
        ),
        (
            {"A": aws("AWS::EKS::Nodegroup", **NODE_GROUP)},
            {"A": aws("AWS::EKS::Nodegroup", **{**NODE_GROUP, "AmiType": "CUSTOM"})},
            [("fails", "Nodegroup")],
        ),
        (
            {"A": aws("AWS::EKS::Nodegroup", **{**NODE_GROUP, "NodegroupName": None})},
            {"A": aws("AWS::EKS::Nodegroup", **{**NODE_GROUP, "NodegroupName": None, "AmiType": "CUSTOM"})},
            [("replaced", "Nodegroup")],
        ),
        (
            {"A": aws("AWS::EKS::AccessEntry", **ENTRY)},
            {"B": aws("AWS::EKS::AccessEntry", **ENTRY)},
            [("fails", "AccessEntry")],
        ),
        ({"A": RELEASE}, {"B": RELEASE}, [("destructive", "HelmChart")]),
        (
            {"A": RELEASE},
            {"A": {**RELEASE, "Properties": {**RELEASE["Properties"], "Release": "other"}}},
            [("left behind", "HelmChart")],
        ),
        (
            {"A": aws("AWS::FSx::FileSystem", **FILES)},
            {"A": aws("AWS::FSx::FileSystem", **{**FILES, "SubnetIds": ["subnet-2"]})},
            [("destructive", "FileSystem")],
        ),
        (
            {"A": {**aws("AWS::FSx::FileSystem", **FILES), "UpdateReplacePolicy": "Retain"}},
            {"A": aws("AWS::FSx::FileSystem", **{**FILES, "SubnetIds": ["subnet-2"]})},
            [("replaced", "FileSystem")],
        ),
        ({"A": aws("AWS::FSx::FileSystem", **FILES)}, {}, [("destructive", "FileSystem")]),
        (
            {"A": {**aws("AWS::FSx::FileSystem", **FILES), "DeletionPolicy": "Retain"}},
            {},
            [("left behind", "FileSystem")],
        ),
        (
            # A resource that refers to another VPC is a different resource, too.
            {
                "V": aws("AWS::EC2::VPC", CidrBlock="10.0.0.0/16"),
                "S": aws("AWS::EC2::Subnet", VpcId={"Ref": "V"}, CidrBlock="10.0.0.0/24"),
            },
            {
                "V": aws("AWS::EC2::VPC", CidrBlock="10.1.0.0/16"),
                "S": aws("AWS::EC2::Subnet", VpcId={"Ref": "V"}, CidrBlock="10.0.0.0/24"),
            },
            [("replaced", "Subnet"), ("replaced", "VPC")],
        ),
        (
            {"A": applied("Deployment", {"replicas": 1}, api="apps/v1")},
            {"A": applied("Deployment", {"replicas": 2}, api="apps/v1")},
            [("in place", "Deployment")],
        ),
        (
            {"A": applied("Deployment", {"selector": {"a": "b"}}, api="apps/v1")},
            {"A": applied("Deployment", {"selector": {"a": "c"}}, api="apps/v1")},
            [("fails", "Deployment")],
        ),
        (
            {"A": applied("Deployment", {}, api="apps/v1")},
            {"A": applied("Deployment", {}, api="apps/v1", name="other")},
            [("left behind", "Deployment"), ("added", "Deployment")],
        ),
        (
            {"A": applied("Deployment", {}, api="apps/v1")},
            {"B": applied("Deployment", {}, api="apps/v1", name="other")},
            [("replaced", "Deployment")],
        ),
        (
            {"A": applied("Deployment", {}, api="apps/v1")},
            {"B": applied("Deployment", {}, api="apps/v1")},
            [("destructive", "Deployment")],
        ),
        (
            {"A": applied("Job", {}, api="batch/v1")},
            {"B": applied("Job", {}, api="batch/v1", name="other")},
            [("destructive", "Job")],
        ),
        ({"A": applied("Namespace", {})}, {}, [("destructive", "Namespace")]),
        ({"A": {**applied("Namespace", {}), "DeletionPolicy": "Retain"}}, {}, [("left behind", "Namespace")]),
        ({"A": applied("PersistentVolumeClaim", {})}, {}, [("destructive", "PersistentVolumeClaim")]),
        (
            {"A": applied("PersistentVolumeClaim", {"volumeName": "it"})},
            {},
            [("removed", "PersistentVolumeClaim")],
        ),
        ({"A": group(image="a")}, {"A": group(image="b")}, [("in place", "LeaderWorkerSet")]),
        ({"A": group(ports=[1])}, {"A": group(ports=[2])}, [("fails", "LeaderWorkerSet")]),
        (
            {"A": applied("NodePool", {"limits": {"cpu": 1}}, api="karpenter.sh/v1")},
            {"A": applied("NodePool", {"replicas": 2}, api="karpenter.sh/v1")},
            [("fails", "NodePool")],
        ),
        (
            {"A": applied("NodePool", {"replicas": 1}, api="karpenter.sh/v1")},
            {"A": applied("NodePool", {"replicas": 2}, api="karpenter.sh/v1")},
            [("in place", "NodePool")],
        ),
        (
            # A volume that has no zone may get one, and never another one.
            {"A": applied("PersistentVolume", {"capacity": 1})},
            {"A": applied("PersistentVolume", {"capacity": 1, "nodeAffinity": {"zone": "a"}})},
            [("in place", "PersistentVolume")],
        ),
        (
            {"A": applied("PersistentVolume", {"nodeAffinity": {"zone": "a"}})},
            {"A": applied("PersistentVolume", {"nodeAffinity": {"zone": "b"}})},
            [("fails", "PersistentVolume")],
        ),
        (
            {"A": applied("Job", {"completions": 2, "parallelism": 2, "completionMode": "Indexed"}, api="batch/v1")},
            {"A": applied("Job", {"completions": 3, "parallelism": 3, "completionMode": "Indexed"}, api="batch/v1")},
            [("in place", "Job")],
        ),
        (
            {"A": applied("Job", {"completions": 2, "parallelism": 2}, api="batch/v1")},
            {"A": applied("Job", {"completions": 3, "parallelism": 3}, api="batch/v1")},
            [("fails", "Job")],
        ),
        (
            # Kueue stops it, and admits it again.
            {"A": applied("Job", {"parallelism": 2}, api="batch/v1", labels=QUEUED)},
            {"A": applied("Job", {"parallelism": 3}, api="batch/v1", labels=QUEUED)},
            [("destructive", "Job")],
        ),
        (
            {"A": applied("Job", {"parallelism": 2}, api="batch/v1")},
            {"A": applied("Job", {"parallelism": 3}, api="batch/v1")},
            [("in place", "Job")],
        ),
        (
            {"A": flavor(nodeLabels={"a": "b"})},
            {"A": flavor(nodeLabels={"a": "c"})},
            [("in place", "ResourceFlavor")],
        ),
        (
            {"A": flavor(nodeLabels={"a": "b"}, topologyName="net")},
            {"A": flavor(nodeLabels={"a": "c"}, topologyName="net")},
            [("fails", "ResourceFlavor")],
        ),
        ({"A": flavor()}, {"A": flavor(topologyName="net")}, [("in place", "ResourceFlavor")]),
        ({"A": flavor(topologyName="net")}, {"A": flavor()}, [("fails", "ResourceFlavor")]),
        (
            {"A": group(resources={"limits": {"memory": "1Gi"}})},
            {"A": group(resources={"limits": {"memory": "1Gi"}, "requests": {"memory": "1Gi"}})},
            [("in place", "LeaderWorkerSet")],
        ),
        (
            {"A": aws("AWS::FSx::FileSystem", StorageCapacity=2400)},
            {"A": aws("AWS::FSx::FileSystem", StorageCapacity=4800)},
            [("in place", "FileSystem")],
        ),
        (
            {"A": aws("AWS::FSx::FileSystem", StorageCapacity=2400)},
            {"A": aws("AWS::FSx::FileSystem", StorageCapacity=1200)},
            [("fails", "FileSystem")],
        ),
        (
            {"A": aws("AWS::EKS::Cluster", ControlPlaneScalingConfig={"Tier": "tier-xl"})},
            {"A": aws("AWS::EKS::Cluster")},
            [("left behind", "Cluster"), ("in place", "Cluster")],
        ),
        (
            {"A": aws("AWS::EKS::Cluster", ControlPlaneScalingConfig={"Tier": "tier-xl"})},
            {"A": aws("AWS::EKS::Cluster", ControlPlaneScalingConfig={"Tier": "standard"})},
            [("in place", "Cluster")],
        ),
        ({"A": endpoint("Interface", True)}, {"B": endpoint("Interface", True)}, [("fails", "VPCEndpoint")]),
        ({"A": endpoint("Gateway", None)}, {"B": endpoint("Gateway", None)}, [("fails", "VPCEndpoint")]),
        (
            {"A": endpoint("Interface", False)},
            {"B": endpoint("Interface", False)},
            [("removed", "VPCEndpoint"), ("added", "VPCEndpoint")],
        ),
        # The old subnet is deleted after everything else.
        ({"A": subnet("10.0.0.0/19")}, {"A": subnet("10.0.32.0/19")}, [("replaced", "Subnet")]),
        ({"A": subnet("10.0.0.0/18")}, {"A": subnet("10.0.32.0/19")}, [("fails", "Subnet")]),
        ({"A": subnet("10.0.0.0/18")}, {"B": subnet("10.0.32.0/19")}, [("fails", "Subnet"), ("removed", "Subnet")]),
        (
            {"A": subnet("10.0.0.0/18")},
            {"B": subnet("10.0.32.0/19", vpc="vpc-2")},
            [("removed", "Subnet"), ("added", "Subnet")],
        ),
        (
            {"C": control_plane("A"), "A": subnet("10.0.0.0/24"), "B": subnet("10.0.1.0/24", zone="b")},
            {"C": control_plane("A", "B"), "A": subnet("10.0.0.0/24"), "B": subnet("10.0.1.0/24", zone="b")},
            [("fails", "Cluster")],
        ),
        (
            {"C": control_plane("A"), "A": subnet("10.0.0.0/24"), "B": subnet("10.0.1.0/24")},
            {"C": control_plane("A", "B"), "A": subnet("10.0.0.0/24"), "B": subnet("10.0.1.0/24")},
            [("in place", "Cluster")],
        ),
        (
            rolled(labels="a", user_data="a"),
            rolled(labels="b", user_data="b"),
            [("fails", "Nodegroup"), ("in place", "LaunchTemplate")],
        ),
        (rolled(labels="a", user_data="a"), rolled(labels="b", user_data="a"), [("in place", "Nodegroup")]),
        (rolled(labels="a", user_data="a"), rolled(labels="a", user_data="b"), [("in place", "LaunchTemplate")]),
        (
            # A pool whose nodes have the role gets another one.
            {"R": ROLE, "E": NODE_ENTRY, "P": node_class({"Ref": "R"})},
            {"P": node_class("other")},
            [("destructive", "AccessEntry"), ("removed", "Role"), ("in place", "EC2NodeClass")],
        ),
        (
            # The pool goes with its nodes.
            {"R": ROLE, "E": NODE_ENTRY, "P": node_class({"Ref": "R"})},
            {},
            [("removed", "AccessEntry"), ("removed", "Role"), ("removed", "EC2NodeClass")],
        ),
        (
            {"R": ROLE, "E": NODE_ENTRY, "I": PROFILE, "L": launch({"Fn::GetAtt": ["I", "Arn"]})},
            {"L": launch("arn:aws:iam::111122223333:instance-profile/other")},
            [
                ("destructive", "AccessEntry"),
                ("removed", "InstanceProfile"),
                ("removed", "Role"),
                ("in place", "LaunchTemplate"),
            ],
        ),
        (
            # The role is replaced, and its entry keeps the logical id.
            {"R": ROLE, "E": NODE_ENTRY, "P": node_class({"Ref": "R"})},
            {"R": aws("AWS::IAM::Role", AssumeRolePolicyDocument={}, Path="/own/"), "E": NODE_ENTRY}
            | {"P": node_class({"Ref": "R"})},
            [("destructive", "AccessEntry"), ("replaced", "Role"), ("in place", "EC2NodeClass")],
        ),
        (
            # No pool has nodes with the role.
            {"R": ROLE, "E": NODE_ENTRY},
            {"R": aws("AWS::IAM::Role", AssumeRolePolicyDocument={}, Path="/own/"), "E": NODE_ENTRY},
            [("replaced", "AccessEntry"), ("replaced", "Role")],
        ),
        (
            # The entry keeps the role.
            {"R": ROLE, "E": NODE_ENTRY, "P": node_class({"Ref": "R"})},
            {"R": ROLE, "E": {**NODE_ENTRY, "Properties": {**NODE_ENTRY["Properties"], "Tags": []}}}
            | {"P": node_class({"Ref": "R"})},
            [("in place", "AccessEntry")],
        ),
        (versioned("1.34", None), versioned("1.36", None), [("fails", "Cluster")]),
        (versioned("1.35", None), versioned("1.36", None), [("in place", "Cluster")]),
        (versioned("1.36", None), versioned("1.34", None), [("fails", "Cluster")]),
        (versioned("1.36", "1.36"), versioned("1.35", "1.35"), [("fails", "Cluster"), ("in place", "Nodegroup")]),
        # The nodes already have the version.
        (versioned("1.36", "1.35"), versioned("1.35", "1.35"), [("in place", "Cluster")]),
        (sized(4, 1), sized(6, 1), [("destructive", "Nodegroup")]),
        (sized(4), sized(4, 2), [("destructive", "Nodegroup")]),
        # At most four nodes run.
        (sized(4, 1), sized(6, 4), [("in place", "Nodegroup")]),
        (sized(4, 1), sized(6), [("in place", "Nodegroup")]),
        (sized(4, 1), sized(4, 1, team="nlp"), [("in place", "Nodegroup")]),
        # A function of the stack returns the size.
        (sized(4), sized(6, {"Fn::GetAtt": ["Kept", "Desired"]}), [("in place", "Nodegroup")]),
        (scaled("4", "1"), scaled("6", "1"), [("destructive", "AutoScalingGroup")]),
        (scaled("4", "1"), scaled("6", "4"), [("in place", "AutoScalingGroup")]),
    ],
)
def test_a_change(tmp_path: Path, old: Any, new: Any, expected: list[tuple[str, str]]) -> None:
    # No input is empty.
    kept = {"Kept": aws("AWS::SNS::Topic")}

    assert changes(tmp_path, {**kept, **old}, {**kept, **new}) == expected


def test_a_rejected_update_fails_the_review(tmp_path: Path) -> None:
    old, new = (
        {"Resources": {"A": applied("ResourceClaim", {"devices": each}, api="resource.k8s.io/v1")}}
        for each in ("a", "b")
    )

    found = review(given(tmp_path / "old", old), given(tmp_path / "new", new))

    assert [each.change for each in found.changes] == ["fails"]
    assert "take another name" in found.changes[0].detail
    assert found.fails


def test_what_moves_to_another_stack_is_deployed_in_two_steps(tmp_path: Path) -> None:
    things = {"A": applied("Deployment", {}, api="apps/v1"), "B": RELEASE, "C": aws("AWS::EKS::AccessEntry", **ENTRY)}
    kept = {"Kept": aws("AWS::SNS::Topic")}

    def app(folder: str, one: Any, two: Any) -> Any:
        (tmp_path / folder).mkdir()
        given(tmp_path / folder, {"Resources": {**kept, **one}}, "One.template.json")
        return given(tmp_path / folder, {"Resources": {**kept, **two}}, "Two.template.json")

    found = resource_changes(app("old", things, {}), app("new", {}, things))

    assert [(each.change, each.kind) for each in found] == [
        ("destructive", "HelmChart"),
        ("destructive", "Deployment"),
        ("fails", "AccessEntry"),
    ]
    assert all("deploy One without it first, then Two" in each.detail for each in found)


def test_a_change_is_placed_where_it_is_written(tmp_path: Path) -> None:
    old, new = ({"Resources": {"A": aws("AWS::SQS::Queue", DelaySeconds=each)}} for each in (1, 2))

    [found] = resource_changes(given(tmp_path / "old", old), given(tmp_path / "new", new))

    assert found.origin is not None
    assert found.origin.file == str(tmp_path / "new" / "stack.template.json")


def details(folder: Path, old: Any, new: Any) -> list[tuple[str, str, str]]:
    before, after = ({"Resources": each} for each in (old, new))
    found = resource_changes(given(folder / "old", before), given(folder / "new", after))
    return [(each.change, each.kind, each.detail) for each in found]


def test_a_file_system_that_stays_is_named_with_the_empty_one(tmp_path: Path) -> None:
    kept = {**aws("AWS::FSx::FileSystem", **FILES), "DeletionPolicy": "Retain"}

    assert details(tmp_path, {"A": kept}, {"B": kept}) == [
        ("left behind", "FileSystem", "it stays, in no stack; stack/B is new and empty"),
        ("added", "FileSystem", ""),
    ]


def test_an_autoscaler_of_another_kind_takes_over_its_target(tmp_path: Path) -> None:
    old = {"A": applied("HorizontalPodAutoscaler", {"scaleTargetRef": {"kind": "Deployment", "name": "chat"}})}
    new = {"B": applied("ScaledObject", {"scaleTargetRef": {"name": "chat"}}, api="keda.sh/v1alpha1")}
    other = {"B": applied("ScaledObject", {"scaleTargetRef": {"name": "code"}}, api="keda.sh/v1alpha1")}

    detail = "HorizontalPodAutoscaler it -> ScaledObject it"
    assert details(tmp_path, old, new) == [("replaced", "HorizontalPodAutoscaler", detail)]
    assert changes(tmp_path, old, other) == [("removed", "HorizontalPodAutoscaler"), ("added", "ScaledObject")]


def serving(image: str, **spec: Any) -> dict[str, Any]:
    pod = {"spec": {"containers": [{"name": "chat", "image": image}, {"name": "proxy", "image": "p"}]}}
    return {"A": applied("Deployment", {"template": pod, **spec}, api="apps/v1")}


@pytest.mark.parametrize(
    ("old", "new", "effects"),
    [
        (serving("a"), serving("b"), ["pods restart"]),
        (serving("a"), serving("a", replicas=2), [None]),
        (serving("a"), serving("b", updateStrategy={"type": "OnDelete"}), [None]),
        ({"A": group(image="a")}, {"A": group(image="b")}, ["pods restart"]),
        (rolled(labels="a", user_data="a"), rolled(labels="a", user_data="b"), ["nodes replaced"]),
        (rolled(labels="a", user_data="a"), rolled(labels="b", user_data="a"), [None]),
        ({"L": launch(user_data="a")}, {"L": launch(user_data="b")}, [None]),
        (
            {"A": aws("AWS::EKS::Nodegroup", Version="1.35", **NODE_GROUP)},
            {"A": aws("AWS::EKS::Nodegroup", Version="1.36", **NODE_GROUP)},
            ["nodes replaced"],
        ),
        (
            {"A": applied("NodePool", {"template": {"spec": {"taints": []}}})},
            {"A": applied("NodePool", {"template": {"spec": {"taints": [{"key": "a"}]}}})},
            ["nodes replaced"],
        ),
        *(
            (
                {"A": applied("NodePool", {"template": {"spec": {"requirements": old}}})},
                {"A": applied("NodePool", {"template": {"spec": {"requirements": new}}})},
                [effect],
            )
            for old, new, effect in (
                ([needs("In", "g6", "p5")], [needs("In", "p5", "g6")], None),
                ([needs("In", "g6")], [needs("In", "g6", "p5")], None),
                ([needs("In", "g6")], [needs("Exists")], None),
                ([needs("In", "g6")], [needs("NotIn", "p5")], None),
                ([needs("NotIn", "g6", "p5")], [needs("NotIn", "p5")], None),
                ([needs("In", "g6"), {"key": "b", "operator": "Exists"}], [needs("In", "g6")], None),
                ([needs("In", "g6", "p5")], [needs("In", "g6")], "nodes replaced"),
                ([needs("In", "g6")], [needs("NotIn", "g6")], "nodes replaced"),
                ([needs("Exists")], [needs("In", "g6")], "nodes replaced"),
                ([needs("In", "g6")], [needs("In", "g6"), {"key": "b", "operator": "Exists"}], "nodes replaced"),
                ([needs("In", "g6")], {"Ref": "Later"}, "nodes replaced"),
                ([needs("In", "g6")], [needs("In", {"Ref": "Later"})], "nodes replaced"),
            )
        ),
        ({"A": applied("NodePool", {"weight": 1})}, {"A": applied("NodePool", {"weight": 2})}, [None]),
    ],
)
def test_what_an_update_in_place_does_to_nodes_and_pods(
    tmp_path: Path, old: Any, new: Any, effects: list[str | None]
) -> None:
    before, after = ({"Resources": each} for each in (old, new))

    found = resource_changes(given(tmp_path / "old", before), given(tmp_path / "new", after))

    assert [each.change for each in found] == ["in place"]
    assert [each.effect for each in found] == effects


def test_a_change_in_a_list_names_the_member_and_the_value(tmp_path: Path) -> None:
    [(_, _, detail)] = details(tmp_path, serving("a"), serving("b"))

    assert detail == "spec.template.spec.containers[chat].image: a -> b; the pods restart"


def test_a_provider_that_moves_is_named_once(tmp_path: Path) -> None:
    old = {each: aws("Custom::GpuThing", ServiceToken="arn:1") for each in "ABC"}
    new = {each: aws("Custom::GpuThing", ServiceToken="arn:2") for each in "ABC"}

    [(change, kind, detail)] = details(tmp_path, old, new)

    assert (change, kind) == ("fails", "GpuThing")
    assert detail.startswith("ServiceToken: arn:1 -> arn:2")
    assert detail.endswith("(3 resources of this provider)")


def exporting(resources: Any, value: Any) -> Any:
    output = {} if value is None else {"Out": {"Value": value, "Export": {"Name": "queue"}}}
    return {"Resources": {"Kept": aws("AWS::SNS::Topic"), **resources}, "Outputs": output}


def importing(value: Any) -> Any:
    return {"Resources": {"P": aws("AWS::SSM::Parameter", Type="String", Value=value)}}


IMPORT = {"Fn::ImportValue": "queue"}
QUEUE = {"Q": aws("AWS::SQS::Queue", QueueName="a")}
OTHER_QUEUE = {"Q": aws("AWS::SQS::Queue", QueueName="b")}
REF = {"Ref": "Q"}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # Its last import leaves in the same deployment.
        ((exporting(QUEUE, REF), importing(IMPORT)), (exporting(QUEUE, None), importing("a")), "deletes it"),
        ((exporting(QUEUE, REF), importing("a")), (exporting(QUEUE, None), importing("a")), None),
        ((exporting(QUEUE, REF), importing(IMPORT)), (exporting(QUEUE, REF), importing("a")), None),
        # The exporting stack isn't deployed again.
        ((exporting(QUEUE, REF), importing(IMPORT)), (None, importing("a")), None),
        # The queue is replaced, so its URL changes.
        ((exporting(QUEUE, REF), importing(IMPORT)), (exporting(OTHER_QUEUE, REF), importing(IMPORT)), "Value: "),
        ((exporting({}, "a"), importing(IMPORT)), (exporting({}, "b"), importing(IMPORT)), "Value: a -> b"),
        ((exporting({}, "a"), importing("a")), (exporting({}, "b"), importing("a")), None),
        # Only deployment tells whether both are the same.
        ((exporting(QUEUE, REF), importing(IMPORT)), (exporting(QUEUE, "b"), importing(IMPORT)), "another value"),
    ],
)
def test_an_export_in_use(tmp_path: Path, old: Any, new: Any, expected: str | None) -> None:
    def app(folder: str, stacks: Any) -> Any:
        (tmp_path / folder).mkdir()
        for name, each in zip(("One", "Two"), stacks, strict=True):
            read = given(tmp_path / folder, each, f"{name}.template.json") if each else None
        return read

    found = [each for each in resource_changes(app("old", old), app("new", new)) if each.kind == "Export"]

    change = "unknown" if expected == "another value" else "fails"
    assert [each.change for each in found] == ([change] if expected else [])
    assert all(expected in each.detail and "deploy Two" in each.detail for each in found if expected)
    assert all(each.origin and each.origin.path == "One" for each in found)


def node_pool(*after: str) -> Any:
    return {**applied("NodePool", {}, api="karpenter.sh/v1", name="l4"), "DependsOn": list(after)}


KARPENTER = aws(CHART, ClusterName="demo", Namespace="kube-system", Release="karpenter", Chart="karpenter")
BETWEEN = {**aws("AWS::SQS::Queue"), "DependsOn": ["K"]}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"K": KARPENTER, "P": node_pool()}, {}, "NodePool l4 may be deleted after it"),
        ({"K": KARPENTER, "P": node_pool()}, {"P": node_pool()}, "NodePool l4 stay"),
        ({"K": KARPENTER, "P": node_pool("K")}, {"P": node_pool()}, "NodePool l4 stay"),
        # CloudFormation deletes the NodePool first.
        ({"K": KARPENTER, "P": node_pool("K")}, {}, None),
        ({"K": KARPENTER, "B": BETWEEN, "P": node_pool("B")}, {}, None),
        # Karpenter runs on under another logical id, or with another name.
        ({"K": KARPENTER, "P": node_pool()}, {"L": KARPENTER}, None),
        ({"K": KARPENTER}, {}, None),
        # Another controller, which has nothing to do with NodePools.
        ({"K": RELEASE, "P": node_pool()}, {"P": node_pool()}, None),
    ],
)
def test_a_controller_that_is_uninstalled_too_early(tmp_path: Path, old: Any, new: Any, expected: str | None) -> None:
    kept = {"Kept": aws("AWS::SNS::Topic")}
    before, after = ({"Resources": {**kept, **each}} for each in (old, new))

    changes = resource_changes(given(tmp_path / "old", before), given(tmp_path / "new", after))

    found = [each for each in changes if each.change == "left behind"]
    assert [each.kind for each in found] == (["HelmChart"] if expected else [])
    assert all(expected in each.detail for each in found if expected)
