"""The input of all checks: one cluster as frozen values, for every kind of source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from typing import Any, Literal, NamedTuple

from gpu_facts.charts import AWS_NODE, COREDNS, KUBE_PROXY
from gpu_facts.kubernetes import KUBE_SYSTEM
from gpu_facts.labels import NODE_FEATURE
from gpu_facts.light import dataclass
from gpu_facts.quantities import Resources
from gpu_facts.resources import GPU, NVIDIA
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.label_values import Labels, Requirement
from gpu_preflight.model.launch import Launch
from gpu_preflight.model.pod import Workload
from gpu_preflight.model.software import Addon, Autoscaler, AutoscalerKind, DaemonSet
from gpu_preflight.model.storage import PersistentVolume, StorageClass, read_storage_class, read_volume
from gpu_preflight.model.taints import Taint
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.objects import BrokenReference, Chart, Object, Origin, Part, Repeated, Unread
from gpu_preflight.reading.unknown import Unknown, dig, mapping, mappings
from gpu_preflight.reading.unread import Dangling
from gpu_preflight.reading.user_data import NONE, UserData

# Values of `--assume`: software that runs in the cluster although the input doesn't contain it.
COMPONENTS = ("device-plugin", "efa-device-plugin", "cluster-autoscaler", "karpenter")
PoolKind = Literal["managed", "self-managed", "karpenter", "auto-mode", "fargate", "observed"]
OperatingSystem = Literal["al2023", "bottlerocket", "al2", "windows", "custom", "unknown"]
# Max number of missing parts that a message lists.
_MISSING = 3


@dataclass(frozen=True, slots=True)
class Observation:
    """Resources of running nodes that are alike.

    Attributes:
        allocatable: Allocatable resources of each node.
        free_min: Min amount of `allocatable` that running pods leave free.
        free_max: Max amount of `allocatable` that running pods leave free.
        names: Their names; empty for a fresh node of their group.
    """

    allocatable: Resources
    free_min: Resources
    free_max: Resources
    names: tuple[str, ...]


class Budget(NamedTuple):
    """A disruption budget of a NodePool, as it is written."""

    nodes: Any
    reasons: Any
    schedule: Any

    def blocks(self, reason: str) -> bool:
        """Whether it never allows Karpenter to remove a node for a reason."""
        counts = not self.reasons or (isinstance(self.reasons, list) and reason in self.reasons)
        return str(self.nodes) in ("0", "0%") and not self.schedule and counts


@dataclass(frozen=True)
class Pool:
    """Nodes with the same configuration.

    Attributes:
        name: Its usual name.
        kind: The kind of component that launches the nodes.
        origin: Its place in the input.
        instance_types: EC2 names; empty if they aren't known.
        operating_system: Operating system of its image.
        labels: Labels that its configuration sets, in addition to the labels of its instance type.
        taints: Taints of its nodes.
        startup_taints: Taints that a component removes soon after boot.
        mistaken_taints: Startup taints that its autoscaler treats as permanent while the pool has no node.
        zones: Availability Zones, or their expressions; empty if they aren't known.
        capacity_types: ``on-demand``, ``spot``, ``reserved``, ``capacity-block``.
        min_nodes: Number of nodes that always run; ``None`` if it isn't known.
        max_nodes: Max number of nodes; ``None`` if it is unknown or unlimited.
        limits: Limits of a NodePool, in base units.
        user_data: Configuration of its nodes at boot.
        launch: Launch configuration of its nodes.
        properties: Properties of the node group or Auto Scaling group, or ``spec`` of the NodePool.
        resource: The resource, if it is one.
        launch_resource: The launch template, if it is in the input.
        tags: Resources from tags ``node-template/resources/`` of Cluster Autoscaler, in base units.
        requirements: Requirements of a NodePool.
        subnets: Expressions of its subnets.
        weight: Priority among NodePools.
        node_class: The EC2NodeClass or NodeClass of a NodePool, if it is in the input.
        undecided: Whether deployment chooses one of its instance types.
        resized: Whether a schedule adds nodes, or removes all of them.
        closes: Whether a schedule may at times leave it without a node.
        class_zones: Zones, or their expressions, of the subnets that its class selects, as far as they are known.
        class_zones_known: Whether these are the zones of all subnets that its class selects.
        observed: Resources of its running nodes; ``None`` for nodes that aren't launched yet.
        in_use: The part of its limits that running nodes use, in base units, and how many ``nodes`` run.
    """

    name: str
    kind: PoolKind
    origin: Origin
    instance_types: tuple[str, ...] = ()
    operating_system: OperatingSystem = "unknown"
    labels: Labels = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    mistaken_taints: tuple[Taint, ...] = ()
    zones: tuple[str | Unknown, ...] = ()
    capacity_types: tuple[str, ...] = ()
    min_nodes: int | None = None
    max_nodes: int | None = None
    limits: Resources = field(default_factory=dict)
    user_data: UserData = NONE
    launch: Launch = field(default_factory=Launch)
    properties: Mapping[str, Any] = field(default_factory=dict)
    resource: Resource | None = None
    launch_resource: Resource | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    requirements: tuple[Requirement, ...] = ()
    subnets: tuple[Any, ...] = ()
    weight: int = 0
    node_class: Object | None = None
    undecided: bool = False
    resized: bool = False
    closes: bool = False
    class_zones: tuple[str | Unknown, ...] = ()
    class_zones_known: bool = False
    observed: Observation | None = None
    in_use: Resources = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Its name in messages."""
        return f"pool {self.name}"

    @cached_property
    def node_template(self) -> Mapping[str, Any]:
        """The node template of a NodePool: ``spec.template.spec``."""
        return mapping(dig(self.properties, "template", "spec"))

    @cached_property
    def template_labels(self) -> Mapping[str, Any]:
        """The labels in the node template of a NodePool, as they are written."""
        return mapping(dig(self.properties, "template", "metadata", "labels"))

    @cached_property
    def budgets(self) -> tuple[Budget, ...]:
        """The disruption budgets of a NodePool."""
        written = mappings(dig(self.properties, "disruption", "budgets"))
        return tuple(Budget(*map(each.get, Budget._fields)) for each in written)

    @property
    def autoscaler(self) -> AutoscalerKind:
        """The kind of autoscaler that can launch its nodes."""
        kinds: dict[str, AutoscalerKind] = {"karpenter": "karpenter", "auto-mode": "auto-mode"}
        return kinds.get(self.kind, "cluster-autoscaler")

    @property
    def joins_eks(self) -> bool:
        """Whether its nodes boot from an EKS image."""
        return self.operating_system in ("al2023", "bottlerocket", "al2")

    @property
    def is_group(self) -> bool:
        """Whether it is an Auto Scaling group, managed by EKS or not."""
        return self.kind in ("managed", "self-managed")


