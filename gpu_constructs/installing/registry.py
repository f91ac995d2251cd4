"""Objects that exist once in a cluster: claims of constructs, applied objects, shared resources."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.pools.host import Host
from gpu_constructs.pools.sharing import Sharing
from gpu_facts.refusals import has_token

# Use as `registry.KARPENTER`, because other modules use these names for other things.
DEVICE_MANAGER = "device manager"
DRA_DRIVER = "DRA driver"
DRA_DRIVER_OF_OPERATOR = "DRA driver of the GPU Operator"
EFA_PLUGIN = "EFA device plugin"
CLUSTER_AUTOSCALER = "cluster autoscaler"
KARPENTER = "Karpenter"
GPU_OPERATOR = "GPU Operator"
DCGM_EXPORTER = "DCGM exporter"
EBS_CSI_DRIVER = "EBS CSI driver"
FSX_CSI_DRIVER = "FSx for Lustre CSI driver"
S3_CSI_DRIVER = "Mountpoint S3 CSI driver"
POD_NETWORK = "network of pods"
NETWORK_POLICIES = "enforcer of network policies"

_Holder = TypeVar("_Holder")
# API group, kind, namespace and name.
_Key = tuple[str, str, str, str]
_Made = TypeVar("_Made")
_Item = TypeVar("_Item", bound=Hashable)


class PathOf:
    """The path of a construct, read only when a message needs it."""

    def __init__(self, construct: Construct) -> None:
        self.construct = construct
        self._path: str | None = None

    def __str__(self) -> str:
        if self._path is None:
            self._path = self.construct.node.path
        return self._path


def pool_named(name: str) -> str:
    """Return the key under which a cluster registers the name of a pool."""
    return f"pool named {name!r}"


class Claims(Generic[_Holder]):
    """Things that a cluster can have only one of, each with its holder. Children of the holder share its claim."""

    def __init__(self) -> None:
        self._holders: dict[str, _Holder] = {}
        self._brought: set[str] = set()

    def holder(self, what: str) -> _Holder | None:
        """Return the only holder of its kind, or ``None``."""
        return self._holders.get(what)

    def bring(self, what: str) -> None:
        """Record that `add_pool` created the holder, not the user."""
        self._brought.add(what)

    def was_brought(self, what: str) -> bool:
        """Whether `add_pool` created the holder."""
        return what in self._brought

    def claim(self, who: _Holder, what: str, *, why: str) -> None:
        """Register ``who`` as the only one of its kind. Its string is its path.

        Raises:
            ValueError: Another holder is registered.
        """
        first = self._holders.setdefault(what, who)
        if first is who:
            return
        path, holder = str(who), str(first)
        if path == holder or path.startswith(f"{holder}/"):
            return
        fix = "create yours before the first add_pool, which then uses it" if what in self._brought else "remove one"
        raise ValueError(
            f"{path}: cluster must have one {what}, got a second one next to {holder!r}; {fix}, because {why}"
        )


class AppliedObjects:
    """The objects that constructs apply to one cluster, each with its construct."""

    def __init__(self) -> None:
        self._owners: dict[_Key, PathOf] = {}

    def take(self, who: PathOf, manifests: Sequence[Mapping[str, Any]]) -> None:
        """Register objects for a construct.

        Raises:
            ValueError: An object of the same group, kind, namespace and name is already registered.
        """
        keys = [_in_stack(who, object_key(each)) for each in manifests]
        for key in keys:
            self._refuse_unless_free(who, key)
        self._owners.update(dict.fromkeys(keys, who))

    def _refuse_unless_free(self, who: PathOf, key: _Key) -> None:
        owner = self._owners.get(key)
        if owner is None:
            return
        _, kind, namespace, name = key
        place = f"namespace {namespace!r} of the cluster" if namespace else "the cluster"
        raise ValueError(
            f"{who}: {kind} must have a unique name in {place}, got {name!r}, which belongs to {str(owner)!r}; rename "
            "one of them, because kubectl apply would overwrite one with the other "
            "[GPU452]"
        )


def _in_stack(who: PathOf, key: _Key) -> _Key:
    """Return a key with its tokens as the stack writes them, because a token has another text in another stack."""
    group, kind, namespace, name = key
    if not has_token(f"{namespace}{name}"):
        return key
    stack = cdk.Stack.of(who.construct)
    written = json.dumps(stack.resolve([namespace, name]), sort_keys=True)
    return group, kind, "", f"{written} of {stack.node.path}"


def object_key(manifest: Mapping[str, Any]) -> _Key:
    """Return the key that identifies an object in its cluster. The API version isn't part of it."""
    metadata = manifest["metadata"]
    group, slash, _ = manifest["apiVersion"].partition("/")
    return group if slash else "", manifest["kind"], metadata.get("namespace", ""), metadata["name"]


@dataclass(frozen=True, eq=False, slots=True)
class Applied:
    """Objects that were applied to a cluster.

    Attributes:
        construct: Construct that applies them.
        manifests: The objects.
    """

    construct: Construct
    manifests: Sequence[Mapping[str, Any]]


