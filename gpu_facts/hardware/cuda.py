"""Compatibility of CUDA releases with GPUs and drivers.

Sources: https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/ and https://docs.nvidia.com/deploy/cuda-compatibility/
(2026-11): the first release that compiles for a GPU, and the min driver branch of a major release.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

Release = tuple[int, int]
# The first release that supports the GPUs of a family.
FIRST_FOR_FAMILY: Final[Mapping[str, Release]] = {
    "g4dn": (10, 0),
    "g5g": (10, 0),
    "p4d": (11, 0),
    "p4de": (11, 0),
    "g5": (11, 1),
    "g6": (11, 8),
    "gr6": (11, 8),
    "g6f": (11, 8),
    "gr6f": (11, 8),
    "g6e": (11, 8),
    "p5": (11, 8),
    "p5e": (11, 8),
    "p5en": (11, 8),
    "p6-b200": (12, 8),
    "p6e-gb200": (12, 8),
    "g7e": (12, 8),
    "g7": (12, 8),
    "p6-b300": (12, 9),
}
# The last major release that supports them.
LAST_MAJOR_FOR_FAMILY: Final[Mapping[str, int]] = {"p3dn": 12}
# The lowest driver branch of each major release, with compatibility of minor releases.
DRIVER_OF_MAJOR: Final[Mapping[int, int]] = {10: 410, 11: 450, 12: 525, 13: 580}
# The sources state nothing about later releases.
NEWEST_MAJOR: Final = 13
# Compute capability of each GPU, by EC2's name.
# Source: https://developer.nvidia.com/cuda-gpus (2026-11)
COMPUTE_CAPABILITY: Final[Mapping[str, Release]] = {
    "V100": (7, 0),
    "T4": (7, 5),
    "T4g": (7, 5),
    "A100": (8, 0),
    "A10G": (8, 6),
    "L4": (8, 9),
    "L40S": (8, 9),
    "H100": (9, 0),
    "H200": (9, 0),
}
