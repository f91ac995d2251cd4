"""Rules for model servers: memory for the weights, and options of their programs."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.hardware.gpu_models import COMPUTE_CAPABILITY
from gpu_facts.light import regex
from gpu_facts.model_servers import SERVER_OPTIONS, Weights, estimate_weights
from gpu_facts.quantities import GIB, MIB, quantity, show
from gpu_facts.resources import DISK
from gpu_preflight.case import Case
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.container import Container
from gpu_preflight.model.pod import Workload
from gpu_preflight.model.programs import SERVERS, Program, count_whole_gpus
from gpu_preflight.node.instance_types import local_disks_fix, root_gib, uses_local_disks
from gpu_preflight.node.nodes import gpu_types
from gpu_preflight.reading.unknown import Unknown, dig, is_expression, known_text, mapping
from gpu_preflight.rule import Problem, check_each_pod, rule

# vLLM uses this share of a GPU's memory, some of it for activations and the key-value cache. SGLang computes its share.
# Source: vllm-project/vllm 002f10e vllm/config/cache.py ``gpu_memory_utilization``;
# releases before had 0.9 (2026-11-23)
_DEFAULT_SHARE = 0.92
# Formats whose weights don't come from files on the disk of the container.
_STREAMED = ("runai_streamer", "runai_streamer_sharded", "tensorizer", "dummy", "remote", "fastsafetensors", "gguf")
# The first of these variables that is set is the download folder of Hugging Face's libraries.
# Source: https://huggingface.co/docs/huggingface_hub/v1.1.0/package_reference/environment_variables (2026-11)
_CACHES = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME")
# The files of weights are mapped into memory, so that the kernel can drop what was copied to the GPU. With much less
# memory than that, loading is slow or ends. Assumption, without a source: 80 % of the weights.
_RESIDENT_SHARE = 0.8
_DEFAULT_CACHE = "/root/.cache/huggingface"
_TGI_CACHE = "/data"
_ENGINE = "vllm-project/vllm v0.11.2 vllm/engine/arg_utils.py"
# Methods that can't read each other's weights. Names of kernels start with them, as in ``awq_marlin``.
_QUANTIZED = regex(r"(?i)(?<![a-z])(awq|gptq)(?![a-z])")
# Shorter options aren't compared. The likeness to a known option is from 0 to 1.
_MIN_LETTERS, _LIKENESS = 6, 0.88
_SIZES = ("tensor", "pipeline", "data", "nodes")
# Lengths may have a unit, and -1 or auto chooses one that fits.
_LENGTH = regex(r"-1|auto|[1-9]\d*(\.\d+)?[kKmMgGtT]?")
_COUNT = regex(r"[1-9]\d*")
# Source: vllm-project/vllm v0.11.2 vllm/config/model.py ``ModelDType``; sgl-project/sglang v0.5.6
# python/sglang/srt/server_args.py (2026-11)
_TYPES = ("auto", "half", "float16", "bfloat16", "float", "float32")
# Compute capability from which vLLM supports a data type or a method.
# Source: vllm-project/vllm v0.11.2 vllm/platforms/cuda.py ``check_if_supports_dtype`` and ``get_min_capability`` of
# vllm/model_executor/layers/quantization/fp8.py, awq.py, modelopt.py (2026-11)
_MIN_CAPABILITY = {"bfloat16": (8, 0), "fp8": (8, 0), "awq": (7, 5), "modelopt": (8, 9), "fbgemm_fp8": (8, 0)}
# Later releases support more on Turing, so that these may run.
_MAY_RUN_FROM = {"fp8": (7, 5), "fbgemm_fp8": (7, 5)}


@rule("GPU475", "error", source="https://docs.vllm.ai/en/v0.11.2/configuration/conserving_memory.html", at_start=True)
def model_larger_than_the_memory_of_its_gpus(case: Case) -> Iterator[Problem]:
    """Model is larger than the memory of its GPUs.

    The server fails with "CUDA out of memory" while it loads the weights. Its pod restarts and keeps its GPUs.

    Fix: Use GPUs with more memory, raise the tensor parallel size together with the GPUs of the container, or serve a
    quantized model.
    """
    for workload, container, program, weights in _served_models(case):
        group = program.gpus_of_a_model
        if not isinstance(group, int) or count_whole_gpus(container) is None:
            continue
        # GPU472 reports a group of more GPUs than the container has.
        memory_of = _gpu_memory(case, workload)
        types = {name: memory for name, memory in memory_of.items() if memory is not None}
        open_types = len(types) < len(memory_of)
        largest = {name: memory * group for name, memory in types.items()}
        share = _share(program)
        needed = {name: weights.bytes_likely > most * share for name, most in largest.items()}
        if not any(needed.values()):
            continue
        short = [name for name, is_short in needed.items() if is_short]
        certain = not open_types and program.is_sure and not program.offloads
        certain = certain and all(weights.bytes_min > most for most in largest.values())
        name = max(short, key=lambda each: largest[each])
        gpus = f"{group} GPUs of {_names(short)} have" if group > 1 else f"a GPU of {_names(short)} has"
        text = f"the weights of {program.model} are {weights.text}, but {gpus} {largest[name] / 1e9:.0f} GB"
        if weights.bytes_likely <= largest[name]:
            text += f", of which {program.name} uses {share:.0%}"
        yield Problem.from_subject(workload, text, unknown=not certain)


@rule("GPU476", "warning", source="https://huggingface.co/docs/huggingface_hub/guides/manage-cache")
def weights_exceed_download_disk(case: Case) -> Iterator[Problem]:
    """Model weights are larger than the disk that they are downloaded to.

    The download fills the disk of the node. It fails with "no space left on device", or kubelet evicts the pod, which
    starts again on the next node.

    Fix: Mount a PersistentVolumeClaim at the folder, or enlarge the root volume of the nodes.
    """
    for workload, container, program, weights in _served_models(case):
        folder = _download_folder(container, program)
        # Variables of a ConfigMap may set another folder.
        if folder is None or container.has_env_from or not _is_on_disk(workload, container, folder):
            continue
        pools = [each.pool for each in case.verdict(workload).pools if each.answer is not Answer.NO]
        disks = [(pool, case.disk_max(pool)) for pool in pools]
        small = [(pool, most) for pool, most in disks if most is not None and weights.bytes_likely > most]
        for pool, most in small:
            text = (
                f"container {container.name} downloads {weights.text} of {program.model} to {folder} on the node's "
                "disk, but"
            )
            unused = _unused(pool)
            text += f" pods of pool {pool.name} have {show(DISK, most)} of it{unused}"
            certain = len(small) == len(pools) and weights.bytes_min > most and program.is_sure
            fix = f"Mount a PersistentVolumeClaim at {folder}, or use the local NVMe disks. {local_disks_fix(pool)}"
            yield Problem.from_subject(workload, text, fix=fix if unused else "", unknown=not certain)


@rule("GPU477", "warning", source="https://docs.vllm.ai/en/v0.11.2/configuration/conserving_memory.html")
def memory_limit_smaller_than_the_weights(case: Case) -> Iterator[Problem]:
    """Memory limit of the container is too small for the model's weights.

    If offloaded weights exceed the limit, the container is killed with the reason OOMKilled. Weights that are only read
    from files are dropped from memory and read again, so the model loads slowly.

    Fix: Raise limits.memory above the weights that stay in memory plus the size of /dev/shm, or remove the limit.
    """
    for workload, container, program, weights in _served_models(case):
        limit = quantity("memory", mapping(container.limits).get("memory"))
        if limit is None:
            continue
        offloaded = program.number("cpu_offload_gb")
        group = program.group
        shared = _memory_volumes(workload, container)
        if isinstance(offloaded, int) and isinstance(group, int) and offloaded * GIB * group + shared > limit:
            text = f"container {container.name} keeps {offloaded} GiB of weights for each of {group} GPUs in memory"
            yield Problem.from_subject(
                workload, f"{text}, but its limit is {show('memory', limit)}", unknown=not program.is_sure
            )
        elif limit < weights.bytes_min * _RESIDENT_SHARE:
            text = f"container {container.name} loads {weights.text} of {program.model}"
            text += f", but its memory limit is {show('memory', limit)}"
            yield Problem.from_subject(workload, text, unknown=True)


def _memory_volumes(workload: Workload, container: Container) -> int:
    """Return the bytes of the memory emptyDirs that a container mounts; emptyDirs without a limit count as 0."""
    mounted = (each for each in workload.pod.volumes if each.name in container.mounts.values())
    return sum(quantity("memory", each.memory_limit) or 0 for each in mounted)


def _served_models(case: Case) -> Iterator[tuple[Workload, Container, Program, Weights]]:
    """Yield each server of a model whose name states its size."""
    for workload, container, program in case.gpu_programs:
        model = program.model
        if program.name not in SERVERS or not isinstance(model, str):
            continue
        weights = estimate_weights(model, quantization=_quantization(program), dtype=_known(program.dtype))
        if weights is not None:
            yield workload, container, program, weights


def _quantization(program: Program) -> str | None:
    """Return the quantization method of a server; empty for none, ``None`` if it isn't known."""
    if program.load_format == "bitsandbytes":
        return "bitsandbytes"
    other = any(
        "torchao" in each or ("quant" in each and each not in ("quantization", "quantize")) for each in program.options
    )
    return None if other or program.is_open else _known(program.quantization)


