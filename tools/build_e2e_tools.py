"""Build the control plane that `make e2e` runs, from the versions in tests/e2e/go.mod.

`python tools/build_e2e_tools.py` builds what is missing; `--check` only says whether anything is.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MODULE = ROOT / "tests" / "e2e"
# Of the user, so that every checkout shares it.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu-constructs" / "e2e"
# Where others keep ready-made binaries; the name is envtest's.
ASSETS = "KUBEBUILDER_ASSETS"
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
}
# The sums the binaries were built from: others are built anew.
STAMP = "go.sum"
MISSING = f"no {', '.join(PACKAGES)}: run 'make e2e-tools', or set {ASSETS} to a folder that holds them"


def main() -> None:
    """Build what is missing, or say what to do."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="build nothing; fail where something is missing")
    check = parser.parse_args().check
    if folder_of_tools() is None:
        if check:
            sys.exit(f"e2e: {MISSING}")
        build()
    print(f"e2e: tools are in {folder_of_tools()}")


def folder_of_tools() -> Path | None:
    """Return the folder with all binaries: the one that is named, or the cache where it is current."""
    named = os.environ.get(ASSETS)
    if named and is_whole(Path(named)):
        return Path(named)
    return CACHE if is_whole(CACHE) and is_current() else None


def is_whole(folder: Path) -> bool:
    """Whether a folder holds all binaries."""
    return all(os.access(folder / name, os.X_OK) for name in PACKAGES)


def is_current() -> bool:
    """Whether the cache was built from the versions that are asked for now."""
    stamp = CACHE / STAMP
    return stamp.exists() and stamp.read_bytes() == (MODULE / STAMP).read_bytes()


def build() -> None:
    """Build all with Go; some ten minutes and 3 GB the first time."""
    if shutil.which("go") is None:
        needed = "Go, of the version that tests/e2e/go.mod names or newer, from https://go.dev/dl"
        sys.exit(f"e2e: no go on the PATH: install {needed}, or set {ASSETS} to a folder with {', '.join(PACKAGES)}")
    CACHE.mkdir(parents=True, exist_ok=True)
    for name, package in PACKAGES.items():
        print(f"Building {name} ...", file=sys.stderr)
        command = ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", str(CACHE / name), package]
        done = subprocess.run(command, cwd=MODULE, env=os.environ | {"CGO_ENABLED": "0"}, check=False)
        if done.returncode:
            sys.exit(f"e2e: go build of {package} failed, see above")
    shutil.copy(MODULE / STAMP, CACHE / STAMP)


if __name__ == "__main__":
    main()
