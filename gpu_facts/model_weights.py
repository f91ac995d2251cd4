"""The size of a model's weights, as far as its name states it.

``meta-llama/Llama-3.1-70B-Instruct`` has 70 billion parameters of 16 bits: 140 GB.

Sources: model cards on https://huggingface.co of the names below (2026-11); for the bits of quantized weights
https://docs.vllm.ai/en/v0.11.2/features/quantization/ and
https://github.com/ggml-org/llama.cpp/blob/master/tools/quantize/README.md (2026-11)
"""

from __future__ import annotations

import math
import re

from gpu_facts.light_dataclasses import dataclass
from gpu_facts.light_patterns import regex

# Billions of parameters and bits of one, of models whose names state neither, or state something else.
# Sources: model cards of mistralai/Mixtral-8x7B-v0.1, mistralai/Mixtral-8x22B-v0.1, meta-llama/Llama-4-Scout-17B-16E,
# meta-llama/Llama-4-Maverick-17B-128E, deepseek-ai/DeepSeek-V3, deepseek-ai/DeepSeek-R1, moonshotai/Kimi-K2-Instruct,
# moonshotai/Kimi-K2-Thinking, openai/gpt-oss-120b, openai/gpt-oss-20b (2026-11)
_KNOWN: tuple[tuple[str, float, float], ...] = (
    (r"mixtral-8x7b", 46.7, 16),
    (r"mixtral-8x22b", 140.6, 16),
    (r"llama-4-scout-17b-16e", 109, 16),
    (r"llama-4-maverick-17b-128e", 400, 16),
    (r"deepseek-(v3|r1)(?!.*(distill|lite|tiny|reap|qwen|llama|[-_]\d+(?:\.\d+)?b(?![a-z0-9])))", 671, 8),
    (r"kimi-k2[-_.]?(thinking|5)", 1000, 4),
    (r"kimi-k2", 1000, 8),
    (r"gpt-oss-120b", 116.8, 4.25),
    (r"gpt-oss-20b", 20.9, 4.25),
)
# Names of experts (8x7B), of parameters (70B, 0.5B, 1.5b) and not of active parameters (A3B).
_EXPERTS = regex(r"(?<![A-Za-z0-9.])(\d{1,3})x(\d{1,4}(?:\.\d{1,3})?)[bB](?![A-Za-z0-9])")
_PARAMETERS = regex(r"(?<![A-Za-z0-9.])(\d{1,4}(?:[._]\d{1,3})?)[bB](?![A-Za-z0-9])")
# Experts share attention, so that the total is below the product: 46.7 of 56 for Mixtral 8x7B.
_SHARED_PART = 0.75
# A name rounds: Vicuna 33B has 32.5 billion.
_ROUNDING = 0.95
_BITS: tuple[tuple[str, float], ...] = (
    (r"gptq[-_]?int8|int8|w8a8|w8a16|8[-_]?bit|fp8[a-z]*|float8|f8|w8a8[-_]?fp8|q8[-_]0", 8),
    (r"q6[-_]k", 6),
    (r"q5[-_](k[-_][sml]|[01]|k)", 5),
    (r"awq|gptq|gptq[-_]?int4|int4|w4a16|w4a8|w4afp8|4[-_]?bits?|nf4|nvfp4|mxfp4|fp4|autoround|bnb", 4),
    (r"q4[-_](k[-_][sml]|[01]|k)", 4),
    (r"q3[-_](k[-_][sml]|k)|3[-_]?bit|int3", 3),
    (r"q2[-_]k|2[-_]?bit|int2|iq2[-_]\w+|aqlm|quip", 2),
    (r"bf16|fp16|f16", 16),
    (r"fp32|f32", 32),
)
# Names of what is loaded next to a model, and of formats that state no bits.
_PART = r"lora|qlora|adapter|eagle\d?|speculator|medusa|draft"
_UNCLEAR = (
    r"gguf|exl[23]|mlx|onnx|bitnet|hqq|quantized|bpw|ternary|1[._]58bit|torchao|qat|sparse\w*|pruned|trt\w*|tensorrt\w*|"
    r"engine"
)
# Whose models have 16 bits unless their names state others.
_IN_16_BITS = ("meta-llama", "qwen", "google", "tiiuae", "codellama", "nousresearch", "lmsys", "01-ai", "eleutherai")
# Bits of a parameter at least, by the method that a server is configured to use.
_BITS_OF_METHOD = {
    "fp8": 8, "int8": 8, "eetq": 8, "w8a8_fp8": 8, "w8a8_int8": 8, "bitsandbytes-nf4": 4, "bitsandbytes-fp4": 4,
}  # fmt: skip
_BITS_OF_TYPE = {"float32": 32, "float": 32}


