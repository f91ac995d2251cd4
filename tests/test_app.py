"""The real cdk CLI runs the app: with CDK's own validator on, and with context that is wrong."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

BIN = Path(sys.executable).parent


def cdk(*arguments: str, output: Path) -> subprocess.CompletedProcess[str]:
    """Run the cdk of this environment, validator on, for an account without its credentials."""
    environment = {
        key: value
        for key, value in os.environ.items()
        if key not in ("CDK_VALIDATION", "PYTEST_CURRENT_TEST", "PYTEST_VERSION")
    }
    environment |= {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "CDK_DISABLE_CLI_TELEMETRY": "true"}
    environment |= {"CDK_DEFAULT_ACCOUNT": "111122223333", "AWS_EC2_METADATA_DISABLED": "true"}
    command = [str(BIN / "cdk"), *arguments, "--output", str(output)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(autouse=True)
def _cdk_is_installed() -> None:
    if not (BIN / "cdk").exists():
        pytest.skip("no cdk beside this Python: pip install -r requirements.txt")


@pytest.mark.linted
@pytest.mark.parametrize("mode", ["cluster-autoscaler", "karpenter"])
def test_synth_passes_cdks_own_rules_as_errors(mode: str, tmp_path: Path) -> None:
    said = (f"autoscaler={mode}", "smoke_test=true", "admins=arn:aws:iam::111122223333:role/Admin")
    context = [word for each in said for word in ("-c", each)]
    done = cdk("synth", "GpuClusterStack", "--quiet", *context, output=tmp_path)

    assert done.returncode == 0, done.stderr
    assert json.loads((ROOT / "cdk.json").read_text())["context"]["@aws-cdk/core:validateAgainstDefaultRules"] is True
    # A plugin reports only what it found: not even a warning here.
    assert json.loads((tmp_path / "validation-report.json").read_text())["pluginReports"] == []


@pytest.mark.linted
def test_the_same_synth_fails_on_a_template_that_is_wrong(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(
        "import aws_cdk as cdk\n"
        "from aws_cdk import aws_eks as eks\n"
        "app = cdk.App()\n"
        "stack = cdk.Stack(app, 'Wrong')\n"
        "eks.CfnNodegroup(stack, 'Group', cluster_name='a', node_role='arn:aws:iam::111122223333:role/a', "
        "subnets=['subnet-a'])\n"
        "app.synth()\n"
    )

    done = cdk("synth", "Wrong", "--quiet", "--app", f"{sys.executable} {app}", output=tmp_path / "out")
    assert done.returncode != 0
    assert "'subnet-a' does not match format 'AWS::EC2::Subnet.Id'" in done.stderr


def test_a_wrong_key_ends_in_one_line_that_names_the_right_one(tmp_path: Path) -> None:
    done = cdk("synth", "GpuClusterStack", "--quiet", "-c", "autoscalr=karpenter", output=tmp_path)

    assert done.returncode != 0
    assert re.search(r"^app.py:\d+: gpu-constructs: context: key must be one of", done.stderr, re.MULTILINE)
    assert "did you mean 'autoscaler'?" in done.stderr
    assert "Traceback" not in done.stderr
