"""A model reaches the pod that asks for it: files or rights are there before it starts, and no more than it needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import GpuDeployment, GpuJob, GpuPod, ManagedNodeGroup, NodeShape
from gpu_constructs.identity import WorkloadIdentity
from gpu_constructs.workloads import (
    CopiedModel,
    HubModel,
    ImageModel,
    ImageMount,
    Model,
    MountedModel,
    ScratchMount,
    SecretKey,
    StreamedModel,
)
from tests.clusters import imported_cluster, imported_vpc
from tests.conftest import FLAGS
from tests.linting import cfn_lint
from tests.schemas import validate
from tests.templates import (
    Resources,
    depends_on,
    ids_of_objects,
    manifests_of,
    of_type,
    resources_of,
    slice_of,
)

IMAGE = "registry.example.com/serve:1"
WEIGHTS = "registry.example.com/llama@sha256:" + "a" * 64
COMMIT = "0123456789abcdef0123456789abcdef01234567"
KINDS = ("copied", "mounted", "streamed", "image", "hub")


def models(bucket: s3.IBucket) -> dict[str, Model]:
    """One of each kind."""
    token = SecretKey(secret="hf", key="token")
    return {
        "copied": CopiedModel(bucket=bucket, prefix="llama/", size_gib=140),
        "mounted": MountedModel(bucket=bucket, prefix="llama/", cache_gib=100),
        "streamed": StreamedModel(bucket=bucket, prefix="llama/"),
        "image": ImageModel(image=WEIGHTS),
        "hub": HubModel(repo="meta-llama/Llama-3.1-8B", revision=COMMIT, token=token, size_gib=15),
    }


def pool(stack: cdk.Stack, cluster: eks.ICluster | eks.Cluster) -> ManagedNodeGroup:
    shape = NodeShape(instance_types=("g6e.4xlarge",))
    return ManagedNodeGroup(stack, "Pool", cluster=cluster, name="pool", shape=shape, max_nodes=2)


def serve(stack: cdk.Stack, cluster: eks.ICluster, model: Any, **changes: Any) -> GpuDeployment:
    """A deployment with a model, and ``changes`` of its pod."""
    pod = GpuPod(**{"image": IMAGE} | changes)
    of: dict[str, Any] = {"kubernetes_version": "1.35"} if isinstance(model, ImageModel) else {}
    nodes = pool(stack, cluster)
    return GpuDeployment(stack, "Chat", cluster=cluster, pool=nodes, name="chat", pod=pod, port=80, model=model, **of)


@pytest.fixture(scope="module")
def resources() -> Resources:
    """A deployment with a model of each kind, called as the kind is."""
    stack = cdk.Stack(
        cdk.App(context=FLAGS, analytics_reporting=False),
        "Models",
        env=cdk.Environment(account="111122223333", region="us-east-1"),
    )
    cluster = imported_cluster(stack, imported_vpc(stack))
    nodes = pool(stack, cluster)
    bucket = s3.Bucket(stack, "Weights", encryption=s3.BucketEncryption.KMS, bucket_name="weights")
    for name, model in models(bucket).items():
        pod = GpuPod(image=IMAGE, args=["--model", model.location])
        GpuDeployment(
            stack,
            name.title(),
            cluster=cluster,
            pool=nodes,
            name=name,
            pod=pod,
            port=8000,
            model=model,
            kubernetes_version="1.35",
        )
    return resources_of(stack)


def pod_of(resources: Resources, name: str) -> dict[str, Any]:
    [found] = [
        each for each in manifests_of(resources) if (each["kind"], each["metadata"]["name"]) == ("Deployment", name)
    ]
    return dict(found["spec"]["template"]["spec"])


@pytest.fixture
def bucket(stack: cdk.Stack) -> s3.IBucket:
    return s3.Bucket.from_bucket_name(stack, "Bucket", "weights")


@pytest.mark.parametrize("name", KINDS)
def test_pods(resources: Resources, name: str, snapshot_yaml: SnapshotAssertion) -> None:
    parts = ("args", "env", "volumeMounts")
    pod = pod_of(resources, name)
    [container] = pod["containers"]

    told = {key: container[key] for key in parts if key in container}
    more = {key: pod[key] for key in ("initContainers", "serviceAccountName", "volumes") if key in pod}
    asked = container["resources"]["requests"].get("ephemeral-storage")
    assert {"container": told, "pod": more, "scratch": asked} == snapshot_yaml


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("minor", ["1.35", "1.36"])
def test_schemas_take_the_pods(resources: Resources, name: str, minor: str) -> None:
    spec = pod_of(resources, name)

    validate({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "chat"}, "spec": spec}, minor)


@pytest.mark.linted
def test_cloudformation_takes_it(resources: Resources, tmp_path: Path) -> None:
    template = tmp_path / "template.json"
    template.write_text(json.dumps({"Resources": resources}))

    assert cfn_lint([template]) == []


@pytest.mark.parametrize("name", ["copied", "mounted", "streamed"])
def test_the_pods_of_a_service_account_may_read_the_prefix_and_nothing_else(resources: Resources, name: str) -> None:
    [policy] = of_type(slice_of(resources, name.title()), "AWS::IAM::Policy").values()

    listed, read, key = policy["Properties"]["PolicyDocument"]["Statement"]
    assert (listed["Action"], read["Action"], key["Action"]) == ("s3:ListBucket", "s3:GetObject", "kms:Decrypt")
    assert listed["Condition"] == {"StringLike": {"s3:prefix": "llama/*"}}
    assert "/llama/*" in json.dumps(read["Resource"])


@pytest.mark.parametrize("name", ["copied", "mounted", "streamed"])
def test_a_pod_starts_when_it_may_read(resources: Resources, name: str) -> None:
    needed = depends_on(resources, ids_of_objects(resources)["Deployment", name])
    [policy] = of_type(slice_of(resources, name.title()), "AWS::IAM::Policy")
    assert policy in needed
    associations = [
        resources[each] for each in of_type(resources, "AWS::EKS::PodIdentityAssociation") if each in needed
    ]
    assert name in [each["Properties"]["ServiceAccount"] for each in associations]
    accounts = [each for each in manifests_of({id: resources[id] for id in needed}) if each["kind"] == "ServiceAccount"]
    assert [each["metadata"]["name"] for each in accounts] == [name]


@pytest.mark.parametrize("name", ["image", "hub"])
def test_what_is_not_in_s3_needs_no_role(resources: Resources, name: str) -> None:
    assert of_type(slice_of(resources, name.title()), "AWS::IAM::Role") == {}
    assert pod_of(resources, name)["automountServiceAccountToken"] is False


def test_a_volume_is_mounted_as_the_pods_themselves(resources: Resources) -> None:
    [volume] = [each for each in manifests_of(resources) if each["kind"] == "PersistentVolume"]

    assert volume["spec"]["csi"]["volumeAttributes"]["authenticationSource"] == "pod"
    assert {"read-only", "prefix llama/", "metadata-ttl indefinite"} <= set(volume["spec"]["mountOptions"])


def test_the_token_is_in_no_template(resources: Resources) -> None:
    [container] = pod_of(resources, "hub")["containers"]

    [token] = [each for each in container["env"] if each["name"] == "HF_TOKEN"]
    assert token["valueFrom"] == {"secretKeyRef": {"key": "token", "name": "hf"}}


def test_a_job_has_a_model_too(stack: cdk.Stack, cluster: eks.ICluster, bucket: s3.IBucket) -> None:
    model = CopiedModel(bucket=bucket, size_gib=10)
    GpuJob(stack, "Tune", cluster=cluster, pool=pool(stack, cluster), name="tune", pod=GpuPod(image=IMAGE), model=model)

    [job] = [each for each in manifests_of(resources_of(stack)) if each["kind"] == "Job"]
    [copy] = job["spec"]["template"]["spec"]["initContainers"]
    assert copy["args"][:4] == ["s3", "sync", "s3://weights/", "/models"]


def test_the_name_of_a_job_does_not_move_with_the_rest_of_the_app() -> None:
    def name(before: int) -> str:
        stack = cdk.Stack(cdk.App(context=FLAGS, analytics_reporting=False), "Test")
        cluster = imported_cluster(stack, imported_vpc(stack))
        for each in range(before):
            s3.Bucket(stack, f"Other{each}").bucket_name  # noqa: B018 - counts a token
        model = StreamedModel(bucket=s3.Bucket(stack, "Own"))
        pod = GpuPod(image=IMAGE, args=["--model", model.location])
        GpuJob(stack, "Tune", cluster=cluster, pool=pool(stack, cluster), name="tune", pod=pod, model=model)
        [job] = [each for each in manifests_of(resources_of(stack)) if each["kind"] == "Job"]
        return str(job["metadata"]["name"])

    assert name(0) == name(3)


def test_an_identity_that_is_given_reads(stack: cdk.Stack, cluster: eks.ICluster, bucket: s3.IBucket) -> None:
    identity = WorkloadIdentity(stack, "Mine", cluster=cluster, service_account="mine")

    made = serve(stack, cluster, StreamedModel(bucket=bucket, prefix="a/", identity=identity))

    assert made.pod.service_account == "mine"
    assert len(of_type(resources_of(stack), "AWS::EKS::PodIdentityAssociation")) == 1


def test_a_service_account_that_is_named_exists(stack: cdk.Stack, cluster: eks.ICluster, bucket: s3.IBucket) -> None:
    serve(stack, cluster, StreamedModel(bucket=bucket), service_account="theirs")

    resources = resources_of(stack)
    [association] = of_type(resources, "AWS::EKS::PodIdentityAssociation").values()
    assert association["Properties"]["ServiceAccount"] == "theirs"
    assert [each for each in manifests_of(resources) if each["kind"] == "ServiceAccount"] == []


def test_a_role_of_another_account_reads_by_the_policy_of_the_bucket(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    theirs = iam.Role.from_role_arn(stack, "Theirs", "arn:aws:iam::444455556666:role/data")
    identity = WorkloadIdentity(stack, "Mine", cluster=cluster, service_account="mine", target_role=theirs)
    own = s3.Bucket(stack, "Own")

    serve(stack, cluster, CopiedModel(bucket=own, prefix="a/", size_gib=1, identity=identity))

    [policy] = of_type(resources_of(stack), "AWS::S3::BucketPolicy").values()
    assert len(policy["Properties"]["PolicyDocument"]["Statement"]) == 2


def test_what_a_pod_says_itself_stays(stack: cdk.Stack, cluster: eks.ICluster, bucket: s3.IBucket) -> None:
    made = serve(stack, cluster, StreamedModel(bucket=bucket), env={"RUNAI_STREAMER_MEMORY_LIMIT": "-1", "A": "1"})

    assert made.pod.env["RUNAI_STREAMER_MEMORY_LIMIT"] == "-1"
    assert made.pod.env["AWS_REGION"] == "us-east-1"


def test_the_user_of_the_pod_copies(stack: cdk.Stack, cluster: eks.ICluster, bucket: s3.IBucket) -> None:
    made = serve(stack, cluster, CopiedModel(bucket=bucket, size_gib=1, region="eu-west-1"), run_as_user=1000)

    [copy] = made.pod.init_containers
    assert copy.run_as_user == 1000
    assert copy.env["AWS_REGION"] == "eu-west-1"


def test_a_claim_keeps_what_the_hub_sent(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    model = HubModel(repo="a/b", revision=COMMIT, claim="hub", path="/hub")

    made = serve(stack, cluster, model, run_as_user=1000)

    assert dict(made.pod.env) == {"HF_HOME": "/hub", "HF_XET_CHUNK_CACHE_SIZE_BYTES": "0"}
    assert [each.volume() for each in made.pod.mounts] == [
        {"name": "claim-hub", "persistentVolumeClaim": {"claimName": "hub"}}
    ]


@pytest.mark.parametrize(("version", "taken"), [("1.34", False), ("1.35", True), ("1.36", True), (None, False)])
def test_an_image_is_a_volume_from_1_35_on(
    stack: cdk.Stack, cluster: eks.ICluster, version: str | None, taken: bool
) -> None:
    nodes = pool(stack, cluster)

    def make(id: str, **how: Any) -> None:
        GpuJob(stack, id, cluster=cluster, pool=nodes, name=id.lower(), kubernetes_version=version, **how)

    mounted = GpuPod(image=IMAGE, mounts=[ImageMount(path="/models", image=WEIGHTS)])
    ways: list[dict[str, Any]] = [{"pod": GpuPod(image=IMAGE), "model": ImageModel(image=WEIGHTS)}, {"pod": mounted}]
    for number, how in enumerate(ways):
        if taken:
            make(f"Job{number}", **how)
        else:
            refused = "must be given" if version is None else r"Kubernetes 1\.35 or later .* got '1\.34'.*\[GPU415\]"
            with pytest.raises(ValueError, match=refused):
                make(f"Job{number}", **how)


def test_the_version_of_a_cluster_of_the_app_is_known(stack: cdk.Stack, created_cluster: eks.Cluster) -> None:
    made = GpuJob(
        stack,
        "Tune",
        cluster=created_cluster,
        pool=pool(stack, created_cluster),
        name="tune",
        pod=GpuPod(image=IMAGE),
        model=ImageModel(image=WEIGHTS),
    )

    assert made.resource is not None


@pytest.mark.parametrize(
    ("model", "changes", "error", "message"),
    [
        ("s3://weights", {}, TypeError, "Chat: model must be one of CopiedModel, MountedModel, .*got 's3://weights'"),
        ("copied", {"mounts": [ScratchMount(path="/models", size_gib=1)]}, ValueError, r"'/models' of mounts\[0\], a"),
        ("copied", {"memory_gib": 500}, ValueError, "must have at most 125 GiB of memory"),
        ("huge", {}, ValueError, r"at most \d+ GiB of scratch"),
        (
            "streamed",
            {"memory_gib": 5},
            ValueError,
            "more memory_gib than 4 for .*and 1 of shm_gib, got 5; raise",
        ),
        (
            "wide",
            {},
            ValueError,
            r"more memory_gib than 120 for the buffers .*, got \d+; raise memory_gib, or lower",
        ),
    ],
)
def test_refuses_what_cannot_be(
    stack: cdk.Stack,
    cluster: eks.ICluster,
    bucket: s3.IBucket,
    model: str,
    changes: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    impossible = {
        "huge": CopiedModel(bucket=bucket, size_gib=5000),
        "wide": StreamedModel(bucket=bucket, buffer_gib=120),
    }
    made = {**models(bucket), **impossible}.get(model, model)

    with pytest.raises(error, match=message):
        serve(stack, cluster, made, **changes)


def test_six_gib_are_enough_for_buffers_of_four(stack: cdk.Stack, cluster: eks.ICluster, bucket: s3.IBucket) -> None:
    assert serve(stack, cluster, StreamedModel(bucket=bucket), memory_gib=6).pod.memory_gib == 6


def test_an_error_about_a_service_account_with_an_identity_advises_to_pass_it(
    stack: cdk.Stack, cluster: eks.ICluster, bucket: s3.IBucket
) -> None:
    WorkloadIdentity(stack, "Mine", cluster=cluster, service_account="mine")

    with pytest.raises(ValueError, match=r"account default/mine, got none; write model.identity=.* with 'Test/Mine'"):
        serve(stack, cluster, StreamedModel(bucket=bucket), service_account="mine")


@pytest.mark.parametrize(
    ("account", "namespace", "stated", "message"),
    [
        ("mine", "other", None, "identity of its pods' namespace 'default', got 'Test/Mine' of 'other'"),
        ("mine", "default", "theirs", "identity of the pod's service account 'theirs', got 'Test/Mine' of 'mine'"),
    ],
)
def test_refuses_an_identity_of_others(
    stack: cdk.Stack,
    cluster: eks.ICluster,
    bucket: s3.IBucket,
    account: str,
    namespace: str,
    stated: str | None,
    message: str,
) -> None:
    identity = WorkloadIdentity(stack, "Mine", cluster=cluster, service_account=account, namespace=namespace)

    with pytest.raises(ValueError, match=message):
        serve(stack, cluster, StreamedModel(bucket=bucket, identity=identity), service_account=stated)


def test_two_workloads_of_one_account_share_an_identity(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    bucket = s3.Bucket.from_bucket_name(stack, "Bucket", "weights")
    nodes, pod = pool(stack, cluster), GpuPod(image=IMAGE, service_account="both")
    how: dict[str, Any] = {"cluster": cluster, "pool": nodes, "pod": pod, "model": StreamedModel(bucket=bucket)}
    GpuJob(stack, "One", name="one", **how)

    with pytest.raises(ValueError, match=r"service account default/both, got none; .*Test/One/Identity"):
        GpuJob(stack, "Other", name="other", **how)
