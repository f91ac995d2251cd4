"""The size of instance types without GPUs, of which the catalogue has no rows.

EC2 names sizes alike in these families: ``large`` has 2 vCPUs and ``4xlarge`` has 16. Each vCPU has 2, 4 or 8 GiB of
memory in a family of letter c, m or r. A test compares every type with EC2's own list.

Source: https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html (2026-11)
"""

from __future__ import annotations

from gpu_constructs.light_patterns import regex

_NAME = regex(r"([cmr])[5-9][a-z]*(?:-flex)?\.(medium|large|\d*xlarge)")
_GIB_PER_VCPU = {"c": 2, "m": 4, "r": 8}
# Of c5n, each vCPU has 2.625 GiB.
_ODD = ("c5n.",)
_BURSTABLE = regex(r"(?:t3|t3a|t4g)\.(nano|micro|small|medium|large|xlarge|2xlarge)")
_BURSTABLE_SIZES = {
    "nano": (2, 512),
    "micro": (2, 1024),
    "small": (2, 2048),
    "medium": (2, 4096),
    "large": (2, 8192),
    "xlarge": (4, 16384),
    "2xlarge": (8, 32768),
}


def cpu_type_size(name: str) -> tuple[int, int] | None:
    """Return vCPUs and MiB of memory of a type without GPUs; ``None`` for a family that isn't known here."""
    if found := _BURSTABLE.fullmatch(name):
        return _BURSTABLE_SIZES[found[1]]
    found = _NAME.fullmatch(name)
    if found is None or name.startswith(_ODD):
        return None
    size = found[2]
    vcpus = {"medium": 1, "large": 2}.get(size) or 4 * int(size.removesuffix("xlarge") or 1)
    return vcpus, vcpus * _GIB_PER_VCPU[found[1]] * 1024
