"""Queues have what the pools have, in the names that pods ask by; more than that is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import aws_cdk as cdk
import pytest
import yaml
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import (
    GpuJob,
    GpuPod,
    GpuSmokeTest,
    KarpenterNodePool,
    ManagedNodeGroup,
    NodeShape,
    TimeSlicing,
    UpTo,
)
from gpu_constructs.devices import DraDriver, EfaDevicePlugin, GpuOperator
from gpu_constructs.metrics import PrometheusStack
from gpu_constructs.pod_scaling import Keda, PrometheusAdapter, VerticalPodAutoscaler
from gpu_constructs.queueing import Dynamo, GpuQueues, JobSets, KubeRay, Kueue, LeaderWorkerSets, TeamQueue
from gpu_constructs.queueing.kueue import kueue_values
from gpu_constructs.workloads import MpiOperator, NcclTest, ScratchMount
from tests.chart_values import unknown_values
from tests.schemas import validate_custom
from tests.templates import (
    CHART,
    MANIFEST,
    depends_on,
    ids_of_objects,
    manifests_of,
    of_type,
    resources_of,
    resources_under,
)

P5 = NodeShape(instance_types=("p5.48xlarge",), efa=True)


class App:
    """Three pools and Kueue."""

    def __init__(self, stack: cdk.Stack, cluster: eks.ICluster) -> None:
        self.stack, self.cluster = stack, cluster
        subnets = [cluster.vpc.private_subnets[0]]
        self.training = ManagedNodeGroup(
            stack, "Training", cluster=cluster, name="p5", shape=P5, max_nodes=4, subnets=subnets
        )
        shared = NodeShape(instance_types=("g6.xlarge",), sharing=TimeSlicing(4))
        self.notebooks = ManagedNodeGroup(stack, "Notebooks", cluster=cluster, name="l4", shape=shared, max_nodes=2)
        self.burst = KarpenterNodePool(
            stack,
            "Burst",
            cluster=cluster,
            name="l40s",
            shape=NodeShape(instance_types=("g6e.xlarge",)),
            size=UpTo(gpus=8),
            node_role=iam.Role.from_role_name(stack, "Role", "nodes"),
        )
        self.kueue = Kueue(stack, "Kueue", cluster=cluster)

    def queues(self, **changes: Any) -> GpuQueues:
        """Valid queues, with ``changes`` applied."""
        says: dict[str, Any] = {
            "kueue": self.kueue,
            "pools": [self.training, self.notebooks, self.burst],
            "teams": [
                TeamQueue(name="research", namespace="research", nodes={"p5": 3}, weight=2),
                TeamQueue(name="product", namespace="product", nodes={"p5": 1, "l4": 2, "l40s": 8}),
            ],
        }
        return GpuQueues(self.stack, "Queues", cluster=self.cluster, **says | changes)


@pytest.fixture
def app(stack: cdk.Stack, cluster: eks.ICluster) -> App:
    """Three pools and Kueue."""
    return App(stack, cluster)


def kueues(app: App) -> list[dict[str, Any]]:
    found = manifests_of(resources_of(app.stack))
    return [each for each in found if each["apiVersion"].startswith("kueue.x-k8s.io/")]


def test_objects(app: App, snapshot_yaml: SnapshotAssertion) -> None:
    app.queues(topology_levels=["topology.k8s.aws/network-node-layer-1", "kubernetes.io/hostname"])

    assert kueues(app) == snapshot_yaml


def test_objects_are_valid_for_their_definitions(app: App, crds: Path) -> None:
    app.queues(topology_levels=["topology.k8s.aws/network-node-layer-1", "kubernetes.io/hostname"])

    made = kueues(app)
    assert {each["kind"] for each in made} == {"Topology", "ResourceFlavor", "ClusterQueue", "LocalQueue"}
    for each in made:
        validate_custom(each, crds)


def test_every_flavor_lists_every_resource_in_one_order(app: App) -> None:
    app.queues()

    for queue in (each for each in kueues(app) if each["kind"] == "ClusterQueue"):
        [group] = queue["spec"]["resourceGroups"]
        for flavor in group["flavors"]:
            assert [each["name"] for each in flavor["resources"]] == group["coveredResources"]


def quotas(app: App, team: str, pool: str) -> dict[str, str]:
    [queue] = [each for each in kueues(app) if each["kind"] == "ClusterQueue" and each["metadata"]["name"] == team]
    [flavor] = [each for each in queue["spec"]["resourceGroups"][0]["flavors"] if each["name"] == pool]
    return {each["name"]: each["nominalQuota"] for each in flavor["resources"]}


def test_quotas_follow_from_the_nodes(app: App) -> None:
    app.queues()

    assert quotas(app, "research", "p5") == {
        "cpu": str(3 * 192),
        "memory": f"{3 * 2048}Gi",
        # A tenth of eight disks, less 1 GiB, is kept by kubelet.
        "ephemeral-storage": f"{3 * 25_480}Gi",
        "nvidia.com/gpu": "24",
        "vpc.amazonaws.com/efa": "96",
        "hugepages-2Mi": f"{3 * 10256}Mi",
        "nvidia.com/gpu.shared": "0",
    }
    assert quotas(app, "product", "l4")["nvidia.com/gpu.shared"] == "8"
    assert quotas(app, "product", "l4")["nvidia.com/gpu"] == "0"


def test_a_queued_job_asks_for_nothing_that_its_queue_does_not_count(app: App) -> None:
    app.queues()
    scratch = ScratchMount(path="/scratch", size_gib=500)
    pod = GpuPod(image="registry.example.com/train:1.0", gpus=8, efa=32, mounts=[scratch])
    GpuJob(app.stack, "Job", cluster=app.cluster, pool=app.training, name="train", pod=pod, queue="research")

    [job] = [each for each in manifests_of(resources_of(app.stack)) if each["kind"] == "Job"]
    [container] = job["spec"]["template"]["spec"]["containers"]
    # Kueue admits no job that asks for a resource without quota.
    assert set(container["resources"]["requests"]) <= set(quotas(app, "research", "p5"))


@pytest.mark.parametrize(("namespace", "waits"), [("research", True), ("product", False)])
@pytest.mark.parametrize("job_first", [False, True])
def test_a_job_starts_after_its_queue(app: App, namespace: str, waits: bool, job_first: bool) -> None:
    steps: list[Callable[[], Construct]] = [app.queues, lambda: GpuJob(app.stack, "Job", **says)]
    says: dict[str, Any] = {"cluster": app.cluster, "pool": app.training, "name": "train", "namespace": namespace}
    says |= {"pod": GpuPod(image="registry.example.com/train:1.0", gpus=8), "queue": "research"}
    for step in reversed(steps) if job_first else steps:
        step()

    resources = resources_of(app.stack)
    ids = {
        (each["kind"], each["metadata"]["name"].rpartition("-")[0] or each["metadata"]["name"]): id
        for id in of_type(resources, MANIFEST)
        for each in manifests_of({id: resources[id]})
    }
    needed = depends_on(resources, ids["Job", "train"])
    # A local queue is one of its namespace.
    assert (ids["LocalQueue", "research"] in needed) is waits


def test_a_job_in_another_stack_waits_for_no_queue(app: App) -> None:
    app.queues()
    root = cast("cdk.App", app.stack.node.root)
    there = cdk.Stack(cast("Construct", root), "There", env=cdk.Environment(account="111122223333", region="us-east-1"))
    # The other way round would be a circle.
    app.stack.add_dependency(there)
    says: dict[str, Any] = {"cluster": app.cluster, "name": "train"}
    pool = ManagedNodeGroup(there, "Pool", **says, shape=P5, max_nodes=1, subnets=[app.cluster.vpc.private_subnets[0]])
    pod = GpuPod(image="registry.example.com/train:1.0", gpus=8)
    GpuJob(there, "Job", **says, pool=pool, pod=pod, queue="research", namespace="research")

    assert not any("Test" in each.id for each in root.synth().get_stack_by_name("There").dependencies)


def test_queues_come_after_what_they_name(app: App) -> None:
    app.queues()

    resources = resources_of(app.stack)
    kinds = {id: kind for (kind, _), id in ids_of_objects(resources_under(app.stack, "Queues")).items()}
    assert {"ClusterQueue", "LocalQueue", "ResourceFlavor"} <= set(kinds.values())
    [chart] = of_type(resources, CHART)
    for id, kind in kinds.items():
        needed = depends_on(resources, id)
        assert chart in needed
        if kind == "ClusterQueue":
            assert {other for other, each in kinds.items() if each == "ResourceFlavor"} <= needed


def test_the_configuration_is_what_the_controller_reads(chart_values: Path) -> None:
    values = kueue_values(ready_minutes=45, fair_sharing=True, unmanaged=("kube-system", "kueue-system"))
    defaults = chart_values / "kueue-0.19.yaml"

    assert unknown_values(defaults, values) == []
    ours = yaml.safe_load(values["managerConfig"]["controllerManagerConfigYaml"])
    text = yaml.safe_load(defaults.read_text())["managerConfig"]["controllerManagerConfigYaml"]
    theirs = yaml.safe_load(text)
    assert (ours["apiVersion"], ours["kind"]) == (theirs["apiVersion"], theirs["kind"])
    # Some keys are in the file as comments only.
    assert all(f"{key}:" in text for key in ours)
    assert set(ours["integrations"]["frameworks"]) <= set(theirs["integrations"]["frameworks"])
    assert ours["controller"] == theirs["controller"]
    assert set(theirs["integrations"]["frameworks"]) - set(ours["integrations"]["frameworks"]) == {
        "pod",
        "deployment",
        "statefulset",
    }
    assert "fairSharing" not in str(kueue_values(ready_minutes=45, fair_sharing=False, unmanaged=()))


def unmanaged(stack: cdk.Stack) -> set[str]:
    """Namespaces in which Kueue looks at no job."""
    [values] = [
        json.loads(each["Properties"]["Values"])
        for each in of_type(resources_of(stack), CHART).values()
        if each["Properties"]["Chart"] == "kueue"
    ]
    config = yaml.safe_load(values["managerConfig"]["controllerManagerConfigYaml"])
    [expression] = config["managedJobsNamespaceSelector"]["matchExpressions"]
    assert (expression["key"], expression["operator"]) == ("kubernetes.io/metadata.name", "NotIn")
    return set(expression["values"])


def test_kueue_refuses_no_job_of_another_chart(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    Kueue(stack, "Kueue", cluster=cluster, unmanaged_namespaces=["cert-manager"])
    prometheus = PrometheusStack(stack, "Prometheus", cluster=cluster)
    PrometheusAdapter(stack, "Adapter", cluster=cluster, prometheus=prometheus)
    for each in (JobSets, LeaderWorkerSets, KubeRay, Dynamo, Keda, VerticalPodAutoscaler, GpuOperator, EfaDevicePlugin):
        each(stack, each.__name__, cluster=cluster)
    DraDriver(stack, "Dra", cluster=cluster, kubernetes_version="1.36")

    charts = of_type(resources_of(stack), CHART).values()
    namespaces = {each["Properties"]["Namespace"] for each in charts}
    assert len(charts) == 12
    assert namespaces | {"cert-manager"} <= unmanaged(stack)
    assert "default" not in unmanaged(stack)


@pytest.mark.parametrize("first", [True, False])
def test_jobs_come_after_kueue(stack: cdk.Stack, cluster: eks.ICluster, first: bool) -> None:
    shape = NodeShape(instance_types=("g6.xlarge",))
    pool = ManagedNodeGroup(stack, "Pool", cluster=cluster, name="l4", shape=shape, max_nodes=1)
    if first:
        Kueue(stack, "Kueue", cluster=cluster)
    GpuSmokeTest(stack, "SmokeTest", cluster=cluster, pool=pool)
    GpuJob(stack, "Job", cluster=cluster, pool=pool, name="train", pod=GpuPod(image="example.com/train:1"))
    if not first:
        Kueue(stack, "Kueue", cluster=cluster)

    resources = resources_of(stack)
    [chart] = of_type(resources, CHART)
    jobs = [id for id in of_type(resources, MANIFEST) if "Job" in str(resources[id]["Properties"]["Manifest"])]
    assert len(jobs) == 2
    assert all(chart in depends_on(resources, each) for each in jobs)


def test_a_job_of_another_stack_is_in_no_circle_with_kueue(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    shape = NodeShape(instance_types=("g6.xlarge",))
    pool = ManagedNodeGroup(stack, "Pool", cluster=cluster, name="l4", shape=shape, max_nodes=1)
    later = cdk.Stack(
        cast("Construct", stack.node.root), "Later", env=cdk.Environment(account=stack.account, region=stack.region)
    )
    GpuSmokeTest(stack, "SmokeTest", cluster=cluster, pool=pool)
    Kueue(later, "Kueue", cluster=cluster)
    later.add_stack_dependency(stack)

    assert of_type(resources_of(later), CHART)


def test_refuses_a_team_where_kueue_does_not_look(app: App) -> None:
    team = TeamQueue(name="a", namespace="monitoring", nodes={"p5": 1})

    with pytest.raises(ValueError, match="team 'a' must have a namespace that Kueue manages, got 'monitoring'"):
        app.queues(teams=[team])


def test_refuses_what_is_no_namespace(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    with pytest.raises(ValueError, match="Test/Kueue: unmanaged_namespaces must"):
        Kueue(stack, "Kueue", cluster=cluster, unmanaged_namespaces=["Not a name"])


def test_operators_are_pinned_and_made_once(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    for operator in (JobSets, LeaderWorkerSets, KubeRay, Dynamo):
        operator(stack, operator.__name__, cluster=cluster)

    charts = {each["Properties"]["Chart"]: each["Properties"] for each in of_type(resources_of(stack), CHART).values()}
    assert {name: each["Version"] for name, each in charts.items()} == {
        "jobset": "0.12.0",
        "lws": "0.10.0",
        "kuberay-operator": "1.7.0",
        "dynamo-platform": "1.5.0",
    }
    with pytest.raises(
        ValueError, match="Test/Again: cluster must have one helm release 'lws', got a second one next to"
    ):
        LeaderWorkerSets(stack, "Again", cluster=cluster)


NATS: dict[str, Any] = {"global": {"nats": {"install": True}}}


def nats_on(**volume: Any) -> dict[str, Any]:
    """Values of Dynamo's chart with NATS on such a volume."""
    return NATS | {"nats": {"config": {"jetstream": {"fileStore": {"pvc": volume}}}}}


