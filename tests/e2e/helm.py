"""The helm and the kubectl of a deployment, and packed charts."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_facts import versions
from gpu_facts.charts import NAMESPACES
from gpu_rehearsal.cluster.client import Client, Object
from tools import charts as packed


class Helm:
    """The helm of a deployment's handler, against one API server.

    Args:
        charts: Folder of packed charts.
        kubeconfig: How the server is reached.
        client: An administrator of it.
    """

    def __init__(self, charts: Path, kubeconfig: Path, client: Client) -> None:
        self.charts, self.kubeconfig, self.client = charts, kubeconfig, client

    def chart(self, pin: versions.Chart | packed.Packed) -> str:
        """Return the packed chart; skip with the reason if it is missing."""
        file = self.charts / f"{pin.name}-{pin.version}.tgz"
        if not file.is_file():
            pytest.skip(f"{pin.name} {pin.version} is not in {self.charts}: the emitted values weren't tried")
        return str(file)

    def run(self, *arguments: str, values: Mapping[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
        """Run helm, whatever comes of it."""
        homes = {f"HELM_{each}_HOME": str(self.kubeconfig.parent) for each in ("CACHE", "CONFIG", "DATA")}
        given = ["--values", "-"] if values is not None else []
        return subprocess.run(
            [str(packed.helm()), *arguments, *given],
            input=json.dumps(values),
            env=os.environ | homes | {"KUBECONFIG": str(self.kubeconfig)},
            capture_output=True,
            text=True,
            check=False,
        )

    def template(self, pin: versions.Chart, values: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
        """Render a chart, whatever comes of it."""
        where = ["--namespace", namespace_of(pin), "--include-crds", "--kube-version", "1.36.2"]
        return self.run("template", pin.name, self.chart(pin), *where, values=values)

    def render(self, pin: versions.Chart, values: Mapping[str, Any]) -> list[Object]:
        """Return the objects of a chart, definitions and hooks included."""
        done = self.template(pin, values)
        assert done.returncode == 0, done.stderr
        loaded = yaml.load_all(done.stdout, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        # A list is no object of a server's: its items are.
        return [one for each in loaded if each for one in (each["items"] if each["kind"] == "List" else [each])]

    def kubectl(self, *arguments: str, given: str) -> str:
        """Run kubectl on some objects, and return what it says against them."""
        command = [str(packed.kubectl()), *arguments, "-f", "-", "--kubeconfig", str(self.kubeconfig)]
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
        return done.stderr if done.returncode else ""

    def definitions(self, pin: versions.Chart | packed.Packed) -> str:
        """Return the definitions inside a chart."""
        return self.run("show", "crds", self.chart(pin)).stdout

    def install(self, pin: versions.Chart | packed.Packed, *flags: str, values: Mapping[str, Any]) -> str:
        """Install or upgrade a release as the handler does, and return what helm says against it."""
        done = self.run("upgrade", pin.name, self.chart(pin), "--install", *flags, values=values)
        return done.stderr if done.returncode else ""


def namespace_of(pin: versions.Chart) -> str:
    """The namespace of a release."""
    return NAMESPACES.get(pin.name, "kube-system")
