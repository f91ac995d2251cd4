"""Load balancer for serving pods, as an Ingress of AWS Load Balancer Controller.

It is an Application Load Balancer, not a Network Load Balancer. It chooses a pod for each request, not for each
connection. Its idle timeout may be an hour also with TLS. The TLS listener of a Network Load Balancer allows 350
seconds.

Sources: kubernetes-sigs/aws-load-balancer-controller v3.5.0 docs/guide/ingress/annotations.md;
https://docs.aws.amazon.com/elasticloadbalancing/latest/network/update-idle-timeout.html (2026-11)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.delivery import apply_after_controller, apply_manifests
from gpu_constructs.installing.gitops import delivery_method
from gpu_constructs.installing.registry import Applied
from gpu_facts.labels import ALB, ALB_CLASS, APP_NAME, READINESS_GATES
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import (
    address_block,
    is_token,
    refuse_unless_bool,
    refuse_unless_instance,
    refuse_unless_whole_number,
    words,
)
from gpu_facts.versions import LOAD_BALANCER_CONTROLLER

# With less time, clients get errors because the load balancer still sends requests to the terminating pod.
_LEAST_DRAIN = 15
# A managed node group fails its update if pods take longer than 15 minutes. The server must also exit in that time.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html (2026-11)
_USUAL_DRAIN = 300
# A load balancer can wait up to 4,000 seconds for a byte, and up to an hour for the answers of a terminating pod.
# Source: https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_TargetGroupAttribute.html (2026-11)
_LONGEST_SECONDS = 3600
_CERTIFICATE = re.compile(r"arn:[a-z-]+:(acm:[a-z0-9-]+:\d{12}:certificate/|iam::\d{12}:server-certificate/)\S+")
# TLS 1.2 and 1.3. The controller's own default also accepts 1.0.
_TLS = "ELBSecurityPolicy-TLS13-1-2-2021-06"
# Time for a server to exit after its last answer.
_TO_EXIT = 30


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Internal:
    """Clients in the VPC, and in networks that are connected to it.

    Attributes:
        idle_seconds: Max time without a byte on a connection, i.e. the longest time of an answer that isn't streamed.
            At most 3600.
        drain_seconds: Time that a terminating pod keeps serving before it receives SIGTERM, to finish its requests. Set
            less for servers that finish their requests after SIGTERM. Default: ``idle_seconds``, at least 15 and at
            most 300, because an update of a managed node group fails if pods take longer than 15 minutes. Cluster
            autoscaler gives them ten.
        certificate_arn: Certificate of ACM or IAM, in the region of the cluster. Default: none, and plain HTTP.
        allow: CIDR blocks that may connect. Default: all addresses that have a route to the VPC.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A number is out of range, or a certificate or block is invalid.
    """

    idle_seconds: int = 900
    drain_seconds: int | None = None
    certificate_arn: str | None = None
    allow: Sequence[str] = ()

    def __post_init__(self) -> None:
        _refuse_unless_seconds("internal", self.idle_seconds, self.drain_seconds)
        _refuse_unless_certificate("internal", self.certificate_arn)
        object.__setattr__(self, "allow", _blocks("internal", self.allow))


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Public:
    """Clients on the internet, from the addresses that you allow.

    Attributes:
        allow: CIDR blocks that may connect. All addresses are ``("0.0.0.0/0",)``, together with ``"::/0"`` in an IPv6
            cluster. The load balancer doesn't authenticate clients.
        certificate_arn: Certificate of ACM or IAM, in the region of the cluster.
        plain_http: Serve without certificate. Everyone on the network path can read requests, including your API keys.
        idle_seconds: Max time without a byte on a connection, i.e. the longest time of an answer that isn't streamed.
            At most 3600.
        drain_seconds: Time that a terminating pod keeps serving before it receives SIGTERM, to finish its requests. Set
            less for servers that finish their requests after SIGTERM. Default: ``idle_seconds``, at least 15 and at
            most 300, because an update of a managed node group fails if pods take longer than 15 minutes. Cluster
            autoscaler gives them ten.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: ``allow`` is empty, there is neither a certificate nor ``plain_http``, there are both, or a value is
            invalid.
    """

    allow: Sequence[str]
    certificate_arn: str | None = None
    plain_http: bool = False
    idle_seconds: int = 900
    drain_seconds: int | None = None

    def __post_init__(self) -> None:
        who = "public"
        blocks = _blocks(who, self.allow)
        if not blocks:
            raise ValueError(
                f"{who}: allow must name the addresses of clients, got {self.allow!r}; write ('0.0.0.0/0',) for all "
                "addresses, together with '::/0' in an IPv6 cluster"
            )
        object.__setattr__(self, "allow", blocks)
        refuse_unless_bool(who, "plain_http", self.plain_http)
        _refuse_unless_certificate(who, self.certificate_arn)
        if self.certificate_arn is None and not self.plain_http:
            raise ValueError(
                f"{who}: certificate_arn must be given, got None; create a certificate with ACM, or write "
                "plain_http=True to send requests unencrypted over the internet"
            )
        if self.certificate_arn is not None and self.plain_http:
            raise ValueError(f"{who}: plain_http must be left out with certificate_arn, got True; remove one of them")
        _refuse_unless_seconds(who, self.idle_seconds, self.drain_seconds)


Exposure = Internal | Public


def refuse_unless_exposure(who: object, expose: Exposure | None, *, region: str, ipv6: bool) -> None:
    """Reject a value that is neither `None` nor a valid exposure for this load balancer.

    Args:
        who: Name of the construct in messages.
        expose: Exposure to check.
        region: Region of the load balancer.
        ipv6: Whether the load balancer also has IPv6 addresses.

    Raises:
        TypeError: The value isn't an exposure.
        ValueError: Its certificate is of another region, or no block of ``allow`` can connect to the addresses of the
            load balancer.
    """
    if expose is None:
        return
    refuse_unless_instance(who, "expose", expose, (Internal, Public), "Internal(...) or Public(...)")
    if expose.allow and not ipv6 and all(":" in each and not is_token(each) for each in expose.allow):
        raise ValueError(
            f"{who}: expose must allow an IPv4 block in an IPv4 cluster, got {expose.allow!r}; add one, because the "
            "load balancer has no IPv6 address"
        )
    arn = expose.certificate_arn
    if arn is None or is_token(arn) or is_token(region):
        return
    of = arn.split(":")[3]
    if of and of != region:
        raise ValueError(
            f"{who}: expose must have a certificate of region {region!r}, got one of {of!r}; create one there, because "
            "the load balancer is in that region"
        )


def drain_seconds(expose: Exposure) -> int:
    """Return how long a terminating pod keeps serving before it receives SIGTERM."""
    if expose.drain_seconds is not None:
        return expose.drain_seconds
    return min(max(_LEAST_DRAIN, expose.idle_seconds), _USUAL_DRAIN)


def _refuse_unless_seconds(who: str, idle: object, drain: object) -> None:
    refuse_unless_whole_number(who, "idle_seconds", idle, least=1, most=_LONGEST_SECONDS)
    if drain is not None:
        refuse_unless_whole_number(who, "drain_seconds", drain, least=_LEAST_DRAIN, most=_LONGEST_SECONDS)


def _refuse_unless_certificate(who: str, arn: object) -> None:
    if arn is None:
        return
    if not isinstance(arn, str):
        fix = "; write certificate.certificate_arn" if hasattr(arn, "certificate_arn") else ""
        raise TypeError(f"{who}: certificate_arn must be a string, got {arn!r}{fix}")
    if not is_token(arn) and not _CERTIFICATE.fullmatch(arn):
        raise ValueError(
            f"{who}: certificate_arn must be an ARN of ACM or IAM, got {arn!r}; list yours with "
            "'aws acm list-certificates'"
        )


def _blocks(who: str, allow: object) -> tuple[str, ...]:
    blocks = words(who, "allow", allow)
    for each in blocks:
        if not is_token(each):
            address_block(who, "allow", each, example="203.0.113.0/24")
    return blocks


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
        # Straight to the pods. Their readiness then waits for the load balancer.
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
                # Some answers take orders of magnitude longer than others.
                "load_balancing.algorithm.type": "least_outstanding_requests",
            }
        ),
    }
    if expose.certificate_arn is not None:
        said |= {"certificate-arn": expose.certificate_arn, "ssl-policy": _TLS}
    if expose.allow:
        said["inbound-cidrs"] = ",".join(expose.allow)
    if ipv6:
        # Pods have only IPv6 addresses.
        said["ip-address-type"] = "dualstack"
    return said


def _pairs(attributes: Mapping[str, object]) -> str:
    return ",".join(f"{key}={value}" for key, value in attributes.items())


def configure_graceful_shutdown(pod: dict[str, Any], expose: Exposure) -> None:
    """Let a terminating pod finish its requests: it gets no new ones, and the kubelet waits.

    The pod receives SIGTERM after ``drain_seconds``. The load balancer waits ``idle_seconds`` for its answers.
    """
    drain = drain_seconds(expose)
    pod["terminationGracePeriodSeconds"] = drain + expose.idle_seconds + _TO_EXIT
    [container] = pod["containers"]
    container["lifecycle"] = {"preStop": {"sleep": {"seconds": drain}}}
    # Don't wait for a server that no longer answers: the hook runs before a restart, too.
    for each in ("startupProbe", "livenessProbe"):
        if each in container:
            container[each]["terminationGracePeriodSeconds"] = _TO_EXIT


@named_arguments
class LoadBalancer(Construct):
    """An Ingress for a Service, and readiness gates for its pods.

    With a gate, a pod is ready only when the load balancer sends requests to it. So an update ends no pod too early.

    Args:
        cluster: Cluster of the Service.
        name: Name of the Ingress.
        service: Name of the Service.
        namespace: Their namespace.
        port: Name of the Service's port.
        health_path: HTTP path that answers when a pod accepts requests.
        expose: Clients that may connect.
        workload: Construct of the pods behind the Service.
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
        # CloudFormation deletes it first, while the controller still deregisters pods from the load balancer.
        applied.node.add_dependency(workload)
        apply_after_controller(
            applied, cluster=cluster, chart=LOAD_BALANCER_CONTROLLER.name, kind="LoadBalancerController"
        )
        gates = self._gates(namespace)
        if gates is not None:
            applied.node.add_dependency(gates)

    def _gates(self, namespace: str) -> Construct | None:
        """Add the gate label to the namespace. In files for Argo CD and Flux, the namespace's owner sets it."""
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
            # The label stays: other stacks may need it, and it has no effect without the controller.
            restore_patch=labelled,
        )
        resource = cast("Construct", patch.node.find_child("Resource"))
        cast("cdk.CustomResource", resource).apply_removal_policy(cdk.RemovalPolicy.RETAIN)
        # The namespace of a team is created first.
        self._cluster.namespace(namespace).ask(Applied(patch, ()))
        return patch
