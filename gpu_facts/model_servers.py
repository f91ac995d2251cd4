"""Sizes of models by their names, and options of model servers.

``meta-llama/Llama-3.1-70B-Instruct`` has 70 billion parameters of 16 bits: 140 GB.

Sources: model cards on https://huggingface.co of the names below (2026-11); for the bits of quantized weights
https://docs.vllm.ai/en/v0.11.2/features/quantization/ and
https://github.com/ggml-org/llama.cpp/blob/master/tools/quantize/README.md (2026-11)

Options that the command lines of model servers accept, by their names with hyphens.

Sources (2026-11-23):

* vLLM: releases 0.11.2 and 0.33.0, ``add_argument`` in vllm/engine/arg_utils.py and vllm/entrypoints/**/cli_args.py,
  and the fields of ``FrontendArgs``.
* SGLang: release 0.5.6, ``add_argument`` in python/sglang/srt/server_args.py.
* text-generation-inference: commit db931fc (after v3.3.7), the fields of ``Args`` in launcher/src/main.rs.

Other releases have other options. So a missing option isn't always an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from gpu_facts.light import dataclass, regex

# Billions of parameters, and bits of each, for models whose names don't state them or state other numbers.
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
# Numbers of experts (8x7B) and of parameters (70B, 0.5B, 1.5b), but not of active parameters (A3B).
_EXPERTS = regex(r"(?<![A-Za-z0-9.])(\d{1,3})x(\d{1,4}(?:\.\d{1,3})?)[bB](?![A-Za-z0-9])")
_PARAMETERS = regex(r"(?<![A-Za-z0-9.])(\d{1,4}(?:[._]\d{1,3})?)[bB](?![A-Za-z0-9])")
# Experts share attention, so the total is below the product: 46.7 instead of 56 for Mixtral 8x7B.
_SHARED_PART = 0.75
# Names round numbers: Vicuna 33B has 32.5 billion.
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
# Names of adapters that are loaded next to a model, and of formats that don't state their bits.
_PART = r"lora|qlora|adapter|eagle\d?|speculator|medusa|draft"
_UNCLEAR = (
    r"gguf|exl[23]|mlx|onnx|bitnet|hqq|quantized|bpw|ternary|1[._]58bit|torchao|qat|sparse\w*|pruned|trt\w*|tensorrt\w*|"
    r"engine"
)
# Publishers whose models have 16 bits unless their names state otherwise.
_IN_16_BITS = ("meta-llama", "qwen", "google", "tiiuae", "codellama", "nousresearch", "lmsys", "01-ai", "eleutherai")
# Min bits of a parameter, by the quantization method of a server.
_BITS_OF_METHOD = {
    "fp8": 8, "int8": 8, "eetq": 8, "w8a8_fp8": 8, "w8a8_int8": 8, "bitsandbytes-nf4": 4, "bitsandbytes-fp4": 4,
}  # fmt: skip
_BITS_OF_TYPE = {"float32": 32, "float": 32}
_VLLM = """
additional-config aggregate-engine-logging all2all-backend allow-credentials allow-deprecated-quantization
allowed-headers allowed-local-media-path allowed-media-domains allowed-methods allowed-origins
anthropic-disabled-thinking-effort api-key api-server-count async-scheduling attention-backend attention-config
aux-output-config block-size calculate-kv-scales chat-template chat-template-content-format code-revision
cohere-format cohere-is-reasoning-model collect-detailed-traces compilation-config config config-format convert
cp-kv-cache-interleave-size cpu-distributed-timeout-seconds cpu-offload-gb cpu-offload-params cuda-graph-sizes
cudagraph-capture-sizes cudagraph-metrics custom-histogram-buckets data-parallel-address data-parallel-backend
data-parallel-external-lb data-parallel-hybrid-lb data-parallel-multi-port-external-lb data-parallel-rank
data-parallel-rpc-port data-parallel-size data-parallel-size-local data-parallel-start-rank
data-parallel-supervisor-port dbo-decode-token-threshold dbo-prefill-token-threshold dcp-comm-backend
dcp-kv-cache-interleave-size dcp-q-replicate decode-context-parallel-size default-chat-template-kwargs
default-mm-loras device-ids device-memory-utilization diffusion-config disable-access-log-for-endpoints
disable-cascade-attn disable-chunked-mm-input disable-custom-all-reduce disable-fastapi-docs
disable-frontend-multiprocessing disable-hybrid-kv-cache-manager disable-log-requests disable-log-stats
disable-mm-preprocessor-cache disable-nccl-for-dp-synchronization disable-sliding-window disable-uvicorn-access-log
distributed-executor-backend distributed-timeout-seconds download-dir dp-supervisor-probe-failure-threshold
dp-supervisor-probe-interval-s dp-supervisor-probe-timeout-s dp-sync-interval dtype ec-manager-config
ec-transfer-config elastic-ep-max-dp-size enable-auto-tool-choice enable-batch-sharded-sampling
enable-chunked-prefill enable-cumem-allocator enable-dbo enable-elastic-ep enable-ep-weight-filter enable-eplb
enable-expert-parallel enable-fault-tolerance enable-flash-late-interaction enable-flashinfer-autotune
enable-force-include-usage enable-hc-sp enable-layerwise-nvtx-tracing enable-log-deltas enable-log-outputs
enable-log-requests enable-logging-iteration-details enable-lora enable-mamba-cache-stochastic-rounding
enable-mamba-shared-prefix-checkpoint enable-mfu-metrics enable-mixed-moe-lora-format enable-mm-embeds
enable-moe-shared-loras enable-multimodal-encoder-data-parallel enable-nccl-comm-suspend enable-offline-docs
enable-per-request-metrics enable-prefix-caching enable-prompt-embeds enable-prompt-tokens-details
enable-request-id-headers enable-return-routed-experts enable-scale-out enable-server-load-tracking
enable-shm-tensor-arena enable-sleep-mode enable-ssl-refresh enable-tokenizer-info-endpoint
enable-tower-connector-lora enable-trace-replay enforce-eager engram-config eplb-config eplb-log-balancedness
eplb-step-interval eplb-window-size exclude-tools-when-tool-choice-none expert-placement-strategy
fail-on-environ-validation fault-tolerance-config fingerprint-mode fingerprint-value fully-sharded-loras
gdn-prefill-backend generation-config gpu-memory-utilization grpc grpc-port h11-max-header-count
h11-max-incomplete-event-size headless hf-config-path hf-overrides hf-token host ignore-patterns
interleave-mm-strings io-processor-plugin ir-op-priority jit-monitor-mode jit-monitor-verbose kda-decode-backend
kda-prefill-backend kernel-config kv-cache-dtype kv-cache-dtype-skip-layers kv-cache-memory-bytes kv-cache-metrics
kv-cache-metrics-sample kv-events-config kv-offloading-backend kv-offloading-size kv-sharing-fast-prefill
kv-transfer-config language-model-only limit-mm-per-prompt linear-backend load-format log-config-file
log-error-stack log-level logging-config logits-processor-pattern logits-processors logprobs-mode
long-prefill-token-threshold long-prefill-token-threshold-adaptive lora-dtype lora-extra-vocab-size lora-modules
lora-target-modules mamba-backend mamba-block-size mamba-cache-dtype mamba-cache-mode mamba-cache-philox-rounds
mamba-ssm-cache-dtype mamba-ssu-algorithm master-addr master-port max-cpu-loras max-cudagraph-capture-size
max-log-len max-logprobs max-long-partial-prefills max-lora-cls-labels max-lora-rank max-loras max-model-len
max-num-active-seqs max-num-batched-tokens max-num-partial-prefills max-num-queued-reqs max-num-queued-tokens
max-num-scheduled-tokens max-num-seqs max-parallel-loading-workers media-io-kwargs middleware mm-device-do-normalize
mm-encoder-attn-backend mm-encoder-attn-dtype mm-encoder-fp8-scale-path mm-encoder-fp8-scale-save-margin
mm-encoder-fp8-scale-save-path mm-encoder-only mm-encoder-tp-mode mm-hasher-algorithm mm-ipc-gpu-memory-gb
mm-processor-cache-gb mm-processor-cache-type mm-processor-device mm-processor-kwargs
mm-shm-cache-max-object-size-mb mm-tensor-ipc model model-class-overrides model-impl model-loader-extra-config
moe-backend monokernel nnodes node-rank num-gpu-blocks-override num-lookahead-slots num-redundant-experts numa-bind
numa-bind-cpus numa-bind-nodes offload-backend offload-group-size offload-num-in-group offload-params
offload-prefetch-step optimization-level otlp-traces-endpoint override-attention-dtype override-generation-config
override-pooler-config per-request-spec-decode-metrics performance-mode pipeline-parallel-size pooler-config port
prefill-context-parallel-size prefill-schedule-interval prefix-cache-retention-interval prefix-caching-hash-algo
prefix-match-unit profiler-config pt-load-map-location quantization quantization-config ray-workers-use-nsight
reasoning-config reasoning-effort-map reasoning-parser reasoning-parser-plugin renderer-num-workers
replayssm-buffer-len response-role return-sampling-mask return-tokens-as-token-ids revision root-path runner
safetensors-load-strategy safetensors-prefetch-block-size safetensors-prefetch-num-threads scheduler-cls
scheduler-reserve-full-isl scheduling-policy seed served-model-name show-hidden-metrics-for-version shutdown-timeout
skip-mm-profiling skip-tokenizer-init sleep-mode-backend sleep-mode-offload-cudagraph sleep-preserve-parameter-names
sparse-indexer-topk-backend spec-method spec-model spec-tokens specialize-active-lora speculative-config
sse-keep-alive-interval ssl-ca-certs ssl-cert-reqs ssl-certfile ssl-ciphers ssl-keyfile stream-interval
structured-outputs-config swa-bounded-replay swap-space task tensor-parallel-size tokenizer tokenizer-mode
tokenizer-revision tokens-only tool-call-parser tool-parser-plugin tool-server tool-strict-level trust-remote-code
trust-request-chat-template trust-request-mm-kwargs ubatch-size uds use-fp64-gumbel use-replayssm use-tqdm-on-load
uvicorn-log-level video-pruning-method video-pruning-rate watchdog-config watermark watermark-config
weight-transfer-config worker-cls worker-extension-cls
"""
_SGLANG = """
abort-on-priority-when-disabled allow-auto-truncate api-key attention-backend base-gpu-id bucket-e2e-request-latency
bucket-inter-token-latency bucket-time-to-first-token chat-template checkpoint-engine-wait-weights-before-ready
chunked-prefill-size collect-tokens-histogram completion-template config constrained-json-disable-any-whitespace
constrained-json-whitespace-pattern context-length cpu-offload-gb crash-dump-folder cuda-graph-bs cuda-graph-max-bs
custom-weight-loader data-parallel-size debug-tensor-dump-inject debug-tensor-dump-input-file
debug-tensor-dump-layers debug-tensor-dump-output-folder decode-attention-backend decode-log-interval
decrypted-config-file decrypted-draft-config-file deepep-config deepep-mode delete-ckpt-after-loading device
disable-chunked-prefix-cache disable-cuda-graph disable-cuda-graph-padding disable-custom-all-reduce
disable-fast-image-processor disable-flashinfer-cutlass-moe-fp4-allgather disable-hybrid-swa-memory
disable-outlines-disk-cache disable-overlap-schedule disable-radix-cache disable-shared-experts-fusion
disable-tokenizer-batch-decode disaggregation-bootstrap-port disaggregation-decode-dp
disaggregation-decode-enable-offload-kvcache disaggregation-decode-polling-interval disaggregation-decode-tp
disaggregation-ib-device disaggregation-mode disaggregation-prefill-pp disaggregation-transfer-backend
dist-init-addr dist-timeout dllm-algorithm dllm-block-size download-dir dp-size ds-channel-config-path
ds-heavy-channel-num ds-heavy-channel-type ds-heavy-token-num ds-sparse-decode-threshold dtype
dynamic-batch-tokenizer-batch-size dynamic-batch-tokenizer-batch-timeout elastic-ep-backend
enable-attn-tp-input-scattered enable-broadcast-mm-inputs-process enable-cache-report enable-cudagraph-gc
enable-custom-logit-processor enable-deterministic-inference enable-double-sparsity enable-dp-attention
enable-dp-lm-head enable-draft-weights-cpu-backup enable-dynamic-batch-tokenizer enable-eplb
enable-expert-distribution-metrics enable-flashinfer-allreduce-fusion enable-flashinfer-autotune enable-fp32-lm-head
enable-hierarchical-cache enable-layerwise-nvtx-marker enable-lmcache enable-lora enable-memory-saver enable-metrics
enable-metrics-for-all-schedulers enable-mixed-chunk enable-mscclpp enable-multimodal enable-nan-detection
enable-nccl-nvls enable-nsa-prefill-context-parallel enable-p2p-check enable-pdmux enable-piecewise-cuda-graph
enable-priority-scheduling enable-profile-cuda-graph enable-request-time-stats-logging enable-return-hidden-states
enable-single-batch-overlap enable-symm-mem enable-tokenizer-batch-encode enable-torch-compile
enable-torch-compile-debug-mode enable-torch-symm-mem enable-trace enable-two-batch-overlap
enable-weights-cpu-backup ep ep-dispatch-algorithm ep-num-redundant-experts ep-size eplb-algorithm
eplb-min-rebalancing-utilization-threshold eplb-rebalance-layers-per-chunk eplb-rebalance-num-iterations
expert-distribution-recorder-buffer-size expert-distribution-recorder-mode expert-parallel-size
export-metrics-to-file export-metrics-to-file-dir fastapi-root-path file-storage-path flashinfer-mla-disable-ragged
flashinfer-mxfp4-moe-precision forward-hooks gc-warning-threshold-secs generation-tokens-buckets gpu-id-step
grammar-backend grpc-mode hicache-io-backend hicache-mem-layout hicache-ratio hicache-size hicache-storage-backend
hicache-storage-backend-extra-config hicache-storage-prefetch-policy hicache-write-policy host hybrid-kvcache-ratio
init-expert-location is-embedding json-model-override-args keep-mm-feature-on-device kt-cpuinfer
kt-max-deferred-experts-per-token kt-method kt-num-gpu-experts kt-threadpool-count kt-weight-path kv-cache-dtype
kv-events-config load-balance-method load-format load-watch-interval log-level log-level-http log-requests
log-requests-level lora-backend lora-eviction-policy lora-paths lora-target-modules mamba-full-memory-ratio
mamba-ssm-dtype max-loaded-loras max-lora-chunk-size max-lora-rank max-loras-per-batch max-mamba-cache-size
max-prefill-tokens max-queued-requests max-running-requests max-total-tokens mem-fraction-static
mm-attention-backend mm-enable-dp-encoder mm-max-concurrent-calls mm-per-request-timeout mm-process-config model
model-impl model-loader-extra-config model-path modelopt-checkpoint-restore-path modelopt-checkpoint-save-path
modelopt-export-path modelopt-quant moe-a2a-backend moe-dense-tp-size moe-runner-backend mooncake-ib-device
multi-item-scoring-delimiter nccl-init-addr nccl-port nnodes node-rank nsa-decode-backend nsa-prefill-backend
num-continuous-decode-steps num-reserved-decode-tokens numa-node offload-group-size offload-mode
offload-num-in-group offload-prefetch-step otlp-traces-endpoint page-size pdmux-config-path
piecewise-cuda-graph-compiler piecewise-cuda-graph-max-tokens piecewise-cuda-graph-tokens pipeline-parallel-size
port pp-max-micro-batch-size pp-size preferred-sampling-params prefill-attention-backend prefill-round-robin-balance
priority-scheduling-preemption-threshold prompt-tokens-buckets quantization quantization-param-path
quantize-and-serve radix-eviction-policy random-seed reasoning-parser remote-instance-weight-loader-seed-instance-ip
remote-instance-weight-loader-seed-instance-service-port remote-instance-weight-loader-send-weights-group-ports
revision rl-on-policy-target sampling-backend sampling-defaults schedule-conservativeness
schedule-low-priority-values-first schedule-policy scheduler-recv-interval served-model-name show-time-cost
skip-server-warmup skip-tokenizer-init sleep-on-idle sm-group-num speculative-accept-threshold-acc
speculative-accept-threshold-single speculative-algorithm speculative-attention-mode speculative-draft-load-format
speculative-draft-model speculative-draft-model-path speculative-draft-model-revision speculative-eagle-topk
speculative-moe-runner-backend speculative-ngram-branch-length speculative-ngram-capacity
speculative-ngram-match-type speculative-ngram-max-bfs-breadth speculative-ngram-max-match-window-size
speculative-ngram-min-bfs-breadth speculative-ngram-min-match-window-size speculative-num-draft-tokens
speculative-num-steps speculative-token-map stream-interval stream-output swa-full-tokens-ratio
tbo-token-distribution-threshold tensor-parallel-size tokenizer-metrics-allowed-custom-labels
tokenizer-metrics-custom-labels-header tokenizer-mode tokenizer-path tokenizer-worker-num tool-call-parser
tool-server torch-compile-max-bs torchao-config tp-size triton-attention-num-kv-splits
triton-attention-reduce-in-fp32 triton-attention-split-tile-size trust-remote-code warmups watchdog-timeout
weight-loader-disable-mmap weight-version
"""
_TGI = """
api-key cors-allow-origin cuda-graphs cuda-memory-fraction disable-custom-kernels disable-grammar-support dtype
enable-prefill-logprobs env graceful-termination-timeout hostname huggingface-hub-cache json-output kv-cache-dtype
lora-adapters master-addr master-port max-batch-prefill-tokens max-batch-size max-batch-total-tokens max-best-of
max-client-batch-size max-concurrent-requests max-input-length max-input-tokens max-stop-sequences max-top-n-tokens
max-total-tokens max-waiting-tokens model-id ngrok ngrok-authtoken ngrok-edge num-shard otlp-endpoint
otlp-service-name payload-limit port prometheus-port quantize revision rope-factor rope-scaling shard-uds-path
sharded speculate tokenizer-config-path trust-remote-code usage-stats validation-workers waiting-served-ratio
watermark-delta watermark-gamma weights-cache-override
"""
SERVER_OPTIONS: Mapping[str, frozenset[str]] = {
    "vllm": frozenset(_VLLM.split()),
    "sglang": frozenset(_SGLANG.split()),
    "text-generation-inference": frozenset(_TGI.split()),
}


@dataclass(frozen=True, slots=True)
class Weights:
    """The size of a model's weights.

    Attributes:
        billions: Billions of parameters in its name.
        bits: Bits of each parameter from its name, or 16.
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


