"""Every pinned version in one table, each with its source and the day on which it was read."""

from __future__ import annotations

import re

from gpu_facts import charts
from gpu_facts.image_releases import NEWEST_WITHOUT_FAULT
from gpu_facts.kubernetes import how_support_ended
from gpu_facts.light import dataclass, regex
from gpu_facts.refusals import did_you_mean


@dataclass(frozen=True, kw_only=True, slots=True)
class Pin:
    """A version that another project publishes.

    Attributes:
        version: The version in the publisher's spelling.
        source: Place where it was read.
        as_of: Day on which it was read, ISO 8601.
    """

    version: str
    source: str
    as_of: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Image(Pin):
    """A container image.

    Attributes:
        repository: Registry and name, without tag.
    """

    repository: str

    @property
    def reference(self) -> str:
        """Repository and tag."""
        return f"{self.repository}:{self.version}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart(Pin):
    """A Helm chart.

    Attributes:
        name: Chart name, which is also the name of its release.
        repository: ``oci://`` reference of the chart, or URL of the repository index.
        leaves_definitions: Whether it contains CRDs (under ``crds/``) that Helm doesn't upgrade.
    """

    name: str
    repository: str
    leaves_definitions: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class KubernetesMinor:
    """Versions of components for one Kubernetes minor version.

    Attributes:
        kubectl_layer: Module of the Lambda layer with kubectl and helm. Its package is in requirements.txt.
        cluster_autoscaler: Image of cluster autoscaler, whose minor version must equal the cluster's, or ``None`` if
            no release was found yet.
        al2023: Release of the AL2023 images, as managed node groups name it.
        karpenter: Min release of Karpenter that supports it.
    """

    kubectl_layer: str
    cluster_autoscaler: Image | None
    al2023: Pin
    karpenter: str = "1.14.1"


def _autoscaler(version: str) -> Image:
    return Image(
        version=version,
        repository="registry.k8s.io/autoscaling/cluster-autoscaler",
        source="https://github.com/kubernetes/autoscaler/releases",
        as_of="2026-08-22",
    )


_AL2023_DATE = "20260714"
_AL2023_SOURCE = "https://github.com/awslabs/amazon-eks-ami/blob/v20260724/CHANGELOG.md"


def _al2023(patch: str) -> Pin:
    return Pin(version=f"{patch}-{_AL2023_DATE}", source=_AL2023_SOURCE, as_of="2026-07-23")


DEFAULT_KUBERNETES = "1.36"
KUBERNETES = {
    "1.33": KubernetesMinor(
        kubectl_layer="aws_cdk.lambda_layer_kubectl_v33",
        cluster_autoscaler=_autoscaler("v1.33.6"),
        al2023=_al2023("1.33.13"),
    ),
    "1.34": KubernetesMinor(
        kubectl_layer="aws_cdk.lambda_layer_kubectl_v34",
        cluster_autoscaler=_autoscaler("v1.34.5"),
        al2023=_al2023("1.34.9"),
    ),
    "1.35": KubernetesMinor(
        kubectl_layer="aws_cdk.lambda_layer_kubectl_v35",
        cluster_autoscaler=_autoscaler("v1.35.2"),
        al2023=_al2023("1.35.6"),
    ),
    "1.36": KubernetesMinor(
        kubectl_layer="aws_cdk.lambda_layer_kubectl_v36",
        cluster_autoscaler=_autoscaler("v1.36.1"),
        # Newer releases have the faults in `image_releases`, or no source states their Kubernetes patch version
        # (v20261012).
        al2023=Pin(
            version="1.36.3-20260903",
            source="https://github.com/awslabs/amazon-eks-ami/releases/tag/v20260903",
            as_of="2026-11-24",
        ),
    ),
    "1.37": KubernetesMinor(
        kubectl_layer="aws_cdk.lambda_layer_kubectl_v37",
        cluster_autoscaler=None,
        al2023=Pin(
            version="1.37.1-20261023",
            source="https://github.com/awslabs/amazon-eks-ami/releases/tag/v20261023",
            as_of="2026-11-21",
        ),
        karpenter="1.15.1",
    ),
}

# Minor versions without resource.k8s.io/v1, with which pods claim devices.
# Source: https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
WITHOUT_CLAIMS = ("1.33",)

# The first minor version whose API server supports image volumes. Older ones drop the volume and its mounts.
# Sources: https://kubernetes.io/docs/tasks/configure-pod-container/image-volumes/, kubernetes/kubernetes v1.34
# pkg/api/pod/util.go ``dropImageVolumes`` (2026-11)
WITH_IMAGE_VOLUMES = (1, 35)

