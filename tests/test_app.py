"""The real cdk CLI runs the app: with CDK's own validator on, and with context that is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

BIN = Path(sys.executable).parent


def cdk(*arguments: str, output: Path) -> subprocess.CompletedProcess[str]:
    """Run the cdk of this environment, validator on, without credentials."""
    environment = {
        key: value
        for key, value in os.environ.items()
        if key not in ("CDK_VALIDATION", "PYTEST_CURRENT_TEST", "PYTEST_VERSION")
    }
    environment |= {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "CDK_DISABLE_CLI_TELEMETRY": "true"}
    command = [str(BIN / "cdk"), *arguments, "--output", str(output)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(autouse=True)
def _cdk_is_installed() -> None:
    if not (BIN / "cdk").exists():
        pytest.skip("no cdk beside this Python: pip install -r requirements.txt")


@pytest.mark.parametrize("mode", ["cluster-autoscaler", "karpenter"])
def test_synth_passes_cdks_own_rules_as_errors(mode: str, tmp_path: Path) -> None:
    done = cdk(
        "synth", "GpuClusterStack", "--quiet", "-c", f"autoscaler={mode}", "-c", "smoke_test=true", output=tmp_path
    )

    assert done.returncode == 0, done.stderr
    assert json.loads((ROOT / "cdk.json").read_text())["context"]["@aws-cdk/core:validateAgainstDefaultRules"] is True
    report = json.loads((tmp_path / "validation-report.json").read_text())
    assert [each["conclusion"] for each in report["pluginReports"]] == ["success"] * len(report["pluginReports"])
    assert "CloudFormation-Validate" in {each["pluginName"] for each in report["pluginReports"]}


def test_a_wrong_key_ends_in_one_line_that_names_the_right_one(tmp_path: Path) -> None:
    done = cdk("synth", "GpuClusterStack", "--quiet", "-c", "autoscalr=karpenter", output=tmp_path)

    assert done.returncode != 0
    assert "gpu-constructs: context: key must be one of" in done.stderr
    assert "did you mean 'autoscaler'?" in done.stderr
    assert "Traceback" not in done.stderr
