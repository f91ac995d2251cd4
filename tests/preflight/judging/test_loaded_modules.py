"""A check loads the scheduler and eksctl's rules only for inputs that need them, because it starts at every synth."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CLUSTER: dict[str, Any] = {
    "Type": "AWS::EKS::Cluster",
    "Properties": {"Name": "gpus", "RoleArn": "arn:aws:iam::1:role/a"},
}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train"},
    "spec": {"containers": [{"name": "a", "image": "a:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}]},
}
CONFIG: dict[str, Any] = {
    "apiVersion": "eksctl.io/v1alpha5",
    "kind": "ClusterConfig",
    "metadata": {"name": "gpus", "region": "us-east-1"},
}
SCHEDULER, EKSCTL = "gpu_preflight.scheduling.scheduler", "gpu_preflight.reading.eksctl.configs"
CODE = (
    "import sys; from gpu_preflight.judging.check import check; from gpu_preflight.reading.inputs import read_input; "
    "check(read_input([sys.argv[1]])); print(*sys.modules)"
)


@pytest.mark.parametrize(
    ("content", "needed"),
    [({"Resources": {"Cluster": CLUSTER}}, set()), (POD, {SCHEDULER}), (CONFIG, {EKSCTL})],
)
def test_check_loads_only_modules_that_its_input_needs(
    content: dict[str, Any], needed: set[str], tmp_path: Path
) -> None:
    file = tmp_path / "input.json"
    file.write_text(json.dumps(content))

    done = subprocess.run([sys.executable, "-c", CODE, str(file)], capture_output=True, text=True, check=True)

    assert {SCHEDULER, EKSCTL} & set(done.stdout.split()) == needed
