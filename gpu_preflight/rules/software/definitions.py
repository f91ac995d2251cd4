"""Objects of software that nothing in the cluster installs."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.labels import KUEUE_DOMAIN, KUEUE_QUEUE
from gpu_preflight.case import Case
from gpu_preflight.cluster.definitions import charts_of, is_defined, is_kind_defined
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, known_text
from gpu_preflight.rules.rule import Problem, rule


@rule("GPU200", "error", source="https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/custom-resources/")
def objects_of_software_that_nothing_installs(case: Case) -> Iterator[Problem]:
    """Objects of software that nothing installs.

    The API server knows no such kind and refuses the object, so the deployment fails.

    Fix: Install the software, and let its objects depend on it.
    """
    cluster = case.cluster
    if not cluster.shows_software:
        return
    first: dict[tuple[str, ...], Object] = {}
    for each in cluster.objects:
        if charts := charts_of(each):
            first.setdefault(charts, each)
    for charts, example in first.items():
        if not is_kind_defined(example, cluster):
            message = (
                f"{example.kind} {example.name}: nothing installs {example.group}, which chart {charts[0]} defines"
            )
            # Beside plain files somebody may have installed it by hand.
            by_hand = example.origin.resource is None and not cluster.charts
            unknown, condition = by_hand or not cluster.sees_software, f"chart {charts[0]} is installed"
            yield Problem(example, message, unknown=unknown, condition=condition)


@rule("GPU208", "warning", source="https://kueue.sigs.k8s.io/docs/tasks/run/jobs/")
def queue_of_kueue_without_kueue(case: Case) -> Iterator[Problem]:
    """Queue of Kueue without Kueue.

    The label means nothing then: no quota holds the job, and one that is suspended is never resumed.

    Fix: Install Kueue, or remove the label.
    """
    cluster = case.cluster
    if not cluster.shows_software or is_defined(KUEUE_DOMAIN, cluster):
        return
    for each in cluster.workloads:
        queue = known_text(each.owner.labels.get(KUEUE_QUEUE))
        if queue and each.asks_for_gpu:
            text = f"waits in queue {queue} of Kueue, which nothing installs"
            yield Problem.of(each, text, unknown=not cluster.sees_software)


@rule("GPU219", "warning", source="https://kubernetes.io/docs/concepts/services-networking/topology-aware-routing/")
def two_ways_of_routing_by_zone_on_one_service(case: Case) -> Iterator[Problem]:
    """Two ways of routing by zone on one Service.

    The annotation goes first and the field is not heard; neither has a say in where GPU pods are placed.

    Fix: Remove the annotation and keep trafficDistribution.
    """
    for each in case.cluster.of_kind("Service"):
        mode = each.annotations.get("service.kubernetes.io/topology-mode")
        spread = known_text(each.spec.get("trafficDistribution"))
        if mode is not None and spread and dig(each.spec, "selector"):
            message = (
                f"Service {each.namespace}/{each.name}: annotation topology-mode hides trafficDistribution {spread}"
            )
            yield Problem(each, message)
