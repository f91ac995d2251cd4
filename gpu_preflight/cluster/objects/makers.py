"""What makes the namespaces of a cluster."""

from __future__ import annotations

from functools import cached_property

from gpu_facts.labels import DEFINITIONS_RESOURCE, SIZE_RESOURCE, TAGS_RESOURCE
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.unknown import dig, is_expression, may_equal

_OF_KUBERNETES = "kube-"
# Of Kubernetes itself, and those that software is known to make beside its own, of which nothing is said.
_KNOWN = (
    *("default", "amazon-cloudwatch", "amazon-guardduty", "argocd", "aws-observability", "cert-manager"),
    *("external-dns", "flux-system", "kai-resource-reservation", "kai-scale-adjust", "mount-s3"),
    *("opentelemetry-operator-system", "prometheus-node-exporter"),
)
# Custom resources that speak with a cluster and make no namespace.
_NO_MAKERS = ("Custom::AWS", DEFINITIONS_RESOURCE, SIZE_RESOURCE, TAGS_RESOURCE)
_CAPABILITY, _CUSTOM = "AWS::EKS::Capability", "AWS::CloudFormation::CustomResource"


class Makers:
    """What makes the namespaces of one cluster.

    Args:
        cluster: The cluster.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def of(self, namespace: str) -> Answer:
        """Say whether a new cluster has a namespace, of itself or because something in the input makes it."""
        if namespace in _KNOWN or namespace in self._made or namespace.startswith(_OF_KUBERNETES):
            return Answer.YES
        unclear = is_expression(namespace) or any(may_equal(each, namespace) for each in self._filled_in)
        return Answer.UNKNOWN if unclear or self._are_hidden else Answer.NO

    @cached_property
    def _made(self) -> frozenset[str]:
        """Names of the namespaces that the input makes."""
        written = [each.name for each in self._cluster.of_kind("Namespace")]
        released = [each.namespace for each in self._cluster.charts]
        added = [dig(dict(each.resource.properties), "NamespaceConfig", "Namespace") for each in self._cluster.addons]
        return frozenset((*written, *released, *(str(each) for each in added if each)))

    @cached_property
    def _filled_in(self) -> tuple[str, ...]:
        return tuple(filter(is_expression, self._made))

    @cached_property
    def _are_hidden(self) -> bool:
        """Whether something makes namespaces that the input does not tell of."""
        return bool(self._cluster.may_hide("objects") or self._cluster.unknown_software) or self._is_named_by_makers()

    def _is_named_by_makers(self) -> bool:
        cluster = self._cluster
        if cluster.resource is None:
            return False
        signs = (f"${{{cluster.resource.key}", f"'{cluster.name}'")
        written = (str(each.properties) for each in cluster.resources.values() if _may_make(each))
        return any(sign in text for text in written for sign in signs)


def _may_make(resource: Resource) -> bool:
    """Whether a resource may make anything in its cluster: a function of the user's, or a capability of EKS."""
    kind = resource.type
    if kind in (_CAPABILITY, _CUSTOM):
        return True
    return not kind.startswith(("AWS::", *_NO_MAKERS))
