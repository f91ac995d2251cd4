"""The resource that applies the CRDs inside charts: its permissions, its order and its sources."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk.lambda_layer_kubectl_v36 import KubectlV36Layer

from gpu_constructs import GpuCluster
from gpu_constructs.devices import DraDriver
from gpu_constructs.installing.context import CHART_DEFINITIONS, CHART_MIRROR, DELIVERY
from gpu_constructs.metrics import PrometheusStack
from gpu_constructs.queueing import JobSets, KubeRay, Kueue, LeaderWorkerSets
from tests.clusters import imported_vpc
from tests.templates import CHART, MANIFEST, Resources, manifest, of_type, only, resources_of, text_of

DEFINITIONS = "Custom::GpuChartDefinitions"


@pytest.fixture
def demo(stack: cdk.Stack) -> GpuCluster:
    """A cluster made here."""
    return GpuCluster(stack, "Gpu", cluster_name="demo")


def functions(resources: Resources, part: str) -> list[dict[str, Any]]:
    found = of_type(resources, "AWS::Lambda::Function")
    return [each["Properties"] for id, each in found.items() if part in id]


def statements(resources: Resources) -> list[dict[str, Any]]:
    [role] = [each for id, each in of_type(resources, "AWS::IAM::Role").items() if "ChartDefinitions" in id]
    [policy] = role["Properties"]["Policies"]
    found: list[dict[str, Any]] = policy["PolicyDocument"]["Statement"]
    return found


def test_they_go_before_their_release_and_after_the_right_to(stack: cdk.Stack, demo: GpuCluster) -> None:
    JobSets(stack, "JobSets", cluster=demo)

    resources = resources_of(stack)
    [(id, definitions)] = of_type(resources, DEFINITIONS).items()
    assert definitions["Properties"] | {"ServiceToken": None} == {
        "ServiceToken": None,
        "ServiceTimeout": "300",
        "Cluster": {"Ref": "GpuCluster6BEBD11F"},
        "Chart": "jobset",
        "Repository": "oci://registry.k8s.io/jobset/charts/jobset",
        "Version": "0.12.0",
    }
    [release] = of_type(resources, CHART).values()
    assert id in release["DependsOn"]
    waits = {resources[each]["Type"] for each in definitions["DependsOn"]}
    assert waits >= {"AWS::EKS::AccessEntry", "AWS::IAM::Role", MANIFEST}


def test_its_rights_are_what_applying_takes(stack: cdk.Stack, demo: GpuCluster) -> None:
    JobSets(stack, "JobSets", cluster=demo)

    resources = resources_of(stack)
    role, binding = manifest(resources, "ClusterRole"), manifest(resources, "ClusterRoleBinding")
    assert role["rules"] == [
        {
            "apiGroups": ["apiextensions.k8s.io"],
            "resources": ["customresourcedefinitions"],
            "verbs": ["get", "create", "patch"],
        }
    ]
    [entry] = [each for id, each in of_type(resources, "AWS::EKS::AccessEntry").items() if "ChartDefinitions" in id]
    assert entry["Properties"]["KubernetesGroups"] == [binding["subjects"][0]["name"]]
    assert "AccessPolicies" not in entry["Properties"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    cluster, logs, interfaces = statements(resources)
    assert cluster["Action"] == "eks:DescribeCluster"
    assert text_of(cluster["Resource"]).endswith(":cluster/${GpuCluster6BEBD11F}")
    assert logs["Action"] == ["logs:CreateLogStream", "logs:PutLogEvents"]
    assert {each.partition(":")[0] for each in interfaces["Action"]} == {"ec2"}


def test_it_has_the_programs_and_the_network_of_the_kubectl_handler(stack: cdk.Stack, demo: GpuCluster) -> None:
    JobSets(stack, "JobSets", cluster=demo)

    resources = resources_of(stack)
    [ours], [theirs] = functions(resources, "ChartDefinitions"), functions(resources, "KubectlProviderHandler")
    assert ours["Layers"] == theirs["Layers"]
    assert ours["VpcConfig"] == theirs["VpcConfig"]


def test_one_function_serves_all_charts(stack: cdk.Stack, demo: GpuCluster) -> None:
    for made in (JobSets, LeaderWorkerSets, KubeRay, DraDriver, PrometheusStack, Kueue):
        made(stack, made.__name__, cluster=demo)

    resources = resources_of(stack)
    asked = [each["Properties"] for each in of_type(resources, DEFINITIONS).values()]
    # Kueue has its definitions among its templates, where helm upgrades them.
    assert {each["Chart"] for each in asked} == {
        "jobset",
        "lws",
        "kuberay-operator",
        "dra-driver-nvidia-gpu",
        "kube-prometheus-stack",
    }
    assert len({json.dumps(each["ServiceToken"]) for each in asked}) == 1


def test_the_function_stays_with_the_layers_when_a_chart_is_in_another_stack(
    stack: cdk.Stack, demo: GpuCluster
) -> None:
    other = cdk.Stack(cdk.App.of(stack), "Other", env=cdk.Environment(account="111122223333", region="us-east-1"))
    JobSets(other, "JobSets", cluster=demo)

    app = cdk.App.of(stack)
    assert isinstance(app, cdk.App)
    assembly = app.synth()
    templates = {each.stack_name: each.template["Resources"] for each in assembly.stacks}
    assert functions(templates["Test"], "ChartDefinitions")
    assert not of_type(templates["Other"], "AWS::Lambda::Function")
    assert not of_type(templates["Other"], "AWS::Lambda::LayerVersion")
    assert len(of_type(templates["Other"], DEFINITIONS)) == 1


def test_without_a_mirror_it_reads_no_registry_of_ecr(stack: cdk.Stack, demo: GpuCluster) -> None:
    JobSets(stack, "JobSets", cluster=demo)

    assert "ecr:" not in json.dumps(statements(resources_of(stack)))


def test_of_a_mirror_it_reads_the_charts_that_it_needs(stack: cdk.Stack) -> None:
    stack.node.set_context(CHART_MIRROR, "oci://444455556666.dkr.ecr.eu-west-1.amazonaws.com/charts")
    demo = GpuCluster(stack, "Gpu", cluster_name="demo")
    JobSets(stack, "JobSets", cluster=demo)
    KubeRay(stack, "KubeRay", cluster=demo)
    Kueue(stack, "Kueue", cluster=demo)

    resources = resources_of(stack)
    *_, login, reading = statements(resources)
    assert (login["Action"], login["Resource"]) == ("ecr:GetAuthorizationToken", "*")
    assert reading["Action"] == ["ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
    assert [text_of(each).partition(":ecr:")[2] for each in reading["Resource"]] == [
        "eu-west-1:444455556666:repository/charts/jobset",
        "eu-west-1:444455556666:repository/charts/kuberay-operator",
    ]
    repositories = {each["Properties"]["Repository"] for each in of_type(resources, DEFINITIONS).values()}
    assert repositories == {
        f"oci://444455556666.dkr.ecr.eu-west-1.amazonaws.com/charts/{name}" for name in ("jobset", "kuberay-operator")
    }


def test_a_mirror_of_another_kind_needs_no_right(stack: cdk.Stack) -> None:
    stack.node.set_context(CHART_MIRROR, "oci://registry.example.com/charts")
    demo = GpuCluster(stack, "Gpu", cluster_name="demo")
    JobSets(stack, "JobSets", cluster=demo)

    assert "ecr:" not in json.dumps(statements(resources_of(stack)))


def test_definitions_that_the_user_has_are_left_to_the_user(stack: cdk.Stack, demo: GpuCluster) -> None:
    PrometheusStack(stack, "Prometheus", cluster=demo, values={"crds": {"enabled": False}})

    assert not of_type(resources_of(stack), DEFINITIONS)


@pytest.mark.parametrize("said", [False, "false"])
def test_the_context_key_leaves_definitions_to_the_user(stack: cdk.Stack, said: object) -> None:
    stack.node.set_context(CHART_DEFINITIONS, said)
    JobSets(stack, "JobSets", cluster=GpuCluster(stack, "Gpu", cluster_name="demo"))

    assert not of_type(resources_of(stack), DEFINITIONS)


def test_refuses_another_word_for_it(stack: cdk.Stack) -> None:
    stack.node.set_context(CHART_DEFINITIONS, "mine")

    with pytest.raises(ValueError, match="context: gpu-constructs:chartDefinitions must be true or false, got 'mine'"):
        JobSets(stack, "JobSets", cluster=GpuCluster(stack, "Gpu", cluster_name="demo"))


def test_a_proxy_of_the_kubectl_handler_is_its_proxy_too(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    plain = eks.Cluster(
        stack,
        "Plain",
        version=eks.KubernetesVersion.of("1.36"),
        vpc=vpc,
        vpc_subnets=[ec2.SubnetSelection(subnets=vpc.private_subnets)],
        kubectl_provider_options=eks.KubectlProviderOptions(
            kubectl_layer=KubectlV36Layer(stack, "Layer"), environment={"HTTPS_PROXY": "http://proxy:3128"}
        ),
    )
    JobSets(stack, "JobSets", cluster=plain)

    [ours] = functions(resources_of(stack), "ChartDefinitions")
    assert ours["Environment"]["Variables"]["HTTPS_PROXY"] == "http://proxy:3128"


def test_a_name_that_only_another_stack_knows_makes_no_circle(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    app = cdk.App.of(stack)
    env = cdk.Environment(account="111122223333", region="us-east-1")
    known, provided = cdk.Stack(app, "Known", env=env), cdk.Stack(app, "Provided", env=env)
    name = cdk.CfnParameter(known, "ClusterName").value_as_string
    there = eks.Cluster.from_cluster_attributes(provided, "There", cluster_name="demo", vpc=imported_vpc(provided))
    provider = eks.KubectlProvider(provided, "Kubectl", cluster=there, kubectl_layer=KubectlV36Layer(provided, "Layer"))
    cluster = eks.Cluster.from_cluster_attributes(known, "Here", cluster_name=name, kubectl_provider=provider)
    JobSets(known, "JobSets", cluster=cluster)

    assert functions(resources_of(known), "ChartDefinitions")


def test_a_network_without_private_subnets_is_said_so(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    public = ec2.Vpc.from_vpc_attributes(
        stack,
        "Public",
        vpc_id="vpc-0123456789abcdef0",
        availability_zones=["us-east-1a"],
        public_subnet_ids=["subnet-0123456789abcdef0"],
        public_subnet_route_table_ids=["rtb-0123456789abcdef0"],
    )
    far = eks.Cluster.from_cluster_attributes(
        stack,
        "Far",
        cluster_name="far",
        vpc=public,
        kubectl_provider=cluster.kubectl_provider,
        cluster_security_group_id="sg-0123456789abcdef0",
    )

    with pytest.raises(ValueError, match=r"^Test/JobSets: subnets must name private or isolated subnets, got a VPC"):
        JobSets(stack, "JobSets", cluster=far)


@pytest.mark.parametrize("delivery", ["argocd", "flux"])
def test_argo_cd_and_flux_upgrade_them_themselves(stack: cdk.Stack, delivery: str, tmp_path: Any) -> None:
    stack.node.set_context(DELIVERY, delivery)
    stack.node.set_context("gpu-constructs:manifests", str(tmp_path))
    JobSets(stack, "JobSets", cluster=GpuCluster(stack, "Gpu", cluster_name="demo"))

    assert not of_type(resources_of(stack), DEFINITIONS)


def test_an_imported_cluster_is_reached_from_its_own_network(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    JobSets(stack, "JobSets", cluster=cluster)

    resources = resources_of(stack)
    function = only(resources, "AWS::Lambda::Function")
    assert function["VpcConfig"] == {
        "SecurityGroupIds": ["sg-0123456789abcdef0"],
        "SubnetIds": ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"],
    }
    assert function["Layers"] == [{"Ref": id} for id in of_type(resources, "AWS::Lambda::LayerVersion")]


@pytest.mark.parametrize("without", ["vpc", "cluster_security_group_id"])
def test_refuses_an_imported_cluster_that_nothing_leads_to(
    stack: cdk.Stack, cluster: eks.ICluster, without: str
) -> None:
    known: dict[str, Any] = {"vpc": cluster.vpc, "cluster_security_group_id": "sg-0123456789abcdef0"}
    del known[without]
    far = eks.Cluster.from_cluster_attributes(
        stack, "Far", cluster_name="far", kubectl_provider=cluster.kubectl_provider, **known
    )

    rule = "cluster must be imported with vpc and cluster_security_group_id"
    with pytest.raises(ValueError, match=f"^Test/JobSets: {rule} to apply CRDs to it, got 'Test/Far' without"):
        JobSets(stack, "JobSets", cluster=far)