def test_dynamo_waits_for_no_volume(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    Dynamo(stack, "Dynamo", cluster=cluster)

    [chart] = of_type(resources_of(stack), CHART).values()
    assert json.loads(chart["Properties"]["Values"]) == {"global": {"nats": {"install": False}}}


@pytest.mark.parametrize("values", [NATS, nats_on(size="20Gi"), nats_on(storageClassName="")])
def test_dynamo_refuses_nats_on_a_volume_that_does_not_exist(
    stack: cdk.Stack, cluster: eks.ICluster, values: dict[str, Any]
) -> None:
    with pytest.raises(
        ValueError, match=r"Test/Dynamo: values must name nats\.config\..*\.storageClassName with global"
    ):
        Dynamo(stack, "Dynamo", cluster=cluster, values=values)


@pytest.mark.parametrize("values", [nats_on(storageClassName="gp3"), nats_on(enabled=False)])
def test_dynamo_takes_nats_that_can_start(stack: cdk.Stack, cluster: eks.ICluster, values: dict[str, Any]) -> None:
    Dynamo(stack, "Dynamo", cluster=cluster, values=values)

    [chart] = of_type(resources_of(stack), CHART).values()
    assert json.loads(chart["Properties"]["Values"]).items() >= values.items()


@pytest.mark.parametrize(
    ("teams", "message"),
    [
        (
            [TeamQueue(name="a", namespace="a", nodes={"p5": 3}), TeamQueue(name="b", namespace="b", nodes={"p5": 2})],
            "teams must have at most the 4 nodes of pool 'p5', got 5; reduce them, because admitted jobs would stay "
            "Pending",
        ),
        ([TeamQueue(name="a", namespace="a", nodes={"p4": 1})], r"team 'a' must have nodes of p5, l4, l40s, got 'p4'"),
        (
            [TeamQueue(name="a", namespace="a", nodes={}), TeamQueue(name="a", namespace="b", nodes={})],
            r"teams must differ in name, got a, a",
        ),
    ],
)
def test_refuses_teams(app: App, teams: list[TeamQueue], message: str) -> None:
    with pytest.raises(ValueError, match=f"Test/Queues: {message}"):
        app.queues(teams=teams)


def test_accepts_all_nodes_given_away(app: App) -> None:
    assert app.queues(teams=[TeamQueue(name="a", namespace="a", nodes={"p5": 4, "l4": 2, "l40s": 8})])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kueue": "kueue"}, r"kueue must be a Kueue, got 'kueue'"),
        ({"pools": []}, r"pools must be a list of pools, got \[\]"),
        ({"pools": ["p5"]}, r"pool must be a pool such as a ManagedNodeGroup"),
        ({"teams": ["research"]}, r"teams must be a list of TeamQueue, got \['research'\]"),
    ],
)
def test_refuses(app: App, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=f"Test/Queues: {message}"):
        app.queues(**changes)