class Singleton(Generic[_Made]):
    """An object that is created at most once, by the first construct that needs it."""

    def __init__(self) -> None:
        self._made: _Made | None = None

    @property
    def instance(self) -> _Made | None:
        """The object, or ``None`` until it is created."""
        return self._made

    def get_or_make(self, make: Callable[[], _Made]) -> _Made:
        """Return the object. The first call creates it."""
        if self._made is None:
            self._made = make()
        return self._made


class DeferredPairing(Generic[_Item]):
    """Calls a function once for each item. The function may be registered before or after the items.

    For example, a job is ordered after the queueing system in either order of creation.
    """

    def __init__(self) -> None:
        self._items: dict[_Item, None] = {}
        self._serve: Callable[[_Item], None] | None = None

    def ask(self, item: _Item) -> None:
        """Call the function for an item: now, or when the function is registered. A known item is ignored."""
        if item not in self._items:
            self._items[item] = None
            if self._serve is not None:
                self._serve(item)

    def serve(self, serve: Callable[[_Item], None]) -> None:
        """Register the function, and call it for the items so far and for each later one."""
        self._serve = serve
        for item in tuple(self._items):
            serve(item)


@dataclass(frozen=True, kw_only=True, slots=True)
class CsiDriver:
    """A CSI driver of a cluster.

    Attributes:
        addon: The add-on that installs it.
        role: Its IAM role.
        permissions: Constructs with policies of the role, one for each stack that has some.
    """

    addon: eks.CfnAddon
    role: iam.CfnRole
    permissions: list[Any] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class SelfManagedNodes:
    """IAM identity of nodes that join the cluster by themselves.

    Attributes:
        role: Their IAM role.
        profile: Instance profile with the role.
    """

    role: iam.IRole
    profile: iam.CfnInstanceProfile


class ClusterRegistry(Construct):
    """The objects that exist once per cluster in a stack. An imported cluster can't have children itself.

    Attributes:
        node_role: Role of the managed nodes.
        auto_mode_role: Role of the nodes of Auto Mode pools.
        self_managed_nodes: IAM identity of self-managed nodes.
        vpc_cni: The VPC CNI as an add-on with its own role.
        foundation: Components that must run before controllers do: nodes, network, DNS, credentials. This attribute and
            the following ones are used only in the cluster's own stack.
        size_handler: The function that returns the number of nodes of a group.
        csi_drivers: Storage drivers, by the name of their add-on.
        claims: Constructs that exist once in the cluster.
        objects: Applied objects, each with its construct.
        sharing: Ways in which pools share their GPUs, and the device plugin that implements them.
        hosts: Settings on the hosts of its GPU pools.
        claimants: Workloads that claim GPUs, and the DRA driver that allocates them.
        jobs: Jobs of the app, and the queueing system without which no job is admitted.
        queues: Jobs of one queue, and that queue, by its name, with its namespace if it has one.
        namespaces: Objects in a namespace, and its team, by the namespace's name.
        fields: DCGM fields that scalers use, each with its scaler, and the exporter that reports them.
        controllers: Objects of a controller, and that controller, by the name of its chart.
        charts: Values and version of each chart of the cluster, by its name.
        addons: Configuration of each add-on of the cluster, by its name.
        services: Deployments and StatefulSets that are applied to the cluster.
        runs_any_pod: Whether a GPU pool has no taint, so that every pod may run on it.
    """

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        self.node_role: Singleton[iam.Role] = Singleton()
        self.auto_mode_role: Singleton[iam.Role] = Singleton()
        self.self_managed_nodes: Singleton[SelfManagedNodes] = Singleton()
        self.vpc_cni: Singleton[eks.CfnAddon] = Singleton()
        self.foundation: Singleton[Construct] = Singleton()
        self.size_handler: Singleton[Any] = Singleton()
        self.csi_drivers: dict[str, CsiDriver] = {}
        self.claims: Claims[PathOf] = Claims()
        self.objects = AppliedObjects()
        self.sharing: DeferredPairing[Sharing] = DeferredPairing()
        self.hosts: list[Host] = []
        self.claimants: DeferredPairing[Construct] = DeferredPairing()
        self.jobs: DeferredPairing[Construct] = DeferredPairing()
        self.fields: DeferredPairing[tuple[str, str]] = DeferredPairing()
        self.charts: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self.addons: dict[str, Mapping[str, Any]] = {}
        self.services: list[Mapping[str, Any]] = []
        self.runs_any_pod = False
        self.controllers: defaultdict[str, DeferredPairing[Construct]] = defaultdict(DeferredPairing)
        self.queues: defaultdict[tuple[str, ...], DeferredPairing[Applied]] = defaultdict(DeferredPairing)
        self.namespaces: defaultdict[str, DeferredPairing[Applied]] = defaultdict(DeferredPairing)
