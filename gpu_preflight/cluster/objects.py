"""Kubernetes objects other than workloads: load balancers, RBAC, namespaces, ConfigMaps, Secrets, partial objects.

The module finds the ConfigMaps and Secrets that a pod names and that it needs to start.

Source: https://kubernetes.io/docs/concepts/configuration/secret/ (2026-11)

The module also finds the permissions of service accounts and groups, as far as roles and bindings are in the input.

Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/ (2026-11)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

from gpu_facts.charts import LOAD_BALANCER_CONTROLLER
from gpu_facts.labels import (
    ALB,
    ALB_CLASS,
    ALB_CONTROLLER,
    DEFINITIONS_RESOURCE,
    GROUPS_NAME,
    NAMESPACE_NAME,
    NLB,
    NLB_CLASS,
    SIZE_RESOURCE,
    TAGS_RESOURCE,
    WORKER_INDEX,
)
from gpu_facts.light import dataclass
from gpu_preflight.model.answer import Answer, all_yes
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.label_values import Labels, Requirement, equal, exactly, requirement
from gpu_preflight.model.pod import Pod, Workload
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, is_expression, items, known_text, mapping, mappings, may_equal

_WITH_PODS = ("DaemonSet", "Deployment", "Job", "ReplicaSet", "StatefulSet")
_OLD_CLASS = "kubernetes.io/ingress.class"
_OF_KUBERNETES = "kube-"
# Kinds of Kubernetes, and kinds from which software creates no namespaces.
_KNOWN = (
    *("default", "amazon-cloudwatch", "amazon-guardduty", "argocd", "aws-observability", "cert-manager"),
    *("external-dns", "flux-system", "kai-resource-reservation", "kai-scale-adjust", "mount-s3"),
    *("opentelemetry-operator-system", "prometheus-node-exporter"),
)
# Custom resources that call a cluster's API and create no namespace.
_NO_MAKERS = ("Custom::AWS", DEFINITIONS_RESOURCE, SIZE_RESOURCE, TAGS_RESOURCE)
_CAPABILITY, _CUSTOM = "AWS::EKS::Capability", "AWS::CloudFormation::CustomResource"
DataKind = Literal["ConfigMap", "Secret"]
# A controller creates it in every namespace.
# Source: kubernetes/kubernetes v1.36.3 pkg/controller/certificates/rootcacertpublisher/publisher.go
_EVERYWHERE = ("kube-root-ca.crt",)
# Kinds that create a Secret, and the path of the Secret's name. Without a path, the Secret has the object's name.
# Sources: external-secrets/external-secrets v1.3.2, bitnami/sealed-secrets v0.32, cert-manager/cert-manager v1.19
_MAKERS = {
    "ExternalSecret": ("spec", "target", "name"),
    "SealedSecret": ("spec", "template", "metadata", "name"),
    "Certificate": ("spec", "secretName"),
}
# Roles that exist in every cluster and that allow reading nodes and pods.
_OF_EVERY_CLUSTER = ("cluster-admin",)


def may_be_excerpt(each: Object) -> bool:
    """Whether a file has only a part of an object: complete pods have a container with an image.

    Objects in templates are complete.
    """
    if each.origin.resource is not None or each.kind not in _WITH_PODS:
        return False
    return lacks_images(dig(each.spec, "template", "spec"))


def lacks_images(pod: Any) -> bool:
    """Whether a pod is written without a container, or without the image of one."""
    written = dig(pod, "containers")
    if isinstance(pod, Unknown) or isinstance(written, Unknown):
        return False
    containers = mappings(written)
    return not containers or any("image" not in container for container in containers)


def runs_controller(cluster: Cluster) -> bool:
    """Whether a cluster in the input has the controller, as its chart or as a Deployment of its image."""
    return cluster.chart(LOAD_BALANCER_CONTROLLER) is not None or any(
        LOAD_BALANCER_CONTROLLER in str(each.get("image"))
        for one in cluster.objects_of_kind("Deployment")
        for each in mappings(dig(one.spec, "template", "spec", "containers"))
    )


def application_load_balancers(cluster: Cluster) -> list[Object]:
    """Return the Ingresses with the controller's class."""
    controllers = {each.name: dig(each.spec, "controller") for each in cluster.objects_of_kind("IngressClass")}
    controllers.setdefault(ALB_CLASS, ALB_CONTROLLER)
    return [
        each
        for each in cluster.objects_of_kind("Ingress")
        if controllers.get(_ingress_class(each) or "") == ALB_CONTROLLER
    ]