DEVICE_PLUGIN = Image(
    version="v0.20.0",
    repository="nvcr.io/nvidia/k8s-device-plugin",
    source="https://github.com/NVIDIA/k8s-device-plugin/releases/tag/v0.20.0",
    as_of="2026-08-19",
)
# Copies from S3: it supports Pod Identity, runs as any user, and from 2.37.0 uses its faster client on GPU instances.
# Sources: https://docs.aws.amazon.com/eks/latest/userguide/pod-id-minimum-sdk.html,
# https://github.com/aws/aws-cli/issues/10676 (2026-09)
AWS_CLI = Image(
    version="2.37.9@sha256:92de75724b6a746951f0e8b915d86bbccd7cb55aff96cd0cb4f7017272160780",
    repository="public.ecr.aws/aws-cli/aws-cli",
    source="https://gallery.ecr.aws/aws-cli/aws-cli",
    as_of="2026-10-02",
)
# Small glibc image. The container toolkit of the node provides nvidia-smi.
SMOKE_TEST = Image(
    version="2023-minimal",
    repository="public.ecr.aws/amazonlinux/amazonlinux",
    source="https://karpenter.sh/docs/tasks/dra/",
    as_of="2026-10-10",
)

# Adds two vectors on a GPU and prints whether the sum is correct.
CUDA_SAMPLE = Image(
    version="vectoradd-cuda12.5.0",
    repository="nvcr.io/nvidia/k8s/cuda-sample",
    source="https://github.com/NVIDIA/k8s-device-plugin/blob/v0.20.0/README.md",
    as_of="2026-08-19",
)

MPI_OPERATOR = Image(
    version="0.8.0",
    repository="docker.io/mpioperator/mpi-operator",
    source="https://github.com/kubeflow/mpi-operator/tree/v0.8.0/deploy/v2beta1",
    as_of="2026-10-10",
)
# NCCL's tests with EFA's libraries, x86_64.
NCCL_TESTS = Image(
    version="cuda12.8.1-efa1.42.0-ofiv1.16.0-ncclv2.27.5-1-testsv2.16.4",
    repository="public.ecr.aws/hpc-cloud/nccl-tests",
    source="https://github.com/aws-samples/awsome-distributed-training/tree/main/micro-benchmarks/nccl-tests",
    as_of="2026-10-10",
)