def estimate_weights(model: str, *, quantization: str | None = "", dtype: str | None = "") -> Weights | None:
    """Return the size of a model's weights, or ``None`` if its name doesn't state it.

    ``Qwen/Qwen2.5-72B-Instruct-AWQ`` has 72 billion parameters of 4 bits: 36 GB.

    Args:
        model: Name at Hugging Face, or a folder.
        quantization: Quantization method of the server, ``None`` if it is unknown, or empty for none.
        dtype: Data type of the server, ``None`` if it is unknown, or empty for none.
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
    """Return the billions of parameters in a name, and the min fraction of them that the model has, or 0 for none."""
    if experts := _EXPERTS.search(name):
        return int(experts[1]) * float(experts[2]), _SHARED_PART
    found = [float(each.replace("_", ".")) for each in _PARAMETERS.findall(name)]
    # If a name has several numbers, as in names of merges and distillations, only the smallest is certain.
    return (min(found), _ROUNDING) if found else (0.0, 1.0)


def _is_in_16_bits(model: str) -> bool:
    owner, _, name = model.lower().partition("/")
    if not name or "/" in name:
        return False
    return owner in _IN_16_BITS or "r1-distill" in name or (owner == "mistralai" and "-v0." in name)


def _bytes(billions: float, bits: float) -> int:
    return math.floor(billions * 1e9 * bits / 8)