def _known(value: Any) -> str | None:
    """Return a setting; empty if it isn't set, ``None`` if it isn't known."""
    return "" if value is None else known_text(value)


def _share(program: Program) -> float:
    """Return the maximum share of a GPU's memory that a server uses; 1 if it computes the share itself."""
    default = _DEFAULT_SHARE if program.name == "vllm" else 1.0
    written = program.gpu_memory_utilization
    try:
        share = float(written) if isinstance(written, str) else default
    except ValueError:
        return default
    return share if 0 < share <= 1 and program.name in ("vllm", "sglang") else 1.0


def _gpu_memory(case: Case, workload: Workload) -> Mapping[str, int | None]:
    """Return the bytes of one GPU of each instance type whose nodes can run the pods of a workload."""
    rows = {str(node.instance_type): node.row for _, node in case.candidate_nodes(workload)}
    return {
        name: None if row is None or row.gpu_memory_mib is None else row.gpu_memory_mib * MIB
        for name, row in rows.items()
    }


def _names(types: list[str]) -> str:
    shown = ", ".join(types[:3])
    return f"{shown} and {len(types) - 3} more types" if len(types) > 3 else shown


def _download_folder(container: Container, program: Program) -> str | None:
    """Return the folder that a server downloads its model to; ``None`` if there is none or it isn't known."""
    model, env = program.model, program.variables
    owner, _, name = str(model).partition("/")
    if not owner or not name or "/" in name or "." in owner[:1] or ":" in str(model) or is_expression(str(model)):
        return None
    if program.load_format in _STREAMED or isinstance(program.load_format, Unknown) or program.is_open:
        return None
    if any(
        str(env.get(each, "0")).lower() in ("1", "true", "yes") for each in ("HF_HUB_OFFLINE", "VLLM_USE_MODELSCOPE")
    ):
        return None
    chosen = program.setting("download_dir")
    if chosen is None:
        chosen = next((env[each] for each in _CACHES[:4] if each in env), None)
        default = _TGI_CACHE if program.name == "text-generation-inference" else _DEFAULT_CACHE
        if chosen is None and "HOME" in env:
            chosen = f"{env['HOME']}/.cache/huggingface"
        chosen = default if chosen is None and not any(each in env for each in _CACHES) else chosen
    return posixpath.normpath(chosen) if isinstance(chosen, str) and chosen.startswith("/") else None


