"""DoctorAccess grants what the command prints as its policies, and no more, to each principal in one access entry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import aws_cdk as cdk
import pytest
import yaml
from aws_cdk import aws_eks, aws_iam
from aws_cdk import aws_eks_v2 as eks
from aws_cdk.assertions import Annotations, Match
from constructs import Construct
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import AutoMode, GpuCluster
from gpu_constructs.teams import DoctorAccess, Team
from gpu_facts.doctor_reads import CALLS
from gpu_preflight.doctor.commands import policy
from tests.clusters import imported_vpc
from tests.conftest import FLAGS
from tests.linting import cfn_lint
from tests.schemas import validate
from tests.templates import Resources, manifest, manifests_of, object_id, of_type, only, resources_of, resources_under

ENTRY, POLICY = "AWS::EKS::AccessEntry", "AWS::IAM::ManagedPolicy"
ANN, BEN = (f"arn:aws:iam::111122223333:role/{each}" for each in ("Ann", "Ben"))
DOCTORS = "gpu-constructs:doctors"
ENV = {"account": "111122223333", "region": "us-east-1"}


def own_role(scope: Construct, id: str = "OnCall") -> aws_iam.Role:
    return aws_iam.Role(scope, id, assumed_by=aws_iam.AccountRootPrincipal())


def groups(resources: Resources) -> dict[str, list[str]]:
    """The groups of each access entry of a person, by the principal."""
    found = [each["Properties"] for each in of_type(resources, ENTRY).values()]
    return {json.dumps(each["PrincipalArn"]): each["KubernetesGroups"] for each in found if "KubernetesGroups" in each}


def statements(resources: Resources) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = only(resources, POLICY)["PolicyDocument"]["Statement"]
    return found


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def test_resources(stack: cdk.Stack, cluster: eks.ICluster, snapshot_yaml: SnapshotAssertion) -> None:
    DoctorAccess(stack, "Doctor", cluster=cluster, principals=[own_role(stack)])

    assert resources_under(stack, "Doctor") == snapshot_yaml


def test_the_role_is_the_one_that_the_command_prints(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    access = DoctorAccess(stack, "Doctor", cluster=cluster, principals=[ANN])

    resources = resources_of(stack)
    role, binding = manifest(resources, "ClusterRole"), manifest(resources, "ClusterRoleBinding")
    assert role == yaml.safe_load(policy("rbac"))
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list"}
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [each["name"] for each in binding["subjects"]] == [access.group] == [DOCTORS]
    for each in (role, binding):
        validate(each, "1.36")


def test_the_policy_has_the_actions_that_the_command_prints(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    DoctorAccess(stack, "Doctor", cluster=cluster, principals=[ANN])

    [printed] = json.loads(policy("iam"))["Statement"]
    found = [action for each in statements(resources_of(stack)) for action in as_list(each["Action"])]
    assert sorted(found) == printed["Action"]


def test_each_action_is_limited_to_the_cluster_or_to_its_region(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    DoctorAccess(stack, "Doctor", cluster=cluster, principals=[ANN])

    arn = "arn:aws:{}:us-east-1:111122223333:{}".format
    limits = {
        action: (as_list(each["Resource"]), each.get("Condition"))
        for each in statements(resources_of(stack))
        for action in as_list(each["Action"])
    }
    of_cluster = ([arn("eks", "cluster/demo")], None)
    quotas = [arn("servicequotas", f"ec2/{each}") for each in ("L-417A185B", "L-DB2E81BA")]
    assert {action: each for action, each in limits.items() if not action.startswith(("ec2:", "autoscaling:"))} == {
        "eks:DescribeCluster": of_cluster,
        "eks:ListAccessEntries": of_cluster,
        "eks:ListNodegroups": of_cluster,
        "eks:DescribeNodegroup": ([arn("eks", "nodegroup/demo/*")], None),
        "servicequotas:GetServiceQuota": (quotas, None),
    }
    in_region = {"StringEquals": {"aws:RequestedRegion": "us-east-1"}}
    others = [each for action, each in limits.items() if action.startswith(("ec2:", "autoscaling:"))]
    assert others
    assert all(each == (["*"], in_region) for each in others)


def test_an_action_has_an_arn_if_iam_accepts_one() -> None:
    import cfnlint

    file = Path(cfnlint.__file__).parent / "data" / "AdditionalSpecs" / "Policies.json"
    services = json.loads(file.read_text())
    for each in CALLS:
        service, _, name = each.action.partition(":")
        known = services[service]["Actions"][name.lower()].get("Resources", [])
        kinds = {"": [], "ec2": ["quota"]}.get(each.resource.partition("/")[0], [each.resource.partition("/")[0]])
        assert kinds == known, each.command


def test_a_role_of_the_app_has_the_policy(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    role = own_role(stack)
    DoctorAccess(stack, "Doctor", cluster=cluster, principals=[role])

    resources = resources_of(stack)
    assert only(resources, POLICY)["Roles"] == [stack.resolve(role.role_name)]
    assert list(groups(resources).values()) == [[DOCTORS]]
    assert only(resources, ENTRY)["PrincipalArn"] == stack.resolve(role.role_arn)
    assert "AccessPolicies" not in only(resources, ENTRY)


def test_other_principals_have_a_policy_to_attach(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    imported = aws_iam.Role.from_role_arn(stack, "Imported", BEN)
    DoctorAccess(stack, "Doctor", cluster=cluster, principals=[ANN, imported])

    assert "Roles" not in only(resources_of(stack), POLICY)
    assert groups(resources_of(stack)) == {f'"{ANN}"': [DOCTORS], f'"{BEN}"': [DOCTORS]}


def test_the_policy_can_be_attached_to_an_imported_role(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    imported = aws_iam.Role.from_role_arn(stack, "Imported", BEN)
    access = DoctorAccess(stack, "Doctor", cluster=cluster, principals=[imported])
    access.policy.attach_to_role(imported)

    assert only(resources_of(stack), POLICY)["Roles"] == ["Ben"]


def test_a_viewer_and_a_member_keep_one_entry(stack: cdk.Stack) -> None:
    gpu = GpuCluster(stack, "Gpu", auto_mode=AutoMode(), viewers=[ANN])
    by_name = aws_iam.Role.from_role_name(stack, "ByName", "Ben")
    DoctorAccess(stack, "Doctor", cluster=gpu, principals=[ANN, by_name])
    Team(stack, "Nlp", cluster=gpu, namespace="nlp", members={BEN: "edit"})

    resources = resources_of(stack)
    assert groups(resources) == {
        f'"{ANN}"': ["gpu-constructs:viewers", DOCTORS],
        f'"{BEN}"': [DOCTORS, "gpu-constructs:nlp:edit"],
    }


def test_a_moved_construct_keeps_its_resources() -> None:
    ids = []
    for folder in ("A", "B"):
        stack = cdk.Stack(cdk.App(context=FLAGS, analytics_reporting=False), "Test")
        gpu = GpuCluster(stack, "Gpu", cluster_name="demo", auto_mode=AutoMode())
        DoctorAccess(Construct(stack, folder), "Doctor", cluster=gpu, principals=[ANN, own_role(stack)])
        ids.append(set(resources_of(stack)))

    assert ids[0] == ids[1]


def test_roles_of_two_stacks_with_one_logical_id_have_two_entries(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    app = cast("Construct", stack.node.root)
    stacks = [cdk.Stack(app, each, env=cdk.Environment(**ENV)) for each in ("First", "Second")]
    DoctorAccess(stack, "Doctor", cluster=cluster, principals=[own_role(each) for each in stacks])

    assert len(of_type(resources_of(stack), ENTRY)) == 2
    assert len(only(resources_of(stack), POLICY)["Roles"]) == 2


def test_the_role_may_be_in_a_stack_after_the_cluster() -> None:
    app = cdk.App(context=FLAGS, analytics_reporting=False)
    first, second = (cdk.Stack(app, each, env=cdk.Environment(**ENV)) for each in ("Cluster", "Access"))
    gpu = GpuCluster(first, "Gpu", auto_mode=AutoMode())
    DoctorAccess(second, "Doctor", cluster=gpu, principals=[own_role(second)])

    resources = resources_of(second)
    assert len(of_type(resources, ENTRY)) == 1
    assert {each["kind"] for each in manifests_of(resources)} == {"ClusterRole", "ClusterRoleBinding"}
    assert [each.stack_name for each in first.dependencies] == []


@pytest.mark.parametrize("mode", ["API", "API_AND_CONFIG_MAP"])
def test_a_cluster_of_aws_eks_is_imported(stack: cdk.Stack, mode: str) -> None:
    from aws_cdk.lambda_layer_kubectl_v36 import KubectlV36Layer

    old = aws_eks.Cluster(
        stack,
        "Old",
        version=aws_eks.KubernetesVersion.of("1.36"),
        kubectl_layer=KubectlV36Layer(stack, "OldLayer"),
        authentication_mode=aws_eks.AuthenticationMode[mode],
        default_capacity=0,
    )
    with pytest.raises(TypeError, match=r"Refused: cluster must be .* got one of aws_cdk.aws_eks; import others with"):
        DoctorAccess(stack, "Refused", cluster=old, principals=[ANN])  # type: ignore[arg-type]
    provider = eks.KubectlProvider.from_kubectl_provider_attributes(
        stack,
        "Kubectl",
        service_token="arn:aws:lambda:us-east-1:111122223333:function:kubectl",
        role=aws_iam.Role.from_role_arn(stack, "KubectlRole", "arn:aws:iam::111122223333:role/kubectl"),
    )
    imported = eks.Cluster.from_cluster_attributes(
        stack, "New", cluster_name=old.cluster_name, vpc=old.vpc, kubectl_provider=provider
    )
    DoctorAccess(stack, "Doctor", cluster=imported, principals=[ANN])

    resources = resources_of(stack)
    name = stack.resolve(old.cluster_name)
    assert [each["Properties"]["ClusterName"] for each in of_type(resources, ENTRY).values()] == [name]
    assert json.dumps(name)[1:-1] in json.dumps(statements(resources))


def test_clusters_that_are_created(stack: cdk.Stack, created_cluster: eks.Cluster) -> None:
    DoctorAccess(stack, "Doctor", cluster=created_cluster, principals=[ANN])

    resources = resources_of(stack)
    name = stack.resolve(created_cluster.cluster_name)
    assert {f'"{ANN}"': [DOCTORS]} == groups(resources)
    assert json.dumps(name)[1:-1] in json.dumps(statements(resources))
    assert object_id(resources, "ClusterRole") in resources


def test_argo_cd_applies_the_role(tmp_path: Path) -> None:
    context = {**FLAGS, "gpu-constructs:delivery": "argocd", "gpu-constructs:manifests": str(tmp_path / "files")}
    app = cdk.App(context=context, analytics_reporting=False, outdir=str(tmp_path / "out"))
    stack = cdk.Stack(app, "Test", env=cdk.Environment(**ENV))
    cluster = eks.Cluster.from_cluster_attributes(stack, "Cluster", cluster_name="demo", vpc=imported_vpc(stack))
    DoctorAccess(stack, "Doctor", cluster=cluster, principals=[ANN])
    app.synth()

    template = json.loads((tmp_path / "out" / "Test.template.json").read_text())
    assert {each["Type"] for each in template["Resources"].values()} == {ENTRY, POLICY}
    written = [file.read_text() for file in (tmp_path / "files").rglob("*.yaml")]
    assert any(DOCTORS in each for each in written)


def test_warns_of_a_role_of_identity_center(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    role = "arn:aws:iam::111122223333:role/aws-reserved/sso.amazonaws.com/AWSReservedSSO_Nlp_0123456789abcdef"
    DoctorAccess(stack, "Doctor", cluster=cluster, principals=[role])

    Annotations.from_stack(stack).has_warning("/Test/Doctor", Match.string_like_regexp("another suffix"))


@pytest.mark.linted
def test_cloudformation_takes_it(stack: cdk.Stack, cluster: eks.ICluster, tmp_path: Path) -> None:
    DoctorAccess(stack, "Doctor", cluster=cluster, principals=[ANN, own_role(stack)])

    template = tmp_path / "template.json"
    template.write_text(json.dumps({"Resources": resources_of(stack)}))
    assert cfn_lint([template]) == []


@pytest.mark.parametrize(
    ("principals", "message"),
    [
        ([], r"Test/Doctor: principals must name at least one user or role, got none; write \['arn:aws:iam::"),
        (ANN, r"principals must be a list of ARNs or roles, got 'arn:aws:iam::111122223333:role/Ann'; write \["),
        ([4], r"principals must be ARNs or iam.IRole, got 4; write \["),
        ([ANN, ANN], r"principals must differ, got \(.*\); remove the duplicates"),
        (["arn:aws:sts::111122223333:assumed-role/x/y"], r"principals must be literal ARNs of IAM users or roles, got"),
        (["arn:aws:iam::111122223333:group/x"], r"principals must be literal ARNs of IAM users or roles, got"),
    ],
)
def test_refuses(stack: cdk.Stack, cluster: eks.ICluster, principals: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        DoctorAccess(stack, "Doctor", cluster=cluster, principals=principals)


@pytest.mark.parametrize("given", ["twice", "by ARN too"])
def test_refuses_a_role_that_is_named_twice(stack: cdk.Stack, cluster: eks.ICluster, given: str) -> None:
    role = own_role(stack) if given == "twice" else aws_iam.Role.from_role_arn(stack, "Role", ANN)

    with pytest.raises(ValueError, match=r"Test/Doctor: principals must differ"):
        DoctorAccess(stack, "Doctor", cluster=cluster, principals=[role, role if given == "twice" else ANN])


def test_refuses_an_administrator(stack: cdk.Stack) -> None:
    gpu = GpuCluster(stack, "Gpu", auto_mode=AutoMode(), admins=[ANN])

    with pytest.raises(ValueError, match=r"Doctor: principals must not name an administrator of the cluster"):
        DoctorAccess(stack, "Doctor", cluster=gpu, principals=[ANN])


def test_refuses_a_second_one_of_a_cluster(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    DoctorAccess(stack, "Doctor", cluster=cluster, principals=[ANN])

    with pytest.raises(ValueError, match=r"Second: cluster must have one DoctorAccess, .* name them all in one"):
        DoctorAccess(stack, "Second", cluster=cluster, principals=[BEN])


def test_refuses_a_cluster_without_kubectl(stack: cdk.Stack) -> None:
    bare = eks.Cluster.from_cluster_attributes(stack, "Bare", cluster_name="bare")

    with pytest.raises(ValueError, match=r"Test/Doctor: cluster must have a kubectl provider"):
        DoctorAccess(stack, "Doctor", cluster=bare, principals=[ANN])
