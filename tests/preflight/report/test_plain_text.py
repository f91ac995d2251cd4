"""Text without rich is the text with it, character by character."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gpu_preflight.report import plain_text, styled_text
from gpu_preflight.report.plain_text import Listing, Part, Text, heading, line, table
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


CELLS = st.text(st.sampled_from("ab-/ \u5bbd"), max_size=60).map(line)
TABLES = st.integers(1, 4).flatmap(
    lambda columns: st.builds(
        table,
        st.just(["Name", "Figures", "Path", "Address"][:columns]),
        st.lists(st.lists(CELLS, min_size=columns, max_size=columns), max_size=4),
    )
)


def words(part: Part) -> set[str]:
    """The words of a part."""
    if isinstance(part, Text):
        return set(part.plain.split())
    return {word for row in part.rows for cell in row for word in cell.plain.split()}


@given(PARTS | st.lists(TABLES, max_size=2), st.sampled_from([40, 80]), st.booleans())
def test_ids_paths_and_addresses_are_never_cut(parts: list[Part], width: int, colour: bool) -> None:
    written = styled_text.write(parts, width, colour=colour)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", written)

    assert {word for part in parts for word in words(part)} <= set(plain.split())
    # A longer line has one word that doesn't fit, after its label.
    longer = [each for each in plain.split("\n") if cell_len(each.rstrip()) > width]
    assert all(len(re.split(r"  +", each.strip())[-1].split()) == 1 for each in longer)


@given(PARTS, st.sampled_from([40, 60, 61, 110]))
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
