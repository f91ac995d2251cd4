"""Logical ids follow what is in the cluster: nothing is moved, left behind or rejected between two versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_s3 as s3
from constructs import Construct

from gpu_constructs import (
    AutoMode,
    AutoModeNodePool,
    ClusterAutoscaler,
    DevicePlugin,
    GpuCluster,
    GpuDeployment,
    GpuJob,
    GpuPod,
    ManagedNodeGroup,
    NodeShape,
    UpTo,
)
from gpu_constructs.devices import EfaDevicePlugin
from gpu_constructs.identity import WorkloadIdentity
from gpu_constructs.pod_scaling import CpuUtilization, GpuHorizontalAutoscaler, Keda
from gpu_constructs.storage import S3Mount, S3Volume
from gpu_constructs.teams import Team, TeamQuota
from gpu_constructs.workloads import MountedModel
from tests.clusters import imported_vpc
from tests.conftest import FLAGS
from tests.second_deployments.deployments import Define, faults, identities, kinds, version
from tests.templates import CHART, MANIFEST, Resources, of_type, resources_of

L4 = NodeShape(instance_types=("g6.xlarge",))
ANN = "arn:aws:iam::111122223333:role/Ann"
ENTRY = "AWS::EKS::AccessEntry"


def served(id: str = "Chat", **says: Any) -> Callable[[cdk.Stack, eks.ICluster], GpuDeployment]:
    """An app that serves."""

    def define(stack: cdk.Stack, cluster: eks.ICluster) -> GpuDeployment:
        pool = ManagedNodeGroup(stack, "Pool", cluster=cluster, name="l4", shape=L4, max_nodes=2)
        scope: Construct = stack
        *parents, own = id.split("/")
        for each in parents:
            scope = Construct(scope, each)
        cache = says.pop("cache_gib", None)
        bucket = s3.Bucket.from_bucket_name(stack, "Weights", "weights")
        model = {"model": MountedModel(bucket=bucket, cache_gib=cache)} if cache else {}
        pod = GpuPod(image="registry.example.com/vllm:1")
        defaults: dict[str, Any] = {"name": "chat", "port": 8000}
        return GpuDeployment(scope, own, cluster=cluster, pool=pool, pod=pod, **defaults | model | says)

    return define


def scaled(*, by_keda: bool) -> Define:
    def define(stack: cdk.Stack, cluster: eks.ICluster) -> None:
        through = Keda(stack, "Keda", cluster=cluster) if by_keda else None
        GpuHorizontalAutoscaler(
            stack,
            "Scaler",
            cluster=cluster,
            target=served()(stack, cluster),
            signals=[CpuUtilization(percent=60)],
            max_replicas=2,
            through=through,
        )

    return define


def team(id: str = "Team", **says: Any) -> Define:
    return lambda stack, cluster: Team(stack, id, cluster=cluster, **{"namespace": "nlp"} | says)


def volume(**mount: Any) -> Define:
    def define(stack: cdk.Stack, cluster: eks.ICluster) -> None:
        bucket = s3.Bucket.from_bucket_name(stack, "Data", "data")
        S3Volume(stack, "Volume", cluster=cluster, name="data", bucket=bucket, mount=S3Mount(**mount))

    return define


def pool(name: str) -> Define:
    def define(stack: cdk.Stack, cluster: eks.ICluster) -> None:
        shape = NodeShape(instance_types=("g6.xlarge",), raid0=True)
        AutoModeNodePool(stack, "Pool", cluster=cluster, name=name, shape=shape, size=UpTo(gpus=4))

    return define


def job(**says: Any) -> Define:
    def define(stack: cdk.Stack, cluster: eks.ICluster) -> None:
        nodes = ManagedNodeGroup(stack, "Pool", cluster=cluster, name="l4", shape=L4, max_nodes=2)
        pod = GpuPod(image=says.pop("image", "registry.example.com/train:1"))
        GpuJob(stack, "Job", cluster=cluster, pool=nodes, name="train", pod=pod, **says)

    return define


CHAT = ["Deployment/{}/chat", "PodDisruptionBudget/{}/chat", "Service/{}/chat"]


def chat(namespace: str) -> list[str]:
    return [each.format(namespace) for each in CHAT]


def of_team(namespace: str) -> list[str]:
    """A team's manifests: its namespace, and the objects against system priorities and external addresses."""
    policy = f"team-{namespace}.gpu-constructs.io"
    policies = [f"ValidatingAdmissionPolicy//{policy}", f"ValidatingAdmissionPolicyBinding//{policy}"]
    return [f"Namespace//{namespace}", *policies]


@pytest.mark.parametrize(
    ("before", "after", "created", "deleted"),
    [
        pytest.param(served("Chat"), served("Serving/Llm"), [], [], id="moved"),
        pytest.param(served(), served(namespace="prod"), chat("prod"), chat("default"), id="namespace"),
        pytest.param(
            served(),
            served(name="llm"),
            [each.replace("chat", "llm") for each in chat("default")],
            chat("default"),
            id="name",
        ),
        pytest.param(
            scaled(by_keda=False),
            scaled(by_keda=True),
            ["ScaledObject/default/chat"],
            ["HorizontalPodAutoscaler/default/chat"],
            id="to KEDA",
        ),
        pytest.param(
            scaled(by_keda=True),
            scaled(by_keda=False),
            ["HorizontalPodAutoscaler/default/chat"],
            ["ScaledObject/default/chat"],
            id="from KEDA",
        ),
        pytest.param(team("A"), team("B"), [], [], id="team moved"),
        pytest.param(team(), team(namespace="vision"), of_team("vision"), of_team("nlp")[1:], id="team renamed"),
        pytest.param(
            team(retain=False), team(namespace="vision"), of_team("vision"), of_team("nlp"), id="team that goes"
        ),
        pytest.param(
            team(quota=TeamQuota(gpus=4)), team(), [], ["ResourceQuota/nlp/team"], id="optional object is dropped"
        ),
        pytest.param(volume(), volume(read_only=False), [], [], id="writable"),
        pytest.param(
            pool("l4"),
            pool("l40s"),
            ["NodeClass//l40s", "NodePool//l40s"],
            ["NodeClass//l4", "NodePool//l4"],
            id="pool",
        ),
        pytest.param(job(max_hours=1), job(max_hours=2), [], [], id="job in place"),
    ],
)
def test_two_versions(before: Define, after: Define, created: list[str], deleted: list[str]) -> None:
    was, now = version(before), version(after)

    assert faults(was, now) == []
    assert kinds(was, now) == (created, deleted)


