"""The configuration of a container's programs, from its command, arguments and variables."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.model.container import read_container
from gpu_preflight.model.programs import Program, count_whole_gpus, programs, uses_ray, visible_gpus
from gpu_preflight.reading.unknown import Unknown

VLLM = "vllm/vllm-openai:v0.11.2"


def started(*words: Any, image: str = "example/image:1", env: dict[str, Any] | None = None) -> tuple[Program, ...]:
    variables = [{"name": name, "value": value} for name, value in (env or {}).items()]

    return programs(read_container({"name": "main", "image": image, "args": list(words), "env": variables}))


def one(*words: Any, **more: Any) -> Program:
    [program] = started(*words, **more)

    return program


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["vllm", "serve", "m"], "vllm"),
        (["python3", "-u", "-m", "vllm.entrypoints.openai.api_server", "--model", "m"], "vllm"),
        (["/usr/local/bin/python", "-m", "sglang.launch_server"], "sglang"),
        (["trtllm-serve", "m"], "tensorrt-llm"),
        (["text-generation-launcher"], "text-generation-inference"),
        (["lmdeploy", "serve", "api_server", "m"], "lmdeploy"),
        (["torchrun", "train.py"], "torchrun"),
        (["python", "-m", "torch.distributed.run", "train.py"], "torchrun"),
        (["mpirun", "-n", "8", "trtllm-llmapi-launch", "trtllm-serve", "m"], "tensorrt-llm"),
        (["deepspeed", "train.py"], "deepspeed"),
        (["accelerate", "launch", "train.py"], "accelerate"),
        (["sh", "-c", "cd /work && exec vllm serve m"], "vllm"),
        (["/bin/bash", "-euxc", "source /env\nvllm serve m \\\n --port 80"], "vllm"),
    ],
)
def test_recognizes_a_program(words: list[str], name: str) -> None:
    assert one(*words).name == name


@pytest.mark.parametrize(
    "words",
    [
        ["pip", "install", "vllm"],
        ["sh", "-c", "echo vllm serve m"],
        ["sh", "-c", "# vllm serve m\nsleep 1"],
        ["bash", "/scripts/start.sh"],
        ["accelerate", "config"],
        ["python", "train.py"],
        [],
    ],
)
def test_other_commands_are_no_programs(words: list[str]) -> None:
    assert started(*words) == ()


def test_arguments_of_an_image_whose_entry_point_is_the_program() -> None:
    assert one("--model", "m", image=VLLM).model == "m"
    assert one("--model", "m", image=f"mirror.example/{VLLM}").model == "m"
    assert started(image=VLLM) == ()


@pytest.mark.parametrize(
    ("words", "size"),
    [
        (["--tensor-parallel-size", "4"], 4),
        (["--tensor-parallel-size=4"], 4),
        (["--tensor_parallel_size=4"], 4),
        (["-tp", "4"], 4),
        (["-tp=4"], 4),
        (["-tp", 4], 4),
        (["-tp", "2", "-tp", "4"], 4),
        ([], 1),
        (["--enable-prefix-caching", "-tp", "4"], 4),
    ],
)
def test_tensor_parallel_size(words: list[Any], size: int) -> None:
    assert one("--model", "m", *words, image=VLLM).tensor == size


@pytest.mark.parametrize(
    ("command", "env"),
    [
        ("vllm serve m -tp $TP", {"TP": "4"}),
        ("vllm serve m -tp ${TP}", {"TP": "4"}),
        ("vllm serve m -tp ${TP:-4}", {}),
        ("TP=4\nvllm serve m -tp $TP", {}),
        ("export TP=4; vllm serve m -tp $TP", {}),
        ("vllm serve m -tp $(TP)", {"TP": "4"}),
        ("vllm serve m $FLAGS", {"FLAGS": "-tp 4"}),
        ("vllm serve m -tp 4 > /log 2>&1", {}),
        ("vllm serve m -tp 4 | tee /log", {}),
    ],
)
def test_variables_of_a_script(command: str, env: dict[str, str]) -> None:
    assert one("bash", "-c", command, env=env).tensor == 4


@pytest.mark.parametrize("value", ["$TP", "${TP}", "$(TP)", "$(nproc)", "`nproc`", "$((2 * N))"])
def test_a_value_that_only_the_container_knows(value: str) -> None:
    program = one("bash", "-c", f"vllm serve m -tp {value}")

    assert isinstance(program.tensor, Unknown)
    assert isinstance(program.gpus_per_node, Unknown)


def test_an_argument_of_deployment_may_be_any_option() -> None:
    program = one("vllm", "serve", "m", Unknown("${Arguments}"))

    assert program.is_open
    assert isinstance(program.tensor, Unknown)


def test_a_script_with_conditions_may_not_start_it() -> None:
    assert not one("sh", "-c", "if true; then vllm serve m; fi").is_sure
    assert one("sh", "-c", "sleep 1; vllm serve m").is_sure


def test_a_script_may_start_several() -> None:
    found = started("sh", "-c", "CUDA_VISIBLE_DEVICES=0 vllm serve a & CUDA_VISIBLE_DEVICES=1 vllm serve b; wait")

    assert [each.model for each in found] == ["a", "b"]
    assert [each.variables["CUDA_VISIBLE_DEVICES"] for each in found] == ["0", "1"]


@pytest.mark.parametrize(
    ("words", "gpus"),
    [
        ("vllm serve m -tp 4 -pp 2", 8),
        ("vllm serve m -tp 2 --data-parallel-size 4", 8),
        ("vllm serve m -tp 2 --data-parallel-size 4 --data-parallel-size-local 2", 4),
        ("vllm serve m -tp 8 -pp 2 --nnodes 2 --node-rank 0", 8),
        ("vllm serve m --data-parallel-size 16 --data-parallel-rank 3", 1),
        ("python -m sglang.launch_server --tp 16 --nnodes 2", 8),
        ("python -m sglang.launch_server --tp 4 --dp 2", 8),
        ("python -m sglang.launch_server --tp 8 --dp 8 --enable-dp-attention", 8),
        ("trtllm-serve m --tp_size 4 --pp_size 2", 8),
        ("text-generation-launcher --num-shard 4", 4),
        ("torchrun --nproc_per_node=8 --nnodes 2 train.py --tp 2", 8),
        ("torchrun --standalone train.py", 1),
        ("accelerate launch --multi_gpu --num_processes 16 --num_machines 2 train.py", 8),
        ("deepspeed --num_gpus 4 train.py", 4),
    ],
)
def test_gpus_of_a_node(words: str, gpus: int) -> None:
    assert one(*words.split()).gpus_per_node == gpus


@pytest.mark.parametrize(
    "words",
    [
        "torchrun --nproc-per-node gpu train.py",
        "deepspeed train.py",
        "text-generation-launcher",
        "accelerate launch a.py",
    ],
)
def test_a_program_that_counts_the_gpus_itself(words: str) -> None:
    assert isinstance(one(*words.split()).gpus_per_node, Unknown)


def test_environment_variables_set_what_no_argument_does() -> None:
    image = "ghcr.io/huggingface/text-generation-inference:3.3.6"

    assert one(image=image, env={"NUM_SHARD": "2", "MODEL_ID": "m"}).group == 2
    assert one("torchrun", "train.py", env={"PET_NPROC_PER_NODE": "4"}).processes == 4
    assert isinstance(one("torchrun", "train.py", env={"PET_NPROC_PER_NODE": None}).processes, Unknown)


def test_other_settings() -> None:
    program = one(
        *[
            "vllm",
            "serve",
            "org/m",
            "--dtype",
            "half",
            "--quantization",
            "awq",
            "--load-format",
            "auto",
            "--max-model-len",
            "4096",
        ],
        *["--gpu-memory-utilization", "0.8", "--cpu-offload-gb", "10", "--distributed-executor-backend", "ray"],
    )

    assert (program.model, program.dtype, program.quantization, program.load_format) == ("org/m", "half", "awq", "auto")
    assert (program.max_model_len, program.gpu_memory_utilization) == (4096, "0.8")
    assert program.offloads
    assert program.spans_nodes


def test_experts_are_spread_over_data_parallel_ranks() -> None:
    words = ["vllm", "serve", "m", "-tp", "2", "--data-parallel-size", "4"]

    assert one(*words).gpus_of_a_model == 2
    assert one(*words, "--enable-expert-parallel").gpus_of_a_model == 8


def test_gpus_of_a_container() -> None:
    limits = {"resources": {"limits": {"nvidia.com/gpu": "4"}}}
    container = read_container({"name": "main", **limits})
    sliced = read_container({"name": "main", "resources": {"limits": {"nvidia.com/mig-1g.10gb": 1}}})

    assert count_whole_gpus(container) == 4
    assert count_whole_gpus(sliced) is None
    assert visible_gpus(container, one("vllm", "serve", "m", env={"CUDA_VISIBLE_DEVICES": "0,1"})) == 2
    assert visible_gpus(container, one("vllm", "serve", "m")) == 4


def test_ray_joins_several_pods() -> None:
    assert uses_ray(read_container({"name": "main", "command": ["sh", "-c", "ray start --head; vllm serve m"]}))
    assert uses_ray(read_container({"name": "main", "env": [{"name": "RAY_ADDRESS", "value": "a"}]}))
    assert not uses_ray(read_container({"name": "main", "command": ["vllm", "serve", "array start"]}))