def _is_on_disk(workload: Workload, container: Container, folder: str) -> bool:
    """Whether a folder is certainly on the disk of the node: in the container, or in an emptyDir on that disk."""
    if any("${" in path or "{{" in path for path in container.mounts):
        return False
    mounts = {posixpath.normpath(path): name for path, name in container.mounts.items()}
    inside = [path for path in mounts if folder == path or folder.startswith(f"{path.rstrip('/')}/")]
    if not inside:
        # The server may use the cache of another user or program.
        return not any(path.startswith(f"{folder}/") or "huggingface" in path or "cache" in path for path in mounts)
    volume = {each.name: each for each in workload.pod.volumes}.get(mounts[max(inside, key=len)])
    return volume is not None and "emptyDir" in volume.source and not dig(volume.source, "emptyDir", "medium")


def _unused(pool: Pool) -> str:
    """Return a text if local disks are unused, else an empty one."""
    names = [each for each in gpu_types(pool) if catalogue()[each].nvme_disks]
    if not names or uses_local_disks(pool) or root_gib(pool) is None:
        return ""
    return f", and the local NVMe of {catalogue()[names[0]].nvme_gb} GB is unused"


@rule("GPU482", "error", source=_ENGINE, at_start=True)
def option_with_a_value_that_the_program_rejects(case: Case) -> Iterator[Problem]:
    """Model server rejects the value of an option.

    The program exits at its start with a usage message. Its pod restarts and keeps its GPUs.

    Fix: Set a value within the range of the message.
    """
    for workload, container, program in case.gpu_programs:
        for option, value, range_ in _rejected(program):
            text = f"container {container.name} runs {program.name} with {option} {value}, which must be {range_}"
            yield Problem.from_subject(workload, text, unknown=not program.is_sure)


