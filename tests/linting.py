"""cfn-lint over synthesized templates."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

# W3005: DependsOn beside a Ref to the same resource, which CDK emits.
CDKS_OWN = ("W3005",)


def cfn_lint(templates: Iterable[Path], *, ignore: tuple[str, ...] = CDKS_OWN) -> list[str]:
    """Return rule and message of everything cfn-lint finds."""
    command = [str(Path(sys.executable).parent / "cfn-lint"), "--format", "json", "--regions", "us-east-1"]
    done = subprocess.run(
        [*command, "--ignore-checks", *ignore, "--", *map(str, templates)], capture_output=True, text=True, check=False
    )
    # It leaves with bits for errors, warnings and informational findings, and with 1 when it could not run.
    assert done.returncode != 1, done.stderr
    assert (done.returncode == 0) == (not json.loads(done.stdout or "[]")), done.stderr
    return [f"{each['Rule']['Id']} {each['Message']}" for each in json.loads(done.stdout or "[]")]
