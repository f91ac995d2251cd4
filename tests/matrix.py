"""Every instance type in every kind of pool, on every system, bought in every way."""

from __future__ import annotations

import collections
import itertools
import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam

from gpu_constructs import (
    AutoModeNodePool,
    CapacityBlock,
    KarpenterNodePool,
    ManagedNodeGroup,
    NodeShape,
    OnDemand,
    Reservation,
    Spot,
    UpTo,
)
from gpu_constructs.nodes import Bootstrap, SelfManagedNodeGroup
from gpu_facts.hardware.catalogue import catalogue
from tests.clusters import CERTIFICATE, ENDPOINT, imported_cluster, imported_vpc

STARTS = datetime(2026, 12, 1, 11, 30, tzinfo=timezone.utc)
ZONE = "us-east-1a"
CAPACITIES = {
    "on-demand": OnDemand(),
    "spot": Spot(),
    "reservation": Reservation(availability_zone=ZONE, id="cr-0123456789abcdef0"),
    "capacity block": CapacityBlock(
        id="cr-0123456789abcdef0", availability_zone=ZONE, starts=STARTS, ends=STARTS + timedelta(days=1), instances=2
    ),
}
SYSTEMS = ("al2023", "bottlerocket")
KINDS = ("managed", "self-managed", "karpenter", "auto mode")
# Kinds that choose their image by the version of the cluster, on a newer one than the default; bought in one way, since
# the others do not ask for it.
NEWER = "1.37"
ON_NEWER = (f"managed on {NEWER}", f"self-managed on {NEWER}")
# The fact each refusal names, by words of its message; a refusal of any other kind is a defect.
FACTS = {
    "one with NVIDIA driver 595": "the pinned release does not carry its driver",
    "that NVIDIA driver 580 supports": "no document says that Auto Mode drives it",
    "EC2 sells": "EC2 does not sell it so",
    "must have instance types whose GPUs EC2 counts": "Auto Mode cannot count a fraction of a GPU",
    "must have no UltraServer type": "Karpenter knows no UltraServers",
    "no Bottlerocket image boots it": "no Bottlerocket image boots it",
    "which Auto Mode uses": "Auto Mode runs its own Bottlerocket",
}


@dataclass
class Tried:
    """All combinations of one kind of pool: a stack for each system and way of buying.

    Attributes:
        emitted: How many were emitted, by kind, system and way of buying.
        refused: How many were refused, by fact.
        unexplained: Refusals that name no fact.
        templates: The template of each stack that has resources, by its name.
    """

    emitted: dict[str, int] = field(default_factory=collections.Counter)
    refused: dict[str, int] = field(default_factory=collections.Counter)
    unexplained: list[str] = field(default_factory=list)
    templates: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, kind: str, folder: Path) -> Tried:
        """Try all combinations of a kind."""
        tried = cls()
        # No limit on resources: a stack here holds more groups than a real one.
        context = {"@aws-cdk/core:stackResourceLimit": 0}
        app = cdk.App(context=context, outdir=str(folder), analytics_reporting=False)
        newer = kind in ON_NEWER
        for system, bought in itertools.product(SYSTEMS, ["on-demand"] if newer else CAPACITIES):
            stack = cdk.Stack(app, f"{kind}-{system}-{bought}".replace(" ", "-").replace(".", "-"))
            cluster = cluster_of_its_own(stack) if newer else joinable_cluster(stack)
            role = iam.Role.from_role_name(stack, "Nodes", "nodes")
            for number, name in enumerate(catalogue()):
                tried.attempt(stack, f"P{number}P", kind, system, bought, name, cluster, role)
        app.synth()
        written = {path.name: path.read_text() for path in sorted(folder.glob("*.template.json"))}
        tried.templates = {name: text for name, text in written.items() if "Resources" in json.loads(text)}
        return tried

    def attempt(
        self, stack: cdk.Stack, id: str, kind: str, system: Any, bought: str, name: str, cluster: Any, role: Any
    ) -> None:
        """Make one pool, or note why not."""
        try:
            shape = NodeShape(instance_types=(name,), operating_system=system)
            make(stack, id, kind, shape, CAPACITIES[bought], cluster, role)
        except ValueError as error:
            facts = [fact for words, fact in FACTS.items() if words in str(error)]
            self.refused[facts[0] if facts else "unexplained"] += 1
            self.unexplained += [] if facts else [f"{kind} {system} {bought} {name}: {error}"]
        else:
            self.emitted[f"{kind}, {system}, {bought}"] += 1


def joinable_cluster(stack: cdk.Stack) -> eks.ICluster:
    """Import a cluster with all that any pool asks for."""
    return imported_cluster(
        stack,
        imported_vpc(stack, (ZONE,)),
        cluster_endpoint=ENDPOINT,
        cluster_certificate_authority_data=CERTIFICATE,
    )


def cluster_of_its_own(stack: cdk.Stack) -> eks.Cluster:
    """Make a cluster of the newer version, which an imported one does not state."""
    vpc = imported_vpc(stack, (ZONE, "us-east-1b"))
    return eks.Cluster(
        stack,
        "Cluster",
        version=eks.KubernetesVersion.of(NEWER),
        vpc=vpc,
        vpc_subnets=[ec2.SubnetSelection(subnets=vpc.private_subnets)],
        default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
        default_capacity=0,
    )


def make(stack: cdk.Stack, id: str, kind: str, shape: NodeShape, capacity: Any, cluster: Any, role: Any) -> None:
    """Make one pool of a kind."""
    name = f"pool-{id.lower()}"
    if kind.startswith("managed"):
        ManagedNodeGroup(stack, id, cluster=cluster, name=name, shape=shape, capacity=capacity, max_nodes=2)
    elif kind.startswith("self-managed"):
        version = NEWER if kind in ON_NEWER else "1.36"
        says = Bootstrap(kubernetes_version=version, service_cidr="172.20.0.0/16")
        SelfManagedNodeGroup(
            stack,
            id,
            cluster=cluster,
            name=name,
            shape=shape,
            capacity=capacity,
            max_nodes=2,
            bootstrap=says,
            termination_handler="installed",
        )
    elif kind == "karpenter":
        KarpenterNodePool(
            stack, id, cluster=cluster, name=name, shape=shape, capacity=capacity, size=UpTo(gpus=16), node_role=role
        )
    else:
        AutoModeNodePool(
            stack, id, cluster=cluster, name=name, shape=shape, capacity=capacity, size=UpTo(gpus=16), node_role=role
        )
