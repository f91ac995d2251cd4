"""Every example runs as it stands and emits what a first commit needs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.emitted import EXAMPLES, Templates
from tests.linting import CDKS_OWN, cfn_lint
from tests.schemas import validate, validate_custom
from tests.templates import Resources, manifests_of, of_type

# The fleet is the same pools many times over, and the other stacks have tests of their own.
LINTED = [each for each in EXAMPLES if each not in ("fleet", "reference_stacks")]

Stacks = Callable[[str], dict[str, Resources]]


@pytest.fixture
def synthesize(templates_of: Templates) -> Stacks:
    """The resources of an example's stacks."""
    return lambda name: {stack: template["Resources"] for stack, template in templates_of(name).items()}


# A reservation is in one zone, and so are the subnets for it.
ZONES_ARE_MEANT = "W3010"


@pytest.mark.linted
@pytest.mark.parametrize("name", LINTED)
def test_every_story_lints_clean(name: str, templates_of: Templates, tmp_path: Path) -> None:
    for stack, template in templates_of(name).items():
        (tmp_path / f"{stack}.template.json").write_text(json.dumps(template))

    assert cfn_lint(tmp_path.iterdir(), ignore=(*CDKS_OWN, ZONES_ARE_MEANT)) == []


@pytest.mark.parametrize("name", ["quickstart", "existing_cluster"])
def test_every_stack_of_an_example_has_gpu_nodes_and_their_plugin(name: str, synthesize: Stacks) -> None:
    stacks = synthesize(name)

    for resources in stacks.values():
        kinds = [each["kind"] for each in manifests_of(resources)]
        images = [each["Properties"]["AmiType"] for each in of_type(resources, "AWS::EKS::Nodegroup").values()]
        assert kinds.count("DaemonSet") == 1
        assert "AL2023_x86_64_NVIDIA" in images or "NodePool" in kinds


def test_every_example_is_tried() -> None:
    assert set(EXAMPLES) == {
        "auto_mode",
        "dra_pool",
        "existing_cluster",
        "fleet",
        "llm_service",
        "mig_on_p5",
        "model_from_s3",
        "mounted_bucket",
        "multi_node_serving",
        "multi_node_training",
        "quickstart",
        "reference_stacks",
        "shared_notebooks",
        "teams",
        "training_on_lustre",
    }


def gpu_requests(resources: Resources) -> dict[str, dict[str, Any]]:
    """The requests of each workload's pods, without CPU and memory."""
    found = {}
    for each in manifests_of(resources):
        if each["kind"] in ("Deployment", "Job") and each["metadata"]["namespace"] == "default":
            [container] = each["spec"]["template"]["spec"]["containers"]
            resources_of_it = container["resources"]
            limits = {key: value for key, value in resources_of_it["limits"].items() if "." in key}
            found[each["kind"]] = limits | {"claims": resources_of_it.get("claims", [])}
    return found


def test_notebooks_share_their_gpus(synthesize: Stacks) -> None:
    [resources] = synthesize("shared_notebooks").values()

    assert gpu_requests(resources) == {"Deployment": {"nvidia.com/gpu.shared": "1", "claims": []}}
    [overlay] = [each for each in manifests_of(resources) if each["kind"] == "NodeOverlay"]
    assert overlay["spec"]["capacity"] == {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "4"}


def test_a_language_model_sleeps_until_a_request_waits(synthesize: Stacks) -> None:
    [resources] = synthesize("llm_service").values()

    made = {each["kind"]: each for each in manifests_of(resources)}
    scaled = made["ScaledObject"]["spec"]
    assert scaled["minReplicaCount"] == 0
    assert [each["type"] for each in scaled["triggers"]] == ["aws-sqs-queue", "prometheus"]
    assert "replicas" not in made["Deployment"]["spec"]


def test_small_models_take_an_instance_each(synthesize: Stacks) -> None:
    [resources] = synthesize("mig_on_p5").values()

    assert gpu_requests(resources) == {"Deployment": {"nvidia.com/mig-1g.10gb": "1", "claims": []}}
    tags = [each["Properties"].get("Tags", {}) for each in of_type(resources, "AWS::EKS::Nodegroup").values()]
    counted = "k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/mig-1g.10gb"
    assert [each[counted] for each in tags if counted in each] == ["56"]


def test_pods_claim_their_gpus(synthesize: Stacks) -> None:
    [resources] = synthesize("dra_pool").values()

    claims = {"claims": [{"name": "gpu"}]}
    assert gpu_requests(resources) == {"Deployment": claims, "Job": claims}
    kinds = [each["kind"] for each in manifests_of(resources)]
    assert (kinds.count("ResourceClaim"), kinds.count("ResourceClaimTemplate")) == (1, 1)


