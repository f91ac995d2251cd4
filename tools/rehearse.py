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
from pathlib import Path

from gpu_constructs.rehearsal.play import play
from gpu_constructs.rehearsal.players.cloudformation.functions import node_packages
from gpu_constructs.rehearsal.report import Outcome, Report
from gpu_constructs.rehearsal.stage import Props
from tools import build_e2e_tools, charts
from tools.plays import PLAYS, ROOT, Play

FOLDER = ROOT / "rehearsal"
# A folder of definitions of charts that no Go module carries.
DEFINITIONS = "GPU_CONSTRUCTS_CRDS"


def main() -> None:
    """Play what is asked for; end with 1 where a promise did not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plays", nargs="*", metavar="play", help=f"of {', '.join(PLAYS)}; default: all")
    parser.add_argument("--build", action="store_true", help="build what is missing, and play nothing")
    parser.add_argument("--long", action="store_true", help="play hardship too, which takes minutes for each pool")
    given = parser.parse_args()
    asked = given.plays or list(PLAYS)
    if unknown := sorted(set(asked) - set(PLAYS)):
        parser.error(f"no play {', '.join(unknown)}; there are {', '.join(PLAYS)}")
    build(newer=any(PLAYS[each].newer for each in asked))
    if given.build:
        return
    failed = [name for name in asked if not _holds(PLAYS[name], _played(name, long=given.long))]
    if failed:
        sys.exit(f"rehearsal: promises failed in {', '.join(failed)}, see {FOLDER.name}/")


def build(*, newer: bool) -> None:
    """Build and install what is missing.

    Args:
        newer: Whether programs of a newer Kubernetes than the default are needed.
    """
    build_e2e_tools.build_missing(newer=newer)
    if not node_packages.are_installed():
        node_packages.install()
    if charts.folder_of_charts() is None:
        charts.fetch(charts.PLACE)


def props() -> Props:
    """Return the programs and files of a play."""
    named = os.environ.get(DEFINITIONS)
    return Props(
        control_planes=build_e2e_tools.control_planes(),
        karpenter=build_e2e_tools.karpenter(),
        charts=charts.folder_of_charts(),
        definitions=Path(named) if named else None,
        helm=charts.helm(),
    )


def _holds(asked: Play, report: Report) -> bool:
    """Whether nothing failed, and nothing that must be played was left out."""
    held = {each.promise for each in report.lines if each.outcome is Outcome.HELD}
    return not report.failed and asked.holds <= held


def _played(name: str, *, long: bool) -> Report:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = play(PLAYS[name].assemblies(Path(folder)), props(), long=long)
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.md").write_text(report.text())
    (FOLDER / f"{name}.times.md").write_text(report.times())
    counts = report.text().splitlines()[2]
    print(f"rehearsal: {name}: {counts}; {time.monotonic() - began:.0f} s", flush=True)
    return report


if __name__ == "__main__":
    main()
