"""The attributes of a cluster that constructs need. The cluster may be imported.

Each read of a CDK attribute crosses a process boundary. So a `ClusterRef` reads it once, for any number of node groups.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, cast
from weakref import ReferenceType, WeakKeyDictionary

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from gpu_constructs.installing import eks_resources
from gpu_constructs.installing.context import owning_stack, refuse_wrong_context
from gpu_constructs.installing.gitops import delivery_method
from gpu_constructs.installing.registry import (
    Applied,
    AppliedObjects,
    ClusterRegistry,
    CsiDriver,
    DeferredPairing,
    PathOf,
    Singleton,
)
from gpu_constructs.installing.subnets import PodNetwork, given_subnets, in_zone, node_subnets
from gpu_constructs.pools.sharing import Sharing
from gpu_facts.refusals import has_token, is_token, words
from gpu_facts.versions import KUBERNETES, kubernetes_minor

if TYPE_CHECKING:
    from gpu_constructs.pools.node_shape import NodeShape


class HasCluster(Protocol):
    """An object with a cluster, such as a `GpuCluster`. You can pass it in place of the cluster."""

    @property
    def cluster(self) -> eks.ICluster | eks.Cluster:
        """The cluster."""


# Type checkers don't accept eks.Cluster as an eks.ICluster (aws-cdk#19789).
AnyCluster = eks.ICluster | eks.Cluster | HasCluster


class ClusterRef(Construct):
    """The known attributes of one cluster, created here or imported: a construct without resources.

    Attributes:
        cluster: The cluster as the interface that L2 constructs require.
        stack: Stack in which the cluster is created or imported.
        path: Path of the cluster.
        pod_network: Source of its pods' addresses, or ``None`` if it is unknown.
    """

    def __init__(self, scope: cdk.Stack, id: str, *, cluster: eks.ICluster, path: str) -> None:
        super().__init__(cast("Construct", scope), id)
        self.cluster = cluster
        self.stack = scope
        self.path = path
        self.pod_network: PodNetwork | None = None
        self._shared: dict[cdk.Stack, ClusterRegistry] = {}

    @cached_property
    def name_token(self) -> str:
        """Name as the template refers to it."""
        return self.cluster.cluster_name

    @cached_property
    def _resource(self) -> eks.CfnCluster | None:
        resource = self.cluster.node.default_child
        return resource if isinstance(resource, eks_resources.CfnCluster) else None

    @cached_property
    def name(self) -> str:
        """Name: a literal if the template states one, otherwise a token."""
        stated = self._resource.name if self._resource else None
        return stated if stated and not has_token(stated) else self.name_token

    @cached_property
    def identity(self) -> str:
        """Unique value for the cluster: its name, or a reference to it in its own stack."""
        if not has_token(self.name):
            return self.name
        return json.dumps([self.stack.node.path, self.stack.resolve(self.name_token)], sort_keys=True)

    @cached_property
    def vpc(self) -> ec2.IVpc | None:
        """Its VPC, or ``None`` if it was imported without it."""
        try:
            return self.cluster.vpc
        except (jsii.errors.JSIIError, RuntimeError):
            return None

    @cached_property
    def private_subnets(self) -> list[ec2.ISubnet] | None:
        """Subnets of its VPC for nodes, or ``None`` if it was imported without it."""
        return None if self.vpc is None else node_subnets(self.vpc)

    @cached_property
    def is_isolated(self) -> bool:
        """Whether its VPC has only isolated subnets. False if it was imported without the VPC."""
        return self.vpc is not None and not self.vpc.private_subnets and bool(self.vpc.isolated_subnets)

    @property
    def has_no_way_out(self) -> bool:
        """Whether this app creates its VPC, and so far without a route to the internet."""
        if not self.is_isolated or not isinstance(self.vpc, ec2.Vpc):
            return False
        return not any(isinstance(each, ec2.CfnRoute) for each in self.node.root.node.find_all())

    @cached_property
    def has_kubectl(self) -> bool:
        """Whether manifests and charts can be applied to it."""
        return self.cluster.kubectl_provider is not None

    @cached_property
    def auto_mode(self) -> bool | None:
        """Whether it uses EKS Auto Mode, or ``None`` for an imported cluster."""
        if self._resource is None:
            return None
        return bool(getattr(self._resource.compute_config, "enabled", False))

    @property
    def zonal_shift(self) -> bool:
        """Whether the template enables zonal shift. False for an imported cluster, which has no template here."""
        return self._resource is not None and getattr(self._resource.zonal_shift_config, "enabled", False) is True

    @cached_property
    def security_group_id(self) -> str | None:
        """Its own security group, or ``None`` if it was imported without it."""
        return self._attribute("cluster_security_group_id")

    @cached_property
    def endpoint(self) -> str | None:
        """URL of its API server, or ``None`` if it was imported without it."""
        return self._attribute("cluster_endpoint")

    @cached_property
    def certificate_authority(self) -> str | None:
        """Certificate of its API server, base64, or ``None`` if it was imported without it."""
        return self._attribute("cluster_certificate_authority_data")

    @cached_property
    def service_cidr(self) -> str | None:
        """CIDR block of its services. An IPv4 block is a literal in the template: CloudFormation doesn't return it."""
        if self._resource is not None and self.ip_family == "ipv6":
            return self._resource.attr_kubernetes_network_config_service_ipv6_cidr
        config = self._resource.kubernetes_network_config if self._resource else None
        return getattr(config, "service_ipv4_cidr", None)

    @cached_property
    def ip_family(self) -> str | None:
        """``ipv4`` or ``ipv6``, or ``None`` if the template doesn't state it."""
        config = self._resource.kubernetes_network_config if self._resource else None
        return getattr(config, "ip_family", None)

    def _attribute(self, name: str) -> str | None:
        try:
            return cast("str", getattr(self.cluster, name))
        except (jsii.errors.JSIIError, RuntimeError):
            return None

    def shared(self, stack: cdk.Stack) -> ClusterRegistry:
        """Return the objects that exist once for the cluster in a stack."""
        if stack not in self._shared:
            id = f"{self.path.removeprefix(stack.node.path).strip('/').replace('/', '-')}-shared"
            found = stack.node.try_find_child(id)
            self._shared[stack] = (
                found if isinstance(found, ClusterRegistry) else ClusterRegistry(cast("Construct", stack), id)
            )
        return self._shared[stack]

    @property
    def _own(self) -> ClusterRegistry:
        return self.shared(self.stack)

    @property
    def sharing(self) -> DeferredPairing[Sharing]:
        """Pairs pools that share their GPUs with the device plugin."""
        return self._own.sharing

    @property
    def claimants(self) -> DeferredPairing[Construct]:
        """Pairs workloads that claim GPUs with the DRA driver."""
        return self._own.claimants

    @property
    def jobs(self) -> DeferredPairing[Construct]:
        """Pairs jobs with the queueing system."""
        return self._own.jobs

    def controller(self, chart: str) -> DeferredPairing[Construct]:
        """Pairs objects with the controller from a chart that processes them."""
        return self._own.controllers[chart]

    @property
    def fields(self) -> DeferredPairing[tuple[str, str]]:
        """Pairs scalers that use DCGM fields with the exporter."""
        return self._own.fields

    def queue(self, *name: str) -> DeferredPairing[Applied]:
        """Pairs the jobs of a queue with the queue."""
        return self._own.queues[name]

    def namespace(self, name: str) -> DeferredPairing[Applied]:
        """Pairs objects in a namespace with the team of the namespace."""
        return self._own.namespaces[name]

    @property
    def software(self) -> ClusterRegistry:
        """The charts, add-ons and services that this app installs into it."""
        return self._own

    @property
    def objects(self) -> AppliedObjects:
        """The objects that constructs apply, each with its construct."""
        return self._own.objects

    @property
    def foundation(self) -> Singleton[Construct]:
        """Components that must run before controllers do. It is empty for an imported cluster."""
        return self._own.foundation

    @property
    def csi_drivers(self) -> dict[str, CsiDriver]:
        """Storage drivers, by the name of their add-on."""
        return self._own.csi_drivers

    def claim(self, who: PathOf, what: str, *, why: str) -> None:
        """Register a construct as the only one of its kind in the cluster.

        Raises:
            ValueError: The cluster already has one.
        """
        self._own.claims.claim(who, what, why=why)

    def holder(self, what: str) -> Construct | None:
        """Return the only construct of its kind in the cluster, or ``None``."""
        found = self._own.claims.holder(what)
        return found.construct if found is not None else None

    def bring(self, what: str) -> None:
        """Record that `add_pool` created the only construct of this kind."""
        self._own.claims.bring(what)

    def was_brought(self, what: str) -> bool:
        """Whether `add_pool` created the only construct of this kind."""
        return self._own.claims.was_brought(what)

    def serve_gpus(self, shape: NodeShape) -> None:
        """Add nodes of a shape to the cluster's device plugin, if the plugin is responsible for them."""
        self._own.hosts.append(shape.host)
        self._own.runs_any_pod |= all(each.effect == "PreferNoSchedule" for each in shape.node_taints)
        if shape.managed_by.cluster_plugin:
            self.sharing.ask(shape.sharing)

    @property
    def lacks_mirrors(self) -> bool:
        """Whether it has GPU pools, all without registry mirrors."""
        return bool(self._own.hosts) and not any(each.registry_mirrors for each in self._own.hosts)

    def wait_for_foundation(self, controller: Construct) -> None:
        """Create a controller after the components that it needs to run, and delete it before them."""
        foundation = self.foundation.instance
        if foundation is not None:
            controller.node.add_dependency(foundation)

    @cached_property
    def stated_version(self) -> str | None:
        """Kubernetes minor version that the template states, or ``None`` for an imported cluster."""
        stated = self._resource.version if self._resource else None
        return stated if stated and not has_token(stated) else None

    def kubernetes_version(self, given: str | None, *, who: object) -> str:
        """Return the Kubernetes minor version of the cluster, or the given one for an imported cluster.

        Raises:
            ValueError: The version is missing, isn't supported by this library, or differs from the cluster's version.
        """
        stated = self.stated_version
        if stated is None and given is None:
            raise ValueError(
                f"{who}: kubernetes_version must be given for an imported cluster, got None; pass one of "
                f"{', '.join(KUBERNETES)}"
            )
        if stated and given and stated != given:
            raise ValueError(
                f"{who}: kubernetes_version must be the cluster's own {stated!r}, got {given!r}; leave it out"
            )
        version = stated or given or ""
        kubernetes_minor(version, who=who)
        return version

    def subnets(
        self, given: Sequence[ec2.ISubnet] | None, *, who: object, zone: str | None = None
    ) -> list[ec2.ISubnet]:
        """Return the given subnets for nodes, or the private ones of the cluster's VPC. ``zone`` selects one zone.

        Raises:
            TypeError: ``given`` isn't a list of subnets.
            ValueError: There is no private subnet, none in the zone, or the cluster was imported without its VPC.
        """
        if given is not None:
            found = given_subnets(given, who)
            return found if zone is None else in_zone(found, zone, who, unknown=True)
        found = self._private_subnets_or_refuse(who)
        return found if zone is None else in_zone(found, zone, who, unknown=False)

    def require_vpc(self, who: object, argument: str) -> ec2.IVpc:
        """Return its VPC, which is needed if an argument is left out.

        Raises:
            ValueError: The cluster was imported without its VPC.
        """
        if self.vpc is None:
            raise ValueError(
                f"{who}: {argument} must be given when the cluster was imported without its VPC, got None; pass vpc to "
                f"from_cluster_attributes, or {argument} here"
            )
        return self.vpc

    def security_group_ids(self, who: object, given: object) -> tuple[str, ...]:
        """Return the given ids of the nodes' security groups, or the cluster's own group.

        Raises:
            TypeError: ``given`` isn't a list of ids.
            ValueError: It is empty, or the cluster was imported without its group.
        """
        if given is not None:
            ids = words(who, "security_group_ids", given)
            if not ids:
                raise ValueError(
                    f"{who}: security_group_ids must name at least one group, got none; leave it out to use the "
                    "cluster's group"
                )
            return ids
        if self.security_group_id is None:
            raise ValueError(
                f"{who}: security_group_ids must be given when the cluster was imported without "
                "cluster_security_group_id, got None; pass that to from_cluster_attributes, or the ids here"
            )
        return (self.security_group_id,)

    def _private_subnets_or_refuse(self, who: object) -> list[ec2.ISubnet]:
        self.require_vpc(who, "subnets")
        found = list(self.private_subnets or ())
        if not found:
            raise ValueError(
                f"{who}: subnets must name private or isolated subnets, got a VPC without any; pass the subnets for "
                "nodes"
            )
        return found


