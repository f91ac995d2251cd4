"""Objects that may be incomplete: pods without a container, or a container without its image."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.cluster.objects import may_be_excerpt
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import Unknown

WHOLE = {"name": "main", "image": "example.com/main:1"}


def deployment(containers: Any, *, kind: str = "Deployment", resource: str | None = None) -> Object:
    content = {"kind": kind, "spec": {"template": {"spec": {"containers": containers}}}}
    return Object(content, Origin("app.yaml", f"{kind} main", resource))


@pytest.mark.parametrize("containers", [None, [], [{"name": "main"}], [WHOLE, {"name": "sidecar"}]])
def test_without_a_container_or_its_image_it_may_be_a_part(containers: Any) -> None:
    assert may_be_excerpt(deployment(containers))


@pytest.mark.parametrize(
    "whole",
    [
        deployment([WHOLE]),
        deployment(Unknown("${Containers}")),
        deployment([], resource="Stack/Manifest"),
        deployment([], kind="ConfigMap"),
    ],
    ids=["with an image", "known later", "of a template", "of a kind without pods"],
)
def test_what_is_whole(whole: Object) -> None:
    assert not may_be_excerpt(whole)
