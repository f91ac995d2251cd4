"""The same objects as files for Argo CD or Flux: nothing is applied, and values known at deployment become outputs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, cast

import aws_cdk as cdk
import pytest
import yaml
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import GpuDeployment, GpuPod, ManagedNodeGroup, NodeShape, OnDemand
from gpu_constructs.installing.gitops import ManifestFile, delivery_method, flux_release
from gpu_constructs.metrics import DcgmExporter, PrometheusStack
from gpu_facts.versions import GPU_OPERATOR, KUEUE
from stacks.inference_cluster_stack import InferenceClusterStack
from stacks.training_cluster_stack import TrainingClusterStack
from tests.clusters import imported_vpc
from tests.conftest import FLAGS
from tests.templates import CHART, MANIFEST, manifests_of, of_type

PLACEHOLDER = re.compile(r"\$\{(\w+)\}")


def synthesize(
    folder: Path, delivery: str | None, stack: Callable[..., cdk.Stack] = InferenceClusterStack
) -> dict[str, Any]:
    """The template of a reference stack, whose files go to ``folder``."""
    told = {"gpu-constructs:delivery": delivery, "gpu-constructs:manifests": str(folder)}
    app = cdk.App(context=FLAGS | {key: value for key, value in told.items() if value}, analytics_reporting=False)
    if stack is TrainingClusterStack:
        stack(app, "Gpu", availability_zones=("us-east-1a", "us-east-1b"), capacity=OnDemand(), max_nodes=2)
    else:
        stack(app, "Gpu", max_gpus=8)
    return dict(app.synth().get_stack_by_name("Gpu").template)


def objects(folder: Path) -> list[dict[str, Any]]:
    return [each for file in sorted(folder.glob("Gpu/objects/*.yaml")) for each in yaml.safe_load_all(file.read_text())]


def charts(folder: Path) -> dict[str, dict[str, Any]]:
    """The chart's objects by kind and name."""
    files = sorted(folder.glob("Gpu/charts/*.yaml"))
    made = [each for file in files for each in yaml.safe_load_all(file.read_text())]
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in made}


def comparable(manifest: dict[str, Any]) -> str:
    """An object without what kubectl's handler adds, and without what only deployment tells."""
    labels = manifest["metadata"].get("labels", {})
    kept = {key: value for key, value in labels.items() if not key.startswith("aws.cdk.eks/")}
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "labels"}
    found = manifest | {"metadata": metadata | ({"labels": kept} if kept else {})}
    return re.sub(r"\$\{\w+(\.\w+)*\}|<[^<>]*>", "?", json.dumps(found, sort_keys=True))


@pytest.mark.parametrize("stack", [InferenceClusterStack, TrainingClusterStack])
@pytest.mark.parametrize("delivery", ["argocd", "flux"])
def test_nothing_is_applied(tmp_path: Path, delivery: str, stack: type[cdk.Stack]) -> None:
    resources = synthesize(tmp_path, delivery, stack)["Resources"]

    assert of_type(resources, MANIFEST) == of_type(resources, CHART) == {}
    # The handler of manifests is a Lambda function with kubectl and helm in a layer.
    assert of_type(resources, "AWS::Lambda::LayerVersion") == {}
    assert of_type(resources, "AWS::EKS::Cluster")


def test_the_objects_are_the_same(tmp_path: Path) -> None:
    applied = list(manifests_of(synthesize(tmp_path, None)["Resources"]))
    assert list(tmp_path.iterdir()) == []
    synthesize(tmp_path, "argocd")

    written = objects(tmp_path)
    names = {(each["kind"], each["metadata"]["name"]) for each in written}
    assert names == {(each["kind"], each["metadata"]["name"]) for each in applied}
    exact = {comparable(each) for each in applied if each["kind"] != "EC2NodeClass"}
    assert exact == {comparable(each) for each in written if each["kind"] != "EC2NodeClass"}


def test_what_deployment_tells_is_an_output(tmp_path: Path) -> None:
    outputs = synthesize(tmp_path, "flux")["Outputs"]

    named = {key for file in tmp_path.glob("Gpu/*/*.yaml") for key in PLACEHOLDER.findall(file.read_text())}
    assert named
    assert named <= outputs.keys()
    [role] = [key for key in named if key.startswith("PoolLarge") and key.endswith("Role")]
    assert "Ref" in outputs[role]["Value"]


@pytest.mark.parametrize("delivery", ["argocd", "flux"])
def test_files(tmp_path: Path, delivery: str, snapshot_yaml: SnapshotAssertion) -> None:
    synthesize(tmp_path, delivery)

    assert [*charts(tmp_path).values(), *objects(tmp_path)] == snapshot_yaml


def test_argo_cd_takes_a_chart_from_its_registry(tmp_path: Path) -> None:
    synthesize(tmp_path, "argocd")

    source = charts(tmp_path)["Application/karpenter"]["spec"]["source"]
    assert (source["repoURL"], source["chart"]) == ("public.ecr.aws/karpenter", "karpenter")
    assert source["helm"]["valuesObject"]["settings"]["featureGates"]


def test_flux_takes_a_chart_from_its_registry(tmp_path: Path) -> None:
    synthesize(tmp_path, "flux")

    made = charts(tmp_path)
    assert made["HelmRepository/karpenter"]["spec"]["url"] == "oci://public.ecr.aws/karpenter"
    assert made["HelmRepository/karpenter"]["spec"]["type"] == "oci"
    chart = made["HelmRelease/karpenter"]["spec"]["chart"]["spec"]
    assert chart["sourceRef"]["name"] == made["HelmRepository/karpenter"]["metadata"]["name"]


