"""Nodes that take more pods than they have addresses for."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.charts import AWS_NODE, NETWORKS, VPC_CNI
from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.hardware.kubelet_reserve import eni_pods
from gpu_preflight.case import Case
from gpu_preflight.cluster.references import setting
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.node.node_size import told_max_pods
from gpu_preflight.node.nodes import gpu_types
from gpu_preflight.reading.unknown import Unknown, dig, is_true
from gpu_preflight.rules.rule import Problem, rule

_PREFIXES = "ENABLE_PREFIX_DELEGATION"


@rule("GPU454", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/cni-increase-ip-addresses.html")
def more_pods_than_addresses_of_a_node(case: Case) -> Iterator[Problem]:
    """More pods than a node has addresses for.

    The scheduler fills the node, and pods beyond its addresses wait in ContainerCreating.

    Fix: Switch prefix delegation of the network plugin on, GpuCluster(prefix_delegation=True), or lower maxPods.
    """
    if not _gives_single_addresses(case.cluster):
        return
    # They have the address of their node.
    without = sum(each.pod.host_network for each in case.cluster.daemon_sets)
    for pool in case.gpu_pools:
        told = told_max_pods(pool)
        room = {name: eni_pods(catalogue()[name]) for name in gpu_types(pool)}
        known = {name: pods for name, pods in room.items() if pods is not None}
        if told is not None and known and len(known) == len(room) and told > max(known.values()) + without:
            most = max(known, key=lambda name: known[name])
            yield Problem.of(pool, f"kubelet takes {told} pods, and {most} has addresses for {known[most]}")


def _gives_single_addresses(cluster: Cluster) -> bool:
    """Whether the add-on of the network plugin is in the input, and certainly gives no blocks of addresses."""
    addon = cluster.addon(VPC_CNI)
    others = any(cluster.chart(each) for each in NETWORKS)
    if addon is None or others or any(each.name == AWS_NODE for each in cluster.of_kind("DaemonSet")):
        return False
    if isinstance(addon.resource.properties.get("ConfigurationValues"), Unknown) and not addon.configuration:
        return False
    told = dig(addon.configuration, "env", _PREFIXES)
    ipv4 = setting(cluster, "KubernetesNetworkConfig", "IpFamily") in (None, "ipv4")
    return ipv4 and not isinstance(told, Unknown) and not is_true(told)
