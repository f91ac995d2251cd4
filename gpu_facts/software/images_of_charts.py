"""The images of pinned charts, which no template shows: images of their pods, and of pods that their operators start.

Rendered with Helm 4.2 from the tagged sources. A chart or a version without a row is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from gpu_facts import charts
from gpu_facts.light import dataclass
from gpu_facts.software.model import Switch, enabled

# Form of an image in values: `repository` whole, `registry` and `repository`, or a folder in `repository` and a name.
Style = Literal["repository", "registry", "folder"]
_READ = "2026-11-22"
_KARPENTER = "https://github.com/aws/karpenter-provider-aws/tree"
# Images of parts of the GPU Operator, by their part of the values. The operator starts each on the nodes that need it.
_NVIDIA = "nvcr.io/nvidia"
_SANDBOX = enabled("sandboxWorkloads", default=False)
_OPERATOR = "prometheusOperator"
_HOOKS = (enabled(_OPERATOR), enabled(f"{_OPERATOR}.admissionWebhooks"))
_STATE, _EXPORTER = charts.KUBE_STATE_METRICS, "prometheus-node-exporter"
_KAI_FOLDER = "ghcr.io/kai-scheduler/kai-scheduler"
# Path in the values, and name of the image if it differs.
_OF_KAI = {
    "operator.image": "operator",
    "podgrouper.image": "podgrouper",
    "podgroupcontroller.image": "podgroupcontroller",
    "binder.image": "binder",
    "binder.resourceReservationImage": "resourcereservation",
    "scheduler.image": "scheduler",
    "queuecontroller.image": "queuecontroller",
    "admission.image": "admission",
    "crdupgrader.image": "crd-upgrader",
    "numaPlacementExporter.image": "numa-placement-exporter",
}
_OF_KAI_SCALING = {"nodescaleadjuster.image": "nodescaleadjuster", "nodescaleadjuster.scalingPodImage": "scalingpod"}
_KAI_SCALES = Switch(path="global.clusterAutoscaling", default=False)
_VPA = "registry.k8s.io/autoscaling/vpa"
_VPA_PARTS = {"admissionController": "admission-controller", "recommender": "recommender", "updater": "updater"}
# Templates and values are from 2.20.2. Tags are the version of the chart.
_KEDA_IMAGES = {"keda": "keda", "metricsApiServer": "keda-metrics-apiserver", "webhooks": "keda-admission-webhooks"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ChartImage:
    """An image of a chart.

    Attributes:
        repository: Its name with its registry.
        tag: Its tag, or empty if the node or the cluster determines it.
        at: Path of its values.
        digest: Its digest, if the chart has one.
        switches: Values on which it depends. It is pulled if all are on.
    """

    repository: str
    tag: str
    at: str
    digest: str = ""
    switches: tuple[Switch, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ChartImages:
    """The images of a version of a chart.

    Attributes:
        name: Name of the chart.
        version: Its version.
        images: Its images.
        style: Form of images in its values.
        registry_path: Path of a value that sets the registry, or the folder, of all images.
        tag_path: Path of a value that sets the tag of all images.
        opaque_paths: Values with which it pulls images that aren't listed here.
        source: Place where it was read.
        as_of: Day on which it was read, ISO 8601.
    """

    name: str
    version: str
    images: tuple[ChartImage, ...] = ()
    style: Style = "repository"
    registry_path: str = ""
    tag_path: str = ""
    opaque_paths: tuple[str, ...] = ()
    source: str
    as_of: str


@dataclass(frozen=True, slots=True)
class PulledImage:
    """An image of a chart with the values of a release.

    Attributes:
        reference: The image, or ``None`` if its name or its tag is unknown.
        default: The image without values, as far as it is known.
        at: Path of its values.
    """

    reference: str | None
    default: str
    at: str


def pulled(chart: ChartImages, values: Mapping[str, Any]) -> tuple[PulledImage, ...]:
    """Return the images that a chart pulls with some values, including images that may be enabled."""
    return tuple(
        _pulled(chart, each, values) for each in chart.images if all(_may_be_enabled(s, values) for s in each.switches)
    )


def opaque(chart: ChartImages, values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the paths of values that add unknown images."""
    return tuple(each for each in chart.opaque_paths if _find_value(values, each) not in (None, False, "", [], {}))


