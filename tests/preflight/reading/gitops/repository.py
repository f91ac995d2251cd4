"""Files of a repository, and the cluster read from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from gpu_preflight.reading.inputs import Input, read_input
from gpu_preflight.reading.objects import Object

FLUX = "kustomize.toolkit.fluxcd.io/v1"
# A chart of a pod that repeats the chart's values.
CHART: dict[str, Any] = {
    "charts__app__Chart": [{"apiVersion": "v2", "name": "app", "version": "1.0.0"}],
    "charts__app__values": [{"gpus": 1, "pool": "none", "more": "none"}],
    "charts__app__templates__pod": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: '{{ .Release.Name }}'}\n"
        "spec: {nodeSelector: {pool: '{{ .Values.pool }}', more: '{{ .Values.more }}', gpus: '{{ .Values.gpus }}'}}\n"
    ),
}


def given(folder: Path, **files: Any) -> Input:
    """The cluster read from a folder; ``__`` in a name is a slash, and a file without a suffix is YAML."""
    for name, content in files.items():
        file = folder / f"{name.replace('__', '/')}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else yaml.safe_dump_all(content))
    return read_input([str(folder)])


def kustomization(**spec: Any) -> dict[str, Any]:
    """A Kustomization of Flux."""
    metadata = {"name": "apps", "namespace": "flux-system"}
    return {"apiVersion": FLUX, "kind": "Kustomization", "metadata": metadata, "spec": {"path": "./apps", **spec}}


def application(source: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """An Application of Argo CD."""
    said = {"source": {"repoURL": "git", **source}, **spec}
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "app"}, "spec": said}


def deployment(**changes: Any) -> dict[str, Any]:
    """A Deployment with one container."""
    container = {"name": "main", "image": "app:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container], **changes}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "infer"}, "spec": spec}


def config_map(name: str, **data: str) -> dict[str, Any]:
    """A ConfigMap beside a Kustomization."""
    metadata = {"name": name, "namespace": "flux-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def only(found: Input, kind: str = "Deployment") -> Object:
    """The one object of a kind."""
    [one] = [each for each in found.objects if each.kind == kind]
    return one


def told(found: Input) -> list[str]:
    """The sources that the report lists as unread."""
    return [each.reason for each in found.problems]
