"""Pods that get a node and whose program fails there aren't called Pending."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpu_preflight.rules import rules
from tests.preflight.command_line.test_cli import Done
from tests.preflight.rule_cases import FIXTURES

FIXTURE = FIXTURES / "GPU472/fails_tensor_size_above_the_gpus.yaml"
POOL = FIXTURES / "GPU493/fails_default_strategy_of_one_replica.yaml"


def files(folder: Path, *, gpus: int, tensor: int, types: tuple[str, ...] = ("g6.12xlarge",)) -> str:
    """A NodePool of nodes with 4 GPUs, and vLLM with some GPUs and a tensor parallel size."""
    [pool, node_class, _] = yaml.safe_load_all(POOL.read_text())
    pool["spec"]["limits"] = {"nvidia.com/gpu": "4"}
    requirements = pool["spec"]["template"]["spec"]["requirements"]
    requirements[0]["values"] = list(types)
    [server] = yaml.safe_load_all(FIXTURE.read_text())
    [container] = server["spec"]["template"]["spec"]["containers"]
    container["args"] = ["--model", "org/model-8B", "--tensor-parallel-size", str(tensor)]
    container["resources"]["limits"]["nvidia.com/gpu"] = gpus
    file = folder / "all.yaml"
    file.write_text(yaml.safe_dump_all([pool, node_class, server]))
    return str(file)


@pytest.mark.parametrize(
    ("gpus", "tensor", "result", "words"),
    [
        (4, 8, "failsAtStart", "1 workload would start and fail"),
        (8, 16, "pending", "1 workload would stay Pending"),
        (8, 8, "pending", "1 workload would stay Pending"),
    ],
)
def test_a_failed_program_is_distinguished_from_a_pod_without_a_node(
    gpus: int, tensor: int, result: str, words: str, tmp_path: Path
) -> None:
    file = files(tmp_path, gpus=gpus, tensor=tensor)
    explained, text = Done("explain", file, "--format", "json"), Done("explain", file)
    [workload] = explained.json["clusters"][0]["workloads"]

    assert (workload["answer"], workload["result"], explained.code) == ("no", result, 1)
    assert text.out.rstrip().endswith(words)
    assert ("starts and fails: 1" in text.out) is (result == "failsAtStart")
    assert ("llm: Pending" in text.out) is (result == "pending")


def test_check_and_review_use_the_same_words(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    before = files(tmp_path / "old", gpus=4, tensor=4)
    after = files(tmp_path / "new", gpus=4, tensor=8)

    review = Done("review", before, after, "--format", "json").json["workloads"]
    assert [(each["after"], each["afterResult"]) for each in review] == [("no", "failsAtStart")]
    assert "GPU check fails: 1 workload would start and fail" in Done("check", after).out
    assert "1 workload would start and fail" in Done("review", before, after, "--format", "markdown").out


def test_only_errors_of_programs_fail_at_a_start() -> None:
    found = {each.id for each in rules().values() if each.at_start}

    programs = {f"gpu_preflight.rules.{each}" for each in ("model_servers", "parallel_jobs", "probes")}
    assert found == {
        each.id for each in rules().values() if each.severity == "error" and each.check.__module__ in programs
    }
