"""The first fix is the one that an expert makes, and a fix never lowers GPUs below a pod's arguments."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpu_preflight.model.container import Container
from gpu_preflight.remedies.workloads import required_gpus, used_gpus
from tests.preflight.remedies.pending import PendingCase, fixes, is_right, read_pending

CASES = read_pending()


@pytest.mark.parametrize("case", CASES, ids=[each.name for each in CASES])
def test_the_first_fix_is_the_experts(case: PendingCase, tmp_path: Path) -> None:
    found = fixes(case, tmp_path)

    assert is_right(case, found[0] if found else None), [each.text for each in found]


@pytest.mark.parametrize("case", [each for each in CASES if each.args], ids=lambda each: each.name)
def test_no_fix_lowers_gpus_below_the_arguments(case: PendingCase, tmp_path: Path) -> None:
    required = required_gpus([Container("main", command=tuple(case.args))])

    asked = [
        found for each in fixes(case, tmp_path) for found in re.findall(r"request (\d+) nvidia.com/gpu", each.text)
    ]
    assert required > 0
    assert all(int(each) >= required for each in asked)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), 0),
        (("vllm", "serve", "org/model", "-tp", "4", "-pp", "2"), 8),
        (("python", "serve.py", "--tensor-parallel-size", "4"), 4),
        (("sh", "-c", "exec torchrun --nproc-per-node=8 train.py"), 8),
        (("serve", "--tp-size=2"), 2),
        (("serve", "--max-model-len", "8192"), 0),
    ],
)
def test_gpus_that_arguments_require(words: tuple[str, ...], expected: int) -> None:
    assert required_gpus([Container("main", command=words)]) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("vllm", "serve", "org/model", "-tp", "4"), 4),
        (("vllm", "serve", "org/model"), 1),
        (("vllm", "serve", "org/model", "-tp", "${TP}"), None),
        (("vllm", "serve", "org/model", "${ARGS}"), None),
        (("python", "serve.py"), None),
    ],
)
def test_gpus_that_a_program_uses_are_known_or_not_taken_for_fewer(
    words: tuple[str, ...], expected: int | None
) -> None:
    assert used_gpus([Container("main", command=words)]) == expected