def test_training_waits_in_a_queue_that_has_all_it_needs(synthesize: Stacks) -> None:
    [resources] = synthesize("multi_node_training").values()

    made = {each["kind"]: each for each in manifests_of(resources)}
    [group] = made["ClusterQueue"]["spec"]["resourceGroups"]
    quota = {each["name"]: each["nominalQuota"] for each in group["flavors"][0]["resources"]}
    asked = gpu_requests(resources)["Job"]
    assert int(quota["nvidia.com/gpu"]) == 4 * int(asked["nvidia.com/gpu"])
    assert int(quota["vpc.amazonaws.com/efa"]) == 4 * int(asked["vpc.amazonaws.com/efa"])
    assert made["Job"]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == made["LocalQueue"]["metadata"]["name"]


def test_a_model_comes_from_its_bucket_and_answers_inside_the_vpc(synthesize: Stacks) -> None:
    [resources] = synthesize("model_from_s3").values()

    made = {each["kind"]: each for each in manifests_of(resources) if each["metadata"]["name"].startswith("chat")}
    [server] = made["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert server["args"][1].startswith("s3://")
    assert server["args"][1].endswith("/llama-70b-fp8/")
    assert made["Ingress"]["metadata"]["annotations"]["alb.ingress.kubernetes.io/scheme"] == "internal"
    roles = [each["Properties"] for each in of_type(resources, "AWS::EKS::PodIdentityAssociation").values()]
    assert ("default", "chat") in {(each["Namespace"], each["ServiceAccount"]) for each in roles}


def test_auto_mode_runs_a_server_that_reads_its_keys_from_a_secret(synthesize: Stacks) -> None:
    [resources] = synthesize("auto_mode").values()

    [cluster] = of_type(resources, "AWS::EKS::Cluster").values()
    assert cluster["Properties"]["ComputeConfig"]["Enabled"] is True
    assert of_type(resources, "AWS::EKS::Nodegroup") == {}
    [server] = [each for each in manifests_of(resources) if each["kind"] == "Deployment"]
    env = {each["name"]: each for each in server["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert all("value" not in env[name] for name in ("VLLM_API_KEY", "HF_TOKEN"))
    assert env["VLLM_API_KEY"]["valueFrom"] == {"secretKeyRef": {"key": "api-key", "name": "chat"}}


@pytest.mark.parametrize(
    ("name", "kinds"), [("mounted_bucket", ["Job", "Deployment"]), ("multi_node_serving", ["LeaderWorkerSet"])]
)
def test_pods_mount_what_is_claimed_of_a_bucket_and_change_nothing(
    synthesize: Stacks, name: str, kinds: list[str]
) -> None:
    [resources] = synthesize(name).values()

    made = [each for each in manifests_of(resources) if each["metadata"].get("namespace") == "default"]
    claims = {each["metadata"]["name"] for each in made if each["kind"] == "PersistentVolumeClaim"}
    for kind in kinds:
        [workload] = [each for each in made if each["kind"] == kind]
        assert [claim for claim in claims if f'"claimName": "{claim}"' in json.dumps(workload)] != []
    volumes = [each["spec"] for each in manifests_of(resources) if each["kind"] == "PersistentVolume"]
    assert len(volumes) == len(claims) == len(kinds)
    assert all("read-only" in each["mountOptions"] for each in volumes)


def test_groups_of_a_model_wait_in_a_queue_for_all_their_nodes(synthesize: Stacks) -> None:
    [resources] = synthesize("multi_node_serving").values()

    made = {each["kind"]: each for each in manifests_of(resources)}
    groups = made["LeaderWorkerSet"]
    assert (groups["spec"]["replicas"], groups["spec"]["leaderWorkerTemplate"]["size"]) == (2, 2)
    assert groups["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == made["LocalQueue"]["metadata"]["name"]
    assert made["Ingress"]["metadata"]["annotations"]["alb.ingress.kubernetes.io/scheme"] == "internal"


def test_teams_have_a_quota_a_queue_and_members(synthesize: Stacks) -> None:
    [resources] = synthesize("teams").values()

    kinds: dict[str, set[str]] = {}
    for each in manifests_of(resources):
        kinds.setdefault(each["kind"], set()).add(each["metadata"].get("namespace", ""))
    for kind in ("ResourceQuota", "LocalQueue", "NetworkPolicy"):
        assert {"nlp", "vision"} <= kinds[kind]
    [job] = [each for each in manifests_of(resources) if each["kind"] == "Job"]
    assert (job["metadata"]["namespace"], job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]) == ("nlp", "nlp")


def test_a_team_reads_and_writes_its_bucket_through_files(synthesize: Stacks) -> None:
    [resources] = synthesize("training_on_lustre").values()

    [files] = of_type(resources, "AWS::FSx::FileSystem").values()
    assert files["Properties"]["FileSystemTypeVersion"] == "2.15"
    links = [each["Properties"] for each in of_type(resources, "AWS::FSx::DataRepositoryAssociation").values()]
    assert {each["FileSystemPath"]: "AutoExportPolicy" in each.get("S3", {}) for each in links} == {
        "/corpus": False,
        "/checkpoints": True,
    }
    [job] = [each for each in manifests_of(resources) if each["kind"] == "Job"]
    [volume] = [each for each in job["spec"]["template"]["spec"]["volumes"] if "persistentVolumeClaim" in each]
    claims = {
        each["metadata"]["name"]: each["metadata"]["namespace"]
        for each in manifests_of(resources)
        if each["kind"] == "PersistentVolumeClaim"
    }
    assert claims[volume["persistentVolumeClaim"]["claimName"]] == job["metadata"]["namespace"] == "research"


def test_a_fleet_is_the_same_platform_in_every_place(synthesize: Stacks) -> None:
    stacks = synthesize("fleet")

    assert len(stacks) == 3 * 3
    pools: dict[str, set[str]] = {}
    for stack, resources in stacks.items():
        place = stack.rpartition("Pools")[0] or stack.rpartition("Cluster")[0]
        names = {each["metadata"]["name"] for each in manifests_of(resources) if each["kind"] == "NodePool"}
        pools.setdefault(place, set()).update(names)
    assert len(pools) == 3
    assert all(names == {"notebooks", "chat", "embeddings"} for names in pools.values())


def test_the_reference_stacks_are_three_ways_to_gpus(synthesize: Stacks) -> None:
    stacks = synthesize("reference_stacks")

    assert set(stacks) == {"Training", "Inference", "AutoMode"}
    for resources in stacks.values():
        kinds = {each["kind"] for each in manifests_of(resources)}
        assert "NodePool" in kinds or len(of_type(resources, "AWS::EKS::Nodegroup")) == 2


def test_pools_on_an_imported_cluster_make_no_cluster(synthesize: Stacks) -> None:
    stacks = synthesize("existing_cluster")

    groups = of_type(stacks["GpuPools"], "AWS::EKS::Nodegroup").values()
    assert of_type(stacks["GpuPools"], "AWS::EKS::Cluster") == {}
    assert {each["Properties"]["ClusterName"] for each in groups} == {"platform"}


def test_a_new_cluster_in_an_existing_vpc_makes_no_network(synthesize: Stacks) -> None:
    stacks = synthesize("existing_cluster")

    assert of_type(stacks["GpuResearch"], "AWS::EC2::VPC") == {}
    assert len(of_type(stacks["GpuResearch"], "AWS::EKS::Cluster")) == 1


# API groups of Kubernetes itself.
API_GROUPS = {
    "v1",
    "admissionregistration.k8s.io/v1",
    "apps/v1",
    "autoscaling/v2",
    "batch/v1",
    "networking.k8s.io/v1",
    "policy/v1",
    "rbac.authorization.k8s.io/v1",
    "resource.k8s.io/v1",
}
# EKS keeps the definitions of Auto Mode to itself.
WITHOUT_DEFINITION = "eks.amazonaws.com/"
FILES = {kind: f"crd-{kind.lower()}s.yaml" for kind in ("ServiceMonitor", "PodMonitor", "PrometheusRule")}
SINCE = {"ResourceClaim": "1.34", "ResourceClaimTemplate": "1.34"}


# A value in place of an id that is known only at deployment.
IDS = ((re.compile(r"\$\{[\w:.-]*Subnet\w*\}"), "subnet-0"), (re.compile(r"\$\{[\w:.-]*SecurityGroupId\w*\}"), "sg-0"))


def with_ids(manifest: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(manifest)
    for pattern, id in IDS:
        text = pattern.sub(id, text)
    return dict(json.loads(text))


def objects(stacks: dict[str, Resources]) -> list[dict[str, Any]]:
    return [each for resources in stacks.values() for each in manifests_of(resources)]


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_object_is_valid_for_its_definition(name: str, synthesize: Stacks, crds: Path) -> None:
    for each in objects(synthesize(name)):
        if each["apiVersion"] not in API_GROUPS and WITHOUT_DEFINITION not in each["apiVersion"]:
            validate_custom(with_ids(each), crds, file=FILES.get(each["kind"]))


@pytest.mark.parametrize("minor", ["1.33", "1.34", "1.35", "1.36"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_core_object_is_valid(name: str, minor: str, synthesize: Stacks) -> None:
    core = [each for each in objects(synthesize(name)) if each["apiVersion"] in API_GROUPS]
    tried = [each for each in core if SINCE.get(each["kind"], "") <= minor]

    assert tried
    for each in tried:
        validate(each, minor)
