"""What makes the namespaces of a cluster."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_constructs.facts.labels import DEFINITIONS_RESOURCE, SIZE_RESOURCE
from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.cluster import Cluster
from gpu_constructs.preflight.reading.cloudformation import Resource
from gpu_constructs.preflight.reading.unknown import dig, is_expression, may_equal

# Of Kubernetes itself.
_OWN = ("default",)
_OWN_PREFIX = "kube-"
# What charts and add-ons make beside the namespace that they are in.
# Sources: kai-scheduler v0.17.0 deployments/kai-scheduler/templates, mountpoint-s3-csi-driver v2.7.0, the add-ons'
# pages of the EKS user guide (2026-11)
_BROUGHT = (
    *("amazon-cloudwatch", "amazon-guardduty", "argocd", "aws-observability", "cert-manager", "external-dns"),
    *("flux-system", "kai-resource-reservation", "kai-scale-adjust", "mount-s3", "opentelemetry-operator-system"),
    "prometheus-node-exporter",
)
# Custom resources that speak with a cluster and make no namespace.
_NO_MAKERS = ("Custom::AWS", DEFINITIONS_RESOURCE, SIZE_RESOURCE)
_CAPABILITY = "AWS::EKS::Capability"


def is_made(namespace: str, cluster: Cluster) -> Answer:
    """Say whether a new cluster has a namespace, of itself or because something in the input makes it."""
    if namespace in _OWN or namespace.startswith(_OWN_PREFIX):
        return Answer.YES
    made = set(_made(cluster))
    if namespace in made:
        return Answer.YES
    unclear = is_expression(namespace) or any(is_expression(each) and may_equal(each, namespace) for each in made)
    if unclear or namespace in _BROUGHT or cluster.opaque or any(map(_may_make, _of(cluster))):
        return Answer.UNKNOWN
    return Answer.NO


def _made(cluster: Cluster) -> Iterator[str]:
    """Yield the names of the namespaces that the input makes."""
    for each in cluster.of_kind("Namespace"):
        yield each.name
    for chart in cluster.charts:
        yield chart.namespace
    for addon in cluster.addons:
        if name := dig(dict(addon.resource.properties), "NamespaceConfig", "Namespace"):
            yield str(name)


def _of(cluster: Cluster) -> Iterator[Resource]:
    """Yield the resources that name a cluster."""
    if cluster.resource is not None:
        signs = (f"${{{cluster.resource.key}", f"'{cluster.name}'")
        for each in cluster.resources.values():
            if any(sign in str(each.properties) for sign in signs):
                yield each


def _may_make(resource: Resource) -> bool:
    """Whether a resource may make anything in its cluster: a function of the user's, or a capability of EKS."""
    kind = resource.type
    foreign = not kind.startswith("AWS::") or kind == "AWS::CloudFormation::CustomResource"
    return kind == _CAPABILITY or (foreign and not kind.startswith(_NO_MAKERS))
