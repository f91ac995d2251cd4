"""Rules for parallel jobs: numbers of nodes and processes, and shared memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu_facts.light import regex
from gpu_facts.quantities import MIB, quantity
from gpu_facts.resources import GPU
from gpu_preflight.case import Case
from gpu_preflight.cluster.operators import count
from gpu_preflight.model.container import Container
from gpu_preflight.model.pod import Workload, read_pod
from gpu_preflight.model.programs import LAUNCHERS, Program, count_whole_gpus, programs, uses_ray, visible_gpus
from gpu_preflight.reading.unknown import dig, is_true, known_number, mapping, mappings
from gpu_preflight.rule import Problem, rule

# Kinds whose pods all take part in the same job.
_JOBS = ("Job", "JobSet", "StatefulSet", "LeaderWorkerSet", "PyTorchJob", "TrainJob")
_MPI = regex(r"\b(?:mpirun|mpiexec)\b(.*)", re.DOTALL)
_RANKS = regex(r"\s(?:-np|-n|--np)[ =](\d{1,6})(?=\s|$)")
_VLLM = "https://docs.vllm.ai/en/v0.11.2/serving/parallelism_scaling.html"
_IN_BACKGROUND = regex(r"(?<![&>])&(?![&>\d])")
# Kinds whose pods share the processes of one program.
_OF_SEVERAL_PODS = ("LeaderWorkerSet", "RayCluster", "RayJob", "RayService", "DynamoGraphDeployment", "MPIJob")
# Controllers that set the number of processes by variables of the pod.
# Source: https://www.kubeflow.org/docs/components/trainer/user-guides/pytorch/ (2026-11)
_SETS_PROCESSES = ("PyTorchJob", "TrainJob")
_SHM = "/dev/shm"
# Source: containerd/containerd internal/cri/server/podsandbox/helpers.go ``defaultShmSize`` (2026-11)
_DEFAULT_BYTES = 64 * MIB
# Images of frameworks whose processes and data loaders share memory.
# Source: https://docs.nvidia.com/deeplearning/frameworks/pytorch-release-notes/ ("shared memory", 2026-11)
_IMAGE = regex(r"(^|/)(nvidia/(pytorch|nemo|tensorrt-llm/release)|pytorch/pytorch|pytorch-training|sglang)(:|@|$)")
_NO_WORK = regex(r"\b(sleep|nvidia-smi|sshd|infinity|tail -f)\b")


@rule("GPU485", "error", source="https://docs.pytorch.org/docs/2.9/elastic/run.html", at_start=True)
def more_nodes_than_pods(case: Case) -> Iterator[Problem]:
    """Program waits for more nodes than its job has pods.

    Each process waits for the others at its start, while the pods keep their GPUs. After a timeout, they fail.

    Fix: Set the number of nodes to the number of pods.
    """
    for workload in case.gpu_workloads:
        pods = _pods(workload, case)
        if workload.owner.kind not in _JOBS or pods is None:
            continue
        for container in workload.pod.containers or ():
            world, gpus = known_number(container.env.get("WORLD_SIZE")), count_whole_gpus(container)
            # torchrun sets the variable itself.
            if world is not None and gpus is not None and not programs(container) and world > pods * max(gpus, 1):
                text = (
                    f"container {container.name} has WORLD_SIZE={world}, but its job has {pods} pods with {gpus} GPUs "
                    "each"
                )
                fix = f"Set WORLD_SIZE to {pods * gpus}, or raise the number of pods." if gpus else ""
                yield Problem.from_subject(workload, text, fix=fix, unknown=True)
            for program in programs(container):
                nodes = program.nodes
                if isinstance(nodes, int) and nodes != pods and nodes > 1:
                    text = f"container {container.name} runs {program.name} on {nodes} nodes, but its job has {pods}"
                    text += f" pod{'' if pods == 1 else 's'}"
                    # More pods than nodes may be spare ones, or for other groups.
                    if nodes > pods:
                        # An elastic job may get more pods.
                        elastic = workload.owner.spec.get("elasticPolicy") is not None
                        certain = program.is_sure and not elastic and not _has_other_parts(workload, program, case)
                        fix = f"Set the number of nodes of {program.name} to {pods}, or the number of pods to {nodes}."
                        yield Problem.from_subject(workload, text, fix=fix, unknown=not certain)
                    elif pods % nodes:
                        yield Problem.from_subject(workload, text, unknown=True)


def _has_other_parts(workload: Workload, program: Program, case: Case) -> bool:
    """Whether other objects may contain the other pods, such as one StatefulSet for each node."""
    if workload.owner.kind == "StatefulSet":
        return True
    return any(
        other.name == program.name and other.nodes == program.nodes
        for each, _, other in case.gpu_programs
        if each.owner is not workload.owner
    )


def _pods(workload: Workload, case: Case) -> int | None:
    """Return how many pods exchange data with one pod of a workload, including it; ``None`` if it isn't known."""
    owner = workload.owner
    if owner.kind == "LeaderWorkerSet":
        size = dig(dict(owner.spec), "leaderWorkerTemplate", "size")
        return 1 if size is None else known_number(size)
    if owner.kind == "Job" and owner.spec.get("completionMode") != "Indexed":
        # Several Jobs with one pod each may form one parallel job.
        return None
    counts = [each.replicas for each in case.cluster.owned_workloads(owner)]
    return None if None in counts else sum(each or 0 for each in counts)


