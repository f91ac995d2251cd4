"""GpuClusterStack as it is deployed, in both autoscaler modes: whole, valid, secure, and stable."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import cdk_nag
import jsonschema
import kubernetes_validate
import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from stacks.gpu_cluster_stack import GpuClusterStack
from stacks.options import GpuClusterOptions, PoolOptions
from tests.conftest import FLAGS
from tests.linting import cfn_lint
from tests.schemas import validate, validate_custom
from tests.templates import CHART, depends_on, manifest, manifests_of, object_id, of_type, only

MODES = ("cluster-autoscaler", "karpenter")
# API groups that Kubernetes serves itself.
CORE = ("v1", "apps/v1", "batch/v1", "policy/v1", "rbac.authorization.k8s.io/v1")
# Resources that CDK adds under this flag, as children of its kubectl provider.
CDK_LOG_GROUPS = "AWS::Logs::LogGroup"

Synthesize = Callable[..., dict[str, Any]]


def options(mode: Any, **changes: Any) -> GpuClusterOptions:
    return GpuClusterOptions(**{"autoscaler": mode, "smoke_test": True} | changes)


def template_text(folder: Path, says: GpuClusterOptions, context: dict[str, Any]) -> str:
    app = cdk.App(context=context, outdir=str(folder), analytics_reporting=False)
    GpuClusterStack(app, "GpuClusterStack", options=says)
    app.synth()
    return (folder / "GpuClusterStack.template.json").read_text()


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The template of each mode, with a smoke test."""
    folder = tmp_path_factory.mktemp("synth")
    return {mode: json.loads(template_text(folder / mode, options(mode), FLAGS)) for mode in MODES}


