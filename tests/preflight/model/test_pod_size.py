"""A pod's size is the max that runs at one time, and the API server rejects some sizes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_preflight.model.container import (
    Container,
    HostPort,
    Port,
    host_ports,
    invalid,
    is_extended,
    ports_clash,
    requests,
)
from gpu_preflight.reading.unknown import Unknown

EXAMPLES = settings(max_examples=100)
LATER = Unknown("${Later}")
AMOUNTS = st.dictionaries(st.sampled_from(("cpu", "memory", "nvidia.com/gpu")), st.integers(0, 9), max_size=3)
CONTAINERS = st.lists(st.builds(Container, st.just("main"), asked=AMOUNTS), max_size=3)
INIT_CONTAINERS = st.lists(st.builds(Container, st.just("first"), asked=AMOUNTS, sidecar=st.booleans()), max_size=4)


def together(containers: list[Container], name: str) -> int:
    return sum(each.requests.get(name, 0) for each in containers)


def most_at_one_time(containers: list[Container], before: list[Container], name: str) -> int:
    """Sidecars stay once they run; every other init container is gone before the next one starts."""
    moments = [[*(each for each in before if each.sidecar), *containers]]
    for number, each in enumerate(before):
        moments.append([*(other for other in before[:number] if other.sidecar), each])
    return max(together(moment, name) for moment in moments)


@EXAMPLES
@given(CONTAINERS, INIT_CONTAINERS)
def test_a_pod_asks_for_the_most_that_runs_at_one_time(containers: list[Container], before: list[Container]) -> None:
    found = requests(containers, before, {}, {})

    named = {name for each in (*containers, *before) for name in each.requests}
    expected = {name: most_at_one_time(containers, before, name) for name in named}
    assert found == {**expected, "pods": 1}


@EXAMPLES
@given(CONTAINERS, AMOUNTS, AMOUNTS)
def test_what_the_whole_pod_says_goes_before_the_sum_and_its_runtime_comes_on_top(
    containers: list[Container], whole: dict[str, int], overhead: dict[str, int]
) -> None:
    found = requests(containers, [], whole, overhead)

    for name in ("cpu", "memory", "nvidia.com/gpu"):
        said = whole.get(name, together(containers, name))
        assert found.get(name, 0) == said + overhead.get(name, 0)


def test_a_containers_request_for_pods_is_added_to_the_pod_itself() -> None:
    assert requests([Container("main", asked={"pods": 2})], [], {}, {}) == {"pods": 3}


@pytest.mark.parametrize(
    ("name", "extended"),
    [
        ("nvidia.com/gpu", True),
        ("example.com/kubernetes.io/a", True),
        ("kubernetes.io/batch", False),
        ("cpu", False),
        ("hugepages-2Mi", False),
    ],
)
def test_extended_resources_have_a_domain_that_is_not_kubernetes_own(name: str, extended: bool) -> None:
    assert is_extended(name) is extended


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("cpu", "1", None),
        ("cpu", 0.5, None),
        ("cpu", 0, None),
        ("cpu", LATER, None),
        ("cpu", "lots", "'lots' isn't a quantity"),
        ("cpu", True, "True isn't a quantity"),
        ("cpu", None, None),
        ("nvidia.com/gpu", None, None),
        ("cpu", ["1"], "['1'] isn't a quantity"),
        ("cpu", "-1m", "'-1m' is below 0"),
        ("memory", "1.5", None),
        ("nvidia.com/gpu", "1", None),
        ("nvidia.com/gpu", "1k", None),
        ("nvidia.com/gpu", "1500m", "'1500m' isn't a whole number"),
        ("nvidia.com/gpu", 0.5, "0.5 isn't a whole number"),
        ("nvidia.com/gpu", "-0.5", "'-0.5' isn't a whole number"),
        ("nvidia.com/gpu", -1, "-1 is below 0"),
    ],
)
def test_quantities_that_the_api_server_refuses(name: str, value: Any, why: str | None) -> None:
    for part, container in (
        ("limits", Container("main", limits={name: value})),
        ("requests", Container("main", asked={name: value})),
    ):
        assert invalid([container]) == ([] if why is None else [f"{part} {name}: {why}"])


def test_every_wrong_amount_of_every_container_is_reported_limits_first() -> None:
    wrong = Container("a", limits={"cpu": "x", "memory": "1"}, asked={"memory": "y"})

    assert invalid([wrong, Container("b", limits=LATER), Container("c", limits={"cpu": "z"})]) == [
        "limits cpu: 'x' isn't a quantity",
        "requests memory: 'y' isn't a quantity",
        "limits cpu: 'z' isn't a quantity",
    ]


@pytest.mark.parametrize(
    ("name", "asked", "limit", "found"),
    [
        ("nvidia.com/gpu", 1, 1, []),
        ("nvidia.com/gpu", "1", 1, []),
        (
            "nvidia.com/gpu",
            1,
            2,
            ["the request of nvidia.com/gpu is 1 and its limit is 2; they must be equal"],
        ),
        ("nvidia.com/gpu", LATER, 2, []),
        ("nvidia.com/gpu", 1, LATER, []),
        ("cpu", 1, 2, []),
        ("kubernetes.io/batch", 1, 2, []),
    ],
)
def test_a_device_is_requested_as_often_as_it_is_limited(name: str, asked: Any, limit: Any, found: list[str]) -> None:
    assert invalid([Container("main", asked={name: asked}, limits={name: limit})]) == found


def test_a_device_that_is_limited_only_need_not_be_requested() -> None:
    assert invalid([Container("main", limits={"nvidia.com/gpu": 2}, asked={"cpu": 1})]) == []


@pytest.mark.parametrize(
    ("port", "host_network", "found"),
    [
        (Port(81, 80, None, None), False, ("0.0.0.0", "TCP", 80)),
        (Port(81, 80, None, None), True, ("0.0.0.0", "TCP", 80)),
        (Port(81, None, None, None), True, ("0.0.0.0", "TCP", 81)),
        (Port(81, None, None, None), False, None),
        (Port(81, 0, None, None), False, None),
        (Port(81, LATER, None, None), False, None),
        (Port(None, None, None, None), True, None),
        (Port(81, "80", "10.0.0.1", "UDP"), False, ("10.0.0.1", "UDP", 80)),
        (Port(81, 80, LATER, LATER), False, ("0.0.0.0", "TCP", 80)),
    ],
)
def test_which_port_of_the_node_a_container_takes(port: Port, host_network: bool, found: HostPort | None) -> None:
    taken = host_ports([Container("main", ports=(port,))], host_network=host_network)

    assert taken == (frozenset() if found is None else {found})


def test_all_ports_of_all_containers_are_taken() -> None:
    containers = [
        Container("a", ports=(Port(1, None, None, None), Port(2, 2, None, None), Port(3, 3, None, None))),
        Container("b", ports=(Port(4, 4, None, None),)),
    ]

    assert {number for *_, number in host_ports(containers, host_network=False)} == {2, 3, 4}


ADDRESSES = ("0.0.0.0", "10.0.0.1", "10.0.0.2")
PORTS = st.tuples(st.sampled_from(ADDRESSES), st.sampled_from(("TCP", "UDP")), st.sampled_from((80, 81)))


@EXAMPLES
@given(st.lists(PORTS, max_size=3), st.lists(PORTS, max_size=3))
def test_ports_clash_in_one_number_of_one_protocol_on_one_address_or_on_every(
    left: list[HostPort], right: list[HostPort]
) -> None:
    def listens(ports: list[HostPort], address: str) -> set[HostPort]:
        return {(address, *rest) for own, *rest in ports if own in (address, "0.0.0.0")}  # type: ignore[misc]

    clash = any(listens(left, address) & listens(right, address) for address in ADDRESSES)

    assert ports_clash(left, right) is ports_clash(right, left) is clash
