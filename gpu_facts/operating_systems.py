"""The two node operating systems with NVIDIA images."""

from __future__ import annotations

from typing import Literal, get_args

from gpu_facts.refusals import refuse_unless_one_of

OperatingSystem = Literal["al2023", "bottlerocket"]


def refuse_unless_operating_system(who: object, operating_system: object) -> None:
    """Refuse an operating system that has no NVIDIA image for current Kubernetes versions.

    Raises:
        ValueError: It is none of `OperatingSystem`.
    """
    if isinstance(operating_system, str) and operating_system.lower() in ("al2", "amazon-linux-2"):
        raise ValueError(
            f"{who}: operating_system must be one of {', '.join(get_args(OperatingSystem))}, got "
            f"{operating_system!r}; AWS published the last Amazon Linux 2 image on 2025-11-26, use 'al2023'"
        )
    refuse_unless_one_of(who, "operating_system", operating_system, get_args(OperatingSystem))
