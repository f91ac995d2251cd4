"""A nearest word is offered where something is near, and not where another number, version or id was meant."""

from __future__ import annotations

import pytest

from gpu_facts.refusals import (
    address_block,
    did_you_mean,
    has_token,
    is_token,
    refuse_unless_choice,
    refuse_unless_image,
)


@pytest.mark.parametrize(
    ("value", "known", "nearest"),
    [
        ("karpentr", ("cluster-autoscaler", "karpenter"), "karpenter"),
        ("SPOT", ("on-demand", "spot"), "spot"),
        ("Al2023", ("al2023", "bottlerocket"), "al2023"),
        ("maxnodes", ("min_nodes", "max_nodes"), "max_nodes"),
        ("g6.xlage", ("g6.xlarge", "g6e.xlarge"), "g6.xlarge"),
        # One digit too many, and two that changed places.
        ("H1000", ("H100", "H200"), "H100"),
        ("GPU102", ("GPU120", "GPU103"), "GPU120"),
        ("3g.40g", ("3g.20gb", "3g.40gb"), "3g.40gb"),
    ],
)
def test_a_slip_has_a_nearest_word(value: str, known: tuple[str, ...], nearest: str) -> None:
    assert did_you_mean(value, known) == f"; did you mean {nearest!r}?"


@pytest.mark.parametrize(
    ("value", "known"),
    [
        ("GPU999", ("GPU259", "GPU199", "GPU099")),
        ("1.30", ("1.33", "1.36")),
        ("1g.12gb", ("1g.10gb", "1g.20gb")),
        ("us-east-1a", ("us-east-2a",)),
        ("zebra", ("on-demand", "spot")),
        ("", ("on-demand", "spot")),
        ("spot", ()),
    ],
)
def test_nothing_is_offered_where_nothing_is_near(value: str, known: tuple[str, ...]) -> None:
    assert did_you_mean(value, known) == ""


def test_the_nearest_is_offered_that_is_no_other_number() -> None:
    assert did_you_mean("g6.13xlarge", ("g6.12xlarge", "g6.3xlarge")) == "; did you mean 'g6.3xlarge'?"


def test_what_is_no_word_has_no_nearest() -> None:
    with pytest.raises(ValueError, match=r"^pool: kind must be one of a, b, got 3$"):
        refuse_unless_choice("pool", "kind", 3, ("a", "b"))


@pytest.mark.parametrize(
    ("block", "hint"),
    [
        ("203.0.113.7", "; did you mean '203.0.113.7/32'?"),
        ("203.0.113.7/24", "; did you mean '203.0.113.0/24'?"),
        ("2001:db8::1/64", "; did you mean '2001:db8::/64'?"),
        ("203.0.113.0/33", ""),
        ("300.0.0.0/8", ""),
        ("everybody", ""),
        ("", ""),
    ],
)
def test_what_is_no_address_block_is_refused_in_our_words(block: str, hint: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the whole message is compared
        address_block("pool", "cidr", block, example="203.0.113.0/24")

    assert str(refused.value) == f"pool: cidr must be an address block such as '203.0.113.0/24', got {block!r}{hint}"


@pytest.mark.parametrize("block", ["203.0.113.0/24", "0.0.0.0/0", "203.0.113.7/32", "2001:db8::/64", "2001:DB8::/64"])
def test_an_address_block_is_taken(block: str) -> None:
    assert str(address_block("pool", "cidr", block, example="203.0.113.0/24")) == block.lower()


@pytest.mark.parametrize("text", ["${Token[TOKEN.7]}", "arn:${Token[AWS.Partition.11]}:sns:us-east-1:1:${Token[T.1]}"])
def test_what_cdk_writes_is_a_token(text: str) -> None:
    assert is_token(text)


@pytest.mark.parametrize(
    "text",
    [
        "x${Token[a",
        "${Token[a\n]}",
        "${Token[]}",
        "${Token[nothing]}",
        "${Token[TOKEN.7]}\n[settings.host-containers.admin]",
        '${Token[TOKEN.7]}"',
        "v1}}{{resolve:secretsmanager:prod/db}}{{${Token[TOKEN.7]}",
        "plain",
    ],
)
def test_what_only_looks_like_a_token_is_none(text: str) -> None:
    assert not is_token(text)


def test_a_token_is_found_wherever_it_is() -> None:
    assert has_token("${Token[TOKEN.7]}\n[settings]")
    assert not has_token("${Token[nothing]} x${Token[a")


def test_an_image_that_only_looks_like_a_token_is_refused() -> None:
    with pytest.raises(ValueError, match=r"image must end in a tag"):
        refuse_unless_image("pod", "image", "x${Token[a")