def test_refuses_a_pool_of_a_size_that_only_deployment_tells(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    app = App(stack, cluster)
    size = cdk.CfnParameter(stack, "Size", type="Number").value_as_number
    shape = NodeShape(instance_types=("g6.xlarge",))
    pool = ManagedNodeGroup(stack, "Unknown", cluster=cluster, name="unknown", shape=shape, max_nodes=size)  # type: ignore[arg-type]

    with pytest.raises(ValueError, match="pools must have a size known at synth, got 'unknown' with a token"):
        app.queues(pools=[pool], teams=[TeamQueue(name="a", namespace="a", nodes={})])


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"name": "My Team"}, ValueError, r"team queue: name must be 1 to 63"),
        ({"nodes": ["p5"]}, TypeError, r"team queue 'a': nodes must map pools to numbers"),
        ({"nodes": {"p5": -1}}, ValueError, r"nodes\['p5'\] must be at least 0, got -1"),
        ({"weight": 0}, ValueError, r"weight must be at least 1, got 0"),
    ],
)
def test_refuses_a_team(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        TeamQueue(**{"name": "a", "namespace": "a", "nodes": {}} | changes)


def queued_job(app: App, pods: int, **changes: Any) -> GpuJob:
    """A job of whole nodes in the queue of a team."""
    says: dict[str, Any] = {
        "pool": app.training,
        "pod": GpuPod(image="example.com/train:1", gpus=8),
        "queue": "research",
    } | changes
    return GpuJob(app.stack, "Job", cluster=app.cluster, name="train", namespace="research", pods=pods, **says)


@pytest.mark.parametrize("queues_first", [True, False])
def test_refuses_a_job_that_is_more_than_all_teams_have(app: App, queues_first: bool) -> None:
    defined: list[Callable[[], Any]] = [app.queues, lambda: queued_job(app, 5)]
    first, second = defined if queues_first else reversed(defined)
    first()

    rule = (
        r"Test/Job: pods must request at once at most the 32 nvidia.com/gpu of the 4 nodes that the teams have of pool "
        r"'p5', got 40; give the teams more of its nodes, or run fewer pods \[GPU203\]"
    )
    with pytest.raises(ValueError, match=rule):
        second()


def test_a_job_may_borrow_what_the_other_teams_have(app: App) -> None:
    app.queues()

    queued_job(app, 4)


def test_a_job_that_runs_one_pod_after_the_other_needs_one_node(app: App) -> None:
    app.queues()

    queued_job(app, 5, parallel=1)


def test_one_team_may_borrow_from_queues_that_are_not_here(app: App) -> None:
    app.queues(teams=[TeamQueue(name="research", namespace="research", nodes={"p5": 1})])

    queued_job(app, 4)


def test_refuses_a_test_of_more_nodes_than_the_teams_have(app: App) -> None:
    app.queues(teams=[TeamQueue(name=name, namespace=name, nodes={"p5": 1}) for name in ("research", "product")])
    operator = MpiOperator(app.stack, "Mpi", cluster=app.cluster)

    with pytest.raises(
        ValueError, match=r"Test/Nccl: .* the 16 nvidia.com/gpu of the 2 nodes .*, got 24; .* \[GPU203\]"
    ):
        NcclTest(
            app.stack,
            "Nccl",
            cluster=app.cluster,
            operator=operator,
            pool=app.training,
            nodes=3,
            namespace="research",
            queue="research",
        )
