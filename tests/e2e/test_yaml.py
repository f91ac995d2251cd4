"""The library's YAML, read by the Go parser that nodeadm, Argo CD and Flux share with helm."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import yaml

from gpu_constructs.installing.yaml_text import to_yaml
from tests.e2e.helm import Helm

LETTERS = "0123456789+-._eExXbBoOyYnNtTrRuUlLsS~: "
STRINGS = 50_000


@pytest.mark.parametrize("seed", range(3))
def test_every_string_stays_one(seed: int, helm: Helm, tmp_path: Path) -> None:
    chance = random.Random(seed)
    written = ["".join(chance.choices(LETTERS, k=chance.randint(0, 7))) for _ in range(STRINGS)]
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text(yaml.safe_dump({"apiVersion": "v2", "name": "read", "version": "1.0.0"}))
    (tmp_path / "templates" / "read.yaml").write_text("read: {{ toJson .Values.written | quote }}")
    (tmp_path / "values.yaml").write_text(to_yaml({"written": written}))

    done = helm.run("template", "read", str(tmp_path))

    assert done.returncode == 0, done.stderr
    read = json.loads(yaml.safe_load(done.stdout)["read"])
    assert [(one, other) for one, other in zip(written, read, strict=True) if one != other] == []
