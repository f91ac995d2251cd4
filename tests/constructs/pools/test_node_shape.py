"""NodeShape describes nodes that boot with a working GPU, and refuses the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_constructs import Disk, NodeShape, Taint
from gpu_constructs.pools import GPU_TAINT, Kubelet
from gpu_facts.hardware import instance_type

TEAM = Taint(key="team", value="a")


def shape(**changes: Any) -> NodeShape:
    """A valid shape, with ``changes`` applied."""
    return NodeShape(**{"instance_types": ("g6.xlarge",)} | changes)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"instance_types": ()}, ValueError, r"instance_types must name at least one type, got none"),
        (
            {"instance_types": "g6.xlarge"},
            TypeError,
            r"must be a list of names, got 'g6.xlarge'; write \['g6.xlarge'\]",
        ),
        ({"instance_types": 7}, TypeError, r"must be a list of names, got 7"),
        ({"instance_types": ("g6.xlage",)}, ValueError, r"'g6.xlage' is unknown; did you mean 'g6.xlarge'\?"),
        ({"instance_types": ("g6.xlarge", "g6.xlarge")}, ValueError, r"instance_types must differ"),
        (
            {"instance_types": ("g5.xlarge", "g5g.xlarge")},
            ValueError,
            r"one CPU architecture, got g5.xlarge \(x86_64\), g5g.xlarge \(arm64\); make one pool per architecture",
        ),
        (
            {"instance_types": ("p6e-gb200.36xlarge",), "operating_system": "bottlerocket"},
            ValueError,
            "'p6e-gb200.36xlarge' must run al2023, got 'bottlerocket'; use al2023, because no Bottlerocket image "
            "boots it",
        ),
        ({"operating_system": "al2"}, ValueError, r"must be one of al2023, bottlerocket, got 'al2'; .*2025-11-26"),
        ({"operating_system": "bottlerockt"}, ValueError, r"did you mean 'bottlerocket'\?"),
        (
            {"labels": {"kubernetes.io/os": "x"}},
            ValueError,
            r"must not set 'kubernetes.io/os'.*use a domain of your own",
        ),
        ({"labels": {"eks.amazonaws.com/x": "x"}}, ValueError, r"must not set 'eks.amazonaws.com/x'"),
        ({"labels": {"nvidia.com/gpu.present": "x"}}, ValueError, "every GPU node has it"),
        ({"labels": {"gpu-constructs.io/pool": "x"}}, ValueError, "every GPU node has it"),
        ({"labels": {"-team": "x"}}, ValueError, r"qualified names as keys, got '-team'"),
        ({"labels": {"team": "a b"}}, ValueError, r"label 'team' must be .*got 'a b'"),
        ({"labels": [("team", "a")]}, TypeError, r"labels must map keys to values"),
        ({"taints": ({"key": "a"},)}, TypeError, r"taints must be a list of Taint"),
        ({"taints": (TEAM, TEAM)}, ValueError, r"taints must differ in key or effect"),
        ({"efa": True}, ValueError, "efa must be False for 'g6.xlarge', which supports no EFA interface, got True"),
        (
            {"efa": True, "instance_types": ("p6e-gb200.36xlarge",)},
            ValueError,
            r"because no two sources state the same interfaces",
        ),
        (
            {"efa": True, "instance_types": ("p5.48xlarge", "p5e.48xlarge")},
            ValueError,
            "efa must have one instance type, got p5.48xlarge, p5e.48xlarge; make one pool per type, because network "
            "cards",
        ),
        ({"efa": "yes"}, TypeError, r"efa must be a bool"),
        ({"placement_group": 1}, TypeError, r"placement_group must be a str"),
        ({"disk": 100}, TypeError, r"disk must be a Disk, got 100; write Disk\(size_gib=200\)"),
        ({"sharing": "none"}, TypeError, r"sharing must be Exclusive"),
        ({"raid0": "yes"}, TypeError, r"raid0 must be a bool"),
        ({"raid0": None}, TypeError, r"raid0 must be a bool, got None; write True"),
        ({"soci": 1}, TypeError, r"soci must be a bool"),
        ({"kubelet": {}}, TypeError, r"kubelet must be a Kubelet, got {}; write Kubelet\(max_pods=50\)"),
        ({"image": "ami-1"}, TypeError, r"image must be a CustomImage, got 'ami-1'; write CustomImage\(id="),
        ({"instance_types": (7,)}, TypeError, "instance_types must contain EC2 names such as 'g6.xlarge', got 7"),
    ],
)
def test_refuses(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        shape(**changes)


def test_a_type_whose_last_driver_is_todays_is_accepted_and_ageing() -> None:
    assert shape(instance_types=("p3dn.24xlarge", "p4d.24xlarge")).ageing == ("p3dn.24xlarge",)


def test_a_type_that_needs_an_older_driver_is_refused() -> None:
    old = replace(instance_type("g6.xlarge"), name="g1.xlarge", driver_max=570)

    with pytest.raises(ValueError, match="driver 570 or older"):
        shape(instance_types=(old,))


def test_a_type_of_the_users_own_row_is_accepted_with_names() -> None:
    new = replace(instance_type("g6.xlarge"), name="g9.xlarge")

    assert shape(instance_types=[new, "g6.xlarge"]).names == ("g9.xlarge", "g6.xlarge")


def test_a_row_of_ones_own_survives_a_change_of_the_shape() -> None:
    new = replace(instance_type("g6.xlarge"), name="g9.xlarge")

    changed = replace(shape(instance_types=(new,)), raid0=False)

    assert changed.instance_types == changed.rows == (new,)
    assert changed == shape(instance_types=(new,), raid0=False)


def test_names_become_rows_of_the_catalogue() -> None:
    assert shape().instance_types == (instance_type("g6.xlarge"),)


def test_equal_shapes_are_one_key() -> None:
    says: dict[str, Any] = {"labels": {"team": "a"}, "tags": {"cost": "b"}, "kubelet": Kubelet(max_pods=20)}

    assert len({shape(**says), shape(**says), shape()}) == 2


def test_what_is_optional_may_be_none() -> None:
    assert shape(placement_group=None, image=None, purpose=None) == shape()


def test_labels_on_al2023_let_the_plugin_and_nvidias_charts_find_the_node() -> None:
    assert shape(labels={"team": "a"}).node_labels("l4") == {
        "gpu-constructs.io/pool": "l4",
        "gpu-constructs.io/device-manager": "device-plugin",
        "k8s.amazonaws.com/accelerator": "nvidia-l4",
        "nvidia.com/gpu.present": "true",
        "team": "a",
    }


def test_labels_on_bottlerocket_keep_every_second_plugin_away() -> None:
    labels = shape(operating_system="bottlerocket").node_labels("l4")

    assert labels["gpu-constructs.io/device-manager"] == "bottlerocket"
    assert "nvidia.com/gpu.present" not in labels


def test_nodes_with_efa_say_so_to_plugin_and_autoscaler() -> None:
    made = shape(instance_types=("p5.48xlarge",), efa=True)

    assert made.node_labels("h100")["gpu-constructs.io/efa"] == "true"
    assert made.resources()["vpc.amazonaws.com/efa"] == "32"
    assert made.resources()["hugepages-2Mi"] == "10256Mi"
    assert shape(instance_types=("p5.48xlarge",)).resources().keys() == {"nvidia.com/gpu", "ephemeral-storage"}


def test_different_gpus_share_a_label_that_says_so() -> None:
    assert shape(instance_types=("g6.xlarge", "g5.xlarge")).accelerator_label == "nvidia-mixed"


@pytest.mark.parametrize(
    ("changes", "gib"),
    [
        ({}, 208),  # 250 GB of NVMe are 232 GiB
        ({"raid0": False}, 89),
        ({"instance_types": ("g5g.xlarge",)}, 89),
        ({"instance_types": ("g5g.xlarge",), "disk": Disk(size_gib=21)}, 18),
        ({"instance_types": ("g6.2xlarge", "g6.xlarge")}, 208),
    ],
)
def test_pods_can_use_what_kubelet_leaves_of_the_smallest_disk(changes: dict[str, Any], gib: int) -> None:
    assert shape(**changes).ephemeral_storage_gib == gib


def test_bottlerocket_keeps_images_on_its_second_volume() -> None:
    volumes = shape(operating_system="bottlerocket", disk=Disk(size_gib=300)).volumes

    assert [(each.device, each.size_gib) for each in volumes] == [("/dev/xvda", 4), ("/dev/xvdb", 300)]


def test_taints_are_added_to_the_one_of_every_gpu_node() -> None:
    assert shape().node_taints == (GPU_TAINT,)
    assert shape(taints=(TEAM,)).node_taints == (GPU_TAINT, TEAM)


def test_a_pool_without_the_gpu_taint_is_said_so() -> None:
    assert shape(gpu_taint=False).node_taints == ()
    assert shape(gpu_taint=False, taints=(TEAM,)).node_taints == (TEAM,)


def test_kubelets_own_label_prefixes_are_allowed() -> None:
    assert shape(labels={"node.kubernetes.io/team": "a"}).labels["node.kubernetes.io/team"] == "a"


def test_labels_cannot_be_changed_afterwards() -> None:
    labels = {"team": "a"}
    made = shape(labels=labels)
    labels["team"] = "b"

    assert made.labels["team"] == "a"


def test_a_taint_per_effect_is_allowed() -> None:
    evicts = Taint(key=GPU_TAINT.key, value="true", effect="NoExecute")

    assert shape(taints=(evicts,)).node_taints == (GPU_TAINT, evicts)
