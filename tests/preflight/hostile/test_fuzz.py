"""Real templates and manifests with broken parts."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from gpu_preflight.reading.inputs import Input
from tests.long import count
from tests.preflight.hostile.broken import broken, judged, realistic, written

FUZZED = count(100, 20_000)


def test_fuzz(tmp_path: Path) -> None:
    """Real templates and manifests with broken parts are checked or rejected, without a crash."""
    sources = realistic()
    file = tmp_path / "broken.yaml"
    before: Input | None = None
    refused = 0
    for seed in range(FUZZED):
        random = Random(seed)
        written(broken(random, random.choice(sources)()), file)
        try:
            given = judged(file, before)
        except Exception as error:
            error.add_note(f"seed {seed}") if hasattr(error, "add_note") else None
            raise
        refused += given is None
        before = given if given is not None and seed % 7 == 0 else before
    assert refused < FUZZED / 4


def test_fuzz_torn_text(tmp_path: Path) -> None:
    """Files that end in the middle, or with bytes changed."""
    texts = [json.dumps(each()).encode() for each in realistic()[::40]]
    for seed in range(FUZZED // 2):
        random = Random(seed)
        data = bytearray(random.choice(texts))
        for _ in range(random.choice((0, 1, 4))):
            data[random.randrange(len(data))] = random.randrange(256)
        del data[random.randrange(len(data)) if random.random() < 0.5 else len(data) :]
        file = tmp_path / random.choice(("a.json", "a.yaml"))
        file.write_bytes(data)

        judged(file)
