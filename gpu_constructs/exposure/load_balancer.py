"""The load balancer of one workload that serves.

The load balancer before pods that serve, as an Ingress of AWS Load Balancer Controller.

An Application Load Balancer, not a Network Load Balancer: it chooses a pod for each request and not for each
connection, and its idle time-out may be an hour also with TLS, where that of a Network Load Balancer's TLS listener is
350 seconds.

Sources: kubernetes-sigs/aws-load-balancer-controller v3.5.0 docs/guide/ingress/annotations.md;
https://docs.aws.amazon.com/elasticloadbalancing/latest/network/update-idle-timeout.html (2026-11)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from gpu_constructs.exposure.reachability import Exposure, Public, drain_seconds
from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.delivery import apply_after_controller, apply_manifests
from gpu_constructs.installing.gitops import delivery_method
from gpu_constructs.installing.registry import Applied
from gpu_facts.labels import ALB, ALB_CLASS, APP_NAME, READINESS_GATES
from gpu_facts.named_arguments import named_arguments
from gpu_facts.versions import LOAD_BALANCER_CONTROLLER

# TLS 1.2 and 1.3; the controller's own default takes 1.0 as well.
_TLS = "ELBSecurityPolicy-TLS13-1-2-2021-06"
# For what a server does between its last answer and its end.
_TO_EXIT = 30


def ingress(
    *, name: str, namespace: str, service: str, port: str, health_path: str, expose: Exposure, ipv6: bool
) -> dict[str, Any]:
    """Return the Ingress of a Service."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {APP_NAME: name},
            "annotations": {f"{ALB}{key}": said for key, said in _annotations(health_path, expose, ipv6).items()},
        },
        "spec": {
            "ingressClassName": ALB_CLASS,
            "defaultBackend": {"service": {"name": service, "port": {"name": port}}},
        },
    }


def _annotations(health_path: str, expose: Exposure, ipv6: bool) -> dict[str, str]:
    listen = {"HTTP": 80} if expose.certificate_arn is None else {"HTTPS": 443}
    said = {
        "scheme": "internet-facing" if isinstance(expose, Public) else "internal",
        # Straight to the pods, whose readiness waits for the load balancer then.
        "target-type": "ip",
        "listen-ports": json.dumps([listen]),
        "healthcheck-path": health_path,
        "load-balancer-attributes": _pairs(
            {
                "idle_timeout.timeout_seconds": expose.idle_seconds,
                "routing.http.drop_invalid_header_fields.enabled": "true",
            }
        ),
        "target-group-attributes": _pairs(
            {
                "deregistration_delay.timeout_seconds": expose.idle_seconds,
                # Answers take longer than others by orders of magnitude.
                "load_balancing.algorithm.type": "least_outstanding_requests",
            }
        ),
    }
    if expose.certificate_arn is not None:
        said |= {"certificate-arn": expose.certificate_arn, "ssl-policy": _TLS}
    if expose.allow:
        said["inbound-cidrs"] = ",".join(expose.allow)
    if ipv6:
        # Pods have no other addresses.
        said["ip-address-type"] = "dualstack"
    return said


def _pairs(attributes: Mapping[str, object]) -> str:
    return ",".join(f"{key}={value}" for key, value in attributes.items())


def configure_graceful_shutdown(pod: dict[str, Any], expose: Exposure) -> None:
    """Let a pod that is to end answer what it has begun: nothing new reaches it, and kubelet waits.

    It is told to end after ``drain_seconds``; the load balancer lets its answers end for ``idle_seconds``.
    """
    drain = drain_seconds(expose)
    pod["terminationGracePeriodSeconds"] = drain + expose.idle_seconds + _TO_EXIT
    [container] = pod["containers"]
    container["lifecycle"] = {"preStop": {"sleep": {"seconds": drain}}}
    # One that answers no more is not waited for: the hook runs before a restart, too.
    for each in ("startupProbe", "livenessProbe"):
        if each in container:
            container[each]["terminationGracePeriodSeconds"] = _TO_EXIT


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
        if delivery_method(self) != "kubectl":
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