def test_flux_waits_for_an_operator_only_where_a_deployment_does() -> None:
    [_, waits] = flux_release(KUEUE, repository=KUEUE.repository, namespace="kueue-system", values={})
    [_, goes_on] = flux_release(
        GPU_OPERATOR, repository=GPU_OPERATOR.repository, namespace="gpu-operator", values={}, until_ready=False
    )

    for step in ("install", "upgrade"):
        assert "disableWait" not in waits["spec"][step]
        assert goes_on["spec"][step] == waits["spec"][step] | {"disableWait": True}


def test_what_is_no_longer_defined_is_deleted(tmp_path: Path) -> None:
    synthesize(tmp_path, "argocd")
    folder = tmp_path / "Gpu" / "objects"
    old = folder / "Pool-gone.yaml"
    old.write_text(next(folder.glob("*.yaml")).read_text())
    own = {tmp_path / "Gpu" / "kustomization.yaml": b"kind: Kustomization\n", folder / "own.yaml": b"# \xff\n"}
    for file, text in own.items():
        file.write_bytes(text)
    synthesize(tmp_path, "argocd")

    assert not old.exists()
    assert {file: file.read_bytes() for file in own} == own


@pytest.mark.parametrize("other", ["Team-A", "team/a"])
def test_refuses_two_constructs_of_one_file(tmp_path: Path, other: str) -> None:
    app = cdk.App(context={"gpu-constructs:delivery": "flux", "gpu-constructs:manifests": str(tmp_path)})
    stack = cdk.Stack(app, "Gpu")
    ManifestFile(folder_of(stack, "Team/A"), "Resource", [{"kind": "Namespace"}])

    with pytest.raises(
        ValueError, match=f"{other}/Resource: id must give a unique file name, .* belongs to 'Team/A/Resource'"
    ):
        ManifestFile(folder_of(stack, other), "Resource", [{"kind": "Namespace"}])


def folder_of(stack: cdk.Stack, path: str) -> Construct:
    """Constructs within each other."""
    return reduce(lambda scope, id: Construct(scope, id), path.split("/"), cast("Construct", stack))


def test_the_same_input_gives_the_same_files(tmp_path: Path) -> None:
    synthesize(tmp_path, "flux")
    before = {file: file.read_text() for file in tmp_path.glob("Gpu/*/*.yaml")}
    synthesize(tmp_path, "flux")

    assert before
    assert before == {file: file.read_text() for file in tmp_path.glob("Gpu/*/*.yaml")}


def test_an_imported_cluster_needs_no_kubectl(tmp_path: Path) -> None:
    context = FLAGS | {"gpu-constructs:delivery": "flux", "gpu-constructs:manifests": str(tmp_path)}
    app = cdk.App(context=context, analytics_reporting=False)
    stack = cdk.Stack(app, "Gpu", env=cdk.Environment(account="111122223333", region="us-east-1"))
    cluster = eks.Cluster.from_cluster_attributes(stack, "Cluster", cluster_name="platform", vpc=imported_vpc(stack))
    prometheus = PrometheusStack(stack, "Prometheus", cluster=cluster)
    DcgmExporter(stack, "Dcgm", cluster=cluster, prometheus=prometheus)
    shape = NodeShape(instance_types=("g6.xlarge",))
    pool = ManagedNodeGroup(stack, "Pool", cluster=cluster, name="l4", shape=shape, max_nodes=1)
    pod = GpuPod(image="example.com/serve:1")
    GpuDeployment(stack, "Serve", cluster=cluster, pool=pool, name="chat", pod=pod, port=80)
    app.synth()

    kinds = {each["kind"] for each in objects(tmp_path)}
    assert {"DaemonSet", "Deployment", "Service", "ServiceMonitor", "ConfigMap"} <= kinds
    assert "HelmRelease/kube-prometheus-stack" in charts(tmp_path)


def test_a_finished_job_is_not_run_again(tmp_path: Path) -> None:
    stack = cdk.Stack(cdk.App(context={"gpu-constructs:manifests": str(tmp_path)}), "Gpu")
    job = {"kind": "Job", "spec": {"ttlSecondsAfterFinished": 1, "completions": 2}}
    mpi = {"kind": "MPIJob", "spec": {"runPolicy": {"ttlSecondsAfterFinished": 1, "backoffLimit": 0}}}
    ManifestFile(stack, "File", [job, mpi])
    stack.node.root.synth()  # type: ignore[attr-defined]

    assert [each["spec"] for each in objects(tmp_path)] == [{"completions": 2}, {"runPolicy": {"backoffLimit": 0}}]


def test_karpenters_definitions_have_one_owner(tmp_path: Path) -> None:
    for delivery in ("argocd", "flux"):
        synthesize(tmp_path / delivery, delivery)

    helm = charts(tmp_path / "argocd")["Application/karpenter"]["spec"]["source"]["helm"]
    release = charts(tmp_path / "flux")["HelmRelease/karpenter"]["spec"]
    assert helm["skipCrds"] is True
    assert {release[each]["crds"] for each in ("install", "upgrade")} == {"Skip"}


def test_refuses_another_delivery() -> None:
    stack = cdk.Stack(cdk.App(context={"gpu-constructs:delivery": "argo"}), "Stack")

    with pytest.raises(ValueError, match="context: gpu-constructs:delivery must be one of kubectl, argocd, flux"):
        delivery_method(stack)


def test_refuses_keys_that_only_deployment_tells(tmp_path: Path) -> None:

    stack = cdk.Stack(cdk.App(context={"gpu-constructs:manifests": str(tmp_path)}), "Stack")

    with pytest.raises(ValueError, match="File/tags: keys must be known at synth to be written to a file"):
        ManifestFile(stack, "File", [{"tags": {stack.stack_id: "owned"}}])