# Maps a cluster to its `ClusterRef` in the construct tree. The tree keeps the reference alive. A search in the tree
# takes eight calls to the CDK.
_FOUND: WeakKeyDictionary[object, ReferenceType[ClusterRef]] = WeakKeyDictionary()


def cluster_ref(who: object, cluster: AnyCluster, *, kubectl: bool = False) -> ClusterRef:
    """Return the reference to a cluster. Pass ``kubectl`` if the construct applies objects to it.

    Raises:
        TypeError: ``cluster`` isn't a cluster of ``aws_eks_v2``.
        ValueError: The cluster is in another region or account, or ``kubectl`` is set and it has no kubectl provider.
    """
    # An object with a cluster may be unhashable, e.g. a dataclass.
    while not isinstance(cluster, Construct) and hasattr(cluster, "cluster"):
        cluster = cluster.cluster
    known = _FOUND.get(cluster) if hasattr(cluster, "__weakref__") else None
    found = known() if known is not None else None
    if found is None:
        found = _in_tree(_checked(who, cluster))
        _FOUND[cluster] = ReferenceType(found)
    _refuse_elsewhere(who, found, kubectl=kubectl)
    if kubectl and not found.has_kubectl and delivery_method(found.cluster) == "kubectl":
        raise ValueError(
            f"{who}: cluster must have a kubectl provider, got {found.cluster.node.path!r} without one; give it "
            "kubectl_provider_options, or kubectl_provider when importing it"
        )
    return found


