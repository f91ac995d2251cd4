"""Cluster autoscaler that does not start."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_preflight.case import Case
from gpu_preflight.cluster.objects.rbac import is_bound, may_everywhere
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.software import Autoscaler
from gpu_preflight.reading.unknown import Unknown, is_expression, known_text
from gpu_preflight.rules.rule import Problem, rule

_FLAGS = "kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/config/flags/flags.go"
# The image of the project is built for every cloud, of which this is the default.
# Source: kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/cloudprovider/builder/builder_all.go
_DEFAULT_CLOUD = "gce"
_CLOUD, _DISCOVERY = "cloud-provider", "node-group-auto-discovery"
# Those by which a node group of EKS can be scaled.
_CLOUDS = ("aws", "externalgrpc", "clusterapi")


def _found(cluster: Cluster) -> Iterator[Autoscaler]:
    return (each for each in cluster.autoscalers if each.kind == "cluster-autoscaler")


def _is_charted(autoscaler: Autoscaler, cluster: Cluster) -> bool:
    return any(each.origin == autoscaler.origin for each in cluster.charts)


@rule("GPU327", "error", source=_FLAGS)
def cluster_autoscaler_of_another_cloud(case: Case) -> Iterator[Problem]:
    """Cluster autoscaler of another cloud.

    It looks for node groups where there are none, or exits at start, and no node is ever made.

    Fix: Set --cloud-provider=aws.
    """
    for each in _found(case.cluster):
        written = each.flags.get(_CLOUD)
        if _is_charted(each, case.cluster) or isinstance(written, Unknown) or is_expression(str(written)):
            continue
        if written is None and _DISCOVERY in each.flags:
            yield Problem(each, f"cluster autoscaler: --{_CLOUD} is missing, and its default is {_DEFAULT_CLOUD}")
        elif written is not None and written not in _CLOUDS:
            yield Problem(each, f"cluster autoscaler: --{_CLOUD} is {written!r}, and this is EKS")


@rule("GPU328", "error", source="https://github.com/kubernetes/autoscaler/issues/1507", presumed=True)
def cluster_autoscaler_that_may_not_list_nodes(case: Case) -> Iterator[Problem]:
    """Cluster autoscaler that may not list nodes.

    The API server forbids what it asks first; it exits, and no node is ever made.

    Fix: Bind its service account to a ClusterRole with list and watch of nodes and pods, as the project's example does.
    """
    cluster = case.cluster
    for each in _found(cluster):
        space, name = each.service_account
        if _is_charted(each, cluster) or not _tells_rights(each, cluster):
            continue
        lacking = [
            kind
            for kind in ("nodes", "pods")
            if may_everywhere(each.service_account, ("list", "watch"), kind, cluster) is Answer.NO
        ]
        if not is_bound(each.service_account, cluster):
            text = f"no ClusterRoleBinding names its service account {space}/{name}, so that it may not list nodes"
            alone = not cluster.of_kind("ClusterRole", "ClusterRoleBinding")
            yield Problem(each, f"cluster autoscaler: {text}", unknown=alone or not cluster.sees_objects)
        elif lacking:
            text = (
                f"no ClusterRole of its service account {space}/{name} lets it list and watch {' and '.join(lacking)}"
            )
            yield Problem(each, f"cluster autoscaler: {text}", unknown=not cluster.sees_objects)


def _tells_rights(autoscaler: Autoscaler, cluster: Cluster) -> bool:
    """Whether the input tells of accounts and their rights at all; who writes the one writes the other."""
    accounts = {(each.namespace, each.name) for each in cluster.of_kind("ServiceAccount")}
    written = autoscaler.service_account in accounts or bool(cluster.of_kind("ClusterRole", "ClusterRoleBinding"))
    return written and known_text(autoscaler.pod.service_account) is not None
