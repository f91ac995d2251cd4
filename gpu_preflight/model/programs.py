"""The programs that a container starts on its GPUs, and their settings: command, arguments, scripts of a shell.

Sources of names and defaults: vllm-project/vllm v0.11.2 vllm/engine/arg_utils.py and vllm/config/parallel.py;
sgl-project/sglang v0.5.6 python/sglang/srt/server_args.py; NVIDIA/TensorRT-LLM v1.1.0 tensorrt_llm/commands/serve.py;
huggingface/text-generation-inference v3.3.6 launcher/src/main.rs; InternLM/lmdeploy v0.10.2 lmdeploy/cli/utils.py;
https://docs.pytorch.org/docs/2.9/elastic/run.html; https://huggingface.co/docs/accelerate/v1.12.0/package_reference/cli;
https://www.deepspeed.ai/getting-started/ (2026-11)
"""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal

from gpu_facts.light import dataclass, regex
from gpu_facts.quantities import quantity
from gpu_facts.resources import GPU
from gpu_preflight.model.container import Container
from gpu_preflight.reading.unknown import Unknown, is_expression, known_number, mapping

ProgramName = Literal[
    "vllm",
    "sglang",
    "tensorrt-llm",
    "text-generation-inference",
    "lmdeploy",
    "torchrun",
    "deepspeed",
    "accelerate",
]
# A setting. `None` if nothing sets it, `Unknown` if only deployment or the script sets it.
Text = str | Unknown | None
Number = int | Unknown | None

