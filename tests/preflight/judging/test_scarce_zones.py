"""Results about zones that are known only at deployment, where the region is known."""

from __future__ import annotations

import pytest

from gpu_preflight.case import Case
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.rules import rules
from tests.preflight.readers import pool


def said(region: str | None, *types: str) -> list[str]:
    resource = Resource(
        file="file",
        key="Cluster",
        type="AWS::EKS::Cluster",
        properties={},
        path="Cluster",
        depends_on=(),
        metadata={},
        conditional=False,
        region=region,
    )
    cluster = Cluster(name="demo", resource=resource, pools=(pool(instance_types=types),))
    return [each.message for each in rules()["GPU297"].check(Case(cluster))]


def test_where_the_region_is_known_the_zones_that_have_it_are_named() -> None:
    [message] = said("us-east-1", "p6-b200.48xlarge")

    assert message.endswith(
        "only some zones have p6-b200.48xlarge, and the pool's zones are known only at deployment; us-east-1 had it "
        "in use1-az6 on 2026-08-02"
    )


@pytest.mark.parametrize("region", ["us-east-1", "us-west-2"])
def test_nothing_where_every_zone_has_it(region: str) -> None:
    assert said(region, "p5.48xlarge") == []


@pytest.mark.parametrize("region", [None, "cn-north-1", "mx-central-1"])
def test_a_region_of_which_nothing_is_known_has_no_list(region: str | None) -> None:
    [message] = said(region, "p5.48xlarge")

    assert message.endswith("p5.48xlarge, and the pool's zones are known only at deployment")
