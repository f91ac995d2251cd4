"""Network policies that filter nothing."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.charts import NETWORKS, VPC_CNI
from gpu_preflight.case import Case
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.software import Addon
from gpu_preflight.reading.unknown import Unknown, is_true
from gpu_preflight.rules.rule import Problem, rule

_SWITCH = "enableNetworkPolicy"
# What of other networks enforces policies, where no chart brings it.
_OTHERS = ("calico-node", "cilium", "kube-router", "antrea-agent")


@rule(
    "GPU433",
    "note",
    source="https://docs.aws.amazon.com/eks/latest/userguide/cni-network-policy-configure.html",
)
def network_policy_that_nothing_enforces(case: Case) -> Iterator[Problem]:
    """Network policy that nothing enforces.

    The API server takes it, and every pod stays open: the VPC CNI enforces policies only when it is told to.

    Fix: Have enableNetworkPolicy: "true" in the add-on's ConfigurationValues, with this library by
    GpuCluster(network_policies=True).
    """
    cluster = case.cluster
    addon = next((each for each in cluster.addons if each.name == VPC_CNI), None)
    if addon is None or _enforces(addon) or _has_another(cluster):
        return
    unknown = bool(cluster.unknown_software) or addon.resource.conditional or _is_open(addon)
    for each in cluster.of_kind("NetworkPolicy"):
        if each.group == "networking.k8s.io":
            text = f"NetworkPolicy {each.namespace}/{each.name}: add-on {VPC_CNI} has {_SWITCH} off"
            yield Problem(each, text, unknown=unknown)


def _enforces(addon: Addon) -> bool:
    return is_true(addon.configuration.get(_SWITCH))


def _is_open(addon: Addon) -> bool:
    written = addon.resource.properties.get("ConfigurationValues")
    return isinstance(written, Unknown) or isinstance(addon.configuration.get(_SWITCH), Unknown)


def _has_another(cluster: Cluster) -> bool:
    by_chart = any(cluster.chart(each) for each in NETWORKS)
    return by_chart or any(each.name in _OTHERS for each in cluster.daemon_sets)
