"""The page on isolated clusters: its app is without findings, and its mirror is where the copied images lie."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpu_constructs.installing.delivery import images_on_gpu_nodes
from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.judging.check import check
from gpu_preflight.judging.images import Mirror, pulls
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.report.images_view import images_view
from tests.apps import programs_of, run_program
from tests.conftest import ROOT
from tests.templates import of_type

PAGE = (ROOT / "docs" / "how-to" / "isolated.md").read_text()


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The assembly of the example's app."""
    [example] = programs_of(PAGE)
    return run_program(example, tmp_path_factory.mktemp("isolated")) / "Isolated.template.json"


MODEL = """
from gpu_constructs import GpuDeployment, GpuPod
from gpu_constructs.workloads import HubModel

model = HubModel(repo="meta-llama/Llama-3.1-8B", revision="0" * 40, size_gib=20)
said = ("--model", model.location, "--revision", model.revision)
pod = GpuPod(image="111122223333.dkr.ecr.eu-west-1.amazonaws.com/vllm:1", gpus=1, args=said)
GpuDeployment(stack, "Serve", cluster=cluster, pool=nodes, name="serve", pod=pod, model=model, port=8000, replicas=1)
app.synth()
"""
KARPENTER = """
import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2

from gpu_constructs import GpuCluster, Karpenter

app = cdk.App()
stack = cdk.Stack(app, "Isolated")
vpc = ec2.Vpc.from_vpc_attributes(
    stack,
    "Vpc",
    vpc_id="vpc-0123456789abcdef0",
    availability_zones=["us-east-1a", "us-east-1b"],
    isolated_subnet_ids=["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"],
)
cluster = GpuCluster(stack, "Gpu", vpc=vpc)
Karpenter(stack, "Karpenter", cluster=cluster, isolated=True)
cluster.add_pool("l4", "g6.xlarge", max_nodes=2)
app.synth()
"""


def errors(file: Path) -> list[str]:
    return [each.rule.id for each in check(read_input([str(file)])).findings if each.rule.severity == "error"]


def test_preflight_has_nothing_against_it(output: Path) -> None:
    assert errors(output) == []


CHART = """
import aws_cdk as cdk

from gpu_constructs import GpuCluster, Karpenter, gpu_vpc

app = cdk.App(context=CONTEXT)
stack = cdk.Stack(app, "Isolated")
cluster = GpuCluster(stack, "Gpu", vpc=gpu_vpc(stack, "Vpc", nat_gateways=NAT))
Karpenter(stack, "Karpenter", cluster=cluster)
app.synth()
"""


@pytest.mark.parametrize(("nat", "context"), [("0", "{'gpu-constructs:chartMirror': 'oci://e.com/c'}"), ("1", "{}")])
def test_a_chart_that_can_be_fetched_is_accepted(tmp_path: Path, nat: str, context: str) -> None:
    output = run_program(CHART.replace("CONTEXT", context).replace("NAT", nat), tmp_path)

    assert "GPU455" not in errors(output / "Isolated.template.json")


def test_a_chart_without_a_mirror_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(
        RuntimeError, match=r"/Controller: chart 'karpenter' from .*, as the VPC of Isolated/Gpu/Cluster"
    ):
        run_program(CHART.replace("CONTEXT", "{}").replace("NAT", "0"), tmp_path)


def test_public_images_without_a_mirror_are_rejected(tmp_path: Path) -> None:
    [example] = programs_of(PAGE)
    without = example.replace(", host=host)", ")").replace("SystemNodes(host=host)", "SystemNodes()")

    with pytest.raises(RuntimeError, match=r"Isolated/Plugin: image 'nvcr.io/nvidia/k8s-device-plugin:.*\[GPU076\]"):
        run_program(without, tmp_path)
    operator = 'GpuOperator(stack, "Operator", cluster=cluster)'
    shape = 'instance_types=("g6.xlarge",), device_manager="gpu-operator"'
    own = without.replace('DevicePlugin(stack, "Plugin", cluster=cluster)', operator)
    own = "from gpu_constructs.devices import GpuOperator\n" + own.replace('instance_types=("g6.xlarge",)', shape)
    with pytest.raises(RuntimeError, match=r"Isolated/Operator: the images of chart 'gpu-operator' on nvcr.io"):
        run_program(own, tmp_path)


