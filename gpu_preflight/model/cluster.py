"""What preflight judges: one cluster as frozen values, whoever described it."""

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

# What `--assume` takes: software that runs in the cluster although the input doesn't hold it.
COMPONENTS = ("device-plugin", "efa-device-plugin", "cluster-autoscaler", "karpenter")
PoolKind = Literal["managed", "self-managed", "karpenter", "auto-mode", "fargate", "observed"]
OperatingSystem = Literal["al2023", "bottlerocket", "al2", "windows", "custom", "unknown"]


@dataclass(frozen=True, slots=True)
class Observation:
    """What running nodes that are alike have.

    Attributes:
        allocatable: What each has for pods.
        free_min: Minimum of `allocatable` that running pods leave free.
        free_max: Maximum of it.
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
        """Whether it never lets Karpenter remove a node for a reason."""
        counts = not self.reasons or (isinstance(self.reasons, list) and reason in self.reasons)
        return str(self.nodes) in ("0", "0%") and not self.schedule and counts


@dataclass(frozen=True)
class Pool:
    """Nodes that are made alike.

    Attributes:
        name: What people call it.
        kind: Who makes the nodes.
        origin: Where it stands.
        instance_types: EC2 names; empty where they are not known.
        operating_system: What its image is.
        labels: Labels that whoever makes a node gives it, beside those of its instance type.
        taints: Taints of its nodes.
        startup_taints: Taints that something removes soon after boot.
        mistaken_taints: Those of them that its autoscaler takes for lasting ones while it has no node.
        zones: Availability Zones, or their expressions; empty where they are not known.
        capacity_types: ``on-demand``, ``spot``, ``reserved``, ``capacity-block``.
        min_nodes: Nodes that always run; ``None`` where it is not known.
        max_nodes: Most nodes; ``None`` where it is not known or has no bound.
        limits: Limits of a NodePool, in base units.
        user_data: What its nodes are told at boot.
        launch: What its nodes are launched with.
        properties: Properties of the node group or Auto Scaling group, or ``spec`` of the NodePool.
        resource: The resource, when it is one.
        launch_resource: The launch template, when it is in the input.
        tags: What cluster autoscaler reads as ``node-template/resources/``, in base units.
        requirements: Requirements of a NodePool.
        subnets: Expressions of its subnets.
        weight: Order among NodePools.
        node_class: The EC2NodeClass or NodeClass of a NodePool, when it is in the input.
        undecided: Whether deployment decides for one of its instance types.
        resized: Whether a schedule gives it nodes, or takes all of them away.
        closes: Whether by a schedule it may at times have no node at all.
        class_zones: Zones, or their expressions, of the subnets that its class selects, as far as they are known.
        class_zones_known: Whether its class selects no subnet beside those.
        observed: What its running nodes have; ``None`` for nodes that someone has yet to launch.
        in_use: What running nodes already take of its limits, in base units, and how many ``nodes`` run.
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
        """Its name as people say it."""
        return f"pool {self.name}"

    @cached_property
    def node_template(self) -> Mapping[str, Any]:
        """What a NodePool gives its nodes: ``spec.template.spec``."""
        return mapping(dig(self.properties, "template", "spec"))

    @cached_property
    def template_labels(self) -> Mapping[str, Any]:
        """The labels that a NodePool gives its nodes, as they are written."""
        return mapping(dig(self.properties, "template", "metadata", "labels"))

    @cached_property
    def budgets(self) -> tuple[Budget, ...]:
        """The disruption budgets of a NodePool."""
        written = mappings(dig(self.properties, "disruption", "budgets"))
        return tuple(Budget(*map(each.get, Budget._fields)) for each in written)

    @property
    def autoscaler(self) -> AutoscalerKind:
        """The kind of autoscaler that can make nodes of it."""
        kinds: dict[str, AutoscalerKind] = {"karpenter": "karpenter", "auto-mode": "auto-mode"}
        return kinds.get(self.kind, "cluster-autoscaler")

    @property
    def joins_eks(self) -> bool:
        """Whether its nodes boot from an image of EKS."""
        return self.operating_system in ("al2023", "bottlerocket", "al2")

    @property
    def is_group(self) -> bool:
        """Whether it is an Auto Scaling group, managed by EKS or not."""
        return self.kind in ("managed", "self-managed")