def _ingress_class(ingress: Object) -> str | None:
    return known_text(ingress.spec.get("ingressClassName")) or known_text(ingress.annotations.get(_OLD_CLASS))


def network_load_balancers(cluster: Cluster) -> list[Object]:
    """Return the Services for which the controller creates a load balancer."""
    return [
        each
        for each in cluster.objects_of_kind("Service")
        if each.spec.get("type") == "LoadBalancer"
        and (
            each.spec.get("loadBalancerClass") == NLB_CLASS
            or each.annotations.get(f"{NLB}type") in ("external", "nlb-ip")
        )
    ]


def alb_annotation(asked: Object, name: str) -> Any:
    """Return an annotation of an Application Load Balancer; ``None`` if there is none."""
    return asked.annotations.get(f"{ALB}{name}")


def is_shared(ingress: Object) -> bool:
    """Whether other Ingresses share and configure the same load balancer."""
    return alb_annotation(ingress, "group.name") is not None


def has_class_parameters(ingress: Object, cluster: Cluster) -> bool:
    """Whether parameters of its class may configure the load balancer too. They are rarely complete in the input."""
    chart = cluster.chart(LOAD_BALANCER_CONTROLLER)
    written = [each for each in cluster.objects_of_kind("IngressClass") if each.name == _ingress_class(ingress)]
    return any(each.spec.get("parameters") for each in written) or bool(
        chart is not None and dig(chart.values, "ingressClassParams", "spec")
    )


def attributes(written: Any) -> dict[str, str] | None:
    """Return attributes such as ``a=1,b=2``; ``None`` if they aren't known."""
    if written is None:
        return {}
    text = known_text(written)
    if text is None:
        return None
    pairs = (each.partition("=") for each in text.split(",") if each.strip())
    return {key.strip(): value.strip() for key, _, value in pairs}


def has_https(ingress: Object) -> bool:
    """Whether it listens with TLS, or whether that isn't known."""
    if alb_annotation(ingress, "certificate-arn") is not None or ingress.spec.get("tls"):
        return True
    ports = alb_annotation(ingress, "listen-ports")
    if ports is None:
        return False
    try:
        listens = json.loads(known_text(ports) or "")
    except ValueError:
        return True
    return any("HTTP" not in each for each in mappings(listens))


def services_behind(ingress: Object, cluster: Cluster) -> list[Object]:
    """Return the Services in the input that an Ingress routes to."""
    rules = mappings(ingress.spec.get("rules"))
    paths = [path for rule in rules for path in mappings(dig(rule, "http", "paths"))]
    backends = [ingress.spec.get("defaultBackend"), *(each.get("backend") for each in paths)]
    names = {known_text(dig(each, "service", "name")) for each in backends}
    own = [each for each in cluster.objects_of_kind("Service") if each.namespace == ingress.namespace]
    return [each for each in own if each.name in names]


def workloads_behind(service: Object, cluster: Cluster) -> Iterator[Workload]:
    """Yield the workloads whose pods a Service certainly selects."""
    selector = mapping(service.spec.get("selector"))
    for each in cluster.workloads if selector else ():
        labels = {**each.labels, **_given_by_controllers(each)}
        if each.namespace == service.namespace and all(labels.get(key) == value for key, value in selector.items()):
            yield each


def _given_by_controllers(workload: Workload) -> Mapping[str, str]:
    """Return the labels that the LeaderWorkerSet controller sets on pods."""
    if workload.owner.kind != "LeaderWorkerSet":
        return {}
    leads = workload.name.endswith(" leader")
    return {GROUPS_NAME: workload.owner.name} | ({WORKER_INDEX: "0"} if leads else {})


class Makers:
    """The objects and resources that create the namespaces of one cluster.

    Args:
        cluster: The cluster.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def has_namespace(self, namespace: str) -> Answer:
        """Return whether a new cluster has a namespace, by default or because something in the input creates it."""
        if namespace in _KNOWN or namespace in self._created_namespaces or namespace.startswith(_OF_KUBERNETES):
            return Answer.YES
        unclear = is_expression(namespace) or any(may_equal(each, namespace) for each in self._unresolved_namespaces)
        return Answer.UNKNOWN if unclear or self._are_hidden else Answer.NO

    @cached_property
    def _created_namespaces(self) -> frozenset[str]:
        """Names of the namespaces that the input creates."""
        written = [each.name for each in self._cluster.objects_of_kind("Namespace")]
        released = [each.namespace for each in self._cluster.charts]
        added = [dig(dict(each.resource.properties), "NamespaceConfig", "Namespace") for each in self._cluster.addons]
        return frozenset((*written, *released, *(str(each) for each in added if each)))

    @cached_property
    def _unresolved_namespaces(self) -> tuple[str, ...]:
        return tuple(filter(is_expression, self._created_namespaces))

    @cached_property
    def _are_hidden(self) -> bool:
        """Whether something may create namespaces that the input doesn't show."""
        return bool(self._cluster.may_hide("objects") or self._cluster.unknown_software) or self._is_named_by_makers()

    def _is_named_by_makers(self) -> bool:
        cluster = self._cluster
        if cluster.resource is None:
            return False
        signs = (f"${{{cluster.resource.key}", f"'{cluster.name}'")
        written = (str(each.properties) for each in cluster.resources.values() if _may_make(each))
        return any(sign in text for text in written for sign in signs)


