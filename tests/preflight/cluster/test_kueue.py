"""Resource groups of queues: values that are set, absent, or set only at deployment."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.cluster.kueue import FlavorQuotas, ResourceGroup, ResourceQuota, quotas, resource_groups
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import Unknown

GPU, OPEN = "nvidia.com/gpu", Unknown("${Open}")


def queue(groups: Any, **spec: Any) -> Object:
    return Object({"kind": "ClusterQueue", "spec": {"resourceGroups": groups, **spec}}, Origin("a.yaml", "it"))


def group(*resources: Any) -> list[Any]:
    return [{"coveredResources": [GPU, OPEN], "flavors": [{"name": "l4", "resources": [*resources]}]}]


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        ({"name": GPU, "nominalQuota": "8", "borrowingLimit": 2}, ResourceQuota(GPU, 8, 2)),
        ({"name": GPU}, ResourceQuota(GPU, None, None)),
        ({"name": OPEN, "nominalQuota": OPEN}, ResourceQuota(OPEN, None, None)),
    ],
)
def test_resource_groups(resource: Any, expected: ResourceQuota) -> None:
    found = list(resource_groups(queue(group(resource, "x"))))

    assert found == [ResourceGroup((GPU, OPEN), (FlavorQuotas("l4", (expected,)),))]


@pytest.mark.parametrize("groups", [None, OPEN, "x", ["x"]])
def test_no_resource_groups(groups: Any) -> None:
    assert list(resource_groups(queue(groups))) == []


def test_quotas() -> None:
    written = group({"name": GPU, "nominalQuota": 8, "borrowingLimit": 2}, {"name": "cpu", "nominalQuota": OPEN})
    [alone], [lending] = quotas(queue(written)), quotas(queue(written, cohortName="all"))

    assert (alone.covered, alone.flavors) == ((GPU,), {"l4": {GPU: 8, "cpu": None}})
    assert lending.flavors == {"l4": {GPU: 10, "cpu": None}}
    assert lending.unknown == {("l4", "cpu")}
