"""An impossible argument is rejected in words, before it reaches a template."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks

from gpu_constructs import (
    ClusterAutoscaler,
    Disk,
    GpuCluster,
    GpuDeployment,
    GpuJob,
    GpuPod,
    Karpenter,
    ManagedNodeGroup,
    Mig,
    NodeShape,
    Reservation,
    Spot,
)
from gpu_constructs.cluster import PrivateEndpoints
from gpu_constructs.metrics import DcgmExporter, ManagedPrometheus
from gpu_constructs.nodes import NodeTerminationHandler
from gpu_constructs.pod_scaling import SqsQueue
from gpu_constructs.pools import Kubelet, NodeRepair, RepairOverride
from gpu_constructs.pools.sharing import GpuClaim
from gpu_constructs.queueing import Kueue
from gpu_facts.refusals import refuse_unless_image

POD = GpuPod(image="example.com/app:1")
QUEUE = "https://sqs.us-east-1.amazonaws.com/111122223333/queue"


@pytest.fixture
def pool(stack: cdk.Stack, cluster: eks.ICluster) -> ManagedNodeGroup:
    """A pool of plain GPU nodes."""
    shape = NodeShape(instance_types=("g6.xlarge",))
    return ManagedNodeGroup(stack, "Pool", cluster=cluster, name="l4", shape=shape, max_nodes=2)


@pytest.mark.parametrize("wrong", ["no", 1, None])
@pytest.mark.parametrize(
    ("construct", "argument"),
    [
        (ClusterAutoscaler, "balance_similar"),
        (ClusterAutoscaler, "dynamic_resource_allocation"),
        (Karpenter, "isolated"),
        (Karpenter, "node_repair"),
        (Kueue, "fair_sharing"),
        (DcgmExporter, "shared_gpus"),
    ],
)
def test_a_flag_is_true_or_false(
    stack: cdk.Stack, cluster: eks.ICluster, construct: Callable[..., Any], argument: str, wrong: object
) -> None:
    says: dict[str, Any] = {"kubernetes_version": "1.36"} if construct is ClusterAutoscaler else {}

    with pytest.raises(TypeError, match=f"Test/It: {argument} must be True or False, got {wrong!r}"):
        construct(stack, "It", cluster=cluster, **says | {argument: wrong})

    assert stack.node.find_child("It").node.children == []


def test_flags_without_a_cluster_are_true_or_false(stack: cdk.Stack) -> None:
    with pytest.raises(TypeError, match="Test/It: pack_gpus must be True or False, got 'no'"):
        GpuCluster(stack, "It", pack_gpus="no")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="spot: checkpointed must be True or False, got 'no'"):
        Spot(checkpointed="no")  # type: ignore[arg-type]


@pytest.mark.parametrize("construct", [Karpenter, NodeTerminationHandler])
def test_values_of_a_chart_are_a_mapping(
    stack: cdk.Stack, cluster: eks.ICluster, construct: Callable[..., Any]
) -> None:
    with pytest.raises(TypeError, match=r"Test/It: values must be a mapping, got \[\]"):
        construct(stack, "It", cluster=cluster, values=[])

    assert stack.node.find_child("It").node.children == []


def test_auto_scaling_holds_a_node_for_two_hours_at_most(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    with pytest.raises(ValueError, match="Test/It: drain_minutes must be at most 120, got 121"):
        NodeTerminationHandler(stack, "It", cluster=cluster, drain_minutes=121)
    assert NodeTerminationHandler(stack, "Legal", cluster=cluster, drain_minutes=120).drain_seconds == 7200


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"vpc": "x"}, TypeError, "vpc must be an ec2.IVpc, got 'x'; import one with Vpc.from_lookup"),
        ({"subnets": 5}, TypeError, "subnets must be a list of ec2.ISubnet, got 5"),
        ({"subnets": []}, ValueError, "subnets must name at least one subnet, got none"),
        ({"s3_gateway": "no"}, TypeError, "s3_gateway must be True or False, got 'no'"),
        ({}, ValueError, "vpc must be imported with vpc_cidr_block, got 'Test/Vpc' without"),
    ],
)
def test_endpoints_are_refused_before_a_child_is_created(
    stack: cdk.Stack, vpc: ec2.IVpc, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"Test/Ends: {message}"):
        PrivateEndpoints(stack, "Ends", **{"vpc": vpc} | changes)

    assert stack.node.find_child("Ends").node.children == []


@pytest.mark.parametrize("region", [None, False, object(), "us_east_1", "us-east-\u0661"])
def test_a_queue_has_a_region(region: Any) -> None:
    with pytest.raises(ValueError, match="sqs queue: region must be a region, got"):
        SqsQueue(url=QUEUE, region=region, per_pod=1)


# Arabic digits, and a letter of no alphabet that AWS, Kubernetes or NVIDIA spells with.
TWELVE, TEN = "\u0661" * 12, "\u0661\u0660"


@pytest.mark.parametrize(
    "make",
    [
        lambda: GpuClaim(mig_profile=f"1g.{TEN}gb"),
        lambda: Mig(geometry={f"1g.{TEN}gb": 7}),
        lambda: RepairOverride(condition="Ready", reason="\u65e5\u672c", wait_minutes=10, action="Reboot"),
        lambda: NodeRepair(max_unhealthy=f"{TEN}%"),
        lambda: Reservation(availability_zone="us-east-\u0661a", id="cr-0a100000000000000"),
        lambda: Reservation(
            availability_zone="us-east-1a", resource_group_arn=f"arn:aws:resource-groups:us-east-1:{TWELVE}:group/a"
        ),
        lambda: Disk(kms_key_arn=f"arn:aws:kms:us-east-1:{TWELVE}:key/a"),
        lambda: Kubelet(kube_reserved={"cpu": f"{TEN}m"}),
        lambda: SqsQueue(url=f"https://sqs.us-east-1.amazonaws.com/{TWELVE}/q", region="us-east-1", per_pod=1),
        lambda: ManagedPrometheus(
            url="https://aps-workspaces.us-east-1.amazonaws.com/workspaces/ws-\u65e5", region="us-east-1"
        ),
    ],
)
def test_digits_and_letters_are_ascii(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r": \w+.* must .*, got"):
        make()


@pytest.mark.parametrize("arn", [f"arn:aws:iam::{TWELVE}:role/x", "arn:aws:iam::111122223333:role/\u65e5"])
def test_administrators_are_ascii(stack: cdk.Stack, arn: str) -> None:
    with pytest.raises(ValueError, match="admins must be literal ARNs of IAM users or roles"):
        GpuCluster(stack, "It", admins=[arn])


@pytest.mark.parametrize(
    "region", ["us-gov-west-1", "ap-southeast-5", cdk.Aws.REGION], ids=["GovCloud", "Malaysia", "token"]
)
def test_a_queue_is_in_any_region(region: str) -> None:
    assert SqsQueue(url=QUEUE, region=region, per_pod=1).region == region


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        ({"port": 65536}, 65535),
        ({"replicas": 2**31}, 2**31 - 1),
        ({"startup_minutes": 2**31 // 60 + 1}, 2**31 // 60),
    ],
)
def test_a_deployment_has_numbers_that_kubernetes_takes(
    stack: cdk.Stack, cluster: eks.ICluster, pool: ManagedNodeGroup, changes: dict[str, int], most: int
) -> None:
    [(argument, wrong)] = changes.items()
    says: dict[str, Any] = {"cluster": cluster, "pool": pool, "name": "serve", "pod": POD, "port": 80}

    with pytest.raises(ValueError, match=f"Test/It: {argument} must be at most {most}, got {wrong}"):
        GpuDeployment(stack, "It", **says | changes)
    if argument == "replicas":
        with pytest.raises(
            ValueError, match="Test/Legal: replicas must be at most 2, which fit on the 2 nodes of pool"
        ):
            GpuDeployment(stack, "Legal", **says | {argument: most})
        return
    assert GpuDeployment(stack, "Legal", **says | {argument: most}).name == "serve"


@pytest.mark.parametrize("version", [None, "1.35"])
def test_a_service_began_with_a_letter(
    stack: cdk.Stack, cluster: eks.ICluster, pool: ManagedNodeGroup, version: str | None
) -> None:
    says: dict[str, Any] = {"cluster": cluster, "pool": pool, "pod": POD, "port": 80, "kubernetes_version": version}

    with pytest.raises(
        ValueError,
        match=r"Test/It: name must begin with a letter in .*, got '1abc'; rename it, because only Kubernetes 1\.36",
    ):
        GpuDeployment(stack, "It", name="1abc", **says)
    assert GpuDeployment(stack, "Legal", name="1abc", **says | {"kubernetes_version": "1.36"}).name == "1abc"
    assert GpuDeployment(stack, "Letter", name="abc", **says).name == "abc"


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        ({"pods": 2**40}, 2**31 - 1),
        ({"retries": 2**31}, 2**31 - 1),
        ({"max_hours": 10**30}, 596523),
        ({"keep_hours": 596524}, 596523),
    ],
)
def test_a_job_has_numbers_that_kubernetes_takes(
    stack: cdk.Stack, cluster: eks.ICluster, pool: ManagedNodeGroup, changes: dict[str, int], most: int
) -> None:
    [(argument, wrong)] = changes.items()

    with pytest.raises(ValueError, match=f"Test/It: {argument} must be at most {most}, got {wrong}"):
        GpuJob(stack, "It", cluster=cluster, pool=pool, name="job", pod=POD, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["health", "/a\nb", "/a b", "/\u0661", ""])
def test_a_health_path_is_one(stack: cdk.Stack, cluster: eks.ICluster, pool: ManagedNodeGroup, path: str) -> None:
    with pytest.raises(ValueError, match="Test/It: health_path must begin with '/' and have no spaces"):
        GpuDeployment(stack, "It", cluster=cluster, pool=pool, name="serve", pod=POD, port=80, health_path=path)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"cpus": math.nan}, ValueError, "cpus must be at least 0.001, got nan"),
        ({"cpus": math.inf}, ValueError, "cpus must be at least 0.001, got inf"),
        ({"cpus": 1e-9}, ValueError, "cpus must be at least 0.001, got 1e-09"),
        ({"cpus": True}, TypeError, "cpus must be a number, got True"),
        ({"env": {"A=B\nC": "x"}}, ValueError, "env must have names of ASCII letters and signs other than '='"),
        ({"env": {"": "y"}}, ValueError, "env must have names of ASCII letters and signs other than '=', got ''"),
        ({"env": {"A": 1}}, TypeError, "env must map names to strings"),
        ({"image": "-x;$(id):1"}, ValueError, "image must be written as 'registry/name:tag' or"),
        ({"mig_profile": 1}, TypeError, "mig_profile must be a string, got 1"),
        ({"run_as_user": 2**70}, ValueError, f"run_as_user must be at most {2**31 - 1}"),
        ({"gpus": 2**40}, ValueError, f"gpus must be at most {2**31 - 1}"),
    ],
)
def test_a_pod_is_one_that_kubernetes_takes(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message.replace("(", r"\(")):
        GpuPod(**{"image": "example.com/app:1"} | changes)


def test_the_nearest_legal_pod() -> None:
    pod = GpuPod(image="example.com/app:1", cpus=0.001, env={"my.name-1 ~": ""}, run_as_user=2**31 - 1)

    assert (pod.cpus, dict(pod.env), pod.run_as_user) == (0.001, {"my.name-1 ~": ""}, 2**31 - 1)


@pytest.mark.parametrize(
    "image",
    [
        "vllm/vllm-openai:v0.11.0",
        "nvcr.io/nvidia/k8s/dcgm-exporter:4.5.1-4.8.0-distroless",
        "localhost:5000/a__b/c.d-e:1",
        "[::1]:5000/app:1",
        "busybox@sha256:" + "0" * 64,
        "public.ecr.aws/docker/library/busybox:1.37@sha256:" + "a" * 64,
        "111122223333.dkr.ecr.us-east-1.amazonaws.com/app:1",
    ],
)
def test_an_image_is_named_as_a_registry_does(image: str) -> None:
    refuse_unless_image("pod", "image", image)


@pytest.mark.parametrize(
    ("image", "rule"),
    [
        ("a", "end in a tag other than 'latest' or a digest"),
        ("a:latest", "end in a tag other than 'latest' or a digest"),
        ("localhost:5000/a", "end in a tag other than 'latest' or a digest"),
        ("a b:1", "have no space"),
        ("vllm/vllm openai:v1", "have no space"),
        ("a:1\n", "have no space"),
        ("https://example.com/a:1", "begin with its registry or name, and have no '://'"),
        ("App:1", "have a name in lower case"),
        ("example.com/App@sha256:" + "a" * 64, "have a name in lower case"),
        ("a@sha256:" + "A" * 64, "be written as 'registry/name:tag' or"),
        *((image, "be written as 'registry/name:tag' or") for image in ("a/-b:1", "a//b:1", "a:\u0661", "a:", ":1")),
        ("a@sha256:1", "be written as 'registry/name:tag' or 'registry/name@sha256:' with 64 hex digits"),
    ],
)
def test_what_no_registry_would_have_is_refused_for_its_fault(image: str, rule: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the beginning of the message is compared
        refuse_unless_image("pod", "image", image)

    assert str(refused.value).startswith(f"pod: image must {rule}")


class Asset:
    """The assets that the CDK builds and pushes."""

    image_uri = "111122223333.dkr.ecr.us-east-1.amazonaws.com/app:1"


@pytest.mark.parametrize(
    ("image", "fix"), [(7, "write one such as 'registry.example.com/app:1'"), (Asset(), "write its image_uri")]
)
def test_what_is_no_image_is_refused_with_one(image: object, fix: str) -> None:
    with pytest.raises(TypeError, match=f"^pod: image must be a string, got .*; {fix}$"):
        refuse_unless_image("pod", "image", image)
