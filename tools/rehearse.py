"""Play stacks without AWS and write reports: `make rehearse`, docs/explanation/rehearsal.md.

`python tools/rehearse.py` builds missing tools and plays every stack, or only the plays in its arguments. It writes
reports to `rehearsal/` and prints the duration of each play.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from gpu_preflight.judging.changes import ResourceChange
from gpu_preflight.judging.review import review
from gpu_preflight.reading.inputs import Stack, read_stacks
from gpu_rehearsal.assemblies import Assembly, find_account
from gpu_rehearsal.cloudformation import assets
from gpu_rehearsal.play import play_and_write
from gpu_rehearsal.scenarios.deletion import FAILURE
from gpu_rehearsal.scenarios.deployment import Announced
from gpu_rehearsal.stage import Props, run
from tools import build_e2e_tools, build_rehearsal, charts
from tools.plays import PLAYS, ROOT

FOLDER = ROOT / "rehearsal"
# A folder of definitions of charts that no Go module contains.
DEFINITIONS = "GPU_CONSTRUCTS_CRDS"


def main() -> None:
    """Run the requested plays. Exit with 1 if a promise failed, and with 3 if a required name wasn't tried."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plays", nargs="*", metavar="play", help=f"of {', '.join(PLAYS)}; default: all")
    parser.add_argument("--build", action="store_true", help="build missing tools, and play nothing")
    parser.add_argument("--short", action="store_true", help="skip the Failure scenario and make at most five updates")
    given = parser.parse_args()
    requested = given.plays or list(PLAYS)
    if unknown := sorted(set(requested) - set(PLAYS)):
        parser.error(f"no play {', '.join(unknown)}; there are {', '.join(PLAYS)}")
    build(newer=any(PLAYS[each].newer for each in requested))
    if given.build:
        return
    codes = {name: _exit_code(name, short=given.short) for name in requested}
    bad = {name: code for name, code in codes.items() if code}
    if bad:
        said = ", ".join(f"{name} ({'failed' if code == 1 else 'not tried'})" for name, code in bad.items())
        print(f"rehearsal: {said}, see {FOLDER.name}/", file=sys.stderr)
    # A failed promise takes precedence over one that wasn't tried.
    sys.exit(min(bad.values(), default=0))


def build(*, newer: bool) -> None:
    """Build and install missing tools.

    Args:
        newer: Whether binaries of a newer Kubernetes than the default are needed.
    """
    build_e2e_tools.build_missing(newer=newer)
    if not assets.are_installed():
        build_rehearsal.install()
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
    )


def announced(old: Assembly, new: Assembly) -> Announced:
    """Return the prediction of `gpu-constructs review` for an update: why it fails, and which pods end."""
    first, second = (
        read_stacks([Stack(str(each.file), each.stack, each.account or find_account(each.template), each.region)])
        for each in (old, new)
    )
    found = review(first, second)
    fails = [f"pool {each.name}" for each in found.pools if each.change == "refused"]
    fails += [f"{each.what}: {each.detail}" for each in found.changes if each.change == "fails"]
    pools = [each.name for each in found.pools if each.change not in ("added", "changed")]
    drifts = [each for each in found.changes if each.effect == "nodes replaced"]
    # Values of a release that is updated in place may change its pod template. Fewer replicas end pods.
    ended = [each for each in found.changes if each.effect or each.change not in ("added", "in place", "fails")]
    ended += [each for each in found.changes if each.kind == "HelmChart" or each.detail.startswith("spec.replicas")]
    drifting = {*pools, *map(_name, drifts)}
    return Announced(fails=tuple(fails), ends=frozenset(drifting | {*map(_name, ended)}), drifts=frozenset(drifting))


def _name(change: ResourceChange) -> str:
    """Return the name in ``AWS::EKS::Nodegroup Stack/Id``, ``Deployment default/chat`` or ``NodePool gpu``."""
    return change.what.split("/")[-1].split()[-1]


def _exit_code(name: str, *, short: bool) -> int:
    """Run a play, and return its exit code."""
    requested, began = PLAYS[name], time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        versions = requested.versions(Path(folder), 5 if short else None) if requested.updated else []
        report = play_and_write(
            [versions[0][1]] if versions else requested.assemblies(Path(folder)),
            props(),
            name=name,
            out=FOLDER,
            failures=None if FAILURE in requested.require and not short else 0,
            versions=versions,
            announce=announced if versions else None,
            tolerate=requested.tolerate,
        )
    print(f"rehearsal: {name}: {time.monotonic() - began:.0f} s", flush=True)
    # A short play has no Failure scenario.
    require = tuple(each for each in requested.require if not short or each != FAILURE)
    for each in report.not_tried(require):
        print(f"rehearsal: {name}: not tried: {each}", file=sys.stderr)
    return report.exit_code(require)


if __name__ == "__main__":
    run(main)
