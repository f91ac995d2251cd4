"""MIG partitions of GPUs.

The name of a profile consists of its compute slices and its memory.
Sources: NVIDIA MIG user guide, https://docs.nvidia.com/datacenter/tesla/mig-user-guide/, and NVIDIA/gpu-operator
v26.7.0 assets/state-mig-manager/0400_configmap.yaml, both read 2026-08.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_AMPERE_80 = {
    "1g.10gb": 7,
    "1g.10gb+me": 1,
    "1g.20gb": 4,
    "2g.20gb": 3,
    "3g.40gb": 2,
    "4g.40gb": 1,
    "7g.80gb": 1,
}
_HOPPER_141 = {
    "1g.18gb": 7,
    "1g.18gb+me": 1,
    "1g.35gb": 4,
    "2g.35gb": 3,
    "3g.71gb": 2,
    "4g.71gb": 1,
    "7g.141gb": 1,
}

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


def compute_slices(profile: str) -> int:
    """Return the number of compute slices of a profile, e.g. 3 for ``3g.40gb``."""
    return int(profile.partition("g.")[0])
