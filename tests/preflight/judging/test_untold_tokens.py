"""No finding repeats the access token that it found."""

from __future__ import annotations

from pathlib import Path

from gpu_preflight.judging.check import check
from gpu_preflight.reading.inputs import read_input

TOKEN = "hf_" + "aB" * 17


def test_an_access_token_is_not_repeated(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: chat}\nspec:\n  containers:\n  - name: main\n"
        f"    image: example.com/chat:1\n    env: [{{name: HF_TOKEN, value: {TOKEN}}}]\n"
        "    resources: {limits: {nvidia.com/gpu: 1}}\n"
    )

    found = check(read_input([str(file)])).findings

    assert "GPU413" in {each.rule.id for each in found}
    assert [each for each in found if TOKEN in f"{each.problem.message}{each.fix}"] == []
