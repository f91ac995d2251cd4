"""A class, or a value of another kind, is rejected with the value to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks

import gpu_constructs
from gpu_constructs import (
    AutoMode,
    CapacityBlock,
    GpuCluster,
    ManagedNodeGroup,
    Mig,
    NodeShape,
    OnDemand,
    Reservation,
    Spot,
    Static,
    SystemNodes,
    TimeSlicing,
    UpTo,
)
from gpu_constructs.pools.size import refuse_unless_size
from gpu_facts.hardware.gpu_models import PROFILES
from gpu_facts.refusals import refuse_unless_instance


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"system_nodes": AutoMode()},
            "system_nodes must be SystemNodes(), got AutoMode(node_pools=('system', 'general-purpose')); "
            "write auto_mode=AutoMode(), which also runs pods without GPUs",
        ),
        ({"system_nodes": SystemNodes}, "system_nodes must be SystemNodes(), got the class SystemNodes; write "),
        ({"auto_mode": True}, "auto_mode must be AutoMode(), got True; write AutoMode()"),
        ({"auto_mode": False}, "auto_mode must be AutoMode(), got False; leave it out"),
        (
            {"auto_mode": SystemNodes()},
            "auto_mode must be AutoMode(), got SystemNodes(...); write system_nodes=SystemNodes(...)",
        ),
        (
            {"auto_mode": SystemNodes},
            "auto_mode must be AutoMode(), got the class SystemNodes; write system_nodes=SystemNodes(...)",
        ),
        (
            {"version": "1.36"},
            "argument must be one that GpuCluster accepts, got 'version'; did you mean 'kubernetes_version'?",
        ),
        *(
            ({"compute": value}, f"argument must be one that GpuCluster accepts, got 'compute'; write {argument}=...")
            for value, argument in (
                (AutoMode(), "auto_mode"),
                (AutoMode, "auto_mode"),
                (SystemNodes(), "system_nodes"),
            )
        ),
    ],
)
def test_what_a_cluster_does_not_accept(stack: cdk.Stack, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError) as refused:
        GpuCluster(stack, "Lab", **changes)

    assert str(refused.value).startswith(f"Test/Lab: {message}")


def test_a_cluster_in_auto_mode_names_system_nodes_by_their_class(stack: cdk.Stack) -> None:
    with pytest.raises(ValueError, match="system_nodes must be left out with auto_mode") as refused:
        GpuCluster(stack, "Lab", auto_mode=AutoMode(), system_nodes=SystemNodes())

    assert str(refused.value) == (
        "Test/Lab: system_nodes must be left out with auto_mode, because EKS Auto Mode provides its own, got "
        "SystemNodes(...); remove system_nodes, or remove auto_mode to run node groups instead"
    )


@pytest.mark.parametrize(
    ("changes", "fix"),
    [
        ({"max_node": 2}, "got 'max_node'; did you mean 'max_nodes'?"),
        ({"buy": Spot()}, "got 'buy'; write capacity=..."),
        ({"limit": UpTo(gpus=8)}, "got 'limit'; write size=..."),
        ({"limit": UpTo(gpus=8), "size": None}, "got 'limit'"),
    ],
)
def test_the_argument_of_add_pool_that_was_meant(stack: cdk.Stack, changes: dict[str, Any], fix: str) -> None:
    with pytest.raises(TypeError) as refused:
        GpuCluster(stack, "Lab").add_pool("l4", "g6.xlarge", **changes)

    rule = "argument must be one of name, shape, " if fix == "got 'limit'" else "argument must be one that add_pool acc"
    assert str(refused.value).startswith(f"Test/Lab.add_pool: {rule}")
    assert str(refused.value).endswith(fix)


@pytest.mark.parametrize(
    ("capacity", "fix"),
    [
        (Spot, "got the class Spot; write Spot()"),
        (Reservation, "got the class Reservation; write Reservation(...)"),
        ("spot", "got 'spot'; write Spot()"),
        (dict, "got the class dict"),
        (
            [Spot, OnDemand],
            "got [the class Spot, the class OnDemand]; write Spot(); "
            "only pools of Karpenter and Auto Mode accept a list",
        ),
        (
            (Reservation,),
            "got [the class Reservation]; write Reservation(...); only pools of Karpenter and Auto Mode accept a list",
        ),
        ([OnDemand()], "got [OnDemand()]; only pools of Karpenter and Auto Mode accept a list"),
        ([], "got []; only pools of Karpenter and Auto Mode accept a list"),
    ],
)
def test_a_capacity_is_a_value(stack: cdk.Stack, cluster: eks.ICluster, capacity: Any, fix: str) -> None:
    shape = NodeShape(instance_types=("g6.xlarge",))

    with pytest.raises(TypeError) as refused:
        ManagedNodeGroup(stack, "L4", cluster=cluster, name="l4", shape=shape, max_nodes=1, capacity=capacity)

    assert str(refused.value) == (
        f"Test/L4: capacity must be OnDemand(), Spot(), Reservation(...) or CapacityBlock(...), {fix}"
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: refuse_unless_size("pool", UpTo),
            "pool: size must be UpTo(gpus=8) or Static(nodes=2), got the class UpTo; write UpTo(gpus=8)",
        ),
        (
            lambda: NodeShape(instance_types=("g6.xlarge",), sharing=TimeSlicing),  # type: ignore[arg-type]
            "node shape: sharing must be Exclusive(), TimeSlicing(4), Mps(4) or Mig(geometry={...}), "
            "got the class TimeSlicing; write TimeSlicing(4)",
        ),
        (
            lambda: UpTo(nodes=3),  # type: ignore[call-arg]
            "UpTo: argument must be one of gpus, vcpus, memory_gib, weight, got 'nodes'; Static has 'nodes': "
            "A fixed number of nodes, with or without pods",
        ),
        (
            lambda: Static(gpus=8),  # type: ignore[call-arg]
            "Static: argument must be one of nodes, spare, got 'gpus'; UpTo has 'gpus': "
            "As many nodes as pods request, from zero, up to a number of GPUs",
        ),
        (
            lambda: Mig("1g.10gb"),  # type: ignore[call-arg, arg-type]
            "Mig: arguments must be named, got '1g.10gb'; write Mig(geometry={'1g.10gb': 4})",
        ),
        (
            lambda: Mig({"1g.10gb": 7}),  # type: ignore[call-arg]
            "Mig: arguments must be named, got {'1g.10gb': 7}; write Mig(geometry={'1g.10gb': 7})",
        ),
        (
            lambda: Mig(profile="1g.10gb"),  # type: ignore[call-arg]
            "Mig: argument must be one of geometry, got 'profile'; write Mig(geometry={'1g.10gb': 4})",
        ),
        (
            lambda: Mig(profiles={"1g.10gb": 7}),  # type: ignore[call-arg]
            "Mig: argument must be one of geometry, got 'profiles'; write geometry=...; it means: Instances of each "
            'profile on one GPU, e.g. {"1g.10gb": 7} or {"3g.40gb": 1, "1g.10gb": 4}',
        ),
        (
            lambda: UpTo(max_nodes=3),  # type: ignore[call-arg]
            "UpTo: argument must be one of gpus, vcpus, memory_gib, weight, got 'max_nodes'; write gpus=...; "
            "it means: Max GPUs in the pool, in whole devices",
        ),
        (
            lambda: Reservation(reservation_id="cr-0123456789abcdef0"),  # type: ignore[call-arg]
            "Reservation: argument must be one of availability_zone, id, resource_group_arn, got 'reservation_id'; "
            "did you mean 'id'?",
        ),
        *(
            (
                lambda types=types: NodeShape(instance_types=types),
                "node shape: instance_types must contain EC2 names such as 'g6.xlarge', got <InstanceType>; "
                "write 'g5.xlarge'",
            )
            for types in (ec2.InstanceType("g5.xlarge"), [ec2.InstanceType("g5.xlarge")])
        ),
    ],
)
def test_the_fix_is_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(TypeError) as refused:
        make()

    assert str(refused.value) == message


@pytest.mark.parametrize("profile", sorted({each for profiles in PROFILES.values() for each in profiles}))
def test_the_fix_for_a_profile_is_accepted_by_every_gpu_that_has_it(profile: str) -> None:
    with pytest.raises(TypeError) as refused:
        Mig(geometry=profile)  # type: ignore[arg-type]

    fix = eval(str(refused.value).rpartition("; write ")[2], {"Mig": Mig})
    [(named, number)] = fix.geometry.items()
    assert named == profile
    assert all(number <= profiles[profile] for profiles in PROFILES.values() if profile in profiles)


@pytest.mark.parametrize(
    ("given", "meant"), [("1g.5gb", "1g.10gb"), ("3g.20gb", "3g.40gb"), ("1g.5gb+me", "1g.10gb+me")]
)
def test_a_profile_of_another_gpu_has_as_many_slices(given: str, meant: str) -> None:
    with pytest.raises(
        ValueError, match=f"got '{given}'; use '{meant}', which has as many compute slices".replace("+", r"\+")
    ):
        NodeShape(instance_types=("p5.48xlarge",), sharing=Mig(geometry={given: 1}))


@pytest.mark.parametrize(
    "id",
    [
        "cr-1",
        "cr-0123456789abcdef",
        "cr-0123456789abcdef01",
        "cr-0123456789abcdefg",
        "CR-0123456789abcdef0",
        "cr-",
        "1",
    ],
)
def test_an_id_that_ec2_gives_to_no_reservation(id: str) -> None:
    with pytest.raises(ValueError, match=f"reservation: id must be 'cr-' and 17 hexadecimal digits, got '{id}'; list"):
        Reservation(availability_zone="us-east-1a", id=id)


LIST_THEM = "list yours with 'aws ec2 describe-capacity-reservations'"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Reservation(id="cr-1"),  # type: ignore[call-arg]
            f"Reservation: id must be 'cr-' and 17 hexadecimal digits, got 'cr-1'; {LIST_THEM}; availability_zone must "
            "be given, got none; it means: Zone of the reservation, e.g. us-east-1a",
        ),
        (
            lambda: CapacityBlock(id="cr-1"),  # type: ignore[call-arg]
            f"CapacityBlock: id must be 'cr-' and 17 hexadecimal digits, got 'cr-1'; {LIST_THEM}; availability_zone, "
            "starts, ends and instances must be given, got none",
        ),
        (
            lambda: Reservation(id="cr-0123456789abcdef0"),  # type: ignore[call-arg]
            "Reservation: availability_zone must be given, got none; it means: Zone of the reservation, e.g. "
            "us-east-1a",
        ),
        (
            lambda: Reservation("cr-0123456789abcdef0"),  # type: ignore[call-arg]
            "Reservation: arguments must be named, got 'cr-0123456789abcdef0'; "
            "write Reservation(id='cr-0123456789abcdef0', availability_zone=...)",
        ),
        (
            lambda: Reservation("us-east-1a"),  # type: ignore[call-arg]
            "Reservation: arguments must be named, got 'us-east-1a'; write Reservation(availability_zone='us-east-1a')",
        ),
    ],
)
def test_a_reservation_that_was_not_made(make: Callable[[], object], message: str) -> None:
    with pytest.raises(TypeError) as refused:
        make()

    assert str(refused.value) == message


def test_ids_of_reservations(stack: cdk.Stack) -> None:
    parameter = cdk.CfnParameter(stack, "Reserved").value_as_string

    for id in ("cr-0123456789abcdef0", "cr-0123abcd", parameter):
        assert Reservation(availability_zone="us-east-1a", id=id).id == id


def test_a_name_in_another_case_is_found() -> None:
    with pytest.raises(
        ImportError, match=r"^cannot import name 'GPUCluster' from 'gpu_constructs'; did you mean 'GpuC"
    ):
        from gpu_constructs import GPUCluster  # type: ignore[attr-defined]  # noqa: F401
    assert not hasattr(gpu_constructs, "GpuClusters")


def test_an_object_without_a_text_is_shown_by_its_type() -> None:
    with pytest.raises(TypeError, match=r"^pool: size must be UpTo\(gpus=8\), got <object>$"):
        refuse_unless_instance("pool", "size", object(), UpTo, "UpTo(gpus=8)")
