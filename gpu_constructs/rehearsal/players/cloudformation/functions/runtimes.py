"""What runs a function's code here, by the name of its runtime."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpu_constructs.rehearsal.players.cloudformation.functions import node_packages

_HERE = Path(__file__).parent


@dataclass(frozen=True, kw_only=True, slots=True)
class Runtime:
    """A program that runs handlers.

    Attributes:
        command: How it is started.
        variables: Environment variables that it needs.
        played_on: What it is, for people.
    """

    command: tuple[str, ...]
    variables: Mapping[str, str]
    played_on: str


def runtime(name: str) -> Runtime:
    """Return what plays a runtime of Lambda: any version of Python by this one, of Node by the one on the PATH.

    Raises:
        LookupError: Nothing plays it, or it is not installed.
    """
    if name.startswith("python3."):
        command = (sys.executable, "-u", str(_HERE / "python_runtime.py"))
        return Runtime(command=command, variables={}, played_on=f"Python {platform.python_version()}")
    if name.startswith("nodejs"):
        return _node()
    raise LookupError(f"runtime {name!r} is not played; it must be one of Python's or Node's")


@cache
def _node() -> Runtime:
    program = shutil.which("node")
    if program is None:
        raise LookupError("no node on the PATH: install Node 20 or newer")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    modules = {"NODE_PATH": str(node_packages.modules())}
    command = (program, str(_HERE / "node_runtime.cjs"))
    return Runtime(command=command, variables=modules, played_on=f"Node {version.removeprefix('v')}")