def test_a_route_of_the_user_may_lead_to_the_registries(tmp_path: Path) -> None:
    [example] = programs_of(PAGE)
    without = example.replace(", host=host)", ")").replace("SystemNodes(host=host)", "SystemNodes()")
    route = """
gateway = ec2.CfnTransitGatewayAttachment(
    stack, "Way", vpc_id=vpc.vpc_id, transit_gateway_id="tgw-0123456789abcdef0",
    subnet_ids=[each.subnet_id for each in vpc.isolated_subnets],
)
for each in vpc.isolated_subnets:
    ec2.CfnRoute(
        stack, f"Route{each.node.id}", route_table_id=each.route_table.route_table_id,
        destination_cidr_block="0.0.0.0/0", transit_gateway_id="tgw-0123456789abcdef0",
    )
app.synth()
"""
    program = "from aws_cdk import aws_ec2 as ec2\n" + without.removesuffix("app.synth()\n") + route

    assert "GPU076" not in errors(run_program(program, tmp_path) / "Isolated.template.json")


def test_without_the_mirror_nodes_could_not_pull(output: Path, tmp_path: Path) -> None:
    template = json.loads(output.read_text())
    for each in of_type(template["Resources"], "AWS::EC2::LaunchTemplate").values():
        each["Properties"]["LaunchTemplateData"].pop("UserData", None)
    file = tmp_path / "without.template.json"
    file.write_text(json.dumps(template))

    assert "GPU076" in errors(file)


def test_a_model_of_the_hub_is_out_of_reach(tmp_path: Path) -> None:
    [example] = programs_of(PAGE)
    program = (
        example.replace("ManagedNodeGroup(\n", "nodes = ManagedNodeGroup(\n").removesuffix("app.synth()\n") + MODEL
    )

    assert "GPU457" in errors(run_program(program, tmp_path) / "Isolated.template.json")


def test_of_imported_subnets_an_isolated_karpenter_tells(tmp_path: Path) -> None:
    output = run_program(KARPENTER, tmp_path) / "Isolated.template.json"
    found = check(read_input([str(output)])).findings

    assert {each.problem.unknown for each in found if each.rule.id == "GPU455"} == {True}
    # Its policy leaves out what it never calls.
    assert "GPU196" not in {each.rule.id for each in found}


def test_the_mirror_of_the_page_has_what_the_command_copies(output: Path) -> None:
    found = pulls(clusters(read_input([str(output)])))
    view = images_view(found, mirror=Mirror("mirror.example.com"))

    assert view.mirror
    assert view.clusters[0].not_known == ()
    assert {each.target for each in view.clusters[0].images} == {"mirror.example.com/nvidia/k8s-device-plugin:v0.20.0"}
    # containerd asks the mirror for the path that the image has in its own registry.
    assert (
        view.mirror.registry_mirrors.items()
        <= {
            "nvcr.io": "https://mirror.example.com",
            "registry.k8s.io": "https://mirror.example.com",
        }.items()
    )


def test_pods_that_claim_gpus_need_a_mirror_too() -> None:
    claim = {"name": "gpu", "resourceClaimTemplateName": "gpu"}
    spec = {"resourceClaims": [claim], "containers": [{"name": "main", "image": "nvcr.io/nvidia/cuda:13"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}

    assert list(images_on_gpu_nodes(pod)) == ["nvcr.io/nvidia/cuda:13"]
    assert list(images_on_gpu_nodes({**pod, "spec": {"containers": spec["containers"]}})) == []
