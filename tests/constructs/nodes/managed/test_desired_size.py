"""The wanted size of a managed group is asked for again whenever the group changes, and never otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import jsii
import pytest
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import IConstruct
from jsii._kernel.providers import process

from gpu_constructs import CapacityBlock, Disk, GpuCluster, ManagedNodeGroup, NodeShape, Spot, Taint
from gpu_constructs.nodes import ZonalNodeGroups
from gpu_constructs.pools import Kubelet, NodeRepair
from tests.clusters import imported_cluster, imported_vpc
from tests.conftest import FLAGS
from tests.templates import Resources, depends_on, of_type, resources_of

SIZE = "Custom::GpuNodeGroupSize"
L4 = NodeShape(instance_types=("g6.xlarge",))


def made(change: Callable[[cdk.Stack], None] = lambda _: None, **changes: Any) -> Resources:
    """A stack with two groups, of which the first is changed."""
    stack = cdk.Stack(cdk.App(context=FLAGS, analytics_reporting=False), "Test")
    cluster = imported_cluster(stack, imported_vpc(stack, ("us-east-1a", "us-east-1b", "us-east-1c")))
    says: dict[str, Any] = {"name": "l4", "shape": L4, "max_nodes": 4} | changes
    ManagedNodeGroup(stack, "L4", cluster=cluster, **says)
    ManagedNodeGroup(stack, "Other", cluster=cluster, name="other", shape=L4, max_nodes=2)
    change(stack)
    return resources_of(stack)


def asked(resources: Resources, group: str = "L4") -> dict[str, Any]:
    """The properties of the function's request for a group."""
    [found] = [each for id, each in of_type(resources, SIZE).items() if id.startswith(group)]
    return dict(found["Properties"])


def group_of(resources: Resources, name: str = "L4") -> tuple[str, dict[str, Any]]:
    [found] = [(id, each) for id, each in of_type(resources, "AWS::EKS::Nodegroup").items() if id.startswith(name)]
    return found


def test_the_group_takes_the_answer() -> None:
    resources = made(min_nodes=1)

    [size] = [id for id in of_type(resources, SIZE) if id.startswith("L4")]
    sizes = group_of(resources)[1]["Properties"]["ScalingConfig"]
    assert sizes == {"MinSize": 1, "MaxSize": 4, "DesiredSize": {"Fn::GetAtt": [size, "DesiredSize"]}}
    assert (asked(resources)["Min"], asked(resources)["Max"]) == (1, 4)


def test_the_function_finds_the_group_by_its_logical_id() -> None:
    resources = made()

    for name in ("L4", "Other"):
        assert asked(resources, name)["Group"]["LogicalId"] == group_of(resources, name)[0]


def test_one_function_answers_for_all_groups_of_a_stack() -> None:
    resources = made()

    assert len(of_type(resources, SIZE)) == 2
    assert len(of_type(resources, "AWS::Lambda::Function")) == 1


@jsii.implements(cdk.IAspect)
class Forced:
    """Change every group, as an aspect in a user's app can."""

    def visit(self, node: IConstruct) -> None:
        """Change a property."""
        if isinstance(node, eks.CfnNodegroup):
            node.force_update_enabled = True


def group(stack: cdk.Stack) -> Any:
    return stack.node.find_child("L4").node.find_child("Resource")


CHANGES: dict[str, dict[str, Any]] = {
    "a label": {"shape": NodeShape(instance_types=("g6.xlarge",), labels={"team": "a"})},
    "a taint": {"shape": NodeShape(instance_types=("g6.xlarge",), taints=(Taint(key="team", value="a"),))},
    "the type": {"shape": NodeShape(instance_types=("g6.2xlarge",))},
    "the system": {"shape": NodeShape(instance_types=("g6.xlarge",), operating_system="bottlerocket")},
    "how it is bought": {"capacity": Spot()},
    "the most": {"max_nodes": 5},
    "the least": {"min_nodes": 1},
    "the repair": {"node_repair": NodeRepair(enabled=False)},
}
# EKS changes these by a call that leaves the sizes alone, and CloudFormation rejects them together with others.
LEFT_OUT: dict[str, dict[str, Any]] = {
    "the disk, in the launch template": {"shape": NodeShape(instance_types=("g6.xlarge",), disk=Disk(iops=4000))},
    "kubelet, in user data": {
        "shape": NodeShape(instance_types=("g6.xlarge",), kubelet=Kubelet(parallel_image_pulls=4))
    },
    "the release": {"ami_release": "1.36.3-20260903"},
}
TOUCHED: dict[str, Callable[[cdk.Stack], None]] = {
    "an override": lambda stack: group(stack).add_property_override("UpdateConfig.MaxUnavailable", 2),
    "a deletion": lambda stack: group(stack).add_property_deletion_override("NodeRepairConfig"),
    "a property of the L1": lambda stack: setattr(group(stack), "force_update_enabled", True),
    "a tag": lambda stack: cdk.Tags.of(stack.node.find_child("L4")).add("team", "a"),
    "an aspect": lambda stack: cdk.Aspects.of(stack.node.find_child("L4")).add(Forced()),
}


