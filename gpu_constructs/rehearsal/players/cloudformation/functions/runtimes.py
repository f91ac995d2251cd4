"""What runs a function's code here, by the name of its runtime."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpu_constructs.rehearsal.players.cloudformation.functions import node_packages

_HERE = Path(__file__).parent


@dataclass(frozen=True, kw_only=True, slots=True)
class Runtime:
    """A program that runs handlers.

    Attributes:
        command: How it is started.
        variables: Environment variables that it needs.
    """

    command: tuple[str, ...]
    variables: Mapping[str, str]


def played_on(name: str) -> str:
    """Return what plays a runtime of Lambda: any version of Python this one, any of Node the one on the PATH.

    Raises:
        LookupError: Nothing plays it, or it is not installed.
    """
    if _is_of_python(name):
        return f"Python {platform.python_version()}"
    version = subprocess.run([_node(), "--version"], capture_output=True, text=True, check=True).stdout
    return f"Node {version.strip().removeprefix('v')}"


def runtime(name: str) -> Runtime:
    """Return the program that plays a runtime of Lambda.

    Raises:
        LookupError: Nothing plays it, or it or what it brings is not installed.
    """
    if _is_of_python(name):
        return Runtime(command=(sys.executable, "-u", str(_HERE / "python_runtime.py")), variables={})
    modules = {"NODE_PATH": str(node_packages.modules())}
    return Runtime(command=(_node(), str(_HERE / "node_runtime.cjs")), variables=modules)


def _is_of_python(name: str) -> bool:
    if not name.startswith(("python3.", "nodejs")):
        raise LookupError(f"runtime {name!r} is not played; it must be one of Python's or Node's")
    return name.startswith("python3.")


def _node() -> str:
    program = shutil.which("node")
    if program is None:
        raise LookupError("no node on the PATH: install Node 20 or newer")
    return program
