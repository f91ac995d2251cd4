"""Rules for load balancers of GPU pods that aren't created, cut off responses, or are open to the internet."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.charts import LOAD_BALANCER_CONTROLLER
from gpu_facts.labels import ALB
from gpu_preflight.case import Case
from gpu_preflight.cluster.iam import is_associated
from gpu_preflight.cluster.objects import (
    alb_annotation,
    application_load_balancers,
    attributes,
    has_class_parameters,
    has_https,
    is_shared,
    network_load_balancers,
    runs_controller,
    services_behind,
    workloads_behind,
)
from gpu_preflight.cluster.pools import is_one_hop
from gpu_preflight.cluster.references import created_before
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.pod import Workload
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.objects import Chart, Object
from gpu_preflight.reading.unknown import dig, is_true, known_number, known_text
from gpu_preflight.rule import Problem, rule

_ANNOTATIONS = "https://kubernetes-sigs.github.io/aws-load-balancer-controller/v3.5/guide/ingress/annotations/"
_IDLE = "idle_timeout.timeout_seconds"
_DELAY = "deregistration_delay.timeout_seconds"
# The default of Kubernetes in seconds.
_GRACE = 30
# The annotation for IAM roles for service accounts, which also set the region of pods.
_ROLE = "eks.amazonaws.com/role-arn"
_REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")
_SHOWN = 3


@rule("GPU435", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/aws-load-balancer-controller.html")
def load_balancer_that_nobody_makes(case: Case) -> Iterator[Problem]:
    """Load balancer isn't created, because no controller is installed.

    The class belongs to AWS Load Balancer Controller, which the input doesn't install. No address and no error ever
    appears.

    Fix: Install AWS Load Balancer Controller before the object; with this library: LoadBalancerController.
    """
    cluster = case.cluster
    if not cluster.shows_software or runs_controller(cluster):
        return
    for each in (*application_load_balancers(cluster), *network_load_balancers(cluster)):
        # With plain files, a user may have installed it by hand. Auto Mode may own a class with the same name.
        by_hand = (each.origin.resource is None and not cluster.charts) or cluster.auto_mode
        unknown = by_hand or not cluster.sees_software
        text = f"its load balancer is never created: {LOAD_BALANCER_CONTROLLER} isn't installed"
        yield Problem.from_subject(each, text, unknown=unknown)


def _before_gpus(case: Case) -> Iterator[tuple[Object, Object, Workload]]:
    """Yield each Application Load Balancer with its Services and the workloads with GPUs behind them."""
    for ingress in application_load_balancers(case.cluster):
        for service in services_behind(ingress, case.cluster):
            for workload in workloads_behind(service, case.cluster):
                if workload.asks_for_gpu:
                    yield ingress, service, workload


@rule("GPU438", "note", source=_ANNOTATIONS)
def load_balancer_that_ends_long_answers(case: Case) -> Iterator[Problem]:
    """Load balancer times out long responses.

    After 60 seconds without a byte, clients get 504. A long response that isn't streamed is lost, with its GPU time.

    Fix: Annotate the Ingress with alb.ingress.kubernetes.io/load-balancer-attributes: idle_timeout.timeout_seconds=900.
    """
    for ingress, _, workload in _before_gpus(case):
        set_to = attributes(alb_annotation(ingress, "load-balancer-attributes"))
        if set_to is None or is_shared(ingress) or has_class_parameters(ingress, case.cluster) or _IDLE in set_to:
            continue
        text = f"ends responses of {workload.name} after 60 s idle: {ALB}load-balancer-attributes doesn't set {_IDLE}"
        yield Problem.from_subject(ingress, text)


@rule(
    "GPU439",
    "error",
    source="kubernetes-sigs/aws-load-balancer-controller v3.5.0 pkg/backend/endpoint_resolver.go",
    stops=False,
)
def load_balancer_of_instances_before_a_service_without_node_ports(case: Case) -> Iterator[Problem]:
    """Load balancer needs node ports, but the Service has none.

    The controller creates no load balancer: targets of type instance need a port on each node.

    Fix: Annotate the Ingress with alb.ingress.kubernetes.io/target-type: ip, which also saves a network hop.
    """
    for ingress in application_load_balancers(case.cluster):
        for service in services_behind(ingress, case.cluster):
            if service.spec.get("type", "ClusterIP") != "ClusterIP":
                continue
            kind = _target_type(ingress, service, case.cluster)
            if kind in ("instance", None):
                message = (
                    f"its target type instance needs node ports, but Service {service.name} has type ClusterIP, so its "
                    "load balancer is never created"
                )
                yield Problem.from_subject(ingress, message, unknown=kind is None)


def _target_type(ingress: Object, service: Object, cluster: Cluster) -> str | None:
    """Return the target type; ``None`` if it isn't known."""
    for each in (service, ingress):
        written = alb_annotation(each, "target-type")
        if written is not None:
            return known_text(written)
    chart = cluster.chart(LOAD_BALANCER_CONTROLLER)
    if chart is None or has_class_parameters(ingress, cluster):
        return None
    default = chart.values.get("defaultTargetType", "instance")
    return known_text(default)


@rule("GPU440", "warning", source=_ANNOTATIONS)
def gpus_for_everybody_on_the_internet_in_the_clear(case: Case) -> Iterator[Problem]:
    """GPU endpoint is served to the internet over plain HTTP.

    Anyone on the network path can read prompts, responses and keys, and use the GPUs with them.

    Fix: Annotate the Ingress with alb.ingress.kubernetes.io/certificate-arn, or set its scheme to internal.
    """
    for ingress, _, workload in _before_gpus(case):
        known = not is_shared(ingress) and not has_class_parameters(ingress, case.cluster)
        if known and alb_annotation(ingress, "scheme") == "internet-facing" and not has_https(ingress):
            yield Problem.from_subject(ingress, f"serves {workload.name} to the internet over plain HTTP")


