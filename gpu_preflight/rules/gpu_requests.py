"""Rules for GPU requests and ResourceClaims that Kubernetes rejects or that are missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from gpu_facts.charts import GPU_OPERATOR
from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.light import regex
from gpu_facts.quantities import quantity
from gpu_facts.refusals import did_you_mean
from gpu_facts.resources import DEVICE_CLASS, GPU, NVIDIA, OF_HAMI
from gpu_preflight.case import Case
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.container import Container
from gpu_preflight.model.pod import Workload, read_pod_template
from gpu_preflight.node.devices import claims_chart, offers_gpus
from gpu_preflight.node.nodes import gpu_types, minor
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, is_true, known_text, mapping
from gpu_preflight.rule import Problem, check_each_pod, rule
from gpu_preflight.scheduling.demand import claim_requests, device_count, request_alternatives

_DEVICES = "https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/"
_OLD = "alpha.kubernetes.io/nvidia-gpu"
# Resources that NVIDIA's device plugin registers, including shares and slices.
_IS_NVIDIA = regex(r"nvidia\.com/(gpu(\.shared)?|mig-\S+|pgpu|vgpu|GA10\S+|GRID\S+)")
# Images that are useless without a GPU.
_GPU_IMAGE = regex(
    r"(nvcr\.io/nvidia/(cuda|pytorch|tensorflow|jax|tritonserver|nemo|tensorrt|tensorrt-llm/\S*|vllm)"
    r"|nvcr\.io/nim/\S+|(docker\.io/)?nvidia/cuda|(docker\.io/)?vllm/vllm-openai"
    r"|(docker\.io/)?lmsysorg/sglang)(:\S+|@\S+)?"
)
# Clients of model servers.
_CLIENT = regex(r":\S+-sdk(@\S+)?")
# Annotations by which other schedulers allocate a part of a GPU.
_PARTS = ("gpu-fraction", "gpu-memory")
_DRA = "https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/"
# Source: kubernetes-sigs/dra-driver-nvidia-gpu v0.4.1 deployments/helm/.../templates/deviceclass-*.yaml
_NVIDIAS = (
    DEVICE_CLASS,
    "mig.nvidia.com",
    "vfio.gpu.nvidia.com",
    "compute-domain-daemon.nvidia.com",
    "compute-domain-default-channel.nvidia.com",
)
# Classes that the driver creates only if its GPU support is on.
_OF_GPUS = _NVIDIAS[:3]
_NEAR = 0.75
# Kubernetes serves resource.k8s.io/v1 since this version.
# Source: https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
_SERVED_FROM = (1, 34)
_SERVED = "resource.k8s.io/v1"


@rule("GPU122", "error", source=_DEVICES)
def gpus_requested_without_the_same_limit(case: Case) -> Iterator[Problem]:
    """GPU request differs from the limit.

    Extended resources can't be overcommitted, so the API server rejects the pod.

    Fix: Set nvidia.com/gpu only in limits; Kubernetes sets the request to the same value.
    """
    for workload in case.cluster.workloads:
        for container in workload.containers:
            limits = container.limits
            requests = container.asked
            if isinstance(limits, Unknown) or isinstance(requests, Unknown):
                continue
            for name, amount in requests.items():
                if name.startswith(NVIDIA) and _differs(name, amount, limits.get(name)):
                    limit = "no limit" if limits.get(name) is None else f"a limit of {limits[name]}"
                    text = f"container {container.name} requests {amount} {name} with {limit}, but both must be equal"
                    yield Problem.from_subject(workload, text)


def _differs(name: str, request: Any, limit: Any) -> bool:
    amount = quantity(name, request)
    if amount is None or isinstance(limit, Unknown):
        return False
    return amount != 0 if limit is None else quantity(name, limit) not in (None, amount)


@rule("GPU366", "error", source=_DEVICES)
def gpus_under_a_name_that_nothing_has(case: Case) -> Iterator[Problem]:
    """GPUs are requested under a wrong resource name.

    No device plugin for NVIDIA GPUs registers this name, and the pod stays Pending.

    Fix: Set nvidia.com/gpu in limits.
    """
    cluster = case.cluster
    registered = {name for each in cluster.daemon_sets for name in each.advertises}

    def strange_requests(workload: Workload) -> Iterator[Problem]:
        """Yield the requests of a pod for resources that nothing advertises."""
        for container in workload.containers:
            for name in sorted(container.names - registered):
                if why := _strange(name):
                    sure = cluster.sees_software or name.startswith((NVIDIA, _OLD))
                    yield Problem.from_subject(
                        workload, f"container {container.name} requests {name}, {why}", unknown=not sure
                    )

    yield from check_each_pod(cluster.workloads, strange_requests)


def _strange(name: str) -> str:
    """Return the error in the name of a resource; empty if it may be right."""
    if name.startswith(_OLD):
        return "which only Kubernetes before 1.10 had; write nvidia.com/gpu"
    if name.startswith(("amd.com/gpu", "gpu.intel.com/")):
        return "which no NVIDIA GPU instance type of EC2 has; write nvidia.com/gpu"
    if name in OF_HAMI:
        return ""
    near = get_close_matches(name, [GPU], 1, 0.8) if name != GPU and not _IS_NVIDIA.fullmatch(name) else []
    return f"which no device plugin registers; did you mean '{near[0]}'?" if near else ""


@rule("GPU123", "warning", source=_DEVICES)
def gpu_image_in_a_pod_that_asks_for_no_gpu(case: Case) -> Iterator[Problem]:
    """Pod runs a GPU image but requests no GPU.

    The pod runs on any node. It finds no device, or uses one that the scheduler assigned to another pod.

    Fix: Set nvidia.com/gpu in limits of the container that uses the GPU, or claim a device.
    """
    for workload in case.cluster.workloads:
        if workload.asks_for_gpu or _may_request(workload):
            continue
        for container in workload.containers:
            image = container.image_text
            if _GPU_IMAGE.fullmatch(image) and not _CLIENT.search(image) and not _runs_a_tool(container, image):
                text = f"container {container.name} runs GPU image {image} but requests no GPU"
                yield Problem.from_subject(workload, text)


def _runs_a_tool(container: Container, image: str) -> bool:
    """Whether an inference microservice runs one of its tools, for example a download, instead of its server."""
    return "/nim/" in image and bool(container.words)


def _may_request(workload: Workload) -> bool:
    if any(name in workload.annotations for name in _PARTS) or any(map(_requests_other_gpus, workload.containers)):
        return True
    return any(isinstance(part, Unknown) for each in workload.containers for part in (each.limits, each.asked))


def _requests_other_gpus(container: Container) -> bool:
    """Whether a container requests GPUs by a name of another device plugin, such as ``volcano.sh/vgpu-number``."""
    return any("/" in name and "gpu" in name for name in mapping(container.limits))


@rule("GPU124", "warning", source="https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/")
def daemonset_that_asks_for_gpus(case: Case) -> Iterator[Problem]:
    """DaemonSet requests GPUs.

    Autoscalers create no node for a DaemonSet, and its pod takes a GPU of every node from the workloads.

    Fix: Remove the resource from limits if the pods only monitor GPUs. Otherwise use a Deployment or a Job.
    """
    for daemon in case.cluster.objects_of_kind("DaemonSet"):
        requested = {
            name: amount
            for each in read_pod_template(daemon).every_container
            for name, amount in mapping(each.limits).items()
            if name.startswith(NVIDIA)
        }
        for name, amount in requested.items():
            text = f"DaemonSet {daemon.namespace}/{daemon.name} takes {amount} {name} on every node from the workloads"
            yield Problem(daemon, text)


@rule(
    "GPU125", "note", source="https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#concurrency-policy"
)
def cronjob_whose_runs_can_pile_up_on_gpus(case: Case) -> Iterator[Problem]:
    """Runs of a CronJob can pile up on GPUs.

    A run that waits for a GPU doesn't block the next one, so every run requests its own nodes.

    Fix: Set concurrencyPolicy to Forbid or Replace.
    """
    for workload in case.cluster.workloads:
        if workload.overlaps and workload.asks_for_gpu:
            text = "concurrencyPolicy Allow starts a run while the previous run still waits for GPUs or uses them"
            yield Problem.from_subject(workload, text)


def _claims(cluster: Cluster) -> Iterator[tuple[Workload, str, str]]:
    """Yield kind and name of the object of each claim of each workload."""
    for workload in cluster.workloads:
        for each in workload.pod.claims:
            for kind, written in (("ResourceClaim", each.claim), ("ResourceClaimTemplate", each.template)):
                if name := known_text(written):
                    yield workload, kind, name


def _object(cluster: Cluster, workload: Workload, kind: str, name: str) -> Object | None:
    found = cluster.objects_of_kind(kind)
    return next((each for each in found if (each.namespace, each.name) == (workload.namespace, name)), None)


@rule("GPU131", "error", source=_DRA)
def claim_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """ResourceClaim or its template doesn't exist.

    The pod waits until the ResourceClaim or ResourceClaimTemplate exists.

    Fix: Create the object in the pod's namespace, or correct the name in the pod's resourceClaims.
    """
    cluster = case.cluster
    if not cluster.shows_software:
        return
    for workload, kind, name in _claims(cluster):
        if _object(cluster, workload, kind, name) is None:
            text = f"{kind} {workload.namespace}/{name} doesn't exist"
            yield Problem.from_subject(workload, text, unknown=not cluster.sees_software, doubt=cluster.doubt)


@rule("GPU132", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/device-management-nvidia.html")
def claimed_device_class_that_nothing_installs(case: Case) -> Iterator[Problem]:
    """Claimed DeviceClass isn't installed.

    The claim is never allocated, and its pods stay Pending.

    Fix: Install NVIDIA's DRA driver, whose chart contains its device classes.
    """
    cluster = case.cluster
    if not cluster.shows_software:
        return
    known = {each.name for each in cluster.objects_of_kind("DeviceClass")}
    for claim in cluster.objects_of_kind("ResourceClaim", "ResourceClaimTemplate"):
        for ways in request_alternatives(claim):
            names = [known_text(each.get("deviceClassName")) for each in ways]
            absent = [name for name in names if name and name not in known and _is_absent(name, cluster)]
            if absent and len(absent) == len(names):
                text = f"{claim.kind} {claim.name}: no driver in the input installs DeviceClass {absent[0]}"
                chart, fix = claims_chart(cluster), ""
                if chart is not None:
                    text += f", because resources.gpus.enabled of chart {chart.name} is off"
                    fix = (
                        "Set resources.gpus.enabled: true and gpuResourcesEnabledOverride: true in the chart's values."
                    )
                yield Problem(claim, text, fix, unknown=not cluster.sees_software, doubt=cluster.doubt)


def _is_absent(name: str, cluster: Cluster) -> bool:
    """Whether a class belongs to NVIDIA, and no installed release of its driver creates it."""
    chart = claims_chart(cluster)
    operator = cluster.chart(GPU_OPERATOR)
    if operator is not None and dig(operator.values, "gpuCluster", "deployCR") not in (None, False, "false"):
        return False
    if chart is None:
        return name.endswith(".nvidia.com")
    return name in _OF_GPUS and not offers_gpus(chart)


@rule("GPU388", "warning", source=_DRA)
def claimed_device_class_that_is_misspelt(case: Case) -> Iterator[Problem]:
    """Name of the claimed DeviceClass is misspelled.

    The claim is never allocated, and its pods stay Pending.

    Fix: Use the name of an existing DeviceClass.
    """
    cluster = case.cluster
    known = {*_NVIDIAS, *(each.name for each in cluster.objects_of_kind("DeviceClass"))}
    for claim in cluster.objects_of_kind("ResourceClaim", "ResourceClaimTemplate"):
        for each in claim_requests(claim):
            name = known_text(each.get("deviceClassName"))
            if name and name not in known and (near := did_you_mean(name, known, closeness=_NEAR)):
                text = f"{claim.kind} {claim.name}: no driver in the input installs DeviceClass {name}{near}"
                yield Problem(claim, text, unknown=not cluster.sees_objects, doubt=cluster.doubt)


@rule("GPU133", "error", source=_DRA)
def claim_of_more_gpus_than_a_node_has(case: Case) -> Iterator[Problem]:
    """Claim requests more GPUs than a node has.

    The devices of one claim must be on one node.

    Fix: Claim at most the GPUs of one node and distribute the work over several pods, or add a pool of a larger type.
    """
    cluster = case.cluster
    most = max((catalogue()[name].gpus for pool in case.gpu_pools for name in gpu_types(pool)), default=0)
    for claim in cluster.objects_of_kind("ResourceClaim", "ResourceClaimTemplate"):
        gpus = sum(min(map(_gpus, ways), default=0) for ways in request_alternatives(claim))
        if most and gpus > most:
            text = f"{claim.kind} {claim.name}: claims {gpus} GPUs, but no node of the pools has more than {most}"
            yield Problem(claim, text, unknown=not cluster.whole, doubt=cluster.doubt)


def _gpus(request: Mapping[str, Any]) -> int:
    """Return the minimum number of whole GPUs that a request takes."""
    whole = request.get("deviceClassName") == DEVICE_CLASS and not request.get("capacity")
    return (device_count(request) or 0) if whole and not is_true(request.get("adminAccess")) else 0


@rule("GPU134", "error", source="https://kubernetes.io/blog/2025/09/01/kubernetes-v1-34-dra-updates/")
def claims_on_a_kubernetes_version_without_their_api(case: Case) -> Iterator[Problem]:
    """Kubernetes version doesn't serve the API of claims.

    The API server doesn't know the kind, and the deployment fails.

    Fix: Use Kubernetes 1.34 or later.
    """
    cluster = case.cluster
    version = cluster.version
    if version is None or minor(version) >= _SERVED_FROM or minor(version) == (0, 0):
        return
    for each in cluster.objects_of_kind("ResourceClaim", "ResourceClaimTemplate", "DeviceClass"):
        if each.content.get("apiVersion") == _SERVED:
            yield Problem(each, f"{each.kind} {each.name}: Kubernetes {version} doesn't serve {_SERVED}")
