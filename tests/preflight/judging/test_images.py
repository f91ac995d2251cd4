"""The images that a cluster pulls: from objects of any source, from charts, and unknown ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.judging.images import ImageName, Mirror, Pulls, ecr_region, find_images, parsed, pulls
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.reading.unknown import Unknown

EVERYTHING = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: train, namespace: ml}
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          initContainers: [{name: fetch, image: ghcr.io/example/fetch:1}]
          containers: [{name: train, image: "example/train@sha256:DIGEST"}]
          volumes: [{name: model, image: {reference: "registry.example.com:5000/model:7", pullPolicy: Always}}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: kube-system}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      containers:
      - name: agent
        image: busybox
        args: [--sidecar-image=quay.io/example/sidecar:2, --thanos-default-base-image=quay.io/thanos/thanos:v1]
        env: [{name: HELPER_IMAGE, value: "quay.io/example/helper:3"}, {name: HOME, value: /root}]
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: tune, namespace: ml}
spec: {runtimeRef: {name: torch}, trainer: {image: "docker.io/example/tune:4"}}
---
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: policy}
spec:
  driver: {enabled: true, repository: nvcr.io/nvidia, image: driver, version: "595"}
  gds: {enabled: false, repository: nvcr.io/nvidia/cloud-native, image: nvidia-fs, version: "2"}
  toolkit: {repository: nvcr.io/nvidia/k8s, image: container-toolkit, version: v1.20.0}
  dcgm: {enabled: false, repository: nvcr.io/nvidia/cloud-native, image: dcgm, version: "4"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: notes}
data: {image: nginx}
""".replace("DIGEST", "a" * 64)


def release(chart: str, version: str, repository: str, **values: Any) -> str:
    """A template with a release as the CDK writes it."""
    properties = {"ClusterName": "demo", "Chart": chart, "Repository": repository, "Namespace": "x"}
    properties |= {"Version": version} if version else {}
    properties |= {"Values": yaml.safe_dump(values)} if values else {}
    resource = {"Type": "Custom::AWSCDK-EKS-HelmChart", "Properties": properties}
    return yaml.safe_dump({"Resources": {"Chart": resource}})


def told(folder: Path, text: str, charts: Path | None = None) -> Pulls:
    file = folder / "input.yaml"
    file.write_text(text)
    [found] = pulls(clusters(read_input([str(file)])), charts)
    return found


def names(found: Pulls) -> list[str]:
    return sorted(map(str, found.images))


def test_every_place_that_names_an_image_counts(tmp_path: Path) -> None:
    found = told(tmp_path, EVERYTHING)

    assert names(found) == [
        "docker.io/example/train@sha256:" + "a" * 64,
        "docker.io/example/tune:4",
        "docker.io/library/busybox:latest",
        "ghcr.io/example/fetch:1",
        "nvcr.io/nvidia/k8s/container-toolkit:v1.20.0",
        "quay.io/example/helper:3",
        "quay.io/example/sidecar:2",
        "registry.example.com:5000/model:7",
    ]
    assert [reason for _, _, reason in found.not_known] == [
        "the image of driver depends on the node's kernel and operating system"
    ]


def test_a_workload_is_listed_once_for_an_image(tmp_path: Path) -> None:
    twice = EVERYTHING.split("---")[0].replace("ghcr.io/example/fetch:1", f"example/train@sha256:{'a' * 64}")

    found = told(tmp_path, twice)

    askers = found.images[ImageName("docker.io", "example/train", "", f"sha256:{'a' * 64}")]
    assert [each.what for each in askers] == ["CronJob ml/train"]


def test_an_image_that_deployment_names_is_not_known(tmp_path: Path) -> None:
    pod = "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: a, image: '${IMAGE}'}]}}"

    found = told(tmp_path, pod)

    assert not found.images
    [(what, _, reason)] = found.not_known
    assert (what, reason) == ("Pod default/a", "image ${IMAGE} is known at deployment only")


def test_a_chart_that_was_read_has_its_images(tmp_path: Path) -> None:
    found = told(tmp_path, release("kueue", "0.19.2", "oci://mirror.example.com/charts/kueue"))

    assert names(found) == ["registry.k8s.io/kueue/kueue:v0.19.2"]
    [chart] = found.charts
    assert (chart.images, chart.repository) == ("read", "oci://registry.k8s.io/kueue/charts/kueue")
    assert found.not_known == []


def test_of_another_version_only_its_values_are_known(tmp_path: Path) -> None:
    image = {"repository": "example.com/kueue", "tag": "v9"}
    values = {"controllerManager": {"manager": {"image": image}}}

    found = told(tmp_path, release("kueue", "0.99.0", "oci://registry.k8s.io/kueue/charts/kueue", **values))

    assert names(found) == ["example.com/kueue:v9"]
    [(what, _, reason)] = found.not_known
    assert what == "chart kueue 0.99.0"
    assert reason.startswith("images of this version of the chart aren't known, except images that its values name")


