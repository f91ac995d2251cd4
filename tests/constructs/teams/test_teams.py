"""A team is a namespace with its level, its people, its quota and its network; its contents are created after it."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Protocol

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks
from aws_cdk.assertions import Annotations, Match
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import GpuCluster, GpuDeployment, GpuJob, GpuPod, ManagedNodeGroup, NodeShape, UpTo
from gpu_constructs.cluster import AutoMode
from gpu_constructs.cluster.addons import Addons
from gpu_constructs.exposure import Internal
from gpu_constructs.identity import WorkloadIdentity
from gpu_constructs.queueing import GpuQueues, KaiQueues, KaiScheduler, Kueue, LeaderWorkerSets
from gpu_constructs.teams import Team, TeamQuota
from gpu_constructs.workloads import MpiOperator, MultiNodeDeployment, NcclTest
from tests.conftest import FLAGS
from tests.linting import cfn_lint
from tests.schemas import validate
from tests.templates import (
    MANIFEST,
    Resources,
    depends_on,
    manifests_of,
    object_id,
    of_type,
    resources_of,
    resources_under,
    text_of,
)

ENTRY = "AWS::EKS::AccessEntry"
LEAD, DEVELOPER, READER = (f"arn:aws:iam::111122223333:role/{each}" for each in ("lead", "developer", "reader"))
SSO = "arn:aws:iam::111122223333:role/aws-reserved/sso.amazonaws.com/AWSReservedSSO_Nlp_0123456789abcdef"


class Define(Protocol):
    """Create teams in a stack."""

    def __call__(self, **changes: Any) -> Team:
        """Make one with changes."""


@pytest.fixture
def define(stack: cdk.Stack, cluster: eks.ICluster) -> Define:
    """A valid team of an imported cluster, with ``changes`` applied."""
    return lambda id="Nlp", **changes: Team(stack, id, **{"cluster": cluster, "namespace": "nlp"} | changes)


@pytest.fixture(scope="module")
def shared() -> Resources:
    """Two teams of one cluster with everything that a team may have."""
    app = cdk.App(context=FLAGS, analytics_reporting=False)
    stack = cdk.Stack(app, "Test", env=cdk.Environment(account="111122223333", region="us-east-1"))
    gpu = GpuCluster(stack, "Gpu", viewers=[READER], network_policies=True)
    Team(
        stack,
        "Nlp",
        cluster=gpu,
        namespace="nlp",
        members={LEAD: "admin", DEVELOPER: "edit", READER: "view"},
        quota=TeamQuota(gpus=4, vcpus=16, memory_gib=64, others={"nvidia.com/mig-1g.10gb": 7}),
        isolate=True,
        reachable_from=["ingress", "10.0.0.0/16"],
        labels={"cost-center": "4711"},
    )
    Team(stack, "Vision", cluster=gpu, namespace="vision", members={LEAD: "admin", DEVELOPER: "view"})
    return resources_of(stack)


def entries(resources: Resources) -> dict[str, dict[str, Any]]:
    """The access entries of a template, by their principal."""
    found = [each["Properties"] for each in of_type(resources, ENTRY).values()]
    return {each["PrincipalArn"]: each for each in found if isinstance(each["PrincipalArn"], str)}


def policies(entry: dict[str, Any]) -> dict[str, list[str]]:
    """The namespaces of each policy of an entry; none for the whole cluster."""
    return {
        text_of(each["PolicyArn"]).rpartition("/")[2]: each["AccessScope"].get("Namespaces", [])
        for each in entry["AccessPolicies"]
    }


def namespaced(resources: Resources, name: str = "nlp") -> list[dict[str, Any]]:
    found = manifests_of(resources)
    named = (name, f"team-{name}.gpu-constructs.io")
    return [each for each in found if each["metadata"]["name"] in named or each["metadata"].get("namespace") == name]


def test_manifests(shared: Resources, snapshot_yaml: SnapshotAssertion) -> None:
    assert namespaced(shared) == snapshot_yaml


def test_access_entries(shared: Resources, snapshot_yaml: SnapshotAssertion) -> None:
    assert {id: each for id, each in of_type(shared, ENTRY).items() if "AccessEntry111122223333" in id} == snapshot_yaml


@pytest.mark.parametrize("minor", ["1.33", "1.36"])
def test_the_objects_are_valid(shared: Resources, minor: str) -> None:
    for each in namespaced(shared):
        validate(each, minor)


@pytest.mark.linted
def test_cloudformation_takes_it(stack: cdk.Stack, define: Define, tmp_path: Path) -> None:
    define(members={LEAD: "admin", DEVELOPER: "view"}, quota=TeamQuota(gpus=4))
    define(id="Vision", namespace="vision", members={LEAD: "admin"})

    template = tmp_path / "template.json"
    template.write_text(json.dumps({"Resources": resources_of(stack)}))
    assert cfn_lint([template]) == []


def test_a_lead_of_two_teams_has_one_entry_with_one_policy(shared: Resources) -> None:
    lead = entries(shared)[LEAD]

    assert policies(lead) == {"AmazonEKSAdminPolicy": ["nlp", "vision"]}
    assert lead["KubernetesGroups"] == ["gpu-constructs:nlp:admin", "gpu-constructs:vision:admin"]


def test_rights_of_teams_add_up(shared: Resources) -> None:
    assert policies(entries(shared)[DEVELOPER]) == {"AmazonEKSEditPolicy": ["nlp"], "AmazonEKSViewPolicy": ["vision"]}


def test_who_views_the_cluster_views_the_namespace(shared: Resources) -> None:
    reader = entries(shared)[READER]

    assert policies(reader) == {"AmazonEKSViewPolicy": []}
    assert reader["KubernetesGroups"] == ["gpu-constructs:viewers", "gpu-constructs:nlp:view"]


def test_there_is_no_access_entry_without_members(stack: cdk.Stack, define: Define) -> None:
    define()

    resources = resources_of(stack)
    assert of_type(resources, ENTRY) == {}
    assert [each["kind"] for each in namespaced(resources)] == [
        "Namespace",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ]


def job(stack: cdk.Stack, cluster: Any, pool: Any, *, pod: dict[str, Any] | None = None, **says: Any) -> GpuJob:
    made = GpuPod(image="example.com/train:1", **(pod or {}))
    return GpuJob(stack, "Job", cluster=cluster, pool=pool, name="train", pod=made, **{"namespace": "nlp"} | says)


@pytest.fixture
def karpenter(stack: cdk.Stack) -> GpuCluster:
    """A cluster whose pools are cheap to make."""
    return GpuCluster(stack, "Gpu", auto_mode=AutoMode())


@pytest.mark.parametrize("first", ["team", "job"])
def test_what_is_in_the_namespace_comes_after_the_team(stack: cdk.Stack, karpenter: GpuCluster, first: str) -> None:
    pool = karpenter.add_pool("l4", "g6.xlarge", size=UpTo(gpus=8))
    if first == "job":
        job(stack, karpenter, pool)
    nlp = Team(stack, "Nlp", cluster=karpenter, namespace="nlp", quota=TeamQuota(gpus=8, vcpus=8))
    if first == "team":
        job(stack, karpenter, pool)
    WorkloadIdentity(stack, "Who", cluster=karpenter, service_account="train", namespace=nlp.namespace)

    resources = resources_of(stack)
    of_team = set(of_type(resources_under(stack, "Nlp"), MANIFEST))
    assert len(of_team) == 5
    assert of_team <= depends_on(resources, object_id(resources, "Job"))
    assert of_team <= depends_on(resources, object_id(resources, "ServiceAccount"))
    assert depends_on(resources, object_id(resources, "ResourceQuota")) >= {
        object_id(resources, "Namespace"),
        object_id(resources, "LimitRange"),
    }


def test_what_is_elsewhere_does_not_wait(stack: cdk.Stack, karpenter: GpuCluster) -> None:
    Team(stack, "Nlp", cluster=karpenter, namespace="nlp")
    WorkloadIdentity(stack, "Who", cluster=karpenter, service_account="train", namespace="vision")

    resources = resources_of(stack)
    assert object_id(resources, "Namespace") not in depends_on(resources, object_id(resources, "ServiceAccount"))


@pytest.mark.parametrize("system", ["kueue", "kai"])
def test_a_part_of_the_pools_is_a_queue(stack: cdk.Stack, karpenter: GpuCluster, system: str) -> None:
    pool = karpenter.add_pool("l4", "g6.xlarge", size=UpTo(gpus=8))
    nlp = Team(stack, "Nlp", cluster=karpenter, namespace="nlp")
    share = nlp.queue(nodes={"l4": 2}, weight=3)
    says: dict[str, Any] = {"cluster": karpenter, "pools": [pool], "teams": [share]}
    if system == "kueue":
        GpuQueues(stack, "Queues", kueue=Kueue(stack, "Kueue", cluster=karpenter), **says)
    else:
        KaiQueues(stack, "Queues", scheduler=KaiScheduler(stack, "Kai", cluster=karpenter), **says)

    resources = resources_of(stack)
    queues = [each for each in manifests_of(resources) if each["kind"] in ("LocalQueue", "Queue")]
    assert "nlp" in {each["metadata"]["name"] for each in queues}
    if system == "kueue":
        assert object_id(resources, "Namespace") in depends_on(resources, object_id(resources, "LocalQueue"))


@pytest.mark.parametrize(
    ("level", "pod", "message"),
    [
        (
            "baseline",
            {"efa": 1},
            r"Test/Job: pod must have no efa.*, got efa; give .*='privileged' \[GPU372\]",
        ),
        ("restricted", {"efa": 1, "run_as_user": 1000}, "no efa"),
        ("restricted", {}, r"pod must have run_as_user .* 'restricted', got container 'train' without; set another"),
        ("restricted", {"run_as_user": 0}, r"pod must have run_as_user other than root"),
        ("restricted", {"run_as_user": 1000}, None),
        ("baseline", {}, None),
        ("privileged", {"efa": 1}, None),
    ],
)
def test_the_level_takes_the_pods_or_refuses_them(
    stack: cdk.Stack, karpenter: GpuCluster, level: Any, pod: dict[str, Any], message: str | None
) -> None:
    shape = NodeShape(instance_types=["g6.8xlarge"], efa="efa" in pod)
    pool = karpenter.add_pool("l4", shape, size=UpTo(gpus=8), subnets=karpenter.vpc.private_subnets[:1])
    Team(stack, "Nlp", cluster=karpenter, namespace="nlp", pod_security=level)

    if message is None:
        job(stack, karpenter, pool, pod=pod)
    else:
        with pytest.raises(ValueError, match=message):
            job(stack, karpenter, pool, pod=pod)


def test_a_team_that_comes_later_refuses_as_well(stack: cdk.Stack, karpenter: GpuCluster) -> None:
    pool = karpenter.add_pool("l4", "g6.xlarge", size=UpTo(gpus=8))
    job(stack, karpenter, pool)

    with pytest.raises(ValueError, match="Test/Job: pod must have run_as_user"):
        Team(stack, "Nlp", cluster=karpenter, namespace="nlp", pod_security="restricted")


def workloads_of(stack: cdk.Stack, *made: dict[str, Any], **quota: Any) -> None:
    """Workloads in the namespace of a team with a quota, in their order."""
    gpu = GpuCluster(stack, "Gpu")
    pool = gpu.add_pool("l4", "g6.12xlarge", max_nodes=8)
    LeaderWorkerSets(stack, "LeaderWorkerSets", cluster=gpu)
    Team(stack, "Nlp", cluster=gpu, namespace="nlp", quota=TeamQuota(**quota))
    for number, says in enumerate(made):
        kind = {"nodes": MultiNodeDeployment, "replicas": GpuDeployment}.get(next(iter(says)), GpuJob)
        pod = GpuPod(image="example.com/app:1", gpus=says["gpus"], memory_gib=says.get("memory", 8))
        rest = {key: value for key, value in says.items() if key not in ("gpus", "memory")}
        rest |= {"port": 8000} if kind is not GpuJob else {}
        name = f"app{number}"
        kind(stack, name, cluster=gpu, pool=pool, namespace="nlp", name=name, pod=pod, **rest)


JOB, GANG = {"pods": 4}, {"pods": 4, "gang": True}
GROUP = {"nodes": 2, "gpus": 4, "leader": ("lead",), "worker": ("work",)}


@pytest.mark.parametrize(
    ("made", "quota"),
    [
        (({"replicas": 2, "gpus": 2},), {"gpus": 4}),
        (({"replicas": None, "gpus": 4},), {"gpus": 4}),
        (({**JOB, "gpus": 4},), {"gpus": 4}),
        (({**GANG, "gpus": 1},), {"gpus": 4}),
        ((GROUP,), {"gpus": 8}),
        (({"replicas": 1, "gpus": 2, "memory": 16},), {"memory_gib": 16}),
        # It may run before the deployment is there.
        (({**JOB, "gpus": 2}, {"replicas": 1, "gpus": 4}), {"gpus": 4}),
    ],
)
def test_the_quota_has_enough_for_a_workload(stack: cdk.Stack, made: Any, quota: dict[str, int]) -> None:
    workloads_of(stack, *made, **quota)


@pytest.mark.parametrize(
    ("made", "quota", "message"),
    [
        (
            ({"replicas": 2, "gpus": 2},),
            {"gpus": 3},
            "Test/app0: pods must request at most 3 nvidia.com/gpu in total, got 4",
        ),
        (({"replicas": None, "gpus": 4},), {"gpus": 3}, "got 4"),
        (({**JOB, "gpus": 4},), {"gpus": 3}, "got 4"),
        (({**GANG, "gpus": 1},), {"gpus": 3}, "got 4"),
        ((GROUP,), {"gpus": 7}, "got 8"),
        (({"replicas": 1, "gpus": 2, "memory": 16},), {"memory_gib": 15}, "at most 15Gi memory in total, got 16Gi"),
        (
            ({"replicas": 1, "gpus": 4}, {**JOB, "gpus": 1}),
            {"gpus": 4},
            "got 1 in addition to 4 that earlier workloads request",
        ),
    ],
)
def test_a_workload_that_asks_for_more_than_the_quota_has(
    stack: cdk.Stack, made: Any, quota: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=rf"{message}.*; raise the TeamQuota of namespace 'nlp'.* \[GPU130\]"):
        workloads_of(stack, *made, **quota)


@pytest.mark.parametrize(("gpus", "enough"), [(8, True), (7, False)])
def test_the_quota_counts_an_mpi_job(stack: cdk.Stack, gpus: int, enough: bool) -> None:
    gpu = GpuCluster(stack, "Gpu")
    pool = gpu.add_pool("l4", "g6.12xlarge", max_nodes=8)
    operator = MpiOperator(stack, "Mpi", cluster=gpu)
    Team(stack, "Nlp", cluster=gpu, namespace="nlp", quota=TeamQuota(gpus=gpus))

    message = r"Test/Test: pods must request at most 7 nvidia.com/gpu in total, got 8; .* \[GPU130\]"
    with nullcontext() if enough else pytest.raises(ValueError, match=message):
        NcclTest(stack, "Test", cluster=gpu, operator=operator, pool=pool, namespace="nlp")


def test_a_cluster_without_enforcement_cannot_isolate(stack: cdk.Stack, created_cluster: eks.Cluster) -> None:
    Addons(stack, "Addons", cluster=created_cluster)

    with pytest.raises(
        ValueError,
        match=r"Test/Nlp: isolate must have .* got 'Test/Created' that doesn't; set network_policies=True there",
    ):
        Team(stack, "Nlp", cluster=created_cluster, namespace="nlp", isolate=True)


def test_auto_mode_without_enforcement_cannot_isolate(stack: cdk.Stack, karpenter: GpuCluster) -> None:
    with pytest.raises(ValueError, match="isolate must have"):
        Team(stack, "Nlp", cluster=karpenter, namespace="nlp", isolate=True)


def test_auto_mode_is_configured_to_enforce(stack: cdk.Stack) -> None:
    gpu = GpuCluster(stack, "Gpu", auto_mode=AutoMode(), network_policies=True)
    Team(stack, "Nlp", cluster=gpu, namespace="nlp", isolate=True)

    [switch] = [each for each in manifests_of(resources_of(stack)) if each["kind"] == "ConfigMap"]
    assert switch["metadata"]["name"] == "amazon-vpc-cni"
    assert switch["data"] == {"enable-network-policy-controller": "true"}


def test_of_an_imported_cluster_enforcement_is_not_known(stack: cdk.Stack, define: Define) -> None:
    define(isolate=True)

    wanted = Match.string_like_regexp(r'set \{"enableNetworkPolicy": "true"\} in its add-on vpc-cni')
    Annotations.from_stack(stack).has_warning("/Test/Nlp", wanted)


def test_who_runs_the_network_of_a_plain_cluster_is_not_known(
    stack: cdk.Stack, created_cluster: eks.Cluster, define: Define
) -> None:
    define(cluster=created_cluster, isolate=True)

    Annotations.from_stack(stack).has_warning("/Test/Nlp", Match.string_like_regexp("it is unknown whether cluster"))


@pytest.mark.parametrize(("reachable_from", "warned"), [(["web"], 1), (["10.0.0.0/16"], 0)])
def test_a_load_balancer_that_reaches_no_isolated_pod_is_warned_of(
    stack: cdk.Stack, cluster: eks.ICluster, define: Define, reachable_from: list[str], warned: int
) -> None:
    pool = ManagedNodeGroup(
        stack, "Pool", cluster=cluster, name="l4", shape=NodeShape(instance_types=["g6.xlarge"]), max_nodes=2
    )
    GpuDeployment(
        stack,
        "Chat",
        cluster=cluster,
        pool=pool,
        name="chat",
        namespace="nlp",
        pod=GpuPod(image="example.com/chat:1"),
        port=8000,
        expose=Internal(),
    )
    define(isolate=True, reachable_from=reachable_from)

    found = Annotations.from_stack(stack).find_warning(
        "*", Match.string_like_regexp("can't connect to the pods of team Test/Nlp")
    )
    assert len(found) == warned


def test_a_role_of_identity_center_is_warned_of(stack: cdk.Stack, define: Define) -> None:
    define(members={SSO: "edit", LEAD: "admin"})

    found = Annotations.from_stack(stack).find_warning("/Test/Nlp", Match.string_like_regexp("Identity Center"))
    assert len(found) == 1


def test_an_administrator_is_no_member(stack: cdk.Stack) -> None:
    gpu = GpuCluster(stack, "Gpu", auto_mode=AutoMode(), admins=[LEAD])

    with pytest.raises(ValueError, match=r"members must not name an administrator of the cluster.*role/lead"):
        Team(stack, "Nlp", cluster=gpu, namespace="nlp", members={LEAD: "edit"})


def test_a_namespace_has_one_team(define: Define) -> None:
    define()

    with pytest.raises(ValueError, match="cluster must have one team of namespace nlp"):
        define(id="Other")


def test_teams_of_another_stack_leave_their_entries_with_the_cluster(stack: cdk.Stack, karpenter: GpuCluster) -> None:
    other = cdk.Stack(cdk.App.of(stack), "Teams", env=cdk.Environment(account="111122223333", region="us-east-1"))
    Team(other, "Nlp", cluster=karpenter, namespace="nlp", members={LEAD: "edit"})

    assert LEAD in entries(resources_of(stack))
    assert entries(resources_of(other)) == {}


def test_files_for_argo_cd_have_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    context = FLAGS | {"gpu-constructs:delivery": "argocd", "gpu-constructs:manifests": str(tmp_path / "files")}
    stack = cdk.Stack(cdk.App(context=context, analytics_reporting=False), "Test")
    gpu = GpuCluster(stack, "Gpu", auto_mode=AutoMode())
    Team(stack, "Nlp", cluster=gpu, namespace="nlp", quota=TeamQuota(gpus=8), members={LEAD: "edit"})

    assert LEAD in entries(resources_of(stack))
    assert {each.name for each in tmp_path.rglob("Nlp*.yaml")} == {
        "Nlp-Resource.yaml",
        "Nlp-Admission.yaml",
        "Nlp-Quota.yaml",
        "Nlp-Role-edit.yaml",
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"namespace": "default"}, "Test/Nlp: namespace must not be reserved, got 'default'"),
        ({"namespace": "kube-system"}, "namespace must not be reserved"),
        ({"namespace": "monitoring"}, "namespace must not be reserved"),
        ({"namespace": "mpi-operator"}, "namespace must not be reserved"),
        ({"namespace": "mount-s3"}, "namespace must not be reserved"),
        ({"namespace": "Nlp"}, "namespace must be 1 to 63 lower-case"),
        ({"members": [LEAD]}, "members must map ARNs to view, edit or admin"),
        ({"members": {LEAD: "edti"}}, "must be one of view, edit, admin, got 'edti'; did you mean 'edit'"),
        ({"members": {"lead": "edit"}}, "members must be literal ARNs of IAM users or roles, got 'lead'"),
        ({"members": {1: "edit"}}, "members must have ARNs as keys, got 1"),
        ({"quota": 16}, r"quota must be TeamQuota\(\.\.\.\), got 16"),
        ({"pod_security": "base"}, "pod_security must be one of privileged, baseline, restricted, got 'base'"),
        ({"isolate": "yes"}, "isolate must be True or False"),
        ({"reachable_from": ["ingress"]}, "reachable_from must be left out without isolate"),
        ({"isolate": True, "reachable_from": "ingress"}, "reachable_from must be a list of names"),
        ({"isolate": True, "reachable_from": ["10.0.0.1/16"]}, "did you mean '10.0.0.0/16'"),
        ({"isolate": True, "reachable_from": ["In"]}, "reachable_from must be 1 to 63"),
        ({"labels": ["a"]}, "labels must map keys to values"),
        ({"labels": {"a b": "c"}}, "labels must have qualified names as keys"),
        ({"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}, "labels must not be in Kubernetes' own"),
        ({"labels": {"team": "a b"}}, "label 'team' must be at most 63"),
        ({"labels": {"team": 1}}, "label 'team' must be"),
    ],
)
def test_refuses(define: Define, changes: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        define(**changes)
