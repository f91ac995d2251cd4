"""ClusterConfigs that eksctl rejects, and the nearest config that it accepts."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import Unknown
from gpu_preflight.schema.eksctl_rejections import MANAGED, SELF_MANAGED, Rejection, rejections

LATER = Unknown("${LATER}")
IMAGE = "ami-0123456789abcdef0"
TEMPLATE = {"id": "lt-0123456789abcdef0"}
SCRIPT = "#!/bin/bash\n/etc/eks/bootstrap.sh demo\n"
NODE_CONFIG = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {kubelet: {config: {maxPods: 29}}}\n"
BLOCK = {"marketType": "capacity-block"}
RESERVATION = {"capacityReservationTarget": {"capacityReservationID": "cr-0123456789abcdef0"}}


def found(kind: str, *groups: dict[str, Any], **parts: Any) -> list[Rejection]:
    """Errors of eksctl about a config with some groups, which get different names if they have none."""
    named = [{"name": f"gpu{number}", **each} for number, each in enumerate(groups)]
    config = {
        "kind": "ClusterConfig",
        "metadata": {"name": "demo", "region": "us-west-2", "version": "1.35"},
        kind: named,
        **parts,
    }
    return list(rejections(Object(config, Origin("cluster.yaml", "ClusterConfig demo"))))


# Fields of a group of both kinds, the field that eksctl's message is about, and fields that make eksctl accept it.
EVERY = [
    ({"amiFamily": "AmazonLinux2022"}, "amiFamily must be one of", {"amiFamily": "amazonlinux2023"}),
    ({"volumeType": "gp2", "volumeIOPS": 3000}, "volumeIOPS needs", {"volumeType": "gp3"}),
    ({"volumeIOPS": 2999}, "volumeIOPS of gp3 must be 3000 to 16000, got 2999", {"volumeIOPS": 3000}),
    ({"volumeIOPS": 16001}, "volumeIOPS of gp3 must be", {"volumeIOPS": 16000}),
    ({"volumeType": "io2", "volumeIOPS": 99}, "volumeIOPS of io2 must be 100 to 256000", {"volumeIOPS": 100}),
    ({"volumeThroughput": 1001}, "volumeThroughput must be 125 to 1000", {"volumeThroughput": 1000}),
    ({"volumeType": "io1", "volumeThroughput": 125}, "volumeThroughput needs volumeType gp3", {"volumeType": "gp3"}),
    ({"volumeSize": 9, "volumeKmsKeyID": "k"}, "volumeKmsKeyID needs volumeEncrypted", {"volumeEncrypted": True}),
    ({"availabilityZones": ["a"], "subnets": ["b"]}, "only one of availabilityZones and subnets", {"subnets": []}),
    ({"efaEnabled": True, "subnets": ["a", "b"]}, "efaEnabled needs a single entry in subnets", {"subnets": ["a"]}),
    (
        {"disablePodIMDS": True, "iam": {"withAddonPolicies": {"ebs": True}}},
        "only one of disablePodIMDS and iam.withAddonPolicies",
        {"iam": {"withAddonPolicies": {"ebs": False}}},
    ),
    ({"placement": {"spreadLevel": "rack"}}, "placement needs groupName", {"placement": {"groupName": "a"}}),
    ({"maxPodsPerNode": -1}, "maxPodsPerNode must be 0 or more, got -1", {"maxPodsPerNode": 0}),
    ({"ssh": {"enableSSM": False}}, "ssh.enableSSM can't be false", {"ssh": {"enableSSM": True}}),
    (
        {"capacityReservation": {**RESERVATION, "capacityReservationPreference": "open"}},
        "only one of capacityReservation.capacityReservationPreference and",
        {"capacityReservation": RESERVATION},
    ),
    (
        {"capacityReservation": {"capacityReservationPreference": "capacity-reservations-only"}},
        "capacityReservationPreference must be open or none",
        {"capacityReservation": {"capacityReservationPreference": "none"}},
    ),
    ({"instanceMarketOptions": BLOCK}, "needs capacityReservation", {"capacityReservation": RESERVATION}),
    (
        {"instanceMarketOptions": {"marketType": "spot"}, "capacityReservation": RESERVATION},
        "marketType must be capacity-block, got 'spot'",
        {"instanceMarketOptions": BLOCK},
    ),
    (
        {"amiFamily": "Bottlerocket", "preBootstrapCommands": ["true"]},
        "Bottlerocket doesn't support preBootstrapCommands",
        {"amiFamily": "AmazonLinux2023"},
    ),
    (
        {"amiFamily": "Ubuntu2004", "instanceType": "g5.xlarge"},
        "images of Ubuntu2004 for Kubernetes 1.21 to 1.29, got '1.35'",
        {"amiFamily": "Ubuntu2204"},
    ),
    ({"taints": [{"key": "a", "effect": "NO_SCHEDULE"}]}, "did you mean 'NoSchedule'", {"taints": []}),
    (
        {"taints": [{"effect": "NoSchedule"}]},
        "taint key must be set",
        {"taints": [{"key": "a", "effect": "NoSchedule"}]},
    ),
    ({"name": ""}, "name must be set", {"name": "a"}),
]
OF_MANAGED = [
    ({"ami": "auto", "amiFamily": "AmazonLinux2023"}, "ami must be the id of an image, got 'auto'", {"ami": IMAGE}),
    ({"ami": IMAGE}, "ami needs amiFamily", {"amiFamily": "AmazonLinux2023"}),
    (
        {"ami": IMAGE, "amiFamily": "Ubuntu2404"},
        "Ubuntu2404 needs overrideBootstrapCommand",
        {"amiFamily": "Bottlerocket"},
    ),
    (
        {"ami": IMAGE, "amiFamily": "AmazonLinux2023", "maxPodsPerNode": 9},
        "maxPodsPerNode can't be set next to ami",
        {"maxPodsPerNode": 0},
    ),
    ({"amiFamily": "AmazonLinux2", "overrideBootstrapCommand": SCRIPT}, "needs ami", {"ami": IMAGE}),
    (
        {"instanceType": "g5.xlarge", "instanceTypes": ["g5.xlarge"]},
        "only one of instanceType and",
        {"instanceTypes": []},
    ),
    ({"instanceType": "g5.xlarge", "instanceSelector": {"gpus": 1}}, "and instanceSelector", {"instanceSelector": {}}),
    ({"launchTemplate": {"version": "1"}}, "launchTemplate.id must be set", {"launchTemplate": TEMPLATE}),
    (
        {"launchTemplate": {**TEMPLATE, "version": "$Latest"}},
        r"launchTemplate.version must be a number from 1 on, got '\$Latest'",
        {"launchTemplate": {**TEMPLATE, "version": "10"}},
    ),
    ({"launchTemplate": TEMPLATE, "instanceType": "g5.xlarge"}, "instanceType can't be set", {"instanceType": ""}),
    ({"launchTemplate": TEMPLATE, "volumeSize": 9}, "volumeSize can't be set", {"launchTemplate": None}),
    (
        {"launchTemplate": TEMPLATE, "volumeEncrypted": True},
        "volumeEncrypted needs volumeSize",
        {"launchTemplate": None},
    ),
    ({"launchTemplate": TEMPLATE, "disableIMDSv1": False}, "disableIMDSv1 can't be set", {"disableIMDSv1": True}),
    ({"securityGroups": {"withShared": True}}, "don't support securityGroups.withShared", {"securityGroups": {}}),
    ({"iam": {"instanceProfileARN": "a"}}, "don't support iam.instanceProfileARN", {"iam": {"instanceRoleARN": "a"}}),
    (
        {"iam": {"instanceRoleARN": "a", "withAddonPolicies": {"autoScaler": True}}},
        "only one of iam.instanceRoleARN and iam.withAddonPolicies",
        {"iam": {"withAddonPolicies": {"autoScaler": True}}},
    ),
    (
        {"updateConfig": {"maxUnavailable": 1, "maxUnavailablePercentage": 9}},
        "only one of updateConfig",
        {"updateConfig": {}},
    ),
    (
        {"amiFamily": "Bottlerocket", "bottlerocket": {"settings": {"kubernetes": {"node-labels": {"a": "b"}}}}},
        "node-labels can't be set; use labels",
        {"bottlerocket": {"settings": {"kubernetes": {"max-pods": 9}}}},
    ),
    (
        {
            "instanceTypes": ["p5.48xlarge", "p5e.48xlarge"],
            "instanceMarketOptions": BLOCK,
            "capacityReservation": RESERVATION,
        },
        "Capacity Block must have one instance type",
        {"instanceTypes": ["p5.48xlarge"]},
    ),
]
OF_SELF_MANAGED = [
    ({"name": "gpu_nodes"}, "name must have letters, digits and hyphens only, got 'gpu_nodes'", {"name": "gpu-nodes"}),
    ({"ami": "auto"}, "ami needs amiFamily", {"amiFamily": "AmazonLinux2023"}),
    ({"ami": "static", "amiFamily": "AmazonLinux2023"}, "auto or auto-ssm, got 'static'", {"ami": "auto"}),
    ({"ami": "auto", "amiFamily": "Bottlerocket"}, "use auto-ssm", {"ami": "auto-ssm"}),
    ({"ami": IMAGE, "amiFamily": "Ubuntu2404"}, "needs overrideBootstrapCommand", {"overrideBootstrapCommand": SCRIPT}),
    ({"volumeEncrypted": True}, "volumeEncrypted needs volumeSize", {"volumeSize": 9}),
    (
        {"bottlerocket": {"enableAdminContainer": True}},
        "bottlerocket needs amiFamily",
        {"amiFamily": "BottlerocketFips"},
    ),
    (
        {"amiFamily": "Bottlerocket", "kubeletExtraConfig": {"maxPods": 9}},
        "Bottlerocket doesn't support kubeletExtraConfig",
        {"amiFamily": ""},
    ),
    ({"kubeletExtraConfig": {"authentication": {"a": 1}}}, "can't be set", {"kubeletExtraConfig": {"maxPods": 9}}),
    (
        {"amiFamily": "Bottlerocket", "bottlerocket": {"settings": {"kubernetes": {"max-pods": 9}}}},
        "max-pods can't be set; use maxPodsPerNode",
        {"bottlerocket": {}},
    ),
    (
        {"ssh": {"publicKeyName": "a", "publicKeyPath": "b"}},
        "only one of ssh.publicKeyName",
        {"ssh": {"publicKeyName": "a"}},
    ),
    (
        {"instanceType": "g5.xlarge", "instancesDistribution": {"instanceTypes": ["g5.xlarge"]}},
        "instanceType must be left out next to instancesDistribution",
        {"instanceType": "mixed"},
    ),
    (
        {"instancesDistribution": {"onDemandBaseCapacity": 1}},
        "instancesDistribution.instanceTypes must be set",
        {"instanceSelector": {"gpus": 1}},
    ),
    (
        {"instancesDistribution": {"instanceTypes": [f"g5.{each}xlarge" for each in range(21)]}},
        "must have at most 20 types",
        {"instancesDistribution": {"instanceTypes": [f"g5.{each}xlarge" for each in range(20)]}},
    ),
    (
        {"instancesDistribution": {"instanceTypes": ["g5.xlarge"], "onDemandPercentageAboveBaseCapacity": 101}},
        "must be 0 to 100, got 101",
        {"instancesDistribution": {"instanceTypes": ["g5.xlarge"], "onDemandPercentageAboveBaseCapacity": 100}},
    ),
    (
        {
            "instancesDistribution": {
                "instanceTypes": ["g5.xlarge"],
                "spotInstancePools": 2,
                "spotAllocationStrategy": "capacity-optimized",
            }
        },
        "spotInstancePools can't be set next to instancesDistribution.spotAllocationStrategy capacity-optimized",
        {"instancesDistribution": {"instanceTypes": ["g5.xlarge"], "spotInstancePools": 2}},
    ),
    ({"asgSuspendProcesses": ["Rebalance"]}, "asgSuspendProcesses must be from", {"asgSuspendProcesses": ["Launch"]}),
    ({"maxInstanceLifetime": 86399}, "maxInstanceLifetime must be 86400 or more", {"maxInstanceLifetime": 86400}),
    ({"containerRuntime": "dockerd"}, "containerRuntime must be containerd", {"containerRuntime": "containerd"}),
    ({"cpuCredits": "unlimited", "instanceType": "g5.xlarge"}, "cpuCredits needs", {"instanceType": "t3.large"}),
]
TABLE = [
    (kind, fields, text, accepted)
    for kinds, rows in (((MANAGED, SELF_MANAGED), EVERY), ((MANAGED,), OF_MANAGED), ((SELF_MANAGED,), OF_SELF_MANAGED))
    for kind in kinds
    for fields, text, accepted in rows
]
IDS = [f"{kind} {text}" for kind, _, text, _ in TABLE]


@pytest.mark.parametrize(("kind", "fields", "text", "accepted"), TABLE, ids=IDS)
def test_eksctl_rejects_a_group(kind: str, fields: dict[str, Any], text: str, accepted: dict[str, Any]) -> None:
    [rejected] = found(kind, fields)

    assert not rejected.unknown
    assert rejected.text.startswith(kind)
    assert re.search(text, rejected.text)
    assert found(kind, {**fields, **accepted}) == []


@pytest.mark.parametrize(
    ("kind", "group", "parts", "unknown"),
    [
        (MANAGED, {"ami": LATER, "amiFamily": "AmazonLinux2023"}, {}, [True]),
        (MANAGED, {"ami": "auto", "amiFamily": "AmazonLinux2023", "maxPodsPerNode": LATER}, {}, [True, False, True]),
        (MANAGED, {"launchTemplate": {**TEMPLATE, "version": LATER}}, {}, [True]),
        (MANAGED, {"ami": LATER, "amiFamily": "AmazonLinux2023", "launchTemplate": TEMPLATE}, {}, [True]),
        (MANAGED, {"taints": [{"key": "a", "effect": LATER}]}, {}, [True]),
        (MANAGED, {"taints": LATER}, {}, [True]),
        (MANAGED, {"taints": [LATER, {"key": "a", "effect": "NoSchedule"}]}, {}, [True]),
        (MANAGED, {}, {SELF_MANAGED: [LATER]}, [True]),
        (MANAGED, {}, {SELF_MANAGED: LATER}, [True]),
        (MANAGED, {"efaEnabled": LATER, "subnets": ["a"]}, {}, []),
        (MANAGED, {"volumeEncrypted": LATER, "volumeSize": 9}, {}, []),
        (MANAGED, {"instanceType": LATER, "minSize": LATER, "labels": LATER, "desiredCapacity": LATER}, {}, []),
        (MANAGED, {"iam": {"withAddonPolicies": LATER}, "disablePodIMDS": True}, {}, [True]),
        (MANAGED, {"instanceTypes": [LATER, LATER]}, {}, []),
        (MANAGED, {}, {"privateCluster": {"enabled": LATER}}, [True]),
        (MANAGED, {}, {"autoModeConfig": {"enabled": True}}, [True]),
        (MANAGED, {}, {"autoModeConfig": {"enabled": False}}, []),
        (SELF_MANAGED, {"ami": LATER, "amiFamily": "Bottlerocket"}, {}, [True]),
        (SELF_MANAGED, {"maxInstanceLifetime": LATER}, {}, [True]),
        (SELF_MANAGED, {"amiFamily": "Ubuntu2004", "instanceType": "m5.large"}, {}, [True]),
        (SELF_MANAGED, {"amiFamily": "Ubuntu2004", "instanceType": LATER}, {}, [True]),
    ],
)
def test_what_only_deployment_knows_may_be_rejected(
    kind: str, group: dict[str, Any], parts: dict[str, Any], unknown: list[bool]
) -> None:
    assert [each.unknown for each in found(kind, group, **parts)] == unknown


@pytest.mark.parametrize("kind", [MANAGED, SELF_MANAGED])
@pytest.mark.parametrize(
    ("command", "unknown"),
    [
        (SCRIPT, [False]),
        (f"{SCRIPT}echo ${{NAME}}\n", [False]),
        ("spec: text", [False]),
        ("kind: NodeConfig: spec", [False]),
        ("${COMMAND}", [True]),
        (NODE_CONFIG, []),
        (NODE_CONFIG.replace("29", "${MAX_PODS}"), []),
        ("# nothing\n", []),
        ("", []),
    ],
)
def test_a_bootstrap_command_of_al2023_is_a_node_config(kind: str, command: str, unknown: list[bool]) -> None:
    rejected = found(kind, {"ami": IMAGE, "amiFamily": "AmazonLinux2023", "overrideBootstrapCommand": command})

    assert [each.unknown for each in rejected] == unknown
    # The other groups are created.
    assert {each.group for each in rejected} <= {"gpu0"}


@pytest.mark.parametrize(
    ("family", "version", "rejects"),
    [
        ("Ubuntu2004", "1.20", True),
        ("Ubuntu2004", "1.21", False),
        ("Ubuntu2004", "1.29", False),
        ("Ubuntu2004", "1.30", True),
        ("UbuntuPro2004", "1.26", True),
        ("ubuntu2404", "1.30", True),
        ("Ubuntu2404", "1.31", False),
        ("Ubuntu2604", "1.34", True),
        ("UbuntuPro2604", "1.35", False),
        ("Ubuntu2404", None, False),
        ("Ubuntu2004", None, None),
        ("Ubuntu2004", "latest", None),
        ("Ubuntu2204", LATER, None),
    ],
)
def test_versions_of_ubuntu(family: str, version: Any, rejects: bool | None) -> None:
    metadata = {"name": "demo", "region": "us-west-2", "version": version}

    rejected = found(MANAGED, {"amiFamily": family, "instanceType": "g5.xlarge"}, metadata=metadata)

    assert [each.unknown for each in rejected] == {True: [False], None: [True], False: []}[rejects]


ACCOUNT = {"metadata": {"name": "a"}, "attachRoleARN": "arn:aws:iam::111122223333:role/a"}


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({"karpenter": {"version": "1.8.1"}}, "karpenter needs iam.withOIDC: true"),
        ({"karpenter": {"createServiceAccount": True}, "iam": {"withOIDC": True}}, "karpenter.version must be set"),
        ({"iam": {"serviceAccounts": [ACCOUNT]}}, "iam.serviceAccounts needs iam.withOIDC: true"),
        ({"karpenter": {"version": "1.8.1"}, "iam": {"withOIDC": True}}, None),
        ({"iam": {"serviceAccounts": [ACCOUNT], "withOIDC": True}}, None),
        ({"metadata": {"name": "demo"}}, "metadata.region must be set"),
        ({"secretsEncryption": {"a": 1}}, "secretsEncryption needs keyARN"),
        ({"availabilityZones": ["us-west-2a", "us-west-2b"]}, None),
        ({"availabilityZones": ["us-west-2a"]}, "availabilityZones must have at least 2 zones, got ['us-west-2a']"),
        ({"vpc": {"cidr": "10.0.0.0/16"}}, None),
        ({"vpc": {"cidr": "10.0.0.0/24"}}, None),
        ({"vpc": {"cidr": "10.0.0.0/25"}}, "vpc.cidr must have a prefix of /16 to /24, got 10.0.0.0/25"),
        ({"vpc": {"cidr": "10.0.0.0/15"}}, "vpc.cidr must have a prefix of /16 to /24, got 10.0.0.0/15"),
        ({"vpc": {"nat": {"gateway": "None"}, "id": "vpc-0123456789abcdef0"}}, None),
        (
            {"vpc": {"nat": {"gateway": "None"}}},
            "vpc.nat.gateway must be one of HighlyAvailable, Single, Disable, got 'None'",
        ),
        ({"kubernetesNetworkConfig": {"ipFamily": "ipv4"}}, None),
        ({"fargateProfiles": [{"name": "a", "selectors": [{"namespace": "b"}]}]}, None),
        ({"fargateProfiles": [{"name": "a"}]}, "fargateProfiles[0]: selectors must be set"),
        ({"accessConfig": {"authenticationMode": "API"}}, None),
    ],
)
def test_parts_beyond_groups(parts: dict[str, Any], text: str | None) -> None:
    assert [each.text for each in found(MANAGED, {}, **parts)] == ([text] if text else [])


def test_names_are_unique_among_all_groups() -> None:
    config = {"name": "a"}

    assert [each.text for each in found(MANAGED, config, **{SELF_MANAGED: [config]})] == [
        "2 groups have the name a, which must be unique"
    ]
    assert found(MANAGED, config, **{SELF_MANAGED: [{"name": "b"}]}) == []


def test_a_fully_private_cluster_has_private_groups() -> None:
    parts = {"privateCluster": {"enabled": True}}

    assert len(found(MANAGED, {}, **parts)) == 1
    assert found(MANAGED, {"privateNetworking": True}, **parts) == []


def test_an_ipv6_cluster_has_no_self_managed_group() -> None:
    parts = {"kubernetesNetworkConfig": {"ipFamily": "IPv6"}}

    assert [each.group for each in found(SELF_MANAGED, {}, **parts)] == ["gpu0"]
    assert found(MANAGED, {}, **parts) == []
