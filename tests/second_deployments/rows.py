"""Every option of every public construct and value, with another value than the one of the first version."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns

from gpu_constructs import (
    AutoMode,
    AutoModeNodePool,
    CapacityBlock,
    ClusterAutoscaler,
    DevicePlugin,
    Disk,
    GpuCluster,
    GpuDeployment,
    GpuJob,
    GpuPod,
    GpuSmokeTest,
    Karpenter,
    KarpenterNodePool,
    ManagedNodeGroup,
    Mig,
    Mps,
    NodeShape,
    Reservation,
    Spot,
    Static,
    SystemNodes,
    Taint,
    TimeSlicing,
    UpTo,
    gpu_vpc,
)
from gpu_constructs.cluster import PrivateEndpoints
from gpu_constructs.devices import DraDriver, EfaDevicePlugin, GpuOperator, SharedGpuClaim
from gpu_constructs.exposure import Internal, LoadBalancerController, Public
from gpu_constructs.identity import WorkloadIdentity
from gpu_constructs.metrics import DcgmExporter, ManagedPrometheus, PrometheusStack, ReservationAlarm
from gpu_constructs.nodes import Bootstrap, NodeTerminationHandler, NodeUpdate, SelfManagedNodeGroup, ZonalNodeGroups
from gpu_constructs.pod_scaling import (
    CpuMemoryRightsizing,
    CpuUtilization,
    Demand,
    GpuHorizontalAutoscaler,
    GpuMemory,
    GpuUtilization,
    Keda,
    MetricsServer,
    PrometheusAdapter,
    SmActivity,
    SqsQueue,
    VerticalPodAutoscaler,
)
from gpu_constructs.pools import (
    BottlerocketSettings,
    Budget,
    CustomImage,
    Disruption,
    GpuClaim,
    Host,
    Kubelet,
    NodeConfig,
    NodeRepair,
    Proxy,
    RepairOverride,
    ScalingOptions,
    ShellScript,
)
from gpu_constructs.queueing import (
    Dynamo,
    GpuQueues,
    JobSets,
    KaiQueues,
    KaiScheduler,
    KubeRay,
    Kueue,
    LeaderWorkerSets,
    TeamQueue,
)
from gpu_constructs.storage import (
    EbsCsiDriver,
    EbsStorageClass,
    FsxCsiDriver,
    Gp3,
    LustreFileSystem,
    LustreRepository,
    PersistentLustre,
    S3CsiDriver,
    S3Mount,
    S3Volume,
    ScratchLustre,
)
from gpu_constructs.teams import DoctorAccess, Team, TeamQuota
from gpu_constructs.workloads import (
    ConfigMapEnv,
    ConfigMapKey,
    ConfigMapMount,
    CopiedModel,
    HubModel,
    ImageModel,
    ImageMount,
    InitContainer,
    KaiQueue,
    MountedModel,
    MpiOperator,
    MultiNodeDeployment,
    NcclTest,
    ScratchMount,
    SecretEnv,
    SecretKey,
    SecretMount,
    StreamedModel,
    VolumeClaimMount,
)
from tests.second_deployments.world import L4, OTHER, POD, Case, Says, World

VALUES = {"priorityClassName": "high"}
ANN = "arn:aws:iam::111122223333:role/Ann"
IMAGE = "registry.example.com/other:2"
DIGEST = "registry.example.com/llama@sha256:" + "a" * 64
OTHER_DIGEST = "registry.example.com/llama@sha256:" + "b" * 64
P5 = NodeShape(instance_types=("p5.48xlarge",))
BLOCK = {
    "id": "cr-0123456789abcdef0",
    "availability_zone": "us-east-1a",
    "starts": datetime(2027, 1, 11, 11, 30, tzinfo=timezone.utc),
    "ends": datetime(2027, 1, 18, 11, 30, tzinfo=timezone.utc),
    "instances": 2,
}
RESERVED = Reservation(id="cr-0123456789abcdef0", availability_zone="us-east-1a")
BOOTSTRAP = Bootstrap(kubernetes_version="1.36", service_cidr="172.20.0.0/16")
POLICY = iam.PolicyStatement(actions=["ec2:Describe*"], principals=[iam.AnyPrincipal()], resources=["*"])


def group(world: World, shape: Any = L4, **says: Any) -> None:
    """A managed node group, which carries values of pools."""
    ManagedNodeGroup(world.stack, "It", cluster=world.cluster, name="it", shape=shape, **{"max_nodes": 2} | says)


def shaped(types: str = "g6.xlarge", **fixed: Any) -> Callable[[str], Callable[[World, Any], None]]:
    """Return what makes the carrier of a value that is an option of a shape."""

    def carrier(option: str) -> Callable[[World, Any], None]:
        return lambda world, value: group(
            world, NodeShape(instance_types=(types,), **fixed, **{option: value}), bootstrap=BOOTSTRAP
        )

    return carrier


def karpenter_pool(world: World, **says: Any) -> None:
    """A pool of Karpenter, which carries its values."""
    given = {"name": "it", "shape": L4, "size": UpTo(gpus=4), "karpenter": world.of(Karpenter)}
    KarpenterNodePool(world.stack, "It", cluster=world.cluster, **given | says)


def pod(world: World, **says: Any) -> None:
    """A deployment whose pod carries a value."""
    serve(world, pod=GpuPod(**{"image": "registry.example.com/app:1"} | says))


def serve(world: World, **says: Any) -> None:
    """A deployment that carries a value."""
    given = {"name": "it", "pod": POD, "port": 8000, "pool": world.pool(), "kubernetes_version": "1.36"}
    GpuDeployment(world.stack, "It", cluster=world.cluster, **given | says)


def exposed(world: World, value: Any) -> None:
    """A deployment with clients outside the cluster."""
    world.of(LoadBalancerController)
    serve(world, expose=value)


def scaled(world: World, signal: Any) -> None:
    """An autoscaler that carries a signal."""
    GpuHorizontalAutoscaler(world.stack, "It", cluster=world.cluster, **scaler(world) | {"signals": [signal]})


def scaler(world: World) -> dict[str, Any]:
    return {
        "target": world.served(),
        "signals": [Demand(query="sum(waiting)", per_pod=4)],
        "max_replicas": 2,
        "through": keda(world),
        "prometheus": world.of(PrometheusStack),
    }


def keda(world: World) -> Any:
    workspaces = [f"arn:aws:aps:us-east-1:111122223333:workspace/ws-{each}" for each in ("0123456789", "9876543210")]
    queue = "arn:aws:sqs:us-east-1:111122223333:queue"
    return world.of(Keda, sqs_queue_arns=[queue], prometheus_workspace_arns=workspaces)


def queued(world: World, team: TeamQueue) -> None:
    """Queues that carry a team."""
    GpuQueues(world.stack, "It", cluster=world.cluster, **queues(world) | {"teams": [team]})


def queues(world: World) -> dict[str, Any]:
    return {"kueue": world.of(Kueue), "pools": [world.pool()], "teams": [TeamQueue(**TEAM)]}


def filled(world: World, storage: Any) -> None:
    """A file system that carries its kind."""
    LustreFileSystem(world.stack, "It", cluster=world.cluster, name="it", subnet=world.subnet("a"), storage=storage)


TEAM: dict[str, Any] = {"name": "nlp", "namespace": "nlp", "nodes": {"l4": 2}}


def nodes(world: World) -> Says:
    return {"name": "it", "shape": L4, "max_nodes": 2}


def zonal(world: World) -> Says:
    return {"name": "it", "shape": L4, "max_nodes_per_zone": 2}


GROUP: dict[str, Any] = {
    "cluster": OTHER,
    "name": "other",
    "shape": NodeShape(instance_types=("g6.2xlarge",)),
    "capacity": Spot(),
    "subnets": lambda world: [world.subnet("a")],
    "node_role": lambda world: world.role("nodes"),
    "bootstrap": Bootstrap(kubernetes_version="1.35", service_cidr="172.20.0.0/16"),
    "scaling_options": ScalingOptions(unneeded_minutes=5),
}
MANAGED: dict[str, Any] = {
    "ami_release": "1.36.0-20260601",
    "node_repair": NodeRepair(max_parallel=1),
    "update": NodeUpdate(max_unavailable=2),
    "force_update": True,
}


def job(world: World) -> Says:
    return {"name": "it", "pod": POD, "pool": world.pool()}


def multi(world: World) -> Says:
    world.of(LeaderWorkerSets)
    given = {"name": "it", "pod": POD, "pool": world.pool(), "nodes": 2, "leader": ("serve",), "worker": ("join",)}
    return {**given, "port": 8000}


def multi_exposed(world: World) -> Any:
    world.of(LoadBalancerController)
    return Internal()


def pods_of(name: str) -> Callable[[World, Any], None]:
    """Return what carries a value in a field of a pod that takes several."""
    return lambda world, value: pod(world, **{name: (value,)})


def karpenter(world: World) -> Says:
    return {"name": "it", "shape": L4, "size": UpTo(gpus=4), "karpenter": world.of(Karpenter)}


def auto(world: World) -> Says:
    return {"name": "it", "shape": L4, "size": UpTo(gpus=4)}


def in_karpenter(name: str) -> Callable[[World, Any], None]:
    return lambda world, value: karpenter_pool(world, **{name: value})


def served_with(name: str) -> Callable[[World, Any], None]:
    return lambda world, value: serve(world, **{name: value})


def new_network(world: World, made: Any) -> None:
    vpc = gpu_vpc(world.stack, "Net", **{"availability_zones": ["us-east-1a", "us-east-1b"]} | made)
    GpuCluster(world.stack, "It", vpc=vpc, ip_family=made.get("ip_family", "ipv4"))


def of_chart(kind: Any) -> Case:
    return Case(kind, {"cluster": OTHER, "values": VALUES})


def addon(kind: Any) -> Case:
    return Case(kind, {"cluster": OTHER, "version": "v9.9.9-eksbuild.1"})


CASES: tuple[Case, ...] = (
    # Clusters and networks.
    Case(
        GpuCluster,
        {
            "cluster_name": "other",
            "kubernetes_version": "1.36",
            "vpc": lambda world: world.network("Second", "1"),
            "public_access_cidrs": ["203.0.113.0/24"],
            "admins": [ANN],
            "viewers": [ANN],
            "operators": [ANN],
            "network_policies": True,
            "pod_subnets": {"us-east-1a": "subnet-0aaaaaaaaaaaaaaa0", "us-east-1b": "subnet-0aaaaaaaaaaaaaaa1"},
            "prefix_delegation": True,
            "system_nodes": SystemNodes(instance_types=("m7i.large",)),
            "auto_mode": AutoMode(),
            "ip_family": "ipv6",
            "pack_gpus": True,
            "role": lambda world: world.role("cluster"),
            "secrets_key": lambda world: world.key("1"),
            "addon_versions": {"coredns": "v9.9.9-eksbuild.1"},
            "deletion_protection": True,
            "log_days": 30,
            "log_key": lambda world: world.key("1"),
            "upgrade_policy": "standard",
            "control_plane_tier": "tier-xl",
            "zonal_shift": True,
        },
        lambda world: {"vpc": lambda world: world.vpc},
        before={"kubernetes_version": {"kubernetes_version": "1.35"}},
    ),
    Case(
        gpu_vpc,
        {
            "block": "10.8.0.0/16",
            "pod_block": "100.64.0.0/16",
            "availability_zones": ["us-east-1a", "us-east-1b", "us-east-1d"],
            "nat_gateways": 0,
            "ip_family": "ipv6",
            "log_key": lambda world: world.key("1"),
        },
        carry=new_network,
    ),
    Case(
        AutoMode,
        {"node_pools": ("system",)},
        carry=lambda world, value: GpuCluster(world.stack, "It", vpc=world.vpc, auto_mode=value),
    ),
    Case(
        SystemNodes,
        {
            "instance_types": ("m7i.large",),
            "min_nodes": 3,
            "max_nodes": 6,
            "disk": Disk(size_gib=200),
            "labels": {"example.com/team": "platform"},
            "host": Host(session_manager=True),
        },
        carry=lambda world, value: GpuCluster(world.stack, "It", vpc=world.vpc, system_nodes=value),
    ),
    Case(
        PrivateEndpoints,
        {
            "vpc": lambda world: world.network("Second", "1"),
            "services": ("ec2", "sts"),
            "s3_gateway": False,
            "subnets": lambda world: [world.vpc.private_subnets[0]],
            "pod_blocks": ("100.64.0.0/16",),
            "policies": {"ec2": [POLICY]},
        },
        lambda world: {"vpc": lambda world: world.vpc},
    ),
    # Pools.
    Case(ManagedNodeGroup, {**GROUP, **MANAGED, "max_nodes": 4, "min_nodes": 1}, nodes),
    Case(
        SelfManagedNodeGroup,
        {
            **GROUP,
            "max_nodes": 4,
            "min_nodes": 1,
            "termination_handler": lambda world: world.of(NodeTerminationHandler),
        },
        lambda world: {
            **nodes(world),
            "termination_handler": "installed",
            "bootstrap": Bootstrap(kubernetes_version="1.36", service_cidr="172.20.0.0/16"),
        },
    ),
    Case(ZonalNodeGroups, {**GROUP, **MANAGED, "max_nodes_per_zone": 4, "min_nodes_per_zone": 1}, zonal),
    Case(
        KarpenterNodePool,
        {
            "cluster": OTHER,
            "name": "other",
            "shape": NodeShape(instance_types=("g6.2xlarge",)),
            "size": Static(nodes=2),
            "capacity": Spot(),
            "disruption": Disruption(consolidation="WhenEmpty", consolidate_after_minutes=5),
            "karpenter": None,
            "node_role": lambda world: world.role("nodes"),
            "subnets": lambda world: [world.subnet("a")],
            "security_group_ids": ["sg-0aaaaaaaaaaaaaaa0"],
            "ami_release": "v20260601",
        },
        karpenter,
        partners={"karpenter": {"node_role": lambda world: world.role("nodes")}},
    ),
    Case(
        AutoModeNodePool,
        {
            "cluster": OTHER,
            "name": "other",
            "shape": NodeShape(instance_types=("g6.2xlarge",)),
            "size": Static(nodes=2),
            "capacity": Spot(),
            "disruption": Disruption(consolidation="WhenEmpty", consolidate_after_minutes=5),
            "node_role": lambda world: world.role("nodes"),
            "subnets": lambda world: [world.subnet("a")],
            "security_group_ids": ["sg-0aaaaaaaaaaaaaaa0"],
        },
        auto,
    ),
    Case(
        NodeShape,
        {
            "instance_types": ("p5.4xlarge",),
            "operating_system": "bottlerocket",
            "disk": Disk(size_gib=200),
            "raid0": False,
            "efa": True,
            "placement_group": "other",
            "sharing": TimeSlicing(replicas=4),
            "device_manager": "gpu-operator",
            "kubelet": Kubelet(max_pods=30),
            "soci": True,
            "image": CustomImage(id="ami-0123456789abcdef0", driver_branch=580),
            "purpose": "training",
            "labels": {"example.com/team": "a"},
            "taints": (Taint(key="example.com/team", value="a"),),
            "gpu_taint": False,
            "storage_drivers": ("ebs",),
            "tags": {"team": "a"},
            "host": Host(session_manager=True),
        },
        lambda world: {"instance_types": ("p5.48xlarge",)},
        carry=lambda world, value: group(world, value, subnets=[world.subnet("a")], bootstrap=BOOTSTRAP),
        before={"placement_group": {"efa": True}},
        partners={"soci": {"disk": Disk(iops=16000, throughput_mib_s=1000)}},
    ),
    Case(
        Disk,
        {
            "size_gib": 200,
            "iops": 6000,
            "throughput_mib_s": 500,
            "kms_key_arn": "arn:aws:kms:us-east-1:111122223333:key/11111111-1111-1111-1111-111111111111",
            "snapshot_id": "snap-0123456789abcdef0",
            "initialization_mib_s": 200,
        },
        carry=shaped(raid0=False, operating_system="bottlerocket")("disk"),
        before={"initialization_mib_s": {"snapshot_id": "snap-0123456789abcdef0"}},
    ),
    Case(
        Host,
        {
            "security_group_ids": ("sg-0aaaaaaaaaaaaaaa0",),
            "metadata_hop_limit": 2,
            "session_manager": True,
            "user_data": (ShellScript(text="#!/bin/bash\ntrue\n"),),
            "registry_mirrors": {"docker.io": "https://mirror.example.com"},
            "certificate_authorities": ("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",),
            "proxy": Proxy(url="http://proxy.example.com:3128"),
        },
        carry=shaped()("host"),
    ),
    Case(
        Proxy,
        {"url": "http://other.example.com:3128", "no_proxy": ("example.com",)},
        lambda world: {"url": "http://proxy.example.com:3128"},
        carry=lambda world, value: shaped()("host")(world, Host(proxy=value)),
    ),
    Case(
        ShellScript,
        {"text": "#!/bin/bash\nfalse\n"},
        lambda world: {"text": "#!/bin/bash\ntrue\n"},
        carry=lambda world, value: shaped()("host")(world, Host(user_data=(value,))),
    ),
    Case(
        NodeConfig,
        {"spec": {"kubelet": {"flags": ["--v=3"]}}},
        lambda world: {"spec": {"kubelet": {"flags": ["--v=2"]}}},
        carry=lambda world, value: shaped()("host")(world, Host(user_data=(value,))),
    ),
    Case(
        BottlerocketSettings,
        {"settings": {"motd": "bye"}},
        lambda world: {"settings": {"motd": "hello"}},
        carry=lambda world, value: shaped(operating_system="bottlerocket")("host")(world, Host(user_data=(value,))),
    ),
    Case(
        Kubelet,
        {
            "max_pods": 30,
            "kube_reserved": {"memory": "2Gi"},
            "system_reserved": {"memory": "1Gi"},
            "parallel_image_pulls": 4,
        },
        carry=shaped()("kubelet"),
    ),
    Case(
        CustomImage,
        {"id": "ami-0bbbbbbbbbbbbbbb0", "driver_branch": 570},
        lambda world: {"id": "ami-0123456789abcdef0", "driver_branch": 580},
        carry=shaped()("image"),
    ),
    Case(
        Taint,
        {"key": "example.com/other", "value": "b", "effect": "NoExecute"},
        lambda world: {"key": "example.com/team", "value": "a"},
        carry=lambda world, value: shaped()("taints")(world, (value,)),
    ),
    Case(TimeSlicing, {"replicas": 8}, lambda world: {"replicas": 4}, carry=shaped()("sharing")),
    Case(Mps, {"replicas": 8}, lambda world: {"replicas": 4}, carry=shaped()("sharing")),
    Case(
        Mig,
        {"geometry": {"2g.20gb": 3}},
        lambda world: {"geometry": {"1g.10gb": 7}},
        carry=shaped("p5.48xlarge")("sharing"),
    ),
    Case(Spot, {"checkpointed": True}, carry=lambda world, value: group(world, capacity=value)),
    Case(
        Reservation,
        {
            "id": "cr-0bbbbbbbbbbbbbbb0",
            "availability_zone": "us-east-1b",
            "resource_group_arn": "arn:aws:resource-groups:us-east-1:111122223333:group/gpus",
        },
        lambda world: {"id": "cr-0123456789abcdef0", "availability_zone": "us-east-1a"},
        carry=lambda world, value: group(world, capacity=value, subnets=[world.subnet(value.availability_zone[-1])]),
        partners={"resource_group_arn": {"id": None}},
    ),
    Case(
        CapacityBlock,
        {
            "id": "cr-0bbbbbbbbbbbbbbb0",
            "availability_zone": "us-east-1b",
            "starts": datetime(2027, 1, 12, 11, 30, tzinfo=timezone.utc),
            "ends": datetime(2027, 1, 19, 11, 30, tzinfo=timezone.utc),
            "instances": 1,
            "started": True,
            "drain_minutes": 90,
        },
        lambda world: BLOCK,
        carry=lambda world, value: group(
            world,
            P5,
            capacity=value,
            subnets=[world.subnet(value.availability_zone[-1])],
            max_nodes=value.instances,
        ),
    ),
    Case(
        UpTo,
        {"gpus": 8, "vcpus": 64, "memory_gib": 256, "weight": 10},
        lambda world: {"gpus": 4},
        carry=in_karpenter("size"),
    ),
    Case(Static, {"nodes": 2, "spare": 2}, lambda world: {"nodes": 1}, carry=in_karpenter("size")),
    Case(
        Disruption,
        {
            "consolidation": "WhenEmptyOrUnderutilized",
            "consolidate_after_minutes": 30,
            "budgets": (Budget(nodes="10%"),),
            "expire_after_hours": 240,
            "termination_grace_minutes": 60,
        },
        lambda world: {"consolidation": "WhenEmpty", "consolidate_after_minutes": 5},
        carry=in_karpenter("disruption"),
    ),
    Case(
        Budget,
        {"nodes": "20%", "reasons": ("Drifted",), "schedule": "0 8 * * *", "minutes": 60},
        lambda world: {"nodes": "10%"},
        carry=lambda world, value: karpenter_pool(
            world, disruption=Disruption(consolidation="WhenEmpty", consolidate_after_minutes=5, budgets=(value,))
        ),
        partners={"schedule": {"minutes": 60}},
        before={"minutes": {"schedule": "0 8 * * *", "minutes": 30}},
    ),
    Case(
        NodeRepair,
        {
            "enabled": False,
            "max_unhealthy": 2,
            "max_parallel": 1,
            "overrides": (
                RepairOverride(
                    condition="AcceleratedHardwareReady", reason="NvidiaXID13Error", wait_minutes=10, action="Reboot"
                ),
            ),
        },
        carry=lambda world, value: group(world, node_repair=value),
    ),
    Case(
        RepairOverride,
        {
            "condition": "NetworkingReady",
            "reason": "NvidiaXID74Error",
            "wait_minutes": 20,
            "action": "Replace",
        },
        lambda world: {
            "condition": "AcceleratedHardwareReady",
            "reason": "NvidiaXID13Error",
            "wait_minutes": 10,
            "action": "Reboot",
        },
        carry=lambda world, value: group(world, node_repair=NodeRepair(overrides=(value,))),
        partners={"condition": {"reason": "IPAMDNotRunning"}},
    ),
    Case(
        NodeUpdate,
        {"max_unavailable": 2, "strategy": "DEFAULT"},
        carry=lambda world, value: group(world, update=value),
    ),
    Case(
        Bootstrap,
        {"kubernetes_version": "1.35", "service_cidr": "10.100.0.0/16", "ami_release": "v20260601"},
        lambda world: {"kubernetes_version": "1.36", "service_cidr": "172.20.0.0/16"},
        carry=lambda world, value: SelfManagedNodeGroup(
            world.stack, "It", cluster=world.cluster, **nodes(world), termination_handler="installed", bootstrap=value
        ),
    ),
    Case(
        ScalingOptions,
        {
            "unneeded_minutes": 5,
            "unready_minutes": 5,
            "gpu_utilization": 0.4,
            "utilization": 0.4,
            "ignore_daemonsets": True,
        },
        lambda world: {"unneeded_minutes": 10},
        carry=lambda world, value: group(world, scaling_options=value),
    ),
    Case(NodeTerminationHandler, {"cluster": OTHER, "drain_minutes": 10, "values": VALUES}),
    # Autoscalers and devices.
    Case(
        ClusterAutoscaler,
        {
            "cluster": OTHER,
            "kubernetes_version": "1.35",
            "image": IMAGE,
            "scaling_tags": {"team": "a"},
            "priorities": {10: [".*l4.*"]},
            "balance_similar": True,
            "dynamic_resource_allocation": True,
        },
        lambda world: {"kubernetes_version": "1.36"},
    ),
    Case(
        Karpenter,
        {
            "cluster": OTHER,
            "node_role": lambda world: world.role("nodes"),
            "node_repair": True,
            "reboot_for_repair": True,
            "dynamic_resource_allocation": True,
            "isolated": True,
            "values": VALUES,
            "version": "1.15.1",
        },
        before={
            "reboot_for_repair": {"node_repair": True, "version": "1.15.1"},
            "dynamic_resource_allocation": {"version": "1.15.1"},
        },
    ),
    Case(DevicePlugin, {"cluster": OTHER, "image": IMAGE, "sharing": (TimeSlicing(replicas=4),)}),
    Case(
        DraDriver,
        {"cluster": OTHER, "kubernetes_version": "1.35", "values": VALUES},
        lambda world: {"kubernetes_version": "1.36"},
    ),
    of_chart(EfaDevicePlugin),
    Case(GpuOperator, {"cluster": OTHER, "values": {"dcgm": {"enabled": True}}, "acknowledge_bottlerocket": True}),
    Case(
        SharedGpuClaim,
        {"cluster": OTHER, "name": "other", "namespace": "nlp", "gpu": GpuClaim(count=2)},
        lambda world: {"name": "it"},
    ),
    Case(
        GpuClaim,
        {"count": 2, "memory_gib": 20, "mig_profile": "1g.10gb"},
        carry=lambda world, value: SharedGpuClaim(world.stack, "It", cluster=world.cluster, name="it", gpu=value),
    ),
    # Exposure, identity, metrics.
    Case(
        LoadBalancerController,
        {"cluster": OTHER, "vpc_id": "vpc-0bbbbbbbbbbbbbbb0", "isolated": True, "values": VALUES},
    ),
    Case(
        Internal,
        {
            "idle_seconds": 60,
            "drain_seconds": 60,
            "certificate_arn": "arn:aws:acm:us-east-1:111122223333:certificate/11111111-1111-1111-1111-111111111111",
            "allow": ("10.0.0.0/8",),
        },
        carry=exposed,
    ),
    Case(
        Public,
        {
            "allow": ("198.51.100.0/24",),
            "certificate_arn": "arn:aws:acm:us-east-1:111122223333:certificate/11111111-1111-1111-1111-111111111111",
            "plain_http": False,
            "idle_seconds": 60,
            "drain_seconds": 60,
        },
        lambda world: {"allow": ("203.0.113.0/24",), "plain_http": True},
        carry=exposed,
        partners={
            "certificate_arn": {"plain_http": False},
            "plain_http": {
                "certificate_arn": "arn:aws:acm:us-east-1:111122223333:certificate/1111-1111-1111-1111-111111111111"
            },
        },
    ),
    Case(
        WorkloadIdentity,
        {
            "cluster": OTHER,
            "service_account": "other",
            "namespace": "nlp",
            "create_service_account": False,
            "target_role": lambda world: world.role("target"),
        },
        lambda world: {"service_account": "it"},
    ),
    Case(
        DcgmExporter,
        {
            "cluster": OTHER,
            "prometheus": lambda world: world.of(PrometheusStack),
            "fields": ("DCGM_FI_DEV_GPU_UTIL",),
            "shared_gpus": True,
            "image": IMAGE,
        },
    ),
    Case(
        PrometheusStack,
        {
            "cluster": OTHER,
            "storage_gib": 20,
            "storage_class": "other",
            "retention_days": 30,
            "workspace_arn": "arn:aws:aps:us-east-1:111122223333:workspace/ws-0123456789",
            "values": {"grafana": {"replicas": 2}},
        },
        before={"storage_class": {"storage_gib": 20, "storage_class": "gp3"}},
        partners={"storage_gib": {"storage_class": "gp3"}},
    ),
    Case(
        ManagedPrometheus,
        {
            "url": "https://aps-workspaces.us-east-1.amazonaws.com/workspaces/ws-9876543210",
            "region": "us-west-2",
        },
        lambda world: {
            "url": "https://aps-workspaces.us-east-1.amazonaws.com/workspaces/ws-0123456789",
            "region": "us-east-1",
        },
        carry=lambda world, value: GpuHorizontalAutoscaler(
            world.stack,
            "It",
            cluster=world.cluster,
            **{
                **scaler(world),
                "prometheus": value,
            },
        ),
    ),
    Case(
        ReservationAlarm,
        {
            "reservation": Reservation(id="cr-0bbbbbbbbbbbbbbb0", availability_zone="us-east-1a"),
            "unused_instances": 2,
            "hours": 8,
            "topic": lambda world: sns.Topic.from_topic_arn(
                world.stack, "Topic", "arn:aws:sns:us-east-1:111122223333:other"
            ),
        },
        lambda world: {"reservation": RESERVED},
    ),
    # Scaling of pods.
    Case(
        CpuMemoryRightsizing,
        {
            "cluster": OTHER,
            "target": lambda world: world.served("other"),
            "vpa": lambda world: world.of(VerticalPodAutoscaler),
            "mode": "Initial",
            "resources": ("memory",),
        },
        lambda world: {"target": world.served()},
    ),
    Case(
        GpuHorizontalAutoscaler,
        {
            "cluster": OTHER,
            "target": lambda world: world.served("other"),
            "signals": [Demand(query="sum(running)", per_pod=2)],
            "max_replicas": 4,
            "min_replicas": 2,
            "through": lambda world: world.of(PrometheusAdapter, prometheus=world.of(PrometheusStack)),
            "prometheus": ManagedPrometheus(
                url="https://aps-workspaces.us-east-1.amazonaws.com/workspaces/ws-0123456789", region="us-east-1"
            ),
        },
        scaler,
        partners={
            "through": {"signals": [SmActivity(percent=70)]},
        },
    ),
    Case(CpuUtilization, {"percent": 50}, carry=scaled),
    Case(GpuMemory, {"percent": 50}, carry=scaled),
    Case(GpuUtilization, {"percent": 50}, carry=scaled),
    Case(SmActivity, {"percent": 50}, carry=scaled),
    Case(
        Demand,
        {"query": "sum(running)", "per_pod": 2, "wakes_at": 2},
        lambda world: {"query": "sum(waiting)", "per_pod": 4},
        carry=scaled,
    ),
    Case(
        SqsQueue,
        {
            "url": "https://sqs.us-east-1.amazonaws.com/111122223333/other",
            "region": "us-west-2",
            "per_pod": 2,
            "wakes_at": 2,
        },
        lambda world: {
            "url": "https://sqs.us-east-1.amazonaws.com/111122223333/queue",
            "region": "us-east-1",
            "per_pod": 4,
        },
        carry=scaled,
    ),
    Case(
        Keda,
        {
            "cluster": OTHER,
            "sqs_queue_arns": ["arn:aws:sqs:us-east-1:111122223333:queue"],
            "prometheus_workspace_arns": ["arn:aws:aps:us-east-1:111122223333:workspace/ws-0123456789"],
            "values": VALUES,
        },
    ),
    addon(MetricsServer),
    Case(
        PrometheusAdapter,
        {"cluster": OTHER, "prometheus": lambda world: world.of(PrometheusStack, "Other"), "values": VALUES},
        lambda world: {"prometheus": lambda world: world.of(PrometheusStack)},
    ),
    of_chart(VerticalPodAutoscaler),
    # Queues.
    of_chart(Dynamo),
    of_chart(JobSets),
    of_chart(KaiScheduler),
    of_chart(KubeRay),
    of_chart(LeaderWorkerSets),
    Case(
        Kueue,
        {
            "cluster": OTHER,
            "ready_minutes": 30,
            "fair_sharing": False,
            "unmanaged_namespaces": ("nlp",),
            "values": VALUES,
        },
    ),
    Case(
        GpuQueues,
        {
            "cluster": OTHER,
            "kueue": lambda world: world.of(Kueue, "Second"),
            "pools": lambda world: [world.pool(), world.pool("more")],
            "teams": [TeamQueue(**TEAM), TeamQueue(name="vision", namespace="vision", nodes={"l4": 1})],
            "cohort": "other",
            "topology_levels": ("kubernetes.io/hostname",),
        },
        lambda world: {
            "kueue": lambda world: world.of(Kueue),
            "pools": lambda world: [world.pool()],
            "teams": [TeamQueue(**TEAM)],
        },
        before={"topology_levels": {"topology_levels": ("topology.kubernetes.io/zone", "kubernetes.io/hostname")}},
    ),
    Case(
        KaiQueues,
        {
            "cluster": OTHER,
            "scheduler": lambda world: world.of(KaiScheduler, "Second"),
            "pools": lambda world: [world.pool(), world.pool("more")],
            "teams": [TeamQueue(**TEAM), TeamQueue(name="vision", namespace="vision", nodes={"l4": 1})],
            "department": "other",
        },
        lambda world: {
            "scheduler": lambda world: world.of(KaiScheduler),
            "pools": lambda world: [world.pool()],
            "teams": [TeamQueue(**TEAM)],
        },
    ),
    Case(
        TeamQueue,
        {"name": "other", "namespace": "vision", "nodes": {"l4": 1}, "weight": 2},
        lambda world: TEAM,
        carry=queued,
    ),
    # Storage and teams.
    addon(EbsCsiDriver),
    addon(FsxCsiDriver),
    Case(
        S3CsiDriver, {"cluster": OTHER, "version": "v9.9.9-eksbuild.1", "controller_tolerates": ("example.com/team",)}
    ),
    Case(
        EbsStorageClass,
        {
            "cluster": OTHER,
            "name": "other",
            "volume": Gp3(iops=6000),
            "key": lambda world: world.key("1"),
            "is_default": True,
            "retain": True,
            "auto_mode": True,
        },
        lambda world: {"name": "it"},
    ),
    Case(
        Gp3,
        {"iops": 6000, "throughput_mib_s": 500, "file_system": "xfs"},
        carry=lambda world, value: EbsStorageClass(world.stack, "It", cluster=world.cluster, name="it", volume=value),
    ),
    Case(
        LustreFileSystem,
        {
            "cluster": OTHER,
            "name": "other",
            "storage": ScratchLustre(),
            "pool": lambda world: world.pool("here", subnets=[world.subnet("b")]),
            "subnet": lambda world: world.subnet("b"),
            "namespace": "nlp",
            "other_zones": True,
            "key": lambda world: world.key("1"),
            "security_group_ids": ["sg-0aaaaaaaaaaaaaaa0"],
            "vpc": lambda world: world.network("Second", "1"),
            "retain": False,
        },
        lambda world: {"name": "it", "subnet": lambda world: world.subnet("a")},
        partners={"pool": {"subnet": None}},
    ),
    Case(
        PersistentLustre,
        {"size_gib": 2400, "mb_s_per_tib": 250, "compress": True, "backup_days": 7},
        carry=filled,
    ),
    Case(ScratchLustre, {"size_gib": 2400, "compress": True}, carry=filled),
    Case(
        LustreRepository,
        {
            "file_system_id": "fs-0bbbbbbbbbbbbbbb0",
            "bucket": lambda world: world.bucket("other"),
            "path": "/other",
            "prefix": "b/",
            "exports": True,
            "chunk_mib": 2048,
            "beside": (),
        },
        lambda world: {
            "file_system_id": "fs-0123456789abcdef0",
            "bucket": lambda world: world.bucket("data"),
            "path": "/data",
            "prefix": "a/",
            "exports": False,
            "chunk_mib": 1024,
            "beside": lambda world: [
                LustreRepository(
                    world.stack,
                    "Beside",
                    file_system_id="fs-0123456789abcdef0",
                    bucket=world.bucket("data"),
                    path="/more",
                    prefix="more/",
                    exports=False,
                    chunk_mib=1024,
                )
            ],
        },
    ),
    Case(
        S3Volume,
        {
            "cluster": OTHER,
            "name": "other",
            "bucket": lambda world: world.bucket("other"),
            "namespace": "nlp",
            "prefix": "a/",
            "mount": S3Mount(read_only=False),
            "identity": lambda world: world.of(WorkloadIdentity, service_account="train"),
            "region": "us-west-2",
        },
        lambda world: {"name": "it", "bucket": lambda world: world.bucket("data")},
    ),
    Case(
        S3Mount,
        {
            "read_only": False,
            "allow_overwrite": True,
            "allow_delete": True,
            "cache_gib": 10,
            "metadata_ttl": 60,
            "allow_other": False,
            "uid": 1000,
            "gid": 1000,
        },
        carry=lambda world, value: S3Volume(
            world.stack, "It", cluster=world.cluster, name="it", bucket=world.bucket("data"), mount=value
        ),
        before={each: {"read_only": False} for each in ("allow_overwrite", "allow_delete")},
    ),
    Case(
        Team,
        {
            "cluster": OTHER,
            "namespace": "vision",
            "members": {ANN: "view"},
            "quota": TeamQuota(gpus=8),
            "pod_security": "restricted",
            "isolate": True,
            "reachable_from": ("clients",),
            "labels": {"team": "nlp"},
            "retain": False,
        },
        lambda world: {"namespace": "nlp", "members": {ANN: "edit"}},
        before={"reachable_from": {"isolate": True}},
    ),
    Case(
        TeamQuota,
        {"gpus": 8, "vcpus": 64, "memory_gib": 256, "others": {"nvidia.com/gpu.shared": 4}},
        lambda world: {"gpus": 4},
        carry=lambda world, value: Team(world.stack, "It", cluster=world.cluster, namespace="nlp", quota=value),
    ),
    Case(
        DoctorAccess,
        {"cluster": OTHER, "principals": lambda world: (ANN, world.role("Ben"))},
        lambda world: {"principals": (ANN,)},
    ),
    # Workloads.
    Case(
        GpuDeployment,
        {
            "cluster": OTHER,
            "pool": lambda world: world.pool("other"),
            "name": "other",
            "pod": GpuPod(image=IMAGE),
            "port": 9000,
            "namespace": "nlp",
            "replicas": 3,
            "health_path": "/ready",
            "startup_minutes": 30,
            "expose": multi_exposed,
            "same_zone": True,
            "kubernetes_version": "1.35",
            "model": HubModel(repo="example/llama", revision="0" * 40, size_gib=15),
        },
        lambda world: {"name": "it", "pod": POD, "port": 8000, "pool": world.pool(), "kubernetes_version": "1.36"},
    ),
    Case(
        GpuJob,
        {
            "cluster": OTHER,
            "pool": lambda world: world.pool("other"),
            "name": "other",
            "pod": GpuPod(image=IMAGE),
            "namespace": "nlp",
            "pods": 2,
            "parallel": 2,
            "retries": 1,
            "max_hours": 2,
            "keep_hours": 48,
            "queue": "nlp",
            "gang": True,
            "model": HubModel(repo="example/llama", revision="0" * 40, size_gib=15),
            "kubernetes_version": "1.36",
        },
        job,
        before={"parallel": {"pods": 4, "parallel": 4}, "gang": {"pods": 2}},
    ),
    Case(
        GpuSmokeTest,
        {
            "cluster": OTHER,
            "pool": lambda world: world.pool("other"),
            "image": IMAGE,
            "cuda_image": IMAGE,
            "namespace": "nlp",
        },
        lambda world: {"pool": world.pool()},
    ),
    Case(
        MultiNodeDeployment,
        {
            "cluster": OTHER,
            "pool": lambda world: world.pool("other"),
            "name": "other",
            "pod": GpuPod(image=IMAGE),
            "nodes": 3,
            "leader": ("serve", "--verbose"),
            "worker": ("join", "--verbose"),
            "port": 9000,
            "namespace": "nlp",
            "replicas": 2,
            "health_path": "/ready",
            "startup_minutes": 30,
            "queue": "nlp",
            "topology": "topology.kubernetes.io/zone",
            "expose": multi_exposed,
            "kubernetes_version": "1.36",
        },
        multi,
    ),
    Case(MpiOperator, {"cluster": OTHER, "image": IMAGE}),
    Case(
        NcclTest,
        {
            "cluster": OTHER,
            "operator": lambda world: world.of(MpiOperator, "Second"),
            "pool": lambda world: world.pool(
                "other", "p5.48xlarge", efa=True, subnets=[world.subnet("a")], max_nodes=4
            ),
            "nodes": 3,
            "image": IMAGE,
            "namespace": "nlp",
            "queue": "nlp",
        },
        lambda world: {
            "operator": lambda world: world.of(MpiOperator),
            "pool": world.pool("p5", "p5.48xlarge", efa=True, subnets=[world.subnet("a")], max_nodes=4),
        },
    ),
    Case(
        GpuPod,
        {
            "image": IMAGE,
            "gpus": 2,
            "command": ("serve",),
            "args": ("--verbose",),
            "env": {"MODE": "fast"},
            "cpus": 2,
            "memory_gib": 8,
            "shm_gib": 2,
            "efa": 1,
            "claim": "shared",
            "mig_profile": "1g.10gb",
            "service_account": "chat",
            "priority_class": "high",
            "run_as_user": 1000,
            "env_from": (ConfigMapEnv(config_map="chat"),),
            "mounts": (ScratchMount(path="/scratch", size_gib=10),),
            "init_containers": (InitContainer(name="load", image=IMAGE),),
            "image_pull_secrets": ("registry",),
            "overlay": {"hostNetwork": True},
        },
        lambda world: {"image": "registry.example.com/app:1"},
        carry=lambda world, value: serve(
            world,
            pod=value,
            pool=world.pool("p5", "p5.48xlarge", efa=True, subnets=[world.subnet("a")]),
        ),
    ),
    Case(
        InitContainer,
        {
            "name": "other",
            "image": IMAGE,
            "command": ("load",),
            "args": ("--verbose",),
            "env": {"MODE": "fast"},
            "env_from": (ConfigMapEnv(config_map="chat"),),
            "mounts": (VolumeClaimMount(path="/data", claim="data"),),
            "cpus": 2,
            "memory_gib": 2,
            "sidecar": True,
            "run_as_user": 1000,
        },
        lambda world: {"name": "load", "image": "registry.example.com/load:1"},
        carry=pods_of("init_containers"),
    ),
    Case(
        ScratchMount,
        {"path": "/other", "size_gib": 20, "name": "other"},
        lambda world: {"path": "/scratch", "size_gib": 10},
        carry=pods_of("mounts"),
    ),
    Case(
        ConfigMapMount,
        {"path": "/other", "config_map": "other", "sub_path": "a"},
        lambda world: {"path": "/etc/chat", "config_map": "chat"},
        carry=pods_of("mounts"),
    ),
    Case(
        SecretMount,
        {"path": "/other", "secret": "other", "mode": 0o400, "sub_path": "a"},
        lambda world: {"path": "/etc/chat", "secret": "chat"},
        carry=pods_of("mounts"),
    ),
    Case(
        ImageMount,
        {"path": "/other", "image": OTHER_DIGEST},
        lambda world: {"path": "/models", "image": DIGEST},
        carry=pods_of("mounts"),
    ),
    Case(
        VolumeClaimMount,
        {"path": "/other", "claim": "other", "read_only": True, "sub_path": "a"},
        lambda world: {"path": "/data", "claim": "data"},
        carry=pods_of("mounts"),
    ),
    Case(
        ConfigMapEnv,
        {"config_map": "other", "prefix": "A_"},
        lambda world: {"config_map": "chat"},
        carry=pods_of("env_from"),
    ),
    Case(SecretEnv, {"secret": "other", "prefix": "A_"}, lambda world: {"secret": "chat"}, carry=pods_of("env_from")),
    Case(
        ConfigMapKey,
        {"config_map": "other", "key": "b"},
        lambda world: {"config_map": "chat", "key": "a"},
        carry=lambda world, value: pod(world, env={"MODE": value}),
    ),
    Case(
        SecretKey,
        {"secret": "other", "key": "b"},
        lambda world: {"secret": "chat", "key": "a"},
        carry=lambda world, value: pod(world, env={"MODE": value}),
    ),
    Case(
        KaiQueue,
        {"name": "other"},
        lambda world: {"name": "it"},
        carry=lambda world, value: GpuJob(world.stack, "It", cluster=world.cluster, **job(world), queue=value),
    ),
    Case(
        CopiedModel,
        {
            "bucket": lambda world: world.bucket("other"),
            "size_gib": 30,
            "prefix": "b/",
            "path": "/weights",
            "identity": lambda world: world.of(WorkloadIdentity, service_account="models"),
            "region": "us-west-2",
            "image": IMAGE,
            "memory_gib": 12,
        },
        lambda world: {"bucket": lambda world: world.bucket("data"), "size_gib": 15},
        carry=served_with("model"),
    ),
    Case(
        MountedModel,
        {
            "bucket": lambda world: world.bucket("other"),
            "prefix": "b/",
            "path": "/weights",
            "cache_gib": 10,
            "identity": lambda world: world.of(WorkloadIdentity, service_account="models"),
            "region": "us-west-2",
        },
        lambda world: {"bucket": lambda world: world.bucket("data")},
        carry=served_with("model"),
    ),
    Case(
        StreamedModel,
        {
            "bucket": lambda world: world.bucket("other"),
            "prefix": "b/",
            "buffer_gib": 8,
            "identity": lambda world: world.of(WorkloadIdentity, service_account="models"),
            "region": "us-west-2",
        },
        lambda world: {"bucket": lambda world: world.bucket("data")},
        carry=served_with("model"),
    ),
    Case(
        HubModel,
        {
            "repo": "example/other",
            "revision": "1" * 40,
            "token": SecretKey(secret="hf", key="token"),
            "size_gib": 30,
            "claim": "models",
            "path": "/weights",
        },
        lambda world: {"repo": "example/llama", "revision": "0" * 40, "size_gib": 15},
        carry=served_with("model"),
        partners={"claim": {"size_gib": None}},
    ),
    Case(
        ImageModel,
        {"image": OTHER_DIGEST, "path": "/weights"},
        lambda world: {"image": DIGEST},
        carry=served_with("model"),
    ),
)