# Kinds of objects that install software, not workloads.
_INSTALLING = (
    "ClusterPolicy",
    "ClusterRole",
    "CustomResourceDefinition",
    "DaemonSet",
    "DeviceClass",
)
# Cluster-wide kinds: if the input has one, it describes the cluster.
_OF_THE_CLUSTER = ("Namespace", "NodeClass", "PriorityClass", "StorageClass")
# CDK writes it for every cluster, whether or not it installs software.
_OF_CDK = ("ConfigMap", KUBE_SYSTEM, "aws-auth")
# Runs on the nodes of every EKS cluster, except in Auto Mode.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/eks-add-ons.html (2026-11)
_OF_EVERY_CLUSTER = frozenset((("Deployment", COREDNS), ("DaemonSet", KUBE_PROXY), ("DaemonSet", AWS_NODE)))


def _is_software(each: Object) -> bool:
    """Whether an object shows that the input describes software. A lone workload next to a cluster doesn't."""
    installed = each.kind in _INSTALLING or each.namespace == KUBE_SYSTEM
    return installed or each.origin.resource is not None


def _is_deployed(each: Object | Chart) -> bool:
    """Whether a template deploys something into the cluster. CDK's map of roles isn't evidence of software."""
    mapped = isinstance(each, Object) and (each.kind, each.namespace, each.name) == _OF_CDK
    return each.origin.resource is not None and not mapped


def _advertises_gpus(node: Object) -> bool:
    return any(name.startswith(NVIDIA) for name in mapping(dig(node.content, "status", "allocatable")))


