"""The allocatable resources of a node, compared with the figures that upstream publishes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.hardware.node_capacity import eni_pods
from gpu_facts.quantities import GIB, MIB, quantity
from gpu_preflight.model.launch import class_launch, template_launch
from gpu_preflight.node.instance_types import allocatable, disk_bytes, max_pods, root_gib
from gpu_preflight.reading.unknown import Unknown
from tests.preflight.readers import pool, pool_told

PUBLISHED = yaml.safe_load((Path(__file__).parent / "karpenter_allocatable.yaml").read_text())["types"]


@pytest.mark.parametrize(
    ("name", "cpu", "memory", "pods"),
    [
        ("g5.xlarge", 3920, 14162, 58),
        ("p5.48xlarge", 191450, 1938410, 100),
        ("g5g.xlarge", 3920, 6525, 58),
        ("g4dn.xlarge", 3920, 14481, 29),
    ],
)
def test_the_least_is_what_karpenter_expects(name: str, cpu: int, memory: int, pods: int) -> None:
    least, _ = allocatable(pool(kind="karpenter"), catalogue()[name])

    assert (least["cpu"], least["memory"], least["pods"]) == (cpu, memory * MIB, pods)


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_type_is_as_upstream_says(name: str) -> None:
    least, _ = allocatable(pool(kind="karpenter"), catalogue()[name])

    assert {key: least[key] for key in PUBLISHED[name]} == {
        key: quantity(key, value) for key, value in PUBLISHED[name].items()
    }


def test_the_most_leaves_out_what_the_hypervisor_may_take() -> None:
    least, most = allocatable(pool(), catalogue()["g5.xlarge"])

    assert most["memory"] == (16384 - 893 - 100) * MIB
    assert most["memory"] > least["memory"]
    assert most["cpu"] == least["cpu"]


def test_disk_is_the_volume_less_what_kubelet_keeps() -> None:
    least, most = allocatable(pool(), catalogue()["g5.xlarge"])

    assert most["ephemeral-storage"] == 17 * GIB
    assert least["ephemeral-storage"] < most["ephemeral-storage"]


@pytest.mark.parametrize(
    ("sizes", "gib"),
    [
        ([], 20),
        ([("/dev/xvda", 100)], 100),
        ([("/dev/xvdb", 100)], 20),
        ([("/dev/xvda", "100")], 100),
        ([("/dev/xvda", Unknown("${Later}"))], None),
    ],
)
def test_the_root_volume(sizes: list[tuple[str, object]], gib: int | None) -> None:
    mapped = [{"DeviceName": device, "Ebs": {"VolumeSize": size}} for device, size in sizes]

    assert root_gib(pool(launch=template_launch({"BlockDeviceMappings": mapped}))) == gib


def test_bottlerocket_has_its_pods_on_the_second_volume() -> None:
    mapped = [
        {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 4}},
        {"DeviceName": "/dev/xvdb", "Ebs": {"VolumeSize": 80}},
    ]

    launch = template_launch({"BlockDeviceMappings": mapped})

    assert root_gib(pool(operating_system="bottlerocket", launch=launch)) == 80


def test_a_group_says_its_size_itself() -> None:
    assert root_gib(pool(properties={"DiskSize": 50})) == 50
    assert root_gib(pool(properties={"DiskSize": Unknown("${Later}")})) is None


def test_local_disks_hold_pods_if_karpenter_is_configured_so() -> None:
    row = catalogue()["g5.xlarge"]

    assert disk_bytes(pool(kind="karpenter", launch=class_launch({"instanceStorePolicy": "RAID0"})), row) == 250 * 10**9
    plain = class_launch({"amiSelectorTerms": [{"alias": "al2023@latest"}]})
    assert disk_bytes(pool(kind="karpenter", launch=plain), row) == 20 * GIB


def test_kubelet_may_be_configured_for_fewer_pods() -> None:
    row = catalogue()["g5.xlarge"]
    config = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {kubelet: {config: {maxPods: 30}}}\n"

    assert max_pods(pool_told(config), row) == 30
    assert max_pods(pool(), row) == eni_pods(row) == 58


def test_kubelet_may_keep_more() -> None:
    config = (
        "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n"
        "spec: {kubelet: {config: {kubeReserved: {cpu: 200m, memory: 1Gi}, systemReserved: {cpu: 100m}}}}\n"
    )

    _, most = allocatable(pool_told(config), catalogue()["g5.xlarge"])

    assert most["cpu"] == 3700
    assert most["memory"] == (16384 - 1024 - 100) * MIB


def test_bottlerocket_spells_it_in_its_own_way() -> None:
    _, most = allocatable(
        pool_told("[settings.kubernetes]\nmax-pods = 12\n", operating_system="bottlerocket"), catalogue()["g5.xlarge"]
    )

    assert most["pods"] == 12
