"""Servers that download their model from a hub that their nodes do not reach."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import PurePosixPath

from gpu_facts.light_patterns import regex
from gpu_preflight.case import Case
from gpu_preflight.cluster.subnets import is_isolated
from gpu_preflight.model.container import Container
from gpu_preflight.model.pod import Pod
from gpu_preflight.reading.unknown import known_text, mappings
from gpu_preflight.rules.rule import Problem, rule

_HUB = "https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables"
_HOME = "HF_HOME"
# What vLLM, SGLang and text-generation-inference are told their model by.
_BEFORE_A_MODEL = ("--model", "--model-path", "--model-id", "serve")
_REPOSITORY = regex(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
# With one of them set, the files come from elsewhere, or through somebody else.
_ELSEWHERE = ("HF_ENDPOINT", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "VLLM_USE_MODELSCOPE", "SGLANG_USE_MODELSCOPE")


@rule("GPU457", "error", source=_HUB)
def model_that_isolated_nodes_cannot_download(case: Case) -> Iterator[Problem]:
    """Model that isolated nodes cannot download.

    The server waits for the hub, ends with an error and starts again; no pod ever becomes ready.

    Fix: Copy the model into a bucket in the region and load it from there: CopiedModel or StreamedModel.
    """
    pools, cluster = case.gpu_pools, case.cluster
    if not pools or not all(is_isolated(each, cluster.resources) for each in pools):
        return
    names = ", ".join(each.name for each in pools)
    for workload in cluster.workloads:
        for repo in _downloads(workload.pod) if workload.asks_for_gpu else ():
            yield Problem.of(
                workload, f"downloads {repo} from the hub, and nothing leads out of the subnets of {names}"
            )


def _downloads(pod: Pod) -> list[str]:
    """Return the repositories that its containers certainly ask the hub for."""
    raw = [each for kind in ("containers", "initContainers") for each in mappings(pod.written.get(kind))]
    if pod.written.get("hostAliases") or any(each.get("envFrom") for each in raw):
        return []
    found = (_repository(each) for each in pod.containers or () if _starts_empty(each, pod) and not _is_led(each))
    return [each for each in found if each is not None]


def _repository(container: Container) -> str | None:
    words = [part for each in container.words for part in (known_text(each) or "").split("=", 1)]
    named = (after for before, after in pairwise(words) if before in _BEFORE_A_MODEL)
    return next((each for each in named if _REPOSITORY.fullmatch(each)), None)


def _starts_empty(container: Container, pod: Pod) -> bool:
    """Whether what the hub's library keeps is in a volume that nobody else fills."""
    home = PurePosixPath(known_text(container.env.get(_HOME)) or "/")
    above = [path for path in container.mounts if path != "/" and home.is_relative_to(path)]
    name = container.mounts[max(above, key=len)] if above else None
    sharers = [each for each in pod.every_container if name in each.mounts.values()]
    fresh = any(each.name == name and each.size_limit is not None and not each.is_claimed for each in pod.volumes)
    return fresh and len(sharers) == 1


def _is_led(container: Container) -> bool:
    """Whether it is told of another hub, of a proxy, or to do without."""
    return any(name in _ELSEWHERE or name.upper().endswith("_PROXY") for name in container.env)