def _pulled(chart: ChartImages, image: ChartImage, values: Mapping[str, Any]) -> PulledImage:
    default = _reference(image.repository, image.tag, image.digest)
    said = _find_value(values, image.at)
    if said is None:
        said = {}
    parts = list(_image_parts(chart, image, said, values)) if isinstance(said, Mapping) else [None]
    texts = [str(each) for each in parts if isinstance(each, (str, int, float)) and not isinstance(each, bool)]
    if len(texts) != len(parts) or not texts[1]:
        return PulledImage(None, default, image.at)
    return PulledImage(_reference(*texts), default, image.at)


def _image_parts(
    chart: ChartImages, image: ChartImage, said: Mapping[str, Any], values: Mapping[str, Any]
) -> Iterator[Any]:
    """Yield repository, tag and digest from the values. A part that isn't a string is unknown."""
    given = _find_value(values, chart.registry_path)
    tag = said.get("version") or said.get("tag") or _find_value(values, chart.tag_path) or image.tag
    digest = said.get("digest", image.digest)
    if sha := said.get("sha"):
        digest = f"sha256:{sha}" if isinstance(sha, str) else sha
    if chart.style == "folder":
        folder, _, last = image.repository.rpartition("/")
        yield _joined(said.get("repository") or given or folder, said.get("image") or said.get("name") or last)
    elif chart.style == "registry":
        registry, _, path = image.repository.partition("/")
        yield _joined(given or said.get("registry") or registry, said.get("repository") or path)
    else:
        yield said.get("repository") or image.repository
    yield tag
    yield digest or ""


def _joined(first: Any, last: Any) -> Any:
    return f"{first}/{last}" if isinstance(first, str) and isinstance(last, str) else None


def _reference(repository: str, tag: str, digest: str) -> str:
    if tag.startswith("sha256:"):
        tag, digest = "", tag
    return f"{repository}{f':{tag}' if tag else ''}{f'@{digest}' if digest else ''}"


def _may_be_enabled(switch: Switch, values: Mapping[str, Any]) -> bool:
    path = (switch.path,) if isinstance(switch.path, str) else switch.path
    found = next((each for each in (_find_value(values, one) for one in path) if each is not None), switch.default)
    return not isinstance(found, type(switch.on)) or found == switch.on


def _find_value(values: Any, path: str) -> Any:
    if not path:
        return None
    for key in path.split("."):
        values = values.get(key) if isinstance(values, Mapping) else None
    return values


def _one(name: str, version: str, repository: str, at: str = "image", *, tag: str = "", source: str) -> ChartImages:
    image = ChartImage(repository=repository, tag=tag or version, at=at)
    return ChartImages(name=name, version=version, images=(image,), source=source, as_of=_READ)


def _karpenter(version: str, digest: str = "") -> tuple[ChartImages, ...]:
    source = f"{_KARPENTER}/v{version}/charts"
    image = ChartImage(
        repository="public.ecr.aws/karpenter/controller", tag=version, at="controller.image", digest=digest
    )
    return (
        ChartImages(name=charts.KARPENTER, version=version, images=(image,), source=source, as_of=_READ),
        ChartImages(name=charts.KARPENTER_CRDS, version=version, source=source, as_of=_READ),
    )


def _operand(part: str, repository: str, tag: str, *switches: Switch) -> ChartImage:
    return ChartImage(repository=f"{_NVIDIA}/{repository}", tag=tag, at=part, switches=switches)