# Kinds by which software, rather than a workload, is installed.
_INSTALLING = (
    "ClusterPolicy",
    "ClusterRole",
    "CustomResourceDefinition",
    "DaemonSet",
    "DeviceClass",
)
# Kinds of the whole cluster: who writes them writes what stands in it.
_OF_THE_CLUSTER = ("Namespace", "NodeClass", "PriorityClass", "StorageClass")
# CDK writes it for every cluster that reads it, whoever installs the software.
_OF_CDK = ("ConfigMap", KUBE_SYSTEM, "aws-auth")
# What runs on the nodes of every EKS cluster but those of Auto Mode.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/eks-add-ons.html (2026-11)
_OF_EVERY_CLUSTER = frozenset((("Deployment", COREDNS), ("DaemonSet", KUBE_PROXY), ("DaemonSet", AWS_NODE)))


def _is_software(each: Object) -> bool:
    """Whether an object shows that the input tells of software: a lone workload beside a cluster does not."""
    installed = each.kind in _INSTALLING or each.namespace == KUBE_SYSTEM
    return installed or each.origin.resource is not None


def _is_deployed(each: Object | Chart) -> bool:
    """Whether a template puts something into the cluster; CDK's own map of roles says nothing of software."""
    mapped = isinstance(each, Object) and (each.kind, each.namespace, each.name) == _OF_CDK
    return each.origin.resource is not None and not mapped


def _advertises_gpus(node: Object) -> bool:
    return any(name.startswith(NVIDIA) for name in mapping(dig(node.content, "status", "allocatable")))


