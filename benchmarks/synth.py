"""Time synth, warm and without CDK's own validator: against a hand-written app, and as node groups grow.

`python benchmarks/synth.py [--runs 9]`. Runs of what is compared alternate, so that the ratio holds while the
machine's speed drifts; only ratios are worth quoting. Times are of CPU, of Python's process and the CDK's, so that
other work on the machine counts less. Next to each figure is the most that it should be.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
OURS, BY_HAND = "benchmarks/library_app.py", "benchmarks/handwritten_app.py"
CHECKED = "benchmarks/checked_app.py"
# A stack takes 500 resources.
GROWTH = (1, 10, 50, 100)
AIM_BY_HAND, AIM_PREFLIGHT, AIM_MS_PER_GROUP = 1.10, 1.04, 10


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9, help="counted runs of each command")
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory(prefix="gpu-constructs-bench-") as folder:
        compare(Path(folder), runs, OURS, BY_HAND, "library / by hand", AIM_BY_HAND)
        compare(Path(folder), runs, CHECKED, OURS, "with preflight / without", AIM_PREFLIGHT)
        growth(Path(folder), runs)


def compare(folder: Path, runs: int, ours: str, other: str, title: str, aim: float) -> None:
    """Compare whole processes, in turn."""
    commands = [(ours, 1), (other, 1)]
    times = alternate(folder, commands, runs)
    ratios = [left / right for left, right in zip(*times, strict=True)]
    for (app, _), seconds in zip(commands, times, strict=True):
        print(f"{app:32} median {statistics.median(seconds):5.2f} s, {resources(folder, app, 1)} resources")
    print(f"{title}: median {statistics.median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}; aim {aim:.2f}\n")


def growth(folder: Path, runs: int) -> None:
    """Show what a node group costs, over the time of one group."""
    commands = [(OURS, groups) for groups in GROWTH]
    medians = [statistics.median(seconds) for seconds in alternate(folder, commands, runs)]
    print("groups  resources  median s  ms per group beyond the first")
    per_group = {}
    for (app, groups), median in zip(commands, medians, strict=True):
        per_group[groups] = (median - medians[0]) / (groups - 1) * 1000 if groups > 1 else 0.0
        print(f"{groups:6}  {resources(folder, app, groups):9}  {median:8.2f}  {per_group[groups]:8.2f}")
    print(f"per group at 100: {per_group[100]:.1f} ms; aim {AIM_MS_PER_GROUP}")
    print(f"per group at 100 / at 10: {per_group[100] / per_group[10]:.2f}")
    print(f"whole synth per group at 100 / at 10: {medians[3] / 100 / (medians[1] / 10):.2f}")


def alternate(folder: Path, commands: list[tuple[str, int]], runs: int) -> list[list[float]]:
    """Return the seconds of each command's runs: A B A B ..., after one run of each that does not count."""
    times: list[list[float]] = [[] for _ in commands]
    for run in range(runs + 1):
        for number, (app, groups) in enumerate(commands):
            seconds = synthesize(folder, app, groups)
            if run:
                times[number].append(seconds)
    return times


def synthesize(folder: Path, app: str, groups: int) -> float:
    """Run an app as a whole process and return its seconds of CPU, those of the CDK's process included."""
    environment = os.environ | {
        "CDK_VALIDATION": "false",
        "CDK_OUTDIR": str(output(folder, app, groups)),
        "PYTHONPATH": str(ROOT),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    start = spent()
    subprocess.run([sys.executable, app, str(groups)], cwd=ROOT, env=environment, check=True)
    return spent() - start


def spent() -> float:
    """Return the seconds of CPU of all processes that were run and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def resources(folder: Path, app: str, groups: int) -> int:
    """Return how many resources the app's template has."""
    template = output(folder, app, groups) / "GpuClusterStack.template.json"
    return len(json.loads(template.read_text())["Resources"])


def output(folder: Path, app: str, groups: int) -> Path:
    """Return the cloud assembly of a run."""
    return folder / f"{Path(app).stem}-{groups}"


if __name__ == "__main__":
    main()