def test_without_a_change_it_is_not_asked() -> None:
    assert of_type(made(), SIZE) == of_type(made(), SIZE)


@pytest.mark.parametrize("what", LEFT_OUT)
def test_it_is_not_asked_for_another_version_or_launch_template(what: str) -> None:
    before, after = made(), made(**LEFT_OUT[what])

    assert {**before} != {**after}
    assert asked(before) == asked(after)


@pytest.mark.parametrize("name", ["Version", "ReleaseVersion", "LaunchTemplate.Version"])
def test_it_is_not_asked_for_an_override_of_these(name: str) -> None:
    def change(stack: cdk.Stack) -> None:
        group(stack).add_property_override(name, "1")

    assert asked(made(change)) == asked(made())
    assert group_of(made(change)) != group_of(made())


@pytest.mark.parametrize("what", CHANGES)
def test_it_is_asked_again_for_a_changed_group_and_for_no_other(what: str) -> None:
    before, after = made(), made(**CHANGES[what])

    assert asked(before) != asked(after)
    assert asked(before, "Other") == asked(after, "Other")


@pytest.mark.parametrize("what", TOUCHED)
def test_it_is_called_again_after_any_change_of_a_group(what: str) -> None:
    before, after = made(), made(TOUCHED[what])

    assert asked(before) != asked(after)
    assert asked(before, "Other") == asked(after, "Other")


def test_references_of_a_group_are_in_the_request() -> None:
    """No hash sees that what a reference names is replaced, or gets another version; CloudFormation does."""
    resources = made()
    _, told = group_of(resources)

    references = json.dumps(asked(resources)["Group"]["References"])
    for each in (*told["Properties"]["Subnets"], told["Properties"]["NodeRole"]):
        assert json.dumps(each) in references


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of every changeable value in a group: literals, and references as wholes."""
    if isinstance(value, dict) and not (len(value) == 1 and next(iter(value)).startswith(("Ref", "Fn::"))):
        return [each for key, inner in value.items() for each in leaves(inner, (*path, key))]
    if isinstance(value, list):
        return [each for number, inner in enumerate(value) for each in leaves(inner, (*path, number))]
    return [path]


def test_each_property_of_a_group_is_asked_about() -> None:
    """Every leaf of the emitted group, overridden in turn, changes what the function is asked."""
    resources = made()
    before = asked(resources)
    left = ("ScalingConfig", "LaunchTemplate", "Version", "ReleaseVersion")
    paths = [each for each in leaves(group_of(resources)[1]["Properties"]) if each[0] not in left]

    for path in paths:
        name = ".".join(str(each).replace(".", "\\.") for each in path)
        after = asked(made(lambda stack, name=name: group(stack).add_property_override(name, "other")))  # type: ignore[misc]
        assert after != before, name
    assert len(paths) > 15


def test_it_is_asked_last() -> None:
    """The size has the same dependencies as the group, so that nothing happens between the answer and the group."""

    def wait(stack: cdk.Stack) -> None:
        role = iam.CfnRole(stack, "Late", assume_role_policy_document={})
        group(stack).add_dependency(role)
        cdk.CfnResource(stack, "Later", type="AWS::SNS::Topic")
        stack.node.find_child("L4").node.add_dependency(stack.node.find_child("Later"))

    resources = made(wait)

    id, _ = group_of(resources)
    [size] = [each for each in of_type(resources, SIZE) if each.startswith("L4")]
    assert {"Late", "Later"} <= depends_on(resources, size)
    [template] = [each for each in of_type(resources, "AWS::EC2::LaunchTemplate") if each.startswith("L4")]
    assert depends_on(resources, id) == depends_on(resources, size) | {size, template}


def test_the_groups_of_zones_are_told_apart() -> None:
    stack = cdk.Stack(cdk.App(context=FLAGS, analytics_reporting=False), "Test")
    cluster = imported_cluster(stack, imported_vpc(stack))
    ZonalNodeGroups(stack, "Zonal", cluster=cluster, name="l4", shape=L4, max_nodes_per_zone=2)

    resources = resources_of(stack)
    asked_for = [each["Properties"]["Group"]["LogicalId"] for each in of_type(resources, SIZE).values()]
    assert asked_for == list(of_type(resources, "AWS::EKS::Nodegroup"))


def test_system_nodes_are_asked_for_too() -> None:
    stack = cdk.Stack(cdk.App(context=FLAGS, analytics_reporting=False), "Test")
    GpuCluster(stack, "Gpu").add_pool("l4", "g6.xlarge", max_nodes=2)

    resources = resources_of(stack)
    for each in of_type(resources, "AWS::EKS::Nodegroup").values():
        assert set(each["Properties"]["ScalingConfig"]) == {"MinSize", "MaxSize", "DesiredSize"}
    assert len(of_type(resources, SIZE)) == 2


def test_a_capacity_block_takes_all_three_sizes_from_the_answer() -> None:
    block = CapacityBlock(
        id="cr-0123456789abcdef0",
        availability_zone="us-east-1a",
        starts=datetime(2026, 12, 1, 11, 30, tzinfo=timezone.utc),
        ends=datetime(2026, 12, 3, 11, 30, tzinfo=timezone.utc),
        instances=2,
    )
    resources = made(shape=NodeShape(instance_types=("p5.48xlarge",)), capacity=block, max_nodes=2)

    [size] = [each for each in of_type(resources, SIZE) if each.startswith("L4")]
    sizes = group_of(resources)[1]["Properties"]["ScalingConfig"]
    assert sizes == {each: {"Fn::GetAtt": [size, each]} for each in ("MinSize", "MaxSize", "DesiredSize")}
    assert asked(resources)["Starts"] == "2026-12-01T11:30:00+00:00"
    assert asked(resources)["Drained"] == "2026-12-03T10:30:00+00:00"


def test_the_function_may_read_sizes_and_nothing_else() -> None:
    resources = made()

    [role] = [each for id, each in of_type(resources, "AWS::IAM::Role").items() if "Size" in id]
    [policy] = role["Properties"]["Policies"]
    allowed = [each["Action"] for each in policy["PolicyDocument"]["Statement"]]
    assert allowed == [
        "eks:DescribeNodegroup",
        "autoscaling:DescribeAutoScalingGroups",
        ["cloudformation:DescribeStacks", "cloudformation:DescribeStackResource"],
        ["logs:CreateLogStream", "logs:PutLogEvents"],
    ]
    assert [each["Resource"] == "*" for each in policy["PolicyDocument"]["Statement"]] == [
        False,
        True,
        False,
        False,
    ]


def test_its_code_runs_alone() -> None:
    """Lambda has Python's library and boto3, and the one file."""
    code = next(iter(of_type(made(), "AWS::Lambda::Function").values()))["Properties"]["Code"]["ZipFile"]

    assert "gpu_constructs" not in code.replace("gpu-constructs", "")
    compile(code, "index.py", "exec")