def _may_make(resource: Resource) -> bool:
    """Whether a resource may create anything in its cluster: a user's function, or a capability of EKS."""
    kind = resource.type
    if kind in (_CAPABILITY, _CUSTOM):
        return True
    return not kind.startswith(("AWS::", *_NO_MAKERS))


@dataclass(frozen=True, slots=True)
class NamedData:
    """A ConfigMap or Secret as a pod names it.

    Attributes:
        kind: Which of the two.
        name: Its name.
        keys: Its keys that the pod needs to start.
    """

    kind: DataKind
    name: str
    keys: tuple[str, ...] = ()


def named_data(pod: Pod) -> Iterator[NamedData]:
    """Yield the ConfigMaps and Secrets that a pod names, except optional ones and names known at deployment only."""
    for volume in mappings(pod.written.get("volumes")):
        yield from _source_data(volume, "secretName")
        for each in mappings(dig(volume, "projected", "sources")):
            yield from _source_data(each, "name")
    for container in (*mappings(pod.written.get("initContainers")), *mappings(pod.written.get("containers"))):
        for each in mappings(container.get("env")):
            source = mapping(each.get("valueFrom"))
            yield from _named("ConfigMap", source.get("configMapKeyRef"), "name")
            yield from _named("Secret", source.get("secretKeyRef"), "name")
        for each in mappings(container.get("envFrom")):
            yield from _named("ConfigMap", each.get("configMapRef"), "name")
            yield from _named("Secret", each.get("secretRef"), "name")


def _source_data(source: Mapping[str, Any], name_of_secret: str) -> Iterator[NamedData]:
    yield from _named("ConfigMap", source.get("configMap"), "name")
    yield from _named("Secret", source.get("secret"), name_of_secret)


def _named(kind: DataKind, source: Any, field: str) -> Iterator[NamedData]:
    name = _text(dig(source, field))
    if name is None or dig(source, "optional") not in (None, False) or name in _EVERYWHERE:
        return
    keys = [_text(each) for each in (dig(source, "key"), *(dig(each, "key") for each in items(dig(source, "items"))))]
    yield NamedData(kind, name, tuple(each for each in keys if each is not None))


def _text(value: Any) -> str | None:
    text = known_text(value)
    return None if text is None or is_expression(text) else text


def keys_by_name(kind: DataKind, namespace: str, cluster: Cluster) -> dict[str, frozenset[str] | None]:
    """Return the keys of each ConfigMap or Secret of a namespace; ``None`` if a controller fills it in."""
    found: dict[str, frozenset[str] | None] = {}
    for each in cluster.objects_of_kind(kind):
        if each.namespace == namespace:
            keys, more = _keys(each), found.get(each.name, frozenset())
            # If it is written twice, as a base and an overlay, it has the keys of both.
            found[each.name] = None if keys is None or more is None else keys | more
    for each in cluster.objects_of_kind(*_MAKERS) if kind == "Secret" else ():
        if each.namespace == namespace:
            found[_text(dig(dict(each.content), *_MAKERS[each.kind])) or each.name] = None
    return found


def _keys(each: Object) -> frozenset[str] | None:
    parts = [each.content.get(part) for part in ("data", "binaryData", "stringData")]
    keys = frozenset(key for part in parts for key in mapping(part))
    # A controller fills in an empty one.
    return keys if keys and not any(isinstance(part, Unknown) for part in parts) else None


def is_selected(selector: Any, namespace: str, cluster: Cluster) -> Answer:
    """Return whether a label selector selects a namespace. The labels of a namespace outside the input aren't known."""
    if not isinstance(selector, dict):
        return Answer.UNKNOWN
    return all_yes(answer for _, answer in selection_answers(selector, namespace, cluster))


