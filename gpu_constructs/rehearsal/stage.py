"""A stage: AWS, the internet, a control plane and its nodes, together for one play."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_constructs.facts.charts import AWS_NODE
from gpu_constructs.rehearsal.assemblies import Assembly
from gpu_constructs.rehearsal.ending import ended_in_order
from gpu_constructs.rehearsal.existing import cluster_of, kubernetes_of, network_of, people_of, reserved_for
from gpu_constructs.rehearsal.players.authority import Authority
from gpu_constructs.rehearsal.players.aws.server import ACCOUNT, Aws
from gpu_constructs.rehearsal.players.cloudformation.bootstrapping import bootstrap
from gpu_constructs.rehearsal.players.cloudformation.events import Event
from gpu_constructs.rehearsal.players.cloudformation.stack import Stack
from gpu_constructs.rehearsal.players.cluster.addons import Addons
from gpu_constructs.rehearsal.players.cluster.authenticator import Authenticator
from gpu_constructs.rehearsal.players.cluster.client import Client
from gpu_constructs.rehearsal.players.cluster.control_plane import ControlPlane, control_plane
from gpu_constructs.rehearsal.players.cluster.devices import Devices
from gpu_constructs.rehearsal.players.cluster.kubelet import Kubelet
from gpu_constructs.rehearsal.players.cluster.nodes import Nodes
from gpu_constructs.rehearsal.players.cluster.pod.container import Starter
from gpu_constructs.rehearsal.players.cluster.programs import Programs
from gpu_constructs.rehearsal.players.cluster.software.definitions import Definitions
from gpu_constructs.rehearsal.players.cluster.software.webhooks import Webhooks
from gpu_constructs.rehearsal.players.internet.charts import Charts
from gpu_constructs.rehearsal.players.internet.proxy import Internet, internet
from gpu_constructs.rehearsal.unplayed import Unplayed

# How long delays of machines and images are, against those that AWS usually has.
PACE = 0.1
# Whose pod gives pods of a node addresses.
NETWORK = AWS_NODE


@dataclass(frozen=True, kw_only=True, slots=True)
class Props:
    """What a play needs from outside.

    Attributes:
        control_planes: Folders with etcd and Kubernetes' own programs, by minor version.
        karpenter: Its controller, by version.
        charts: Folder of packed charts; ``None`` for none.
        definitions: Folder of CustomResourceDefinitions of charts that are not there; ``None`` for none.
        helm: The program, for charts that come as files; functions bring their own. ``None`` for none.
    """

    control_planes: Mapping[str, Path]
    karpenter: Mapping[str, Path] = field(default_factory=dict)
    charts: Path | None = None
    definitions: Path | None = None
    helm: Path | None = None

    def control_plane(self, template: Mapping[str, Any]) -> Path:
        """Return the folder with programs of the version of a template's cluster; of the newest where it says none.

        Raises:
            LookupError: None is there.
        """
        minor = kubernetes_of(template) or max(self.control_planes, default="")
        if minor not in self.control_planes:
            there = ", ".join(sorted(self.control_planes)) or "none"
            raise LookupError(f"its cluster has Kubernetes {minor}, and there are programs of {there}")
        return self.control_planes[minor]


class Stage:
    """What is on stage in one play.

    Attributes:
        aws: AWS, played.
        plane: The control plane of the cluster, real.
        nodes: Nodes of its instances.
        kubelet: Who runs their pods.
        internet: Hosts that a deployment fetches from.
        programs: Real programs that run as pods.
        devices: What makes devices of nodes known.
        addons: Who makes the workloads of add-ons.
        webhooks: Who answers for webhooks.
        unplayed: Says what cannot be played.
        helm: The program; ``None`` where none is given.
        pace: How long delays are, against those that AWS usually has.
        cluster: Name of the cluster.
        folder: Files of the play: logs, code of functions.
    """

    def __init__(
        self,
        *,
        aws: Aws,
        plane: ControlPlane,
        nodes: Nodes,
        kubelet: Kubelet,
        internet: Internet,
        programs: Programs,
        devices: Devices,
        addons: Addons,
        pace: float,
        authority: Authority,
        unplayed: Unplayed,
        webhooks: Webhooks,
        helm: Path | None,
        cluster: str,
        folder: Path,
    ) -> None:
        self.aws, self.plane, self.nodes, self.kubelet = aws, plane, nodes, kubelet
        self.devices, self.addons, self.pace = devices, addons, pace
        self.internet, self.programs, self.cluster, self.folder = internet, programs, cluster, folder
        self._authority, self.unplayed, self.webhooks = authority, unplayed, webhooks
        self.helm = helm
        self.stacks: dict[str, Stack] = {}

    @property
    def client(self) -> Client:
        """An administrator of the cluster."""
        return self.plane.client

    def deploy(self, assembly: Assembly) -> list[Event]:
        """Create a stack, after those that it needs, and return how each of its resources ended."""
        exports = {name: value for each in self.stacks.values() for name, value in each.exports.items()}
        stack = Stack(
            assembly.template,
            name=assembly.stack,
            assembly=assembly.folder,
            aws=self.aws,
            exports=exports,
            others={name: each.outputs for name, each in self.stacks.items()},
            environment=self.internet.environment(),
            authority=self._authority,
            skip=self.unplayed,
            folder=self.folder / assembly.stack,
        )
        self.stacks[assembly.stack] = stack
        return stack.create()


@contextmanager
def stage(assembly: Assembly, props: Props, *, pace: float = PACE) -> Iterator[Stage]:
    """Set a stage for a stack, and clear it afterwards.

    Args:
        assembly: The stack, or the first of several that share a cluster.
        props: Programs and files.
        pace: How long delays of machines and images are, against those that AWS usually has.

    Raises:
        LookupError: The stack makes no cluster of its own, takes more for granted than a network, or there are no
            programs of its version of Kubernetes.
    """
    cluster, network = cluster_of(assembly.template), network_of(assembly.template)
    with ended_in_order(), ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="gpu-constructs-rehearsal-")))
        authority = Authority(folder)
        aws = running.enter_context(Aws(region=assembly.region, account=assembly.account or ACCOUNT))
        bootstrap(aws)
        if network:
            aws.have_network(vpc=network.vpc, in_zones=network.subnets)
        _reserve(aws, assembly)
        _have_roles(aws, assembly)
        charts = Charts(props.charts)
        hosts = running.enter_context(internet(charts, authority))
        webhook = running.enter_context(Authenticator(aws, cluster=cluster))
        plane = running.enter_context(
            control_plane(props.control_plane(assembly.template), authenticator=webhook.address, audit=True)
        )
        webhook.client = plane.client
        aws.serve_cluster(cluster, endpoint=plane.address, certificate_authority=plane.certificate_authority)
        programs = Programs.built(karpenter=props.karpenter)
        starter = Starter(programs, plane.client, aws, cluster=cluster, folder=folder, pace=pace)
        nodes = running.enter_context(Nodes(aws, plane.client, cluster=cluster, pace=pace, network=NETWORK))
        devices = Devices(plane.client, nodes.joined, nodes.instances, pace=pace)
        kubelet = Kubelet(plane.client, nodes.joined, starter=starter, refuses=devices.refuses, pace=pace)
        running.enter_context(kubelet)
        running.enter_context(devices)
        addons = running.enter_context(Addons(aws, plane.client, cluster=cluster))
        webhooks = running.enter_context(Webhooks(plane.client, authority))
        yield Stage(
            aws=aws,
            plane=plane,
            nodes=nodes,
            kubelet=kubelet,
            internet=hosts,
            programs=programs,
            devices=devices,
            addons=addons,
            pace=pace,
            authority=authority,
            unplayed=Unplayed(charts, Definitions(props.definitions, plane.client)),
            webhooks=webhooks,
            helm=props.helm,
            cluster=cluster,
            folder=folder,
        )


def _reserve(aws: Aws, assembly: Assembly) -> None:
    """Have the reservations that a stack launches into, all of them begun."""
    zones = aws.client("ec2").describe_availability_zones()["AvailabilityZones"]
    names = sorted(each["ZoneName"] for each in zones if each["ZoneType"] == "availability-zone")
    for each in reserved_for(assembly.template):
        zone = each.zone if isinstance(each.zone, str) else names[each.zone]
        kind = "capacity-block" if each.block else "default"
        aws.reserve(each.id, instance_type=each.instance_type, zone=zone, count=each.count, kind=kind)


def _have_roles(aws: Aws, assembly: Assembly) -> None:
    """Have the roles of people whom a stack lets into its cluster."""
    who = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": f"arn:aws:iam::{aws.account}:root"}}
    trust = json.dumps({"Version": "2012-10-17", "Statement": [who]})
    for name in people_of(assembly.template, aws.account):
        aws.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=trust)