@rule(
    "GPU486",
    "error",
    source="https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/mpi/",
    at_start=True,
)
def more_ranks_than_slots(case: Case) -> Iterator[Problem]:
    """MPIJob has fewer slots than mpirun starts processes.

    Open MPI fails with "There are not enough slots available", and so does the job.

    Fix: Set -np to slotsPerWorker times the number of workers.
    """
    for job in case.cluster.objects_of_kind("MPIJob"):
        workers = known_number(dig(job.spec, "mpiReplicaSpecs", "Worker", "replicas"))
        launcher = read_pod(mapping(dig(job.spec, "mpiReplicaSpecs", "Launcher", "template", "spec")))
        slots = known_number(job.spec.get("slotsPerWorker", 1))
        words = " ".join(str(word) for each in launcher.containers or () for word in each.words)
        started = _MPI.search(words)
        named = _RANKS.search(started[1]) if started else None
        ranks = int(named[1]) if named else 0
        if workers is not None and is_true(job.spec.get("runLauncherAsWorker")):
            workers += 1
        if workers is not None and slots is not None and ranks > workers * slots and "oversubscribe" not in words:
            text = f"mpirun starts {ranks} processes, but {workers} workers with"
            fix = f"Set -np of mpirun to {workers * slots}, or raise slotsPerWorker or the number of workers."
            yield Problem.from_subject(job, f"{text} slotsPerWorker {slots} have {workers * slots} slots", fix=fix)


@rule("GPU487", "warning", source="https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/mpi/")
def slots_that_are_not_the_gpus_of_a_worker(case: Case) -> Iterator[Problem]:
    """MPIJob's slots differ from the GPUs of a worker.

    With more slots, several processes share a GPU, which NCCL rejects. With fewer slots, GPUs are idle.

    Fix: Set slotsPerWorker to the GPUs of a worker.
    """
    for workload in case.gpu_workloads:
        job = workload.owner
        if job.kind != "MPIJob" or not workload.name.endswith(" Worker") or workload.pod.is_open:
            continue
        slots, gpus = known_number(job.spec.get("slotsPerWorker", 1)), workload.pod.requests.get(GPU, 0)
        if slots is not None and gpus and slots != gpus:
            text = f"slotsPerWorker is {slots}, but a worker has {gpus} GPU{'s' if gpus > 1 else ''}"
            yield Problem.from_subject(workload, text, fix=f"Set slotsPerWorker to {gpus}.")


@rule("GPU488", "warning", source="https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/gpu.html")
def ray_that_counts_other_gpus_than_the_pod_has(case: Case) -> Iterator[Problem]:
    """Ray counts a different number of GPUs than the pod has.

    Ray schedules tasks by num-gpus. With a larger number, tasks find no GPU. With a smaller one, GPUs are idle.

    Fix: Remove num-gpus from rayStartParams: KubeRay uses the limits of the container.
    """
    for workload in case.gpu_workloads:
        owner = workload.owner
        inner = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig", "RayCluster": ""}.get(owner.kind)
        if inner is None or workload.pod.is_open:
            continue
        spec = mapping(owner.spec.get(inner)) if inner else dict(owner.spec)
        groups = {"head": mapping(spec.get("headGroupSpec"))}
        groups |= {str(each.get("groupName")): each for each in mappings(spec.get("workerGroupSpecs"))}
        group = groups.get(workload.name.rpartition(" ")[2], {})
        counted = known_number(mapping(group.get("rayStartParams")).get("num-gpus"))
        gpus = workload.pod.requests.get(GPU, 0)
        # A head with 0 runs no tasks on GPUs, which is intended.
        if counted and gpus and counted != gpus:
            text = f"rayStartParams sets num-gpus {counted}, but the pod has {gpus} GPU{'s' if gpus > 1 else ''}"
            yield Problem.from_subject(workload, text)