@dataclass(frozen=True)
class Cluster:
    """One cluster and everything that the input says of it.

    Attributes:
        name: Its name or the expression of it.
        resource: The cluster itself, when it is in the input.
        version: Kubernetes minor version, ``None`` where it is not known.
        auto_mode: Whether EKS Auto Mode runs its nodes.
        pools: Its pools, those without GPUs included.
        objects: Every Kubernetes object.
        charts: Its Helm releases.
        addons: Its EKS add-ons.
        daemon_sets: Its DaemonSets, those in charts and add-ons included.
        opaque: Charts and add-ons whose content is unknown: they may install DaemonSets or more.
        unread: Parts of the input that can't be read, with what each may hold.
        autoscalers: What makes nodes.
        observed: Its running nodes as pools, and the groups that they belong to.
        workloads: Its pods; of DaemonSets those that ask for GPUs.
        resources: Every resource of every template, by key.
        unclaimed: Groups of GPU instances that name no cluster; of several clusters the first has them.
        repeated: Keys that stand twice in a document; of several clusters the first has them.
        dangling: References to what a template does not have; of several clusters the first has them.
        broken: References of kustomizations, Applications and releases to what doesn't exist; likewise.
        assumed: Components that the user says run in the cluster, whatever the input holds.
        alternative: Name of the versions of objects that it has, where the input has several; empty otherwise.
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
        """Its name for people, unique in an input."""
        return f"{self.name} with {self.alternative}" if self.alternative else self.name

    @property
    def whole(self) -> bool:
        """Whether the cluster itself is in the input, so that what is not there is not in the cluster either."""
        return self.resource is not None

    @cached_property
    def is_eks(self) -> bool:
        """Whether it is known to be a cluster of EKS."""
        of_eks = any(each.kind in ("managed", "auto-mode", "fargate") or each.joins_eks for each in self.pools)
        return self.whole or self.auto_mode or bool(self.addons) or of_eks

    @cached_property
    def every_pool(self) -> tuple[Pool, ...]:
        """Its pools, and running nodes as pools of a fixed size."""
        return (*self.pools, *self.observed)

    def may_hide(self, part: Part) -> tuple[str, ...]:
        """Return the paths of the unread parts of the input that may hold something of a kind."""
        return tuple(each.origin.path for each in self.unread if part in each.may_hold)

    @property
    def hidden(self) -> tuple[str, ...]:
        """Paths of the unread parts that may hold pools."""
        return self.may_hide("pools")

    @cached_property
    def unknown_software(self) -> tuple[str, ...]:
        """Software whose content is unknown, and unread parts that may hold some."""
        return (*self.opaque, *(f"{each}, which cannot be read" for each in self.may_hide("software")))

    @cached_property
    def shows_software(self) -> bool:
        """Whether the input tells of software of the cluster, so that what is not there may well not run."""
        return self.whole and not self.unknown_software and (bool(self.charts) or any(map(_is_software, self.objects)))

    @cached_property
    def sees_software(self) -> bool:
        """Whether what runs in the cluster is in the input, so that what is not there does not run.

        So it is where templates make the cluster and put something into it; files beside them are what somebody
        happened to name.
        """
        return self.shows_software and self._is_filled

    @cached_property
    def _is_filled(self) -> bool:
        """Whether a template puts something into the cluster."""
        return any(map(_is_deployed, self.charts)) or any(map(_is_deployed, self.objects))

    @property
    def sees_programs(self) -> bool:
        """Whether every Deployment and DaemonSet of the cluster is in the input."""
        return self.sees_software or self._is_told

    def sees_device_plugins(self, device: str) -> bool:
        """Whether what advertises a device is in the input: two that do would each give it away."""
        if device == GPU and self.may_hide("device-plugin"):
            return False
        shown = self.shows_software and any(device in each.advertises for each in self.daemon_sets)
        return shown or self.sees_programs

    @cached_property
    def _is_told(self) -> bool:
        """Whether ``kubectl`` wrote what runs in the whole cluster.

        Then the nodes are there, what runs in every cluster, and what runs beside that in other namespaces. Of nodes
        that advertise GPUs nobody judges whether there is room, nor what makes them.
        """
        told = [each for each in self.objects_of_kind("Deployment", "DaemonSet") if each.is_live]
        system = {(each.kind, each.name) for each in told if each.namespace == KUBE_SYSTEM}
        beyond = any(each.namespace != KUBE_SYSTEM for each in told)
        nodes = [each for each in self.objects_of_kind("Node") if each.is_live]
        bare = bool(nodes) and not any(map(_advertises_gpus, nodes))
        return not self.unknown_software and beyond and system >= _OF_EVERY_CLUSTER and bare

    @cached_property
    def _lists_system(self) -> bool:
        """Whether a dump lists the Deployments of every namespace: those of the system are among them."""
        return any(each.is_live and each.namespace == KUBE_SYSTEM for each in self.objects_of_kind("Deployment"))

    @cached_property
    def requested_devices(self) -> frozenset[str]:
        """Extended resources that its pods ask for."""
        return frozenset(name for each in self.workloads for name in each.pod.requests if "/" in name)

    @cached_property
    def requested_features(self) -> frozenset[str]:
        """Labels of Node Feature Discovery that its pods select nodes by."""
        wanted = [each.pod.selection for each in self.workloads]
        terms = [one for each in wanted for term in each.terms or () for one in term.labels]
        asked = (*(one for each in wanted for one in each.selector), *terms)
        return frozenset(each.key for each in asked if each.key.startswith(NODE_FEATURE))

    def has_every_object(self, *kinds: str) -> bool:
        """Whether an object of some kinds that is not in the input is not there: who writes some writes all."""
        return bool(self.objects_of_kind(*kinds)) or self.sees_software

    @cached_property
    def sees_objects(self) -> bool:
        """Whether the objects that people write are in the input, so that what another names is there or is not.

        Who writes some of them writes the one that a pod names beside them; EKS add-ons bring none.
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
        """Return the first object of a place."""
        return self._objects_by_origin.get(origin)

    @cached_property
    def _objects_by_origin(self) -> dict[Origin, Object]:
        found: dict[Origin, Object] = {}
        for each in self.objects:
            found.setdefault(each.origin, each)
        return found

    def dependent_parts(self, each: Object) -> list[Pool | Workload | Object]:
        """Return the pools and workloads that are not there without an object, or the object where there are none."""
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
        """Names of its objects that only deployment sets, as they are written."""
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
        """Pools by place and by the class they are launched by, workloads by owner."""
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
        """Say whether an autoscaler of a kind runs in the cluster."""
        if self.autoscaler(kind) is not None:
            return Answer.YES
        # Auto Mode is no program of the cluster.
        if self._is_told and kind != "auto-mode":
            # Of one whose NodePools are there the namespace may be left out.
            return Answer.UNKNOWN if kind == "karpenter" and self.objects_of_kind("NodePool") else Answer.NO
        if kind == "cluster-autoscaler" and self._lists_system:
            return Answer.NO
        # NodePools are Auto Mode's too.
        if kind == "karpenter" and self.has_by_hand("EC2NodeClass", *(() if self.auto_mode else ("NodePool",))):
            # The API server takes them only where their definitions are.
            return Answer.UNKNOWN if self.charts else Answer.YES
        if self.sees_software:
            return Answer.NO
        return Answer.YES if kind in self.assumed else Answer.UNKNOWN

    def has_by_hand(self, *kinds: str) -> bool:
        """Whether an object of some kinds stands in a plain file, whose software somebody may install elsewhere."""
        return any(each.origin.resource is None for each in self.objects_of_kind(*kinds))

    def addon(self, name: str) -> Addon | None:
        """Return an add-on by name."""
        return next((each for each in self.addons if each.name == name), None)

    def chart(self, name: str) -> Chart | None:
        """Return a release by the name of its chart."""
        return next((each for each in self.charts if each.name == name), None)
