"""Fetch real files of public repositories, each at one commit, for the test that checks them.

`make corpus` fetches what `tests/corpus/repositories.yaml` lists into the user's cache, or into the folder that
GPU_CONSTRUCTS_CORPUS names, and checks it. GPU_CONSTRUCTS_CORPUS_FROM is the address of repositories: a URL or a path
with the placeholders `{owner}` and `{name}`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = "GPU_CONSTRUCTS_CORPUS"
FROM = "GPU_CONSTRUCTS_CORPUS_FROM"
GITHUB = "https://github.com/{owner}/{name}.git"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu-constructs" / "corpus"
LISTED = Path(__file__).parents[1] / "tests" / "corpus" / "repositories.yaml"
_SECONDS = 600
# For repositories on this machine, so that git serves any commit and single files.
_SERVE = "git -c uploadpack.allowFilter=true -c uploadpack.allowAnySHA1InWant=true upload-pack"


# For one input.
Paths = tuple[str, ...]


class NotFetched(RuntimeError):
    """A repository that wasn't fetched, with the reason in one line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Repository:
    """A public repository at one commit.

    Attributes:
        name: Owner and name on GitHub.
        commit: The commit, 40 hexadecimal digits.
        files: Patterns of files, each of which is one input.
        folders: Patterns of folders. The files of each folder are one input.
        together: Files and folders that are one input, for example pools and workloads.
        beside: Patterns of files that the others refer to.
    """

    name: str
    commit: str
    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    together: tuple[tuple[str, ...], ...] = ()
    beside: tuple[str, ...] = ()

    def place(self, corpus: Path) -> Path:
        """Return its folder in a corpus. Each commit has its own folder."""
        return corpus / self.name.replace("/", "+") / self.commit[:12]

    def inputs(self, corpus: Path) -> list[Paths]:
        """Return the paths of each input inside the folder."""
        place = self.place(corpus)
        files = {each for pattern in self.files for each in place.glob(pattern) if each.is_file()}
        folders = {each for pattern in self.folders for each in place.glob(pattern) if each.is_dir()}
        alone = {(str(each.relative_to(place)),) for each in files | folders}
        return sorted(alone | {each for each in self.together if all((place / one).exists() for one in each)})

    def patterns(self) -> Iterator[str]:
        """Yield the patterns that git checks out."""
        yield from (f"/{each}" for each in (*self.files, *(one for each in self.together for one in each)))
        yield from (f"/{each}/" for each in (*self.folders, *self.beside))


def main() -> None:
    """Fetch missing repositories, or report the reason of a failure in one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--where", action="store_true", help="fetch nothing; print the folder")
    corpus = Path(os.environ.get(FOLDER) or CACHE)
    if parser.parse_args().where:
        print(corpus)
        return
    failed = 0
    for each in repositories():
        try:
            fetch(each, corpus, os.environ.get(FROM) or GITHUB)
        except NotFetched as error:
            failed += 1
            print(f"corpus: {error}", file=sys.stderr)
    inputs = sum(len(each.inputs(corpus)) for each in repositories())
    print(f"corpus: {inputs} inputs are in {corpus}")
    if failed:
        sys.exit(f"corpus: {failed} of the repositories are missing; {FROM} names another place that has them")


def repositories() -> list[Repository]:
    """Return the listed repositories."""
    lists = ("files", "folders", "together", "beside")
    return [
        Repository(name=each["repository"], commit=each["commit"], **{name: _tuple(each.get(name)) for name in lists})
        for each in yaml.safe_load(LISTED.read_text())
    ]


def _tuple(written: list[Any] | None) -> tuple[Any, ...]:
    return tuple(tuple(each) if isinstance(each, list) else each for each in written or ())


def fetch(repository: Repository, corpus: Path, source: str) -> None:
    """Fetch the listed files of a repository, unless they are there.

    Raises:
        NotFetched: git does not reach it, or it has no such commit.
    """
    place = repository.place(corpus)
    listed = "\n".join(repository.patterns()) + "\n"
    done = place / ".git" / "corpus"
    if done.is_file() and done.read_text() == listed:
        return
    owner, _, name = repository.name.partition("/")
    address = source.format(owner=owner, name=name)
    print(f"Fetching {repository.name} ...", file=sys.stderr)
    place.mkdir(parents=True, exist_ok=True)
    _git(repository, place, "init", "--quiet")
    for key, value in _remote(address).items():
        _git(repository, place, "config", f"remote.origin.{key}", value)
    _git(repository, place, "fetch", "--quiet", "--depth=1", "--filter=blob:none", "origin", repository.commit)
    _git(repository, place, "config", "core.sparseCheckout", "true")
    (place / ".git" / "info" / "sparse-checkout").write_text(listed)
    _git(repository, place, "checkout", "--quiet", "--detach", repository.commit)
    done.write_text(listed)


def _remote(address: str) -> dict[str, str]:
    """Return the settings of a remote that sends files only when they are checked out."""
    settings = {"url": address, "promisor": "true", "partialclonefilter": "blob:none"}
    return settings | ({"uploadpack": _SERVE} if Path(address).is_dir() else {})


def _git(repository: Repository, place: Path, *arguments: str) -> None:
    environment = os.environ | {"GIT_TERMINAL_PROMPT": "0"}
    try:
        command = ["git", "-C", str(place), *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotFetched(f"{repository.name} not fetched: {error}") from None
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise NotFetched(f"{repository.name} not fetched: {said[-1][:200] if said else arguments[0]}")


if __name__ == "__main__":
    main()