def _rejected(program: Program) -> Iterator[tuple[str, str, str]]:
    if program.name not in SERVERS:
        return
    share = program.gpu_memory_utilization
    if isinstance(share, str) and not _is_share(share):
        yield "a GPU memory share of", share, "above 0 and at most 1"
    length = program.setting("max_model_len")
    if isinstance(length, str) and program.name == "vllm" and not _LENGTH.fullmatch(length):
        yield "--max-model-len", length, "a positive number of tokens"
    for name in _SIZES:
        size = program.setting(name)
        # Other programs may use other names for sizes.
        if isinstance(size, str) and size and not _COUNT.fullmatch(size):
            yield f"a {name} {'count' if name == 'nodes' else 'parallel size'} of", size, "a whole number from 1"
    dtype = program.dtype
    if isinstance(dtype, str) and program.name in ("vllm", "sglang") and dtype not in _TYPES:
        yield "--dtype", dtype, f"one of {', '.join(_TYPES)}"


@rule("GPU497", "warning", source=_ENGINE)
def misspelt_option_of_a_server(case: Case) -> Iterator[Problem]:
    """Option of a model server looks misspelled.

    The server exits at its start with "unrecognized arguments". Its pod restarts and keeps its GPUs.

    Fix: Use the option that the message names, or check the options of the server's release.
    """
    for workload, container, program in case.gpu_programs:
        known = SERVER_OPTIONS.get(program.name, frozenset())
        for option in program.options if known and not program.is_worker else ():
            if right := _likely_option(option, known):
                text = f"container {container.name} runs {program.name} with --{option}, an unknown option"
                yield Problem.from_subject(workload, f"{text}; did you mean --{right}?", unknown=True)


def _likely_option(option: str, known: frozenset[str]) -> str:
    """Return the known option of which another one is probably a typo; empty if it is known or unlike any known one."""
    # A dot precedes fields of a JSON option, and `no-` negates a switch.
    name = option.partition(".")[0]
    names = {name, name.removeprefix("no-")}
    # Parsers accept prefixes of options. Short names are too similar.
    if len(name) < _MIN_LETTERS or any(each.startswith(one) for each in known for one in names):
        return ""
    return next(iter(get_close_matches(name, known, 1, _LIKENESS)), "")


