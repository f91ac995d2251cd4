"""Schemas of custom resources, from the CustomResourceDefinitions in the sources of their projects."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gpu_facts import versions
from gpu_facts.charts import KARPENTER
from tools.charts import GO
from tools.schemas.reduce import Reducer
from tools.schemas.source import Source

# A folder of CustomResourceDefinitions for the projects whose Go modules a proxy may not have.
FOLDER = "GPU_CONSTRUCTS_CRDS"


@dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """A project that publishes CustomResourceDefinitions.

    Attributes:
        name: Its common name.
        version: Its release.
        as_of: Day it was read, ISO 8601.
        module: Its Go module.
        files: The definitions in it.
        charts: Version of each chart that installs the release, by name.
        rules: Whether the rules in CEL of its definitions are kept.
    """

    name: str
    version: str
    as_of: str
    module: str
    files: tuple[str, ...]
    charts: Mapping[str, str]
    rules: bool = False


def _chart_project(name: str, pin: versions.Chart, module: str, *files: str, release: str = "") -> Project:
    """Return the project of a pinned chart, whose release has the chart's version or another."""
    version = release or f"v{pin.version.removeprefix('v')}"
    charts = {pin.name: pin.version.removeprefix("v")}
    rules = pin.name == KARPENTER
    return Project(name=name, version=version, as_of=pin.as_of, module=module, files=files, charts=charts, rules=rules)


