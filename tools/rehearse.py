"""Play stacks without AWS and write what happened: `make rehearse`, docs/rehearsal.md.

`python tools/rehearse.py` builds what is missing and plays every stack; names of plays as arguments play these. Reports
go to `rehearsal/`, and how long each play took is printed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_constructs.rehearsal.assemblies import Assembly, synthesize
from gpu_constructs.rehearsal.play import play
from gpu_constructs.rehearsal.players.cloudformation.functions import node_packages
from gpu_constructs.rehearsal.report import Outcome, Report
from gpu_constructs.rehearsal.stage import Props
from tools import build_e2e_tools, charts

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "rehearsal"
# A folder of definitions of charts that no Go module carries.
DEFINITIONS = "GPU_CONSTRUCTS_CRDS"
REGION = "us-east-1"
# What CDK would look up with credentials, of the accounts that examples name.
ZONES = {
    f"availability-zones:account={account}:region={region}": [f"{region}{letter}" for letter in "abc"]
    for account in ("111122223333", "444455556666")
    for region in ("us-east-1", "eu-west-1")
}


@dataclass(frozen=True, kw_only=True)
class Play:
    """Stacks that are played together.

    Attributes:
        app: The Python file that makes them, from the root of the repository.
        stacks: Names of those that are played; empty for all.
        context: Context of the CDK.
        holds: Promises that must be played, and hold.
    """

    app: str
    stacks: tuple[str, ...] = ()
    context: dict[str, Any] = field(default_factory=dict)
    holds: frozenset[str] = frozenset()


# The first is the short form, which the gate plays too.
PLAYS = {
    "default-karpenter": Play(
        app="app.py",
        context={"autoscaler": "karpenter"},
        holds=frozenset({"every pod that the stack brings runs", "pool gpu: one node for one pod"}),
    ),
    "default": Play(app="app.py"),
    "quickstart": Play(app="examples/quickstart/app.py"),
    "shared-notebooks": Play(app="examples/shared_notebooks/app.py"),
    "llm-service": Play(app="examples/llm_service/app.py"),
    "dra-pool": Play(app="examples/dra_pool/app.py"),
    "training": Play(app="examples/reference_stacks/app.py", stacks=("Training",)),
    "inference": Play(app="examples/reference_stacks/app.py", stacks=("Inference",)),
    "auto-mode": Play(app="examples/reference_stacks/app.py", stacks=("AutoMode",)),
    "multi-node-training": Play(app="examples/multi_node_training/app.py"),
    "mig-on-p5": Play(app="examples/mig_on_p5/app.py"),
}


def main() -> None:
    """Play what is asked for; end with 1 where a promise did not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plays", nargs="*", metavar="play", help=f"of {', '.join(PLAYS)}; default: all")
    parser.add_argument("--build", action="store_true", help="build what is missing, and play nothing")
    given = parser.parse_args()
    build()
    if given.build:
        return
    asked = given.plays or list(PLAYS)
    if unknown := sorted(set(asked) - set(PLAYS)):
        parser.error(f"no play {', '.join(unknown)}; there are {', '.join(PLAYS)}")
    failed = [name for name in asked if not _holds(PLAYS[name], _played(name))]
    if failed:
        sys.exit(f"rehearsal: promises failed in {', '.join(failed)}, see {FOLDER.name}/")


def build() -> None:
    """Build and install what is missing."""
    build_e2e_tools.build_missing()
    if not node_packages.are_installed():
        node_packages.install()
    if charts.folder_of_charts() is None:
        charts.fetch(charts.PLACE)


def props() -> Props:
    """Return the programs and files of a play."""
    folder = build_e2e_tools.folder_of_tools()
    assert folder is not None, build_e2e_tools.MISSING
    named = os.environ.get(DEFINITIONS)
    return Props(
        control_plane=folder,
        karpenter=build_e2e_tools.karpenter(),
        charts=charts.folder_of_charts(),
        definitions=Path(named) if named else None,
        helm=charts.helm(),
    )


def assemblies(asked: Play, folder: Path) -> list[Assembly]:
    """Synthesize the stacks of a play into a folder."""
    made = synthesize(ROOT / asked.app, folder, root=ROOT, region=REGION, context={**ZONES, **asked.context})
    return [each for each in made if not asked.stacks or each.stack in asked.stacks]


def _holds(asked: Play, report: Report) -> bool:
    """Whether nothing failed, and nothing that must be played was left out."""
    held = {each.promise for each in report.lines if each.outcome is Outcome.HELD}
    return not report.failed and asked.holds <= held


def _played(name: str) -> Report:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = play(assemblies(PLAYS[name], Path(folder)), props())
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.md").write_text(report.text())
    (FOLDER / f"{name}.times.md").write_text(report.times())
    counts = report.text().splitlines()[2]
    print(f"rehearsal: {name}: {counts}; {time.monotonic() - began:.0f} s", flush=True)
    return report


if __name__ == "__main__":
    main()