@dataclass(frozen=True, slots=True)
class Weights:
    """The size of a model's weights.

    Attributes:
        billions: Billions of parameters that its name states.
        bits: Bits of one, as far as the name states them; 16 otherwise.
        bytes_min: Minimum size of the weights.
        bytes_likely: Size of the weights if the name is right.
    """

    billions: float
    bits: float
    bytes_min: int
    bytes_likely: int

    @property
    def text(self) -> str:
        """The size in GB, with its parts."""
        return f"{self.bytes_likely / 1e9:.0f} GB ({self.billions:g} billion parameters of {self.bits:g} bits)"


def weights_of(model: str, *, quantization: str | None = "", dtype: str | None = "") -> Weights | None:
    """Return the size of a model's weights; ``None`` where its name doesn't state it.

    ``Qwen/Qwen2.5-72B-Instruct-AWQ`` has 72 billion parameters of 4 bits: 36 GB.

    Args:
        model: Name at Hugging Face, or a folder.
        quantization: Method that a server is configured to use; ``None`` where it is not known, empty for none.
        dtype: Data type that a server is configured to use, likewise.
    """
    name = model.rstrip("/").rpartition("/")[2]
    stated = next((bits for words, bits in _BITS if _has_word(name, words)), None)
    if _has_word(name, _PART) or (stated is None and _has_word(name, _UNCLEAR)):
        return None
    known = next(((billions, bits) for text, billions, bits in _KNOWN if re.search(text, name, re.IGNORECASE)), None)
    billions, share = (known[0], _ROUNDING) if known else _parameters(name)
    if billions == 0:
        return None
    likely = stated if stated is not None else known[1] if known else 16.0
    sure = stated is not None or known is not None or _is_in_16_bits(model)
    least = min(likely, 4.0) if not sure else likely
    if quantization is None or dtype is None:
        least = min(least, 4.0)
    elif quantization and stated is None:
        likely = min(likely, _BITS_OF_METHOD.get(quantization.lower(), 4.0))
        least = min(least, likely)
    elif dtype in _BITS_OF_TYPE and stated is None:
        likely = _BITS_OF_TYPE[dtype]
    return Weights(billions, likely, _bytes(billions * share, least), _bytes(billions, likely))


def _has_word(name: str, words: str) -> bool:
    return re.search(rf"(?<![a-z0-9])(?:{words})(?![a-z0-9])", name, re.IGNORECASE) is not None


def _parameters(name: str) -> tuple[float, float]:
    """Return the billions of parameters in a name, and the share of them that the model has at least; 0 for none."""
    if experts := _EXPERTS.search(name):
        return int(experts[1]) * float(experts[2]), _SHARED_PART
    found = [float(each.replace("_", ".")) for each in _PARAMETERS.findall(name)]
    # Of several, such as in names of merges and distillations, the smallest is certain.
    return (min(found), _ROUNDING) if found else (0.0, 1.0)


def _is_in_16_bits(model: str) -> bool:
    owner, _, name = model.lower().partition("/")
    if not name or "/" in name:
        return False
    return owner in _IN_16_BITS or "r1-distill" in name or (owner == "mistralai" and "-v0." in name)


def _bytes(billions: float, bits: float) -> int:
    return math.floor(billions * 1e9 * bits / 8)
