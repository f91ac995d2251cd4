"""The end of a version's support is reported from 60 days before it."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.judging.check import check
from gpu_preflight.reading.inputs import read_input

PAYS = "extended support costs 0.50 USD an hour, 4,380 a year, until EKS upgrades the cluster on 2028-03-27"
TEMPLATE = """
Resources:
  Cluster:
    Type: AWS::EKS::Cluster
    Properties: {{Name: demo, Version: "1.35"{policy}}}
"""


@pytest.mark.parametrize(
    ("day", "policy", "said"),
    [
        ("2027-01-25", "", []),
        ("2027-01-26", "", [f"cluster demo: standard support of Kubernetes 1.35 ends on 2027-03-27; {PAYS}"]),
        ("2027-03-26", "", [f"cluster demo: standard support of Kubernetes 1.35 ends on 2027-03-27; {PAYS}"]),
        ("2027-03-27", "", [f"cluster demo: standard support of Kubernetes 1.35 ended on 2027-03-27; {PAYS}"]),
        (
            "2027-03-26",
            "STANDARD",
            [
                "cluster demo: standard support of Kubernetes 1.35 ends on 2027-03-27; EKS upgrades the cluster "
                "then, because UpgradePolicy is STANDARD"
            ],
        ),
        (
            "2028-03-27",
            "",
            [
                "cluster demo: standard support of Kubernetes 1.35 ended on 2027-03-27; extended support ended on "
                "2028-03-27, and EKS upgrades the cluster"
            ],
        ),
        ("2027-03-27", "EXTENDED", [f"cluster demo: standard support of Kubernetes 1.35 ended on 2027-03-27; {PAYS}"]),
    ],
)
def test_it_is_said_in_time(tmp_path: Path, monkeypatch: Any, day: str, policy: str, said: list[str]) -> None:
    now = datetime.fromisoformat(day).replace(tzinfo=timezone.utc)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(int(now.timestamp())))
    stated = f", UpgradePolicy: {{SupportType: {policy}}}" if policy else ""
    (tmp_path / "app.yaml").write_text(TEMPLATE.format(policy=stated))

    found = check(read_input([str(tmp_path / "app.yaml")], stack="app")).findings

    assert [each.problem.message for each in found if each.rule.id == "GPU273"] == said
