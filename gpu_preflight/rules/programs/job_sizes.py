"""Numbers of nodes and slots of jobs that differ from their pods."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu_facts.light_patterns import regex
from gpu_facts.resources import GPU
from gpu_preflight.case import Case
from gpu_preflight.model.programs import Program, gpus_of, programs
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, is_true, known_number, mapping, mappings
from gpu_preflight.rules.rule import Problem, rule

# Kinds of which every pod takes part in the same job.
_JOBS = ("Job", "JobSet", "StatefulSet", "LeaderWorkerSet", "PyTorchJob", "TrainJob")
_MPI = regex(r"\b(?:mpirun|mpiexec)\b(.*)", re.DOTALL)
_RANKS = regex(r"\s(?:-np|-n|--np)[ =](\d{1,6})(?=\s|$)")


@rule("GPU485", "error", source="https://docs.pytorch.org/docs/2.9/elastic/run.html", at_start=True)
def more_nodes_than_pods(case: Case) -> Iterator[Problem]:
    """Program waits for more nodes than its job has pods.

    Each process waits for the others at its start. They time out, and the pods hold their GPUs until then.

    Fix: Set the number of nodes to the number of pods, or raise the number of pods.
    """
    for workload in case.gpu_workloads:
        pods = _pods(workload, case)
        if workload.owner.kind not in _JOBS or pods is None:
            continue
        for container in workload.pod.containers or ():
            world, gpus = known_number(container.env.get("WORLD_SIZE")), gpus_of(container)
            # torchrun sets the variable itself.
            if world is not None and gpus is not None and not programs(container) and world > pods * max(gpus, 1):
                text = (
                    f"container {container.name} has WORLD_SIZE={world}, and its job has {pods} pods with {gpus} GPUs"
                )
                yield Problem.of(workload, text, unknown=True)
            for program in programs(container):
                nodes = program.nodes
                if isinstance(nodes, int) and nodes != pods and nodes > 1:
                    text = f"container {container.name} runs {program.name} over {nodes} nodes, and its job has {pods}"
                    text += f" pod{'' if pods == 1 else 's'}"
                    # Pods above the number of nodes may be meant as spare ones, or for other groups.
                    if nodes > pods:
                        # An elastic job may come to more pods.
                        elastic = workload.owner.spec.get("elasticPolicy") is not None
                        certain = program.is_sure and not elastic and not _has_other_parts(workload, program, case)
                        yield Problem.of(workload, text, unknown=not certain)
                    elif pods % nodes:
                        yield Problem.of(workload, text, unknown=True)


def _has_other_parts(workload: Workload, program: Program, case: Case) -> bool:
    """Whether other objects may have the other pods, such as one StatefulSet for each node."""
    if workload.owner.kind == "StatefulSet":
        return True
    return any(
        other.name == program.name and other.nodes == program.nodes
        for each, _, other in case.gpu_programs
        if each.owner is not workload.owner
    )


def _pods(workload: Workload, case: Case) -> int | None:
    """Return how many pods exchange data with one of a workload, itself included; ``None`` where it is not known."""
    owner = workload.owner
    if owner.kind == "LeaderWorkerSet":
        size = dig(dict(owner.spec), "leaderWorkerTemplate", "size")
        return 1 if size is None else known_number(size)
    if owner.kind == "Job" and owner.spec.get("completionMode") != "Indexed":
        # Several Jobs, of one pod each, may form one.
        return None
    counts = [each.replicas for each in case.cluster.workloads_of(owner)]
    return None if None in counts else sum(each or 0 for each in counts)


@rule(
    "GPU486",
    "error",
    source="https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/mpi/",
    at_start=True,
)
def more_ranks_than_slots(case: Case) -> Iterator[Problem]:
    """Mpirun starts more processes than the workers of its MPIJob have slots.

    Open MPI ends with "There are not enough slots available", and the job fails.

    Fix: Set -np to slotsPerWorker times the workers.
    """
    for job in case.cluster.of_kind("MPIJob"):
        workers = known_number(dig(job.content, "spec", "mpiReplicaSpecs", "Worker", "replicas"))
        slots = known_number(job.spec.get("slotsPerWorker", 1))
        words = " ".join(map(str, _words(job, "Launcher")))
        started = _MPI.search(words)
        named = _RANKS.search(started[1]) if started else None
        ranks = int(named[1]) if named else 0
        if workers is not None and is_true(job.spec.get("runLauncherAsWorker")):
            workers += 1
        if workers is not None and slots is not None and ranks > workers * slots and "oversubscribe" not in words:
            text = f"MPIJob {job.namespace}/{job.name}: mpirun starts {ranks} processes, and {workers} workers with"
            yield Problem(job, f"{text} slotsPerWorker {slots} have {workers * slots} slots")


@rule("GPU487", "warning", source="https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/mpi/")
def slots_that_are_not_the_gpus_of_a_worker(case: Case) -> Iterator[Problem]:
    """MPIJob has another number of slots than its workers have GPUs.

    With more slots, several processes share a GPU, which NCCL rejects. With fewer, GPUs stay idle.

    Fix: Set slotsPerWorker to the GPUs of a worker.
    """
    for workload in case.gpu_workloads:
        job = workload.owner
        if job.kind != "MPIJob" or not workload.name.endswith(" Worker") or workload.pod.is_open:
            continue
        slots, gpus = known_number(job.spec.get("slotsPerWorker", 1)), workload.pod.requests.get(GPU, 0)
        if slots is not None and gpus and slots != gpus:
            yield Problem.of(
                workload, f"slotsPerWorker is {slots}, and a worker has {gpus} GPU{'s' if gpus > 1 else ''}"
            )


def _words(job: Object, role: str) -> list[object]:
    template = dig(job.content, "spec", "mpiReplicaSpecs", role, "template", "spec")
    containers = mappings(mapping(template).get("containers"))
    return [word for each in containers for part in ("command", "args") for word in each.get(part) or ()]


@rule("GPU488", "warning", source="https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/gpu.html")
def ray_that_counts_other_gpus_than_the_pod_has(case: Case) -> Iterator[Problem]:
    """Ray counts another number of GPUs than the pods of the group have.

    Ray starts tasks by num-gpus. With a larger number, tasks find no GPU. With a smaller one, GPUs stay idle.

    Fix: Remove num-gpus from rayStartParams: KubeRay takes it from the limits of the container.
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
        # A head with 0 runs no tasks on GPUs, which is meant.
        if counted and gpus and counted != gpus:
            yield Problem.of(workload, f"rayStartParams sets num-gpus {counted}, and the pod has {gpus}")
