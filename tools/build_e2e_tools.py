"""Build the control plane and the Karpenter that `make e2e` and `make rehearse` run, in the versions of tests/e2e.

`python tools/build_e2e_tools.py` builds missing tools. `--check` only reports whether a tool of `make e2e` is missing.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
# In the user's cache, so that all checkouts share it.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu-constructs" / "e2e"
# A folder of prebuilt binaries. envtest has the same variable.
ASSETS = "KUBEBUILDER_ASSETS"


@dataclass(frozen=True, kw_only=True, eq=False)
class Module:
    """A Go module whose programs are built.

    Attributes:
        folder: Folder of its go.mod and go.sum.
        packages: Packages, by names of programs.
        versioned: The module with the version of the programs, and the variables that get the version.
    """

    folder: Path
    packages: Mapping[str, str]
    versioned: str
    variables: tuple[str, ...]

    @property
    def version(self) -> str:
        """Version of its programs, as in ``v1.36.3``."""
        found = re.search(rf"{re.escape(self.versioned)} (v\S+)", (self.folder / "go.mod").read_text())
        assert found, f"{self.folder}/go.mod requires no {self.versioned}"
        return found[1]

    @property
    def minor(self) -> str:
        """Minor version of its programs, as in ``1.36``."""
        return ".".join(self.version.removeprefix("v").split(".")[:2])

    @property
    def flags(self) -> str:
        """Flags of the linker: small programs with the version of a release."""
        major, minor, _ = self.version.removeprefix("v").split(".", 2)
        values = {"gitVersion": self.version, "gitMajor": major, "gitMinor": minor, "Version": self.version[1:]}
        said = (f"-X {each}={values[each.rpartition('.')[2]]}" for each in self.variables)
        return " ".join(("-s", "-w", *said))

    @property
    def stamp(self) -> str:
        """Versions of the inputs. If they change, the programs are rebuilt."""
        return (self.folder / "go.sum").read_text() + self.flags


_TESTS = ROOT / "tests" / "e2e"


def _control_plane(folder: Path) -> Module:
    return Module(
        folder=folder,
        packages={
            "etcd": "go.etcd.io/etcd/server/v3",
            "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
            "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
            "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
        },
        versioned="k8s.io/kubernetes",
        # Charts read the server's version, and fail if it isn't a valid version.
        # Source: https://github.com/kubernetes/kubernetes/blob/v1.36.3/hack/lib/version.sh
        variables=tuple(f"k8s.io/component-base/version.{each}" for each in ("gitVersion", "gitMajor", "gitMinor")),
    )


def _karpenter(folder: Path) -> Module:
    return Module(
        folder=folder,
        packages={"karpenter": "github.com/aws/karpenter-provider-aws/cmd/controller"},
        versioned="github.com/aws/karpenter-provider-aws",
        variables=("sigs.k8s.io/karpenter/pkg/operator.Version",),
    )


# The default minor version of Kubernetes, and the others of the rehearsal.
CONTROL_PLANE, KARPENTER = _control_plane(_TESTS), _karpenter(_TESTS / "karpenter")
NEWER_CONTROL_PLANE, NEWER_KARPENTER = _control_plane(_TESTS / "kubernetes-1.37"), _karpenter(_TESTS / "karpenter-1.15")
MISSING = f"no {', '.join(CONTROL_PLANE.packages)}: run 'make e2e-tools', or set {ASSETS} to a folder that holds them"


def main() -> None:
    """Build missing tools, or report the command that builds them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="build nothing; fail if a tool of e2e is missing")
    if not parser.parse_args().check:
        build_missing()
    elif folder_of_tools() is None:
        sys.exit(f"e2e: {MISSING}")
    print(f"e2e: tools are in {folder_of_tools()}")


def build_missing(*, newer: bool = False) -> None:
    """Build missing and outdated tools.

    Args:
        newer: Whether to build the tools of other minor versions too.
    """
    if folder_of_tools() is None:
        build(CONTROL_PLANE, CACHE)
    for each in (KARPENTER, *((NEWER_CONTROL_PLANE, NEWER_KARPENTER) if newer else ())):
        if not is_current(each, _own_folder(each)):
            build(each, _own_folder(each))


def folder_of_tools() -> Path | None:
    """Return the folder of the control plane: the configured one, or the cache if it is current."""
    named = os.environ.get(ASSETS)
    if named and is_whole(CONTROL_PLANE, Path(named)):
        return Path(named)
    return CACHE if is_current(CONTROL_PLANE, CACHE) else None


def control_planes() -> dict[str, Path]:
    """Return the folders of available control planes, by minor version."""
    newer = _own_folder(NEWER_CONTROL_PLANE)
    found = {
        CONTROL_PLANE: folder_of_tools(),
        NEWER_CONTROL_PLANE: newer if is_current(NEWER_CONTROL_PLANE, newer) else None,
    }
    return {module.minor: folder for module, folder in found.items() if folder}


def karpenter() -> dict[str, Path]:
    """Return the current binaries of Karpenter, by version without ``v``."""
    built = (each for each in (KARPENTER, NEWER_KARPENTER) if is_current(each, _own_folder(each)))
    return {each.version.removeprefix("v"): _own_folder(each) / "karpenter" for each in built}


def _own_folder(module: Module) -> Path:
    return CACHE / f"{module.versioned.rpartition('/')[2].removesuffix('-provider-aws')}-{module.version}"


def is_whole(module: Module, folder: Path) -> bool:
    """Whether a folder holds all programs of a module."""
    return all(os.access(folder / name, os.X_OK) for name in module.packages)


def is_current(module: Module, folder: Path) -> bool:
    """Whether a folder has all programs of the current inputs."""
    stamp = folder / "stamp"
    return is_whole(module, folder) and stamp.exists() and stamp.read_text() == module.stamp


def build(module: Module, folder: Path) -> None:
    """Build all programs with Go. The first build takes about ten minutes and 3 GB."""
    if shutil.which("go") is None:
        needed = "Go, of the version that tests/e2e/go.mod names or newer, from https://go.dev/dl"
        given = ", ".join(CONTROL_PLANE.packages)
        sys.exit(f"e2e: no go on the PATH: install {needed}, or set {ASSETS} to a folder with {given}")
    folder.mkdir(parents=True, exist_ok=True)
    for name, package in module.packages.items():
        print(f"Building {name} {module.version} ...", file=sys.stderr)
        command = ["go", "build", "-trimpath", f"-ldflags={module.flags}", "-o", str(folder / name), package]
        done = subprocess.run(
            command, cwd=module.folder, env=os.environ | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "auto"}, check=False
        )
        if done.returncode:
            sys.exit(f"e2e: go build of {package} failed, see above")
    (folder / "stamp").write_text(module.stamp)


if __name__ == "__main__":
    main()
