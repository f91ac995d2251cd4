"""Names of GPU instance types that EC2 does not sell: retired, misspelt, or newer than the catalogue."""

from __future__ import annotations

import re

from gpu_facts.hardware.catalogue import catalogue, retired
from gpu_facts.light import regex
from gpu_facts.refusals import did_you_mean

# Families g, gr and p have GPUs; those of g4ad are not NVIDIA's. SageMaker's names have a prefix.
_LIKE_A_GPU_TYPE = regex(r"(?:ml\.)?((gr?|p)(\d+)(?!ad\b)[a-z0-9-]*)\.([a-z0-9-]+)", re.IGNORECASE)
_SIZE = regex(r"([2-9]|[1-9]\d+)?xlarge|metal(-\d+xl)?")
# EC2 numbers the generations of a series; between two catalogues it does not get further ahead than this.
_GENERATIONS_AHEAD = 2
_CLOSENESS = 0.85


def why_not_sold(name: str) -> str | None:
    """Return why EC2 sells no type of a name, ``None`` where it does, or where the name says nothing of a GPU."""
    if name in catalogue() or may_be_newer(name):
        return None
    if entry := retired().get(name):
        return f"{name} is retired; use a size of family {entry['successor']}"
    if not _LIKE_A_GPU_TYPE.fullmatch(name):
        return None
    return f"EC2 has no type {name}{did_you_mean(name.lower().removeprefix('ml.'), catalogue(), closeness=_CLOSENESS)}"


def may_be_newer(name: str) -> bool:
    """Whether EC2 may have begun to sell a GPU type after the day of the catalogue."""
    found = _LIKE_A_GPU_TYPE.fullmatch(name)
    if found is None or name in catalogue() or name in retired() or name.startswith("ml."):
        return False
    family, series, generation, size = found.groups()
    families = {each.partition(".")[0] for each in (*catalogue(), *retired())}
    if family in families or not _SIZE.fullmatch(size):
        return False
    known = [int(each[3]) for one in catalogue() if (each := _LIKE_A_GPU_TYPE.fullmatch(one)) and each[2] == series]
    newest = max(known, default=0)
    return newest <= int(generation) <= newest + _GENERATIONS_AHEAD
