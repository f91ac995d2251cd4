"""How large a NodePool can become, on both sides of each limit, and the errors and notes about it, without a stack."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_constructs.autoscaling import node_pool
from gpu_constructs.autoscaling.node_pool import Network, NodePool, label_requirement, node_taints, place
from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.pools.capacity import CapacityBlock, OnDemand, Reservation, Spot
from gpu_constructs.pools.disruption import Disruption
from gpu_constructs.pools.kubelet import GPU_TAINT, Taint
from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.pools.sharing import TimeSlicing
from gpu_constructs.pools.size import Static, UpTo
from gpu_facts.hardware.catalogue import instance_type

EXAMPLES = settings(max_examples=100)
WHO = "Test/Pool"
L4 = NodeShape(instance_types=("g6.xlarge",))
MIXED = NodeShape(instance_types=("g6.12xlarge", "g6.xlarge"))
H100 = NodeShape(instance_types=("p5.48xlarge",))
A = Reservation(availability_zone="us-east-1a", id="cr-01000000000000000")
B = Reservation(availability_zone="us-east-1b", id="cr-02000000000000000")


def block(instances: int = 4, id: str = "cr-03000000000000000") -> CapacityBlock:
    """A capacity block that has always ended by now."""
    starts, ends = (datetime(2026, 1, day, tzinfo=timezone.utc) for day in (1, 2))
    return CapacityBlock(id=id, availability_zone="us-east-1a", starts=starts, ends=ends, instances=instances)


def spec(**changes: Any) -> NodePool:
    """A pool of at most 8 L4, with ``changes`` applied."""
    says: dict[str, Any] = {"name": "l4", "shape": L4, "capacity": OnDemand(), "size": UpTo(gpus=8), "disruption": None}
    return NodePool.from_arguments(WHO, **says | changes)


def static(nodes: int = 2, spare: int | None = None, **changes: Any) -> NodePool:
    return spec(size=Static(nodes=nodes, spare=spare), **changes)


@EXAMPLES
@given(st.integers(0, 20), st.one_of(st.none(), st.integers(0, 5)), st.booleans())
def test_a_static_pool_has_its_nodes_and_what_replaces_one(nodes: int, spare: int | None, reserved: bool) -> None:
    made = static(nodes, spare, capacity=A if reserved else OnDemand())

    above = spare if spare is not None else 0 if reserved else 1
    assert made.max_nodes == nodes + above
    assert made.to_size() == {"replicas": nodes, "limits": {"nodes": str(nodes + above)}}


def test_the_manifest_has_the_labels_the_nodes_and_the_size() -> None:
    made = spec(disruption=Disruption.training())

    assert made.to_manifest(labels={"team": "a"}, nodes={"taints": []}) == {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "l4"},
        "spec": {
            "template": {"metadata": {"labels": {"team": "a"}}, "spec": {"taints": []}},
            "limits": {"nvidia.com/gpu": "8"},
            "disruption": Disruption.training().to_manifest(),
        },
    }


def test_of_several_ways_of_buying_one_that_is_not_counted_leaves_a_spare_node() -> None:
    assert static(2, capacity=(A, OnDemand())).max_nodes == 3
    assert static(2, capacity=(A, B)).max_nodes == 2


@EXAMPLES
@given(st.integers(1, 64), st.sampled_from(("g6.xlarge", "g6.12xlarge", "g6.48xlarge")))
def test_a_pool_has_no_more_nodes_than_its_gpus_fill(gpus: int, name: str) -> None:
    each = instance_type(name).gpus
    shape = NodeShape(instance_types=(name,))

    if gpus < each:
        with pytest.raises(ValueError, match=f"size.gpus must be at least {each}, got {gpus}"):
            spec(shape=shape, size=UpTo(gpus=gpus))
    else:
        made = spec(shape=shape, size=UpTo(gpus=gpus))
        assert isinstance(made.max_nodes, int)
        assert made.max_nodes * each <= gpus < (made.max_nodes + 1) * each
        assert made.to_size() == {"limits": {"nvidia.com/gpu": str(gpus)}}


@EXAMPLES
@given(
    st.integers(4, 64),
    st.sampled_from(("vcpus", "memory_gib")),
    st.lists(st.sampled_from(("g6.xlarge", "g6.12xlarge", "g6.16xlarge", "g6e.xlarge")), min_size=1, unique=True),
)
def test_vcpus_and_memory_never_bind_before_the_gpus(gpus: int, argument: str, names: list[str]) -> None:
    rows = [instance_type(name) for name in names]
    least = int(max(getattr(row, argument) * (gpus // row.gpus) for row in rows))
    shape = NodeShape(instance_types=names)

    nearest, below = (UpTo(**{"gpus": gpus, argument: number}) for number in (least, least - 1))
    assert spec(shape=shape, size=nearest).size == nearest
    with pytest.raises(
        ValueError, match=f"{WHO}: size.{argument} must be at least {least}, got {least - 1}"
    ) as refused:
        spec(shape=shape, size=below)
    assert str(refused.value).endswith(f"; raise it, because {gpus} GPUs of the pool need it")


def test_of_figures_that_no_source_states_none_binds() -> None:
    row = replace(instance_type("g6.xlarge"), name="g9.xlarge", vcpus=None, memory_mib=None)
    shape = NodeShape(instance_types=(row,))

    size = UpTo(gpus=8, vcpus=0, memory_gib=0)
    assert spec(shape=shape, size=size).size == size


@pytest.mark.parametrize(
    ("made", "size"),
    [
        (spec(), {"limits": {"nvidia.com/gpu": "8"}}),
        (spec(size=UpTo(gpus=8, weight=100)), {"limits": {"nvidia.com/gpu": "8"}, "weight": 100}),
        (spec(size=UpTo(gpus=8, weight=1)), {"limits": {"nvidia.com/gpu": "8"}, "weight": 1}),
        (spec(size=UpTo(gpus=8, vcpus=32)), {"limits": {"nvidia.com/gpu": "8", "cpu": "32"}}),
        (spec(size=UpTo(gpus=8, memory_gib=128)), {"limits": {"nvidia.com/gpu": "8", "memory": "128Gi"}}),
        (
            spec(shape=NodeShape(instance_types=("g6.xlarge",), sharing=TimeSlicing(4))),
            {"limits": {"nvidia.com/gpu.shared": "32"}},
        ),
        (static(0), {"replicas": 0, "limits": {"nodes": "1"}}),
    ],
)
def test_what_a_pool_says_of_its_size(made: NodePool, size: dict[str, Any]) -> None:
    assert made.to_size() == size


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"name": "L 4"}, ValueError, "name must be "),
        ({"shape": "g6.xlarge"}, TypeError, "shape must be a NodeShape, got 'g6.xlarge'"),
        ({"disruption": "never"}, TypeError, "disruption must be a Disruption, got 'never'"),
        ({"capacity": "spot"}, TypeError, "capacity must be OnDemand(), Spot(), "),
        ({"capacity": [Spot(), "spot"]}, TypeError, "capacity must be OnDemand(), Spot(), "),
        ({"capacity": []}, ValueError, "capacity must name at least one purchase option, got none"),
        (
            {"capacity": (Spot(), OnDemand(), Spot())},
            ValueError,
            f"capacity must differ, got {(Spot(), OnDemand(), Spot())!r}",
        ),
        (
            {"capacity": block()},
            ValueError,
            "capacity must be one that EC2 sells 'g6.xlarge' with, on-demand, spot, got CapacityBlock",
        ),
        (
            {"shape": NodeShape(instance_types=("g6.xlarge",), purpose="training"), "capacity": (OnDemand(), Spot())},
            ValueError,
            "capacity must not be Spot() if the shape's purpose is 'training', got Spot()",
        ),
        (
            {
                "capacity": (
                    OnDemand(),
                    Reservation(
                        availability_zone="us-east-1a",
                        resource_group_arn="arn:aws:resource-groups:us-east-1:111122223333:group/gpus",
                    ),
                )
            },
            ValueError,
            (
                "capacity must be a Reservation with id, got a resource group; write the id, because "
                "Karpenter selects by id"
            ),
        ),
        (
            {"shape": NodeShape(instance_types=("p6e-gb200.36xlarge",)), "capacity": block(), "size": UpTo(gpus=16)},
            ValueError,
            (
                "shape must have no UltraServer type, got 'p6e-gb200.36xlarge'; use a "
                "ManagedNodeGroup, because Karpenter doesn't support UltraServers"
            ),
        ),
        ({"size": 8}, TypeError, "size must be UpTo(gpus=8) or Static(nodes=2), got 8"),
        ({"size": None}, TypeError, "size must be UpTo(gpus=8) or Static(nodes=2), got None"),
        (
            {"size": UpTo(gpus=3), "shape": NodeShape(instance_types=("g6.12xlarge", "g6.24xlarge"))},
            ValueError,
            ("size.gpus must be at least 4, got 3; raise it, because the smallest of g6.12xlarge, g6.24xlarge has 4"),
        ),
        (
            {"size": UpTo(gpus=7), "shape": H100},
            ValueError,
            "size.gpus must be at least 8, got 7; raise it, because the smallest of p5.48xlarge has 8",
        ),
        (
            {"size": UpTo(gpus=8, memory_gib=127)},
            ValueError,
            "size.memory_gib must be at least 128, got 127; raise it, because 8 GPUs of the pool need it",
        ),
        (
            {"size": Static(nodes=5), "shape": H100, "capacity": block(4)},
            ValueError,
            "size must be at most the 4 instances of the Capacity Block, spare nodes included, got 5",
        ),
        (
            {"size": Static(nodes=4, spare=1), "shape": H100, "capacity": block(4)},
            ValueError,
            "size must be at most the 4 instances of the Capacity Block, spare nodes included, got 5",
        ),
        (
            {"size": Static(nodes=7), "shape": H100, "capacity": (block(4), block(2, "cr-04000000000000000"))},
            ValueError,
            "size must be at most the 6 instances of the Capacity Block, spare nodes included, got 7",
        ),
    ],
)
def test_refuses_pools(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as refused:
        spec(**changes)

    assert str(refused.value).startswith(f"{WHO}: {message}")


@pytest.mark.parametrize(
    "changes",
    [
        {"size": UpTo(gpus=1)},
        {"size": UpTo(gpus=1), "shape": MIXED},
        {"size": UpTo(gpus=8), "shape": H100},
        {"size": UpTo(gpus=8, weight=100)},
        {"size": UpTo(gpus=8, vcpus=32)},
        {"size": UpTo(gpus=8, memory_gib=128)},
        {"size": Static(nodes=0)},
        {"size": Static(nodes=0, spare=0)},
        {"size": Static(nodes=4), "shape": H100, "capacity": block(4)},
        {"size": Static(nodes=3, spare=1), "shape": H100, "capacity": block(4)},
        {"size": Static(nodes=6), "shape": H100, "capacity": (block(4), block(2, "cr-04000000000000000"))},
        {"size": Static(nodes=99), "shape": H100, "capacity": (block(4), OnDemand())},
        {"capacity": [A, Spot(), OnDemand()]},
        {"shape": NodeShape(instance_types=("g6.xlarge",), purpose="training"), "capacity": Spot(checkpointed=True)},
        {"disruption": Disruption(consolidation="WhenEmpty")},
    ],
)
def test_accepts_the_nearest_pool(changes: dict[str, Any]) -> None:
    made = spec(**changes)

    assert replace(made) == made
    assert isinstance(made.capacities, tuple)


TRAINING, INFERENCE = (NodeShape(instance_types=("g6.xlarge",), purpose=each) for each in ("training", "inference"))


@pytest.mark.parametrize(
    ("says", "profile"),
    [
        ({}, Disruption.training()),
        ({"shape": TRAINING}, Disruption.training()),
        ({"shape": INFERENCE}, Disruption.inference()),
        ({"shape": INFERENCE, "size": Static(nodes=2)}, Disruption.static()),
        ({"size": Static(nodes=0)}, Disruption.static()),
        ({"size": Static(nodes=2), "disruption": Disruption.inference()}, Disruption.inference()),
    ],
)
def test_nodes_are_removed_as_configured_or_as_their_pods_allow(says: dict[str, Any], profile: Disruption) -> None:
    assert spec(**says).disruption == profile


def test_a_pool_keeps_its_arguments() -> None:
    made = spec(capacity=[Spot(), OnDemand()])

    assert (made.name, made.shape, made.size) == ("l4", L4, UpTo(gpus=8))
    assert made.capacities == (Spot(), OnDemand())


@pytest.mark.parametrize(
    ("ways", "zone", "reservations", "bought"),
    [
        (OnDemand(), None, [], ["on-demand"]),
        ((Spot(), OnDemand()), None, [], ["spot", "on-demand"]),
        (A, "us-east-1a", ["cr-01000000000000000"], ["reserved"]),
        ((A, B), None, ["cr-01000000000000000", "cr-02000000000000000"], ["reserved"]),
        (
            (A, replace(A, id="cr-09000000000000000")),
            "us-east-1a",
            ["cr-01000000000000000", "cr-09000000000000000"],
            ["reserved"],
        ),
        ((A, OnDemand()), None, ["cr-01000000000000000"], ["reserved", "on-demand"]),
    ],
)
def test_where_and_how_instances_are_bought(ways: Any, zone: str | None, reservations: Any, bought: list[str]) -> None:
    made = spec(capacity=ways, shape=MIXED if isinstance(ways, OnDemand) else L4)

    assert made.zone == zone
    assert made.reservations == [{"id": each} for each in reservations]
    assert made.requirements() == [
        label_requirement("node.kubernetes.io/instance-type", made.shape.names),
        label_requirement("kubernetes.io/arch", ("amd64",)),
        label_requirement("karpenter.sh/capacity-type", bought),
        *([label_requirement("topology.kubernetes.io/zone", (zone,))] if zone else []),
    ]


def test_a_block_is_a_reservation_too() -> None:
    made = spec(capacity=(block(), OnDemand()), shape=H100)

    assert made.reservations == [{"id": "cr-03000000000000000"}]
    assert static(1, capacity=block(), shape=H100).max_nodes == 1


def test_a_requirement_is_spelled_as_kubernetes_does() -> None:
    assert label_requirement("a", ("b", "c")) == {"key": "a", "operator": "In", "values": ["b", "c"]}


def test_taints_are_spelled_as_kubernetes_does() -> None:
    shape = NodeShape(instance_types=("g6.xlarge",), taints=(Taint(key="team", value="a", effect="NoExecute"),))

    assert node_taints(shape) == {
        "taints": [
            {"key": GPU_TAINT.key, "value": GPU_TAINT.value, "effect": GPU_TAINT.effect},
            {"key": "team", "value": "a", "effect": "NoExecute"},
        ]
    }


class Place:
    """A cluster as far as a place in it goes: it keeps what it is asked."""

    security_group_ids = ClusterRef.security_group_ids

    def __init__(self, group: str | None = "sg-cluster") -> None:
        """Remember nothing yet."""
        self.security_group_id = group
        self.asked: list[Any] = []

    def subnets(self, given: Any, *, who: object, zone: str | None) -> list[Any]:
        """Return two subnets."""
        self.asked.append((given, who, zone))
        return [SimpleNamespace(subnet_id=f"subnet-{zone}-{number}") for number in (1, 2)]


def placed(made: NodePool, cluster: Place, monkeypatch: pytest.MonkeyPatch, **says: Any) -> tuple[Network, Any]:
    """Return the zones of the nodes, and the checks of the subnets that were requested."""
    seen: list[Any] = []
    monkeypatch.setattr(node_pool, "check_subnets", lambda *of, **what: seen.append((of, what)))
    given = {"subnets": None, "security_group_ids": None, **says}
    network = place(cast("Any", "pool"), made, who=WHO, cluster=cast("Any", cluster), **given)
    return network, seen


def test_nodes_start_in_the_subnets_of_the_cluster_behind_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, made = Place(), spec()

    network, [(of, checked)] = placed(made, cluster, monkeypatch)

    assert network == Network(subnet_ids=["subnet-None-1", "subnet-None-2"], security_group_ids=["sg-cluster"])
    assert of == ("pool",)
    assert [each.subnet_id for each in checked.pop("subnets")] == network.subnet_ids
    assert checked == {"who": WHO, "cluster": cluster, "shape": L4, "max_nodes": 8}


@pytest.mark.parametrize(
    ("ways", "zones"),
    [
        (OnDemand(), [None]),
        (A, ["us-east-1a"]),
        ((A, OnDemand()), ["us-east-1a", None]),
        ((A, B), ["us-east-1a", "us-east-1b", None]),
    ],
)
def test_each_reservation_finds_its_zone(ways: Any, zones: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Place()

    network, _ = placed(spec(capacity=ways), cluster, monkeypatch, subnets=["given"])

    assert {zone for _, _, zone in cluster.asked} == set(zones)
    assert len(cluster.asked) == len(zones)
    assert all(each[:2] == (["given"], WHO) for each in cluster.asked)
    assert network.subnet_ids == [f"subnet-{zones[-1]}-{number}" for number in (1, 2)]


@pytest.mark.parametrize(
    ("given", "group", "found"),
    [
        (["sg-1", "sg-2"], "sg-cluster", ["sg-1", "sg-2"]),
        (("sg-1",), None, ["sg-1"]),
        (None, "sg-cluster", ["sg-cluster"]),
    ],
)
def test_groups_are_those_given_or_the_clusters(
    given: Any, group: str | None, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    network, _ = placed(spec(), Place(group), monkeypatch, security_group_ids=given)

    assert network.security_group_ids == found


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (
            [],
            ValueError,
            ("security_group_ids must name at least one group, got none; leave it out to use the cluster's group"),
        ),
        ("sg-1", TypeError, "security_group_ids must be a list of names, got 'sg-1'; write ['sg-1']"),
        (
            None,
            ValueError,
            "security_group_ids must be given when the cluster was imported without cluster_security_group_id, got "
            "None; pass that to from_cluster_attributes, or the ids here",
        ),
    ],
)
def test_refuses_pools_behind_no_group(
    given: Any, error: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Place(None)

    with pytest.raises(error) as refused:
        placed(spec(), cluster, monkeypatch, security_group_ids=given)

    assert str(refused.value) == f"{WHO}: {message}"
