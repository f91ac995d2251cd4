"""A host's settings are in the one user data document that a node reads."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import aws_cdk as cdk
import pytest
import tomli
import yaml
from aws_cdk import aws_eks_v2 as eks
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import ManagedNodeGroup, Mig, NodeShape
from gpu_constructs.nodes.user_data import MAX_BYTES, joined, joining_user_data, node_class_user_data, user_data
from gpu_constructs.pools import BottlerocketSettings, Host, Kubelet, NodeConfig, ShellScript
from tests.templates import only, resources_of, text_of
from tests.user_data import membership, parts_of

CONFIG = NodeConfig(spec={"kubelet": {"config": {"shutdownGracePeriod": "60s"}, "flags": ["--v=2"]}})
FIRST, SECOND = (ShellScript(text=f"#!/bin/bash\necho {number}\n") for number in (1, 2))
SETTINGS = BottlerocketSettings(settings={"motd": "GPU node", "kubernetes": {"shutdown-grace-period": "60s"}})

Render = Callable[[NodeShape], str | None]


def joining(shape: NodeShape) -> str:
    return joining_user_data(shape, "l4", membership("demo"))


RENDERS = pytest.mark.parametrize("render", [user_data, joining, node_class_user_data])


def shape(*parts: Any, **changes: Any) -> NodeShape:
    says: dict[str, Any] = {"instance_types": ("p5.48xlarge",), "kubelet": Kubelet(max_pods=58), "raid0": False}
    return NodeShape(**says | {"host": Host(user_data=parts)} | changes)


def config_of(text: str | None) -> dict[str, Any]:
    [config] = [yaml.safe_load(part) for kind, part in parts_of(text) if kind == "application/node.eks.aws"]
    spec: dict[str, Any] = config["spec"]
    return spec


@RENDERS
def test_a_node_config_is_merged_into_ours(render: Render) -> None:
    spec = config_of(render(shape(CONFIG)))

    assert spec["kubelet"]["config"]["shutdownGracePeriod"] == "60s"
    assert spec["kubelet"]["flags"][-1] == "--v=2"


def test_labels_and_pods_of_the_shape_stay() -> None:
    kubelet = config_of(joining(shape(CONFIG)))["kubelet"]

    assert kubelet["config"] == {"maxPods": 58, "shutdownGracePeriod": "60s"}
    assert [flag.partition("=")[0] for flag in kubelet["flags"]] == ["--node-labels", "--register-with-taints", "--v"]


@RENDERS
def test_scripts_run_in_their_order_after_ours(render: Render) -> None:
    text = render(shape(FIRST, CONFIG, SECOND, sharing=Mig(geometry={"1g.10gb": 7})))

    kinds = [kind for kind, _ in parts_of(text)]
    scripts = [part for kind, part in parts_of(text) if kind == "text/x-shellscript"]
    assert kinds == ["application/node.eks.aws", *["text/x-shellscript"] * 3]
    assert "nvidia-smi" in scripts[0]
    assert scripts[1:] == [FIRST.text, SECOND.text]


@RENDERS
def test_settings_are_merged_into_ours(render: Render) -> None:
    system: Any = {"operating_system": "bottlerocket"}
    text = render(shape(SETTINGS, efa=True, **system)) or ""

    settings = tomli.loads(text)["settings"]
    assert settings["motd"] == "GPU node"
    assert settings["kubernetes"]["shutdown-grace-period"] == "60s"
    assert settings["kernel"]["sysctl"]["vm.nr_hugepages"]
    # EKS' merger refuses a table header with quotes in it.
    assert [line for line in text.splitlines() if line.startswith("[") and '"' in line] == []


def test_a_managed_node_with_all_of_it(snapshot_text: SnapshotAssertion) -> None:
    assert user_data(shape(CONFIG, FIRST, SECOND)) == snapshot_text


@pytest.mark.parametrize(
    ("ours", "theirs", "both"),
    [
        ({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
        ({"a": [1]}, {"a": [2]}, {"a": [1, 2]}),
        ({"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": [1]}, {"a": 2}, {"a": 2}),
    ],
)
def test_documents_are_merged(ours: dict[str, Any], theirs: dict[str, Any], both: dict[str, Any]) -> None:
    before = repr(ours)

    assert joined(ours, theirs) == both
    assert repr(ours) == before


def filled(size: int) -> ShellScript:
    return ShellScript(text="#!/bin/bash\n#" + "x" * size)


def test_user_data_is_as_long_as_ec2_takes() -> None:
    rest = len((user_data(shape(filled(0))) or "").encode())

    assert len((user_data(shape(filled(MAX_BYTES - rest))) or "").encode()) == MAX_BYTES
    with pytest.raises(
        ValueError, match=r"host: user_data must have at most 16384 bytes .*own, got 16385; download long"
    ):
        user_data(shape(filled(MAX_BYTES - rest + 1)))


def test_what_only_deployment_tells_is_filled_in(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    script = ShellScript(text=f"#!/bin/bash\necho {cdk.Aws.REGION}\n")
    told = shape(script, instance_types=("g6.xlarge",))
    ManagedNodeGroup(stack, "Nodes", cluster=cluster, name="l4", shape=told, max_nodes=1)

    text = text_of(
        only(resources_of(stack), "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]["UserData"]["Fn::Base64"]
    )
    assert "echo ${AWS::Region}" in text


def test_what_synth_knows_is_written_out(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    ManagedNodeGroup(
        stack, "Nodes", cluster=cluster, name="l4", shape=shape(FIRST, instance_types=("g6.xlarge",)), max_nodes=1
    )

    text = only(resources_of(stack), "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]["UserData"]
    assert FIRST.text in base64.b64decode(text).decode()
