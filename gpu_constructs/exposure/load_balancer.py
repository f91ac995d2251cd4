"""The load balancer of one workload that serves."""

from __future__ import annotations

from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from gpu_constructs.exposure.exposure import Exposure
from gpu_constructs.exposure.ingress import ingress
from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.delivery import apply_after_controller, apply_manifests
from gpu_constructs.installing.gitops import delivery_of
from gpu_constructs.installing.once import Applied
from gpu_facts.labels import READINESS_GATES
from gpu_facts.named_arguments import named_arguments
from gpu_facts.versions import LOAD_BALANCER_CONTROLLER


@named_arguments
class LoadBalancer(Construct):
    """An Ingress before a Service, and readiness gates for the pods behind it.

    With a gate a pod counts as ready when the load balancer sends to it, so that an update ends no pod before.

    Args:
        cluster: Cluster of the Service.
        name: Name of the Ingress.
        service: Name of the Service.
        namespace: Their namespace.
        port: Name of the Service's port.
        health_path: HTTP path that answers when a pod may be sent to.
        expose: Who may reach it.
        workload: What is behind it.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: ClusterRef,
        name: str,
        service: str,
        namespace: str,
        port: str,
        health_path: str,
        expose: Exposure,
        workload: Construct,
    ) -> None:
        super().__init__(scope, id)
        self._cluster = cluster
        made = ingress(
            name=name,
            namespace=namespace,
            service=service,
            port=port,
            health_path=health_path,
            expose=expose,
            ipv6=cluster.ip_family == "ipv6",
        )
        applied = apply_manifests(self, "Resource", cluster=cluster, manifests=[made])
        # Deleted before it, while the controller still takes pods off the load balancer.
        applied.node.add_dependency(workload)
        apply_after_controller(
            applied, cluster=cluster, chart=LOAD_BALANCER_CONTROLLER.name, kind="LoadBalancerController"
        )
        gates = self._gates(namespace)
        if gates is not None:
            applied.node.add_dependency(gates)

    def _gates(self, namespace: str) -> Construct | None:
        """Have the namespace's pods given gates; in files for Argo CD and Flux its label is its owner's."""
        if delivery_of(self) != "kubectl":
            return None
        shared = self._cluster.shared(cdk.Stack.of(self))
        id = f"ReadinessGates-{namespace}"
        found = shared.node.try_find_child(id)
        if found is not None:
            return cast("Construct", found)
        labelled = {"metadata": {"labels": {READINESS_GATES: "enabled"}}}
        patch = eks.KubernetesPatch(
            shared,
            id,
            cluster=self._cluster.cluster,
            resource_name=f"namespace/{namespace}",
            apply_patch=labelled,
            # It stays: other stacks may count on it, and without the controller it does nothing.
            restore_patch=labelled,
        )
        resource = cast("Construct", patch.node.find_child("Resource"))
        cast("cdk.CustomResource", resource).apply_removal_policy(cdk.RemovalPolicy.RETAIN)
        # A team's namespace is there before.
        self._cluster.namespace(namespace).ask(Applied(patch, ()))
        return patch
