"""Options that a program rejects: values out of range, data types that a GPU lacks, GPUs that the container lacks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

from gpu_facts.hardware.cuda import COMPUTE_CAPABILITY
from gpu_facts.light_patterns import regex
from gpu_facts.server_options import SERVER_OPTIONS
from gpu_preflight.case import Case
from gpu_preflight.model.programs import SERVERS, Program, gpus_of
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.unknown import Unknown, is_expression
from gpu_preflight.rules.rule import Problem, of_each_pod, rule

_ENGINE = "vllm-project/vllm v0.11.2 vllm/engine/arg_utils.py"
# Methods whose weights no other of these methods can read; names of kernels begin with them, as in ``awq_marlin``.
_QUANTIZED = regex(r"(?i)(?<![a-z])(awq|gptq)(?![a-z])")
# Options shorter than this aren't compared, and how much like a known one an option must be, from 0 to 1.
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


@rule("GPU482", "error", source=_ENGINE, at_start=True)
def option_with_a_value_that_the_program_rejects(case: Case) -> Iterator[Problem]:
    """Option of a model server has a value that the server rejects.

    The program ends at its start with a usage message, and its pod restarts and keeps its GPUs.

    Fix: Set a value within the range of the message.
    """
    for workload, container, program in case.gpu_programs:
        for option, value, range_ in _rejected(program):
            text = f"container {container.name} runs {program.name} with {option} {value}, which must be {range_}"
            yield Problem.of(workload, text, unknown=not program.is_sure)


def _rejected(program: Program) -> Iterator[tuple[str, str, str]]:
    if program.name not in SERVERS:
        return
    share = program.gpu_memory_utilization
    if isinstance(share, str) and not _is_share(share):
        yield "a share of GPU memory of", share, "above 0 and at most 1"
    length = program.setting("max_model_len")
    if isinstance(length, str) and program.name == "vllm" and not _LENGTH.fullmatch(length):
        yield "--max-model-len", length, "a positive number of tokens"
    for name in _SIZES:
        size = program.setting(name)
        # Text of another program may name its sizes otherwise.
        if isinstance(size, str) and size and not _COUNT.fullmatch(size):
            yield f"a {name} {'count' if name == 'nodes' else 'parallel size'} of", size, "a whole number from 1"
    dtype = program.dtype
    if isinstance(dtype, str) and program.name in ("vllm", "sglang") and dtype not in _TYPES:
        yield "--dtype", dtype, f"one of {', '.join(_TYPES)}"


@rule("GPU497", "warning", source=_ENGINE)
def misspelt_option_of_a_server(case: Case) -> Iterator[Problem]:
    """Option of a model server looks misspelt.

    The server ends at its start with "unrecognized arguments", and its pod restarts and keeps its GPUs.

    Fix: Use the option that the message names, or check the options of the release of the server.
    """
    for workload, container, program in case.gpu_programs:
        known = SERVER_OPTIONS.get(program.name, frozenset())
        for option in program.options if known and not program.is_worker else ():
            if right := _likely_option(option, known):
                text = f"container {container.name} runs {program.name} with --{option}, an unknown option"
                yield Problem.of(workload, f"{text}; did you mean --{right}?", unknown=True)


def _likely_option(option: str, known: frozenset[str]) -> str:
    """Return the known option of which another one is probably a typo; empty where it is known, or like none."""
    # Fields of an option that is JSON follow a dot, and `no-` negates a switch.
    name = option.partition(".")[0]
    names = {name, name.removeprefix("no-")}
    # Parsers accept the beginning of an option. Short names are too much alike.
    if len(name) < _MIN_LETTERS or any(each.startswith(one) for each in known for one in names):
        return ""
    return next(iter(get_close_matches(name, known, 1, _LIKENESS)), "")


@rule("GPU498", "warning", source="vllm-project/vllm v0.11.2 vllm/config/model.py _verify_quantization")
def quantization_that_contradicts_the_name_of_the_model(case: Case) -> Iterator[Problem]:
    """Quantization of a model server contradicts the name of its model.

    The server ends at its start if the configuration of the model names another method, e.g. with "Quantization method
    specified in the model config (awq) does not match".

    Fix: Remove the option: the server reads the method from the configuration of the model.
    """
    for workload, container, program in case.gpu_programs:
        model, method = program.model, program.quantization
        if program.name not in SERVERS or not isinstance(model, str) or not isinstance(method, str):
            continue
        named = _QUANTIZED.search(model.rstrip("/").rpartition("/")[2])
        written = _QUANTIZED.match(method)
        if named and written and named[1].lower() != written[1].lower():
            text = f"container {container.name} runs {program.name} with quantization {method}, and the name of model"
            yield Problem.of(workload, f"{text} {model} names {named[1]}", unknown=True)


def _is_share(text: str) -> bool:
    try:
        return 0 < float(text) <= 1
    except ValueError:
        return False


@rule("GPU483", "error", source="vllm-project/vllm v0.11.2 vllm/platforms/cuda.py", at_start=True)
def data_type_that_the_gpu_lacks(case: Case) -> Iterator[Problem]:
    """Data type or quantization is not supported by the GPU.

    The server ends at its start, e.g. with "Bfloat16 is only supported on GPUs with compute capability of at least
    8.0".

    Fix: Use --dtype half on T4 and V100, or instance types with newer GPUs.
    """
    for workload, container, program in case.gpu_programs:
        if program.name != "vllm":
            continue
        nodes = [node for _, node in case.nodes_open_to(workload)]
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
                text += f", and {models[first]} of {first} has {_dotted(found[first])}"
                certain = len(lacking) == len(found) and program.is_sure and not may_run
                yield Problem.of(workload, text, unknown=not certain)


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

    CUDA numbers the GPUs of a container from 0. It hides the first number that doesn't exist and all after it, so that
    the program finds too few GPUs or none.

    Fix: Remove CUDA_VISIBLE_DEVICES: the container sees only the GPUs that it requests.
    """
    yield from of_each_pod(case.gpu_workloads, _lacking_devices)


def _lacking_devices(workload: Workload) -> Iterator[Problem]:
    for container in workload.pod.containers or ():
        gpus, listed = gpus_of(container), container.env.get("CUDA_VISIBLE_DEVICES")
        if gpus is None or isinstance(listed, Unknown) or not isinstance(listed, str) or is_expression(listed):
            continue
        if "NVIDIA_VISIBLE_DEVICES" in container.env:
            continue
        numbers = [int(each) for each in re.split(r"\s*,\s*", listed.strip()) if each.isdigit()]
        lacking = [each for each in numbers if each >= gpus]
        if lacking:
            text = f"container {container.name} has {gpus} GPU{'s' if gpus > 1 else ''}, numbered from 0, and"
            text += f" CUDA_VISIBLE_DEVICES={listed} names {', '.join(map(str, lacking))}"
            yield Problem.of(workload, text, unknown=lacking[0] != numbers[0])
