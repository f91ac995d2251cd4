"""Values of a release reach helm as the API server has them: with the keys that kubectl made, and in any letters."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.reading.inputs import read_input
from tests.preflight.reading.programs import needs

RELEASE = """
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: vision, namespace: ml}
spec:
  interval: 10m
  chart: {spec: {chart: ./vision, sourceRef: {kind: GitRepository, name: ours, namespace: flux-system}}}
  values: {pods: VALUES}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: ours, namespace: flux-system}
spec: {url: "https://example.com/ours", interval: 1m}
"""
TEMPLATE = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: vision}
spec:
  replicas: {{ .Values.pods.n | default 1 }}
  template:
    spec:
      containers: [{name: main, image: example.com/vision:1}]
"""


@pytest.mark.parametrize(
    ("values", "replicas"),
    [
        ('{"n": 5}', 5),
        ("{n: 5}", 1),
        ('{"n": 0o17}', 15),
        ('{"n": 1e1}', 10),
        ('{"n": 5, note: "\N{SLIGHTLY SMILING FACE}"}', 5),
    ],
)
def test_values_reach_the_chart(tmp_path: Path, values: str, replicas: int) -> None:
    needs("helm")
    files = {
        "release.yaml": RELEASE.replace("VALUES", values),
        "vision/Chart.yaml": "apiVersion: v2\nname: vision\nversion: 0.1.0\n",
        "vision/values.yaml": "pods: {}\n",
        "vision/templates/pods.yaml": TEMPLATE,
    }
    (tmp_path / "vision" / "templates").mkdir(parents=True)
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")

    found = read_input([str(tmp_path)])

    assert found.problems == ()
    assert [each.replicas for each in clusters(found)[0].workloads] == [replicas]