def selection_answers(
    selector: Mapping[str, Any], namespace: str, cluster: Cluster
) -> Iterator[tuple[Requirement, Answer]]:
    """Yield each requirement of a label selector, with whether a namespace meets it."""
    expressions = map(requirement, mappings(selector.get("matchExpressions")))
    labels = _labels(namespace, cluster)
    # The API server sets each namespace's name as a label.
    named = labels if labels is not None else {NAMESPACE_NAME: _value(namespace)}
    for each in (*equal(mapping(selector.get("matchLabels"))), *expressions):
        known = labels is not None or each.key == NAMESPACE_NAME
        yield each, _settled(each).matches(named) if known else Answer.UNKNOWN


def _labels(namespace: str, cluster: Cluster) -> Labels | None:
    found = [each.labels for each in cluster.objects_of_kind("Namespace") if each.name == namespace]
    if not found:
        return None
    return {key: _value(value) for labels in found for key, value in {**labels, NAMESPACE_NAME: namespace}.items()}


def _value(written: Any) -> Any:
    if isinstance(written, Unknown):
        return written
    text = str(written)
    return Unknown(text) if is_expression(text) else exactly(text)


def _settled(wanted: Requirement) -> Requirement:
    """Return a requirement, without its values if one of them is known at deployment only."""
    return replace(wanted, values=None) if any(map(is_expression, wanted.values or ())) else wanted


def may_everywhere(account: tuple[str, str], verbs: tuple[str, ...], resource: str, cluster: Cluster) -> Answer:
    """Return whether a service account may access a resource of the core group in every namespace.

    Args:
        account: Namespace and name of the service account.
        verbs: The verbs that it needs.
        resource: E.g. ``nodes``.
        cluster: Its cluster.
    """
    answers = [_allows(role, verbs, resource) for role in _roles(account, cluster)]
    if Answer.YES in answers:
        return Answer.YES
    return Answer.UNKNOWN if Answer.UNKNOWN in answers else Answer.NO


def is_bound(account: tuple[str, str], cluster: Cluster) -> bool:
    """Whether a ClusterRoleBinding names a service account, or may name it."""
    return any(True for _ in _roles(account, cluster))


def bound_groups(cluster: Cluster) -> Iterator[tuple[Object, str]]:
    """Yield each group that a binding names, with the binding."""
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        for binding in cluster.objects_of_kind(kind):
            for subject in mappings(binding.content.get("subjects")):
                name = known_text(subject.get("name"))
                if subject.get("kind") == "Group" and name is not None:
                    yield binding, name


def _roles(account: tuple[str, str], cluster: Cluster) -> Iterator[Object | str | None]:
    """Yield the roles that an account is bound to: a role of the input, a name of another, ``None`` if unknown."""
    there = {each.name: each for each in cluster.objects_of_kind("ClusterRole")}
    for binding in cluster.objects_of_kind("ClusterRoleBinding"):
        if any(_is(subject, account) for subject in _subjects(binding)):
            name = known_text(dig(binding.content, "roleRef", "name"))
            yield None if name is None else there.get(name, name)


def _subjects(binding: Object) -> list[Any]:
    listed = binding.content.get("subjects")
    return [Unknown("${subjects}")] if isinstance(listed, Unknown) else mappings(listed)


def _is(subject: Any, account: tuple[str, str]) -> bool:
    if isinstance(subject, Unknown):
        return True
    space, name = account
    if subject.get("kind") == "Group":
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{space}", "system:authenticated")
        return isinstance(subject.get("name"), Unknown) or subject.get("name") in groups
    return _same(subject.get("namespace"), space) and _same(subject.get("name"), name)


def _same(written: Any, text: str) -> bool:
    return isinstance(written, Unknown) or written == text


def _allows(role: Object | str | None, verbs: tuple[str, ...], resource: str) -> Answer:
    if role is None or isinstance(role, str):
        return Answer.YES if role in _OF_EVERY_CLUSTER else Answer.UNKNOWN
    rules = role.content.get("rules")
    if isinstance(rules, Unknown) or role.content.get("aggregationRule"):
        return Answer.UNKNOWN
    given: set[str] = set()
    for rule in mappings(rules):
        parts = [rule.get(key) for key in ("apiGroups", "resources", "verbs")]
        if any(not isinstance(each, list) for each in parts):
            return Answer.UNKNOWN
        groups, resources, allowed = parts
        if _has(groups, "") and _has(resources, resource) and not rule.get("resourceNames"):
            given |= {verb for verb in verbs if _has(allowed, verb)}
    return Answer.YES if given == set(verbs) else Answer.NO


def _has(listed: Any, name: str) -> bool:
    return any(each in ("*", name) or isinstance(each, Unknown) for each in listed)
