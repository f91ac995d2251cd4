"""What exists once for a cluster, and how its parts find each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.installing.claims import AppliedObjects, Claims, PathOf
from gpu_constructs.installing.once import Applied, Meeting, Once
from gpu_constructs.pools.host.host import Host
from gpu_constructs.pools.sharing import Sharing


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


class Shared(Construct):
    """What exists once for a cluster in a stack. An imported cluster cannot hold children itself.

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
        self.node_role: Once[iam.Role] = Once()
        self.auto_mode_role: Once[iam.Role] = Once()
        self.self_managed_nodes: Once[SelfManagedNodes] = Once()
        self.vpc_cni: Once[eks.CfnAddon] = Once()
        self.foundation: Once[Construct] = Once()
        self.size_handler: Once[Any] = Once()
        self.csi_drivers: dict[str, CsiDriver] = {}
        self.claims: Claims[PathOf] = Claims()
        self.objects = AppliedObjects()
        self.sharing: Meeting[Sharing] = Meeting()
        self.hosts: list[Host] = []
        self.claimants: Meeting[Construct] = Meeting()
        self.jobs: Meeting[Construct] = Meeting()
        self.fields: Meeting[tuple[str, str]] = Meeting()
        self.charts: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self.addons: dict[str, Mapping[str, Any]] = {}
        self.services: list[Mapping[str, Any]] = []
        self.runs_any_pod = False
        self.controllers: defaultdict[str, Meeting[Construct]] = defaultdict(Meeting)
        self.queues: defaultdict[tuple[str, ...], Meeting[Applied]] = defaultdict(Meeting)
        self.namespaces: defaultdict[str, Meeting[Applied]] = defaultdict(Meeting)
