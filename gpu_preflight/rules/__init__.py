"""All rules by id. A rule is a function with the decorator `rule`, in the module of its subject."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from types import MappingProxyType, ModuleType

from gpu_preflight.rule import Rule


@cache
def rules() -> Mapping[str, Rule]:
    """Return every rule by id.

    Raises:
        ValueError: Two have one id.
    """
    found: dict[str, Rule] = {}
    for each in sorted(_defined(), key=lambda each: each.id):
        if each.id in found:
            raise ValueError(f"rule {each.title}: id must be its own, got {each.id!r} of {found[each.id].place}")
        found[each.id] = each
    return MappingProxyType(found)


def _defined() -> Iterator[Rule]:
    for module in _modules():
        yield from (each for each in vars(module).values() if isinstance(each, Rule))


def _modules() -> Iterator[ModuleType]:
    for each in walk_packages(__path__, f"{__name__}."):
        if not each.ispkg:
            yield import_module(each.name)
