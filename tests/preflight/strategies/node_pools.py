"""NodePools of Karpenter with their EC2NodeClasses."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.preflight.strategies.groups import Numbered, Resources, taints
from tests.preflight.strategies.vocabulary import GPU, INSTANCE_TYPE, TEAMS, TYPES, ZONE, ZONES, Json, given, seldom

_RANK = "example.com/rank"
_limits = st.dictionaries(st.sampled_from((GPU, "cpu")), st.sampled_from(("1000", "8", "1")), max_size=1)


@st.composite
def requirements(draw: st.DrawFn) -> list[Json]:
    """A NodePool's requirements on its nodes, instance types first."""
    names = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=2, unique=True))
    found: list[Json] = [{"key": INSTANCE_TYPE, "operator": "In", "values": names}]
    found += draw(
        st.lists(st.one_of(_of_a_team(), _of_a_rank(), _of_zones(), _of_capacity()), max_size=2, unique_by=_key)
    )
    return found


def _key(requirement: Json) -> str:
    return str(requirement["key"])


def _of_a_team() -> st.SearchStrategy[Json]:
    teams = st.lists(st.sampled_from(("vision", "speech")), min_size=1, unique=True)
    listed = st.fixed_dictionaries(
        {"key": st.just("team"), "operator": st.sampled_from(("In", "NotIn")), "values": teams}
    )
    return listed | st.sampled_from(("Exists", "DoesNotExist")).map(lambda each: {"key": "team", "operator": each})


def _of_a_rank() -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries(
        {
            "key": st.just(_RANK),
            "operator": st.sampled_from(("In", "Gt", "Lt")),
            "values": st.sampled_from((["5"], ["17"])),
        }
    )


def _of_zones() -> st.SearchStrategy[Json]:
    return st.sampled_from(ZONES).map(lambda each: {"key": ZONE, "operator": "In", "values": [each]})


def _of_capacity() -> st.SearchStrategy[Json]:
    kinds = st.sampled_from((["on-demand"], ["spot"], ["on-demand", "spot"]))
    return kinds.map(lambda each: {"key": "karpenter.sh/capacity-type", "operator": "In", "values": each})


@st.composite
def node_pools(draw: st.DrawFn) -> Numbered:
    """A NodePool and its class."""
    asked, tainted, rank = draw(requirements()), draw(taints), draw(seldom(st.sampled_from(TEAMS)))
    limits, launched = draw(_limits), draw(node_classes())
    is_ranked = rank and all(each["key"] != _RANK for each in asked)
    labelled = {"metadata": {"labels": {_RANK: rank}}} if is_ranked else {}

    def numbered(number: int) -> tuple[Resources, list[Json]]:
        name = f"pool-{number}"
        reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name}
        nodes = given({"nodeClassRef": reference, "requirements": asked, "taints": tainted})
        spec = given({"template": {"spec": nodes, **labelled}, "limits": limits})
        pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec}
        return {}, [pool, launched | {"metadata": {"name": name}}]

    return numbered


@st.composite
def node_classes(draw: st.DrawFn) -> Json:
    """An EC2NodeClass with its own disk, or with the disk of its image."""
    alias = draw(st.sampled_from(("al2023@v20260714", "bottlerocket@v1.64.0")))
    spec: Json = {"role": "nodes", "amiSelectorTerms": [{"alias": alias}]}
    if draw(st.booleans()):
        spec["blockDeviceMappings"] = [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "100Gi"}}]
    return {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "spec": spec}
