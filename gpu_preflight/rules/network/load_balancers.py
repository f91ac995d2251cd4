"""Load balancers before pods with GPUs that are never made, cut answers off, or let everybody in."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.charts import LOAD_BALANCER_CONTROLLER
from gpu_facts.labels import ALB
from gpu_preflight.case import Case
from gpu_preflight.cluster.objects.load_balancers import (
    application_load_balancers,
    attributes,
    has_class_parameters,
    has_https,
    is_shared,
    network_load_balancers,
    runs_controller,
    said,
    services_behind,
    workloads_behind,
)
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import known_number, known_text
from gpu_preflight.rules.rule import Problem, rule

_ANNOTATIONS = "https://kubernetes-sigs.github.io/aws-load-balancer-controller/v3.5/guide/ingress/annotations/"
_IDLE = "idle_timeout.timeout_seconds"
_DELAY = "deregistration_delay.timeout_seconds"
# Of Kubernetes, for a pod that says none.
_GRACE = 30


@rule("GPU435", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/aws-load-balancer-controller.html")
def load_balancer_that_nobody_makes(case: Case) -> Iterator[Problem]:
    """Load balancer that nobody makes.

    The class is AWS Load Balancer Controller's, which nothing here installs: no address ever appears, and no error.

    Fix: Install AWS Load Balancer Controller, with this library by LoadBalancerController, before what asks it.
    """
    cluster = case.cluster
    if not cluster.shows_software or runs_controller(cluster):
        return
    for each in (*application_load_balancers(cluster), *network_load_balancers(cluster)):
        # Beside plain files somebody may have installed it by hand; of Auto Mode the class may be, under the same name.
        by_hand = (each.origin.resource is None and not cluster.charts) or cluster.auto_mode
        message = f"{each.kind} {each.namespace}/{each.name}: nothing installs {LOAD_BALANCER_CONTROLLER}"
        yield Problem(each, message, unknown=by_hand or not cluster.sees_software)


def _before_gpus(case: Case) -> Iterator[tuple[Object, Object, Workload]]:
    """Yield each Application Load Balancer with its Services and the workloads with GPUs behind them."""
    for ingress in application_load_balancers(case.cluster):
        for service in services_behind(ingress, case.cluster):
            for workload in workloads_behind(service, case.cluster):
                if workload.asks_for_gpu:
                    yield ingress, service, workload


@rule("GPU438", "note", source=_ANNOTATIONS)
def load_balancer_that_ends_long_answers(case: Case) -> Iterator[Problem]:
    """Load balancer that ends long answers.

    After 60 seconds without a byte clients get 504: a long answer that is not streamed is lost, with its GPU time.

    Fix: Annotate the Ingress with load-balancer-attributes: idle_timeout.timeout_seconds=900.
    """
    for ingress, _, workload in _before_gpus(case):
        set_to = attributes(said(ingress, "load-balancer-attributes"))
        if set_to is None or is_shared(ingress) or has_class_parameters(ingress, case.cluster) or _IDLE in set_to:
            continue
        yield Problem(
            ingress,
            f"{_who(ingress)}: 60 s before {workload.name}, since {ALB}load-balancer-attributes sets no {_IDLE}",
        )


@rule(
    "GPU439",
    "error",
    source="kubernetes-sigs/aws-load-balancer-controller v3.5.0 pkg/backend/endpoint_resolver.go",
    stops=False,
)
def load_balancer_of_instances_before_a_service_without_node_ports(case: Case) -> Iterator[Problem]:
    """Load balancer of instances before a Service without node ports.

    The controller makes no load balancer at all: targets that are instances need a port on each node.

    Fix: Annotate the Ingress with target-type: ip, which also spares pods a hop.
    """
    for ingress in application_load_balancers(case.cluster):
        for service in services_behind(ingress, case.cluster):
            if service.spec.get("type", "ClusterIP") != "ClusterIP":
                continue
            kind = _target_type(ingress, service, case.cluster)
            if kind in ("instance", None):
                message = f"{_who(ingress)}: sends to instances, and Service {service.name} is a ClusterIP"
                yield Problem(ingress, message, unknown=kind is None)


def _target_type(ingress: Object, service: Object, cluster: Cluster) -> str | None:
    """Return what targets are; ``None`` where that is not known."""
    for each in (service, ingress):
        written = said(each, "target-type")
        if written is not None:
            return known_text(written)
    chart = cluster.chart(LOAD_BALANCER_CONTROLLER)
    if chart is None or has_class_parameters(ingress, cluster):
        return None
    default = chart.values.get("defaultTargetType", "instance")
    return known_text(default)


@rule("GPU440", "warning", source=_ANNOTATIONS)
def gpus_for_everybody_on_the_internet_in_the_clear(case: Case) -> Iterator[Problem]:
    """GPUs for the internet in the clear.

    Who is on the way reads prompts, answers and keys, and uses the GPUs with them.

    Fix: Annotate the Ingress with certificate-arn, or make its scheme internal.
    """
    for ingress, _, workload in _before_gpus(case):
        known = not is_shared(ingress) and not has_class_parameters(ingress, case.cluster)
        if known and said(ingress, "scheme") == "internet-facing" and not has_https(ingress):
            yield Problem(ingress, f"{_who(ingress)}: plain HTTP from the internet to {workload.name}")


@rule("GPU441", "note", source="https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination")
def pod_that_ends_before_its_answers(case: Case) -> Iterator[Problem]:
    """Pod that ends before its answers.

    Its load balancer lets answers end for longer than kubelet lets the pod live: in every update clients lose some.

    Fix: Set terminationGracePeriodSeconds to at least the deregistration delay.
    """
    for ingress, service, workload in _before_gpus(case):
        written = said(service, "target-group-attributes") or said(ingress, "target-group-attributes")
        delay = known_number((attributes(written) or {}).get(_DELAY))
        grace = workload.pod.written.get("terminationGracePeriodSeconds", _GRACE)
        lives = known_number(grace)
        if delay is not None and lives is not None and lives < delay:
            yield Problem.of(
                workload, f"is ended after {lives} s, and {_who(ingress)} lets its answers end for {delay} s"
            )


def _who(asked: Object) -> str:
    return f"{asked.kind} {asked.namespace}/{asked.name}"
