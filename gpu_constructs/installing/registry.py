"""What exists once in a cluster: claims of constructs, objects that are applied once, shared resources."""

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

# Use as `registry.KARPENTER`: other modules use these names for other things.
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
    """The path of a construct, asked for only when a message needs it."""

    def __init__(self, construct: Construct) -> None:
        self.construct = construct
        self._path: str | None = None

    def __str__(self) -> str:
        if self._path is None:
            self._path = self.construct.node.path
        return self._path


def pool_named(name: str) -> str:
    """Return the claim of a pool to its name."""
    return f"pool named {name!r}"


class Claims(Generic[_Holder]):
    """What a cluster can have one of, and who is it. Parts of who is it have a share in that."""

    def __init__(self) -> None:
        self._holders: dict[str, _Holder] = {}
        self._brought: set[str] = set()

    def holder(self, what: str) -> _Holder | None:
        """Return who is the only one of its kind; ``None`` where there is none."""
        return self._holders.get(what)

    def bring(self, what: str) -> None:
        """Note that nobody asked for the holder by name: somebody else brought it."""
        self._brought.add(what)

    def was_brought(self, what: str) -> bool:
        """Whether the holder was brought."""
        return what in self._brought

    def claim(self, who: _Holder, what: str, *, why: str) -> None:
        """Make ``who``, which reads as its path, the only one of its kind.

        Raises:
            ValueError: There is one.
        """
        first = self._holders.setdefault(what, who)
        if first is who:
            return
        path, holder = str(who), str(first)
        if path == holder or path.startswith(f"{holder}/"):
            return
        fix = "make yours before the first add_pool, which takes it then" if what in self._brought else "remove one"
        raise ValueError(f"{path}: cluster must have one {what}, got a second one beside {holder!r}; {why}, {fix}")


class AppliedObjects:
    """The objects that constructs apply to one cluster, each with the construct that does."""

    def __init__(self) -> None:
        self._owners: dict[_Key, PathOf] = {}

    def take(self, who: PathOf, manifests: Sequence[Mapping[str, Any]]) -> None:
        """Make objects those of a construct.

        Raises:
            ValueError: One of the same group, kind, namespace and name is applied already.
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
            f"{who}: {kind} must have a name of its own in {place}, got {name!r}, which is that of "
            f"{str(owner)!r}; kubectl apply would overwrite one with the other, give one of them another name "
            "[GPU452]"
        )


def _in_stack(who: PathOf, key: _Key) -> _Key:
    """Return a key with its tokens as the stack writes them: one token may read otherwise in another stack."""
    group, kind, namespace, name = key
    if not has_token(f"{namespace}{name}"):
        return key
    stack = cdk.Stack.of(who.construct)
    written = json.dumps(stack.resolve([namespace, name]), sort_keys=True)
    return group, kind, "", f"{written} of {stack.node.path}"


def object_key(manifest: Mapping[str, Any]) -> _Key:
    """Return what tells an object from the others of its cluster; its version does not."""
    metadata = manifest["metadata"]
    group, slash, _ = manifest["apiVersion"].partition("/")
    return group if slash else "", manifest["kind"], metadata.get("namespace", ""), metadata["name"]


@dataclass(frozen=True, eq=False, slots=True)
class Applied:
    """What was applied to a cluster.

    Attributes:
        construct: What applies it.
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
        """The object; ``None`` until it is created."""
        return self._made

    def get_or_make(self, make: Callable[[], _Made]) -> _Made:
        """Return the object, and create it first if there is none."""
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
    """A driver of a cluster.

    Attributes:
        addon: The add-on that brings it.
        role: What it may do.
        permissions: Constructs with policies of the role, one for each stack that has some.
    """

    addon: eks.CfnAddon
    role: iam.CfnRole
    permissions: list[Any] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class SelfManagedNodes:
    """Who nodes are that join by themselves.

    Attributes:
        role: What they may do.
        profile: How an instance takes the role.
    """

    role: iam.IRole
    profile: iam.CfnInstanceProfile


class ClusterRegistry(Construct):
    """The objects that exist once per cluster in a stack. An imported cluster can't have children itself.

    Attributes:
        node_role: Role of the managed nodes.
        auto_mode_role: Role of the nodes of Auto Mode pools.
        self_managed_nodes: Who self-managed nodes are.
        vpc_cni: The VPC CNI as an add-on with a role of its own.
        foundation: What must run before controllers do: nodes, network, DNS, credentials. It and what follows is
            asked for in the cluster's own stack.
        size_handler: The function that knows how many nodes a group has.
        csi_drivers: Drivers for storage, by the name of their add-on.
        claims: What the cluster has one of.
        objects: Which construct applies which object.
        sharing: Ways in which pools share their GPUs, and the device plugin that serves them.
        hosts: What is set on the hosts of its GPU pools.
        claimants: Workloads that claim GPUs, and the DRA driver that they claim them from.
        jobs: Jobs of the app, and the queueing system without which none is taken.
        queues: Jobs of one queue, and that queue, by its name; with its namespace where it has one.
        namespaces: What is applied to a namespace, and the team that it is of, by its name.
        fields: DCGM fields that scalers count on, each with who does, and the exporter that reports them.
        controllers: Objects that a controller works on, and that controller, by the name of its chart.
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