_GPU_OPERATOR = ChartImages(
    name=charts.GPU_OPERATOR,
    version="v26.7.0",
    style="folder",
    images=(
        _operand("operator", "gpu-operator", "v26.7.0"),
        _operand("validator", "gpu-operator", "v26.7.0"),
        # Its tag ends with the node's operating system.
        _operand("driver", "driver", "", enabled("driver")),
        # The operator uses it to unload any installed driver.
        _operand("driver.manager", "cloud-native/k8s-driver-manager", "v0.12.0"),
        _operand("toolkit", "k8s/container-toolkit", "v1.20.0", enabled("toolkit")),
        _operand("devicePlugin", "k8s-device-plugin", "v0.20.0", enabled("devicePlugin")),
        _operand("dcgm", "cloud-native/dcgm", "4.6.0-1-ubuntu24.04", enabled("dcgm", default=False)),
        _operand("dcgmExporter", "k8s/dcgm-exporter", "4.6.0-4.8.3-distroless", enabled("dcgmExporter")),
        _operand("gfd", "k8s-device-plugin", "v0.20.0", enabled("gfd")),
        _operand("migManager", "cloud-native/k8s-mig-manager", "v0.15.0", enabled("migManager")),
        _operand("nodeStatusExporter", "gpu-operator", "v26.7.0", enabled("nodeStatusExporter", default=False)),
        _operand("gds", "cloud-native/nvidia-fs", "", enabled("gds", default=False)),
        _operand("gdrcopy", "cloud-native/gdrdrv", "", enabled("gdrcopy", default=False)),
        _operand("vgpuDeviceManager", "cloud-native/vgpu-device-manager", "v0.5.0", _SANDBOX),
        _operand("vfioManager", "cloud-native/k8s-driver-manager", "v0.12.0", _SANDBOX),
        _operand("sandboxDevicePlugin", "kubevirt-gpu-device-plugin", "v1.6.0", _SANDBOX),
        _operand("kataSandboxDevicePlugin", "cloud-native/nvidia-sandbox-device-plugin", "v0.0.5", _SANDBOX),
        _operand("ccManager", "cloud-native/k8s-cc-manager", "v0.4.3", _SANDBOX),
        _operand("draDriver", "dra-driver-nvidia-gpu", "v0.5.0", Switch(path="gpuCluster.deployCR", default=False)),
        ChartImage(
            repository="registry.k8s.io/nfd/node-feature-discovery",
            tag="v0.19.0",
            at="",
            switches=(enabled("nfd"),),
        ),
    ),
    opaque_paths=("vgpuManager.enabled", "driver.repoConfig.configMapName", "node-feature-discovery.image"),
    source="https://github.com/NVIDIA/gpu-operator/tree/v26.7.0/deployments/gpu-operator",
    as_of=_READ,
)


def _stack_image(at: str, repository: str, tag: str, *switches: Switch) -> ChartImage:
    return ChartImage(repository=repository, tag=tag, at=f"{at}.image", switches=switches)


