"""The settings of an instance are read from user data as its image reads them."""

from __future__ import annotations

import pytest
import yaml

from gpu_rehearsal.cluster.bootstrap import NeverJoins, read_user_data
from tests.merged_user_data import MERGED, Merged
from tests.rehearsal.cluster.cloud import CLUSTER, encoded, multipart, node_config

TAINT = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}
SETTINGS = """
[settings.kubernetes]
cluster-name = "training"
api-server = "https://api"
cluster-certificate = "Y2E="
max-pods = 29
[settings.kubernetes.node-labels]
team = "vision"
[settings.kubernetes.node-taints]
"nvidia.com/gpu" = ["true:NoSchedule"]
[settings.kubelet-device-plugins.nvidia]
device-sharing-strategy = "time-slicing"
[settings.bootstrap-commands.disks]
commands = [["apiclient", "ephemeral-storage", "init"]]
"""


def part(**spec: object) -> str:
    return yaml.safe_dump({"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec})


def test_a_node_config_has_cluster_labels_and_taints() -> None:
    flags = ["--node-labels=team=vision,pool=gpu", "--register-with-taints=nvidia.com/gpu=true:NoSchedule"]

    bootstrap = read_user_data(encoded(node_config(flags=flags, config={"maxPods": 29})))

    assert (bootstrap.cluster, bootstrap.endpoint, bootstrap.certificate_authority) == (
        "training",
        "https://api",
        "Y2E=",
    )
    assert (bootstrap.labels, bootstrap.taints) == ({"team": "vision", "pool": "gpu"}, (TAINT,))
    assert bootstrap.kubelet["maxPods"] == 29


def test_taints_of_the_configuration_count_without_a_flag() -> None:
    bootstrap = read_user_data(encoded(node_config(config={"registerWithTaints": [TAINT]})))

    assert bootstrap.taints == (TAINT,)


def test_parts_are_merged_and_flags_follow_each_other() -> None:
    cluster = {"name": "training", "apiServerEndpoint": "https://api", "certificateAuthority": "Y2E=", "cidr": "10/16"}
    first = part(kubelet={"flags": ["--node-labels=a=1"]}, instance={"localStorage": {"strategy": "RAID0"}})

    bootstrap = read_user_data(
        encoded(multipart(first, part(cluster=cluster, kubelet={"flags": ["--node-labels=a=2,b=3"]})))
    )

    assert bootstrap.labels == {"a": "2", "b": "3"}
    assert bootstrap.local_disks == "RAID0"


@pytest.mark.parametrize("merged", MERGED.values(), ids=MERGED)
def test_several_node_configs_make_one(merged: Merged) -> None:
    cluster = {"name": CLUSTER, "apiServerEndpoint": "https://api", "certificateAuthority": "Y2E=", "cidr": "10/16"}

    bootstrap = read_user_data(
        encoded(multipart(part(cluster=cluster), *(part(kubelet=each) for each in merged.kubelet)))
    )

    assert bootstrap.labels == merged.labels
    assert tuple((each["key"], each["effect"]) for each in bootstrap.taints) == merged.taints
    assert bootstrap.kubelet.get("maxPods") == merged.max_pods


def test_nodeadm_ignores_fields_that_it_does_not_know() -> None:
    bootstrap = read_user_data(
        encoded(node_config(config={"maxPods": 29, "imageGCHighThresholdPercent": 80}, flagz=["--v=2"]))
    )

    assert bootstrap.kubelet["maxPods"] == 29


def test_settings_of_bottlerocket() -> None:
    bootstrap = read_user_data(encoded(SETTINGS), is_bottlerocket=True)

    assert (bootstrap.cluster, bootstrap.labels, bootstrap.taints) == ("training", {"team": "vision"}, (TAINT,))
    assert bootstrap.kubelet["maxPods"] == 29
    assert bootstrap.kubelet["kubelet-device-plugins"] == {"device-sharing-strategy": "time-slicing"}
    assert (bootstrap.local_disks, bootstrap.data_volume) == ("RAID0", "/dev/xvdb")


@pytest.mark.parametrize(
    ("user_data", "reason"),
    [
        ("", "no user data"),
        ("#!/bin/bash\n/etc/eks/bootstrap.sh training\n", r"no NodeConfig with spec\.cluster\.name"),
        (multipart(part(instance={})), r"spec\.cluster\.name"),
        (multipart(part(cluster={"name": "training"})), r"spec\.cluster\.apiServerEndpoint"),
        (multipart("kind: NodeConfig\n"), "must be a NodeConfig of node.eks.aws/v1alpha1"),
        (multipart("{"), "nodeadm can't parse its NodeConfig"),
        ("Content-Type: multipart/mixed\n\n", "isn't MIME multipart"),
        (SETTINGS, "nodeadm can't parse its NodeConfig|must be a NodeConfig"),
        (
            multipart(part(instance={"localStorage": {"strategy": "RAID9"}})),
            r"spec\.instance\.localStorage\.strategy .*RAID9",
        ),
        (node_config(flags="--v=2"), r"spec\.kubelet\.flags must be of type array"),
        (node_config(flags=[2]), r"spec\.kubelet\.flags\[0\] must be of type string, got 2"),
        (
            multipart(part(featureGates={"FastImagePull": "true"})),
            r"spec\.featureGates\.FastImagePull must be of type bool",
        ),
        (node_config(flags=["--register-with-taints=gpu=true"]), "isn't a taint"),
        (node_config(flags=["--register-with-taints=gpu:Never"]), "isn't a taint"),
    ],
)
def test_some_user_data_makes_no_node(user_data: str, reason: str) -> None:
    with pytest.raises(NeverJoins, match=reason):
        read_user_data(encoded(user_data))


def test_user_data_that_is_no_base64_makes_no_node() -> None:
    with pytest.raises(NeverJoins, match="isn't text in base64"):
        read_user_data("%%")


@pytest.mark.parametrize(
    ("user_data", "reason"),
    [
        ("[settings.kubernetes]\ncluster-name = training", "can't parse its TOML"),
        ('[settings.kubernetes]\ncluster-name = "a"', r"settings\.kubernetes\.api-server"),
        (node_config(), "can't parse its TOML"),
    ],
)
def test_some_settings_make_no_node(user_data: str, reason: str) -> None:
    with pytest.raises(NeverJoins, match=reason):
        read_user_data(encoded(user_data), is_bottlerocket=True)
