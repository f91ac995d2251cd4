"""Which GPUs can be shared in which way, on both sides of every limit, and the values of each kind of sharing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_constructs.pools.sharing import (
    Exclusive,
    Mig,
    Mps,
    Sharing,
    TimeSlicing,
    mig_resource,
    refuse_unless_shareable,
)
from gpu_facts.hardware.catalogue import InstanceType, instance_type

EXAMPLES = settings(max_examples=50)
GEOMETRIES = st.dictionaries(st.sampled_from(("1g.10gb", "1g.10gb+me", "3g.40gb")), st.integers(1, 7), min_size=1)
SHARINGS = st.one_of(
    st.just(Exclusive()),
    st.builds(TimeSlicing, st.integers(2, 99)),
    st.builds(Mps, st.integers(2, 48)),
    st.builds(Mig, geometry=GEOMETRIES),
)


def mig(geometry: Any) -> Mig:
    return Mig(geometry=geometry)


def types(*names: str) -> list[InstanceType]:
    return [instance_type(name) for name in names]


@EXAMPLES
@given(SHARINGS, st.integers(1, 16))
def test_a_node_offers_what_each_of_its_gpus_offers(sharing: Sharing, gpus: int) -> None:
    one, all_of_them = sharing.resources(1), sharing.resources(gpus)

    assert all_of_them == {name: amount * gpus for name, amount in one.items()}
    assert all(amount > 0 for amount in one.values())


@EXAMPLES
@given(SHARINGS, SHARINGS)
def test_ways_of_sharing_are_told_apart_by_what_they_are(left: Sharing, right: Sharing) -> None:
    assert (left == right) is (left.profile == right.profile)
    assert left != right or hash(left) == hash(right)


@pytest.mark.parametrize(
    ("sharing", "profile", "resources"),
    [
        (Exclusive(), "exclusive", {"nvidia.com/gpu": 2}),
        (TimeSlicing(2), "time-slicing-2", {"nvidia.com/gpu.shared": 4}),
        (Mps(2), "mps-2", {"nvidia.com/gpu.shared": 4}),
        (
            mig({"3g.40gb": 1, "1g.10gb+me": 2}),
            "mig-2x1g.10gb.me-1x3g.40gb",
            {"nvidia.com/mig-3g.40gb": 2, "nvidia.com/mig-1g.10gb.me": 4},
        ),
    ],
)
def test_what_two_shared_gpus_offer(sharing: Sharing, profile: str, resources: dict[str, int]) -> None:
    assert sharing.profile == profile
    assert sharing.resources(2) == resources


def test_a_mig_instance_is_asked_for_by_a_name_that_kubernetes_takes() -> None:
    assert mig_resource("1g.10gb+me") == "nvidia.com/mig-1g.10gb.me"


def test_equal_geometries_are_one_key() -> None:
    assert len({mig({"1g.10gb": 7}), mig({"1g.10gb": 7}), mig({"1g.10gb": 3})}) == 2


@pytest.mark.parametrize("sharing", [TimeSlicing(2), Mps(2)])
def test_a_way_of_sharing_stays_as_it_is(sharing: Any) -> None:
    with pytest.raises(AttributeError):
        sharing.replicas = 3


def test_a_geometry_cannot_be_changed_afterwards() -> None:
    written = {"1g.10gb": 7}
    made = mig(written)
    written["1g.10gb"] = 1

    assert made.geometry == {"1g.10gb": 7}
    with pytest.raises(TypeError):
        made.geometry["1g.10gb"] = 1  # type: ignore[index]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: TimeSlicing(True), TypeError, "time slicing: replicas must be a whole number, got True"),
        (
            lambda: TimeSlicing(1),
            ValueError,
            "time slicing: replicas must be at least 2, got 1; write Exclusive() for one",
        ),
        (lambda: Mps(2.0), TypeError, "mps: replicas must be a whole number, got 2.0"),  # type: ignore[arg-type]
        (lambda: Mps(1), ValueError, "mps: replicas must be at least 2, got 1; write Exclusive() for one"),
        (
            lambda: Mps(49),
            ValueError,
            "mps: replicas must be at most 48, got 49; lower it, because MPS supports no more clients",
        ),
        (
            lambda: mig({}),
            TypeError,
            "mig: geometry must map profiles to numbers, got {}; write Mig(geometry={'1g.10gb': 4})",
        ),
        (
            lambda: mig("7g"),
            TypeError,
            "mig: geometry must map profiles to numbers, got '7g'; write Mig(geometry={'1g.10gb': 4})",
        ),
        (
            lambda: mig({"1g": 1}),
            ValueError,
            "mig: geometry must have profiles as keys, got '1g'; write one such as '1g.10gb'",
        ),
        (
            lambda: mig({7: 1}),
            ValueError,
            "mig: geometry must have profiles as keys, got 7; write one such as '1g.10gb'",
        ),
        (
            lambda: mig({"1g.10gb": 1, "1g.10gb+gfx": 1}),
            ValueError,
            "mig: geometry must have profiles as keys, got '1g.10gb+gfx'; write one such as '1g.10gb'",
        ),
        (lambda: mig({"1g.10gb": 0}), ValueError, "mig: geometry['1g.10gb'] must be at least 1, got 0"),
        (lambda: mig({"1g.10gb": "7"}), TypeError, "mig: geometry['1g.10gb'] must be a whole number, got '7'"),
    ],
)
def test_refuses_what_is_no_way_of_sharing(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as refused:
        make()

    assert str(refused.value) == message


@pytest.mark.parametrize("sharing", [TimeSlicing(2), Mps(2), Mps(48), mig({"1g.10gb": 1})])
def test_accepts_the_fewest_and_the_most(sharing: Sharing) -> None:
    assert sharing == replace(sharing)


@pytest.mark.parametrize(
    ("sharing", "names", "system"),
    [
        (Exclusive(), ["g6f.xlarge", "g6.xlarge"], "al2023"),
        (TimeSlicing(99), ["p3dn.24xlarge", "g6.xlarge"], "bottlerocket"),
        (Mps(48), ["g6.xlarge", "g4dn.xlarge"], "bottlerocket"),
        (Mps(16), ["p3dn.24xlarge"], "al2023"),
        (mig({"1g.10gb": 7}), ["p5.48xlarge", "p4de.24xlarge"], "al2023"),
        (mig({"3g.40gb": 2, "1g.10gb": 1}), ["p5.48xlarge"], "al2023"),
        (mig({"1g.10gb": 1}), ["p5.48xlarge"], "al2023"),
        (mig({"2g.48gb": 1, "1g.24gb": 2}), ["g7e.2xlarge"], "al2023"),
        (mig({"1g.8gb": 99}), ["g7.2xlarge"], "al2023"),
        (mig({"1g.10gb": 7}), ["p5.48xlarge", "p4de.24xlarge"], "bottlerocket"),
        (mig({"3g.40gb": 2}), ["p5.48xlarge"], "bottlerocket"),
    ],
)
def test_accepts_what_the_gpus_can_do(sharing: Sharing, names: list[str], system: str) -> None:
    refuse_unless_shareable("node shape", sharing, types(*names), system)


@pytest.mark.parametrize(
    ("sharing", "names", "system", "message"),
    [
        (
            Mps(17),
            ["g6.xlarge", "p3dn.24xlarge"],
            "al2023",
            "sharing must have at most 16 MPS clients on 'p3dn.24xlarge', got 17; lower it",
        ),
        (
            TimeSlicing(2),
            ["g6.xlarge", "g6f.xlarge", "gr6f.4xlarge"],
            "al2023",
            "sharing must be Exclusive() on g6f.xlarge, gr6f.4xlarge, which has only a fraction of a GPU, got "
            "TimeSlicing; remove it",
        ),
        (
            Mps(2),
            ["g6f.xlarge"],
            "bottlerocket",
            "sharing must be Exclusive() on g6f.xlarge, which has only a fraction of a GPU, got Mps; remove it",
        ),
        (
            mig({"1g.5gb": 1}),
            ["g6f.xlarge"],
            "al2023",
            "sharing must be Exclusive() on g6f.xlarge, which has only a fraction of a GPU, got Mig; remove it",
        ),
        (
            mig({"1g.10gb": 1}),
            ["p5.48xlarge", "g6.xlarge"],
            "al2023",
            "sharing must not be Mig on 'g6.xlarge', because L4 doesn't support it, got Mig; write TimeSlicing(4)",
        ),
        (
            mig({"1g.12gb": 1}),
            ["g7.2xlarge", "p5.48xlarge"],
            "al2023",
            "sharing must have MIG profiles of 'p5.48xlarge', 1g.10gb, 1g.10gb+me, 1g.20gb, 2g.20gb, 3g.40gb, "
            "4g.40gb, 7g.80gb, got '1g.12gb'; use '1g.10gb', which has as many compute slices",
        ),
        (
            mig({"1g.10gb": 8}),
            ["p5.48xlarge"],
            "al2023",
            "sharing must have at most 7 of '1g.10gb' on a GPU of 'p5.48xlarge', got 8; lower it",
        ),
        (
            mig({"3g.40gb": 2, "1g.10gb": 2}),
            ["p5.48xlarge"],
            "al2023",
            "sharing must use at most 7 compute slices on a GPU of 'p5.48xlarge', got 8 of "
            "{'3g.40gb': 2, '1g.10gb': 2}; remove instances",
        ),
        (
            mig({"2g.48gb": 1, "1g.24gb": 3}),
            ["g7e.2xlarge"],
            "al2023",
            "sharing must use at most 4 compute slices on a GPU of 'g7e.2xlarge', got 5 of "
            "{'2g.48gb': 1, '1g.24gb': 3}; remove instances",
        ),
        (
            mig({"3g.40gb": 1, "1g.10gb": 4}),
            ["p5.48xlarge"],
            "bottlerocket",
            "sharing must have one MIG profile on bottlerocket, got 3g.40gb, 1g.10gb; use al2023",
        ),
        (
            mig({"1g.23gb": 7}),
            ["p6-b200.48xlarge"],
            "bottlerocket",
            "sharing must not be Mig on bottlerocket for 'p6-b200.48xlarge', because no source states its "
            "name in Bottlerocket's settings, got Mig; use al2023",
        ),
        (
            mig({"1g.10gb": 4}),
            ["p4d.24xlarge", "p5.48xlarge"],
            "bottlerocket",
            "sharing must fill the GPU of 'p5.48xlarge' on bottlerocket, which creates 7 of '1g.10gb', got 4; write 7",
        ),
    ],
)
def test_refuses_what_the_gpus_cannot_do(sharing: Sharing, names: list[str], system: str, message: str) -> None:
    with pytest.raises(ValueError, match="node shape: ") as refused:
        refuse_unless_shareable("node shape", sharing, types(*names), system)

    assert str(refused.value) == f"node shape: {message}"
