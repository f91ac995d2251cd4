"""NcclTest takes all that its nodes have, and MpiOperator's definition fits where upstream's does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import jsonschema
import pytest
import yaml
from aws_cdk import aws_eks_v2 as eks
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import ManagedNodeGroup, NodeShape, TimeSlicing
from gpu_constructs.queueing import GpuQueues, Kueue, TeamQueue
from gpu_constructs.workloads import KaiQueue, MpiOperator, NcclTest
from gpu_constructs.workloads.mpi_manifests import mpi_job, mpi_job_definition
from tests.schemas import validate, validate_custom
from tests.templates import MANIFEST, depends_on, manifest, manifests_of, of_type, resources_of

P5 = NodeShape(instance_types=("p5.48xlarge",), efa=True)
# The fields that kubectl keeps of an object that it applies.
MAX_ANNOTATION = 262_144


def nccl_test(stack: cdk.Stack, cluster: eks.ICluster, shape: NodeShape = P5, **changes: Any) -> dict[str, Any]:
    """The MPIJob of a valid test, with ``changes`` applied."""
    pool = ManagedNodeGroup(
        stack,
        "Pool",
        cluster=cluster,
        name="p5",
        shape=shape,
        max_nodes=4,
        subnets=[cluster.vpc.private_subnets[0]],
    )
    operator = changes.pop("operator", None) or MpiOperator(stack, "Mpi", cluster=cluster)
    NcclTest(stack, "Test", cluster=cluster, operator=operator, pool=pool, **changes)
    return manifest(resources_of(stack), "MPIJob")


def test_job(stack: cdk.Stack, cluster: eks.ICluster, snapshot_yaml: SnapshotAssertion) -> None:
    assert nccl_test(stack, cluster) == snapshot_yaml


def test_workers_take_the_whole_node_and_the_launcher_no_gpu(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    replicas = nccl_test(stack, cluster, nodes=3)["spec"]["mpiReplicaSpecs"]

    [worker] = replicas["Worker"]["template"]["spec"]["containers"]
    [launcher] = replicas["Launcher"]["template"]["spec"]["containers"]
    limits = worker["resources"]["limits"]
    assert (limits["nvidia.com/gpu"], limits["vpc.amazonaws.com/efa"]) == ("8", "32")
    assert not any("nvidia.com" in key for key in launcher["resources"]["limits"])
    command = launcher["command"]
    assert command[command.index("-np") + 1] == str(3 * 8)
    assert "FI_PROVIDER=efa" in command


def test_without_efa_it_asks_for_none(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    job = nccl_test(stack, cluster, NodeShape(instance_types=("g6.12xlarge",)))

    assert not any(word in json.dumps(job) for word in ("amazonaws.com/efa", "FI_PROVIDER", "IPC_LOCK", "hugepages"))


def test_job_is_valid_for_upstreams_definition_and_ours(stack: cdk.Stack, cluster: eks.ICluster, crds: Path) -> None:
    job = nccl_test(stack, cluster)
    validate_custom(job, crds)

    [version] = mpi_job_definition()["spec"]["versions"]
    jsonschema.validate(job, version["schema"]["openAPIV3Schema"])


def test_the_definition_has_upstreams_fields_and_fits(crds: Path) -> None:
    ours = mpi_job_definition()
    [theirs] = [each for each in yaml.safe_load_all((crds / "kubeflow.org_mpijobs.yaml").read_text()) if each]

    def fields(definition: dict[str, Any]) -> dict[str, Any]:
        [version] = definition["spec"]["versions"]
        return dict(version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"])

    assert fields(ours).keys() == fields(theirs).keys()
    for name, field in fields(ours).items():
        for key in ("type", "default", "enum"):
            assert sorted(str(field.get(key))) == sorted(str(fields(theirs)[name].get(key)))
    assert ours["spec"]["names"] == theirs["spec"]["names"]
    assert len(json.dumps(theirs)) > MAX_ANNOTATION > len(json.dumps(ours))


@pytest.mark.parametrize("minor", ["1.33", "1.34", "1.35", "1.36"])
def test_operator_is_valid(stack: cdk.Stack, cluster: eks.ICluster, minor: str) -> None:
    MpiOperator(stack, "Mpi", cluster=cluster)

    made = list(manifests_of(resources_of(stack)))
    assert {"CustomResourceDefinition", "Deployment", "ClusterRole", "Role"} <= {each["kind"] for each in made}
    for each in made:
        validate(each, minor)


def test_operator_comes_before_the_job_and_after_its_definition(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    nccl_test(stack, cluster)

    resources = resources_of(stack)
    ids = {each["kind"]: id for id in of_type(resources, MANIFEST) for each in manifests_of({id: resources[id]})}
    assert ids["CustomResourceDefinition"] in depends_on(resources, ids["Deployment"])
    assert ids["Deployment"] in depends_on(resources, ids["MPIJob"])


@pytest.mark.parametrize(
    ("shape", "changes", "error", "rule"),
    [
        (P5, {"nodes": 5}, ValueError, "nodes must be at most the 4 of pool 'p5', got 5"),
        (P5, {"nodes": 1}, ValueError, "nodes must be at least 2, got 1"),
        (P5, {"operator": "mpi"}, TypeError, "operator must be a MpiOperator, got 'mpi'"),
        (
            NodeShape(instance_types=("g6.xlarge",), sharing=TimeSlicing(4)),
            {},
            ValueError,
            r"pool must offer whole GPUs as a resource, got 'p5' with TimeSlicing\(replicas=4\)",
        ),
        (
            NodeShape(instance_types=("g5g.xlarge",)),
            {},
            ValueError,
            "image must be given for arm64 nodes, got None",
        ),
    ],
)
def test_refuses(
    stack: cdk.Stack,
    cluster: eks.ICluster,
    shape: NodeShape,
    changes: dict[str, Any],
    error: type[Exception],
    rule: str,
) -> None:
    with pytest.raises(error, match=f"Test/Test: {rule}"):
        nccl_test(stack, cluster, shape, **changes)


def test_in_a_queue_of_kueue_it_waits_for_all_of_its_nodes(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    alone, queued = (
        mpi_job("Test", scope=stack, pool=pool_of(stack, cluster), nodes=2, image="a:1", namespace="gpu", queue=queue)
        for queue in (None, "research")
    )

    assert queued["metadata"]["labels"] == {**alone["metadata"]["labels"], "kueue.x-k8s.io/queue-name": "research"}
    assert queued["spec"] == alone["spec"]


def test_in_a_queue_of_kai_its_scheduler_places_all_pods(stack: cdk.Stack, cluster: eks.ICluster, crds: Path) -> None:
    queue = KaiQueue("research")
    made = mpi_job(
        "Test", scope=stack, pool=pool_of(stack, cluster), nodes=2, image="a:1", namespace="gpu", queue=queue
    )

    validate_custom(made, crds, file="kubeflow.org_mpijobs.yaml")
    assert made["metadata"]["labels"]["kai.scheduler/queue"] == "research"
    for each in made["spec"]["mpiReplicaSpecs"].values():
        assert each["template"]["metadata"]["labels"] == {"kai.scheduler/queue": "research"}
        assert each["template"]["spec"]["schedulerName"] == "kai-scheduler"


def test_it_is_made_after_its_queue_and_deleted_before(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    pool = pool_of(stack, cluster)
    operator = MpiOperator(stack, "Mpi", cluster=cluster)
    NcclTest(stack, "Test", cluster=cluster, operator=operator, pool=pool, queue="research", namespace="research")
    team = TeamQueue(name="research", namespace="research", nodes={"p5": 4})
    kueue = Kueue(stack, "Kueue", cluster=cluster)
    GpuQueues(stack, "Queues", cluster=cluster, kueue=kueue, pools=[pool], teams=[team])

    resources = resources_of(stack)
    found = {
        json.loads(each["Properties"]["Manifest"])[0]["kind"]: id for id, each in of_type(resources, MANIFEST).items()
    }
    assert found["LocalQueue"] in depends_on(resources, found["MPIJob"])


def pool_of(stack: cdk.Stack, cluster: eks.ICluster) -> ManagedNodeGroup:
    found = stack.node.try_find_child("Pool")
    subnets = [cluster.vpc.private_subnets[0]]
    return (
        found
        if isinstance(found, ManagedNodeGroup)
        else ManagedNodeGroup(stack, "Pool", cluster=cluster, name="p5", shape=P5, max_nodes=4, subnets=subnets)
    )
