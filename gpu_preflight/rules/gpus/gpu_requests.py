"""GPUs asked for in a way that Kubernetes refuses, or not asked for at all."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from gpu_facts.light_patterns import regex
from gpu_facts.quantities import quantity
from gpu_facts.resources import GPU, NVIDIA, OF_HAMI
from gpu_preflight.case import Case
from gpu_preflight.model.container import Container
from gpu_preflight.model.pod import pod_of
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.unknown import Unknown, mapping
from gpu_preflight.rules.rule import Problem, of_each_pod, rule

_DEVICES = "https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/"
_OLD = "alpha.kubernetes.io/nvidia-gpu"
# What NVIDIA's device plugin registers, shares and slices among it.
_IS_NVIDIA = regex(r"nvidia\.com/(gpu(\.shared)?|mig-\S+|pgpu|vgpu|GA10\S+|GRID\S+)")
# Images that do nothing without a GPU.
_GPU_IMAGE = regex(
    r"(nvcr\.io/nvidia/(cuda|pytorch|tensorflow|jax|tritonserver|nemo|tensorrt|tensorrt-llm/\S*|vllm)"
    r"|nvcr\.io/nim/\S+|(docker\.io/)?nvidia/cuda|(docker\.io/)?vllm/vllm-openai"
    r"|(docker\.io/)?lmsysorg/sglang)(:\S+|@\S+)?"
)
# Clients of model servers.
_CLIENT = regex(r":\S+-sdk(@\S+)?")
# Ways to ask other schedulers for a part of a GPU.
_PARTS = ("gpu-fraction", "gpu-memory")


@rule("GPU122", "error", source=_DEVICES)
def gpus_requested_without_the_same_limit(case: Case) -> Iterator[Problem]:
    """GPUs requested without the same limit.

    Extended resources are not overcommitted: the API server refuses the pod.

    Fix: Set nvidia.com/gpu in limits; the request follows from it.
    """
    for workload in case.cluster.workloads:
        for container in workload.containers:
            limits = container.limits
            if isinstance(limits, Unknown) or isinstance(container.asked, Unknown):
                continue
            for name, asked in container.asked.items():
                if name.startswith(NVIDIA) and _differs(name, asked, limits.get(name)):
                    limit = "no limit" if limits.get(name) is None else f"a limit of {limits[name]}"
                    text = f"container {container.name} requests {asked} {name} with {limit}"
                    yield Problem.of(workload, text)


def _differs(name: str, asked: Any, limit: Any) -> bool:
    amount = quantity(name, asked)
    if amount is None or isinstance(limit, Unknown):
        return False
    return amount != 0 if limit is None else quantity(name, limit) not in (None, amount)


@rule("GPU366", "error", source=_DEVICES)
def gpus_under_a_name_that_nothing_has(case: Case) -> Iterator[Problem]:
    """GPUs under a name that nothing has.

    No device plugin for NVIDIA's GPUs registers that name, and the pod stays Pending.

    Fix: Ask for nvidia.com/gpu in limits.
    """
    cluster = case.cluster
    registered = {name for each in cluster.daemon_sets for name in each.advertises}

    def strange_requests(workload: Workload) -> Iterator[Problem]:
        for container in workload.containers:
            for name in sorted({*mapping(container.limits), *mapping(container.asked)} - registered):
                if why := _strange(name):
                    sure = cluster.sees_software or name.startswith((NVIDIA, _OLD))
                    yield Problem.of(workload, f"container {container.name} asks for {name}, {why}", unknown=not sure)

    yield from of_each_pod(cluster.workloads, strange_requests)


def _strange(name: str) -> str:
    """Return what is wrong with the name of a resource, nothing where it may be right."""
    if name.startswith(_OLD):
        return "the name of Kubernetes before 1.10; it is nvidia.com/gpu"
    if name.startswith(("amd.com/gpu", "gpu.intel.com/")):
        return "which is not NVIDIA's; no GPU instance type of EC2 that preflight knows has it"
    if name in OF_HAMI:
        return ""
    near = get_close_matches(name, [GPU], 1, 0.8) if name != GPU and not _IS_NVIDIA.fullmatch(name) else []
    return f"which nothing registers; did you mean '{near[0]}'?" if near else ""


@rule("GPU123", "warning", source=_DEVICES)
def gpu_image_in_a_pod_that_asks_for_no_gpu(case: Case) -> Iterator[Problem]:
    """GPU image in a pod that asks for no GPU.

    The pod lands on any node, finds no device, or shares one that the scheduler gave to somebody else.

    Fix: Set limits nvidia.com/gpu in the container that uses the GPU, or claim a device.
    """
    for workload in case.cluster.workloads:
        if workload.asks_for_gpu or _may_ask(workload):
            continue
        for container in workload.containers:
            image = container.image_text
            if _GPU_IMAGE.fullmatch(image) and not _CLIENT.search(image) and not _is_told_what_to_do(container, image):
                text = f"container {container.name} runs {image} and asks for no GPU"
                yield Problem.of(workload, text)


def _is_told_what_to_do(container: Container, image: str) -> bool:
    """Whether an inference microservice runs one of its tools, e.g. one that downloads, and not its server."""
    return "/nim/" in image and bool(container.words)


def _may_ask(workload: Workload) -> bool:
    if any(name in workload.annotations for name in _PARTS) or any(map(_asks_elsewhere, workload.containers)):
        return True
    return any(isinstance(part, Unknown) for each in workload.containers for part in (each.limits, each.asked))


def _asks_elsewhere(container: Container) -> bool:
    """Whether a container asks for GPUs by a name of another device plugin, as ``volcano.sh/vgpu-number``."""
    return any("/" in name and "gpu" in name for name in mapping(container.limits))


@rule("GPU124", "warning", source="https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/")
def daemonset_that_asks_for_gpus(case: Case) -> Iterator[Problem]:
    """DaemonSet that asks for GPUs.

    No autoscaler makes a node for a DaemonSet, and its pod takes a GPU of every node from the workloads.

    Fix: Give monitoring pods no GPU resource; run workloads as Deployment or Job.
    """
    for daemon in case.cluster.of_kind("DaemonSet"):
        asked = {
            name: amount
            for each in pod_of(daemon).every_container
            for name, amount in mapping(each.limits).items()
            if name.startswith(NVIDIA)
        }
        for name, amount in asked.items():
            text = f"DaemonSet {daemon.namespace}/{daemon.name}: takes {amount} {name} of every node it runs on"
            yield Problem(daemon, text)


@rule(
    "GPU125", "note", source="https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#concurrency-policy"
)
def cronjob_whose_runs_can_pile_up_on_gpus(case: Case) -> Iterator[Problem]:
    """CronJob whose runs can pile up on GPUs.

    A run that waits for a GPU does not hold back the next one, so that every run asks for nodes of its own.

    Fix: Set concurrencyPolicy to Forbid or Replace.
    """
    for workload in case.cluster.workloads:
        if workload.overlaps and workload.asks_for_gpu:
            yield Problem.of(workload, "a run starts although the one before still waits or runs")
