"""Parallel sizes of programs that differ from the GPUs of their containers."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.light_patterns import regex
from gpu_facts.resources import GPU
from gpu_preflight.case import Case
from gpu_preflight.cluster.operators.part import count
from gpu_preflight.model.container import Container
from gpu_preflight.model.programs import LAUNCHERS, Program, programs, uses_ray, visible_gpus
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.unknown import mapping
from gpu_preflight.rules.rule import Problem, rule

_VLLM = "https://docs.vllm.ai/en/v0.11.2/serving/parallelism_scaling.html"
_IN_BACKGROUND = regex(r"(?<![&>])&(?![&>\d])")
# Kinds whose pods share the processes of one program.
_OF_SEVERAL_PODS = ("LeaderWorkerSet", "RayCluster", "RayJob", "RayService", "DynamoGraphDeployment", "MPIJob")
# Controllers that set the number of processes by variables of the pod.
# Source: https://www.kubeflow.org/docs/components/trainer/user-guides/pytorch/ (2026-11)
_SETS_PROCESSES = ("PyTorchJob", "TrainJob")


@rule("GPU472", "error", source=_VLLM, at_start=True)
def more_gpu_processes_than_gpus(case: Case) -> Iterator[Problem]:
    """Program starts more GPU processes than its container has GPUs.

    Each process needs a GPU of its own. The program ends at its start, e.g. vLLM with "World size (8) is larger than
    the number of available GPUs (4)", and its pod restarts and keeps its GPUs.

    Fix: Set the parallel size to the GPUs of the container, or request as many GPUs in limits.
    """
    for workload, container, program in case.gpu_programs:
        gpus, needed = visible_gpus(container, program), program.gpus_per_node
        if gpus is None or "NVIDIA_VISIBLE_DEVICES" in container.env:
            continue
        certain = program.is_sure and not program.is_open and isinstance(needed, int)
        # Without a Ray cluster, Ray has the GPUs of the pod alone.
        certain = certain and program.setting("backend") in (None, "mp")
        wanted = program.gpus_per_node_min
        if wanted > gpus and not _spans_pods(workload, container, program):
            yield Problem.of(workload, _text(container, program, wanted, gpus), unknown=not certain)
        elif (total := _gpus_of_group(workload, case)) is not None and _world(program) > total:
            yield Problem.of(workload, _group_text(program, total), unknown=True)


@rule("GPU473", "warning", source=_VLLM)
def fewer_gpu_processes_than_gpus(case: Case) -> Iterator[Problem]:
    """Program uses fewer GPUs than its container has.

    The other GPUs stay idle, and no other pod can use them.

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
                yield Problem.of(workload, _group_text(program, total), unknown=True)
        elif needed < gpus:
            yield Problem.of(workload, _text(container, program, needed, gpus))


def _spans_pods(workload: Workload, container: Container, program: Program) -> bool:
    """Whether the processes of a program may be in several pods, in a way that its own settings don't show."""
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
    """Return the GPUs of one group of a LeaderWorkerSet; ``None`` where they are not known or it is another kind."""
    groups = count(workload.owner.spec.get("replicas"))
    if workload.owner.kind != "LeaderWorkerSet" or not groups:
        return None
    total = 0
    for each in case.cluster.workloads_of(workload.owner):
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
    return f"container {container.name} has {gpus} GPU{'s' if gpus > 1 else ''}, and {uses}"


def _group_text(program: Program, total: int) -> str:
    return f"the pods of its group have {total} GPUs, and {program.name} uses {_world(program)} ({_sizes(program)})"


def _sizes(program: Program) -> str:
    if program.name in LAUNCHERS:
        return f"{program.processes} processes"
    named = {
        "tensor parallel size": program.tensor,
        "pipeline parallel size": program.pipeline,
        "data parallel size": program.data,
    }
    found = [f"{name} {size}" for name, size in named.items() if isinstance(size, int) and size != 1]
    return " and ".join(found) or "tensor parallel size 1"
