"""All resources belong to the configured account, and a network can exist before the stack."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpu_rehearsal.aws.server import Aws

ACCOUNT = "111122223333"


@pytest.fixture
def aws() -> Iterator[Aws]:
    """Simulated AWS with another account than the default one."""
    with Aws(region="us-east-1", account=ACCOUNT) as made:
        yield made


def test_created_resources_belong_to_the_account(aws: Aws) -> None:
    queue = aws.client("sqs").create_queue(QueueName="notices")["QueueUrl"]
    key = aws.client("kms").create_key()["KeyMetadata"]["Arn"]
    vpc = aws.client("ec2").create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]

    assert queue.split("/")[-2] == key.split(":")[4] == vpc["OwnerId"] == ACCOUNT
    assert aws.client("sts").get_caller_identity()["Account"] == ACCOUNT


def test_an_existing_network_keeps_its_ids_and_has_one_subnet_in_each_zone(aws: Aws) -> None:
    subnets = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]

    aws.create_existing_network(vpc="vpc-0123456789abcdef0", in_zones=subnets)

    found = aws.client("ec2").describe_subnets(SubnetIds=subnets)["Subnets"]
    assert {(each["SubnetId"], each["VpcId"], each["AvailabilityZone"]) for each in found} == {
        ("subnet-0123456789abcdef0", "vpc-0123456789abcdef0", "us-east-1a"),
        ("subnet-0123456789abcdef1", "vpc-0123456789abcdef0", "us-east-1b"),
    }
    assert aws.calls[-1].action == "ec2:DescribeSubnets"
