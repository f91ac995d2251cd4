"""The words that clusters and pods share, so that they often agree and often do not."""

from __future__ import annotations

from typing import Any, TypeVar

from hypothesis import strategies as st

Json = dict[str, Any]
Drawn = TypeVar("Drawn")

GPU = "nvidia.com/gpu"
TYPES = (
    "g4dn.xlarge",
    "g5.2xlarge",
    "g6.xlarge",
    "g6.12xlarge",
    "g6e.48xlarge",
    "p4d.24xlarge",
    "p5.48xlarge",
    "g5g.xlarge",
)
TEAMS = ("vision", "speech", "17", "3", "4")
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ZONES = ("us-east-1a", "us-east-1b")
KEYS = (
    "team",
    "tier",
    "example.com/rank",
    "kubernetes.io/arch",
    INSTANCE_TYPE,
    "nvidia.com/gpu.present",
    ZONE,
    "karpenter.sh/capacity-type",
)
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
# Keys and values of taints, and of the tolerations that may match them.
TAINTED = (GPU, "team")
TAINT_VALUES = ("true", "vision", "present", "17")
NAMESPACE = "work"


def some(*strategies: st.SearchStrategy[Drawn]) -> st.SearchStrategy[Drawn | None]:
    """Draw nothing, or of one of the strategies; about as often."""
    return st.none() | st.one_of(*strategies)


@st.composite
def seldom(draw: st.DrawFn, strategy: st.SearchStrategy[Drawn], *, one_in: int = 8) -> Drawn | None:
    """Draw nothing, and one time in some of the strategy; `one_of` would take like strategies for one."""
    return draw(strategy) if draw(st.sampled_from(range(one_in))) == one_in - 1 else None


def written(**parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """Draw a mapping without the keys for which nothing was drawn."""
    return st.fixed_dictionaries(parts).map(given)


def given(drawn: Json) -> Json:
    """Return a mapping without the keys that say nothing."""
    return {key: value for key, value in drawn.items() if value is not None and value not in ({}, [])}
