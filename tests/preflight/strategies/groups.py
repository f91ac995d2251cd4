"""Node groups, managed by EKS and not, as CloudFormation describes them."""

from __future__ import annotations

import json
from collections.abc import Callable

from hypothesis import strategies as st

from tests.preflight.strategies.vocabulary import EFFECTS, GPU, TAINT_VALUES, TAINTED, TEAMS, TYPES, ZONES, Json, given

_EKS_EFFECTS = {"NoSchedule": "NO_SCHEDULE", "NoExecute": "NO_EXECUTE", "PreferNoSchedule": "PREFER_NO_SCHEDULE"}
_SIZES = ((1, 4), (0, 4), (1, 1), (0, 1), (0, 0))
_DECLARED = f"k8s.io/cluster-autoscaler/node-template/resources/{GPU}"
_IMAGE = "{{resolve:ssm:/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/%s/nvidia/recommended/image_id}}"

Resources = dict[str, Json]
# Makes the resources and the objects of a pool of its number: a pool is drawn whole, so that one can be left out.
Numbered = Callable[[int], tuple[Resources, list[Json]]]
types = st.sampled_from(TYPES)


def subnets() -> Resources:
    """A subnet in each zone."""
    return {
        f"Subnet{number}": {"Type": "AWS::EC2::Subnet", "Properties": {"AvailabilityZone": zone}}
        for number, zone in enumerate(ZONES)
    }


places = st.sampled_from(([0], [1], [0, 1])).map(lambda found: [{"Ref": f"Subnet{each}"} for each in found])


@st.composite
def labels(draw: st.DrawFn) -> Json:
    """Labels of a group's nodes."""
    found = draw(st.dictionaries(st.sampled_from(("team", "example.com/rank")), st.sampled_from(TEAMS)))
    return found | draw(st.sampled_from(({}, {"nvidia.com/gpu.present": "true"})))


taints = st.lists(
    st.fixed_dictionaries(
        {"key": st.sampled_from(TAINTED), "value": st.sampled_from(TAINT_VALUES), "effect": st.sampled_from(EFFECTS)}
    ),
    max_size=2,
    unique_by=lambda each: each["key"],
)


def _machine(kind: str) -> str:
    return "arm64" if kind.startswith("g5g") else "x86_64"


@st.composite
def managed(draw: st.DrawFn) -> Numbered:
    """An ``AWS::EKS::Nodegroup``."""
    kind, (least, most) = draw(types), draw(st.sampled_from(_SIZES))
    system = draw(st.sampled_from(("AL2023", "BOTTLEROCKET")))
    machine = _machine(kind)
    properties = {
        "ClusterName": {"Ref": "Cluster"},
        "AmiType": f"{system}_{'ARM_64' if machine == 'arm64' and system == 'AL2023' else machine}_NVIDIA",
        "InstanceTypes": [kind],
        "ScalingConfig": {"MinSize": least, "MaxSize": most},
        "Labels": draw(labels()),
        "Taints": [_of_eks(each) for each in draw(taints)],
        "Subnets": draw(places),
        "Tags": draw(st.sampled_from(({}, {_DECLARED: "1"}, {_DECLARED: "4"}))),
    }
    group = {"Type": "AWS::EKS::Nodegroup", "Properties": given(properties)}
    return lambda number: ({f"Nodes{number}": group}, [])


def _of_eks(taint: Json) -> Json:
    return {"Key": taint["key"], "Value": taint["value"], "Effect": _EKS_EFFECTS[taint["effect"]]}


@st.composite
def self_managed(draw: st.DrawFn) -> Numbered:
    """A self-managed Auto Scaling group, whose nodes get their labels and taints at boot."""
    kind, (least, most) = draw(types), draw(st.sampled_from(_SIZES))
    labelled = [f"{key}={value}" for key, value in draw(labels()).items()]
    tainted = [f"{each['key']}={each['value']}:{each['effect']}" for each in draw(taints)]
    said = {"node-labels": labelled, "register-with-taints": tainted}
    flags = [f"--{name}={','.join(values)}" for name, values in said.items() if values]
    told = {"cluster": {"name": "demo"}, "kubelet": {"flags": flags}}
    config = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": told}
    data = {
        "ImageId": _IMAGE % _machine(kind),
        "InstanceType": kind,
        "UserData": {"Fn::Base64": json.dumps(config)},
    }
    group = {
        "MinSize": str(least),
        "MaxSize": str(most),
        "VPCZoneIdentifier": draw(places),
        "Tags": [{"Key": "kubernetes.io/cluster/demo", "Value": "owned", "PropagateAtLaunch": True}],
    }
    return lambda number: (_launched(data, group, number), [])


def _launched(data: Json, group: Json, number: int) -> Resources:
    template = {"Type": "AWS::EC2::LaunchTemplate", "Properties": {"LaunchTemplateData": data}}
    launched = {"LaunchTemplateId": {"Ref": f"Launch{number}"}, "Version": "1"}
    properties = {"LaunchTemplate": launched, **group}
    return {
        f"Launch{number}": template,
        f"Nodes{number}": {"Type": "AWS::AutoScaling::AutoScalingGroup", "Properties": properties},
    }
