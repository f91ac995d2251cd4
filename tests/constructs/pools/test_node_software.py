"""Kubelet, SOCI, images and snapshots of a NodeShape: accepted where a node would use them, refused where not."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_constructs import Disk, NodeShape
from gpu_constructs.nodes.user_data import node_class_user_data, user_data
from gpu_constructs.pools import CustomImage, Kubelet

FAST = Disk(iops=16_000, throughput_mib_s=1_000)
SNAPSHOT = Disk(snapshot_id="snap-0123456789abcdef0", initialization_mib_s=300)


def shape(*names: str, **says: Any) -> NodeShape:
    return NodeShape(instance_types=names or ("g5g.2xlarge",), **says)


def test_kubelet_reports_its_configuration() -> None:
    kubelet = Kubelet(max_pods=50, kube_reserved={"cpu": "200m"}, system_reserved={"memory": "2Gi"})

    assert kubelet.config() == {
        "maxPods": 50,
        "kubeReserved": {"cpu": "200m"},
        "systemReserved": {"memory": "2Gi"},
    }
    assert Kubelet().config() == {}
    assert Kubelet(parallel_image_pulls=8).pulls() == {"maxParallelImagePulls": 8}


@pytest.mark.parametrize(
    ("names", "says", "least"),
    [
        ((), {}, 4),
        ((), {"operating_system": "bottlerocket"}, 3),
        ((), {"device_manager": "gpu-operator"}, 8),
        (("p5.48xlarge",), {"efa": True}, 5),
    ],
)
def test_a_node_takes_the_system_pods_and_one_more(names: tuple[str, ...], says: dict[str, Any], least: int) -> None:
    assert shape(*names, kubelet=Kubelet(max_pods=least), **says).kubelet.max_pods == least
    with pytest.raises(ValueError, match=rf"kubelet must have max_pods of at least {least}, got {least - 1}.*GPU120"):
        shape(*names, kubelet=Kubelet(max_pods=least - 1), **says)


def test_the_autoscaler_learns_of_the_number_of_pods() -> None:
    assert shape(kubelet=Kubelet(max_pods=50)).resources()["pods"] == "50"
    assert "pods" not in shape().resources()


@pytest.mark.parametrize(
    ("says", "error", "message"),
    [
        ({"max_pods": 0}, ValueError, r"kubelet: max_pods must be at least 1, got 0"),
        ({"parallel_image_pulls": 0}, ValueError, r"parallel_image_pulls must be at least 1, got 0"),
        ({"kube_reserved": {"gpu": "1"}}, ValueError, r"kube_reserved must be one of cpu, memory"),
        ({"kube_reserved": {"memory": "2 GB"}}, ValueError, "must be a quantity, got '2 GB'; write one such as '2Gi'"),
        ({"system_reserved": "2Gi"}, TypeError, r"system_reserved must map resources to quantities"),
    ],
)
def test_refuses_kubelet_settings(says: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Kubelet(**says)


def test_soci_takes_a_fast_volume_or_local_nvme() -> None:
    assert shape("g6.xlarge", soci=True).soci
    assert shape(soci=True, disk=FAST).soci
    assert shape(soci=True, disk=Disk(iops=2_400 + 600, throughput_mib_s=600)).soci
    with pytest.raises(ValueError, match=r"throughput_mib_s of at least 600 with soci, got 125; write Disk\(iops"):
        shape(soci=True)
    with pytest.raises(
        ValueError,
        match=r"soci must be False for g6f.large, got True; remove it, because the image ignores it below 4 vCPUs",
    ):
        shape("g6f.large", soci=True, disk=FAST)


def test_an_image_of_ones_own_drives_what_eks_does_not() -> None:
    image = CustomImage(id="ami-0123456789abcdef0", driver_branch=595)

    assert shape("g7.2xlarge", image=image).names == ("g7.2xlarge",)
    with pytest.raises(ValueError, match="got 590, which the custom image has"):
        shape("g7.2xlarge", image=CustomImage(id="ami-0123456789abcdef0", driver_branch=590))
    with pytest.raises(ValueError, match="driver 580 or older, got 595, which the custom image has"):
        shape("p3dn.24xlarge", image=image)


@pytest.mark.parametrize(
    ("says", "error", "message"),
    [
        ({"id": "image", "driver_branch": 595}, ValueError, "custom image: id must be an AMI id, got 'image'"),
        ({"id": "ami-0123456789abcdef0", "driver_branch": "595"}, TypeError, r"driver_branch must be a whole number"),
    ],
)
def test_refuses_an_image(says: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        CustomImage(**says)


def test_a_snapshot_of_images_is_on_bottlerockets_data_volume() -> None:
    volumes = shape("g6.xlarge", operating_system="bottlerocket", disk=SNAPSHOT, raid0=False).volumes

    assert [each.disk.snapshot_id for each in volumes] == [None, "snap-0123456789abcdef0"]
    with pytest.raises(
        ValueError, match=r"without snapshot_id on al2023, .*got 'snap-0123456789abcdef0'; use bottlerocket, or add"
    ):
        shape(disk=SNAPSHOT)
    with pytest.raises(ValueError, match=r"if images are on local NVMe, .*; write raid0=False"):
        shape("g6.xlarge", operating_system="bottlerocket", disk=SNAPSHOT)


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ({"snapshot_id": "snapshot"}, r"disk: snapshot_id must be an id such as"),
        ({"initialization_mib_s": 200}, "initialization_mib_s must have a snapshot_id"),
        ({"snapshot_id": "snap-0123456789abcdef0", "initialization_mib_s": 301}, r"must be at most 300, got 301"),
        ({"snapshot_id": "snap-0123456789abcdef0", "initialization_mib_s": 99}, r"must be at least 100, got 99"),
    ],
)
def test_refuses_a_snapshot(says: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Disk(**says)


def test_tags_are_checked() -> None:
    assert dict(shape(tags={"team": "search"}).tags) == {"team": "search"}
    for key in ("aws:x", "Name", "kubernetes.io/cluster/demo", "karpenter.sh/nodepool", "eks:eks-cluster-name"):
        with pytest.raises(ValueError, match=f"tags must not set '{key}'"):
            shape(tags={key: "x"})
    with pytest.raises(TypeError, match="tags must map keys to values"):
        shape(tags=["team"])
    with pytest.raises(ValueError, match="tags must be at most 40, got 41"):
        shape(tags={str(number): "x" for number in range(41)})
    with pytest.raises(ValueError, match="must have 1 to 128 characters"):
        shape(tags={"k" * 129: "x"})
    assert len(shape(tags={"k" * 128: "v" * 256}).tags) == 1


def test_refuses_an_unknown_purpose() -> None:
    with pytest.raises(ValueError, match=r"purpose must be one of training, inference, got 'trainin'; did you mean"):
        shape(purpose="trainin")


def test_user_data_is_none_where_eks_own_suffices() -> None:
    assert user_data(shape()) is None
    assert node_class_user_data(shape("g6.xlarge")) is None
    assert user_data(shape(operating_system="bottlerocket")) is None
    assert node_class_user_data(shape(operating_system="bottlerocket")) is None
