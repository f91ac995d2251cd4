"""The place of a finding is the object that the user must change."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_preflight.judging.baseline import FileAcknowledgement, Filters
from gpu_preflight.judging.check import Report, check
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.report.finding_view import FindingView, Lines, finding_views

_POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [g6]}]
"""
_CLASS = """\
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: gpu}
spec:
  role: nodes
  subnetSelectorTerms: [{tags: {cluster: demo}}]
  securityGroupSelectorTerms: [{tags: {cluster: demo}}]
"""
_LATEST = "  amiSelectorTerms:\n  - alias: al2023@latest\n"
_ROOT_20 = "  blockDeviceMappings:\n  - {deviceName: /dev/xvda, ebs: {volumeSize: 20Gi, encrypted: true}}\n"


def _check(folder: Path, node_class: str) -> Report:
    (folder / "pool.yaml").write_text(_POOL)
    (folder / "class.yaml").write_text(node_class)
    return check(read_input([str(folder)]))


def _found(report: Report, rule: str) -> FindingView:
    [found] = [each for each in finding_views(Lines(), report.findings, report.cases) if each.id == rule]
    return found


@pytest.mark.parametrize(
    ("rule", "written", "line", "field"),
    [
        ("GPU003", "  amiSelectorTerms:\n  - alias: al2@latest\n", 8, "spec.amiSelectorTerms"),
        ("GPU048", _LATEST + _ROOT_20, 10, "spec.blockDeviceMappings"),
        ("GPU050", _LATEST + _ROOT_20.replace("xvda", "xvdb"), 10, "spec.blockDeviceMappings"),
        ("GPU181", "  instanceProfile: nodes\n" + _LATEST, 4, "spec"),
        ("GPU181", "  amiSelectorTerms:\n  - name: my-image\n", 8, "spec.amiSelectorTerms"),
        ("GPU188", _LATEST, 8, "spec.amiSelectorTerms"),
        ("GPU301", _LATEST + _ROOT_20.replace("20Gi", "20GB"), 11, "spec.blockDeviceMappings[0].ebs.volumeSize"),
    ],
    ids=["GPU003", "GPU048", "GPU050", "GPU181_role", "GPU181_image", "GPU188", "GPU301"],
)
def test_fault_of_a_node_class_is_at_the_class(rule: str, written: str, line: int, field: str, tmp_path: Path) -> None:
    found = _found(_check(tmp_path, _CLASS + written), rule)

    assert (found.origin.path, found.origin.file) == ("EC2NodeClass gpu", str(tmp_path / "class.yaml"))
    assert (found.origin.line, found.origin.field) == (line, field)


@pytest.mark.parametrize("where", ["pool.yaml", "class.yaml"])
def test_settings_accept_a_fault_of_the_class_in_the_file_of_the_pool_or_the_class(where: str, tmp_path: Path) -> None:
    line = FileAcknowledgement("GPU188", "known", file=str(tmp_path / "gpu-constructs.toml"), within=where)

    report = Filters((line,)).applied(_check(tmp_path, _CLASS + _LATEST))

    assert [each.acknowledged for each in report.findings if each.rule.id == "GPU188"] == ["known"]


@pytest.mark.parametrize("where", ["pool.yaml", "class.yaml"])
def test_comment_in_the_pool_or_the_class_accepts_a_fault_of_the_class(where: str, tmp_path: Path) -> None:
    _check(tmp_path, _CLASS + _LATEST)
    file = tmp_path / where
    file.write_text(f"# gpu-constructs: ignore GPU188 the image is tested elsewhere\n{file.read_text()}")

    assert _found(check(read_input([str(tmp_path)])), "GPU188").accepted_by == "comment"
