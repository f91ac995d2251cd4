"""The tutorials: their commands have the output that the pages show, and steps in an account are marked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.tutorials import BLOCK, PAGES, follow, updated

FEWEST_WORDS, MOST_WORDS = 580, 900
NOT_RUN = "**Not run by us"
SIMULATED = "Excerpt of a rehearsal report: AWS is simulated"


@pytest.mark.site
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_have_the_output_that_is_shown(page: Path, tmp_path: Path) -> None:
    ran = list(follow(page, tmp_path))

    assert ran
    for each in ran:
        assert each.actual == each.output, f"{each.command}: run make tutorials"
        assert each.exit_code in (0, 1), each.command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_steps_that_need_an_account_are_marked_in_their_section(page: Path) -> None:
    for section in re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
        if "\n```sh\n" in section:
            assert NOT_RUN in section, section.partition("\n")[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_output_is_shown_but_of_commands_that_run_and_of_the_rehearsal(page: Path) -> None:
    for language, title, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "text" and title:
            assert title == SIMULATED
            assert all(line.startswith(("held: ", "not played: ")) for line in text.splitlines())
        elif language == "text":
            # Commands that install the library: the gate runs them.
            assert all(line.startswith(("pip install", "gpu-constructs --help")) for line in text.splitlines())
        else:
            assert language in ("console", "diff", "json", "python", "sh", "yaml")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_is_one_sitting(page: Path) -> None:
    prose = BLOCK.sub("", page.read_text(encoding="utf-8"))

    assert FEWEST_WORDS <= len(prose.split()) <= MOST_WORDS


PAGE = """
```yaml title="a.yaml"
kind: Pod
```

```diff title="a.yaml"
-kind: Pod
+kind: Job
```

```console
$ cat a.yaml
kind: Pod
$ echo done
done
```
"""


def test_files_are_written_and_edited_and_the_output_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()

    assert [(each.command, each.actual) for each in follow(page, tmp_path / "one")] == [
        ("cat a.yaml", "kind: Job\n"),
        ("echo done", "done\n"),
    ]
    assert updated(page, tmp_path / "two") == PAGE.replace("$ cat a.yaml\nkind: Pod", "$ cat a.yaml\nkind: Job")


def test_an_edit_of_lines_that_are_not_there_fails(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace("-kind: Pod", "-kind: Service"))

    with pytest.raises(ValueError, match=r"a\.yaml: an edit must name lines that occur once, got 0 times"):
        list(follow(page, tmp_path))
