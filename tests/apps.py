"""Apps as their users write them, run in this process, which has loaded the CDK already."""

from __future__ import annotations

import os
import re
import runpy
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest import mock

import aws_cdk as cdk

_NO_COPIES = {"aws:cdk:disable-asset-staging": True}


def programs_of(page: str) -> list[str]:
    """Return the programs in Python of a page."""
    return re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def run_program(program: str, output: Path) -> Path:
    """Run a program that makes an app, and return the folder that its templates are written into."""
    with _app_of_its_own(output, output):
        exec(compile(program, "app.py", "exec"), {"__name__": "__main__"})
    return output


def run_file(file: Path, output: Path) -> Path:
    """Run the program of a file, in its folder, and return the folder that its templates are written into."""
    with _app_of_its_own(file.parent, output):
        runpy.run_path(str(file), run_name="__main__")
    return output


@contextmanager
def _app_of_its_own(folder: Path, output: Path) -> Iterator[None]:
    """Let a program find what it would find in a process of its own, and nothing that another one has left."""
    before, here = set(sys.modules), Path.cwd()
    os.chdir(folder)
    try:
        with (
            mock.patch.object(cdk, "App", partial(cdk.App, outdir=str(output), context=_NO_COPIES)),
            mock.patch.object(sys, "path", [str(folder), *sys.path]),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        os.chdir(here)
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(f"{folder}{os.sep}"):
                del sys.modules[name]
