"""Random user data: accepted user data boots as intended, and does nothing else."""

from __future__ import annotations

from typing import Any

import tomli
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_constructs import Mig, Mps, NodeShape, Taint, TimeSlicing
from gpu_constructs.nodes.user_data import joining_user_data, node_class_user_data, user_data
from gpu_constructs.pools import Kubelet
from tests.fuzz.hostile import HOSTILE, made_or_refused
from tests.judges.booting import NODE_CONFIG, SCRIPT
from tests.long import count
from tests.user_data import membership, parts_of

KEYS = st.sampled_from(("team", "example.com/team", "a.b/c_d.e-f", "1", "--", "a/b/c", "kubernetes.io/x", "y", ""))
# As Kubernetes takes them, and not.
WORDS = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,10}[A-Za-z0-9])?", fullmatch=True) | HOSTILE
LABELS = st.dictionaries(KEYS, WORDS, max_size=3)
TAINTS = st.lists(st.tuples(KEYS, WORDS, st.sampled_from(("NoSchedule", "NoExecute", "PreferNoSchedule"))), max_size=3)
QUANTITIES = st.sampled_from(("1", "100m", "1Gi", "1e3", "y", "0.5", ""))
SHARING: dict[str, dict[str, Any]] = {
    "none": {},
    "slices": {"sharing": TimeSlicing(replicas=4)},
    "mps": {"sharing": Mps(replicas=4)},
    "mig": {"sharing": Mig(geometry={"1g.10gb": 7})},
}
CLUSTERS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,20}", fullmatch=True)
# A long run took 367 of 5,000.
LEAST_TAKEN = count(15, 300)
_taken: list[NodeShape] = []


@st.composite
def shapes(draw: st.DrawFn) -> NodeShape | None:
    """Make a shape, or be refused in words."""
    labels, taints, reserved = draw(LABELS), draw(TAINTS), draw(QUANTITIES)
    more = SHARING[draw(st.sampled_from(sorted(SHARING)))]
    system: Any = draw(st.sampled_from(("al2023", "bottlerocket")))
    return made_or_refused(
        lambda: NodeShape(
            instance_types=("p5.48xlarge",),
            operating_system=system,
            labels=labels,
            taints=tuple(Taint(key=key, value=value, effect=effect) for key, value, effect in taints),
            kubelet=Kubelet(kube_reserved={"memory": reserved}),
            **more,
        )
    )


@settings(max_examples=count(100, 5000))
@given(shapes(), CLUSTERS)
def test_what_is_taken_is_told_whole(made: NodeShape | None, cluster: str) -> None:
    if made is None:
        return
    _taken.append(made)
    joining = joining_user_data(made, "pool", membership(cluster))
    others = [each for each in (user_data(made), node_class_user_data(made)) if each is not None]

    if made.os == "bottlerocket":
        _check_settings(made, cluster, joining, others)
    else:
        _check_node_config(made, cluster, joining, others)


def _check_settings(made: NodeShape, cluster: str, joining: str, others: list[str]) -> None:
    for each in others:
        assert tomli.loads(each)["settings"]
    told = tomli.loads(joining)["settings"]["kubernetes"]
    assert told["cluster-name"] == cluster
    assert told["node-labels"] == made.node_labels("pool")
    assert sum(map(len, told["node-taints"].values())) == len(made.node_taints)


def _check_node_config(made: NodeShape, cluster: str, joining: str, others: list[str]) -> None:
    for each in (joining, *others):
        kinds = [kind for kind, _ in parts_of(each)]
        assert len(kinds) == len(set(kinds))
        assert set(kinds) <= {NODE_CONFIG, SCRIPT}
    spec = yaml.safe_load(dict(parts_of(joining))[NODE_CONFIG])["spec"]
    assert spec["cluster"]["name"] == cluster
    flags = dict(each.removeprefix("--").split("=", 1) for each in spec["kubelet"]["flags"])
    assert flags["node-labels"].split(",") == [f"{key}={value}" for key, value in made.node_labels("pool").items()]
    written = [f"{each.key}={each.value}:{each.effect}" for each in made.node_taints]
    assert flags.get("register-with-taints", "").split(",") == (written or [""])


def test_enough_of_them_are_taken() -> None:
    if not _taken:
        test_what_is_taken_is_told_whole()

    assert len(_taken) >= LEAST_TAKEN
