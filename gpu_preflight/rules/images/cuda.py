"""Images whose tag tells a CUDA that does not go with the nodes."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.hardware.cuda import (
    DRIVER_OF_MAJOR,
    FIRST_FOR_FAMILY,
    LAST_MAJOR_FOR_FAMILY,
    NEWEST_MAJOR,
    Release,
)
from gpu_facts.light_patterns import regex
from gpu_preflight.case import Case
from gpu_preflight.cluster.images import branches_of
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.node.nodes import gpu_types
from gpu_preflight.rules.rule import Problem, rule

# nvidia/cuda:12.4.1-runtime, pytorch:2.4.0-cuda12.4-cudnn9, torch:2.3-cu121
_OF_NVIDIA = regex(r"(?:^|/)(?:nvidia/)?cuda(?:-[a-z0-9_]+)?:(\d{1,2})\.(\d{1,2})(?:\.\d+)?(?:-|$)")
_IN_TAG = regex(r"\bcuda-?(\d{1,2})\.(\d{1,2})")
_SHORT = regex(r"\bcu(\d{2})(\d)\b")


@rule("GPU367", "warning", source="https://docs.nvidia.com/deploy/cuda-compatibility/")
def image_with_a_cuda_that_its_nodes_do_not_run(case: Case) -> Iterator[Problem]:
    """Image with a CUDA that its nodes do not run.

    A CUDA older than the GPU has no code for it, and one newer than the driver is refused by it, unless the image
    brings code or libraries for that.

    Fix: Take an image of a CUDA between the two.
    """
    for workload in case.gpu_workloads:
        pools = case.pools_open_to(workload)
        for container in workload.containers:
            release = _release(container.image_text)
            whys = [_why(release, pool, case.cluster) for pool in pools] if release else []
            if whys and all(whys):
                text = f"container {container.name} has CUDA {release[0]}.{release[1]}" if release else ""
                yield Problem.of(workload, f"{text}; {whys[0]}", unknown=True)


def _release(image: str) -> Release | None:
    """Return the CUDA that the name of an image tells, if any."""
    tag = image.rpartition("/")[2].partition(":")[2]
    found = _OF_NVIDIA.search(image) or _IN_TAG.search(tag) or _SHORT.search(tag)
    return (int(found[1]), int(found[2])) if found else None


def _why(release: Release | None, pool: Pool, cluster: Cluster) -> str:
    """Return why no type of a pool runs a release, nothing where one may."""
    if release is None:
        return ""
    families = sorted({catalogue()[each].family for each in gpu_types(pool)})
    first = [FIRST_FOR_FAMILY.get(each, (0, 0)) for each in families]
    last = [LAST_MAJOR_FOR_FAMILY.get(each, NEWEST_MAJOR) for each in families]
    if first and all(release < each for each in first):
        least = min(first)
        return f"the GPUs of {', '.join(families)} are known from CUDA {least[0]}.{least[1]} on"
    if last and all(release[0] > each for each in last) and max(last) < NEWEST_MAJOR:
        return f"CUDA {max(last)} is the last for the GPUs of {', '.join(families)}"
    branches = branches_of(pool, cluster.version)
    if branches and families:
        needed = DRIVER_OF_MAJOR.get(release[0])
        if needed is None and release[0] > NEWEST_MAJOR:
            return f"driver {max(branches)} of pool {pool.name} runs CUDA {NEWEST_MAJOR}"
        if needed is not None and max(branches) < needed:
            return f"it needs driver {needed}, pool {pool.name} has {max(branches)}"
    return ""
