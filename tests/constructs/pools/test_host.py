"""Host rejects values that EC2 would reject, and permissions that are broader than they look."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_constructs import NodeShape
from gpu_constructs.pools import Host

GROUPS = tuple(f"sg-{number:017x}" for number in range(16))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"security_group_ids": "sg-0a1b2c3d"}, TypeError, r"must be a list of names, got 'sg-0a1b2c3d'; write \["),
        ({"security_group_ids": 1}, TypeError, r"must be a list of ids, got 1; pass \[group.security_group_id\]"),
        (
            {"security_group_ids": ("default",)},
            ValueError,
            "must contain ids such as 'sg-0123456789abcdef0', got 'default'; pass group.security_group_id",
        ),
        ({"security_group_ids": GROUPS[:1] * 2}, ValueError, r"security_group_ids must differ"),
        ({"security_group_ids": GROUPS}, ValueError, r"security_group_ids must be at most 15, got 16"),
        ({"metadata_hop_limit": 0}, ValueError, r"metadata_hop_limit must be at least 1, got 0"),
        ({"metadata_hop_limit": 3}, ValueError, r"metadata_hop_limit must be 1, or 2 for pods that .*, got 3"),
        ({"metadata_hop_limit": True}, TypeError, r"metadata_hop_limit must be a whole number, got True"),
        ({"session_manager": "yes"}, TypeError, r"session_manager must be True or False, got 'yes'"),
    ],
)
def test_refuses(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"host: .*{message}"):
        Host(**changes)


@pytest.mark.parametrize(
    "says",
    [
        {"security_group_ids": list(GROUPS[:15])},
        {"security_group_ids": ("sg-0a1b2c3d", "${Token[Fn::GetAtt.12]}")},
        {"metadata_hop_limit": 2},
    ],
)
def test_accepts_the_nearest(says: dict[str, Any]) -> None:
    assert Host(**says) != Host()


def test_shapes_with_equal_hosts_are_equal() -> None:
    shape, same = (NodeShape(instance_types=("g6.xlarge",), host=Host(security_group_ids=GROUPS[:2])) for _ in range(2))

    assert (shape, hash(shape)) == (same, hash(same))


def test_a_shape_takes_no_other_host() -> None:
    with pytest.raises(TypeError, match=r"node shape: host must be a Host, got 'bastion'; write Host\(session_manager"):
        NodeShape(instance_types=("g6.xlarge",), host="bastion")  # type: ignore[arg-type]
