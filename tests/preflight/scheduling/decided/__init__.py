"""Pods of which the real scheduler decided, one a file: answered wrongly once, or beside one that was.

A file has the objects of the cluster, the pod, the room on nodes where preflight leaves it open (see
`tests.e2e.questions`), and the pod's result: on a node alone, and anywhere. `make e2e` asks the scheduler again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.preflight.scheduling.told import Fate
from tests.preflight.strategies.vocabulary import Json

_FOLDER = Path(__file__).parent
CASES = sorted(each.stem for each in _FOLDER.glob("*.yaml"))


@dataclass(frozen=True, slots=True)
class Decided:
    """A pod, its cluster, and the scheduler's decision.

    Attributes:
        world: The cluster.
        pod: The pod.
        room: The share of the open part of a node's resources that is free, in percent.
        decided: The scheduler's decision about the pod, by place.
    """

    world: Json
    pod: Json
    room: int
    decided: Mapping[str, Fate]

    @classmethod
    def read(cls, name: str) -> Decided:
        """Return the case of a file."""
        raw = yaml.safe_load((_FOLDER / f"{name}.yaml").read_text())
        world = {"resources": raw["resources"], "objects": raw["objects"]}
        return cls(world, raw["pod"], raw["room"], raw["decided"])

    @staticmethod
    def first_line(name: str) -> str:
        """Return the line that states the subject of a case."""
        return (_FOLDER / f"{name}.yaml").read_text().partition("\n")[0]