def test_what_kubernetes_never_changes_gets_another_name() -> None:
    was, now = version(served(cache_gib=10)), version(served(cache_gib=20))

    assert faults(was, now) == []
    created, deleted = kinds(was, now)
    assert [each.partition("/")[0] for each in created] == ["PersistentVolume", "PersistentVolumeClaim"]
    assert [each.partition("/")[0] for each in deleted] == ["PersistentVolume", "PersistentVolumeClaim"]


def test_another_job_is_another_object() -> None:
    was, now = version(job(image="registry.example.com/train:1")), version(job(image="registry.example.com/train:2"))

    assert faults(was, now) == []
    assert [len(each) for each in kinds(was, now)] == [1, 1]


def test_what_stays_under_its_name_is_rejected_by_kubernetes() -> None:
    """The documented case: another cache of a volume takes another name."""
    assert faults(version(volume()), version(volume(cache_gib=10))) != []


def test_each_object_is_a_resource_of_its_own() -> None:
    applied = of_type(version(served()), MANIFEST)

    assert len(applied) == len(identities(applied)) == 3
    for each in applied.values():
        assert "PruneLabel" not in each["Properties"]
        assert each["Properties"]["Overwrite"] is True


def gpu(*, own: str = "", admins: tuple[str, ...] = (), name: str = "demo", **people: Any) -> Resources:
    """A cluster whose pool brings what it needs, or finds the user's own."""
    app = cdk.App(context=FLAGS, analytics_reporting=False)
    stack = cdk.Stack(app, "Test", env=cdk.Environment(account="111122223333", region="us-east-1"))
    made = GpuCluster(stack, "Gpu", vpc=imported_vpc(stack), cluster_name=name, admins=admins, **people)
    if own == "all":
        ClusterAutoscaler(stack, "Autoscaler", cluster=made, balance_similar=True)
        DevicePlugin(stack, "Plugin", cluster=made)
        EfaDevicePlugin(stack, "Efa", cluster=made, values={"priorityClassName": "high"})
    shape = NodeShape(instance_types=("p5.48xlarge",), efa=True)
    made.add_pool("p5", shape, max_nodes=2, subnets=[made.vpc.private_subnets[0]])
    return resources_of(stack)


def test_own_constructs_take_the_place_of_those_that_a_pool_brought() -> None:
    brought, own = gpu(), gpu(own="all")

    assert faults(brought, own) == []
    assert kinds(brought, own) == ([], [])
    assert of_type(brought, CHART).keys() == of_type(own, CHART).keys() != set()


@pytest.mark.parametrize("role", ["viewers", "operators"])
def test_a_person_is_promoted_and_demoted_in_place(role: str) -> None:
    named: dict[str, Any] = {role: (ANN,)}
    lesser, admin = gpu(**named), gpu(admins=(ANN,))

    assert faults(lesser, admin) == faults(admin, lesser) == []
    [entry] = [each for each in of_type(admin, ENTRY).values() if each["Properties"]["PrincipalArn"] == ANN]
    [policy] = entry["Properties"]["AccessPolicies"]
    assert "AmazonEKSClusterAdminPolicy" in str(policy["PolicyArn"])


def test_another_cluster_has_other_ids() -> None:
    before, after = gpu(), gpu(name="other")

    assert not of_type(before, MANIFEST).keys() & of_type(after, MANIFEST).keys()
    assert not of_type(before, CHART).keys() & of_type(after, CHART).keys()


def test_two_clusters_in_a_stack_do_not_clash(stack: cdk.Stack) -> None:
    for name in ("blue", "green"):
        made = GpuCluster(stack, name.title(), cluster_name=name, auto_mode=AutoMode(), admins=[ANN])
        WorkloadIdentity(stack, f"Who{name}", cluster=made, service_account="train")

    resources = resources_of(stack)
    assert len(of_type(resources, MANIFEST)) == 2
    assert len([id for id in of_type(resources, ENTRY) if id.startswith("AccessEntry111122223333RoleAnn")]) == 2


def test_clusters_of_one_id_in_two_stacks_do_not_clash_in_a_third() -> None:
    app = cdk.App(context=FLAGS, analytics_reporting=False)
    third = cdk.Stack(app, "Third")
    for name in ("Blue", "Green"):
        made = GpuCluster(cdk.Stack(app, name), "Gpu", auto_mode=AutoMode())
        Team(third, f"Team{name}", cluster=made, namespace="nlp")

    assert len(of_type(resources_of(third), MANIFEST)) == 2 * len(of_team("nlp"))


def test_the_order_of_teams_does_not_move_an_entry() -> None:
    def both(*names: str) -> Define:
        def define(stack: cdk.Stack, cluster: eks.ICluster) -> None:
            for each in names:
                Team(stack, each.title(), cluster=cluster, namespace=each, members={ANN: "edit"})

        return define

    assert faults(version(both("a", "b")), version(both("b", "a"))) == []
    assert faults(version(both("a", "b")), version(both("b"))) == []
