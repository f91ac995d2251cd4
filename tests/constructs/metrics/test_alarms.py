"""Prometheus raises the alarms when they are due, as its own promtool says: put it on the path, or these are skipped.

`go build github.com/prometheus/prometheus/cmd/promtool` in a module that requires it makes one.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_constructs.metrics.dcgm_exporter import prometheus_rule

PROMTOOL = shutil.which("promtool")
pytestmark = pytest.mark.skipif(PROMTOOL is None, reason="no promtool on the path")

USED = 'DCGM_FI_DEV_GPU_UTIL{gpu="%s",Hostname="%s"}'
HAS = 'kube_node_status_allocatable{node="%s",resource="nvidia_com_gpu",unit="integer"}'
ASKS = (
    'kube_pod_container_resource_requests{namespace="a",pod="%s",uid="1",container="m",node="%s",'
    'resource="nvidia_com_gpu",unit="integer"}'
)
PHASE = 'kube_pod_status_phase{namespace="a",pod="%s",uid="1",phase="%s"}'


def told(tool: str, folder: Path, *arguments: str) -> str:
    done = subprocess.run([tool, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def outcome(folder: Path, alarm: str, series: dict[str, str], at: str, expected: list[dict[str, str]]) -> str:
    """Promtool's errors about the alarms that are expected at a time, each with its labels."""
    rules = prometheus_rule(name="gpu", namespace="monitoring")["spec"]
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules))
    raised: list[dict[str, Any]] = [{"exp_labels": {"severity": "info", **labels}} for labels in expected]
    summaries = {each["alert"]: each["annotations"] for each in rules["groups"][1]["rules"]}
    for each, labels in zip(raised, expected, strict=True):
        text = summaries[alarm]["summary"]
        for key, value in labels.items():
            text = text.replace(f"{{{{ $labels.{key} }}}}", value)
        each["exp_annotations"] = {"summary": text}
    case = {
        "interval": "1m",
        "input_series": [{"series": key, "values": value} for key, value in series.items()],
        "alert_rule_test": [{"eval_time": at, "alertname": alarm, "exp_alerts": raised}],
    }
    test = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [case]}
    (folder / "test.yaml").write_text(yaml.safe_dump(test))
    return told(str(PROMTOOL), folder, "test", "rules", "test.yaml")


def test_prometheus_reads_every_rule(tmp_path: Path) -> None:
    rules = prometheus_rule(name="gpu", namespace="monitoring")["spec"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules))

    assert told(str(PROMTOOL), tmp_path, "check", "rules", "rules.yaml") == ""


@pytest.mark.parametrize(
    ("series", "at", "nodes"),
    [
        ({USED % (0, "n1"): "0x400", USED % (1, "n1"): "1x400"}, "250m", ["n1"]),
        ({USED % (0, "n1"): "0x400"}, "200m", []),
        ({USED % (0, "n1"): "0x400", USED % (1, "n1"): "0x200 80 0x199"}, "250m", []),
        ({USED % (0, "n1"): "0x400", USED % (0, "n2"): "90x400"}, "250m", ["n1"]),
    ],
    ids=["all-idle", "not-long-enough", "one-gpu-worked-once", "one-of-two-nodes"],
)
def test_a_node_whose_gpus_no_process_uses(tmp_path: Path, series: dict[str, str], at: str, nodes: list[str]) -> None:
    assert outcome(tmp_path, "GpuNodeIdle", series, at, [{"Hostname": each} for each in nodes]) == ""


@pytest.mark.parametrize(
    ("series", "at", "nodes"),
    [
        ({HAS % "n1": "8x90"}, "61m", ["n1"]),
        ({HAS % "n1": "8x90"}, "59m", []),
        ({HAS % "n1": "0x90"}, "61m", []),
        ({HAS % "n1": "8x90", ASKS % ("p", "n1"): "1x90", PHASE % ("p", "Running"): "1x90"}, "61m", []),
        (
            {
                HAS % "n1": "8x90",
                ASKS % ("p", "n1"): "1x90",
                PHASE % ("p", "Running"): "0x90",
                PHASE % ("p", "Succeeded"): "1x90",
            },
            "61m",
            ["n1"],
        ),
        (
            {
                HAS % "n1": "8x90",
                HAS % "n2": "8x90",
                ASKS % ("p", "n2"): "1x90",
                PHASE % ("p", "Pending"): "1x90",
                PHASE % ("p", "Running"): "0x90",
            },
            "61m",
            ["n1"],
        ),
    ],
    ids=["no-pod", "not-long-enough", "no-gpu", "asked-for", "by-a-pod-that-ended", "on-another-node"],
)
def test_a_node_whose_gpus_no_pod_requests(tmp_path: Path, series: dict[str, str], at: str, nodes: list[str]) -> None:
    assert outcome(tmp_path, "GpuNodeUnrequested", series, at, [{"node": each} for each in nodes]) == ""


@pytest.mark.parametrize(
    ("values", "at", "is_raised"),
    [("0x130", "61m", True), ("0x130", "59m", False), ("90x60 0x130", "127m", True), ("90x60 0x130", "119m", False)],
    ids=["never-used", "not-long-enough", "idle-for-an-hour", "busy-an-hour-ago"],
)
def test_a_pod_that_does_not_use_its_gpus(tmp_path: Path, values: str, at: str, is_raised: bool) -> None:
    labels = {"exported_namespace": "a", "exported_pod": "p"}
    series = {'DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="n1",exported_namespace="a",exported_pod="p"}': values}

    assert outcome(tmp_path, "GpuIdleButTaken", series, at, [labels] if is_raised else []) == ""
