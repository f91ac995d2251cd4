"""The manifests of the guides: as schemas have them, and without false findings beside a cluster with GPUs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.judging.check import Report, check
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.documents import parse
from gpu_preflight.reading.inputs import read_input
from tests.conftest import ROOT
from tests.linting import cfn_lint
from tests.schemas import validate, validate_custom

GUIDES = ROOT / "docs" / "how-to" / "guides"
PAGES = sorted(each for each in GUIDES.glob("*.md") if each.name != "README.md")
# Objects of Kubernetes itself.
CORE = ("v1", "batch/v1", "storage.k8s.io/v1")
# The definitions of other kinds are missing when the tests run.
WITH_DEFINITION = ("TrainJob",)
CLUSTER = """\
Resources:
  Cluster:
    Type: AWS::EKS::Cluster
    Properties: {Name: demo, Version: "1.36", RoleArn: "arn:aws:iam::111122223333:role/cluster"}
  Gpu:
    Type: AWS::EKS::Nodegroup
    Properties:
      ClusterName: demo
      NodeRole: arn:aws:iam::111122223333:role/nodes
      AmiType: AL2023_x86_64_NVIDIA
      InstanceTypes: [g6.xlarge]
      ScalingConfig: {MinSize: 0, MaxSize: 4}
      Subnets: [subnet-0123456789abcdef0]
      Taints: [{Key: nvidia.com/gpu, Value: present, Effect: NO_SCHEDULE}]
  System:
    Type: AWS::EKS::Nodegroup
    Properties:
      ClusterName: demo
      NodeRole: arn:aws:iam::111122223333:role/nodes
      AmiType: AL2023_x86_64_STANDARD
      InstanceTypes: [m7i.large]
      ScalingConfig: {MinSize: 2, MaxSize: 2}
      Subnets: [subnet-0123456789abcdef0]
  Autoscaler:
    Type: AWS::EKS::PodIdentityAssociation
    Properties:
      ClusterName: demo
      Namespace: kube-system
      ServiceAccount: cluster-autoscaler
      RoleArn: arn:aws:iam::111122223333:role/cluster-autoscaler
  PodIdentity:
    Type: AWS::EKS::Addon
    Properties: {ClusterName: demo, AddonName: eks-pod-identity-agent}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: nvidia-device-plugin, namespace: kube-system}
spec:
  selector: {matchLabels: {app: plugin}}
  template:
    metadata: {labels: {app: plugin}}
    spec:
      tolerations: [{operator: Exists}]
      priorityClassName: system-node-critical
      containers: [{name: plugin, image: "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cluster-autoscaler, namespace: kube-system}
spec:
  replicas: 1
  selector: {matchLabels: {app: autoscaler}}
  template:
    metadata: {labels: {app: autoscaler}}
    spec:
      serviceAccountName: cluster-autoscaler
      containers:
        - name: autoscaler
          image: registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.1
          command:
            - ./cluster-autoscaler
            - --cloud-provider=aws
            - --node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/demo
"""
# A guide's helm commands, as a release of the same chart and values.
RELEASES = {
    "trainjob": """\
Resources:
  Trainer:
    Type: Custom::AWSCDK-EKS-HelmChart
    Properties:
      ClusterName: demo
      Chart: kubeflow-trainer
      Repository: oci://ghcr.io/kubeflow/charts/kubeflow-trainer
      Version: 2.3.0
      Namespace: kubeflow-system
      Values: '{"jobset": {"install": false}, "dataCache": {"lws": {"install": false}}}'
""",
}
VALUES = "# values.yaml"


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```yaml\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


def objects(page: Path) -> list[dict[str, Any]]:
    found = [each.content for block in blocks(page) if "Resources:" not in block for each in parse(page.name, block)]
    return [each for each in found if "kind" in each]


def of(name: str) -> Path:
    return GUIDES / f"{name}.md"


def report(page: Path, folder: Path) -> Report:
    """The findings in a guide's objects next to a cluster that has none itself."""
    texts = [CLUSTER, *(each for each in blocks(page) if not each.startswith(VALUES))]
    texts += [RELEASES[page.stem]] if page.stem in RELEASES else []
    files = [folder / f"{number}.yaml" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    return check(read_input([str(each) for each in files]))


def named(found: Report) -> set[tuple[str, str]]:
    return {(each.rule.id, each.problem.message) for each in found.findings if each.rule.severity != "note"}


@pytest.mark.parametrize("page", PAGES, ids=lambda each: each.stem)
def test_every_guide_is_listed_says_what_was_not_tried_and_has_dated_sources(page: Path) -> None:
    text = page.read_text()

    assert f"({page.name})" in (GUIDES / "README.md").read_text()
    assert "**Not tried**" in text
    assert re.search(r"Sources?: (.|\n)*\(.*20\d\d-\d\d\)\.$", text.strip())
    assert len(blocks(page)) > 0


@pytest.mark.parametrize("page", PAGES, ids=lambda each: each.stem)
def test_objects_of_kubernetes_are_valid(page: Path) -> None:
    for each in objects(page):
        if each["apiVersion"] in CORE:
            validate(each, "1.34")


@pytest.mark.parametrize("page", PAGES, ids=lambda each: each.stem)
def test_custom_resources_are_valid(page: Path, crds: Path) -> None:
    for each in objects(page):
        if each["kind"] in WITH_DEFINITION:
            validate_custom(each, crds)


@pytest.mark.linted
def test_cloudformation_takes_the_resources(tmp_path: Path) -> None:
    found = [block for page in PAGES for block in blocks(page) if "Resources:" in block]
    files = [tmp_path / f"{number}.yaml" for number in range(len(found))]
    for file, text in zip(files, found, strict=True):
        file.write_text(text)

    assert len(files) >= 5
    assert cfn_lint(files) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda each: each.stem)
def test_preflight_has_nothing_against_a_guide(page: Path, tmp_path: Path) -> None:
    (tmp_path / "alone.yaml").write_text(CLUSTER)
    alone = named(check(read_input([str(tmp_path / "alone.yaml")])))

    assert named(report(page, tmp_path)) - alone == set()


@pytest.mark.parametrize("name", ["efs", "s3-files", "trainjob", "image-caches", "secrets"])
def test_the_pods_of_a_guide_run(name: str, tmp_path: Path) -> None:
    [case] = report(of(name), tmp_path).cases

    assert [each.answer for each in case.verdicts] == [Answer.YES]


def test_a_train_job_is_two_pods(tmp_path: Path) -> None:
    [case] = report(of("trainjob"), tmp_path).cases

    assert [each.workload.replicas for each in case.verdicts] == [2]
