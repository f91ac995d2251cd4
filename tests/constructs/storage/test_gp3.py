"""A volume is one that EBS makes."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gpu_constructs.storage import Gp3


@pytest.mark.parametrize(
    ("says", "error", "message"),
    [
        ({"iops": 2_999}, ValueError, "iops must be at least 3000, got 2999"),
        ({"iops": 80_001}, ValueError, "iops must be at most 80000, got 80001"),
        ({"iops": 3_000.0}, TypeError, "iops must be a whole number, got 3000.0"),
        ({"throughput_mib_s": 124}, ValueError, "throughput_mib_s must be at least 125, got 124"),
        ({"throughput_mib_s": 751}, ValueError, "must be at most 750 with 3000 iops, got 751; lower it, or raise iops"),
        ({"iops": 80_000, "throughput_mib_s": 2_001}, ValueError, "must be at most 2000 with 80000 iops, got 2001"),
        ({"file_system": "zfs"}, ValueError, "file_system must be one of ext4, xfs, got 'zfs'"),
    ],
)
def test_refuses(says: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^gp3: .*{re.escape(message)}"):
        Gp3(**says)


def test_the_nearest_legal_volumes() -> None:
    assert Gp3(iops=3_000, throughput_mib_s=125) == Gp3()
    assert Gp3(throughput_mib_s=750).parameters["throughput"] == "750"
    assert Gp3(iops=80_000, throughput_mib_s=2_000, file_system="xfs").parameters["csi.storage.k8s.io/fstype"] == "xfs"


@pytest.mark.parametrize(("iops", "gib"), [(3_000, 6), (3_001, 7), (80_000, 160)])
def test_a_claim_asks_for_as_many_gib_as_its_iops_need(iops: int, gib: int) -> None:
    assert Gp3(iops=iops).min_gib == gib