@rule("GPU441", "note", source="https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination")
def pod_that_ends_before_its_answers(case: Case) -> Iterator[Problem]:
    """Pod's grace period is shorter than the load balancer's deregistration delay.

    kubelet kills the pod before the load balancer has finished its responses, so clients lose responses in every
    update.

    Fix: Set terminationGracePeriodSeconds to at least the deregistration delay.
    """
    for ingress, service, workload in _before_gpus(case):
        written = alb_annotation(service, "target-group-attributes") or alb_annotation(
            ingress, "target-group-attributes"
        )
        delay = known_number((attributes(written) or {}).get(_DELAY))
        grace = workload.pod.written.get("terminationGracePeriodSeconds", _GRACE)
        lives = known_number(grace)
        if delay is not None and lives is not None and lives < delay:
            text = f"its pods are killed {lives} s after termination starts, but the target group of {ingress.title}"
            fix = f"Set terminationGracePeriodSeconds of the pods to {delay} or more."
            yield Problem.from_subject(workload, f"{text} drains for {delay} s", fix=fix)


@rule("GPU436", "error", source="kubernetes-sigs/aws-load-balancer-controller v3.5.0 pkg/aws/cloud.go", stops=False)
def load_balancer_controller_out_of_reach_of_what_it_asks(case: Case) -> Iterator[Problem]:
    """Load Balancer Controller can't read the instance metadata that it needs.

    The controller reads region and VPC from its node's metadata. With a hop limit of 1, the request fails, and the
    controller restarts permanently.

    Fix: Set the chart's values region and vpcId; LoadBalancerController of this library sets them.
    """
    cluster, chart = case.cluster, case.cluster.chart(LOAD_BALANCER_CONTROLLER)
    if chart is None or not cluster.pools or not all(is_one_hop(each) for each in cluster.pools):
        return
    if is_true(chart.values.get("hostNetwork")):
        return
    known = {"region": _knows_region(chart, cluster), "vpcId": _knows_vpc(chart)}
    missing = [name for name, given in known.items() if not given]
    if missing:
        names = " and ".join(missing)
        message = f"chart {chart.name}: {names} must be set, because every pool limits instance metadata to 1 hop"
        yield Problem(chart, message, unknown=not cluster.whole or bool(cluster.hidden), doubt=cluster.doubt)


def _knows_region(chart: Chart, cluster: Cluster) -> bool:
    # Pod Identity also sets the region of pods.
    name = known_text(dig(chart.values, "serviceAccount", "name")) or LOAD_BALANCER_CONTROLLER
    if is_associated((chart.namespace, name), cluster) is not Answer.NO:
        return True
    by_role = dig(chart.values, "serviceAccount", "annotations", _ROLE) is not None
    # A service account that another object creates may have the annotation.
    elsewhere = dig(chart.values, "serviceAccount", "create") is False
    by_variable = any(dig(chart.values, "env", each) is not None for each in _REGION_VARIABLES)
    return bool(chart.values.get("region")) or by_role or elsewhere or by_variable or "envFrom" in chart.values


def _knows_vpc(chart: Chart) -> bool:
    return bool(chart.values.get("vpcId")) or bool(chart.values.get("vpcTags"))


@rule("GPU437", "warning", source="https://github.com/kubernetes-sigs/aws-load-balancer-controller/issues/4140")
def service_webhook_that_holds_up_other_software(case: Case) -> Iterator[Problem]:
    """Webhook of the Load Balancer Controller blocks other software.

    Until the controller's pods run, its webhook rejects every new Service. Software that is installed in the meantime
    fails.

    Fix: Set the chart's value enableServiceMutatorWebhook to false, or install the rest after the controller.
    """
    cluster, chart = case.cluster, case.cluster.chart(LOAD_BALANCER_CONTROLLER)
    release = cluster.resources.get(chart.origin.resource or "") if chart is not None else None
    if chart is None or release is None or chart.values.get("enableServiceMutatorWebhook", True) is not True:
        return
    config = "serviceMutatorWebhookConfig"
    if dig(chart.values, config, "failurePolicy") == "Ignore" or dig(chart.values, config, "namespaceSelectors"):
        return
    beside = sorted(_concurrent_service_sources(release, cluster))
    if beside:
        more = f" and {len(beside) - _SHOWN} more" if len(beside) > _SHOWN else ""
        yield Problem(
            chart,
            f"chart {chart.name}: until its pods run, its webhook rejects new Services, so the installation of "
            f"{', '.join(beside[:_SHOWN])}{more} may fail",
        )


def _concurrent_service_sources(release: Resource, cluster: Cluster) -> Iterator[str]:
    """Yield the charts and Services of the same template that are created neither before nor after a release."""
    earlier = created_before(release, cluster)
    # Charts that contain only CRDs have no Services.
    charts = [each for each in cluster.charts if not each.name.endswith(("-crd", "-crds"))]
    named = {each.origin.resource: f"chart {each.name}" for each in charts}
    named |= {each.origin.resource: f"Service {each.name}" for each in cluster.objects_of_kind("Service")}
    for key, name in named.items():
        resource = cluster.resources.get(key or "")
        if resource is None or resource.key == release.key or resource.file != release.file:
            continue
        if resource.key not in earlier and release.key not in created_before(resource, cluster):
            yield name
