"""Sizes of weights by the names of models."""

from __future__ import annotations

import pytest

from gpu_facts.model_servers import estimate_weights


@pytest.mark.parametrize(
    ("model", "billions", "bits"),
    [
        ("meta-llama/Llama-3.1-70B-Instruct", 70, 16),
        ("Qwen/Qwen2.5-72B-Instruct-AWQ", 72, 4),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", 7, 8),
        ("Qwen/Qwen2.5-0.5B", 0.5, 16),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", 46.7, 16),
        ("mistralai/Mixtral-8x22B-v0.1", 140.6, 16),
        ("Qwen/Qwen3-30B-A3B", 30, 16),
        ("RedHatAI/Meta-Llama-3.1-405B-Instruct-FP8", 405, 8),
        ("RedHatAI/Meta-Llama-3.1-70B-Instruct-quantized.w4a16", 70, 4),
        ("unsloth/llama-3-8b-bnb-4bit", 8, 4),
        ("deepseek-ai/DeepSeek-V3", 671, 8),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", 70, 16),
        ("openai/gpt-oss-120b", 116.8, 4.25),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 109, 16),
        ("/models/llama-3-70b", 70, 16),
        ("models/Llama-3.3-70B-Instruct-Q4_K_M.gguf", 70, 4),
    ],
)
def test_a_name_states_parameters_and_bits(model: str, billions: float, bits: float) -> None:
    found = estimate_weights(model)

    assert found is not None
    assert (found.billions, found.bits) == (billions, bits)
    assert found.bytes_min <= found.bytes_likely == int(billions * 1e9 * bits / 8)


@pytest.mark.parametrize(
    "model",
    ["microsoft/phi-4", "facebook/opt-125m", "org/llama-70b-lora", "org/Llama-3.3-70B-GGUF", "org/eagle3-llama-8B", ""],
)
def test_other_names_state_no_size(model: str) -> None:
    assert estimate_weights(model) is None


def test_bits_that_a_name_does_not_state_may_be_fewer() -> None:
    sure, unsure = estimate_weights("meta-llama/Llama-3.1-70B"), estimate_weights("/models/llama-70b")

    assert sure is not None
    assert unsure is not None
    assert sure.bytes_min > 2 * unsure.bytes_min


@pytest.mark.parametrize(
    ("quantization", "dtype", "bits"),
    [("fp8", "", 8), ("bitsandbytes", "", 4), ("", "float32", 32), ("", "half", 16), ("", "", 16)],
)
def test_settings_of_the_server_change_the_bits(quantization: str, dtype: str, bits: float) -> None:
    found = estimate_weights("Qwen/Qwen3-32B", quantization=quantization, dtype=dtype)

    assert found is not None
    assert found.bits == bits


def test_settings_of_deployment_leave_the_least_bits() -> None:
    found = estimate_weights("Qwen/Qwen3-32B", quantization=None)

    assert found is not None
    assert found.bytes_min < found.bytes_likely / 3
