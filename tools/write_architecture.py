"""Write picture and lists of docs/contributing/architecture.md, from the folders and import-linter's layers."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tools import architecture_picture
from tools.architecture_picture import Part

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "contributing" / "architecture.md"
PICTURE = ROOT / "docs" / "contributing" / "architecture.svg"
FACTS, ROOMS = "gpu_facts", "gpu_preflight"
STAGE = "gpu_rehearsal"
# What the panels of the picture frame, for each contract of layers.
SIDES = {"Constructs": "gpu_constructs", "Preflight": ROOMS}
# Names that each part defines, and by which a reader knows it again.
NOUNS = {
    "gpu_facts": "InstanceType Chart",
    "gpu_constructs.pools": "NodeShape Spot Mig",
    "gpu_constructs.installing": "ClusterRef",
    "gpu_constructs.identity": "WorkloadIdentity",
    "gpu_constructs.storage": "S3Volume S3Mount",
    "gpu_constructs.exposure": "Internal Public",
    "gpu_constructs.nodes": "ManagedNodeGroup",
    "gpu_constructs.devices": "DevicePlugin",
    "gpu_constructs.workloads": "GpuPod GpuJob",
    "gpu_constructs.autoscaling": "KarpenterNodePool",
    "gpu_constructs.metrics": "DcgmExporter",
    "gpu_constructs.queueing": "GpuQueues Kueue",
    "gpu_constructs.pod_scaling": "GpuMemory Keda",
    "gpu_constructs.teams": "Team TeamQuota",
    "gpu_constructs.cluster": "GpuCluster gpu_vpc",
    "stacks": "GpuClusterStack",
    "gpu_preflight.reading": "Input Resource",
    "gpu_preflight.schema": "Judge Fault",
    "gpu_preflight.model": "Cluster Pool Pod",
    "gpu_preflight.cluster": "clusters node_pool",
    "gpu_preflight.admission": "Admission Admitted",
    "gpu_preflight.node": "NodeToBe Belief",
    "gpu_preflight.scheduling": "Scheduler Verdict",
    "gpu_preflight.case": "Case",
    "gpu_preflight.rule": "Rule Finding",
    "gpu_preflight.rules": "rules",
    "gpu_preflight.judging": "Report Review",
    "gpu_preflight.remedies": "Remedy Change",
    "gpu_preflight.doctor": "Live Cause",
    "gpu_preflight.report": "check_view render",
    "gpu_preflight.command_line": "check explain review",
    "gpu_constructs.synth_check": "check_gpus",
}

Layers = list[tuple[str, ...]]


def main() -> None:
    """Write the picture and the lists of the page."""
    PICTURE.write_text(picture())
    DOCUMENT.write_text(document(DOCUMENT.read_text()))


def picture() -> str:
    """Return the picture as SVG."""
    left, right = ([[_part(each, side) for each in layer] for layer in layers(side)] for side in SIDES)
    return architecture_picture.picture(left, right, _part(FACTS, "Constructs"))


def _part(module: str, side: str) -> Part:
    return Part(place(module).name, tuple(NOUNS.get(module, "").split()), framed=module.startswith(SIDES[side]))


def document(text: str) -> str:
    """Return the page with new lists. The rest stays the same."""
    parts = {
        "constructs": _rows([(FACTS,), *layers("Constructs")]),
        "preflight": _rows(layers("Preflight")),
        "rehearsal": _rows([_folders(STAGE)]),
        "contracts": [f"* {each['name']}." for each in contracts()],
    }
    for name, lines in parts.items():
        head, rest = text.split(f"<!-- {name} -->\n")
        text = "\n".join([f"{head}<!-- {name} -->", *lines, f"<!-- end -->{rest.partition('<!-- end -->')[2]}"])
    return text


def _folders(package: str) -> tuple[str, ...]:
    return tuple(f"{package}.{each.parent.name}" for each in sorted(place(package).glob("*/__init__.py"), reverse=True))


def _rows(layers: Iterable[tuple[str, ...]]) -> list[str]:
    rows = [f"| `{_row_name(each)}` | {_description(place(each))} |" for layer in layers for each in layer]
    return ["| folder | content |", "|---|---|", *rows]


def _row_name(module: str) -> str:
    """Return the name of a folder or module in its package, e.g. ``cloudformation``."""
    return "/".join([*module.split(".")[1:-1], place(module).name])


def _description(part: Path) -> str:
    """Return the first paragraph of the docstring of a folder or module, and the folders in it."""
    source = part / "__init__.py" if part.is_dir() else part
    docstring = ast.get_docstring(ast.parse(source.read_text())) or ""
    first = " ".join(docstring.partition("\n\n")[0].replace("``", "`").split())
    folders = sorted(each.parent.name for each in part.glob("*/__init__.py"))
    return first + (f" Folders: {', '.join(f'`{each}`' for each in folders)}." if folders else "")


def layers(side: str) -> Layers:
    """Return the layers of a side in the order of reading: each imports from those before it."""
    [contract] = [each for each in contracts() if each["name"].startswith(f"{side}: ")]
    return [tuple(layer.split(" | ")) for layer in reversed(contract["layers"])]


def contracts() -> list[dict[str, Any]]:
    """Return the contracts that import-linter keeps."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return list(settings["tool"]["importlinter"]["contracts"])


def place(module: str) -> Path:
    """Return the folder or the file of a module."""
    folder = ROOT / module.replace(".", "/")
    return folder if folder.is_dir() else folder.with_suffix(".py")


if __name__ == "__main__":
    main()