def test_a_chart_without_version_is_reported(tmp_path: Path) -> None:
    found = told(tmp_path, release("kueue", "", "oci://registry.k8s.io/kueue/charts/kueue"))

    assert "the version of the chart isn't known" in [reason for _, _, reason in found.not_known]


def test_values_that_set_other_images_are_reported(tmp_path: Path) -> None:
    values = {"grafana": {"imageRenderer": {"enabled": True}}}

    found = told(tmp_path, release("kube-prometheus-stack", "88.5.3", "oci://x.example.com/a", **values))

    [(_, _, reason)] = found.not_known
    assert reason.startswith("images of its value grafana.imageRenderer.enabled aren't known")


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("nginx", "docker.io/library/nginx:latest"),
        ("example/app:1", "docker.io/example/app:1"),
        ("localhost:5000/app", "localhost:5000/app:latest"),
        ("docker.io/nginx:1", "docker.io/library/nginx:1"),
        ("a.b/c@sha256:" + "0" * 64, "a.b/c@sha256:" + "0" * 64),
    ],
)
def test_names_are_reported_in_full(image: str, name: str) -> None:
    assert str(parsed(image)) == name


@pytest.mark.parametrize("image", ["${X}/y:1", "UPPER/case", "a b", "", "x:" + "t" * 200])
def test_what_is_no_name_is_none(image: str) -> None:
    assert parsed(image) is None


def test_deep_contents_are_read_without_recursion() -> None:
    deep: Any = {"image": "a/b:1"}
    for _ in range(5000):
        deep = [deep]

    assert list(find_images(deep)) == ["a/b:1"]
    assert list(find_images({"image": Unknown("${X}")})) == [Unknown("${X}")]


ECR = "111122223333.dkr.ecr.eu-west-1.amazonaws.com"


def place(image: str, *, mirror: str = ECR, region: str | None = "eu-west-1") -> str | None:
    name = parsed(image)
    assert name is not None
    return Mirror(mirror).image_destination(name, region).target


def test_an_image_keeps_its_path() -> None:
    assert place("nvcr.io/nvidia/k8s-device-plugin:v0.20.0") == f"{ECR}/nvidia/k8s-device-plugin:v0.20.0"
    assert place("nginx") == f"{ECR}/library/nginx:latest"


def test_a_digest_is_kept_by_the_manifest_itself() -> None:
    digest = "sha256:" + "a" * 64
    assert place(f"a.b/c:1@{digest}") == f"{ECR}/c:1"
    assert place(f"a.b/c@{digest}") == f"{ECR}/c@{digest}"


def test_what_is_there_already_is_not_copied() -> None:
    assert place(f"{ECR}/c:1") is None
    assert place("444455556666.dkr.ecr.eu-west-1.amazonaws.com/c:1") is None
    assert place("444455556666.dkr.ecr.us-west-2.amazonaws.com/c:1") == f"{ECR}/c:1"
    assert place("444455556666.dkr.ecr.us-west-2.amazonaws.com/c:1", mirror="m.example.com", region=None) is None


@pytest.mark.parametrize("registry", ["https://a.example.com", "a.example.com/b", "mirror", "", "a b.c", "oci://a.b"])
def test_refuses_a_mirror_that_is_no_host(registry: str) -> None:
    with pytest.raises(ValueError, match="--mirror must be the host of a registry"):
        Mirror(registry)


@pytest.mark.parametrize("registry", [ECR, "localhost:5000", "mirror.example.com:443"])
def test_takes_hosts(registry: str) -> None:
    assert Mirror(registry).charts == f"oci://{registry}/charts"


def test_refuses_images_that_would_take_each_others_place(tmp_path: Path) -> None:
    pods = [
        f"{{apiVersion: v1, kind: Pod, metadata: {{name: a}}, spec: {{containers: [{{image: '{each}/a/b:1'}}]}}}}"
        for each in ("quay.io", "ghcr.io")
    ]
    found = told(tmp_path, "\n---\n".join(pods))

    with pytest.raises(ValueError, match=r"got m.example.com/a/b:1 for (ghcr|quay).io/a/b:1 and for"):
        Mirror("m.example.com").refuse_twins([found])


def test_regions_of_ecr() -> None:
    assert ecr_region(ECR) == "eu-west-1"
    assert ecr_region("111122223333.dkr.ecr-fips.us-gov-west-1.amazonaws.com") == "us-gov-west-1"
    assert ecr_region("111122223333.dkr.ecr.cn-north-1.amazonaws.com.cn") == "cn-north-1"
    assert ecr_region("public.ecr.aws") is None