@rule("GPU472", "error", source=_VLLM, at_start=True)
def more_gpu_processes_than_gpus(case: Case) -> Iterator[Problem]:
    """Program starts more GPU processes than its container has GPUs.

    Each process needs its own GPU. The program fails at its start, for example vLLM with "World size (8) is larger than
    the number of available GPUs (4)". Its pod restarts and keeps its GPUs.

    Fix: Set the parallel size to the GPUs of the container, or request as many GPUs in limits.
    """
    for workload, container, program in case.gpu_programs:
        gpus, needed = visible_gpus(container, program), program.gpus_per_node
        if gpus is None or "NVIDIA_VISIBLE_DEVICES" in container.env:
            continue
        certain = program.is_sure and not program.is_open and isinstance(needed, int)
        # Without a Ray cluster, Ray has only the GPUs of the pod.
        certain = certain and program.setting("backend") in (None, "mp")
        wanted = program.gpus_per_node_min
        if wanted > gpus and not _spans_pods(workload, container, program):
            text, fix = _text(container, program, wanted, gpus), _size_fix(program, gpus, wanted)
            yield Problem.from_subject(workload, text, fix=fix, unknown=not certain)
        elif (total := _gpus_of_group(workload, case)) is not None and _world(program) > total:
            yield Problem.from_subject(
                workload, _group_text(program, total), fix=_size_fix(program, total), unknown=True
            )


@rule("GPU473", "warning", source=_VLLM)
def fewer_gpu_processes_than_gpus(case: Case) -> Iterator[Problem]:
    """Program uses fewer GPUs than its container has.

    The other GPUs are idle, and no other pod can use them.

    Fix: Set the parallel size to the GPUs of the container, or request fewer GPUs in limits.
    """
    for workload, container, program in case.gpu_programs:
        gpus, needed = visible_gpus(container, program), program.gpus_per_node
        alone = len(programs(container)) == 1 and program.is_sure and not program.is_open
        # Another process of a script may use the other GPUs.
        alone = alone and not any(map(_IN_BACKGROUND.search, map(str, container.words)))
        if gpus is None or not alone or not isinstance(needed, int) or "CUDA_VISIBLE_DEVICES" in program.variables:
            continue
        if (
            program.name == "torchrun"
            and workload.owner.kind in _SETS_PROCESSES
            and program.setting("processes") is None
        ):
            continue
        if _spans_pods(workload, container, program):
            total = _gpus_of_group(workload, case)
            if total is not None and 0 < _world(program) < total:
                yield Problem.from_subject(
                    workload, _group_text(program, total), fix=_size_fix(program, total), unknown=True
                )
        elif needed < gpus:
            text, fix = _text(container, program, needed, gpus), _size_fix(program, gpus, needed)
            yield Problem.from_subject(workload, text, fix=fix)


def _spans_pods(workload: Workload, container: Container, program: Program) -> bool:
    """Whether the processes of a program may be in several pods without its own settings showing it."""
    if isinstance(program.nodes, int) and program.nodes > 1:
        # Then its settings state how many processes each node has.
        return False
    if program.name in LAUNCHERS:
        return program.setting("hosts") is not None
    several = workload.owner.kind in _OF_SEVERAL_PODS and (workload.replicas != 1 or workload.together)
    workers = "workerSpec" in mapping(workload.owner.spec.get("predictor"))
    open_nodes = not isinstance(program.nodes, int) and not program.is_open
    return several or workers or uses_ray(container) or open_nodes


def _gpus_of_group(workload: Workload, case: Case) -> int | None:
    """Return the GPUs of one group of a LeaderWorkerSet; ``None`` for other kinds, or if they aren't known."""
    groups = count(workload.owner.spec.get("replicas"))
    if workload.owner.kind != "LeaderWorkerSet" or not groups:
        return None
    total = 0
    for each in case.cluster.owned_workloads(workload.owner):
        gpus = each.pod.requests.get(GPU, 0)
        if each.pod.is_open or each.replicas is None or any(one.devices - {GPU} for one in each.containers):
            return None
        total += gpus * each.replicas
    return total // groups