@rule("GPU498", "warning", source="vllm-project/vllm v0.11.2 vllm/config/model.py _verify_quantization")
def quantization_that_contradicts_the_name_of_the_model(case: Case) -> Iterator[Problem]:
    """Quantization option contradicts the model's name.

    If the configuration of the model names another method, the server exits at its start, for example with
    "Quantization method specified in the model config (awq) does not match".

    Fix: Remove the option: the server reads the method from the configuration of the model.
    """
    for workload, container, program in case.gpu_programs:
        model, method = program.model, program.quantization
        if program.name not in SERVERS or not isinstance(model, str) or not isinstance(method, str):
            continue
        named = _QUANTIZED.search(model.rstrip("/").rpartition("/")[2])
        written = _QUANTIZED.match(method)
        if named and written and named[1].lower() != written[1].lower():
            text = f"container {container.name} runs {program.name} with quantization {method}, but the name of model"
            yield Problem.from_subject(workload, f"{text} {model} contains {named[1]}", unknown=True)


def _is_share(text: str) -> bool:
    try:
        return 0 < float(text) <= 1
    except ValueError:
        return False


@rule("GPU483", "error", source="vllm-project/vllm v0.11.2 vllm/platforms/cuda.py", at_start=True)
def data_type_that_the_gpu_lacks(case: Case) -> Iterator[Problem]:
    """GPU doesn't support the data type or quantization.

    The server exits at its start, for example with "Bfloat16 is only supported on GPUs with compute capability of at
    least 8.0".

    Fix: Use instance types with newer GPUs, --dtype half, or a model without this quantization.
    """
    for workload, container, program in case.gpu_programs:
        if program.name != "vllm":
            continue
        nodes = [node for _, node in case.candidate_nodes(workload)]
        for name in (program.dtype, program.quantization):
            least = _MIN_CAPABILITY.get(name) if isinstance(name, str) else None
            if least is None or not isinstance(name, str):
                continue
            models = {str(node.instance_type): node.row.gpu_model if node.row else "" for node in nodes}
            found = {each: COMPUTE_CAPABILITY.get(model, (99, 0)) for each, model in models.items()}
            lacking = [each for each, capability in found.items() if capability < least]
            if lacking:
                first = lacking[0]
                may_run = any(found[each] >= _MAY_RUN_FROM.get(name, least) for each in lacking)
                text = (
                    f"container {container.name} runs vllm with {name}, which needs compute capability {_dotted(least)}"
                )
                text += f", but {models[first]} of {first} has {_dotted(found[first])}"
                certain = len(lacking) == len(found) and program.is_sure and not may_run
                other = "--dtype half" if name == program.dtype else "a model without this quantization"
                fix = f"Use {other}, or instance types with newer GPUs."
                yield Problem.from_subject(workload, text, fix=fix, unknown=not certain)


def _dotted(capability: tuple[int, int]) -> str:
    return ".".join(map(str, capability))


@rule(
    "GPU484",
    "error",
    source="https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables",
    at_start=True,
)
def cuda_visible_devices_that_the_container_lacks(case: Case) -> Iterator[Problem]:
    """CUDA_VISIBLE_DEVICES names GPUs that the container doesn't have.

    CUDA numbers the GPUs of a container from 0. It hides the first number that doesn't exist and all later ones, so the
    program finds too few GPUs or none.

    Fix: Remove CUDA_VISIBLE_DEVICES: the container sees only the GPUs that it requests.
    """
    yield from check_each_pod(case.gpu_workloads, _lacking_devices)


def _lacking_devices(workload: Workload) -> Iterator[Problem]:
    for container in workload.pod.containers or ():
        gpus, listed = count_whole_gpus(container), container.env.get("CUDA_VISIBLE_DEVICES")
        if gpus is None or isinstance(listed, Unknown) or not isinstance(listed, str) or is_expression(listed):
            continue
        if "NVIDIA_VISIBLE_DEVICES" in container.env:
            continue
        numbers = [int(each) for each in re.split(r"\s*,\s*", listed.strip()) if each.isdigit()]
        lacking = [each for each in numbers if each >= gpus]
        if lacking:
            text = f"container {container.name} has {gpus} GPU{'s' if gpus > 1 else ''}, numbered from 0, but"
            text += f" CUDA_VISIBLE_DEVICES={listed} names {', '.join(map(str, lacking))}"
            yield Problem.from_subject(workload, text, unknown=lacking[0] != numbers[0])
