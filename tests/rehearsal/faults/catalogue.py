"""All planted faults and pairs by id, and their folders.

    for fault, folder in planted_faults(work):
        report = play(read(folder, region=REGION), props)
    for pair, old, new in planted_pairs(work):
        ...
    for name, synthesize in CORRECT.items():
        folder = synthesize(work / name)

A report finds a fault if one of its lines is reported for the fault and not for `faultless(work)`. The line names the
cause if `fault.is_named_in(line)` is true.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import ModuleType

from tests.rehearsal.faults import (
    controllers,
    identities,
    immutable_fields,
    moved_identities,
    networks,
    node_groups,
    node_pools,
    resource_updates,
    workloads,
)
from tests.rehearsal.faults.apps import CORRECT, STACK, own_app, own_app_with_import, synthesize
from tests.rehearsal.faults.assembly import CloudAssembly
from tests.rehearsal.faults.fault import Fault, Pair

__all__ = ["CORRECT", "FAULTS", "PAIRS", "faultless", "planted_faults", "planted_pairs"]

_FAULTS = (identities, networks, node_groups, node_pools, controllers, workloads)
_PAIRS = (resource_updates, moved_identities, immutable_fields)
# Apps that pairs are versions of.
_APPS = {"mine": own_app, "mine-with-import": own_app_with_import}


def _faults(module: ModuleType) -> list[Fault]:
    return [each for each in vars(module).values() if isinstance(each, Fault)]


def _pairs(module: ModuleType) -> list[Pair]:
    return [each for each in vars(module).values() if isinstance(each, Pair)]


FAULTS: Mapping[str, Fault] = {each.id: each for module in _FAULTS for each in _faults(module)}
PAIRS: Mapping[str, Pair] = {each.id: each for module in _PAIRS for each in _pairs(module)}


def faultless(work: Path, app: str = "mine") -> CloudAssembly:
    """Return an app without a fault, synthesized once below a folder."""
    folder = work / "faultless" / app
    if not folder.exists():
        synthesize(_APPS[app], folder)
    return CloudAssembly(folder, STACK)


def planted_faults(work: Path, ids: Collection[str] = tuple(FAULTS)) -> Iterator[tuple[Fault, Path]]:
    """Yield faults, each with a folder like cdk.out in which it is planted.

    Args:
        work: An empty or missing folder, in which the folders are written.
        ids: Ids of the faults.
    """
    for fault in map(FAULTS.__getitem__, ids):
        app = faultless(work).copy(work / fault.id)
        fault.change(app)
        app.write()
        yield fault, app.folder


def planted_pairs(work: Path, ids: Collection[str] = tuple(PAIRS)) -> Iterator[tuple[Pair, Path, Path]]:
    """Yield pairs, each with the folders of its old and its new version.

    Args:
        work: An empty or missing folder, in which the folders are written.
        ids: Ids of the pairs.
    """
    for pair in map(PAIRS.__getitem__, ids):
        old, new = (faultless(work, pair.app).copy(work / pair.id / each) for each in ("old", "new"))
        pair.change(old, new)
        old.write()
        new.write()
        yield pair, old.folder, new.folder