@dataclass(frozen=True)
class Cluster:
    """One cluster, and everything that the input contains about it.

    Attributes:
        name: Its name, or the expression for it.
        resource: The cluster resource, if it is in the input.
        version: Kubernetes minor version; ``None`` if it isn't known.
        auto_mode: Whether EKS Auto Mode runs its nodes.
        pools: Its pools, including pools without GPUs.
        objects: Every Kubernetes object.
        charts: Its Helm releases.
        addons: Its EKS add-ons.
        daemon_sets: Its DaemonSets, including DaemonSets in charts and add-ons.
        opaque: Charts and add-ons with unknown content. They may install DaemonSets or more.
        unread: Parts of the input that can't be read, with the kinds of things that each may contain.
        autoscalers: Its autoscalers.
        observed: Its running nodes as pools, and the groups that they belong to.
        workloads: Its pods. Among DaemonSets only those that request GPUs.
        resources: Every resource of every template, by key.
        unclaimed: Groups of GPU instances that name no cluster. If there are several clusters, the first one has them.
        repeated: Keys that occur twice in a document. If there are several clusters, the first one has them.
        dangling: References to names that a template doesn't define. If there are several clusters, the first one has
            them.
        broken: References of kustomizations, Applications and releases to targets that don't exist. If there are
            several clusters, the first one has them.
        assumed: Components that run in the cluster according to the user, even if the input doesn't contain them.
        alternative: Name of the variant of objects that it has, if the input has several variants; otherwise empty.
    """

    name: str
    resource: Resource | None = None
    version: str | None = None
    auto_mode: bool = False
    pools: tuple[Pool, ...] = ()
    objects: tuple[Object, ...] = ()
    charts: tuple[Chart, ...] = ()
    addons: tuple[Addon, ...] = ()
    daemon_sets: tuple[DaemonSet, ...] = ()
    opaque: tuple[str, ...] = ()
    unread: tuple[Unread, ...] = ()
    autoscalers: tuple[Autoscaler, ...] = ()
    observed: tuple[Pool, ...] = ()
    workloads: tuple[Workload, ...] = ()
    resources: Mapping[str, Resource] = field(default_factory=dict)
    unclaimed: tuple[Pool, ...] = ()
    repeated: tuple[Repeated, ...] = ()
    dangling: tuple[Dangling, ...] = ()
    broken: tuple[BrokenReference, ...] = ()
    assumed: frozenset[str] = frozenset()
    alternative: str = ""

    @property
    def title(self) -> str:
        """Its name in messages, unique in an input."""
        return f"{self.name} with {self.alternative}" if self.alternative else self.name

    @property
    def written_name(self) -> str:
        """Its name for a tag or a command; ``<cluster>`` if it isn't known."""
        return (
            self.name if self.name.isascii() and self.name.replace("-", "").replace("_", "").isalnum() else "<cluster>"
        )

    @property
    def whole(self) -> bool:
        """Whether the cluster itself is in the input, so that anything that the input lacks doesn't exist."""
        return self.resource is not None

    @cached_property
    def is_eks(self) -> bool:
        """Whether it is certainly an EKS cluster."""
        of_eks = any(each.kind in ("managed", "auto-mode", "fargate") or each.joins_eks for each in self.pools)
        return self.whole or self.auto_mode or bool(self.addons) or of_eks

    @cached_property
    def every_pool(self) -> tuple[Pool, ...]:
        """Its pools, and running nodes as pools of a fixed size."""
        return (*self.pools, *self.observed)

    def may_hide(self, part: Part) -> tuple[str, ...]:
        """Return the paths of the unread parts of the input that may contain a kind of thing."""
        return tuple(each.origin.path for each in self.unread if part in each.may_hold)

    @property
    def hidden(self) -> tuple[str, ...]:
        """Paths of the unread parts that may contain pools."""
        return self.may_hide("pools")

    @cached_property
    def unknown_software(self) -> tuple[str, ...]:
        """Software with unknown content, and unread parts that may contain software."""
        return (*self.opaque, *(f"{each}, which can't be read" for each in self.may_hide("software")))

    @property
    def doubt(self) -> str:
        """What the input may lack of the cluster, as a reason why a finding about something absent isn't certain."""
        missing = [] if self.whole else ["the cluster itself (a template or ClusterConfig)"]
        missing += [f"{each.origin.path}, which can't be read" for each in self.unread]
        missing += [f"the objects of {each}" for each in self.opaque]
        listed = ", ".join(missing[:_MISSING]) + (f" and {len(missing) - _MISSING} more" if missing[_MISSING:] else "")
        return f"the input may not have all objects of the cluster{f'. It lacks {listed}' if missing else ''}"

    @cached_property
    def shows_software(self) -> bool:
        """Whether the input describes software of the cluster, so that software that it lacks probably doesn't run."""
        return self.whole and not self.unknown_software and (bool(self.charts) or any(map(_is_software, self.objects)))

    @cached_property
    def sees_software(self) -> bool:
        """Whether the input has everything that runs in the cluster, so that software that it lacks doesn't run.

        This is so if templates create the cluster and deploy something into it. Other files may be only a part of what
        the user has.
        """
        return self.shows_software and self._is_filled

    @cached_property
    def _is_filled(self) -> bool:
        """Whether a template deploys something into the cluster."""
        return any(map(_is_deployed, self.charts)) or any(map(_is_deployed, self.objects))

    @property
    def sees_programs(self) -> bool:
        """Whether every Deployment and DaemonSet of the cluster is in the input."""
        return self.sees_software or self._is_told

    def sees_device_plugins(self, device: str) -> bool:
        """Whether everything that advertises a device is in the input. Two plugins would offer each device twice."""
        if device == GPU and self.may_hide("device-plugin"):
            return False
        shown = self.shows_software and any(device in each.advertises for each in self.daemon_sets)
        return shown or self.sees_programs

    @cached_property
    def _is_told(self) -> bool:
        """Whether ``kubectl`` wrote the input from the whole cluster.

        Then the input has the nodes, the software that runs in every cluster, and software in other namespaces. For
        nodes that advertise GPUs, neither free room nor their autoscaler is checked.
        """
        live = [each for each in self.objects_of_kind("Deployment", "DaemonSet") if each.is_live]
        system = {(each.kind, each.name) for each in live if each.namespace == KUBE_SYSTEM}
        beyond = any(each.namespace != KUBE_SYSTEM for each in live)
        nodes = [each for each in self.objects_of_kind("Node") if each.is_live]
        bare = bool(nodes) and not any(map(_advertises_gpus, nodes))
        return not self.unknown_software and beyond and system >= _OF_EVERY_CLUSTER and bare

    @cached_property
    def _lists_system(self) -> bool:
        """Whether a dump has the Deployments of every namespace. It has if the system's Deployments are in it."""
        return any(each.is_live and each.namespace == KUBE_SYSTEM for each in self.objects_of_kind("Deployment"))

    @cached_property
    def requested_devices(self) -> frozenset[str]:
        """Extended resources that its pods request."""
        return frozenset(name for each in self.workloads for name in each.pod.requests if "/" in name)

    @cached_property
    def requested_features(self) -> frozenset[str]:
        """Node Feature Discovery labels by which its pods select nodes."""
        wanted = [each.pod.selection for each in self.workloads]
        terms = [one for each in wanted for term in each.terms or () for one in term.labels]
        asked = (*(one for each in wanted for one in each.selector), *terms)
        return frozenset(each.key for each in asked if each.key.startswith(NODE_FEATURE))

    def has_every_object(self, *kinds: str) -> bool:
        """Whether the input has all objects of some kinds. A user who writes some of them writes all of them."""
        return bool(self.objects_of_kind(*kinds)) or self.sees_software

    @cached_property
    def sees_objects(self) -> bool:
        """Whether the input has the objects that users write, so that an object that it lacks doesn't exist.

        A user who writes some of these objects also writes the object that a pod names with them. EKS add-ons install
        none.
        """
        hidden = bool(self.may_hide("objects")) or any(not each.startswith("add-on ") for each in self.opaque)
        written = any(_is_software(each) or each.kind in _OF_THE_CLUSTER for each in self.objects)
        return self.whole and not hidden and (bool(self.charts) or written)

    def objects_of_kind(self, *kinds: str) -> list[Object]:
        """Return the objects of some kinds."""
        return [each for kind in kinds for each in self._objects_by_kind.get(kind, ())]

    @cached_property
    def _objects_by_kind(self) -> dict[str, list[Object]]:
        found: dict[str, list[Object]] = {}
        for each in self.objects:
            found.setdefault(each.kind, []).append(each)
        return found

    def find_object(self, origin: Origin) -> Object | None:
        """Return the first object at a place in the input."""
        return self._objects_by_origin.get(origin)

    @cached_property
    def _objects_by_origin(self) -> dict[Origin, Object]:
        found: dict[Origin, Object] = {}
        for each in self.objects:
            found.setdefault(each.origin, each)
        return found

    def dependent_parts(self, each: Object) -> list[Pool | Workload | Object]:
        """Return the pools and workloads that don't exist without an object, or the object itself if there are none."""
        found: list[Pool | Workload | Object] = [
            *self._dependents_by_key.get(each.origin, ()),
            *self._dependents_by_key.get(id(each), ()),
        ]
        if each.kind in ("EC2NodeClass", "NodeClass"):
            found += self._dependents_by_key.get(id(each.spec), ())
        return found or [each]

    def owned_workloads(self, owner: Object) -> list[Workload]:
        """Return the pods of an object, by role."""
        return [each for each in self._dependents_by_key.get(id(owner), ()) if isinstance(each, Workload)]

    @cached_property
    def open_names(self) -> frozenset[str]:
        """Names of its objects that are known at deployment only, as they are written."""
        names = (dig(each.content, "metadata", "name") for each in self.objects)
        return frozenset(each.expression for each in names if isinstance(each, Unknown))

    @cached_property
    def volume_claims(self) -> Mapping[tuple[str, str], Object]:
        """Its PersistentVolumeClaims, by namespace and name."""
        return {(each.namespace, each.name): each for each in self.objects_of_kind("PersistentVolumeClaim")}

    @cached_property
    def volumes(self) -> tuple[PersistentVolume, ...]:
        """Its PersistentVolumes."""
        return tuple(map(read_volume, self.objects_of_kind("PersistentVolume")))

    @cached_property
    def storage_classes(self) -> tuple[StorageClass, ...]:
        """Its StorageClasses."""
        return tuple(map(read_storage_class, self.objects_of_kind("StorageClass")))

    @cached_property
    def _dependents_by_key(self) -> dict[Origin | int, list[Pool | Workload]]:
        """Pools by place and by the class that launches them, workloads by owner."""
        found: dict[Origin | int, list[Pool | Workload]] = {}
        for pool in self.pools:
            found.setdefault(pool.origin, []).append(pool)
            found.setdefault(id(pool.launch.written), []).append(pool)
        for workload in self.workloads:
            found.setdefault(id(workload.owner), []).append(workload)
        return found

    def resources_of_type(self, *types: str) -> list[Resource]:
        """Return the resources of some types."""
        return [each for each in self.resources.values() if each.type in types]

    def autoscaler(self, kind: AutoscalerKind) -> Autoscaler | None:
        """Return the autoscaler of a kind."""
        return next((each for each in self.autoscalers if each.kind == kind), None)

    def runs(self, kind: AutoscalerKind) -> Answer:
        """Return whether an autoscaler of a kind runs in the cluster."""
        if self.autoscaler(kind) is not None:
            return Answer.YES
        unseen = Answer.YES if kind in self.assumed else Answer.UNKNOWN
        # Auto Mode doesn't run as a pod in the cluster.
        if self._is_told and kind != "auto-mode":
            # A dump with NodePools may omit the namespace of Karpenter.
            return unseen if kind == "karpenter" and self.objects_of_kind("NodePool") else Answer.NO
        if kind == "cluster-autoscaler" and self._lists_system:
            return Answer.NO
        # Auto Mode has NodePools too.
        if kind == "karpenter" and self.has_by_hand("EC2NodeClass", *(() if self.auto_mode else ("NodePool",))):
            # The API server accepts them only if their CRDs are installed.
            return unseen if self.charts else Answer.YES
        return Answer.NO if self.sees_software else unseen

    def has_by_hand(self, *kinds: str) -> bool:
        """Whether an object of some kinds is in a plain file, whose software may be installed elsewhere."""
        return any(each.origin.resource is None for each in self.objects_of_kind(*kinds))

    def addon(self, name: str) -> Addon | None:
        """Return an add-on by name."""
        return next((each for each in self.addons if each.name == name), None)

    def chart(self, name: str) -> Chart | None:
        """Return a release by the name of its chart."""
        return next((each for each in self.charts if each.name == name), None)