SERVERS: tuple[ProgramName, ...] = ("vllm", "sglang", "tensorrt-llm", "text-generation-inference", "lmdeploy")
LAUNCHERS: tuple[ProgramName, ...] = ("torchrun", "deepspeed", "accelerate")
# The names that each program uses for a setting. Hyphens and underscores are the same.
_PARALLEL = ("tensor-parallel-size", "tp-size", "tp", "tensor-parallel")
_PIPELINE = ("pipeline-parallel-size", "pp-size", "pp", "pipeline-parallel")
_DATA = ("data-parallel-size", "dp-size", "dp")
_NAMES: Mapping[ProgramName, Mapping[str, tuple[str, ...]]] = {
    "vllm": {
        "model": ("model", "model-tag"),
        "tensor": _PARALLEL,
        "pipeline": _PIPELINE,
        "data": _DATA,
        "data_local": ("data-parallel-size-local", "dpl"),
        "context": ("prefill-context-parallel-size", "pcp"),
        "nodes": ("nnodes", "n"),
        "dtype": ("dtype",),
        "quantization": ("quantization", "q"),
        "load_format": ("load-format",),
        "max_model_len": ("max-model-len",),
        "memory_utilization": ("gpu-memory-utilization",),
        "cpu_offload_gb": ("cpu-offload-gb",),
        "kv_cache_dtype": ("kv-cache-dtype",),
        "backend": ("distributed-executor-backend",),
        "download_dir": ("download-dir",),
        "config": ("config",),
        "port": ("port",),
    },
    "sglang": {
        "model": ("model-path", "model"),
        "tensor": _PARALLEL,
        "pipeline": _PIPELINE,
        "data": _DATA,
        "nodes": ("nnodes",),
        "dtype": ("dtype",),
        "quantization": ("quantization",),
        "load_format": ("load-format",),
        "max_model_len": ("context-length",),
        "memory_utilization": ("mem-fraction-static",),
        "cpu_offload_gb": ("cpu-offload-gb",),
        "kv_cache_dtype": ("kv-cache-dtype",),
        "download_dir": ("download-dir",),
        "config": ("config",),
        "port": ("port",),
    },
    "tensorrt-llm": {
        "model": ("model",),
        "tensor": _PARALLEL,
        "pipeline": _PIPELINE,
        "memory_utilization": ("kv-cache-free-gpu-memory-fraction",),
        "max_model_len": ("max-seq-len",),
        "config": ("extra-llm-api-options", "config"),
        "port": ("port",),
    },
    "text-generation-inference": {
        "model": ("model-id",),
        "tensor": ("num-shard",),
        "dtype": ("dtype",),
        "quantization": ("quantize",),
        "max_model_len": ("max-total-tokens",),
        "memory_utilization": ("cuda-memory-fraction",),
        "download_dir": ("huggingface-hub-cache",),
        "port": ("port", "p"),
    },
    "lmdeploy": {
        "model": ("model-path",),
        "tensor": ("tp",),
        "data": ("dp",),
        "nodes": ("nnodes",),
        "dtype": ("dtype",),
        "quantization": ("model-format",),
        "max_model_len": ("session-len",),
        "download_dir": ("download-dir",),
        "port": ("server-port",),
    },
    "torchrun": {"processes": ("nproc-per-node",), "nodes": ("nnodes",)},
    "deepspeed": {"processes": ("num-gpus",), "nodes": ("num-nodes",), "hosts": ("hostfile", "H", "include")},
    "accelerate": {
        "processes": ("num-processes",),
        "nodes": ("num-machines",),
        "config": ("config-file",),
    },
}
# Environment variables for settings that no argument sets.
_VARIABLES: Mapping[ProgramName, Mapping[str, str]] = {
    "torchrun": {"processes": "PET_NPROC_PER_NODE", "nodes": "PET_NNODES"},
    "text-generation-inference": {
        "model": "MODEL_ID",
        "tensor": "NUM_SHARD",
        "dtype": "DTYPE",
        "quantization": "QUANTIZE",
        "max_model_len": "MAX_TOTAL_TOKENS",
        "port": "PORT",
    },
}
_COMMANDS: Mapping[str, tuple[ProgramName, str]] = {
    "vllm": ("vllm", "serve"),
    "sglang": ("sglang", "serve"),
    "trtllm-serve": ("tensorrt-llm", ""),
    "text-generation-launcher": ("text-generation-inference", ""),
    "lmdeploy": ("lmdeploy", "serve"),
    "torchrun": ("torchrun", ""),
    "deepspeed": ("deepspeed", ""),
    "accelerate": ("accelerate", "launch"),
}
_MODULES: Mapping[str, ProgramName] = {
    "vllm.entrypoints.openai.api_server": "vllm",
    "vllm.entrypoints.api_server": "vllm",
    "dynamo.vllm": "vllm",
    "sglang.launch_server": "sglang",
    "dynamo.sglang": "sglang",
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
}
# Images with the program as entry point.
_ENTRY_POINTS: tuple[tuple[re.Pattern[str], ProgramName], ...] = (
    (re.compile(r"(^|/)(vllm-openai|deep-learning-containers/vllm)(:|@|$)"), "vllm"),
    (re.compile(r"(^|/)text-generation-inference(:|@|$)"), "text-generation-inference"),
)
# Launcher options without a value. The next word may be the script.
_SWITCHES = frozenset(
    (
        *(
            "standalone",
            "no-python",
            "m",
            "module",
            "run-path",
            "use-env",
            "multi-gpu",
            "cpu",
            "tpu",
            "use-xpu",
            "quiet",
        ),
        *("use-deepspeed", "use-fsdp", "use-megatron-lm", "debug", "same-network", "no-ssh", "no-local-rank"),
        *("force-multi", "save-pid", "bind-cores-to-rank", "elastic-training", "enable-cpu-affinity"),
    )
)
# Words of a command line that only mention a program.
_MENTIONS = ("echo", "printf", "pip", "pip3", "which", "pkill", "pgrep", "grep", "apt-get", "curl")
_SHELLS = ("sh", "bash", "ash", "dash", "zsh")
_PYTHON = regex(r"python(3(\.\d+)?)?")
_ASSIGNMENT = regex(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_VARIABLE = regex(r"\$(?:\{(?P<braced>[A-Za-z_]\w*)(?::?-(?P<default>[^{}]*))?\}|(?P<plain>[A-Za-z_]\w*))")
_BY_KUBERNETES = regex(r"\$\(([A-Za-z_][\w.-]*)\)")
_COMPUTED = regex(r"\$\(\([^()]*\)\)|\$\([^()]*\)|`[^`]*`")
_COMMENT = regex(r"(?m)(?:^|(?<=\s))#[^\n]*$")
_CONTROL = regex(r"(?m)(?:^|[;&|]|\b(?:then|do|else)\b)\s*(?:if|for|while|until|case|function)\b|<<|\|\|")
_RAY = regex(r"(?i)\bray (start|job|symmetric-run)\b|ray[-_](address|cluster_size)|multi-node-serving|run_cluster\.sh")
_OPTION = regex(r"--?(?P<name>[A-Za-z][\w.-]*)(?:=(?P<value>.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Program:
    """A program that a container starts, with its settings.

    Attributes:
        name: Which program.
        options: Value of each option, by its name with hyphens; an empty text for a switch. The last value wins.
        positional: Its positional arguments.
        variables: Environment variables of the container.
        is_open: Whether deployment sets a whole argument, which may be any option, or a file sets options.
        is_sure: Whether the container certainly starts the program as it is read. Scripts with conditions may not.
        text: The words of its command line.
        module: The Python module that starts it, e.g. ``dynamo.vllm``; empty if a command starts it.
    """

    name: ProgramName
    options: Mapping[str, str | Unknown] = field(default_factory=dict)
    positional: tuple[str | Unknown, ...] = ()
    variables: Mapping[str, Any] = field(default_factory=dict)
    is_open: bool = False
    is_sure: bool = True
    text: str = ""
    module: str = ""

    def setting(self, name: str) -> Text:
        """Return a setting as it is written, e.g. ``dtype``, from an option or else from an environment variable."""
        for each in _NAMES[self.name].get(name, ()):
            if each in self.options:
                return self.options[each]
        variable = _VARIABLES.get(self.name, {}).get(name)
        if variable is None or variable not in self.variables:
            return None
        value = self.variables[variable]
        return Unknown(f"${{{variable}}}") if value is None or isinstance(value, Unknown) else _resolved(str(value))

    def number(self, name: str, absent: Number = None) -> Number:
        """Return a setting as a whole number; `absent` if nothing sets it and no hidden argument may set it."""
        value = self.setting(name)
        if value is None:
            return Unknown("${arguments}") if self.is_open else absent
        known = known_number(value)
        return known if known is not None else Unknown(str(value))

    @property
    def is_worker(self) -> bool:
        """Whether it is a worker of Dynamo. Dynamo's frontend serves in another process."""
        return self.module.startswith("dynamo.")

    @property
    def model(self) -> Text:
        """Name or folder of the served model."""
        named = self.setting("model")
        takes = self.name in ("vllm", "tensorrt-llm", "lmdeploy")
        return named if named is not None or not takes else next(iter(self.positional), None)

    @property
    def dtype(self) -> Text:
        """Data type of weights and activations."""
        return self.setting("dtype")

    @property
    def quantization(self) -> Text:
        """Method of quantization."""
        return self.setting("quantization")

    @property
    def load_format(self) -> Text:
        """Format of the weights that it loads."""
        return self.setting("load_format")

    @property
    def tensor(self) -> Number:
        """Tensor parallel size."""
        # The launcher of text-generation-inference uses every visible GPU.
        every = self.name == "text-generation-inference"
        return self.number("tensor", Unknown("${GPUs}") if every else 1)

    @property
    def pipeline(self) -> Number:
        """Pipeline parallel size."""
        return self.number("pipeline", 1)

    @property
    def data(self) -> Number:
        """Data parallel size over all nodes."""
        return self.number("data", 1)

    @property
    def nodes(self) -> Number:
        """Number of nodes over which one instance of the program runs."""
        return self.number("nodes", 1)

    @property
    def processes(self) -> Number:
        """Processes on one node that a launcher starts; `Unknown` if it counts the GPUs itself."""
        found = self.number("processes", 1 if self.name == "torchrun" else Unknown("${GPUs}"))
        # Accelerate counts the processes of all nodes.
        return _divided(found, self.nodes) if self.name == "accelerate" else found

    @property
    def max_model_len(self) -> Number:
        """Longest sequence that it serves."""
        return self.number("max_model_len")

    @property
    def gpu_memory_utilization(self) -> Text:
        """Share of a GPU's memory that it uses."""
        return self.setting("memory_utilization")

    @property
    def offloads(self) -> bool:
        """Whether it offloads, or may offload, weights to the memory of the node."""
        return self.is_open or any("offload" in each for each in self.options)

    @property
    def group(self) -> Number:
        """Number of GPUs that hold one copy of the model: tensor times pipeline parallel size."""
        return _product(self.tensor, self.pipeline)

    @property
    def gpus_of_a_model(self) -> Number:
        """Number of GPUs that share the weights of one copy. With expert parallelism, all data parallel ranks."""
        spread = self.name == "vllm" and "enable-expert-parallel" in self.options
        return _product(self.group, self.data) if spread else self.group

    @property
    def gpus_per_node(self) -> Number:
        """Number of GPUs that it needs on each node."""
        if self.name in LAUNCHERS:
            return self.processes
        if self.name == "sglang" and "enable-dp-attention" in self.options:
            return _divided(self.group, self.nodes)
        if self.name == "vllm":
            group = _divided(_product(self.group, self.number("context", 1)), self.nodes)
            return _product(group, self._data_local)
        return _divided(_product(self.group, self.data), self.nodes)

    @property
    def gpus_per_node_min(self) -> int:
        """Min number of GPUs that it needs on each node for any value of unknown settings; 0 if none is known."""
        if isinstance(self.gpus_per_node, int):
            return self.gpus_per_node
        if self.name in LAUNCHERS or not isinstance(self.nodes, int):
            return 0
        known = [each for each in (self.setting("tensor"), self.setting("pipeline")) if each is not None]
        return math.prod(known_number(each) or 1 for each in known) // max(self.nodes, 1) if known else 0

    @property
    def spans_nodes(self) -> bool:
        """Whether its processes are, or may be, on several nodes."""
        if not isinstance(self.nodes, int) or self.nodes > 1 or self.setting("hosts") is not None:
            return True
        backend = self.setting("backend")
        by_ray = backend is not None and backend not in ("mp", "uni", "external_launcher")
        return by_ray or self.options.get("data-parallel-backend") == "ray"

    @property
    def _data_local(self) -> Number:
        """Data parallel ranks of vLLM on one node."""
        if (local := self.number("data_local")) is not None:
            return local
        if "data-parallel-rank" in self.options or "dpn" in self.options:
            return 1
        several = ("data-parallel-address", "data-parallel-start-rank", "headless", "data-parallel-hybrid-lb")
        elsewhere = any(each in self.options for each in several)
        return Unknown("${data parallel ranks of a node}") if elsewhere else self.data


def programs(container: Container) -> tuple[Program, ...]:
    """Return the GPU programs that a container starts, as far as its command and arguments show them.

    ``sh -c "exec vllm serve org/model -tp $TP"`` with ``TP=4`` is vLLM with a tensor parallel size of 4.
    """
    variables = container.env
    words = [_expand_kubernetes_variables(str(each), variables) for each in container.words]
    script = _script(words)
    if script is None:
        found = _program(words, variables)
        image = "" if container.command or found else container.image_text
        name = next((name for pattern, name in _ENTRY_POINTS if pattern.search(image)), None)
        if name is not None and (words or name in _VARIABLES):
            found = _read(name, words, variables)
        return (found,) if found is not None else ()
    return tuple(_script_programs(script, variables))


def count_whole_gpus(container: Container) -> int | None:
    """Return a container's number of whole GPUs; ``None`` if it isn't known, or for shares or slices."""
    if container.devices != {GPU}:
        return None
    return quantity(GPU, mapping(container.limits).get(GPU, mapping(container.asked).get(GPU)))


def visible_gpus(container: Container, program: Program) -> int | None:
    """Return the number of whole GPUs that a program of a container sees; ``None`` if it isn't known."""
    gpus = count_whole_gpus(container)
    listed = program.variables.get("CUDA_VISIBLE_DEVICES")
    if gpus is None or "CUDA_VISIBLE_DEVICES" not in program.variables:
        return gpus
    return min(gpus, len(listed.split(","))) if isinstance(listed, str) and listed[:1].isdigit() else None


def uses_ray(container: Container) -> bool:
    """Whether a container starts or joins a Ray cluster, so that its program may use GPUs of several pods."""
    return any(map(_RAY.search, (*map(str, container.words), *container.env)))


def _product(*factors: Number) -> Number:
    known = [each for each in factors if isinstance(each, int)]
    return math.prod(known) if len(known) == len(factors) else Unknown("${product}")


def _divided(total: Number, parts: Number) -> Number:
    if not isinstance(total, int) or not isinstance(parts, int) or parts < 1:
        return total if parts == 1 else Unknown("${quotient}")
    return -(-total // parts)


def _expand_kubernetes_variables(text: str, variables: Mapping[str, Any]) -> str:
    """Return a text with ``$(NAME)`` replaced by the variables of the container."""

    def value(found: re.Match[str]) -> str:
        known = variables.get(found[1])
        return known if isinstance(known, str) else found[0]

    return _BY_KUBERNETES.sub(value, text)


def _script(words: Sequence[str]) -> str | None:
    """Return the script that a shell runs; ``None`` without a shell."""
    for place, word in enumerate(words[:4]):
        if posixpath.basename(word) in _SHELLS:
            rest = words[place + 1 :]
            at = next((number for number, each in enumerate(rest) if re.fullmatch(r"-[a-z]*c[a-z]*", each)), None)
            return rest[at + 1] if at is not None and at + 1 < len(rest) else ""
    return None


def _script_programs(script: str, variables: Mapping[str, Any]) -> Iterator[Program]:
    text = _COMMENT.sub("", script.replace("\\\n", " "))
    sure = _CONTROL.search(text) is None
    known = {name: value for name, value in variables.items() if isinstance(value, str)}
    own: dict[str, str] = {}
    for line in _commands(_COMPUTED.sub("${computed}", text)):
        words = _split(_expanded(line, {**known, **own}, variables))
        while words and (words[0] in ("export", "then", "do", "else") or _ASSIGNMENT.fullmatch(words[0])):
            word = words.pop(0)
            if found := _ASSIGNMENT.fullmatch(word):
                own[found[1]] = found[2]
        program = _program(words, {**variables, **own})
        if program is not None:
            yield replace(program, is_sure=sure)


def _commands(script: str) -> Iterator[str]:
    """Yield each command of a script, with its quotes."""
    found, quote = "", ""
    for sign in script:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        elif sign in ";&|()\n":
            # `2>&1` redirects a command and doesn't end it.
            if sign == "&" and found.endswith(">"):
                found += sign
                continue
            yield found
            found = ""
            continue
        found += sign
    yield found


def _expanded(command: str, known: Mapping[str, str], variables: Mapping[str, Any]) -> str:
    """Return a command with the values of its variables. Unknown variables stay as they are written."""

    def value(found: re.Match[str]) -> str:
        name = found["braced"] or found["plain"]
        if name in known:
            return known[name]
        default = found["default"]
        return default if default is not None and name not in variables else found[0]

    return _VARIABLE.sub(value, command)


def _split(command: str) -> list[str]:
    # Imported here, because rules import this module, and few pods have a shell command.
    import shlex

    try:
        words = shlex.split(command)
    except ValueError:
        # A quote that isn't closed.
        words = command.split()
    kept: list[str] = []
    skips = False
    for word in words:
        if skips:
            skips = False
        elif re.fullmatch(r"\d?[<>]+", word):
            skips = True
        elif not re.match(r"\d?[<>]", word):
            kept.append(word)
    return kept


def _program(words: Sequence[str], variables: Mapping[str, Any]) -> Program | None:
    """Return the program that a command line starts."""
    if words and posixpath.basename(words[0]) in _MENTIONS:
        return None
    for place, word in enumerate(words):
        if word == "-m" and place and _PYTHON.fullmatch(posixpath.basename(words[place - 1])):
            name = _MODULES.get(words[place + 1]) if place + 1 < len(words) else None
            if name is not None:
                return replace(_read(name, words[place + 2 :], variables), module=words[place + 1])
        if word == "-m" and place + 1 < len(words) and words[place + 1] in _MODULES:
            module = words[place + 1]
            return replace(_read(_MODULES[module], words[place + 2 :], variables), module=module)
        command = _COMMANDS.get(posixpath.basename(word))
        if command is not None:
            name, sub = command
            if not sub:
                return _read(name, words[place + 1 :], variables)
            if place + 1 < len(words) and words[place + 1] == sub:
                return _read(name, words[place + 2 :], variables)
    return None


def _read(name: ProgramName, words: Sequence[str], variables: Mapping[str, Any]) -> Program:
    options: dict[str, str | Unknown] = {}
    positional: list[str | Unknown] = []
    opened, place = False, 0
    while place < len(words):
        word = words[place]
        place += 1
        found = _OPTION.fullmatch(word)
        if found is None:
            if name in LAUNCHERS:
                # The script and its arguments follow.
                positional.append(_resolved(word))
                break
            opened = opened or (is_expression(word) and bool(positional or options))
            positional.append(_resolved(word))
            continue
        option, value = found["name"].replace("_", "-"), found["value"]
        switch = name in LAUNCHERS and option in _SWITCHES
        if value is None and place < len(words) and not switch and not _is_option(words[place]):
            value = words[place]
            place += 1
        options[option] = _resolved(value) if value is not None else ""
    told_by_file = any(each in options for each in _NAMES[name].get("config", ()))
    text = " ".join(words)
    return Program(name, options, tuple(positional), variables, opened or told_by_file, True, text)


def _is_option(word: str) -> bool:
    return _OPTION.fullmatch(word) is not None


def _resolved(text: str) -> str | Unknown:
    return Unknown(text) if is_expression(text) else text
