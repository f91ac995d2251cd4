"""Shapes of nodes without a stack: both sides of each limit, the rejected values and their errors, and node sizes."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_constructs.pools.disk import Disk
from gpu_constructs.pools.kubelet import GPU_TAINT, Kubelet, Taint
from gpu_constructs.pools.node_shape import CustomImage, NodeShape
from gpu_constructs.pools.sharing import Exclusive, Mig, Mps, TimeSlicing
from gpu_facts.hardware.catalogue import catalogue, instance_type
from gpu_facts.image_releases import LTS, PRODUCTION

EXAMPLES = settings(max_examples=100)
G6 = instance_type("g6.xlarge")
FAST = Disk(iops=16_000, throughput_mib_s=1_000)
SNAPSHOT = Disk(snapshot_id="snap-0123456789abcdef0")
SEVENTHS = Mig(geometry={"1g.10gb": 7})
# They have one architecture, and today's images have their driver.
DRIVEN = sorted(name for name, row in catalogue().items() if row.architecture == "x86_64" and row.is_driven)
SOME = st.lists(st.sampled_from(DRIVEN), min_size=1, max_size=4, unique=True)


def shape(*names: Any, **says: Any) -> NodeShape:
    return NodeShape(instance_types=names or ("g6.xlarge",), **says)


def own(**changes: Any) -> Any:
    """A row of ones own, of the L4."""
    return replace(G6, **{"name": "g9.xlarge", **changes})


@EXAMPLES
@given(SOME)
def test_a_shape_promises_what_its_smallest_type_has(names: list[str]) -> None:
    made, rows = shape(*names), [catalogue()[name] for name in names]

    assert made.rows == tuple(rows)
    assert made.names == tuple(names)
    assert made.gpus == min(row.gpus for row in rows)
    assert made.vcpus == min(row.vcpus or 0 for row in rows)
    assert made.memory_gib == min((row.memory_mib or 0) // 1024 for row in rows)
    assert made.architecture == "x86_64"
    assert made.uses_raid0 is all(row.nvme_disks > 0 for row in rows)


@EXAMPLES
@given(SOME, st.integers(20, 2000), st.booleans())
def test_pods_never_have_more_disk_than_the_smallest_node_leaves_them(names: list[str], gib: int, raid0: bool) -> None:
    made, rows = shape(*names, disk=Disk(size_gib=gib), raid0=raid0), [catalogue()[name] for name in names]

    joined = raid0 and all(row.nvme_disks for row in rows)
    size = min(row.nvme_disks * row.nvme_disk_gb * 10**9 / 2**30 for row in rows) if joined else gib
    assert made.ephemeral_storage_gib <= (size - 1) * 0.9 < made.ephemeral_storage_gib + 1
    assert made.resources()["ephemeral-storage"] == f"{made.ephemeral_storage_gib}Gi"


def test_types_with_and_without_local_disks_keep_images_on_the_volume() -> None:
    mixed = shape(own(nvme_disks=0, nvme_disk_gb=0), "g6.xlarge")

    assert not mixed.uses_raid0
    assert mixed.ephemeral_storage_gib == 89
    assert shape("g6.xlarge").uses_raid0
    assert not shape("g6.xlarge", raid0=False).uses_raid0


def test_what_no_source_states_is_none() -> None:
    bare = shape(own(vcpus=None, memory_mib=None), "g6.xlarge")

    assert (bare.vcpus, bare.memory_gib) == (0, 0)


def test_memory_is_rounded_down() -> None:
    assert shape(own(memory_mib=16 * 1024 + 1023)).memory_gib == 16
    assert shape(own(memory_mib=16 * 1024 - 1)).memory_gib == 15


@pytest.mark.parametrize(
    ("names", "label"),
    [
        (("g6.xlarge",), "nvidia-l4"),
        (("g6.xlarge", "g6.12xlarge", "gr6.4xlarge"), "nvidia-l4"),
        (("g6.xlarge", "g5.xlarge"), "nvidia-mixed"),
    ],
)
def test_the_label_of_the_gpu_is_that_of_all_types(names: tuple[str, ...], label: str) -> None:
    assert shape(*names).accelerator_label == label


def test_only_types_whose_last_driver_is_todays_are_ageing() -> None:
    last, next_one = own(driver_max=LTS), own(name="g10.xlarge", driver_max=LTS + 1)

    assert shape(last, next_one, "g6.xlarge").ageing == ("g9.xlarge",)


@pytest.mark.parametrize(
    ("says", "least", "most", "accepted"),
    [
        ({}, None, None, True),
        ({}, LTS, LTS, True),
        ({}, PRODUCTION, PRODUCTION, True),
        ({}, LTS + 1, PRODUCTION - 1, False),
        ({}, PRODUCTION + 1, None, False),
        ({}, None, LTS - 1, False),
        ({"image": CustomImage(id="ami-0123456789abcdef0", driver_branch=595)}, 595, 595, True),
        ({"image": CustomImage(id="ami-0123456789abcdef0", driver_branch=595)}, 596, None, False),
        ({"image": CustomImage(id="ami-0123456789abcdef0", driver_branch=595)}, None, 594, False),
    ],
)
def test_the_driver_of_the_image_drives_every_type(says: Any, least: Any, most: Any, accepted: bool) -> None:
    row = own(driver_min=least, driver_max=most)

    if accepted:
        assert shape("g6.xlarge", row, **says).rows[1] == row
    else:
        with pytest.raises(ValueError, match=r"node shape: instance type 'g9.xlarge' must have NVIDIA driver"):
            shape("g6.xlarge", row, **says)


TEAM = Taint(key="team", value="a")
EIGHT_TAINTS = tuple(Taint(key=f"example.com/{number}", value="a", effect="NoSchedule") for number in range(8))


@pytest.mark.parametrize(
    ("names", "says", "error", "message"),
    [
        (
            (),
            {"instance_types": ()},
            ValueError,
            "instance_types must name at least one type, got none; write one such as 'g6.xlarge'",
        ),
        (
            (),
            {"instance_types": "g6.xlarge"},
            TypeError,
            "instance_types must be a list of names, got 'g6.xlarge'; write ['g6.xlarge']",
        ),
        ((), {"instance_types": None}, TypeError, "instance_types must be a list of names, got None"),
        ((7,), {}, TypeError, "instance_types must contain EC2 names such as 'g6.xlarge', got 7"),
        (
            ("g6.xlarge", "g5.xlarge", "g6.xlarge"),
            {},
            ValueError,
            "instance_types must differ, got ('g6.xlarge', 'g5.xlarge', 'g6.xlarge'); remove duplicates",
        ),
        (
            ("g5.xlarge", "g5g.xlarge"),
            {},
            ValueError,
            "instance_types must share one CPU architecture, got g5.xlarge (x86_64), g5g.xlarge (arm64); make one pool "
            "per architecture",
        ),
        (
            ("g6.xlarge", replace(G6, name="g8.xlarge", driver_min=600)),
            {},
            ValueError,
            (
                "instance type 'g8.xlarge' must have NVIDIA driver 600 or newer, got 580 and 595, "
                "which the EKS images for AL2023 and Bottlerocket have; use your own "
                "image=CustomImage(id=..., driver_branch=600), because its GPUs would not work"
            ),
        ),
        (
            ("g7.2xlarge",),
            {"image": CustomImage(id="ami-0123456789abcdef0", driver_branch=594)},
            ValueError,
            (
                "instance type 'g7.2xlarge' must have NVIDIA driver 595 or newer, got 594, which the "
                "custom image has; use your own image=CustomImage(id=..., driver_branch=595), because "
                "its GPUs would not work"
            ),
        ),
        (
            ("p3dn.24xlarge",),
            {"image": CustomImage(id="ami-0123456789abcdef0", driver_branch=595)},
            ValueError,
            (
                "instance type 'p3dn.24xlarge' must have NVIDIA driver 580 or older, got 595, which "
                "the custom image has; use another type"
            ),
        ),
        (
            (replace(G6, name="g1.xlarge", driver_max=570),),
            {},
            ValueError,
            (
                "instance type 'g1.xlarge' must have NVIDIA driver 570 or older, got 580 and 595, "
                "which the EKS images for AL2023 and Bottlerocket have; use another type"
            ),
        ),
        (
            ("p6e-gb200.36xlarge",),
            {"operating_system": "bottlerocket"},
            ValueError,
            (
                "instance type 'p6e-gb200.36xlarge' must run al2023, got 'bottlerocket'; use al2023, "
                "because no Bottlerocket image boots it"
            ),
        ),
        (
            ("p5.48xlarge", "p5e.48xlarge"),
            {"efa": True},
            ValueError,
            (
                "efa must have one instance type, got p5.48xlarge, p5e.48xlarge; make one pool per "
                "type, because network cards differ"
            ),
        ),
        (
            ("p6e-gb200.36xlarge",),
            {"efa": True},
            ValueError,
            (
                "efa must be False for 'p6e-gb200.36xlarge', because no two sources state the same "
                "interfaces, got True; pass your own row, dataclasses.replace(instance_type(...), "
                "max_efa=..., network_cards=...)"
            ),
        ),
        (
            ("g6.xlarge",),
            {"efa": True},
            ValueError,
            "efa must be False for 'g6.xlarge', which supports no EFA interface, got True; remove it",
        ),
        ((), {"disk": None}, TypeError, "disk must be a Disk, got None; write Disk(size_gib=200)"),
        ((), {"raid0": 1}, TypeError, "raid0 must be a bool, got 1; write True"),
        ((), {"raid0": None}, TypeError, "raid0 must be a bool, got None; write True"),
        ((), {"efa": None}, TypeError, "efa must be a bool, got None; write True"),
        ((), {"placement_group": 7}, TypeError, "placement_group must be a str, got 7; write the group's name"),
        ((), {"kubelet": None}, TypeError, "kubelet must be a Kubelet, got None; write Kubelet(max_pods=50)"),
        ((), {"soci": "yes"}, TypeError, "soci must be a bool, got 'yes'; write True"),
        ((), {"soci": None}, TypeError, "soci must be a bool, got None; write True"),
        (
            (),
            {"image": "ami-1"},
            TypeError,
            "image must be a CustomImage, got 'ami-1'; write CustomImage(id='ami-...', driver_branch=595)",
        ),
        (
            (),
            {"sharing": None},
            TypeError,
            "sharing must be Exclusive(), TimeSlicing(4), Mps(4) or Mig(geometry={...}), got None",
        ),
        ((), {"purpose": "fun"}, ValueError, "purpose must be one of training, inference, got 'fun'"),
        ((), {"purpose": ""}, ValueError, "purpose must be one of training, inference, got ''"),
        (
            (),
            {"operating_system": "windows"},
            ValueError,
            "operating_system must be one of al2023, bottlerocket, got 'windows'",
        ),
        (
            (),
            {"taints": None},
            TypeError,
            ("taints must be a list of Taint, got None; write [Taint(key='team', value='a')]"),
        ),
        (
            (),
            {"taints": ("a",)},
            TypeError,
            ("taints must be a list of Taint, got ('a',); write [Taint(key='team', value='a')]"),
        ),
        ((), {"taints": (TEAM, TEAM)}, ValueError, ("taints must differ in key or effect, got one twice; remove it")),
        (
            (),
            {"taints": (GPU_TAINT, TEAM)},
            ValueError,
            "taints must not contain nvidia.com/gpu:NoSchedule, which every GPU node has, got "
            "Taint(key='nvidia.com/gpu', value='true', effect='NoSchedule'); remove it, or write gpu_taint=False to "
            "set another value",
        ),
        ((), {"gpu_taint": "no"}, TypeError, "gpu_taint must be a bool, got 'no'; write True"),
        (
            ("g6.xlarge",),
            {"sharing": SEVENTHS},
            ValueError,
            ("sharing must not be Mig on 'g6.xlarge', because L4 doesn't support it, got Mig; write TimeSlicing(4)"),
        ),
        (
            ("p5.48xlarge",),
            {"sharing": Mig(geometry={"1g.10gb": 6}), "operating_system": "bottlerocket"},
            ValueError,
            (
                "sharing must fill the GPU of 'p5.48xlarge' on bottlerocket, which creates 7 of "
                "'1g.10gb', got 6; write 7"
            ),
        ),
        (
            ("p5.48xlarge",),
            {"sharing": SEVENTHS, "operating_system": "bottlerocket", "device_manager": "dra"},
            ValueError,
            f"sharing must be Exclusive(), or Mig on al2023, with device_manager='dra', got {SEVENTHS!r}; name one "
            "SharedGpuClaim in several pods to share a GPU",
        ),
        (
            ("g6.xlarge",),
            {"sharing": TimeSlicing(2), "device_manager": "dra"},
            ValueError,
            (
                "sharing must be Exclusive(), or Mig on al2023, with device_manager='dra', got "
                "TimeSlicing(replicas=2); name one SharedGpuClaim in several pods to share a GPU"
            ),
        ),
        (
            ("g6f.large", "g6.xlarge", own(vcpus=3)),
            {"soci": True},
            ValueError,
            (
                "soci must be False for g6f.large, g9.xlarge, got True; remove it, because the image "
                "ignores it below 4 vCPUs"
            ),
        ),
        (
            ("g6.xlarge",),
            {"soci": True, "raid0": False, "disk": Disk(iops=16_000, throughput_mib_s=599)},
            ValueError,
            "disk must have throughput_mib_s of at least 600 with soci, got 599; write Disk(iops=16000, "
            "throughput_mib_s=1000)",
        ),
        (
            (),
            {"disk": SNAPSHOT, "raid0": False},
            ValueError,
            (
                "disk must be without snapshot_id on al2023, which stores images on the AMI's own "
                "volume, got 'snap-0123456789abcdef0'; use bottlerocket, or add the container images "
                "to your own AMI"
            ),
        ),
        (
            (),
            {"disk": SNAPSHOT, "operating_system": "bottlerocket"},
            ValueError,
            (
                "disk must be without snapshot_id if images are on local NVMe, got "
                "'snap-0123456789abcdef0'; write raid0=False"
            ),
        ),
    ],
)
def test_refuses_nodes_that_would_not_work(
    names: tuple[Any, ...], says: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as refused:
        NodeShape(**{"instance_types": names or ("g6.xlarge",), **says})

    assert str(refused.value).partition("; did you mean")[0] == f"node shape: {message}"


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (("p6e-gb200.36xlarge",), {}),
        (("p5.48xlarge",), {"efa": True}),
        ((own(max_efa=1),), {"efa": True}),
        (("p5.48xlarge", "p5e.48xlarge"), {"efa": False}),
        (("g6.xlarge",), {"soci": True}),
        ((own(vcpus=4),), {"soci": True}),
        ((own(vcpus=None),), {"soci": True}),
        (("g6f.large",), {"soci": False}),
        (("g5g.xlarge",), {"soci": True, "disk": Disk(iops=16_000, throughput_mib_s=600)}),
        (("g5g.xlarge",), {"disk": Disk(iops=3_000, throughput_mib_s=125)}),
        (("g6.xlarge",), {"raid0": False, "soci": True, "disk": FAST}),
        (("g6.xlarge",), {"operating_system": "bottlerocket", "raid0": False, "disk": SNAPSHOT}),
        (("g5g.xlarge",), {"operating_system": "bottlerocket", "disk": SNAPSHOT}),
        (("p5.48xlarge",), {"sharing": SEVENTHS, "device_manager": "dra"}),
        (("g6.xlarge",), {"sharing": Exclusive(), "device_manager": "dra", "operating_system": "bottlerocket"}),
        (("g6.xlarge",), {"sharing": TimeSlicing(2), "device_manager": "gpu-operator"}),
        (("g6.xlarge",), {"purpose": "training"}),
        (("g6.xlarge",), {"purpose": "inference"}),
        (["g6.xlarge"], {"taints": [TEAM]}),
        (["g6.xlarge"], {"taints": [GPU_TAINT], "gpu_taint": False}),
        (("g6.xlarge",), {"taints": EIGHT_TAINTS}),
    ],
)
def test_accepts_the_nearest_that_works(names: Any, says: dict[str, Any]) -> None:
    made = NodeShape(instance_types=names, **says)

    assert replace(made) == made
    assert isinstance(made.rows, tuple)
    assert isinstance(made.taints, tuple)


def test_labels_and_tags_are_copies_that_stay() -> None:
    labels, tags = {"team": "a"}, {"cost": "b"}
    made = shape(labels=labels, tags=tags)
    labels["team"] = tags["cost"] = "c"

    assert (made.labels, made.tags) == ({"team": "a"}, {"cost": "b"})
    for kept in (made.labels, made.tags):
        with pytest.raises(TypeError):
            kept["more"] = "d"  # type: ignore[index]


def test_a_shape_stays_as_it_is() -> None:
    with pytest.raises(AttributeError):
        shape().soci = True  # type: ignore[misc]


def test_shapes_that_differ_in_labels_or_tags_alone_are_different() -> None:
    assert len({shape(), shape(labels={"team": "a"}), shape(tags={"team": "a"}), shape()}) == 3


BASE = {"gpu-constructs.io/pool": "l4"}
MANAGED_BY = "gpu-constructs.io/device-manager"
L4 = {"k8s.amazonaws.com/accelerator": "nvidia-l4"}
PRESENT = {"nvidia.com/gpu.present": "true"}


@pytest.mark.parametrize(
    ("made", "labels"),
    [
        (shape(), {MANAGED_BY: "device-plugin", **L4, **PRESENT}),
        (shape(labels={"team": "a"}), {MANAGED_BY: "device-plugin", **L4, **PRESENT, "team": "a"}),
        (
            shape(sharing=TimeSlicing(4)),
            {MANAGED_BY: "device-plugin", **PRESENT, "gpu-constructs.io/sharing": "time-slicing-4"},
        ),
        (
            shape(device_manager="gpu-operator"),
            {MANAGED_BY: "gpu-operator", **L4, **PRESENT, "nvidia.com/device-plugin.config": "exclusive"},
        ),
        (
            shape(device_manager="gpu-operator", sharing=Mps(2)),
            {
                MANAGED_BY: "gpu-operator",
                **PRESENT,
                "gpu-constructs.io/sharing": "mps-2",
                "nvidia.com/device-plugin.config": "mps-2",
            },
        ),
        (shape(device_manager="dra"), {MANAGED_BY: "dra"}),
        (shape(operating_system="bottlerocket"), {MANAGED_BY: "bottlerocket", **L4}),
        (
            shape("g6.8xlarge", efa=True),
            {MANAGED_BY: "device-plugin", **L4, **PRESENT, "gpu-constructs.io/efa": "true"},
        ),
    ],
)
def test_labels_of_a_node(made: NodeShape, labels: dict[str, str]) -> None:
    assert made.node_labels("l4") == {**BASE, **labels}


@pytest.mark.parametrize(
    ("made", "resources"),
    [
        (shape(), {"nvidia.com/gpu": "1"}),
        (shape("g6.xlarge", "g6.12xlarge"), {"nvidia.com/gpu": "1"}),
        (shape(device_manager="dra"), {"nvidia.com/gpu": "0"}),
        (shape("g6.12xlarge", sharing=TimeSlicing(2)), {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "8"}),
        (
            shape("p5.48xlarge", sharing=Mig(geometry={"3g.40gb": 1, "1g.10gb": 4})),
            {"nvidia.com/gpu": "0", "nvidia.com/mig-3g.40gb": "8", "nvidia.com/mig-1g.10gb": "32"},
        ),
        (shape("p5.48xlarge", sharing=SEVENTHS, operating_system="bottlerocket"), {"nvidia.com/gpu": "56"}),
        (
            shape("g6.12xlarge", sharing=Mps(2), operating_system="bottlerocket"),
            {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "8"},
        ),
        (shape(kubelet=Kubelet(max_pods=50)), {"nvidia.com/gpu": "1", "pods": "50"}),
        (
            shape("p5.48xlarge", efa=True),
            {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32", "hugepages-2Mi": "10256Mi"},
        ),
    ],
)
def test_what_a_node_offers(made: NodeShape, resources: dict[str, str]) -> None:
    offered = made.resources()

    assert offered.pop("ephemeral-storage") == f"{made.ephemeral_storage_gib}Gi"
    assert offered == resources


def test_volumes_are_those_of_the_operating_system() -> None:
    disk = Disk(size_gib=300)

    assert [(each.device, each.size_gib) for each in shape(disk=disk).volumes] == [("/dev/xvda", 300)]
    assert [each.device for each in shape(disk=disk, operating_system="bottlerocket").volumes] == [
        "/dev/xvda",
        "/dev/xvdb",
    ]


@pytest.mark.parametrize(
    ("system", "given", "name"),
    [
        ("al2023", None, "device-plugin"),
        ("bottlerocket", None, "bottlerocket"),
        ("al2023", "dra", "dra"),
        ("al2023", "gpu-operator", "gpu-operator"),
    ],
)
def test_who_manages_the_gpus(system: Any, given: Any, name: str) -> None:
    assert shape(operating_system=system, device_manager=given).managed_by.name == name


def test_refuses_who_cannot_manage_the_gpus() -> None:
    with pytest.raises(ValueError, match="node shape: device_manager must be one of"):
        shape(device_manager="bottlerocket")


UNDRIVEN = "Test/Pool: ami_release must be one with NVIDIA driver {needs}, which {types} needs, got {got!r}, which has"


@pytest.mark.parametrize(
    ("names", "release", "needs", "types"),
    [
        (("g7.2xlarge",), "v20260903", 595, "g7.2xlarge"),
        (("g6.xlarge", "g7.2xlarge", "g7.4xlarge"), "1.36.3-20260903", 595, "g7.2xlarge, g7.4xlarge"),
    ],
)
def test_a_release_without_the_driver_of_a_type_is_refused(
    names: tuple[str, ...], release: str, needs: int, types: str
) -> None:
    expected = f"{UNDRIVEN.format(needs=needs, types=types, got=release)} 580; use 'latest' [GPU006]"

    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        shape(*names).refuse_undriven("Test/Pool", release, "1.36", take="'latest'")


def test_the_newest_need_of_all_types_is_named() -> None:
    newer = own(name="g8.xlarge", driver_min=600)

    with pytest.raises(ValueError, match=r"driver 600, which g8.xlarge needs, got 'latest', which has 580 and 595"):
        replace_row(shape("g6.xlarge"), newer).refuse_undriven("Test/Pool", "latest", "1.36", take="an own image")


def replace_row(made: NodeShape, row: Any) -> NodeShape:
    """A shape with a row that no shape takes today."""
    object.__setattr__(made, "instance_types", (row,))
    return made


@pytest.mark.parametrize(
    ("says", "release", "version"),
    [
        ({}, "v20260917", "1.36"),
        ({}, "latest", None),
        ({}, None, "1.36"),
        ({"operating_system": "bottlerocket"}, "1.68.0", "1.35"),
        # No source states what it carries.
        ({"operating_system": "bottlerocket"}, "1.68.0", "1.36"),
        ({"image": CustomImage(id="ami-0123456789abcdef0", driver_branch=595)}, "v20260903", "1.36"),
    ],
)
def test_a_release_that_may_drive_every_type_is_taken(says: Any, release: str | None, version: str | None) -> None:
    made = shape("g7.2xlarge", **says)

    made.refuse_undriven("Test/Pool", release, version, take="'latest'")

    assert made.names == ("g7.2xlarge",)
