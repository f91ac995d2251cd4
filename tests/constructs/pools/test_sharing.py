"""Sharing is offered by the names pods ask for, told to the autoscalers, and refused where a GPU cannot do it."""

from __future__ import annotations

from typing import Any

import pytest
import tomli

from gpu_constructs import Mig, Mps, NodeShape, TimeSlicing
from gpu_constructs.nodes.user_data import joining_user_data, node_class_user_data, user_data
from gpu_constructs.pools import CustomImage, Exclusive
from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.hardware.gpu_models import PROFILES, SLICES, compute_slices
from tests.constructs.nodes.test_user_data import MEMBERSHIP
from tests.user_data import parts_of


def shape(name: str, sharing: Any, **says: Any) -> NodeShape:
    return NodeShape(instance_types=(name,), sharing=sharing, **says)


@pytest.mark.parametrize(
    ("name", "sharing", "offered"),
    [
        ("g6.xlarge", Exclusive(), {"nvidia.com/gpu": "1"}),
        ("g6.12xlarge", TimeSlicing(4), {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "16"}),
        ("g6.12xlarge", Mps(8), {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "32"}),
        (
            "p5.48xlarge",
            Mig(geometry={"3g.40gb": 1, "1g.10gb": 4}),
            {"nvidia.com/gpu": "0", "nvidia.com/mig-3g.40gb": "8", "nvidia.com/mig-1g.10gb": "32"},
        ),
        (
            "p4de.24xlarge",
            Mig(geometry={"1g.10gb+me": 1}),
            {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb.me": "8"},
        ),
    ],
)
def test_the_autoscaler_gets_the_resources_of_a_node(name: str, sharing: Any, offered: dict[str, str]) -> None:
    resources = shape(name, sharing).resources()

    assert {key: value for key, value in resources.items() if key.startswith("nvidia.com/")} == offered


def test_only_nodes_that_offer_whole_gpus_are_waited_for_by_them() -> None:
    labels = shape("g6.xlarge", TimeSlicing(4)).node_labels("a")

    assert "k8s.amazonaws.com/accelerator" not in labels
    assert labels["gpu-constructs.io/sharing"] == "time-slicing-4"
    assert "gpu-constructs.io/sharing" not in shape("g6.xlarge", Exclusive()).node_labels("a")


def settings(sharing: Any, name: str = "p5.48xlarge") -> dict[str, Any]:
    made = shape(name, sharing, operating_system="bottlerocket")
    for text in (user_data(made), node_class_user_data(made), joining_user_data(made, "a", MEMBERSHIP)):
        found = tomli.loads(text or "")["settings"]["kubelet-device-plugins"]["nvidia"]
    return dict(found)


def test_bottlerocket_gets_them_in_its_settings() -> None:
    assert settings(TimeSlicing(4), "g6.xlarge") == {
        "device-sharing-strategy": "time-slicing",
        "time-slicing": {"replicas": 4, "rename-by-default": True, "fail-requests-greater-than-one": True},
    }
    assert settings(Mps(4), "g6.xlarge") == {
        "device-sharing-strategy": "mps",
        "mps": {"replicas": 4, "rename-by-default": True},
    }
    assert settings(Mig(geometry={"1g.10gb": 7})) == {
        "device-partitioning-strategy": "mig",
        "mig": {"profile": {"h100.80gb": "1g.10gb"}},
    }


def test_bottlerocket_calls_every_instance_a_gpu() -> None:
    mig = shape("p5.48xlarge", Mig(geometry={"1g.10gb": 7}), operating_system="bottlerocket")

    assert mig.resources()["nvidia.com/gpu"] == "56"
    assert "k8s.amazonaws.com/accelerator" in mig.node_labels("a")


@pytest.mark.parametrize(
    "render", [user_data, node_class_user_data, lambda made: joining_user_data(made, "a", MEMBERSHIP)]
)
def test_al2023_partitions_before_kubelet_starts(render: Any) -> None:
    text = render(shape("p5.48xlarge", Mig(geometry={"1g.10gb": 4, "3g.40gb": 1})))

    script = dict(parts_of(text))["text/x-shellscript"]
    assert "nvidia-smi mig -cgi 3g.40gb,1g.10gb,1g.10gb,1g.10gb,1g.10gb -C" in script
    assert "Before=nodeadm-run.service" in script


def test_no_other_sharing_runs_a_script() -> None:
    assert "shellscript" not in (user_data(shape("g6.xlarge", TimeSlicing(4))) or "")


def test_the_table_holds_every_family_that_is_partitioned() -> None:
    families = {each.family for each in catalogue().values() if each.mig}

    # No source states the profiles of g7 and p6e-gb200, or two sources differ.
    assert families - set(PROFILES) <= {"g7", "p6e-gb200"}
    assert set(PROFILES) <= families
    for family, profiles in PROFILES.items():
        for name, most in profiles.items():
            assert compute_slices(name) * most <= SLICES.get(family, 7), (family, name)


@pytest.mark.parametrize(
    ("name", "sharing", "says", "message"),
    [
        (
            "g6.xlarge",
            Mig(geometry={"1g.5gb": 1}),
            {},
            "must not be Mig on 'g6.xlarge', because L4 doesn't support it, got Mig",
        ),
        ("p4d.24xlarge", Mig(geometry={"1g.20gb": 1}), {}, r"MIG profiles of 'p4d.24xlarge', 1g.5gb, .*got '1g.20gb'"),
        ("p5.48xlarge", Mig(geometry={"1g.10gb": 8}), {}, r"at most 7 of '1g.10gb' on a GPU of 'p5.48xlarge', got 8"),
        (
            "p5.48xlarge",
            Mig(geometry={"3g.40gb": 2, "2g.20gb": 1}),
            {},
            r"at most 7 compute slices on a GPU of 'p5.48xlarge', got 8",
        ),
        ("g7e.2xlarge", Mig(geometry={"2g.48gb": 1, "1g.24gb": 3}), {}, r"at most 4 compute slices .*got 5"),
        ("g6f.xlarge", TimeSlicing(2), {}, r"Exclusive\(\) on g6f.xlarge, which has only a fraction of a GPU, got"),
        ("p3dn.24xlarge", Mps(17), {}, r"at most 16 MPS clients on 'p3dn.24xlarge', got 17"),
        (
            "p5.48xlarge",
            Mig(geometry={"3g.40gb": 1, "1g.10gb": 4}),
            {"operating_system": "bottlerocket"},
            r"one MIG profile on bottlerocket, got 3g.40gb, 1g.10gb; use al2023",
        ),
        (
            "p5.48xlarge",
            Mig(geometry={"1g.10gb": 3}),
            {"operating_system": "bottlerocket"},
            "must fill the GPU of 'p5.48xlarge' on bottlerocket, which creates 7 of '1g.10gb', got 3",
        ),
        (
            "p6-b200.48xlarge",
            Mig(geometry={"1g.23gb": 7}),
            {"operating_system": "bottlerocket"},
            "must not be Mig on bottlerocket for 'p6-b200.48xlarge', because no source states its name",
        ),
    ],
)
def test_refuses_what_a_gpu_cannot_do(name: str, sharing: Any, says: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        shape(name, sharing, **says)


def test_accepts_the_fullest_gpu() -> None:
    assert shape("p5.48xlarge", Mig(geometry={"3g.40gb": 2, "1g.10gb": 1})).sharing
    assert shape("p3dn.24xlarge", Mps(16)).sharing == Mps(16)


def test_profiles_that_no_source_states_are_taken_at_their_word() -> None:
    image = CustomImage(id="ami-0123456789abcdef0", driver_branch=595)

    assert shape("g7.2xlarge", Mig(geometry={"1g.8gb": 4}), image=image).resources()["nvidia.com/mig-1g.8gb"] == "4"


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: TimeSlicing(1), ValueError, r"time slicing: replicas must be at least 2, got 1; write Exclusive\(\)"),
        (lambda: TimeSlicing("4"), TypeError, r"time slicing: replicas must be a whole number"),  # type: ignore[arg-type]
        (lambda: Mps(1), ValueError, r"mps: replicas must be at least 2, got 1"),
        (lambda: Mps(49), ValueError, r"mps: replicas must be at most 48, got 49"),
        (lambda: Mig(geometry={}), TypeError, r"mig: geometry must map profiles to numbers, got \{\}"),
        (lambda: Mig(geometry={"1g": 1}), ValueError, "profiles as keys, got '1g'"),
        (lambda: Mig(geometry={"1g.10gb": 0}), ValueError, r"geometry\['1g.10gb'\] must be at least 1, got 0"),
    ],
)
def test_refuses(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_as_many_mps_clients_as_there_are() -> None:
    assert Mps(48).resources(1) == {"nvidia.com/gpu.shared": 48}