def _world(program: Program) -> int:
    group, nodes = program.group, program.nodes
    return group if isinstance(group, int) and program.name not in LAUNCHERS and isinstance(nodes, int) else 0


def _text(container: Container, program: Program, needed: int, gpus: int) -> str:
    per_node = " on each node" if isinstance(program.nodes, int) and program.nodes > 1 else ""
    uses = f"{program.name} uses {needed} GPU{'s' if needed > 1 else ''}{per_node} ({_sizes(program)})"
    return f"container {container.name} has {gpus} GPU{'s' if gpus > 1 else ''}, but {uses}"


def _size_fix(program: Program, gpus: int, needed: int | None = None) -> str:
    """Return how a program uses the GPUs of its container, or of all its pods without ``needed``."""
    nodes = program.nodes if isinstance(program.nodes, int) and needed else 1
    sizes = [*_named_sizes(program)] or ["tensor parallel size"]
    what = sizes[0] if len(sizes) == 1 else f"product of {' and '.join(sizes)}"
    size = f"number of processes to {gpus}" if program.name in LAUNCHERS else f"{what} to {gpus * nodes}"
    return f"Set the {size}{f', or {GPU} in limits of the container to {needed}' if needed else ''}."


def _group_text(program: Program, total: int) -> str:
    return f"the pods of its group have {total} GPUs, but {program.name} uses {_world(program)} ({_sizes(program)})"


def _sizes(program: Program) -> str:
    if program.name in LAUNCHERS:
        return f"{program.processes} processes"
    found = (f"{name} {size}" for name, size in _named_sizes(program).items())
    return " and ".join(found) or "tensor parallel size 1"


def _named_sizes(program: Program) -> dict[str, int]:
    """Return the parallel sizes of a program that aren't 1."""
    named = {
        "tensor parallel size": program.tensor,
        "pipeline parallel size": program.pipeline,
        "data parallel size": program.data,
    }
    return {name: size for name, size in named.items() if isinstance(size, int) and size != 1}


@rule("GPU474", "warning", source="https://github.com/NVIDIA/nccl/issues/525")
def several_gpus_without_shared_memory(case: Case) -> Iterator[Problem]:
    """Container with several GPUs has too little shared memory.

    Processes on several GPUs exchange data through /dev/shm. NCCL fails with "Error while creating shared memory
    segment", and data loaders fail with a bus error.

    Fix: Mount an emptyDir with medium: Memory and a sizeLimit, for example 8Gi, at /dev/shm.
    """
    for workload in case.gpu_workloads:
        if workload.pod.written.get("hostIPC") not in (None, False):
            continue
        for container in workload.pod.containers or ():
            gpus = count_whole_gpus(container)
            if gpus is None or gpus < 2 or _has_shared_memory(workload, container):
                continue
            several = next((each for each in programs(container) if _is_distributed(each)), None)
            if several is not None:
                text = f"container {container.name} runs {several.name} on {gpus} GPUs, but {_found(container)}"
                yield Problem.from_subject(workload, text)
            elif _IMAGE.search(container.image_text) and not _is_idle(container) and not programs(container):
                text = f"container {container.name} has {gpus} GPUs, but {_found(container)}"
                yield Problem.from_subject(workload, text, unknown=True)


def _found(container: Container) -> str:
    """Return the fault at ``/dev/shm``."""
    if any(path.rstrip("/") == _SHM for path in container.mounts):
        return f"the volume at {_SHM} has only 64 MiB or less"
    return f"{_SHM} has the default size of 64 MiB, because no volume is mounted there"


def _is_distributed(program: Program) -> bool:
    needed = program.gpus_per_node
    disabled = str(program.variables.get("NCCL_SHM_DISABLE", "0")) == "1"
    return not disabled and (not isinstance(needed, int) or needed > 1)


def _is_idle(container: Container) -> bool:
    return not container.words or _NO_WORK.search(" ".join(map(str, container.words))) is not None


def _has_shared_memory(workload: Workload, container: Container) -> bool:
    """Whether a container has, or may have, a volume at ``/dev/shm`` or above that is larger than the default."""
    limits = {each.name: quantity("memory", each.memory_limit) for each in workload.pod.volumes}
    # Memory volumes that aren't larger than the default /dev/shm.
    small = {name for name, size in limits.items() if size is not None and size <= _DEFAULT_BYTES}
    paths = [path.rstrip("/") for path, volume in container.mounts.items() if volume not in small]
    return container.volume_mounts is None or any(
        each in (_SHM, "/dev") or "${" in each or "{{" in each for each in paths
    )