def calls_of(groups: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how often a synth of that many groups crosses to the process of the CDK."""
    count = 0
    send = process._NodeProcess.send

    def counted(self: Any, request: Any, response: Any) -> Any:
        nonlocal count
        count += 1
        return send(self, request, response)

    app = cdk.App(context=FLAGS, analytics_reporting=False)
    stack = cdk.Stack(app, "Test")
    gpu = GpuCluster(stack, "Gpu")
    with monkeypatch.context() as patch:
        patch.setattr(process._NodeProcess, "send", counted)
        for number in range(groups):
            gpu.add_pool(f"l4-{number}", "g6.xlarge", max_nodes=4)
        app.synth()
    return count


def test_another_group_takes_few_calls_to_the_cdk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call crosses a process boundary; 83 a group made a synth of 100 groups twice as long."""
    calls_of(1, monkeypatch)

    assert calls_of(12, monkeypatch) - calls_of(2, monkeypatch) <= 10 * 19


def unresolved(template: Any) -> set[str]:
    """Return the logical ids that a template refers to and does not have."""
    known = {*template["Resources"], *template.get("Parameters", {})}

    def named(value: Any) -> set[str]:
        if isinstance(value, dict):
            own = {value["Ref"]} if set(value) == {"Ref"} else set()
            return own.union(*map(named, value.values()))
        return set().union(*map(named, value)) if isinstance(value, list) else set()

    return {each for each in named(template["Resources"]) if each not in known and not each.startswith("AWS::")}


@pytest.mark.parametrize("nested", [False, True])
def test_a_group_of_another_stack_names_what_its_own_stack_has(nested: bool) -> None:
    app = cdk.App(context=FLAGS, analytics_reporting=False)
    stack = cdk.Stack(app, "Test")
    gpu = GpuCluster(stack, "Gpu")
    other = cdk.NestedStack(stack, "Other") if nested else cdk.Stack(app, "Other")
    ManagedNodeGroup(other, "L4", cluster=gpu, name="l4", shape=L4, max_nodes=4)

    folder = Path(app.synth().directory)
    templates = [json.loads(each.read_text()) for each in folder.glob("*.template.json")]
    groups = [each for each in templates if any(id.startswith("L4") for id in of_type(each["Resources"], SIZE))]
    assert len(groups) == 1
    assert [unresolved(each) for each in templates] == [set()] * len(templates)


def test_what_changes_after_a_first_synth_is_seen() -> None:
    app = cdk.App(context=FLAGS, analytics_reporting=False)
    stack = cdk.Stack(app, "Test")
    group = ManagedNodeGroup(stack, "L4", cluster=GpuCluster(stack, "Gpu"), name="l4", shape=L4, max_nodes=4)
    before = app.synth().get_stack_by_name("Test").template["Resources"]
    group.resource.add_property_override("Labels.team", "vision")
    after = app.synth(force=True).get_stack_by_name("Test").template["Resources"]

    assert asked(before)["Group"] != asked(after)["Group"]
