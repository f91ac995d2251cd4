"""Text without rich is the text with it, character by character."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gpu_preflight.report import plain_text, styled_text
from gpu_preflight.report.plain_text import Listing, Part, heading, line, table
from tests.conftest import ROOT

WORDS = st.text(st.sampled_from("ab c-./"), max_size=130) | st.text(st.sampled_from("x "), max_size=400)
PARTS = st.lists(
    WORDS.map(line)
    | WORDS.map(heading)
    | st.lists(st.tuples(st.sampled_from(["at", "GPU001"]).map(line), WORDS.map(line)), min_size=1, max_size=4).map(
        Listing
    ),
    max_size=5,
)


def stripped(text: str | None) -> list[str]:
    """Blanks at the end of a line are cut from every report."""
    assert text is not None
    return [each.rstrip() for each in text.split("\n")]


@given(PARTS, st.sampled_from([60, 61, 110]))
def test_both_write_the_same(parts: list[Part], width: int) -> None:
    assert stripped(plain_text.write(parts, width)) == stripped(styled_text.write(parts, width, colour=False))


def test_tables_and_wide_characters_are_left_to_rich() -> None:
    assert plain_text.write([table(("A",), [("b",)])], 110) is None
    assert plain_text.write([line("宽")], 110) is None


def test_a_check_loads_no_rich(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: []}}")
    code = (
        "import sys; from gpu_preflight.command_line import cli, console; "
        f"sys.argv = ['x', 'check', {str(tmp_path / 'pod.yaml')!r}]; console.run(cli.cli); "
        "print(sorted({'rich', 'gpu_preflight.reading.gitops.delivered', "
        "'gpu_preflight.reading.rendering.programs'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"