def _bases(folder: str, group: str, *kinds: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{group}_{kind}.yaml" for kind in kinds)


_KUEUE = ("admissionchecks", "clusterqueues", "cohorts", "localqueues", "resourceflavors", "topologies")
_KEDA = ("clustertriggerauthentications", "scaledjobs", "scaledobjects", "triggerauthentications")
_MONITORING = ("podmonitors", "prometheuses", "prometheusrules", "servicemonitors")
_KARPENTER = tuple(versions.KARPENTER_RELEASES.values())[-1]
PROJECTS = (
    _chart_project(
        "Karpenter",
        _KARPENTER.controller,
        "github.com/aws/karpenter-provider-aws",
        *_bases("pkg/apis/crds", "karpenter.sh", "nodeclaims", "nodeoverlays", "nodepools"),
        "pkg/apis/crds/karpenter.k8s.aws_ec2nodeclasses.yaml",
        "pkg/apis/crds/autoscaling.x-k8s.io_capacitybuffers.yaml",
    ),
    _chart_project(
        "Kueue",
        versions.KUEUE,
        "sigs.k8s.io/kueue",
        *_bases("config/components/crd/bases", "kueue.x-k8s.io", *_KUEUE, "workloadpriorityclasses"),
    ),
    _chart_project(
        "JobSet",
        versions.JOBSET,
        "sigs.k8s.io/jobset",
        *_bases("config/components/crd/bases", "jobset.x-k8s.io", "jobsets"),
    ),
    _chart_project(
        "LeaderWorkerSet",
        versions.LEADER_WORKER_SET,
        "sigs.k8s.io/lws",
        *_bases("config/crd/bases", "leaderworkerset.x-k8s.io", "leaderworkersets"),
    ),
    # The definitions of 2.21.0 equal the ones of 2.20.2, which the proxy has.
    _chart_project(
        "KEDA",
        versions.KEDA,
        "github.com/kedacore/keda/v2",
        *_bases("config/crd/bases", "keda.sh", *_KEDA),
        release="v2.20.2",
    ),
    _chart_project(
        "Prometheus operator",
        versions.KUBE_PROMETHEUS_STACK,
        "github.com/prometheus-operator/prometheus-operator",
        *_bases("example/prometheus-operator-crd", "monitoring.coreos.com", *_MONITORING),
        release="v0.93.0",
    ),
    _chart_project(
        "KubeRay",
        versions.KUBERAY,
        "github.com/ray-project/kuberay/ray-operator",
        *_bases("config/crd/bases", "ray.io", "rayclusters", "rayjobs", "rayservices"),
    ),
    _chart_project(
        "GPU Operator",
        versions.GPU_OPERATOR,
        "github.com/NVIDIA/gpu-operator",
        *_bases("config/crd/bases", "nvidia.com", "clusterpolicies", "gpuclusters"),
    ),
    _chart_project(
        "NVIDIA DRA driver",
        versions.DRA_DRIVER,
        "sigs.k8s.io/dra-driver-nvidia-gpu",
        *_bases("deployments/helm/dra-driver-nvidia-gpu/crds", "resource.nvidia.com", "computedomains"),
    ),
    _chart_project(
        "KAI Scheduler",
        versions.KAI_SCHEDULER,
        "github.com/kai-scheduler/KAI-scheduler",
        *_bases("deployments/kai-scheduler/crds", "scheduling.run.ai", "queues"),
    ),
    _chart_project(
        "Vertical Pod Autoscaler",
        versions.VERTICAL_POD_AUTOSCALER,
        "k8s.io/autoscaler/vertical-pod-autoscaler",
        "deploy/vpa-v1-crd-gen.yaml",
        release="v1.7.0",
    ),
    Project(
        name="MPI operator",
        version=f"v{versions.MPI_OPERATOR.version.removeprefix('v')}",
        as_of=versions.MPI_OPERATOR.as_of,
        module="github.com/kubeflow/mpi-operator",
        files=_bases("manifests/base", "kubeflow.org", "mpijobs"),
        charts={},
    ),
    Project(
        name="Kubeflow Trainer",
        version="v2.0.0",
        as_of="2026-11-21",
        module="github.com/kubeflow/trainer/v2",
        files=_bases("manifests/base/crds", "trainer.kubeflow.org", "trainjobs"),
        charts={},
    ),
)
# Definitions that the module proxy lacks, or has under another name.
_OTHER_NAMES = {
    "vpa-v1-crd-gen.yaml": "autoscaling.k8s.io_vpa.yaml",
    **{f"monitoring.coreos.com_{each}.yaml": f"crd-{each}.yaml" for each in _MONITORING},
}


class Missing(Exception):
    """A definition that is neither in a module of the proxy nor in the folder."""


def read(project: Project, metadata: Any) -> Source:
    """Read the schemas of a project's kinds.

    Args:
        project: The project.
        metadata: Reduced schema of the metadata of an object.

    Raises:
        Missing: A file isn't available.
    """
    kinds = {}
    for each in definitions(project):
        for kind, schema in served(each):
            reduced = dict(Reducer(rules=project.rules).reduce(schema))
            properties = reduced["properties"]
            kinds[kind] = {**reduced, "properties": {**properties, "metadata": metadata, "status": {"open": True}}}
    return Source(
        name=project.name,
        version=project.version,
        url=f"https://pkg.go.dev/{project.module}",
        as_of=project.as_of,
        kinds=kinds,
        charts=project.charts,
        rules=project.rules,
        deprecated=tuple(kind for each in definitions(project) for kind in _deprecated(each)),
    )


def _deprecated(definition: Mapping[str, Any]) -> Iterator[str]:
    spec = definition["spec"]
    for each in spec["versions"]:
        if each["served"] and each.get("deprecated"):
            yield f"{spec['group']}/{each['name']}/{spec['names']['kind']}"


def served(definition: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each version of a definition that an API server serves, with its schema."""
    spec = definition["spec"]
    for each in spec["versions"]:
        if each["served"]:
            yield f"{spec['group']}/{each['name']}/{spec['names']['kind']}", each["schema"]["openAPIV3Schema"]


def definitions(project: Project) -> Iterator[Any]:
    """Yield the CustomResourceDefinitions of a project."""
    for file in project.files:
        text = _file(project, file).read_text()
        # As safe as SafeLoader, and ten times as fast.
        yield from (each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each)


def _file(project: Project, file: str) -> Path:
    """Return a file of the module, or of the configured folder if no proxy has the module."""
    try:
        return module(project.module, project.version) / file
    except Missing:
        name = Path(file).name
        found = Path(os.environ.get(FOLDER, ""), _OTHER_NAMES.get(name, name))
        if FOLDER not in os.environ or not found.is_file():
            raise Missing(f"{project.name} {project.version}: set {FOLDER} to a folder with {found.name}") from None
        return found


@cache
def module(name: str, version: str) -> Path:
    """Return the folder of a Go module. Go verifies its checksum.

    Raises:
        Missing: No proxy has it.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = ["go", "mod", "download", "-json", f"{name}@{version}"]
        try:
            done = subprocess.run(command, cwd=folder, env=os.environ | GO, capture_output=True, check=False)
        except OSError as error:
            raise Missing(f"{name} {version}: {error}") from None
    told = json.loads(done.stdout or "{}")
    if "Dir" not in told:
        raise Missing(f"{name} {version}: {told.get('Error', 'no output of go')}")
    return Path(told["Dir"])
