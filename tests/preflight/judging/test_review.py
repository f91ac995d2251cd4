"""Two inputs compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_constructs.preflight.judging.review import Review, review
from tests.preflight.inputs import BAD, given, template


def compared(folder: Path, old: Any, new: Any) -> Review:
    return review(given(folder / "old", old), given(folder / "new", new))


def test_two_equal_inputs_differ_in_nothing(tmp_path: Path) -> None:
    found = compared(tmp_path, template(), template())

    assert (found.pools, found.moves, found.fates, found.new, found.fixed) == ((), (), (), (), ())
    assert found.before == found.after
    assert found.standing


@pytest.mark.parametrize(
    ("changes", "change"),
    [
        ({"AmiType": "AL2023_x86_64_NVIDIA"}, "replaced"),
        ({"InstanceTypes": ["g6.2xlarge"]}, "replaced"),
        ({"Labels": {"a": "b"}}, "changed"),
        ({"ScalingConfig": {"MinSize": 0, "MaxSize": 3}}, "changed"),
    ],
)
def test_a_changed_pool(tmp_path: Path, changes: Any, change: str) -> None:
    found = compared(tmp_path, template(), template({**BAD, **changes}))

    assert [each.change for each in found.pools] == [change]


def test_a_mended_pool_fixes_its_finding(tmp_path: Path) -> None:
    found = compared(tmp_path, template(), template({**BAD, "AmiType": "AL2023_x86_64_NVIDIA"}))

    assert "GPU001" in {each.rule.id for each in found.fixed}
    assert "GPU001" not in {each.rule.id for each in (*found.new, *found.standing)}


def test_the_ceiling_follows_the_maximum(tmp_path: Path) -> None:
    found = compared(tmp_path, template(), template({**BAD, "ScalingConfig": {"MinSize": 0, "MaxSize": 5}}))

    assert (found.before.gpus, found.after.gpus) == (2, 5)
    assert found.after.usd_per_hour == pytest.approx(found.before.usd_per_hour * 2.5, abs=0.01)
