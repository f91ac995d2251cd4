"""Sizes of types without GPUs follow from their names."""

from __future__ import annotations

import pytest
from moto.ec2.models.instance_types import INSTANCE_TYPES

from gpu_facts.hardware.node_capacity import cpu_type_size


def test_every_known_type_has_the_size_that_ec2_lists() -> None:
    known = {name: size for name in INSTANCE_TYPES if (size := cpu_type_size(name)) is not None}

    listed = {
        name: (INSTANCE_TYPES[name]["VCpuInfo"]["DefaultVCpus"], INSTANCE_TYPES[name]["MemoryInfo"]["SizeInMiB"])
        for name in known
    }
    assert len(known) > 800
    assert known == listed


@pytest.mark.parametrize("name", ["c5n.large", "g6.xlarge", "m5.metal", "x2iedn.xlarge", "t2.large", "m6i"])
def test_other_names_have_no_size(name: str) -> None:
    assert cpu_type_size(name) is None
