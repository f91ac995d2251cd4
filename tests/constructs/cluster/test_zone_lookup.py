"""A VPC that the library creates needs no credentials at synth, and other VPCs of its stack look up their zones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_sqs as sqs

from gpu_constructs import GpuCluster, gpu_vpc
from tests.apps import lookups, run_program
from tests.templates import of_type, resources_of

LOOKUP = "availability-zones:account=111122223333:region=us-east-1"
CHOSEN = [{"Fn::Select": [number, {"Fn::GetAZs": ""}]} for number in (0, 1)]
NAMED = ["us-east-1b", "us-east-1d"]


def stack_with_children(folder: Path, **context: Any) -> cdk.Stack:
    """A stack in an account, in which the user already made something."""
    app = cdk.App(outdir=str(folder), context={"aws:cdk:disable-asset-staging": True, **context})
    stack = cdk.Stack(app, "Test", env=cdk.Environment(account="111122223333", region="us-east-1"))
    for id in ("First", "Second"):
        sqs.Queue(stack, id)
    return stack


def synthesized(stack: cdk.Stack) -> list[str]:
    """Return what the CLI would look up."""
    assembly = stack.node.root.synth()  # type: ignore[attr-defined]
    return lookups(Path(assembly.directory))


def zones_of(stack: cdk.Stack, kind: str = "Public") -> list[Any]:
    """Return the zones of the subnets of a kind."""
    subnets = of_type(resources_of(stack), "AWS::EC2::Subnet")
    return [each["Properties"]["AvailabilityZone"] for id, each in subnets.items() if f"{kind}Subnet" in id]


@pytest.mark.parametrize(
    ("named", "zones"),
    [({}, CHOSEN), ({"availability_zones": NAMED}, NAMED), ({"nat_gateways": 0}, CHOSEN)],
    ids=["chosen", "named", "isolated"],
)
def test_a_network_in_an_account_needs_no_lookup(named: dict[str, Any], zones: list[Any], tmp_path: Path) -> None:
    stack = stack_with_children(tmp_path)
    gpu_vpc(stack, "Net", **named)

    assert synthesized(stack) == []
    assert zones_of(stack, "Private") == zones


def test_the_network_that_a_cluster_makes_needs_no_lookup(tmp_path: Path) -> None:
    stack = stack_with_children(tmp_path)
    GpuCluster(stack, "Gpu")

    assert synthesized(stack) == []
    assert zones_of(stack) == CHOSEN


def test_what_the_stack_had_stays_in_its_order(tmp_path: Path) -> None:
    stack = stack_with_children(tmp_path)
    first = stack.node.find_child("First")
    gpu_vpc(stack, "Net")
    sqs.Queue(stack, "Third")

    ids = [each.node.id for each in stack.node.children]
    assert [ids.index(each) for each in ("First", "Second", "Net", "Third")] == sorted(
        ids.index(each) for each in ("First", "Second", "Net", "Third")
    )
    assert stack.node.find_child("First") is first
    assert [id[:5] for id in of_type(resources_of(stack), "AWS::SQS::Queue")] == ["First", "Secon", "Third"]


def test_children_that_cdk_made_return(tmp_path: Path) -> None:
    stack = stack_with_children(tmp_path)
    ec2.Vpc.from_lookup(stack, "Imported", vpc_id="vpc-0123456789abcdef0")
    gpu_vpc(stack, "Net")

    assert isinstance(stack.node.find_child("Imported").vpc_id, str)  # type: ignore[attr-defined]
    assert [each.node.path for each in stack.node.find_child("Imported").node.children] != []


def test_other_networks_of_the_stack_look_up_their_zones(tmp_path: Path) -> None:
    stack = stack_with_children(tmp_path)
    gpu_vpc(stack, "Net", availability_zones=NAMED)
    other = ec2.Vpc(stack, "Other", max_azs=3)

    assert other.availability_zones == ["dummy1a", "dummy1b", "dummy1c"]
    assert synthesized(stack) == [LOOKUP]


def test_a_network_that_is_refused_leaves_no_zones_behind(tmp_path: Path) -> None:
    stack = stack_with_children(tmp_path)
    with pytest.raises(RuntimeError, match="already a Construct with name 'First'"):
        gpu_vpc(stack, "First")

    assert stack.node.try_get_context(LOOKUP) is None
    assert {"First", "Second"} <= {each.node.id for each in stack.node.children}


def test_a_network_stays_in_zones_that_were_looked_up(tmp_path: Path) -> None:
    stack = stack_with_children(tmp_path, **{LOOKUP: ["us-east-1c", "us-east-1e", "us-east-1f"]})
    gpu_vpc(stack, "Net")

    assert synthesized(stack) == []
    assert zones_of(stack) == ["us-east-1c", "us-east-1e"]


def test_an_example_that_looked_something_up_would_fail(tmp_path: Path) -> None:
    program = """\
import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2

app = cdk.App()
ec2.Vpc(cdk.Stack(app, "Test"), "Net", availability_zones=["us-east-1a"])
app.synth()
"""

    with pytest.raises(AssertionError, match=LOOKUP):
        run_program(program, tmp_path)
