"""Shared memory of containers whose processes use several GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.light_patterns import regex
from gpu_facts.quantities import MIB, quantity
from gpu_preflight.case import Case
from gpu_preflight.model.container import Container
from gpu_preflight.model.programs import Program, gpus_of, programs
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.unknown import Unknown, mapping, mappings
from gpu_preflight.rules.rule import Problem, rule

_SHM = "/dev/shm"
# Source: containerd/containerd internal/cri/server/podsandbox/helpers.go ``defaultShmSize`` (2026-11)
_DEFAULT_BYTES = 64 * MIB
# Images of frameworks whose processes, and workers that load data, share memory.
# Source: https://docs.nvidia.com/deeplearning/frameworks/pytorch-release-notes/ ("shared memory", 2026-11)
_IMAGE = regex(r"(^|/)(nvidia/(pytorch|nemo|tensorrt-llm/release)|pytorch/pytorch|pytorch-training|sglang)(:|@|$)")
_NO_WORK = regex(r"\b(sleep|nvidia-smi|sshd|infinity|tail -f)\b")


@rule("GPU474", "warning", source="https://github.com/NVIDIA/nccl/issues/525")
def several_gpus_without_shared_memory(case: Case) -> Iterator[Problem]:
    """Container with several GPUs has a /dev/shm of 64 MiB or less.

    Processes on several GPUs exchange data through /dev/shm. NCCL fails with "Error while creating shared memory
    segment", and workers that load data end with a bus error.

    Fix: Mount an emptyDir with medium: Memory and a sizeLimit of some GiB at /dev/shm.
    """
    for workload in case.gpu_workloads:
        if workload.pod.written.get("hostIPC") not in (None, False):
            continue
        for container in workload.pod.containers or ():
            gpus = gpus_of(container)
            if gpus is None or gpus < 2 or _has_shared_memory(workload, container):
                continue
            several = next((each for each in programs(container) if _is_distributed(each)), None)
            if several is not None:
                text = f"container {container.name} runs {several.name} on {gpus} GPUs, and {_found(container)}"
                yield Problem.of(workload, text)
            elif _IMAGE.search(container.image_text) and not _is_idle(container) and not programs(container):
                text = f"container {container.name} has {gpus} GPUs, and {_found(container)}"
                yield Problem.of(workload, text, unknown=True)


def _found(container: Container) -> str:
    """Return what is wrong at ``/dev/shm``."""
    if any(path.rstrip("/") == _SHM for path in container.mounts):
        return f"the volume at {_SHM} has 64 MiB or less"
    return f"nothing is mounted at {_SHM}"


def _is_distributed(program: Program) -> bool:
    needed = program.gpus_per_node
    disabled = str(program.variables.get("NCCL_SHM_DISABLE", "0")) == "1"
    return not disabled and (not isinstance(needed, int) or needed > 1)


def _is_idle(container: Container) -> bool:
    return not container.words or _NO_WORK.search(" ".join(map(str, container.words))) is not None


def _has_shared_memory(workload: Workload, container: Container) -> bool:
    """Whether a container has, or may have, a volume at ``/dev/shm`` or above that is larger than the default."""
    for each in mappings(workload.pod.written.get("containers")):
        if str(each.get("name")) == container.name and isinstance(each.get("volumeMounts"), Unknown):
            return True
    small = _small_volumes(workload)
    paths = [path.rstrip("/") for path, volume in container.mounts.items() if volume not in small]
    return any(each in (_SHM, "/dev") or "${" in each or "{{" in each for each in paths)


def _small_volumes(workload: Workload) -> set[str]:
    """Return the names of volumes in memory that are no larger than /dev/shm is anyway."""
    sources = {
        str(each.get("name")): mapping(each.get("emptyDir")) for each in mappings(workload.pod.written.get("volumes"))
    }
    sizes = {
        name: quantity("memory", source.get("sizeLimit"))
        for name, source in sources.items()
        if source.get("medium") == "Memory"
    }
    return {name for name, size in sizes.items() if size is not None and size <= _DEFAULT_BYTES}
