"""An app that a seed draws, as a list of parts. A trial leaves out parts that a construct rejects, and starts again.

Apps are complete: each has a component that advertises its GPUs, and one that launches its nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks

from gpu_constructs import (
    AutoMode,
    AutoModeNodePool,
    ClusterAutoscaler,
    DevicePlugin,
    GpuCluster,
    GpuDeployment,
    GpuJob,
    GpuSmokeTest,
    Karpenter,
    KarpenterNodePool,
    ManagedNodeGroup,
    NodeShape,
    SystemNodes,
    gpu_vpc,
)
from gpu_constructs.devices import DraDriver, EfaDevicePlugin, GpuOperator, SharedGpuClaim
from gpu_constructs.metrics import DcgmExporter, PrometheusStack
from gpu_constructs.nodes import Bootstrap, SelfManagedNodeGroup, ZonalNodeGroups
from gpu_constructs.pod_scaling import Demand, GpuHorizontalAutoscaler, Keda, PrometheusAdapter, SmActivity
from gpu_constructs.queueing import GpuQueues, KaiQueues, KaiScheduler, Kueue, LeaderWorkerSets, TeamQueue
from gpu_constructs.storage import EbsStorageClass, LustreFileSystem
from gpu_constructs.teams import Team, TeamQuota
from gpu_constructs.workloads import MpiOperator, MultiNodeDeployment, NcclTest
from tests.clusters import CERTIFICATE, ENDPOINT, imported_cluster, imported_vpc, plain_cluster
from tests.random_apps import drawn_values as values
from tests.random_apps.drawn_extras import Extras, extras
from tests.random_apps.drawn_values import sometimes
from tests.random_apps.parts import Made, Part, World, part

VERSIONS = ("1.34", "1.35", "1.36")
ACCOUNT = "111122223333"
ADMIN = "arn:aws:iam::111122223333:role/admin"
_REGIONS = ("us-east-1", "us-east-1", "us-west-2", "eu-west-1", None)


@dataclass(frozen=True)
class RandomApp:
    """An app.

    Attributes:
        region: Region of its stack; ``None`` for one that the deployment decides.
        parts: Its parts in their order.
    """

    region: str | None
    parts: tuple[Part, ...]

    def stack(self, outdir: str, flags: dict[str, Any]) -> cdk.Stack:
        """Return the empty stack."""
        app = cdk.App(outdir=outdir, context=flags, analytics_reporting=False)
        env = cdk.Environment(account=ACCOUNT, region=self.region) if self.region else None
        return cdk.Stack(app, "Lab", env=env)


def draw(seed: int) -> RandomApp:
    """Return the app of a seed."""
    random = Random(seed)
    region = random.choice(_REGIONS)
    zone = f"{region or 'us-east-1'}a"
    kind = random.choices(("own", "auto", "imported", "plain"), (6, 2, 2, 1))[0]
    manager = random.choices(("device-plugin", "gpu-operator"), (7, 3))[0]
    autoscaler = "karpenter" if kind != "auto" and random.random() < 0.4 else None
    parts = [_cluster(random, kind, zone)]
    parts += _nodes_without_gpus(parts[0])
    parts += _managers(random, kind, manager)
    if autoscaler:
        given = sometimes(random, 0.2, node_repair=True)
        given |= sometimes(random, 0.3, dynamic_resource_allocation=True, version="1.15.1")
        parts.append(part(Karpenter, "karpenter", given))
    if kind != "auto" and (kind != "own" or random.random() < 0.5):
        version = {"kubernetes_version": random.choice(VERSIONS)} if kind == "imported" else {}
        parts.append(part(ClusterAutoscaler, "autoscaler", version))
    pools = [_pool(random, f"pool{number}", kind, autoscaler, manager, zone) for number in range(random.randint(1, 3))]
    parts += pools
    parts += _software(random)
    namespaces, queue, more = _teams(random, [each.name for each in pools])
    parts += more
    parts += [part(LeaderWorkerSets, "groups"), part(MpiOperator, "mpi")]
    for number in range(random.randint(1, 3)):
        parts += _workload(random, number, random.choice(pools).name, random.choice(namespaces), queue)
    return RandomApp(region, tuple(parts))


def _cluster(random: Random, kind: str, zone: str) -> Part:
    if kind == "imported":
        return Part("cluster", lambda world: _import(world, zone), options="imported")
    if kind == "plain":
        version = random.choice(VERSIONS)
        return Part("cluster", lambda world: _plain(world, version), options=f"aws_eks_v2, {version}")
    given: dict[str, Any] = {
        **sometimes(random, 0.5, kubernetes_version=random.choice(VERSIONS)),
        **sometimes(random, 0.4, admins=[ADMIN]),
        **sometimes(random, 0.5, network_policies=True),
        **sometimes(random, 0.2, pack_gpus=True),
        **sometimes(random, 0.1, ip_family="ipv6"),
        **sometimes(random, 0.1, deletion_protection=True),
        **sometimes(random, 0.2, zonal_shift=False),
        **sometimes(random, 0.2, control_plane_tier="tier-xl"),
    }
    if kind == "auto":
        given["auto_mode"] = AutoMode(**sometimes(random, 0.2, node_pools=()))
    else:
        given |= sometimes(random, 0.3, prefix_delegation=True)
        given |= sometimes(random, 0.3, system_nodes=SystemNodes(instance_types=("m7i.xlarge",), min_nodes=2))
    network = {
        **sometimes(random, 0.7, availability_zones=[zone, f"{zone[:-1]}b"]),
        **sometimes(random, 0.3, nat_gateways=random.choice((1, 2))),
    }
    if "ip_family" in given and random.random() < 0.9:
        given.pop("prefix_delegation", None)
        network["ip_family"] = "ipv6"
    elif "availability_zones" in network or random.random() < 0.1:
        network |= sometimes(random, 0.2, pod_block="100.64.0.0/16")
    own = random.random() < 0.5

    def make(world: World) -> Any:
        vpc: dict[str, Any] = {"vpc": gpu_vpc(world.stack, "Net", **network)} if own else {}
        return GpuCluster(world.stack, "Gpu", **given, **vpc)

    return Part("cluster", make, options=given | ({"vpc": network} if own else {}))


def _nodes_without_gpus(cluster: Part) -> list[Part]:
    """Return a part with nodes without GPUs; none in Auto Mode without built-in pools."""
    auto_mode = cluster.options.get("auto_mode") if isinstance(cluster.options, dict) else None
    if auto_mode is not None and not auto_mode.node_pools:
        return []
    return [Part("nodes without GPUs", lambda world: world.cluster, ("cluster",))]


def _plain(world: World, version: str) -> Any:
    """Return a cluster that the app makes without this library, with the settings that the docs require of one."""
    cluster = plain_cluster(world.stack, version)
    cluster.add_nodegroup_capacity("System", instance_types=[ec2.InstanceType("m7i.large")], min_size=2, max_size=2)
    for name in ("vpc-cni", "kube-proxy", "coredns", "eks-pod-identity-agent"):
        eks.CfnAddon(world.stack, f"Addon-{name}", addon_name=name, cluster_name=cluster.cluster_name)
    return cluster


def _import(world: World, zone: str) -> Any:
    said = {"cluster_endpoint": ENDPOINT, "cluster_certificate_authority_data": CERTIFICATE}
    return imported_cluster(world.stack, imported_vpc(world.stack, (zone, f"{zone[:-1]}b")), **said)


def _managers(random: Random, kind: str, manager: str) -> list[Part]:
    """Return what pools that are made by themselves need, as they do in a cluster that is imported."""
    if kind == "auto" or (kind == "own" and random.random() < 0.5):
        return []
    found = [
        part(GpuOperator if manager == "gpu-operator" else DevicePlugin, "manager"),
        part(EfaDevicePlugin, "efa"),
    ]
    version = {"kubernetes_version": "1.36"} if kind == "imported" else {}
    return found + ([part(DraDriver, "dra", version)] if random.random() < 0.4 else [])


def _pool(random: Random, name: str, kind: str, autoscaler: str | None, manager: str, zone: str) -> Part:
    shaped = values.shape_arguments(random, manager, auto=kind == "auto")
    bought = values.capacity(random, zone)
    given: dict[str, Any] = {} if bought is None else {"capacity": bought}
    constructs: tuple[Callable[..., Any], ...] = (
        *(ManagedNodeGroup, ManagedNodeGroup, ManagedNodeGroup),
        *(SelfManagedNodeGroup, SelfManagedNodeGroup, ZonalNodeGroups),
    )
    if kind == "auto":
        constructs = (AutoModeNodePool,)
    elif autoscaler:
        constructs = (KarpenterNodePool, KarpenterNodePool, KarpenterNodePool, ManagedNodeGroup)
    construct = random.choice(constructs)
    if construct in (AutoModeNodePool, KarpenterNodePool):
        given |= values.karpenter_size(random, shaped) | values.disruption(random)
    else:
        given |= values.group_size(random, shaped)
        given |= values.group_options(random) if construct is ManagedNodeGroup else {}
    if construct is ZonalNodeGroups:
        given = {f"{argument}_per_zone" if "nodes" in argument else argument: each for argument, each in given.items()}
    if construct is SelfManagedNodeGroup:
        given |= {"termination_handler": "installed"}
        given |= (
            {"bootstrap": Bootstrap(kubernetes_version="1.36", service_cidr="172.20.0.0/16")}
            if kind == "imported"
            else {}
        )
    adds = (
        kind in ("own", "auto") and construct not in (SelfManagedNodeGroup, ZonalNodeGroups) and random.random() < 0.7
    )
    needs: tuple[str, ...] = ("karpenter",) if construct is KarpenterNodePool else ()
    # By itself a pool brings none of these.
    if not adds and kind != "auto":
        needs += ("manager", "efa") if construct is KarpenterNodePool else ("manager", "efa", "autoscaler")
        needs += ("dra",) if shaped.get("device_manager") == "dra" else ()

    def make(world: World) -> Any:
        shape = NodeShape(**shaped)
        near = {"subnets": [world.cluster.vpc.private_subnets[0]]} if together else {}
        if adds:
            made = world.cluster.add_pool(name, shape, **given, **near)
        else:
            own = {"karpenter": world.made["karpenter"]} if construct is KarpenterNodePool else {}
            made = construct(
                world.stack, name.title(), cluster=world.cluster, name=name, shape=shape, **given, **own, **near
            )
        world.shapes[name] = shape
        return made

    together = shaped.get("efa") and random.random() < 0.9
    options = {"kind": "add_pool" if adds else construct.__name__, "shape": shaped, **given}
    return Part(name, make, ("cluster", *needs), options)


def _software(random: Random) -> list[Part]:
    found = []
    if random.random() < 0.25:
        found.append(part(PrometheusStack, "prometheus", sometimes(random, 0.1, storage_gib=20)))
        found.append(part(DcgmExporter, "dcgm", {"prometheus": Made("prometheus")}))
    elif random.random() < 0.15:
        found.append(part(DcgmExporter, "dcgm"))
    if random.random() < 0.15:
        found.append(part(EbsStorageClass, "disks", {"name": "disks"}))
    if random.random() < 0.08:
        found.append(part(LustreFileSystem, "lustre", {"name": "data", "pool": Made("pool0")}))
    return found


def _teams(random: Random, pools: list[str]) -> tuple[list[str], str | None, list[Part]]:
    """Return namespaces, the system of the queues that these have, and the parts."""
    names = [f"team{number}" for number in range(random.choice((0, 0, 1, 2)))]
    parts = []
    for name in names:
        quota = TeamQuota(
            gpus=random.choice((1, 4, 16)),
            **sometimes(random, 0.3, memory_gib=random.choice((16, 200))),
            **sometimes(random, 0.3, others={"nvidia.com/gpu.shared": random.choice((1, 8))}),
        )
        given = {
            "namespace": name,
            **sometimes(random, 0.6, quota=quota),
            **sometimes(random, 0.5, pod_security=random.choice(("baseline", "privileged", "restricted"))),
            **sometimes(random, 0.2, isolate=True),
            **sometimes(random, 0.4, members={f"arn:aws:iam::111122223333:role/{name}": "edit"}),
        }
        parts.append(part(Team, name, given))
    system = random.choice((None, "kueue", "kai")) if names else None
    if system is None:
        return ["default", *names], None, parts
    nodes = {pool: random.choice((0, 1, 1, 2)) for pool in pools}
    queues = [TeamQueue(name=name, namespace=name, nodes=nodes) for name in names]
    if system == "kueue":
        parts.append(part(Kueue, "kueue", sometimes(random, 0.3, fair_sharing=False)))
        parts.append(_queues(GpuQueues, ("kueue", "kueue"), pools, queues, (*pools, *names)))
    else:
        parts.append(part(KaiScheduler, "kai"))
        parts.append(_queues(KaiQueues, ("scheduler", "kai"), pools, queues, (*pools, *names)))
    return names, system, parts


def _queues(
    construct: Callable[..., Any],
    controller: tuple[str, str],
    pools: list[str],
    teams: list[TeamQueue],
    needs: tuple[str, ...],
) -> Part:
    argument, name = controller

    def make(world: World) -> Any:
        given = {argument: world.made[name], "pools": [world.made[each] for each in pools], "teams": teams}
        return construct(world.stack, "Queues", cluster=world.cluster, **given)

    return Part("queues", make, ("cluster", name, *needs), teams)


_KINDS = {
    "job": (GpuJob, 8),
    "deployment": (GpuDeployment, 8),
    "nodes": (MultiNodeDeployment, 4),
    "smoke": (GpuSmokeTest, 1),
    "scaled": (GpuDeployment, 2),
    "nccl": (NcclTest, 1),
    "claim": (SharedGpuClaim, 1),
}


def _workload(random: Random, number: int, pool: str, namespace: str, system: str | None) -> list[Part]:
    name = f"work{number}"
    kind = random.choices(tuple(_KINDS), [chance for _, chance in _KINDS.values()])[0]
    drawn = random.getrandbits(32)
    queued = system is not None and kind in ("job", "nodes", "nccl") and random.random() < 0.8
    said = {"namespace": namespace, **_workload_arguments(random, kind, name)}
    more = extras(random, name, namespace, serves=kind in ("deployment", "scaled"))
    more = more if kind in ("job", "deployment", "scaled") else Extras()
    shared = kind == "deployment" and random.random() < 0.05

    def make(world: World) -> Any:
        given = said | more.given | {argument: late(world) for argument, late in more.late.items()}
        if kind in ("job", "deployment", "scaled", "nodes"):
            own = more.pod | ({"claim": world.made[f"{name}claim"].name} if shared else {})
            given["pod"] = values.pod_of(Random(drawn), world.shapes[pool], own, whole=kind == "nodes")
        if queued:
            queues = world.made["queues"]
            given["queue"] = queues.queue(namespace) if system == "kai" else namespace
        if kind == "nccl":
            given["operator"] = world.made["mpi"]
        on = {} if kind == "claim" else {"pool": world.made[pool]}
        return _KINDS[kind][0](world.stack, name.title(), cluster=world.cluster, **on, **given)

    within = (namespace,) if namespace != "default" else ()
    needs = ("cluster", pool, *within, *(("queues",) if queued else ()))
    needs += {"nodes": ("groups",), "nccl": ("mpi", "nodes without GPUs")}.get(kind, ())
    needs += tuple(each.name for each in more.parts) + ((f"{name}claim",) if shared else ())
    made = Part(name, make, needs, said | more.given | more.pod | {"pool": pool, "kind": kind, "queued": queued})
    claim = part(SharedGpuClaim, f"{name}claim", {"name": f"{name}-claim", "namespace": namespace}, within)
    before = [claim] if shared else []
    after = _scaler(random, name) if kind == "scaled" else []
    return [*before, *more.parts, made, *after]


def _workload_arguments(random: Random, kind: str, name: str) -> dict[str, Any]:
    if kind == "job":
        return {"name": name, "pods": random.choice((1, 2, 4)), **sometimes(random, 0.3, gang=True)}
    if kind == "deployment":
        return {"name": name, "port": 8000, "replicas": random.choice((0, 1, 1, 2, 4))}
    if kind == "nodes":
        return {"name": name, "port": 8000, "nodes": 2, "leader": ("lead",), "worker": ("work",)}
    if kind == "scaled":
        return {"name": name, "port": 8000}
    return {"name": name} if kind == "claim" else {}


def _scaler(random: Random, target: str) -> list[Part]:
    given: dict[str, Any] = {
        "target": Made(target),
        "max_replicas": random.choice((1, 2, 4)),
        "signals": [Demand(query="sum(waiting)", per_pod=4)],
    }
    through = random.choice(("keda", "adapter"))
    if through == "adapter":
        adapter = part(PrometheusAdapter, f"adapter{target}", {"prometheus": Made("prometheus")})
        own = {"through": Made(adapter.name), "prometheus": Made("prometheus"), "signals": [SmActivity(percent=70)]}
        return [adapter, part(GpuHorizontalAutoscaler, f"scaler{target}", given | own)]
    keda = part(Keda, f"keda{target}")
    own = {"through": Made(keda.name), "prometheus": Made("prometheus")}
    return [keda, part(GpuHorizontalAutoscaler, f"scaler{target}", given | own)]
