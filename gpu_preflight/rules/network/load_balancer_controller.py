"""AWS Load Balancer Controller that cannot start, or holds up what is installed beside it."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.charts import LOAD_BALANCER_CONTROLLER
from gpu_preflight.case import Case
from gpu_preflight.cluster.iam import is_associated
from gpu_preflight.cluster.launch import is_one_hop
from gpu_preflight.cluster.references import created_before
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.objects import Chart
from gpu_preflight.reading.unknown import dig, is_true, known_text
from gpu_preflight.rules.rule import Problem, rule

# By which IAM roles for service accounts are asked for; who gives them gives pods their region, too.
_ROLE = "eks.amazonaws.com/role-arn"
_REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")
_SHOWN = 3


@rule("GPU436", "error", source="kubernetes-sigs/aws-load-balancer-controller v3.5.0 pkg/aws/cloud.go", stops=False)
def load_balancer_controller_out_of_reach_of_what_it_asks(case: Case) -> Iterator[Problem]:
    """Load Balancer Controller out of reach of the metadata it asks.

    It asks its node for region and VPC; with a hop limit of 1 nobody answers, and it starts anew for ever.

    Fix: Set the chart's values region and vpcId, as LoadBalancerController of this library does.
    """
    cluster, chart = case.cluster, case.cluster.chart(LOAD_BALANCER_CONTROLLER)
    if chart is None or not cluster.pools or not all(is_one_hop(each) for each in cluster.pools):
        return
    if is_true(chart.values.get("hostNetwork")):
        return
    known = {"region": _knows_region(chart, cluster), "vpcId": _knows_vpc(chart)}
    missing = [name for name, given in known.items() if not given]
    if missing:
        message = f"chart {chart.name}: {' and '.join(missing)} missing, and metadata is one hop away on every pool"
        yield Problem(chart, message, unknown=not cluster.whole or bool(cluster.hidden))


def _knows_region(chart: Chart, cluster: Cluster) -> bool:
    # Pod Identity, too, gives pods their region with the credentials.
    name = known_text(dig(chart.values, "serviceAccount", "name")) or LOAD_BALANCER_CONTROLLER
    if is_associated((chart.namespace, name), cluster) is not Answer.NO:
        return True
    by_role = dig(chart.values, "serviceAccount", "annotations", _ROLE) is not None
    # An account made elsewhere may have the annotation.
    elsewhere = dig(chart.values, "serviceAccount", "create") is False
    by_variable = any(dig(chart.values, "env", each) is not None for each in _REGION_VARIABLES)
    return bool(chart.values.get("region")) or by_role or elsewhere or by_variable or "envFrom" in chart.values


def _knows_vpc(chart: Chart) -> bool:
    return bool(chart.values.get("vpcId")) or bool(chart.values.get("vpcTags"))


@rule("GPU437", "warning", source="https://github.com/kubernetes-sigs/aws-load-balancer-controller/issues/4140")
def service_webhook_that_holds_up_other_software(case: Case) -> Iterator[Problem]:
    """Service webhook that holds up other software.

    Until the controller's pods run, its webhook refuses every new Service; what is installed meanwhile fails.

    Fix: Set the chart's value enableServiceMutatorWebhook to false, or install the rest after the controller.
    """
    cluster, chart = case.cluster, case.cluster.chart(LOAD_BALANCER_CONTROLLER)
    release = cluster.resources.get(chart.origin.resource or "") if chart is not None else None
    if chart is None or release is None or chart.values.get("enableServiceMutatorWebhook", True) is not True:
        return
    config = "serviceMutatorWebhookConfig"
    if dig(chart.values, config, "failurePolicy") == "Ignore" or dig(chart.values, config, "namespaceSelectors"):
        return
    beside = sorted(_beside(release, cluster))
    if beside:
        more = f" and {len(beside) - _SHOWN} more" if len(beside) > _SHOWN else ""
        yield Problem(
            chart, f"chart {chart.name}: refuses Services while it starts, of {', '.join(beside[:_SHOWN])}{more}"
        )


def _beside(release: Resource, cluster: Cluster) -> Iterator[str]:
    """Yield what brings Services of the same template neither before nor after a release."""
    earlier = created_before(release, cluster)
    # What brings definitions alone has no Services.
    charts = [each for each in cluster.charts if not each.name.endswith(("-crd", "-crds"))]
    named = {each.origin.resource: f"chart {each.name}" for each in charts}
    named |= {each.origin.resource: f"Service {each.name}" for each in cluster.of_kind("Service")}
    for key, name in named.items():
        resource = cluster.resources.get(key or "")
        if resource is None or resource.key == release.key or resource.file != release.file:
            continue
        if resource.key not in earlier and release.key not in created_before(resource, cluster):
            yield name
