"""Objects that the API server reads at admission: limit ranges, classes, levels of namespaces."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.preflight.strategies.vocabulary import GPU, NAMESPACE, Json, seldom, written

RUNTIME_CLASS, PRIORITY_CLASS = "nvidia", "training"
_LEVEL = "pod-security.kubernetes.io/enforce"
_CPU = ("100m", "1", "4", "16")


def namespaces() -> st.SearchStrategy[Json]:
    """The namespace of the pods, which enforces a level."""
    return st.sampled_from(("baseline", "restricted", "privileged")).map(
        lambda level: {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": NAMESPACE, "labels": {_LEVEL: level}},
        }
    )


@st.composite
def limit_ranges(draw: st.DrawFn) -> Json:
    """A LimitRange of containers or of pods, whose amounts do not contradict each other."""
    kind = draw(st.sampled_from(("Container", "Pod")))
    name = draw(st.sampled_from(("cpu", "memory", GPU)))
    amounts = {"cpu": _CPU, "memory": ("1Gi", "8Gi", "30Gi", "60Gi"), GPU: ("1", "2", "4", "8")}[name]
    ordered = sorted(draw(st.lists(st.integers(0, 3), min_size=4, max_size=4)))
    parts = ["min", "defaultRequest", "default", "max"]
    chosen = draw(st.lists(st.sampled_from(parts if kind == "Container" else ["min", "max"]), min_size=1, unique=True))
    entry = {part: {name: amounts[ordered[parts.index(part)]]} for part in parts if part in chosen}
    if name == GPU and "default" in entry:
        # A request of devices equals the limit.
        entry |= {part: entry["default"] for part in ("defaultRequest",) if part in entry}
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "limits", "namespace": NAMESPACE},
        "spec": {"limits": [{"type": kind} | entry]},
    }


@st.composite
def runtime_classes(draw: st.DrawFn) -> Json:
    """The runtime class that pods name, with the fields that it adds to them."""
    scheduling = draw(
        written(
            nodeSelector=seldom(st.sampled_from(({"team": "vision"}, {"nvidia.com/gpu.present": "true"}))),
            tolerations=st.sampled_from(([], [{"key": GPU, "operator": "Exists"}], [{"operator": "Exists"}])),
        )
    )
    fixed = draw(st.dictionaries(st.sampled_from(("cpu", "memory")), st.sampled_from(("1", "250m")), max_size=2))
    fixed = {name: amount if name == "cpu" else "1Gi" for name, amount in fixed.items()}
    found: Json = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": RUNTIME_CLASS}}
    found |= {"handler": "nvidia"} | ({"overhead": {"podFixed": fixed}} if fixed else {})
    return found | ({"scheduling": scheduling} if scheduling else {})


def priority_classes() -> st.SearchStrategy[Json]:
    """The priority class that pods name."""
    return st.just(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": PRIORITY_CLASS},
            "value": 1000,
        }
    )


@st.composite
def admission(draw: st.DrawFn) -> list[Json]:
    """Some of them."""
    kinds = (
        seldom(namespaces()),
        seldom(limit_ranges()),
        st.none() | runtime_classes(),
        st.none() | priority_classes(),
    )
    return [each for each in map(draw, kinds) if each is not None]
