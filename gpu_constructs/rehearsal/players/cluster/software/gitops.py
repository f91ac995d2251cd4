"""Files for Argo CD or Flux, brought to a cluster: charts by the real helm, then objects by server-side apply.

Neither of the two runs here. What they would try again until it succeeds is tried again for a while.
Source: https://argo-cd.readthedocs.io/en/stable/user-guide/helm/ and
https://fluxcd.io/flux/components/helm/helmreleases/ (2026-11)
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpu_constructs.rehearsal.players.cluster.client import Client, Object, Refused
from gpu_constructs.rehearsal.players.cluster.control_plane import kubeconfig_of

_AGAIN_FOR, _AGAIN_AFTER = 60.0, 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """A chart that is to be installed.

    Attributes:
        name: Name of the release.
        chart: Name of the chart.
        version: Its version.
        repository: Where it is taken from, with ``oci://`` for a registry.
        namespace: Where its objects go.
        values: What it is told.
        definitions: Whether those inside it are installed.
        until_ready: Whether it counts as installed only when its pods are ready.
    """

    name: str
    chart: str
    version: str
    repository: str
    namespace: str
    values: Mapping[str, Any]
    definitions: bool
    until_ready: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Delivery:
    """The files of one stack.

    Attributes:
        releases: Charts, in the order of their files.
        objects: The objects of each file, by its name.
    """

    releases: Sequence[Release]
    objects: Mapping[str, Sequence[Object]]


def read(folder: Path, outputs: Mapping[str, str]) -> Delivery:
    """Return the files of a stack, each ``${Key}`` that is an output in them replaced by its value.

    Args:
        folder: Folder of the stack, with ``charts`` and ``objects``.
        outputs: What the deployed stack tells, by key.

    Raises:
        ValueError: A file of charts holds something that is none.
    """
    charts = [each for file in _files(folder / "charts") for each in _documents(file, outputs)]
    repositories = {each["metadata"]["name"]: each["spec"] for each in charts if each["kind"] == "HelmRepository"}
    return Delivery(
        releases=[_release(each, repositories) for each in charts if each["kind"] != "HelmRepository"],
        objects={file.name: _documents(file, outputs) for file in _files(folder / "objects")},
    )


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.yaml"))


def _documents(file: Path, outputs: Mapping[str, str]) -> list[Object]:
    text = file.read_text()
    for key, value in outputs.items():
        text = text.replace(f"${{{key}}}", value)
    return [each for each in yaml.safe_load_all(text) if each]


def _release(written: Object, repositories: Mapping[str, Object]) -> Release:
    if written["kind"] == "Application":
        return _of_application(written["spec"])
    if written["kind"] == "HelmRelease":
        return _of_release(written["spec"], repositories)
    raise ValueError(f"charts: kind must be Application, HelmRelease or HelmRepository, got {written['kind']!r}")


def _of_application(spec: Object) -> Release:
    source = spec["source"]
    # A registry is written without a scheme.
    url = source["repoURL"] if "://" in source["repoURL"] else f"oci://{source['repoURL']}"
    return Release(
        name=source["helm"]["releaseName"],
        chart=source["chart"],
        version=source["targetRevision"],
        repository=url,
        namespace=spec["destination"]["namespace"],
        values=source["helm"].get("valuesObject", {}),
        definitions=not source["helm"].get("skipCrds", False),
        until_ready=False,
    )


def _of_release(spec: Object, repositories: Mapping[str, Object]) -> Release:
    chart, install = spec["chart"]["spec"], spec.get("install", {})
    return Release(
        name=spec["releaseName"],
        chart=chart["chart"],
        version=chart["version"],
        repository=repositories[chart["sourceRef"]["name"]]["url"],
        namespace=spec["targetNamespace"],
        values=spec.get("values", {}),
        definitions=install.get("crds", "Create") != "Skip",
        until_ready=not install.get("disableWait", False),
    )


class GitOps:
    """Who brings files to one cluster, as its administrator.

    Args:
        helm: The program.
        client: An administrator of the cluster.
        environment: By which helm reaches registries.
        folder: For its files.
    """

    def __init__(self, helm: Path, client: Client, *, environment: Mapping[str, str], folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._helm, self._client, self._kubeconfig = helm, client, folder / "kubeconfig"
        self._kubeconfig.write_text(json.dumps(kubeconfig_of(client)))
        homes = {f"HELM_{each}_HOME": str(folder / each.lower()) for each in ("CACHE", "CONFIG", "DATA")}
        self._environment = {"HOME": str(folder), **homes, **environment}

    def install(self, release: Release) -> str:
        """Install a chart, and return what helm says against it in the end."""
        return _again(lambda: self._installed(release))

    def apply(self, objects: Sequence[Object]) -> str:
        """Apply objects, and return what the API server says against them in the end."""
        return _again(lambda: "; ".join(self._refusals(objects)))

    def _installed(self, release: Release) -> str:
        done = subprocess.run(
            [str(self._helm), *_arguments(release), f"--kubeconfig={self._kubeconfig}", "--values=-"],
            input=json.dumps(release.values),
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stderr if done.returncode else ""

    def _refusals(self, objects: Sequence[Object]) -> Iterator[str]:
        for each in objects:
            try:
                self._client.apply(each)
            except Refused as refused:
                yield f"{each['kind']} {each['metadata']['name']}: {refused}"


def _arguments(release: Release) -> list[str]:
    registry = release.repository.startswith("oci://")
    where = [f"{release.repository}/{release.chart}"] if registry else [release.chart, f"--repo={release.repository}"]
    return [
        "upgrade",
        "--install",
        release.name,
        *where,
        f"--version={release.version}",
        f"--namespace={release.namespace}",
        "--create-namespace",
        *([] if release.definitions else ["--skip-crds"]),
        *(["--wait", "--timeout=2m"] if release.until_ready else []),
    ]


def _again(attempt: Callable[[], str]) -> str:
    """Try until nothing is said against it, or it is enough; return what was said last."""
    ends = time.monotonic() + _AGAIN_FOR
    while (said := attempt()) and time.monotonic() < ends:
        time.sleep(_AGAIN_AFTER)
    return said
