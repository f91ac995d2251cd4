"""Folders as Argo CD and Flux render them: by kubectl and helm where these programs are there."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gpu_facts.kubernetes import CLUSTER_SCOPED
from gpu_preflight.reading.documents import KUSTOMIZATIONS, UnusableInput, parse
from gpu_preflight.reading.gitops.deployments import Beside, Deployment, is_left_alone
from gpu_preflight.reading.notation import written
from gpu_preflight.reading.objects import Object, parse_objects
from gpu_preflight.reading.rendering.folders import helm_template, kustomize_build
from gpu_preflight.reading.rendering.programs import Rendering
from gpu_preflight.reading.unknown import as_written, dig, mapping


class NotRendered(Exception):
    """A folder that cannot be rendered, with the reason."""


def has_kustomization(folder: Path) -> bool:
    """Whether a folder has a kustomization of its own."""
    return any((folder / each).is_file() for each in KUSTOMIZATIONS)


def is_chart(folder: Path) -> bool:
    """Whether a folder is a chart."""
    return (folder / "Chart.yaml").is_file()


def rendered(each: Deployment, folder: Path, plain: list[Object], beside: Beside, made: Rendering) -> list[Object]:
    """Return the objects that a deployment makes of a folder.

    Args:
        each: The deployment.
        folder: The folder.
        plain: The objects that were read there.
        beside: What was read.
        made: How long rendering may take, and what it has come to.

    Raises:
        NotRendered: A program is missing or refuses, or a part stands elsewhere.
    """
    if each.unread:
        raise NotRendered("")
    found = plain
    if is_chart(folder):
        found = found if each.values is None else _render_chart(each, folder, made)
    elif each.values is not None:
        raise NotRendered("there is no chart")
    elif each.kustomization or each.components or (has_kustomization(folder) and not plain):
        found = _render_kustomization(each, folder, plain, beside, made)
    if each.variables:
        found = [one for before in found for one in _substituted(each, before)]
    return [_placed(one, each.namespace) for one in found] if each.namespace else found


def _render_chart(each: Deployment, folder: Path, made: Rendering) -> list[Object]:
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "values.json")
        file.write_text(_json(as_written(each.values)), encoding="utf-8")
        text, why = helm_template(folder, each.release, made, values=file, namespace=each.namespace)
    if text is None:
        raise NotRendered(why)
    made.texts[f"{folder} of {each.owner.origin.path}"] = text
    return _parsed(each, text, str(folder), [])


def _render_kustomization(
    each: Deployment, folder: Path, plain: list[Object], beside: Beside, made: Rendering
) -> list[Object]:
    own = has_kustomization(folder)
    if each.needs_kustomization and not own:
        raise NotRendered("the folder has no kustomization")
    components = [(folder / one).resolve() for one in each.components]
    if not all(map(beside.holds, components)):
        raise NotRendered("a component stands elsewhere")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name).resolve()
        base = os.path.relpath(folder, place) if own else "objects.json"
        if not own:
            contents = [as_written(dict(one.content)) for one in plain]
            (place / base).write_text(_json({"apiVersion": "v1", "kind": "List", "items": contents}), encoding="utf-8")
        overlay = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            **as_written(dict(each.kustomization)),
            "resources": [base],
            "components": [os.path.relpath(one, place) for one in components],
        }
        (place / KUSTOMIZATIONS[0]).write_text(_json(overlay), encoding="utf-8")
        text, why = kustomize_build(place, made)
    if text is None:
        raise NotRendered(why)
    made.texts[f"{folder} of {each.owner.origin.path}"] = text
    return _parsed(each, text, str(folder), plain)


def _json(content: Any) -> str:
    """Return JSON that is YAML too, to whose readers half of a surrogate pair is no character."""
    return json.dumps(content, ensure_ascii=False)


def _parsed(each: Deployment, text: str, file: str, before: Iterable[Object]) -> list[Object]:
    """Return the objects of a text, each where it stood before."""
    places = {(one.kind, one.name): one.origin.file for one in before}
    try:
        documents = list(parse(file, text))
    except UnusableInput as error:
        raise NotRendered(str(error)) from None
    contents = [(one.content, one.templated) for one in documents]
    return [
        found
        for content, templated in contents
        for found in parse_objects(
            content, _file(content, places, file), cluster=each.owner.cluster, templated=templated
        )
    ]


def _file(content: Any, places: dict[tuple[str, str], str], file: str) -> str:
    return places.get((str(dig(content, "kind")), str(dig(content, "metadata", "name"))), file)


def _substituted(each: Deployment, before: Object) -> list[Object]:
    if is_left_alone(before.content):
        return [before]
    text = written(as_written(dict(before.content)))
    changed = each.variables.substitute(text)
    return [before] if changed == text else _parsed(each, changed, before.origin.file, [before])


def _placed(each: Object, namespace: str | None) -> Object:
    """Return an object in a namespace, unless it has one or is of the whole cluster."""
    metadata = mapping(each.content.get("metadata"))
    if each.kind in CLUSTER_SCOPED or metadata.get("namespace"):
        return each
    content = {**each.content, "metadata": {**metadata, "namespace": namespace}}
    return next(parse_objects(content, each.origin.file, each.origin.resource, each.cluster), each)
