"""Load balancers that objects ask AWS Load Balancer Controller for, and the pods behind them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from gpu_facts.charts import LOAD_BALANCER_CONTROLLER
from gpu_facts.labels import ALB, ALB_CLASS, ALB_CONTROLLER, GROUPS_NAME, NLB, NLB_CLASS, WORKER_INDEX
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, known_text, mapping, mappings

_OLD_CLASS = "kubernetes.io/ingress.class"


def runs_controller(cluster: Cluster) -> bool:
    """Whether the controller is seen in a cluster: as its chart, or as a Deployment of its image."""
    return cluster.chart(LOAD_BALANCER_CONTROLLER) is not None or any(
        LOAD_BALANCER_CONTROLLER in str(each.get("image"))
        for one in cluster.of_kind("Deployment")
        for each in mappings(dig(one.spec, "template", "spec", "containers"))
    )


def application_load_balancers(cluster: Cluster) -> list[Object]:
    """Return the Ingresses whose class is the controller's."""
    controllers = {each.name: dig(each.spec, "controller") for each in cluster.of_kind("IngressClass")}
    controllers.setdefault(ALB_CLASS, ALB_CONTROLLER)
    return [each for each in cluster.of_kind("Ingress") if controllers.get(_class_of(each) or "") == ALB_CONTROLLER]


def _class_of(ingress: Object) -> str | None:
    return known_text(ingress.spec.get("ingressClassName")) or known_text(ingress.annotations.get(_OLD_CLASS))


def network_load_balancers(cluster: Cluster) -> list[Object]:
    """Return the Services that ask the controller for a load balancer."""
    return [
        each
        for each in cluster.of_kind("Service")
        if each.spec.get("type") == "LoadBalancer"
        and (
            each.spec.get("loadBalancerClass") == NLB_CLASS
            or each.annotations.get(f"{NLB}type") in ("external", "nlb-ip")
        )
    ]


def said(asked: Object, name: str) -> Any:
    """Return an annotation on an Application Load Balancer; ``None`` where there is none."""
    return asked.annotations.get(f"{ALB}{name}")


def is_shared(ingress: Object) -> bool:
    """Whether other Ingresses say what the load balancer is, too."""
    return said(ingress, "group.name") is not None


def has_class_parameters(ingress: Object, cluster: Cluster) -> bool:
    """Whether parameters of its class, which are seldom in the input whole, may say more of the load balancer."""
    chart = cluster.chart(LOAD_BALANCER_CONTROLLER)
    written = [each for each in cluster.of_kind("IngressClass") if each.name == _class_of(ingress)]
    return any(each.spec.get("parameters") for each in written) or bool(
        chart is not None and dig(chart.values, "ingressClassParams", "spec")
    )


def attributes(written: Any) -> dict[str, str] | None:
    """Return attributes such as ``a=1,b=2``; ``None`` where they are not known."""
    if written is None:
        return {}
    text = known_text(written)
    if text is None:
        return None
    pairs = (each.partition("=") for each in text.split(",") if each.strip())
    return {key.strip(): value.strip() for key, _, value in pairs}


def has_https(ingress: Object) -> bool:
    """Whether it listens with TLS, or it is not known that it does not."""
    if said(ingress, "certificate-arn") is not None or ingress.spec.get("tls"):
        return True
    ports = said(ingress, "listen-ports")
    if ports is None:
        return False
    try:
        listens = json.loads(known_text(ports) or "")
    except ValueError:
        return True
    return any("HTTP" not in each for each in mappings(listens))


def services_behind(ingress: Object, cluster: Cluster) -> list[Object]:
    """Return the Services in the input that an Ingress sends to."""
    rules = mappings(ingress.spec.get("rules"))
    paths = [path for rule in rules for path in mappings(dig(rule, "http", "paths"))]
    backends = [ingress.spec.get("defaultBackend"), *(each.get("backend") for each in paths)]
    names = {known_text(dig(each, "service", "name")) for each in backends}
    own = [each for each in cluster.of_kind("Service") if each.namespace == ingress.namespace]
    return [each for each in own if each.name in names]


def workloads_behind(service: Object, cluster: Cluster) -> Iterator[Workload]:
    """Yield the workloads whose pods a Service certainly sends to."""
    selector = mapping(service.spec.get("selector"))
    for each in cluster.workloads if selector else ():
        labels = {**each.labels, **_given_by_controllers(each)}
        if each.namespace == service.namespace and all(labels.get(key) == value for key, value in selector.items()):
            yield each


def _given_by_controllers(workload: Workload) -> Mapping[str, str]:
    """Return labels that the controller of LeaderWorkerSets gives pods."""
    if workload.owner.kind != "LeaderWorkerSet":
        return {}
    leads = workload.name.endswith(" leader")
    return {GROUPS_NAME: workload.owner.name} | ({WORKER_INDEX: "0"} if leads else {})
