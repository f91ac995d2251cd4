"""A row of one's own is checked as the catalogue's are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_constructs import NodeShape
from gpu_facts.hardware.catalogue import catalogue, instance_type, refuse_unless_row


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"name": "g9"},
            ValueError,
            "instance type: name must be an EC2 name, got 'g9'; write one such as 'g6.xlarge'",
        ),
        ({"name": 9}, ValueError, "instance type: name must be an EC2 name, got 9"),
        ({"gpus": "1"}, TypeError, r"gpus must be a whole number, got '1'"),
        ({"gpus": 0}, ValueError, r"gpus must be at least 1, got 0"),
        ({"gpus": None}, TypeError, r"gpus must be a whole number, got None"),
        ({"vcpus": "4"}, TypeError, r"vcpus must be a whole number, got '4'"),
        ({"nvme_disks": -1}, ValueError, r"nvme_disks must be at least 0, got -1"),
        ({"usd_per_hour": "1"}, TypeError, r"usd_per_hour must be a number, got '1'"),
        ({"usd_per_hour": float("nan")}, ValueError, r"usd_per_hour must be above 0, got nan"),
        ({"mig": "no"}, TypeError, r"mig must be True or False, got 'no'"),
        ({"architecture": "x86"}, ValueError, r"architecture must be one of x86_64, arm64, got 'x86'"),
        ({"quota_family": "p"}, ValueError, r"quota_family must be one of G and VT, P, got 'p'"),
        ({"purchase_options": ("spt",)}, ValueError, r"purchase_options must be one of .*; did you mean 'spot'\?"),
        ({"purchase_options": ()}, ValueError, r"purchase_options must name at least one of"),
        ({"purchase_options": "spot"}, TypeError, r"purchase_options must be a list of names, got 'spot'"),
        ({"network_cards": ({"index": 0},)}, TypeError, r"network_cards must be a tuple of NetworkCard"),
        ({"gpu_model": ""}, ValueError, "gpu_model must be a name, got ''; write one such as 'L4'"),
        ({"accelerator_label": "x,gpu-constructs.io/pool=other"}, ValueError, r"accelerator_label must be 1 to 63"),
        ({"accelerator_label": ""}, ValueError, r"accelerator_label must be 1 to 63"),
    ],
)
def test_refuses(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    row = replace(instance_type("g6.xlarge"), **{"name": "g9.xlarge"} | changes)

    with pytest.raises(error, match=message):
        NodeShape(instance_types=(row,))


@pytest.mark.parametrize("name", catalogue())
def test_every_row_of_the_catalogue_would_be_taken(name: str) -> None:
    refuse_unless_row(replace(instance_type(name), name="g9.xlarge"))


def test_a_figure_may_be_unknown() -> None:
    row = replace(instance_type("g6.xlarge"), name="g9.xlarge", vcpus=None, memory_mib=None, usd_per_hour=None)

    assert NodeShape(instance_types=(row,)).rows == (row,)
