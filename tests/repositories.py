"""Repositories that a test creates or clones."""

from __future__ import annotations

import subprocess
from pathlib import Path


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder, with an author for commits, and return its output."""
    author = ("-c", "user.name=test", "-c", "user.email=test@example.com")
    done = subprocess.run(["git", *author, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit_everything(folder: Path) -> None:
    """Commit all files of a folder, which becomes a repository unless it is one."""
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=test")