# Examples and docs use it. The Python package index has the release, whose name is the tag of the image.
# v0.11.1 closed three advisories: https://github.com/vllm-project/vllm/issues/26928
VLLM = Image(
    version="v0.33.0",
    repository="vllm/vllm-openai",
    source="https://pypi.org/project/vllm/",
    as_of="2026-11-23",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class KarpenterRelease:
    """A release of Karpenter: two charts of one version.

    Attributes:
        crds: Chart of its CRDs.
        controller: Chart of the controller.
        newer_gates: Whether it has the feature gates of 1.15: reboots before repair, and nodes for claimed devices.
    """

    crds: Chart
    controller: Chart
    newer_gates: bool = False


def _karpenter(version: str, *, as_of: str, newer_gates: bool = False) -> KarpenterRelease:
    source = f"https://github.com/aws/karpenter-provider-aws/releases/tag/v{version}"
    return KarpenterRelease(
        crds=Chart(
            version=version,
            name=charts.KARPENTER_CRDS,
            repository="oci://public.ecr.aws/karpenter/karpenter-crd",
            source=source,
            as_of=as_of,
        ),
        controller=Chart(
            version=version,
            name=charts.KARPENTER,
            repository="oci://public.ecr.aws/karpenter/karpenter",
            source=source,
            as_of=as_of,
        ),
        newer_gates=newer_gates,
    )


# The releases whose policies, CRDs and values were read completely, the oldest first. 1.14 has support until 2027-07
# and doesn't support Kubernetes 1.37. 1.15 has support until the next minor release.
KARPENTER_RELEASES = {
    "1.14.1": _karpenter("1.14.1", as_of="2026-08-20"),
    "1.15.1": _karpenter("1.15.1", as_of="2026-11-21", newer_gates=True),
}
KARPENTER = KARPENTER_RELEASES["1.14.1"].controller

EFA_DEVICE_PLUGIN = Chart(
    version="v0.5.30",
    name=charts.EFA_DEVICE_PLUGIN,
    repository="https://aws.github.io/eks-charts",
    source="https://github.com/aws/eks-charts/tree/master/stable/aws-efa-k8s-device-plugin",
    as_of="2026-08-03",
)

# Its policy (gpu_constructs/exposure/load_balancer_policy.json) is from the same release.
LOAD_BALANCER_CONTROLLER = Chart(
    version="3.5.0",
    name=charts.LOAD_BALANCER_CONTROLLER,
    repository="https://aws.github.io/eks-charts",
    source="https://github.com/aws/eks-charts/tree/master/stable/aws-load-balancer-controller",
    as_of="2026-11-22",
    leaves_definitions=True,
)

GPU_OPERATOR = Chart(
    version="v26.7.0",
    name=charts.GPU_OPERATOR,
    repository="https://helm.ngc.nvidia.com/nvidia",
    source="https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/release-notes.html",
    as_of="2026-08-20",
)
DRA_DRIVER = Chart(
    version="0.4.1",
    name=charts.DRA_DRIVER,
    repository="oci://registry.k8s.io/dra-driver-nvidia/charts/dra-driver-nvidia-gpu",
    source="https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/releases/tag/v0.4.1",
    as_of="2026-06-30",
    leaves_definitions=True,
)

DCGM_EXPORTER = Image(
    version="4.5.3-4.8.2-distroless",
    repository="nvcr.io/nvidia/k8s/dcgm-exporter",
    source="https://github.com/NVIDIA/dcgm-exporter/releases/tag/4.5.3-4.8.2",
    as_of="2026-08-20",
)
KUBE_PROMETHEUS_STACK = Chart(
    version="88.5.3",
    name=charts.KUBE_PROMETHEUS_STACK,
    repository="oci://ghcr.io/prometheus-community/charts/kube-prometheus-stack",
    source="https://github.com/prometheus-community/helm-charts",
    as_of="2026-08-20",
    leaves_definitions=True,
)
PROMETHEUS_ADAPTER = Chart(
    version="5.3.0",
    name=charts.PROMETHEUS_ADAPTER,
    repository="oci://ghcr.io/prometheus-community/charts/prometheus-adapter",
    source="https://github.com/prometheus-community/helm-charts",
    as_of="2026-08-20",
)
# 2.21 fixes CVE-2026-77524 of 2.20, according to several texts. KEDA's own advisory was not read. CRDs, RBAC and the
# SQS scaler of the module github.com/kedacore/keda/v2 are the same as in 2.20.2. The values of the chart weren't
# available, and the only value that is set was read in 2.20.2.
KEDA = Chart(
    version="2.21.0",
    name=charts.KEDA,
    repository="https://kedacore.github.io/charts",
    source="https://github.com/kedacore/keda/tree/v2.21.0",
    as_of="2026-11-21",
)
VERTICAL_POD_AUTOSCALER = Chart(
    version="0.11.0",
    name=charts.VERTICAL_POD_AUTOSCALER,
    repository="https://kubernetes.github.io/autoscaler",
    source="https://github.com/kubernetes/autoscaler/tree/master/vertical-pod-autoscaler/charts",
    as_of="2026-07-25",
    leaves_definitions=True,
)

KUEUE = Chart(
    version="0.19.2",
    name=charts.KUEUE,
    repository="oci://registry.k8s.io/kueue/charts/kueue",
    source="https://github.com/kubernetes-sigs/kueue/releases/tag/v0.19.2",
    as_of="2026-08-20",
)
JOBSET = Chart(
    version="0.12.0",
    name=charts.JOBSET,
    repository="oci://registry.k8s.io/jobset/charts/jobset",
    source="https://github.com/kubernetes-sigs/jobset/releases/tag/v0.12.0",
    as_of="2026-08-20",
    leaves_definitions=True,
)
LEADER_WORKER_SET = Chart(
    version="0.10.0",
    name=charts.LEADER_WORKER_SET,
    repository="oci://registry.k8s.io/lws/charts/lws",
    source="https://github.com/kubernetes-sigs/lws/releases/tag/v0.10.0",
    as_of="2026-08-20",
    leaves_definitions=True,
)
KUBERAY = Chart(
    version="1.7.0",
    name=charts.KUBERAY,
    repository="https://ray-project.github.io/kuberay-helm",
    source="https://github.com/ray-project/kuberay/releases/tag/v1.7.0",
    as_of="2026-08-20",
    leaves_definitions=True,
)

KAI_SCHEDULER = Chart(
    version="v0.17.0",
    name=charts.KAI_SCHEDULER,
    repository="oci://ghcr.io/kai-scheduler/kai-scheduler/kai-scheduler",
    source="https://github.com/kai-scheduler/KAI-Scheduler/releases/tag/v0.17.0",
    as_of="2026-08-03",
)
DYNAMO = Chart(
    version="1.5.0",
    name=charts.DYNAMO,
    repository="https://helm.ngc.nvidia.com/nvidia/ai-dynamo",
    source="https://helm.ngc.nvidia.com/nvidia/ai-dynamo/charts/dynamo-platform-1.5.0.tgz",
    as_of="2026-10-10",
)

NODE_TERMINATION_HANDLER = Chart(
    version="0.27.6",
    name=charts.NODE_TERMINATION_HANDLER,
    repository="oci://public.ecr.aws/aws-ec2/helm/aws-node-termination-handler",
    source="https://github.com/aws/aws-node-termination-handler/releases/tag/v1.25.6",
    as_of="2026-04-02",
)

# Value in `alias: <family>@<version>` of an EC2NodeClass. A pinned release keeps nodes until the pin changes.
AMI_RELEASES = {
    "al2023": Pin(
        version=NEWEST_WITHOUT_FAULT,
        source=f"https://github.com/awslabs/amazon-eks-ami/releases/tag/{NEWEST_WITHOUT_FAULT}",
        as_of="2026-11-21",
    ),
    "bottlerocket": Pin(
        version="1.66.0", source="https://github.com/bottlerocket-os/bottlerocket/pull/4946", as_of="2026-09-19"
    ),
}


def kubernetes_minor(version: object, *, who: object) -> KubernetesMinor:
    """Return the versions for a Kubernetes minor version such as ``1.36``.

    Raises:
        TypeError: The version isn't a string.
        ValueError: This library doesn't support it.
    """
    if isinstance(version, str) and version in KUBERNETES:
        return KUBERNETES[version]
    rule = f"{who}: kubernetes_version must be one of {', '.join(KUBERNETES)}"
    if isinstance(version, str):
        raise ValueError(f"{rule}, got {version!r}{_why_not(version)}")
    if isinstance(version, float):
        raise TypeError(f"{rule}, got {version}, a number; quote it: '{version:.2f}'")
    raise TypeError(f"{rule}, got {version!r}; write {DEFAULT_KUBERNETES!r}")


def autoscaler_image(kubernetes_version: str, *, who: object) -> Image:
    """Return the image of cluster autoscaler for a Kubernetes minor version.

    Raises:
        ValueError: There is no image, or this library doesn't support the version.
    """
    pinned = kubernetes_minor(kubernetes_version, who=who).cluster_autoscaler
    if pinned is None:
        raise ValueError(
            f"{who}: ClusterAutoscaler must have an image on Kubernetes {kubernetes_version}, for which no release was "
            "found, got none; use Karpenter or EKS Auto Mode, or pass ClusterAutoscaler(image=...)"
        )
    return pinned


def karpenter_release(version: object, kubernetes_version: str | None, *, who: object) -> KarpenterRelease:
    """Return a release of Karpenter. Without a version, the oldest one that supports the cluster.

    Raises:
        ValueError: This library has no data about the release, or the release doesn't support the Kubernetes version.
    """
    minor = KUBERNETES.get(kubernetes_version or "")
    least = minor.karpenter if minor else KARPENTER.version
    fitting = [each for each in KARPENTER_RELEASES if _number(each) >= _number(least)]
    if version is None:
        return KARPENTER_RELEASES[least]
    if version not in fitting:
        where = f" on Kubernetes {kubernetes_version}" if kubernetes_version else ""
        hint = did_you_mean(str(version), fitting)
        raise ValueError(f"{who}: version must be one of {', '.join(fitting)}{where}, got {version!r}{hint}")
    return KARPENTER_RELEASES[str(version)]


def pinned_charts() -> tuple[Chart, ...]:
    """Return every chart that this library installs."""
    releases = [chart for each in KARPENTER_RELEASES.values() for chart in (each.crds, each.controller)]
    return (*releases, *(each for each in globals().values() if isinstance(each, Chart) and each not in releases))


_VERSION = regex(r"v?(\d+)\.(\d+)(\.[\w.+-]+)?", re.IGNORECASE)


def _why_not(version: str) -> str:
    """Return the reason why a version isn't supported."""
    found = _VERSION.fullmatch(version.strip())
    if found is None:
        return did_you_mean(version, KUBERNETES)
    minor = f"{int(found[1])}.{int(found[2])}"
    if minor in KUBERNETES:
        return f"; write {minor!r}, because EKS versions are minor versions"
    # Swapped digits are a typo. A missing or different digit means another version.
    if slip := did_you_mean(minor, [each for each in KUBERNETES if sorted(each) == sorted(minor)]):
        return slip
    oldest, newest = min(KUBERNETES, key=_number), max(KUBERNETES, key=_number)
    if _number(minor) > _number(newest):
        return f"; upgrade this library, which supports no version newer than {newest}"
    return f"; {how_support_ended(minor)}use {oldest}, the oldest supported version, or a newer one"


def _number(minor: str) -> tuple[int, ...]:
    return tuple(map(int, minor.split(".")))
