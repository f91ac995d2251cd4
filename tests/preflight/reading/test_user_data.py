"""The boot configuration of nodes."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import yaml

from gpu_preflight.model.taints import boot_taints
from gpu_preflight.node.devices import bottlerocket_offer, is_bottlerocket_plugin_disabled, plugin_offer
from gpu_preflight.reading.unknown import Unknown
from gpu_preflight.reading.user_data import NONE, read_user_data
from tests.merged_user_data import MERGED, Merged

NODE_CONFIG = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig"}
CONFIG = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n    flags: [--node-labels=a=b]\n"
MIME = (
    'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="x"\n\n'
    f"--x\nContent-Type: application/node.eks.aws\n\n{CONFIG}\n"
    "--x\nContent-Type: application/node.eks.aws\n\n"
    "apiVersion: node.eks.aws/v1alpha1\nspec: {kubelet: {config: {maxPods: 9}}}\n"
    '--x\nContent-Type: text/x-shellscript; charset="us-ascii"\n\n#!/bin/sh\necho hi\n--x--\n'
)


def test_parts_of_one_message_are_merged() -> None:
    found = read_user_data(MIME, encoded=False)

    assert found.format == "nodeadm"
    assert found.kubelet_flags == ("--node-labels=a=b",)
    assert found.kubelet_config == {"maxPods": 9}
    assert [each.strip() for each in found.scripts] == ["#!/bin/sh\necho hi"]


@pytest.mark.parametrize("merged", MERGED.values(), ids=MERGED)
def test_several_node_configs_make_one(merged: Merged) -> None:
    specs = [yaml.safe_dump({**NODE_CONFIG, "spec": {"kubelet": each}}) for each in merged.kubelet]
    parts = "".join(f"--x\nContent-Type: application/node.eks.aws\n\n{each}\n" for each in specs)

    found = read_user_data(f'Content-Type: multipart/mixed; boundary="x"\n\n{parts}--x--\n', encoded=False)

    assert found.node_labels == merged.labels
    assert tuple((each.key, each.effect) for each in boot_taints(found)) == merged.taints
    assert found.kubelet_config.get("maxPods") == merged.max_pods


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (CONFIG, "nodeadm"),
        ("#!/bin/sh\n", "script"),
        ("[settings.kubernetes]\nmax-pods = 3\n", "toml"),
        ("this is nothing", "unknown"),
        ("Content-Type: text/plain\n\nhi", "unknown"),
    ],
)
def test_formats(text: str, kind: str) -> None:
    encoded = base64.b64encode(text.encode()).decode()

    assert read_user_data(text, encoded=False).format == kind
    assert read_user_data(encoded).format == kind
    assert read_user_data({"Fn::Base64": text}).format == kind


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        (CONFIG, {"a": "b"}),
        (CONFIG.replace("--node-labels=a=b", "'--node-labels=a=b,c=,d'"), {"a": "b", "c": "", "d": ""}),
        (CONFIG.replace("--node-labels=a=b", "--max-pods=3"), {}),
        ('[settings.kubernetes.node-labels]\na = "b"\n', {"a": "b"}),
    ],
)
def test_labels_in_the_configuration_of_kubelet(text: str, labels: dict[str, str]) -> None:
    assert read_user_data(text, encoded=False).node_labels == labels


@pytest.mark.parametrize("value", [None, ""])
def test_none(value: Any) -> None:
    assert read_user_data(value) is NONE


def test_what_is_not_known_is_no_problem() -> None:
    found = read_user_data(Unknown("${Later}"))

    assert (found.format, found.text, found.problem) == ("unknown", None, None)


def test_what_is_no_base64_is_a_problem() -> None:
    assert read_user_data("not base64!").problem == "isn't base64"


def test_parts_that_are_not_known_leave_the_rest_readable() -> None:
    text = Unknown("[settings.kubernetes]\ncluster-name = '${S/Cluster}'\nmax-pods = 3\n")

    found = read_user_data({"Fn::Base64": text})

    assert found.settings["kubernetes"] == {"cluster-name": "${S/Cluster}", "max-pods": 3}


@pytest.mark.parametrize(
    ("config", "multiples", "alone"),
    [
        (None, {"nvidia.com/gpu": 1}, False),
        (
            {"sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}},
            {"nvidia.com/gpu": 4},
            False,
        ),
        (
            {
                "sharing": {
                    "timeSlicing": {"renameByDefault": True, "resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}
                }
            },
            {"nvidia.com/gpu.shared": 4},
            False,
        ),
        ({"sharing": {"mps": {"resources": [{"name": "nvidia.com/gpu", "replicas": 2}]}}}, {"nvidia.com/gpu": 2}, True),
    ],
)
def test_what_a_plugin_offers(config: Any, multiples: Any, alone: bool) -> None:
    offer = plugin_offer(config)

    assert (dict(offer.multiples), offer.alone, offer.known) == (multiples, alone, True)


@pytest.mark.parametrize(
    "config",
    [
        Unknown("${Later}"),
        {"flags": {"migStrategy": Unknown("${Later}")}},
        {"sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": Unknown("${Later}")}]}}},
    ],
)
def test_what_a_plugin_offers_may_not_be_known(config: Any) -> None:
    assert not plugin_offer(config).known


def test_bottlerocket_renames_shares_by_default() -> None:
    sharing = {"device-sharing-strategy": "time-slicing", "time-slicing": {"replicas": 3}}

    offer = bottlerocket_offer({"kubelet-device-plugins": {"nvidia": sharing}}, "g6")

    assert dict(offer.multiples) == {"nvidia.com/gpu.shared": 3}


def test_bottlerocket_offers_nothing_where_its_plugin_is_off() -> None:
    assert is_bottlerocket_plugin_disabled({"kubelet-device-plugins": {"nvidia": {"enabled": False}}})
