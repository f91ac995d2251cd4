"""A function of Lambda, as its configuration says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Function:
    """What runs when a function is invoked.

    Attributes:
        name: Name of the function.
        arn: Its ARN.
        role: ARN of the role as which it runs.
        runtime: E.g. ``python3.13``.
        handler: Module and function, e.g. ``index.handler``.
        code: Folder of its code.
        opt: Folder that stands for ``/opt``, with the files of its layers.
        variables: Environment variables of its own.
        timeout: Seconds after which it is killed.
        memory_mb: What it may use; told to it, not enforced.
        log_group: Name of the log group it writes to.
    """

    name: str
    arn: str
    role: str
    runtime: str
    handler: str
    code: Path
    opt: Path
    variables: Mapping[str, str]
    timeout: int
    memory_mb: int
    log_group: str