@pytest.fixture(params=MODES)
def resources(request: pytest.FixtureRequest, templates: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The resources of one mode."""
    return dict(templates[request.param]["Resources"])


@pytest.mark.parametrize("mode", MODES)
def test_inventory(mode: str, templates: dict[str, dict[str, Any]], snapshot_text: SnapshotAssertion) -> None:
    lines = sorted(f"{each['Type']} {id}" for id, each in templates[mode]["Resources"].items())

    assert "\n".join(lines) + "\n" == snapshot_text


@pytest.mark.parametrize("mode", MODES)
def test_the_same_input_gives_the_same_bytes(mode: str, tmp_path: Path) -> None:
    first, second = (template_text(tmp_path / run, options(mode), FLAGS) for run in ("a", "b"))

    assert first == second


@pytest.mark.parametrize("mode", MODES)
def test_logical_ids_do_not_depend_on_feature_flags(
    mode: str, templates: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    plain = json.loads(template_text(tmp_path / "plain", options(mode), {}))["Resources"]
    flagged = templates[mode]["Resources"]

    assert plain.keys() <= flagged.keys()
    assert {flagged[id]["Type"] for id in flagged.keys() - plain.keys()} <= {CDK_LOG_GROUPS}
    assert {id: each["Type"] for id, each in plain.items()} == {id: flagged[id]["Type"] for id in plain}


def test_the_order_of_pools_moves_nothing(tmp_path: Path) -> None:
    pools = tuple(PoolOptions(name=name, instance_types=("g6.xlarge",)) for name in ("a", "b"))

    one, other = (
        json.loads(template_text(tmp_path / str(number), options("karpenter", smoke_test=False, pools=each), FLAGS))
        for number, each in enumerate((pools, pools[::-1]))
    )
    assert one["Resources"] == other["Resources"]


@pytest.mark.linted
def test_cfn_lint_finds_nothing(templates: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    for mode, template in templates.items():
        (tmp_path / f"{mode}.json").write_text(json.dumps(template))

    assert cfn_lint(tmp_path / f"{mode}.json" for mode in MODES) == []


@pytest.mark.linted
def test_cfn_lint_would_find_a_wrong_property(templates: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    template = json.loads(json.dumps(templates["karpenter"]))
    [cluster] = of_type(template["Resources"], "AWS::EKS::Cluster").values()
    cluster["Properties"]["Nonsense"] = True
    (tmp_path / "wrong.json").write_text(json.dumps(template))

    assert [each for each in cfn_lint([tmp_path / "wrong.json"]) if "Nonsense" in each]


def test_cdk_nag_finds_nothing_without_a_reason(tmp_path: Path) -> None:
    acknowledged = yaml.safe_load((Path(__file__).parent / "nag_acknowledged.yaml").read_text())
    findings = [finding for mode in MODES for finding in nag_findings(tmp_path / mode, mode)]

    assert len(findings) > 20
    used = [entry for entry in acknowledged if any(covers(entry, *finding) for finding in findings)]
    assert [each for each in findings if not any(covers(entry, *each) for entry in acknowledged)] == []
    assert [entry for entry in acknowledged if entry not in used] == []
    assert all(len(entry["reason"].split()) > 5 for entry in acknowledged)


def covers(entry: dict[str, str], rule: str, path: str) -> bool:
    return rule.startswith(entry["rule"]) and fnmatchcase(path, entry["path"])


def nag_findings(folder: Path, mode: str) -> list[tuple[str, str]]:
    """Rule and construct path of everything the AwsSolutions pack finds."""
    app = cdk.App(context=FLAGS, outdir=str(folder), analytics_reporting=False)
    GpuClusterStack(app, "GpuClusterStack", options=options(mode))
    cdk.Validations.of(app).add_plugins(cdk_nag.AwsSolutionsChecks(app))
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()
    report = json.loads((folder / "validation-report.json").read_text())
    [pack] = [each for each in report["pluginReports"] if each["pluginName"] == "AwsSolutions"]
    return [
        (violation["ruleName"], construct["constructPath"])
        for violation in pack["violations"]
        for construct in violation["violatingConstructs"]
    ]


@pytest.mark.parametrize("minor", ["1.33", "1.34", "1.35", "1.36"])
def test_core_objects_are_valid_kubernetes(resources: dict[str, Any], minor: str) -> None:
    core = [each for each in manifests_of(resources) if each["apiVersion"] in CORE]

    assert len(core) >= 2
    for each in core:
        validate(each, minor)


def test_a_typo_in_a_core_object_would_be_found(resources: dict[str, Any]) -> None:
    [daemon_set] = [each for each in manifests_of(resources) if each["kind"] == "DaemonSet"]
    daemon_set["spec"]["template"]["spec"]["priorityClas"] = "system-node-critical"

    with pytest.raises(kubernetes_validate.ValidationError, match="priorityClas"):
        validate(daemon_set, "1.36")


def test_custom_resources_are_valid_for_their_definitions(templates: dict[str, dict[str, Any]], crds: Path) -> None:
    custom = [each for each in manifests_of(templates["karpenter"]["Resources"]) if each["apiVersion"] not in CORE]

    assert {each["kind"] for each in custom} == {"EC2NodeClass", "NodePool"}
    for each in custom:
        validate_custom(deployed(each), crds)


def deployed(manifest: dict[str, Any]) -> dict[str, Any]:
    """The object with well-formed ids in place of values known only at deployment."""
    text = re.sub(r"\$\{\w*Subnet\w*\}", "subnet-0123456789abcdef0", json.dumps(manifest))
    return dict(json.loads(re.sub(r"\$\{\w*\.ClusterSecurityGroupId\}", "sg-0123456789abcdef0", text)))


def test_a_typo_in_a_custom_resource_would_be_found(templates: dict[str, dict[str, Any]], crds: Path) -> None:
    [pool] = [each for each in manifests_of(templates["karpenter"]["Resources"]) if each["kind"] == "NodePool"]
    pool["spec"]["disruption"]["consolidationPolice"] = "WhenEmpty"

    with pytest.raises(jsonschema.ValidationError, match="consolidationPolice"):
        validate_custom(pool, crds)


def test_nothing_has_a_fixed_name_that_a_replacement_would_collide_with(resources: dict[str, Any]) -> None:
    named = {
        id
        for id, each in resources.items()
        for key in ("NodegroupName", "RoleName", "QueueName", "ManagedPolicyName", "LaunchTemplateName", "GroupName")
        if key in each.get("Properties", {})
    }

    assert named == set()


def test_the_autoscaler_owns_the_number_of_nodes(templates: dict[str, dict[str, Any]]) -> None:
    groups = of_type(templates["cluster-autoscaler"]["Resources"], "AWS::EKS::Nodegroup").values()

    assert len(groups) == 2
    assert {next(iter(each["Properties"]["ScalingConfig"]["DesiredSize"])) for each in groups} == {"Fn::GetAtt"}


def test_karpenter_runs_on_two_system_nodes_in_two_zones(templates: dict[str, dict[str, Any]]) -> None:
    group = only(templates["karpenter"]["Resources"], "AWS::EKS::Nodegroup")

    assert (group["ScalingConfig"]["MinSize"], group["ScalingConfig"]["MaxSize"]) == (2, 2)
    assert len(group["Subnets"]) == 2
    assert group["AmiType"] == "AL2023_x86_64_STANDARD"


def test_karpenter_goes_before_what_it_runs_on(templates: dict[str, dict[str, Any]]) -> None:
    resources = templates["karpenter"]["Resources"]
    [controller] = [id for id, each in of_type(resources, CHART).items() if each["Properties"]["Chart"] == "karpenter"]

    needed = depends_on(resources, controller)
    assert set(of_type(resources, "AWS::EKS::Addon")) <= needed
    assert set(of_type(resources, "AWS::EKS::Nodegroup")) <= needed
    assert controller in depends_on(resources, object_id(resources, "NodePool"))
    assert controller in depends_on(resources, object_id(resources, "EC2NodeClass"))


def test_the_device_plugin_is_there_in_both_modes(resources: dict[str, Any]) -> None:
    kinds = [each["kind"] for each in manifests_of(resources)]

    assert kinds.count("DaemonSet") == 1
    assert kinds.count("Job") == 1


def test_without_arguments_the_stack_is_for_any_account_and_asks_for_no_lookup(tmp_path: Path) -> None:
    app = cdk.App(context=FLAGS, outdir=str(tmp_path))
    stack = GpuClusterStack(app, "GpuClusterStack")

    app.synth()
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert cdk.Token.is_unresolved(stack.account)
    assert "missing" not in manifest


def test_pools_of_several_kinds(tmp_path: Path) -> None:
    pools = (
        PoolOptions(name="l4", instance_types=("g6.xlarge", "g5.xlarge"), capacity="spot", max_nodes=8),
        PoolOptions(name="h100", instance_types=("p5.48xlarge",), operating_system="bottlerocket", disk_gib=500),
    )

    made = json.loads(template_text(tmp_path / "mng", options("cluster-autoscaler", pools=pools), FLAGS))["Resources"]
    groups = {
        id: each["Properties"] for id, each in of_type(made, "AWS::EKS::Nodegroup").items() if id.startswith("Pool")
    }
    assert {each["CapacityType"] for each in groups.values()} == {"SPOT", "ON_DEMAND"}
    made = json.loads(template_text(tmp_path / "karpenter", options("karpenter", pools=pools), FLAGS))["Resources"]
    limits = [each["spec"]["limits"] for each in manifests_of(made) if each["kind"] == "NodePool"]
    assert limits == [{"nvidia.com/gpu": "8"}, {"nvidia.com/gpu": "32"}]


# Resources of CloudFormation that cost by the hour, or hold data.
COSTS = (
    "AWS::EKS::Cluster",
    "AWS::EKS::Addon",
    "AWS::EC2::NatGateway",
    "AWS::EC2::EIP",
    "AWS::EC2::VPC",
    "AWS::KMS::Key",
    "AWS::Logs::LogGroup",
    "AWS::SQS::Queue",
)


@pytest.mark.parametrize("mode", MODES)
def test_tags_reach_everything_that_costs(mode: str, tmp_path: Path) -> None:
    says = options(mode, tags={"team": "research"})
    resources = json.loads(template_text(tmp_path / mode, says, FLAGS))["Resources"]

    tag = {"Key": "team", "Value": "research"}
    for kind in COSTS:
        for id, each in of_type(resources, kind).items():
            assert tag in each["Properties"].get("Tags", []), id
    for each in of_type(resources, "AWS::EKS::Nodegroup").values():
        assert each["Properties"]["Tags"]["team"] == "research"
    for each in of_type(resources, "AWS::EC2::LaunchTemplate").values():
        tagged = {
            one["ResourceType"]: one["Tags"] for one in each["Properties"]["LaunchTemplateData"]["TagSpecifications"]
        }
        assert all(tag in tagged[kind] for kind in ("instance", "volume"))
    if mode == "karpenter":
        assert manifest(resources, "EC2NodeClass")["spec"]["tags"]["team"] == "research"
