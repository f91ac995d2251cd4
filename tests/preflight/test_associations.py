"""Two templates that name one cluster may mean one in each of two accounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_preflight.judging.check import check
from gpu_preflight.reading.inputs import read_input

CLUSTER = """
  Cluster:
    Type: AWS::EKS::Cluster
    Properties: {Name: prod, RoleArn: "arn:aws:iam::444455556666:role/cluster", ResourcesVpcConfig: {SubnetIds: []}}
"""
ROLE = """
  Identity{number}:
    Type: AWS::EKS::PodIdentityAssociation
    Properties: {{ClusterName: prod, Namespace: train, ServiceAccount: train, RoleArn: "arn:aws:iam::1:role/a"}}
"""


@pytest.mark.parametrize("together", [True, False])
def test_it_is_certain_within_one_template(tmp_path: Path, together: bool) -> None:
    first, second = ROLE.format(number=1), ROLE.format(number=2)
    texts = [CLUSTER + first + second] if together else [CLUSTER + first, second]
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.yaml").write_text(f"Resources:{text}")

    [found] = [each for each in check(read_input([str(tmp_path)])).findings if each.rule.id == "GPU400"]
    assert found.problem.unknown is not together
