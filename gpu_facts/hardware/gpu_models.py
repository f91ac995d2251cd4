"""Facts by model of a GPU: its MIG partitions, and its compatibility with CUDA releases and drivers.

The name of a MIG profile consists of its compute slices and its memory.
Sources: NVIDIA MIG user guide, https://docs.nvidia.com/datacenter/tesla/mig-user-guide/, and NVIDIA/gpu-operator
v26.7.0 assets/state-mig-manager/0400_configmap.yaml, both read 2026-08.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_AMPERE_80 = {"1g.10gb": 7, "1g.10gb+me": 1, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "4g.40gb": 1, "7g.80gb": 1}
_HOPPER_141 = {"1g.18gb": 7, "1g.18gb+me": 1, "1g.35gb": 4, "2g.35gb": 3, "3g.71gb": 2, "4g.71gb": 1, "7g.141gb": 1}

# Max instances of each profile on one GPU, by EC2 family. Families without an entry accept any name, because no source
# states their profiles.
PROFILES: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "p4d": {
            "1g.5gb": 7,
            "1g.5gb+me": 1,
            "1g.10gb": 4,
            "2g.10gb": 3,
            "3g.20gb": 2,
            "4g.20gb": 1,
            "7g.40gb": 1,
        },
        "p4de": _AMPERE_80,
        "p5": _AMPERE_80,
        "p5e": _HOPPER_141,
        "p5en": _HOPPER_141,
        "p6-b200": {
            "1g.23gb": 7,
            "1g.23gb+me": 1,
            "1g.45gb": 4,
            "2g.45gb": 3,
            "3g.90gb": 2,
            "4g.90gb": 1,
            "7g.180gb": 1,
        },
        "p6-b300": {
            "1g.34gb": 7,
            "1g.34gb+me": 1,
            "1g.67gb": 4,
            "2g.67gb": 3,
            "3g.135gb": 2,
            "4g.135gb": 1,
            "7g.269gb": 1,
        },
        "g7e": {"1g.24gb": 4, "2g.48gb": 2, "4g.96gb": 1},
    }
)
# Compute slices of one GPU.
SLICES: Mapping[str, int] = MappingProxyType({"g7e": 4})
USUAL_SLICES = 7

# Bottlerocket's names of GPUs in its settings, by family. No source states the names for other families.
# Source: https://bottlerocket.dev/en/os/1.64.x/api/settings/kubelet-device-plugins/
BOTTLEROCKET_NAMES: Mapping[str, str] = MappingProxyType(
    {"p4d": "a100.40gb", "p4de": "a100.80gb", "p5": "h100.80gb", "p5e": "h200.141gb", "p5en": "h200.141gb"}
)

# CUDA: the first release that compiles for a GPU, and the min driver branch of a major release.
# Sources: https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/ and
# https://docs.nvidia.com/deploy/cuda-compatibility/ (2026-11)
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


def compute_slices(profile: str) -> int:
    """Return the number of compute slices of a profile, e.g. 3 for ``3g.40gb``."""
    return int(profile.partition("g.")[0])
