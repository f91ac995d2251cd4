"""Real files of other people come at one commit, and nothing else of their repositories."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.repositories import commit_everything, git
from tools.corpus import NotFetched, Repository, fetch

FILES = {
    "eks/pool.yaml": "kind: NodePool\n",
    "eks/both/a.yaml": "kind: Pod\n",
    "base/b.yaml": "kind: Pod\n",
    "README.md": "words\n",
}


@pytest.fixture
def theirs(tmp_path: Path) -> tuple[str, str]:
    """A third-party repository: the pattern of its path, and its commit."""
    place = tmp_path / "mirror" / "some+thing"
    for name, text in FILES.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    commit_everything(place)
    return str(tmp_path / "mirror" / "{owner}+{name}"), git(place, "rev-parse", "HEAD")


def test_what_is_listed_comes_and_is_an_input(theirs: tuple[str, str], tmp_path: Path) -> None:
    source, commit = theirs
    listed = Repository(
        name="some/thing", commit=commit, files=("eks/*.yaml",), folders=("eks/both",), beside=("base",)
    )

    fetch(listed, tmp_path / "corpus", source)

    place = listed.place(tmp_path / "corpus")
    assert listed.inputs(tmp_path / "corpus") == [("eks/both",), ("eks/pool.yaml",)]
    assert (place / "base" / "b.yaml").read_text() == FILES["base/b.yaml"]
    assert not (place / "README.md").exists()


def test_what_is_there_is_not_fetched_again(theirs: tuple[str, str], tmp_path: Path) -> None:
    source, commit = theirs
    listed = Repository(name="some/thing", commit=commit, files=("eks/*.yaml",))

    fetch(listed, tmp_path / "corpus", source)
    fetch(listed, tmp_path / "corpus", "/nowhere/{owner}/{name}")

    assert listed.inputs(tmp_path / "corpus") == [("eks/pool.yaml",)]


def test_a_list_that_grew_is_fetched(theirs: tuple[str, str], tmp_path: Path) -> None:
    source, commit = theirs
    fetch(Repository(name="some/thing", commit=commit, files=("eks/*.yaml",)), tmp_path / "corpus", source)
    grown = Repository(name="some/thing", commit=commit, files=("eks/*.yaml", "base/*.yaml"))

    fetch(grown, tmp_path / "corpus", source)

    assert grown.inputs(tmp_path / "corpus") == [("base/b.yaml",), ("eks/pool.yaml",)]


@pytest.mark.parametrize("commit", ["f" * 40, None], ids=["no such commit", "no such place"])
def test_a_failure_is_one_line(theirs: tuple[str, str], tmp_path: Path, commit: str | None) -> None:
    source = theirs[0] if commit else str(tmp_path / "{owner}")
    listed = Repository(name="some/thing", commit=commit or theirs[1], files=("*.yaml",))

    with pytest.raises(NotFetched, match=r"^some/thing not fetched: [^\n]+$"):
        fetch(listed, tmp_path / "corpus", source)


def test_what_is_applied_together_is_one_input(theirs: tuple[str, str], tmp_path: Path) -> None:
    source, commit = theirs
    listed = Repository(name="some/thing", commit=commit, together=(("eks/pool.yaml", "eks/both"),))

    fetch(listed, tmp_path / "corpus", source)

    assert listed.inputs(tmp_path / "corpus") == [("eks/pool.yaml", "eks/both")]
