"""The folder that stands for ``/opt``, and how programs in it are found."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

# Where Lambda keeps the Python of its runtime; scripts of layers name it in their first line.
_LAMBDAS_PYTHON = re.compile(rb"#!/var/lang/bin/python[0-9.]*\s")
# Folder of what starts those scripts here.
STARTERS = ".starters"


def merge(layers: Iterable[Path], opt: Path) -> Path:
    """Link the files of layers into one folder, as Lambda extracts them one over the other into ``/opt``.

    Source: https://docs.aws.amazon.com/lambda/latest/dg/chapter-layers.html (2026-11)

    Raises:
        ValueError: Two layers have an entry of the same name, which is not played.
    """
    opt.mkdir(parents=True)
    for layer in layers:
        for entry in sorted(layer.iterdir()):
            if (opt / entry.name).exists():
                raise ValueError(f"layers of {opt}: entries must have names of their own, got {entry.name!r} twice")
            (opt / entry.name).symlink_to(entry.resolve())
    _start_scripts(opt)
    return opt


def search_path(opt: Path) -> str:
    """Return a PATH with the programs of layers, and with none of this machine, which may have a kubectl of its own.

    Handlers put ``/opt/kubectl`` and the like before the PATH that they find. There is no such folder here, so that
    what follows is taken: every folder of the stand-in, whether the handler names it or not.
    """
    return os.pathsep.join(str(each) for each in [opt / STARTERS, *sorted(opt.glob("[!.]*"))] if each.is_dir())


def _start_scripts(opt: Path) -> None:
    """Write a starter for each program that names Lambda's Python, on which it runs here."""
    starters = opt / STARTERS
    starters.mkdir()
    for program in sorted(opt.glob("*/*")):
        if program.is_file() and os.access(program, os.X_OK) and _first_line_names_python(program):
            starter = starters / program.name
            starter.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{program}" "$@"\n')
            starter.chmod(0o755)


def _first_line_names_python(program: Path) -> bool:
    with program.open("rb") as opened:
        return bool(_LAMBDAS_PYTHON.match(opened.read(64)))
