"""One pod and one fresh node: the reasons against the node, the autoscaler's view, and the wording."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_facts.quantities import GIB
from gpu_facts.resources import EFA, GPU, SHARED_GPU
from gpu_preflight.model.answer import Answer, Reason
from gpu_preflight.model.label_values import LabelValues, exactly
from gpu_preflight.model.taints import Taint
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.reading.unknown import Unknown
from gpu_preflight.scheduling.demand import Demand
from gpu_preflight.scheduling.fitting import TURNED_AWAY, Fit, Part, PartOf, autoscaler_name, fits
from gpu_preflight.scheduling.topology import Topology
from tests.preflight.readers import pool
from tests.preflight.scheduling.samples import node, wanted

YES, NO, UNKNOWN = Answer.YES, Answer.NO, Answer.UNKNOWN
LATER = Unknown("${Later}")
EXAMPLES = settings(max_examples=100)
TAINT = Taint("team", "a", "NoSchedule")
PORT = ("0.0.0.0", "TCP", 80)


def against(demanded: Demand, there: NodeToBe, **changes: Any) -> tuple[Reason, ...]:
    return fits(demanded, there, pool(**changes)).reasons


def unexpected(demanded: Demand, there: NodeToBe, **changes: Any) -> tuple[Reason, ...]:
    return fits(demanded, there, pool(**changes)).unexpected


def test_nothing_is_against_a_pod_that_fits() -> None:
    there = node()

    assert fits(wanted(**{GPU: 1}), there, pool()) == Fit(there, (), ())
    assert fits(wanted(**{GPU: 1}), there, pool()).answer is YES


def test_what_only_a_scheduler_counts_is_not_known_where_there_are_gpus() -> None:
    memory = "nvidia.com/gpumem"
    [reason] = against(wanted(**{memory: 4000}), node(has={"pods": 1, GPU: 1}))
    [without] = against(wanted(**{memory: 4000}), node(None, has={"pods": 1}))

    text = "requests 4000 nvidia.com/gpumem, which HAMi's scheduler counts, and nothing in the input installs it"
    assert reason == Reason(UNKNOWN, "resource", text)
    assert without.answer is NO


AMOUNTS = st.integers(0, 4)


@EXAMPLES
@given(AMOUNTS, AMOUNTS, AMOUNTS)
def test_a_pod_fits_what_there_surely_is_and_may_fit_what_there_may_be(asked: int, sure: int, more: int) -> None:
    there = node(least={"pods": 1, GPU: sure}, most={"pods": 1, GPU: sure + more}, believed={"pods": 1, GPU: 9})

    found = fits(wanted(**{GPU: asked}), there, pool())

    assert found.answer is (YES if asked <= sure else UNKNOWN if asked <= sure + more else NO)
    assert len(found.reasons) == (asked > sure)
    assert found.unexpected == ()


@EXAMPLES
@given(AMOUNTS, AMOUNTS, st.integers(0, 2))
def test_the_autoscaler_expects_what_it_believes_in(asked: int, believed: int, beyond: int) -> None:
    has = {"pods": 1, GPU: believed + beyond}
    there = node(has=has, believed={"pods": 1, GPU: believed})

    found = fits(wanted(**{GPU: asked}), there, pool())

    assert bool(found.unexpected) is (believed < asked <= believed + beyond)


@EXAMPLES
@given(st.integers(1, 4), st.sampled_from(("managed", "karpenter", "auto-mode")))
def test_a_pod_that_asks_for_less_never_meets_more_reasons(asked: int, kind: str) -> None:
    there = node(has={"pods": 1, GPU: 2}, believed={"pods": 1, GPU: 1}, alone=frozenset((GPU,)))

    less, more = (fits(wanted(**{GPU: amount}), there, pool(kind=kind)) for amount in (asked - 1, asked))

    assert len(less.reasons) <= len(more.reasons)
    assert len(less.unexpected) <= len(more.unexpected) or more.answer is NO


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("karpenter", "Karpenter"),
        ("auto-mode", "EKS Auto Mode"),
        ("managed", "cluster autoscaler"),
        ("self-managed", "cluster autoscaler"),
    ],
)
def test_autoscalers_go_by_the_names_people_know(kind: Any, name: str) -> None:
    assert autoscaler_name(pool(kind=kind)) == name


def test_a_taint_keeps_a_pod_off() -> None:
    text = "doesn't tolerate taint team=a:NoSchedule; add the toleration"

    assert against(wanted(), node(taints=(TAINT,), believed_taints=(TAINT,))) == (Reason(NO, "taint", text, 1),)
    assert unexpected(wanted(), node(taints=(TAINT,), believed_taints=(TAINT,))) == ()


def test_a_tolerated_taint_keeps_no_pod_off() -> None:
    tolerant = wanted(spec={"tolerations": [{"key": "team", "operator": "Exists"}]})

    assert against(tolerant, node(taints=(TAINT,))) == ()
    assert unexpected(tolerant, node(believed_taints=(TAINT,))) == ()


def test_a_taint_that_is_only_expected_keeps_the_autoscaler_from_acting() -> None:
    there = node(believed_taints=(TAINT,))
    text = "Karpenter expects taint team=a:NoSchedule, which the pod doesn't tolerate"

    assert against(wanted(), there) == ()
    assert unexpected(wanted(), there, kind="karpenter") == (Reason(NO, "autoscaler", text),)


def chooses(**selector: Any) -> Demand:
    return wanted(spec={"nodeSelector": selector})


@pytest.mark.parametrize(
    ("selector", "labels", "answer", "text"),
    [
        ({"team": "a"}, {}, NO, "requires label team=a, which the node doesn't have"),
        ({"team": "a"}, {"team": exactly("b")}, NO, "requires label team=a, but its value on the node is b"),
        ({"team": "a"}, {"team": exactly("c", "b")}, NO, "requires label team=a, but its value on the node is b, c"),
        (
            {"team": "a"},
            {"team": exactly(*"bcde")},
            NO,
            "requires label team=a, but its value on the node is b, c, d, e",
        ),
        (
            {"team": "a"},
            {"team": exactly(*"bcdef")},
            NO,
            "requires label team=a, but its value on the node is b, c, d, e, ...",
        ),
        (
            {"team": "a"},
            {"team": LabelValues(frozenset("a"), all_but=True)},
            NO,
            "requires label team=a, but its value on the node is any value except a",
        ),
        (
            {"team": "a"},
            {"team": LATER},
            UNKNOWN,
            "requires label team=a, whose value on the node is unknown until it runs",
        ),
        (
            {"zone": "c"},
            {"zone": Unknown("${zone}", ("a", "b"))},
            NO,
            "requires label zone=c, but its value on the node is a, b",
        ),
        (
            {"zone": "eu-west-1a"},
            {"zone": Unknown("us-east-1${zone}")},
            NO,
            "requires label zone=eu-west-1a, but its value on the node is us-east-1...",
        ),
        (
            {"nvidia.com/gpu.product": "L4"},
            {},
            NO,
            "requires label nvidia.com/gpu.product=L4, which only NVIDIA's feature discovery sets, and it "
            "doesn't run there",
        ),
        (
            {"nvidia.com/cuda.runtime": "9"},
            {},
            NO,
            "requires label nvidia.com/cuda.runtime=9, which only NVIDIA's feature discovery sets, and it "
            "doesn't run there",
        ),
        (
            {"nvidia.com/mig.capable": "true"},
            {},
            NO,
            "requires label nvidia.com/mig.capable=true, which only NVIDIA's feature discovery sets, and it "
            "doesn't run there",
        ),
        ({"nvidia.com/team": "a"}, {}, NO, "requires label nvidia.com/team=a, which the node doesn't have"),
        (
            {"feature.node.kubernetes.io/pci": "a"},
            {},
            NO,
            "requires label feature.node.kubernetes.io/pci=a, which only NVIDIA's feature discovery sets, and it "
            "doesn't run there",
        ),
        (
            {"nvidia.com/gpu.product": "L4"},
            {"nvidia.com/gpu.product": exactly("T4")},
            NO,
            "requires label nvidia.com/gpu.product=L4, but its value on the node is T4",
        ),
    ],
)
def test_a_label_that_the_node_has_not(selector: Any, labels: Any, answer: Answer, text: str) -> None:
    there = node(labels=labels, believed_labels=labels)

    assert against(chooses(**selector), there) == (Reason(answer, "label", text),)


def test_a_label_of_unknown_value_is_not_reported_as_a_choice_of_values() -> None:
    absent = {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [absent]}}

    [reason] = against(wanted(spec={"affinity": {"nodeAffinity": required}}), node(labels={"team": LATER}))

    assert reason.answer is NO
    assert reason.text == "requires label team DoesNotExist, but its value on the node is known at deployment only"


def test_a_label_that_the_node_has_keeps_no_pod_off() -> None:
    labels = {"team": exactly("a")}

    assert fits(chooses(team="a"), node(labels=labels, believed_labels=labels), pool()).answer is YES


def test_only_unmet_requirements_are_reported() -> None:
    labels = {"team": exactly("a")}

    reasons = against(chooses(team="a", rank="1"), node(labels=labels, believed_labels=labels))

    assert [each.text for each in reasons] == ["requires label rank=1, which the node doesn't have"]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (
            "managed",
            "cluster autoscaler doesn't expect label team=a on a new node; set it in the node group's labels",
        ),
        (
            "self-managed",
            "cluster autoscaler doesn't expect label team=a on a new node; "
            "add a tag k8s.io/cluster-autoscaler/node-template/label/... for it to the Auto Scaling group",
        ),
        (
            "karpenter",
            "Karpenter doesn't expect label team=a on a new node; set it in the NodePool's template labels",
        ),
    ],
)
def test_a_label_that_only_the_node_knows_of_keeps_the_autoscaler_from_acting(kind: Any, text: str) -> None:
    there = node(labels={"team": exactly("a")})

    found = fits(chooses(team="a"), there, pool(kind=kind))

    assert found.reasons == ()
    assert found.unexpected == (Reason(NO, "autoscaler", text, 1),)


def test_a_label_that_the_autoscaler_cannot_be_sure_of_may_keep_it_from_acting() -> None:
    there = node(labels={"team": LATER}, believed_labels={"team": LATER})

    assert [each.answer for each in unexpected(chooses(team="a"), there)] == [UNKNOWN]


def test_what_keeps_a_pod_off_the_node_is_not_said_of_the_autoscaler_too() -> None:
    assert unexpected(chooses(team="a"), node()) == ()
    assert unexpected(wanted(**{GPU: 2}), node()) == ()


def test_resources_that_the_autoscaler_expects_are_not_reported() -> None:
    there = node(labels={"team": exactly("a"), "rank": exactly("1")}, believed_labels={"team": exactly("a")})

    [reason] = unexpected(chooses(team="a", rank="1"), there)

    assert "rank=1" in reason.text


@pytest.mark.parametrize(
    ("limits", "there", "reason"),
    [
        (
            {GPU: 2},
            node(),
            Reason(NO, "resource", "requests 2 nvidia.com/gpu, but g6.xlarge has 1 for pods", 2),
        ),
        (
            {"cpu": "4"},
            node(None, has={"pods": 58, "cpu": 3920}),
            Reason(NO, "resource", "requests 4 cpu, but node has 3920m for pods", 2),
        ),
        (
            {"memory": "16Gi"},
            node(has={"pods": 58, "memory": 16 * GIB - 1}),
            Reason(NO, "resource", "requests 16384Mi memory, but g6.xlarge has 16384Mi for pods", 2),
        ),
        (
            {"cpu": "1"},
            node(has={"pods": 58, "cpu": -200}),
            Reason(NO, "resource", "requests 1 cpu, but g6.xlarge has 0 for pods", 2),
        ),
        (
            {"example.com/fpga": 1},
            node(),
            Reason(NO, "resource", "requests 1 example.com/fpga, but the node has none", 3),
        ),
        (
            {EFA: 1},
            node("g6.8xlarge"),
            Reason(
                NO, "resource", "requests 1 vpc.amazonaws.com/efa, but the node has none; install its device plugin", 3
            ),
        ),
        ({EFA: 1}, node(), Reason(NO, "resource", "requests 1 vpc.amazonaws.com/efa, but g6.xlarge has no EFA", 3)),
        (
            {GPU: 1},
            node(has={"pods": 58, SHARED_GPU: 4, "nvidia.com/other": 1, "nvidia.com/gone": 0}),
            Reason(
                NO,
                "resource",
                "requests 1 nvidia.com/gpu, but the node offers its GPUs as nvidia.com/gpu.shared, "
                "nvidia.com/other; request that",
                1,
            ),
        ),
        (
            {"nvidia.com/mig-1g.10gb": 2},
            node(),
            Reason(NO, "resource", "requests 2 nvidia.com/mig-1g.10gb, but the node offers nvidia.com/gpu", 3),
        ),
        (
            {GPU: 1},
            node(has={"pods": 58, GPU: 0}),
            Reason(
                NO,
                "resource",
                "no component advertises nvidia.com/gpu on its nodes; install a device plugin",
                2,
                rule="GPU010",
            ),
        ),
        (
            {GPU: 1},
            node("m5.large", has={"pods": 58}),
            Reason(NO, "resource", "requests 1 nvidia.com/gpu, but m5.large has no GPU", 20),
        ),
        (
            {GPU: 1},
            node(None, has={"pods": 58}),
            Reason(NO, "resource", "requests 1 nvidia.com/gpu, but the node has no GPU", 20),
        ),
        (
            {GPU: 1},
            node(has={"pods": 58}, unsaid=frozenset((GPU,))),
            Reason(
                UNKNOWN,
                "resource",
                "requests 1 nvidia.com/gpu, and no component that is known to run here advertises it",
                rule="GPU010",
            ),
        ),
        (
            {"memory": "1Gi"},
            node(has={"pods": 58}, unsaid=frozenset(("memory",))),
            Reason(UNKNOWN, "resource", "requests 1Gi memory, and it is unknown how much the node has"),
        ),
        (
            {"memory": "14Gi"},
            node(least={"pods": 58, "memory": 13 * GIB}, most={"pods": 58, "memory": 14 * GIB}),
            Reason(
                UNKNOWN,
                "resource",
                "requests 14Gi memory, and the node has between 13Gi and 14Gi; request at most 13Gi",
            ),
        ),
        (
            {GPU: 1},
            node(least={"pods": 58}, most={"pods": 58, GPU: 4}),
            Reason(
                UNKNOWN,
                "resource",
                "requests 1 nvidia.com/gpu, and the node has between 0 and 4; request at most 0",
            ),
        ),
    ],
)
def test_a_resource_that_the_node_has_not(limits: Any, there: NodeToBe, reason: Reason) -> None:
    assert against(wanted(**limits), there) == (reason,)


def test_the_nearer_a_node_comes_the_less_its_reason_weighs() -> None:
    """A share by another name, too few GPUs, no device plugin, no such device, no GPU at all."""
    shared = node(has={"pods": 58, SHARED_GPU: 4})
    few, none = node(), node(has={"pods": 58})
    other, bare = node(has={"pods": 58, "nvidia.com/other": 1}), node(None, has={"pods": 58})
    asked = [
        (wanted(**{GPU: 1}), shared),
        (wanted(**{GPU: 2}), few),
        (wanted(**{GPU: 1}), none),
        (wanted(**{"nvidia.com/mig-1g.10gb": 1}), other),
        (wanted(**{GPU: 1}), bare),
    ]

    weights = [reason.weight for demanded, there in asked for reason in against(demanded, there)]

    assert weights == sorted(weights)
    assert weights[0] < weights[1] < weights[3] < weights[4]


@pytest.mark.parametrize(("asked", "refused"), [(1, False), (2, True)])
def test_a_share_is_asked_for_alone(asked: int, refused: bool) -> None:
    there = node(has={"pods": 58, SHARED_GPU: 4}, alone=frozenset((SHARED_GPU,)))
    text = f"requests 2 nvidia.com/gpu.shared, {TURNED_AWAY}; request one"

    reasons = against(wanted(**{SHARED_GPU: asked}), there)

    assert reasons == ((Reason(NO, "resource", text, 1),) if refused else ())


def test_what_is_shared_need_not_be_asked_for() -> None:
    there = node(has={"pods": 58, "cpu": 4000, SHARED_GPU: 4}, alone=frozenset((SHARED_GPU,)))

    assert against(wanted(cpu="2"), there) == ()


def test_a_request_of_nothing_is_met_by_a_node_that_has_none() -> None:
    assert fits(wanted(**{GPU: 0, EFA: 0}), node(None, has={"pods": 58}), pool()) == Fit(
        node(None, has={"pods": 58}), ()
    )


def test_every_node_takes_a_pod_if_the_number_is_unknown() -> None:
    there = node(has={GPU: 1}, unsaid=frozenset(("pods",)))

    assert against(wanted(**{GPU: 1}), there) == ()


def test_requests_next_to_the_place_of_the_pod_are_kept() -> None:
    there = node(has={}, unsaid=frozenset(("pods",)))

    [reason] = against(wanted(**{"pods": 1, "example.com/a": 1}), there)

    assert reason.text == "requests 1 example.com/a, but the node has none"


def test_a_request_that_is_not_known_may_keep_a_pod_off() -> None:
    text = f"requests amounts known at deployment only: {GPU}"

    assert against(wanted(**{GPU: LATER}), node()) == (Reason(UNKNOWN, "resource", text),)


def test_an_unknown_limit_with_a_known_request_may_be_refused() -> None:
    resources = {"limits": {"cpu": LATER}, "requests": {"cpu": 1}}

    [reason] = against(wanted(spec={"containers": [{"name": "main", "resources": resources}]}), node())

    assert (reason.answer, reason.text) == (
        UNKNOWN,
        "has a limit that is known at deployment only, and the API server rejects a limit below its request",
    )


OPEN_PORT = {"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}]}


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        ({}, ()),
        ({"ports": frozenset((("0.0.0.0", "TCP", 81),))}, ()),
        (
            {"ports": frozenset((PORT,))},
            (Reason(NO, "port", "requests port 80 of the node, which a DaemonSet uses on every node"),),
        ),
        ({"unsure_ports": frozenset((("0.0.0.0", "TCP", 81),))}, ()),
        (
            {"unsure_ports": frozenset((PORT,))},
            (Reason(UNKNOWN, "port", "requests port 80 of the node, which a DaemonSet may use"),),
        ),
        (
            {"ports_open": True},
            (Reason(UNKNOWN, "port", "requests port 80 of the node, which a DaemonSet may use"),),
        ),
    ],
)
def test_host_ports(changes: Any, reasons: tuple[Reason, ...]) -> None:
    assert against(wanted(spec=OPEN_PORT), node(**changes)) == reasons


def test_a_pod_without_host_ports_minds_no_daemon_set() -> None:
    there = node(ports=frozenset((PORT,)), unsure_ports=frozenset((PORT,)), ports_open=True)

    # A pod that is asked for everything, because it minds where its company is.
    reasons = against(wanted(topology=Topology(keys=("rack",))), there)

    assert [each.kind for each in reasons] == ["topology"]


def test_what_a_pod_asks_of_its_place_is_asked_of_the_labels_of_the_node() -> None:
    demanded = wanted(topology=Topology(keys=("rack",)))
    text = "has a spread or anti-affinity by rack, a label that the node does not have"

    assert against(demanded, node(believed_labels={"rack": exactly("a")})) == (Reason(NO, "topology", text),)
    assert against(demanded, node(labels={"rack": exactly("a")})) == ()


def test_each_part_is_asked_of_the_same_pod_node_and_pool() -> None:
    asked = []

    def remember(part: PartOf, *of: Any) -> Part:
        asked.append(of)
        return Part((Reason(UNKNOWN, part.__name__, "", 0),), (Reason(NO, part.__name__, "", 0),))

    demanded, there, nodes = wanted(topology=Topology(keys=("rack",))), node(), pool()
    found = fits(demanded, there, nodes, remember)

    names = ["check_taints", "check_labels", "check_resources", "check_ports", "check_topology"]
    assert asked == [(demanded, there, nodes)] * 5
    assert [each.kind for each in found.reasons] == [each.kind for each in found.unexpected] == names
    assert found.answer is UNKNOWN


@pytest.mark.parametrize(
    ("demanded", "parts"),
    [
        (wanted(), 3),
        (wanted(spec=OPEN_PORT), 5),
        (wanted(topology=Topology(one_per_node=True)), 5),
    ],
)
def test_only_pods_that_mind_are_asked_for_ports_and_places(demanded: Demand, parts: int) -> None:
    asked = []

    def remember(part: PartOf, *of: Any) -> Part:
        asked.append(part)
        return Part()

    assert fits(demanded, node(), pool(), remember).answer is YES
    assert len(asked) == parts


@pytest.mark.parametrize(
    ("there", "kind", "texts"),
    [
        (
            {"believed": {"pods": 58, "cpu": 3920}},
            "managed",
            [
                "cluster autoscaler expects 0 nvidia.com/gpu on a new node, but the pod requests 1; "
                "add tag k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu with the amount of a node "
                "to the Auto Scaling group"
            ],
        ),
        (
            {"believed": {"pods": 58, "cpu": 3920}},
            "self-managed",
            [
                "cluster autoscaler expects 0 nvidia.com/gpu on a new node, but the pod requests 1; "
                "add tag k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu with the amount of a node "
                "to the Auto Scaling group"
            ],
        ),
        (
            {"believed": {"pods": 58, "cpu": 500, GPU: 1}},
            "karpenter",
            ["Karpenter expects 500m cpu on a new node, but the pod requests 1; add a NodeOverlay with capacity cpu"],
        ),
        (
            {"believed": {"pods": 58, "cpu": 500, GPU: 1}},
            "auto-mode",
            ["EKS Auto Mode expects 500m cpu on a new node, but the pod requests 1; Auto Mode has no such pool"],
        ),
        ({"believed": {"pods": 58, "cpu": 1000, GPU: 1}}, "karpenter", []),
    ],
)
def test_a_resource_that_the_autoscaler_does_not_expect(there: Any, kind: Any, texts: list[str]) -> None:
    found = fits(wanted(cpu="1", **{GPU: 1}), node(**there), pool(kind=kind))

    assert found.reasons == ()
    assert found.unexpected == tuple(Reason(NO, "autoscaler", text, 1) for text in texts)


def test_what_the_node_may_have_and_the_autoscaler_does_not_expect_is_told() -> None:
    there = node(None, has={"pods": 58}, unsaid=frozenset((GPU,)))

    [reason] = unexpected(wanted(**{GPU: 1}), there)

    assert reason.text.startswith("cluster autoscaler expects 0 nvidia.com/gpu ")


@pytest.mark.parametrize("name", ["cpu", "memory", "pods", "ephemeral-storage"])
@pytest.mark.parametrize(
    ("kind", "row", "told"),
    [
        ("managed", True, ("cpu", "memory", "pods", "ephemeral-storage")),
        ("managed", False, ("ephemeral-storage",)),
        ("self-managed", False, ("ephemeral-storage",)),
        ("karpenter", False, ()),
    ],
)
def test_of_a_type_that_is_not_known_the_autoscaler_knows_all_but_the_disk(
    name: str, kind: Any, row: bool, told: tuple[str, ...]
) -> None:
    """The autoscaler knows EC2's own figures, so they are no reason against the node, but a disk isn't among them."""
    limits = {} if name == "pods" else {name: 1}
    others = {each: 9 * GIB for each in ("cpu", "memory", "pods", "ephemeral-storage") if each != name}
    there = node("g6.xlarge" if row else None, has={name: 9 * GIB, **others}, believed=others)

    found = unexpected(wanted(**limits), there, kind=kind)

    assert len(found) == (name in told)
    assert all(each.text.startswith("cluster autoscaler expects 0") and f" {name} " in each.text for each in found)


def test_one_thing_that_is_expected_does_not_hide_the_next() -> None:
    there = node(
        None, has={"pods": 58, "cpu": 4000, "example.com/a": 1, GPU: 1}, believed={"pods": 58, "example.com/b": 1}
    )
    asked = wanted(**{"example.com/b": 0, "example.com/none": 1, "cpu": "1", "example.com/a": 1})

    [reason] = unexpected(asked, there)

    assert " example.com/a " in reason.text