_PROMETHEUS_STACK = ChartImages(
    name=charts.KUBE_PROMETHEUS_STACK,
    version="88.5.3",
    style="registry",
    registry_path="global.imageRegistry",
    images=(
        _stack_image(_OPERATOR, "quay.io/prometheus-operator/prometheus-operator", "v0.93.1", enabled(_OPERATOR)),
        _stack_image(
            f"{_OPERATOR}.prometheusConfigReloader",
            "quay.io/prometheus-operator/prometheus-config-reloader",
            "v0.93.1",
            enabled(_OPERATOR),
        ),
        _stack_image(
            f"{_OPERATOR}.admissionWebhooks.patch",
            "ghcr.io/jkroepke/kube-webhook-certgen",
            "1.8.7",
            *_HOOKS,
            enabled(f"{_OPERATOR}.admissionWebhooks.patch"),
        ),
        _stack_image(
            f"{_OPERATOR}.admissionWebhooks.deployment",
            "quay.io/prometheus-operator/admission-webhook",
            "v0.93.1",
            *_HOOKS,
            enabled(f"{_OPERATOR}.admissionWebhooks.deployment", default=False),
        ),
        _stack_image(
            "prometheus.prometheusSpec",
            "quay.io/prometheus/prometheus",
            "v3.14.0-distroless",
            enabled("prometheus"),
        ),
        _stack_image(
            "alertmanager.alertmanagerSpec", "quay.io/prometheus/alertmanager", "v0.34.0", enabled("alertmanager")
        ),
        _stack_image(
            "thanosRuler.thanosRulerSpec", "quay.io/thanos/thanos", "v0.42.4", enabled("thanosRuler", default=False)
        ),
        _stack_image(
            _STATE, "registry.k8s.io/kube-state-metrics/kube-state-metrics", "v2.20.0", enabled("kubeStateMetrics")
        ),
        _stack_image(_EXPORTER, "quay.io/prometheus/node-exporter", "v1.12.1-distroless", enabled("nodeExporter")),
        _stack_image("grafana", "docker.io/grafana/grafana", "13.2.0", enabled("grafana")),
        _stack_image("grafana.sidecar", "quay.io/kiwigrid/k8s-sidecar", "2.10.1", enabled("grafana")),
        _stack_image(
            "grafana.initChownData",
            "docker.io/library/busybox",
            "1.38.0",
            enabled("grafana"),
            enabled("grafana.initChownData"),
            enabled("grafana.persistence", default=False),
        ),
    ),
    # Only `helm test` runs its test hook.
    opaque_paths=(
        *("crds.upgradeJob.enabled", "windowsMonitoring.enabled", "grafana.imageRenderer.enabled"),
        *("grafana.dashboards", "grafana.extraContainers", "prometheus.prometheusSpec.thanos"),
    ),
    source="https://github.com/prometheus-community/helm-charts/tree/kube-prometheus-stack-88.5.3",
    as_of=_READ,
)


def _kai_image(at: str, name: str, *switches: Switch) -> ChartImage:
    return ChartImage(repository=f"{_KAI_FOLDER}/{name}", tag="v0.17.0", at=at, switches=switches)


