"""Whole clusters: pools of every kind, the software on their nodes, and the objects that admission reads."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.preflight.strategies.admission import admission
from tests.preflight.strategies.groups import managed, self_managed, subnets
from tests.preflight.strategies.node_pools import node_pools
from tests.preflight.strategies.software import software
from tests.preflight.strategies.vocabulary import Json

POOLS = st.one_of(managed(), node_pools(), self_managed())


@st.composite
def worlds(draw: st.DrawFn, *, most: int = 3) -> Json:
    """Resources of a template, and objects, of one cluster.

    Args:
        draw: Hypothesis' function that draws.
        most: Most pools.
    """
    version = draw(st.sampled_from(("1.36", "1.34")))
    cluster = {"Type": "AWS::EKS::Cluster", "Properties": {"Name": "demo", "Version": version}}
    resources, objects = {"Cluster": cluster, **subnets()}, [*draw(software()), *draw(admission())]
    for number, numbered in enumerate(draw(st.lists(POOLS, min_size=1, max_size=most))):
        of_templates, of_manifests = numbered(number)
        resources |= of_templates
        objects += of_manifests
    return {"resources": resources, "objects": objects}
