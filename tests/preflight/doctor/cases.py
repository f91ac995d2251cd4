"""Dumps with known causes, and the causes that must and must not be named for each.

A case is a folder with a dump and ``case.toml``. ``base`` names a healthy cluster, whose objects the case replaces.
``planted`` cases come from a real API server, ``written`` and ``unseen`` ones from texts of upstream sources. The
authors of ``unseen`` cases hadn't read the causes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from gpu_facts.doctor_reads import RESOURCES
from gpu_preflight.doctor.cause import CONFIDENCES, Cause
from gpu_preflight.doctor.diagnosis import Diagnosis, diagnose, find_target
from gpu_preflight.doctor.dump import Dump, newest, read_dump
from gpu_preflight.doctor.live import Live
from gpu_preflight.doctor.unused import unused_gpus

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent
_ID = re.compile(r"\b([A-Z]\d+): ")
KINDS = ("planted", "written", "unseen")


@dataclass(frozen=True)
class DoctorCase:
    """A dump, its question and the right answer."""

    path: Path
    first: tuple[str, ...]
    why: str
    pod: str | None = None
    also: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    confidence: str = "proven"
    base: str | None = None
    remove: tuple[str, ...] = ()
    not_looked: tuple[str, ...] = ()
    made: str = "written"
    simulated_kubelet: bool = False
    sources: tuple[str, ...] = field(default=())

    @property
    def name(self) -> str:
        """Its folder below this one."""
        return str(self.path.relative_to(FOLDER))

    def live(self) -> Live:
        """Return its cluster."""
        dump = read_dump([str(self.path)])
        if self.base is not None:
            base = _base(self.path.parents[1] / "bases" / self.base, self.not_looked)
            dump.objects = newest([*base.objects, *dump.objects])
            dump.complete |= base.complete
            dump.listed |= base.listed
            dump.unknown_kinds |= base.unknown_kinds
            dump.refused += base.refused
            for key, answers in base.aws.items():
                own = {file.rpartition("/")[2] for file, _ in dump.aws.get(key, ())}
                kept = [each for each in answers if each[0].rpartition("/")[2] not in own]
                dump.aws[key] = [*kept, *dump.aws.get(key, ())]
        gone = set(self.remove)
        dump.objects = [each for each in dump.objects if not gone & {each.title, f"{each.kind} {each.name}"}]
        kinds = {RESOURCES[each] for each in self.not_looked}
        dump.complete -= kinds
        dump.listed -= kinds
        return Live(dump)

    @cached_property
    def diagnoses(self) -> tuple[Live, list[Diagnosis]]:
        """Return the answers for its pod, or for each GPU pod that doesn't run."""
        live = self.live()
        targets = live.targets() if self.pod is None else [find_target(live, self.pod, None)]
        return live, [diagnose(live, each, with_fixes=False) for each in targets]

    def faults(self) -> list[str]:
        """Return how the answer differs from the right one."""
        live, diagnoses = self.diagnoses
        found = [each for one in diagnoses for each in (*one.ranking.roots, *one.ranking.effects)]
        # Without a pod, the answer also has a table of nodes, and why each is kept.
        kept = [] if self.pod else [id for each in unused_gpus(live) for id in _ID.findall(each.why)]
        firsts = [*(each.ranking.roots[0].id for each in diagnoses if each.ranking.roots), *kept]
        ids = {*(each.id for each in found), *kept}
        faults = []
        if bool(firsts) != bool(self.first) or (firsts and not {*firsts} & {*self.first}):
            listed = ", ".join(f"{each.id} ({each.confidence})" for each in found) or "none"
            faults.append(f"first must be one of {', '.join(self.first) or 'none'}, got {listed}")
        faults += [f"{each} isn't named" for each in self.also if each not in ids]
        faults += [f"{each} is named" for each in self.never if each in ids and each not in (*self.first, *self.also)]
        faults += self.wrongly_proven(found)
        return faults

    def wrongly_proven(self, found: Sequence[Cause] | None = None) -> list[str]:
        """Return the causes that are called proven and are neither right nor allowed."""
        if found is None:
            _, diagnoses = self.diagnoses
            found = [each for one in diagnoses for each in (*one.ranking.roots, *one.ranking.effects)]
        wrong = []
        for each in found:
            is_right = each.id in (*self.first, *self.also)
            if each.id == found[0].id and is_right and CONFIDENCES.index(each.confidence) < _index(self.confidence):
                wrong.append(f"{each.id} is {each.confidence}, and at most {self.confidence} is right")
            elif each.id in self.never and each.confidence == "proven":
                wrong.append(f"{each.id} is wrongly proven")
        return wrong


def _index(confidence: str) -> int:
    return [*CONFIDENCES, "unknown"].index(confidence)


@cache
def _base(folder: Path, not_looked: tuple[str, ...]) -> Dump:
    """Return a healthy cluster, without some of its lists."""
    return read_dump([str(each) for each in sorted(folder.iterdir()) if each.stem not in not_looked])


@cache
def cases() -> tuple[DoctorCase, ...]:
    """Return every case."""
    files = [each for kind in KINDS for each in sorted((FOLDER / kind).glob("*/case.toml"))]
    return tuple(_case(each) for each in files)


def _case(file: Path) -> DoctorCase:
    values = tomllib.loads(file.read_text())
    lists = {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
    return DoctorCase(path=file.parent, **{**values, **lists})