_KAI = ChartImages(
    name=charts.KAI_SCHEDULER,
    version="v0.17.0",
    style="folder",
    registry_path="global.registry",
    tag_path="global.tag",
    images=(
        *(_kai_image(at, name) for at, name in _OF_KAI.items()),
        *(_kai_image(at, name, _KAI_SCALES) for at, name in _OF_KAI_SCALING.items()),
    ),
    opaque_paths=("global.fips", "prometheus.enabled"),
    source="https://github.com/kai-scheduler/KAI-Scheduler/tree/v0.17.0/deployments/kai-scheduler",
    as_of=_READ,
)
_VERTICAL_POD_AUTOSCALER = ChartImages(
    name=charts.VERTICAL_POD_AUTOSCALER,
    version="0.11.0",
    images=(
        *(
            ChartImage(repository=f"{_VPA}-{name}", tag="1.7.1", at=f"{part}.image", switches=(enabled(part),))
            for part, name in _VPA_PARTS.items()
        ),
        ChartImage(
            repository="registry.k8s.io/ingress-nginx/kube-webhook-certgen",
            tag="v20231011-8b53cabe0",
            at="admissionController.certGen.image",
            switches=(enabled("admissionController"),),
        ),
    ),
    source="https://github.com/kubernetes/autoscaler/tree/vertical-pod-autoscaler-chart-0.11.0",
    as_of=_READ,
)
_KEDA = ChartImages(
    name=charts.KEDA,
    version="2.21.0",
    style="registry",
    registry_path="global.image.registry",
    images=tuple(
        ChartImage(repository=f"ghcr.io/kedacore/{name}", tag="2.21.0", at=f"image.{part}")
        for part, name in _KEDA_IMAGES.items()
    ),
    opaque_paths=("extraContainers",),
    source="https://github.com/kedacore/charts/tree/main/keda",
    as_of=_READ,
)
_KUEUE = ChartImages(
    name=charts.KUEUE,
    version="0.19.2",
    images=(
        ChartImage(repository="registry.k8s.io/kueue/kueue", tag="v0.19.2", at="controllerManager.manager.image"),
        *(
            ChartImage(
                repository=f"registry.k8s.io/kueue/kueueviz-{part}",
                tag="v0.19.2",
                at=f"kueueViz.{part}.image",
                switches=(Switch(path="enableKueueViz", default=False),),
            )
            for part in ("backend", "frontend")
        ),
    ),
    # hack/helm-chart-package.sh of the release writes registry and tag into the chart.
    source="https://github.com/kubernetes-sigs/kueue/tree/v0.19.2/charts/kueue",
    as_of=_READ,
)
CHARTS: tuple[ChartImages, ...] = (
    *_karpenter("1.14.1", "sha256:723130949e4cab989461ff07d1be4cd781d63515432494641b33c235f300ae23"),
    *_karpenter("1.15.1"),
    _one(
        charts.EFA_DEVICE_PLUGIN,
        "v0.5.30",
        # In the ECR of us-west-2, for clusters in any region.
        "602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/aws-efa-k8s-device-plugin",
        tag="v0.5.20",
        source="https://github.com/aws/eks-charts/tree/master/stable/aws-efa-k8s-device-plugin",
    ),
    _GPU_OPERATOR,
    _one(
        charts.DRA_DRIVER,
        "0.4.1",
        "registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu",
        tag="v0.4.1",
        source="https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/v0.4.1/deployments/helm",
    ),
    _PROMETHEUS_STACK,
    _one(
        charts.PROMETHEUS_ADAPTER,
        "5.3.0",
        "registry.k8s.io/prometheus-adapter/prometheus-adapter",
        tag="v0.12.0",
        source="https://github.com/prometheus-community/helm-charts/tree/prometheus-adapter-5.3.0",
    ),
    _KEDA,
    _VERTICAL_POD_AUTOSCALER,
    _KUEUE,
    # hack/helm-chart-package.sh and hack/push-chart.sh of these two write registry and tag into the chart.
    _one(
        charts.JOBSET,
        "0.12.0",
        "registry.k8s.io/jobset/jobset",
        tag="v0.12.0",
        source="https://github.com/kubernetes-sigs/jobset/tree/v0.12.0/charts/jobset",
    ),
    _one(
        charts.LEADER_WORKER_SET,
        "0.10.0",
        "registry.k8s.io/lws/lws",
        "image.manager",
        tag="v0.10.0",
        source="https://github.com/kubernetes-sigs/lws/tree/v0.10.0/charts/lws",
    ),
    _one(
        charts.KUBERAY,
        "1.7.0",
        "quay.io/kuberay/operator",
        tag="v1.7.0",
        source="https://github.com/ray-project/kuberay/tree/v1.7.0/helm-chart/kuberay-operator",
    ),
    _KAI,
    _one(
        charts.NODE_TERMINATION_HANDLER,
        "0.27.6",
        "public.ecr.aws/aws-ec2/aws-node-termination-handler",
        tag="v1.25.6",
        source="https://github.com/aws/aws-node-termination-handler/tree/v1.25.6/config/helm",
    ),
    _one(
        charts.LOAD_BALANCER_CONTROLLER,
        "3.5.0",
        "public.ecr.aws/eks/aws-load-balancer-controller",
        tag="v3.5.0",
        source="https://github.com/aws/eks-charts/tree/master/stable/aws-load-balancer-controller",
    ),
)
_BY_CHART = {(each.name, each.version): each for each in CHARTS}


def known_images(name: str, version: str | None) -> ChartImages | None:
    """Return the images of a version of a chart, or ``None`` if they are unknown."""
    return _BY_CHART.get((name, version or ""))
