"""cfn-lint over every combination of type, system and capacity; examples and stacks are linted in `make test`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.emitted import Matrix
from tests.linting import CDKS_OWN, cfn_lint, each_shape_once


# On the newer Kubernetes words differ that cfn-lint does not know of.
@pytest.mark.parametrize("kind", ["self-managed", "managed", "karpenter", "auto mode"])
def test_cfn_lint_finds_nothing(tried: Matrix, kind: str, tmp_path: Path) -> None:
    # What differs in names and figures alone is judged once: types and sizes are held against the API's own words.
    templates = tried(kind).templates
    for name, text in zip(templates, each_shape_once(templates.values()), strict=True):
        (tmp_path / name).write_text(text)

    # E3010 counts resources, of which a stack here has more than CloudFormation takes. E3628 knows the types that
    # have a price in us-east-1, and so neither p5e nor p6e-gb200; ours are held against botocore.
    assert cfn_lint(tmp_path.iterdir(), ignore=(*CDKS_OWN, "E3010", "E3628")) == []
