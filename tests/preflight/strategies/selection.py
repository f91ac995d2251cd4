"""Requirements of pods on nodes, by label, by taint, and by the pods that run there."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.preflight.strategies.vocabulary import (
    EFFECTS,
    HOSTNAME,
    INSTANCE_TYPE,
    KEYS,
    TAINT_VALUES,
    TAINTED,
    TYPES,
    ZONE,
    ZONES,
    Json,
    seldom,
    some,
    written,
)

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_VALUES = ("vision", "speech", "true", "amd64", "arm64", "17", "spot", *ZONES, *TYPES)
_DOMAINS = (HOSTNAME, "team", ZONE, INSTANCE_TYPE)
values = st.sampled_from(_VALUES)
keys = st.sampled_from(KEYS)
# Every pod that is drawn is labelled app=pod.
selectors = st.sampled_from(
    (
        {"matchLabels": {"app": "pod"}},
        {"matchLabels": {"app": "other"}},
        {"matchExpressions": [{"key": "app", "operator": "In", "values": ["other", "pod"]}]},
        {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["pod"]}]},
        {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]},
        {},
    )
)


@st.composite
def expressions(draw: st.DrawFn) -> Json:
    """One expression of a node selector."""
    operator = draw(st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")))
    expression: Json = {"key": draw(keys), "operator": operator}
    if operator in ("In", "NotIn"):
        expression["values"] = draw(st.lists(values, min_size=1, max_size=2, unique=True))
    elif operator in ("Gt", "Lt"):
        expression["values"] = [draw(st.sampled_from(("5", "17", "0")))]
    return expression


_fields = st.sampled_from(("NotIn", "In")).map(
    lambda each: [{"key": "metadata.name", "operator": each, "values": ["elsewhere"]}]
)
terms = written(matchExpressions=st.lists(expressions(), max_size=2), matchFields=seldom(_fields))


def _of_nodes() -> st.SearchStrategy[Json]:
    required = st.lists(terms, min_size=1, max_size=2).map(lambda each: {"nodeSelectorTerms": each})
    preferred = st.lists(
        st.fixed_dictionaries(
            {"weight": st.just(1), "preference": expressions().map(lambda each: {"matchExpressions": [each]})}
        ),
        min_size=1,
        max_size=1,
    )
    return st.one_of(
        required.map(lambda each: {_REQUIRED: each}),
        preferred.map(lambda each: {"preferredDuringSchedulingIgnoredDuringExecution": each}),
    )


def _of_pods() -> st.SearchStrategy[Json]:
    term = st.fixed_dictionaries({"topologyKey": st.sampled_from(_DOMAINS), "labelSelector": selectors})
    return st.lists(term, min_size=1, max_size=1).map(lambda each: {_REQUIRED: each})


affinity = written(
    nodeAffinity=some(_of_nodes()),
    podAffinity=seldom(_of_pods(), one_in=4),
    podAntiAffinity=seldom(_of_pods(), one_in=4),
)


@st.composite
def tolerations(draw: st.DrawFn) -> Json:
    """A toleration as the API server takes it."""
    key = draw(some(st.sampled_from(TAINTED)))
    operator = "Exists" if key is None else draw(st.sampled_from(("Exists", "Equal", None)))
    found: Json = {"key": key, "operator": operator, "effect": draw(seldom(st.sampled_from(EFFECTS), one_in=3))}
    if operator != "Exists":
        found["value"] = draw(st.sampled_from(TAINT_VALUES))
    if found["effect"] == "NoExecute":
        found["tolerationSeconds"] = draw(some(st.sampled_from((300, 0))))
    return {name: each for name, each in found.items() if each is not None}


@st.composite
def comparing_tolerations(draw: st.DrawFn) -> Json:
    """A toleration that compares numbers, which most clusters do not know."""
    operator, value = draw(st.sampled_from(("Gt", "Lt"))), draw(st.sampled_from(("5", "17")))
    return {"key": draw(st.sampled_from(TAINTED)), "operator": operator, "value": value, "effect": "NoSchedule"}


@st.composite
def spreads(draw: st.DrawFn) -> Json:
    """A topology spread constraint."""
    unsatisfiable = draw(st.sampled_from(("DoNotSchedule", "ScheduleAnyway")))
    found: Json = {
        "maxSkew": draw(st.sampled_from((1, 2))),
        "topologyKey": draw(st.sampled_from(_DOMAINS)),
        "whenUnsatisfiable": unsatisfiable,
        "labelSelector": draw(selectors),
    }
    if unsatisfiable == "DoNotSchedule" and (domains := draw(seldom(st.sampled_from((1, 2, 3))))):
        found["minDomains"] = domains
    if policy := draw(seldom(st.sampled_from(("Honor", "Ignore")))):
        found["nodeTaintsPolicy"] = policy
    return found
