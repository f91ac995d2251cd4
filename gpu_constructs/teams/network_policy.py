"""Who reaches the pods of a team over the network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import aws_cdk as cdk

from gpu_constructs.installing import claims
from gpu_constructs.installing.claims import PathOf
from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.once import Applied
from gpu_facts.charts import KUBE_PROMETHEUS_STACK, KUBERAY, NAMESPACES
from gpu_facts.kubernetes import refuse_unless_object_name
from gpu_facts.labels import NAMESPACE_NAME
from gpu_facts.refusals import address_block, words

# Prometheus scrapes pods, and KubeRay's operator asks the head of a Ray cluster for its jobs.
_CONTROLLERS = (NAMESPACES[KUBE_PROMETHEUS_STACK], NAMESPACES[KUBERAY])


def refuse_unless_reachable(who: object, given: object, *, isolate: bool) -> tuple[str, ...]:
    """Return namespaces and address blocks that reach a team's pods.

    Raises:
        TypeError: They are no list of words.
        ValueError: One is neither, or everybody reaches them anyway.
    """
    found = words(who, "reachable_from", given)
    for each in found:
        if "/" in each:
            address_block(who, "reachable_from", each, example="10.0.0.0/16")
        else:
            refuse_unless_object_name(who, "reachable_from", each)
    if found and not isolate:
        raise ValueError(f"{who}: reachable_from must be left out without isolate, got {found!r}; say isolate=True")
    return found


def refuse_unless_enforced(who: PathOf, cluster: ClusterRef) -> None:
    """Refuse network policies where nothing enforces them; warn where that is not known.

    Raises:
        ValueError: The cluster's add-on has them off.
    """
    if cluster.holder(claims.NETWORK_POLICIES) is not None:
        return
    if cluster.holder(claims.POD_NETWORK) is not None:
        raise ValueError(
            f"{who}: isolate must have a cluster that enforces network policies, got {cluster.path!r} that does not; "
            "say network_policies=True there"
        )
    cdk.Annotations.of(who.construct).add_warning_v2(
        "gpu-constructs:networkPolicyUnknown",
        f"{who}: whether cluster {cluster.path} enforces network policies is not known here, and without that isolate "
        f"does nothing; its add-on vpc-cni has to have {json.dumps({'enableNetworkPolicy': 'true'})}, and Auto Mode "
        'ConfigMap kube-system/amazon-vpc-cni with enable-network-policy-controller: "true"',
    )


def warn_of_exposure(who: PathOf, applied: Applied, reachable_from: Sequence[str]) -> None:
    """Warn where what is applied asks a load balancer for pods that no address outside the cluster reaches."""
    exposed = any(each.get("kind") == "Ingress" for each in applied.manifests)
    if exposed and not any("/" in each for each in reachable_from):
        cdk.Annotations.of(applied.construct).add_warning_v2(
            "gpu-constructs:exposedButIsolated",
            f"{applied.construct.node.path}: the load balancer reaches no pod of team {who}, which isolates them; name "
            "the address blocks of its subnets there, reachable_from=['10.0.0.0/16']",
        )


def network_policy(namespace: str, reachable_from: Sequence[str]) -> dict[str, Any]:
    """Return what lets in the namespace itself, the controllers that ask its pods, and who is named; nobody else.

    Source: https://kubernetes.io/docs/concepts/services-networking/network-policies/ (2026-11)
    """
    spaces = [*_CONTROLLERS, *(each for each in reachable_from if "/" not in each)]
    peers: list[dict[str, Any]] = [{"podSelector": {}}]
    peers += [{"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: each}}} for each in dict.fromkeys(spaces)]
    peers += [{"ipBlock": {"cidr": each}} for each in reachable_from if "/" in each]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "team", "namespace": namespace},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": peers}]},
    }
