"""Every pinned version, table and fact of the package, with its source, its date and its max age."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import yaml

import gpu_facts
from gpu_facts import charts, kubernetes, schemas, versions
from gpu_facts.data_age import dated
from gpu_facts.hardware import node_capacity, regions
from gpu_facts.hardware.catalogue import columns
from tools.write_rules import CAUSES

ROOT = Path(__file__).parents[1]
# Max age in days, by kind of row. Node images are released every week, and old ones have vulnerabilities.
ALLOWED = {
    "image of nodes": 60,
    "support of Kubernetes": 60,
    "price": 120,
    "regions": 120,
    "chart or image": 120,
    "Python package": 120,
    "schemas": 120,
    "instance types": 180,
    "software of a chart or add-on": 365,
    "source in a comment": 365,
    "cause": 365,
}
# Go modules of the software in charts and images, for their newest version.
GO_MODULES = {
    charts.KARPENTER: "github.com/aws/karpenter-provider-aws",
    charts.KARPENTER_CRDS: "github.com/aws/karpenter-provider-aws",
    charts.JOBSET: "sigs.k8s.io/jobset",
    charts.KEDA: "github.com/kedacore/keda/v2",
    charts.KUEUE: "sigs.k8s.io/kueue",
    charts.LEADER_WORKER_SET: "sigs.k8s.io/lws",
    charts.DRA_DRIVER: "sigs.k8s.io/dra-driver-nvidia-gpu",
}
# Python packages whose releases are images in examples.
PYTHON_PACKAGES = {versions.VLLM.repository: "pip:vllm"}
_REQUIREMENTS = (
    "requirements.txt",
    "requirements-dev.txt",
    "requirements-dist.txt",
    "requirements-docs.txt",
    "requirements-mutants.txt",
)
_PINNED = re.compile(r"([\w.-]+)==([\w.]+)")
_READ_ON = re.compile(r"# Compared with the index on (\d{4}-\d\d-\d\d)\.")
_DATED_SOURCE = re.compile(r"(Sources?:? .+?) \((?:\w+ )*(20\d\d-\d\d(?:-\d\d)?)\)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A row with a date.

    Attributes:
        kind: One of `ALLOWED`.
        name: Its name.
        version: Its version; empty for a table.
        source: Where the next version appears.
        as_of: Day it was read, ISO 8601; a month counts from its first day.
        registry: ``pip:`` or ``go:`` and its name in the package registry; empty for none.
    """

    kind: str
    name: str
    version: str = ""
    source: str
    as_of: str
    registry: str = ""

    @property
    def day(self) -> date:
        """The day it was read."""
        return date.fromisoformat(self.as_of if len(self.as_of) > len("2026-08") else f"{self.as_of}-01")

    def days_over(self, today: date) -> int:
        """Return by how many days it exceeds its max age; negative if it doesn't."""
        return (today - self.day).days - ALLOWED[self.kind]


def rows() -> list[Row]:
    """Return every row."""
    found = [*_pins(), *_support(), *_software(), *_schemas(), *_tables(), *_packages(), *_comments(), *_causes()]
    return list(dict.fromkeys(found))


def _pins() -> Iterator[Row]:
    nodes = {id(each) for each in dated(versions.AMI_RELEASES)}
    nodes |= {id(each.al2023) for each in versions.KUBERNETES.values()}
    for pin in dated({name: each for name, each in vars(versions).items() if not name.startswith("__")}):
        if isinstance(pin, versions.Pin):
            name = getattr(pin, "name", None) or getattr(pin, "repository", None) or "image of EKS nodes"
            module = GO_MODULES.get(name, "")
            kind = "image of nodes" if id(pin) in nodes else "chart or image"
            registry = f"go:{module}" if module else PYTHON_PACKAGES.get(name, "")
            yield Row(kind=kind, name=name, version=pin.version, source=pin.source, as_of=pin.as_of, registry=registry)


def _support() -> Iterator[Row]:
    for minor, support in kubernetes.SUPPORT.items():
        yield Row(kind="support of Kubernetes", name=minor, source=support.source, as_of=support.as_of)


def _software() -> Iterator[Row]:
    for found in walk_packages(gpu_facts.__path__, f"{gpu_facts.__name__}."):
        module = import_module(found.name)
        own = {name: each for name, each in vars(module).items() if not name.startswith("__")}
        if module is versions:
            continue
        for each in dated(own):
            name = getattr(each, "name", None) or getattr(each, "what", None)
            if name and not isinstance(each, (versions.Pin, kubernetes.Support)):
                yield Row(kind="software of a chart or add-on", name=name, source=each.source, as_of=each.as_of)


def _schemas() -> Iterator[Row]:
    for each in schemas.sources():
        yield Row(kind="schemas", name=each.name, version=each.version, source=each.source, as_of=each.as_of)


def _tables() -> Iterator[Row]:
    for column, said in columns().items():
        kind = "price" if column in ("usd_per_hour", "without_price") else "instance types"
        yield Row(kind=kind, name=column, source=said["source"], as_of=said["as_of"])
    govcloud = regions.prices_read()
    yield Row(kind="price", name="prices.json", source=govcloud["source"], as_of=govcloud["as_of"])
    yield Row(kind="regions", name="regions.json", source="make catalogue", as_of=regions.offerings_date())
    yield Row(
        kind="instance types", name="plain_types.json", source="make catalogue", as_of=node_capacity.plain_types_date()
    )


def _packages() -> Iterator[Row]:
    for file in _REQUIREMENTS:
        text = (ROOT / file).read_text()
        read = _READ_ON.search(text)
        for name, version in _PINNED.findall(text):
            day = read[1] if read else ""
            yield Row(kind="Python package", name=name, version=version, source=file, as_of=day, registry=f"pip:{name}")


def _comments() -> Iterator[Row]:
    for path in sorted(ROOT.glob("gpu_*/**/*.py")):
        for said, day in _DATED_SOURCE.findall(path.read_text()):
            place = path.relative_to(ROOT).as_posix()
            yield Row(kind="source in a comment", name=place, source=said, as_of=day)


def _causes() -> Iterator[Row]:
    for each in yaml.safe_load(CAUSES.read_text())["causes"]:
        yield Row(kind="cause", name=each["id"], source=each["source"], as_of=str(each["date"]))
