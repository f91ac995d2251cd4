"""A cluster's singletons: the first user creates one, order doesn't matter, and only one can claim it."""

from __future__ import annotations

import pytest

from gpu_constructs.installing.registry import Claims, DeferredPairing, Singleton


def test_the_first_makes_it_and_the_others_get_it() -> None:
    role: Singleton[list[str]] = Singleton()

    first = role.get_or_make(list)

    assert role.get_or_make(list) is first
    assert role.instance is first


def test_without_a_user_the_singleton_is_not_made() -> None:
    assert Singleton[str]().instance is None


@pytest.mark.parametrize("before", [0, 1, 2, 3])
def test_every_caller_is_served_in_any_order(before: int) -> None:
    meeting: DeferredPairing[str] = DeferredPairing()
    served: list[str] = []
    guests = ["exclusive", "mps-2", "time-slicing-4"]

    for guest in guests[:before]:
        meeting.ask(guest)
    meeting.serve(served.append)
    for guest in guests[before:]:
        meeting.ask(guest)

    assert served == guests


def test_who_asks_twice_is_served_once() -> None:
    meeting: DeferredPairing[str] = DeferredPairing()
    served: list[str] = []

    meeting.ask("mps-2")
    meeting.ask("mps-2")
    meeting.serve(served.append)
    meeting.ask("mps-2")

    assert served == ["mps-2"]


def test_who_is_served_may_bring_another() -> None:
    meeting: DeferredPairing[str] = DeferredPairing()
    served: list[str] = []

    def serve(asker: str) -> None:
        served.append(asker)
        meeting.ask("friend")

    meeting.ask("first")
    meeting.serve(serve)

    assert served == ["first", "friend"]


def test_a_claim_is_for_one() -> None:
    claims: Claims[str] = Claims()

    claims.claim("Test/A", "device manager", why="two advertise every GPU twice")

    assert claims.holder("device manager") == "Test/A"
    assert claims.holder("Karpenter") is None
    message = (
        "Test/B: cluster must have one device manager, got a second one next to 'Test/A'; remove one, because two "
        "advertise every GPU twice"
    )
    with pytest.raises(ValueError, match=f"^{message}$"):
        claims.claim("Test/B", "device manager", why="two advertise every GPU twice")
    claims.claim("Test/B", "Karpenter", why="it is another thing")


def test_a_part_of_the_holder_shares_its_claim() -> None:
    claims: Claims[str] = Claims()
    claims.claim("Test/A", "pool named 'l4'", why="pods select by it")

    claims.claim("Test/A/us-east-1a", "pool named 'l4'", why="pods select by it")

    assert claims.holder("pool named 'l4'") == "Test/A"
    with pytest.raises(ValueError, match=r"^Test/AB: cluster must have one pool named 'l4'"):
        claims.claim("Test/AB", "pool named 'l4'", why="pods select by it")


def test_beside_what_was_brought_the_fix_is_to_come_first() -> None:
    claims: Claims[str] = Claims()
    claims.claim("Test/Gpu/Plugin", "device manager", why="two advertise every GPU twice")
    claims.bring("device manager")

    with pytest.raises(
        ValueError,
        match=r"; create yours before the first add_pool, which then uses it, because two advertise every GPU twice$",
    ):
        claims.claim("Test/Mine", "device manager", why="two advertise every GPU twice")