def _refuse_elsewhere(who: object, found: ClusterRef, *, kubectl: bool) -> None:
    """Reject a cluster of another region or account, because a template can't refer to it."""
    construct = who.construct if isinstance(who, PathOf) else who
    stack = owning_stack(construct) if isinstance(construct, Construct) else found.stack
    if stack is found.stack:
        return
    for what, own, of_cluster in zip(("region", "account"), _named(stack), _named(found.stack), strict=True):
        # Files for Argo CD or Flux may be written in any stack.
        if own and of_cluster and own != of_cluster and not (kubectl and delivery_method(found.cluster) != "kubectl"):
            raise ValueError(
                f"{who}: cluster must be in the {what} of the construct's stack, {own!r}, got {found.path!r} in "
                f"{of_cluster!r}; create the construct in a stack of the cluster's {what}"
            )


def _named(stack: cdk.Stack) -> list[str | None]:
    """Return region and account of a stack, each ``None`` if the stack doesn't set it."""
    return [None if is_token(each) else each for each in (stack.region, stack.account)]


def _in_tree(cluster: eks.ICluster) -> ClusterRef:
    stack, path = owning_stack(cast("Construct", cluster)), cluster.node.path
    # The id is in no template, unlike the id of `ClusterRegistry`, so it can differ for 'A/B' and 'A-B'.
    id = f"{path.replace('/', '|')}-ref"
    found = stack.node.try_find_child(id)
    if isinstance(found, ClusterRef):
        return found
    refuse_wrong_context(cluster.node.get_all_context())
    return ClusterRef(stack, id, cluster=cluster, path=path)


def _checked(who: object, given: object) -> eks.ICluster:
    """Return the given cluster, or the cluster of the given object.

    Raises:
        TypeError: There is no cluster of ``aws_eks_v2``.
    """
    cluster = given
    while not hasattr(cluster, "cluster_name") and hasattr(cluster, "cluster"):
        cluster = cluster.cluster
    # Only clusters of the older aws_eks have their own kubectl layer.
    older = hasattr(cluster, "kubectl_layer")
    if older or not hasattr(cluster, "cluster_name"):
        what = "one of aws_cdk.aws_eks" if older else type(cluster).__name__
        raise TypeError(
            f"{who}: cluster must be a GpuCluster or a cluster of aws_cdk.aws_eks_v2, got {what}; import others with "
            "aws_eks_v2.Cluster.from_cluster_attributes"
        )
    return cast("eks.ICluster", cluster)
