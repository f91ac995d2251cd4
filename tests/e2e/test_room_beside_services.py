"""Whether a GPU pod finds room next to services without GPUs: on every node, the real kube-scheduler agrees."""

from __future__ import annotations

import itertools
import random
from typing import Any

from gpu_preflight.model.answer import Answer
from tests.e2e.case import Case
from tests.e2e.questions import fate
from tests.e2e.rig import Rig
from tests.preflight.scheduling.test_fillers import answer, asks, nodes

DRAWN = 150


def node(name: str, cpus: int) -> dict[str, Any]:
    allocatable = {"cpu": f"{cpus}m", "memory": "1Gi", "pods": "100", "nvidia.com/gpu": "1"}
    return {"metadata": {"name": name}, "status": {"allocatable": allocatable, "capacity": allocatable}}


def pod(cpus: int, gpus: int = 0, place: str | None = None) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    main = {
        "name": "main",
        "image": "example.com/main:1",
        "resources": {"requests": {"cpu": f"{cpus}m"}, "limits": limits},
    }
    return {"metadata": {}, "spec": {"containers": [main], **({"nodeName": place} if place else {})}}


def test_the_scheduler_agrees_wherever_services_lie(rig: Rig) -> None:
    drawn = random.Random(14)
    asked: list[tuple[Answer, Case]] = []
    while len(asked) < DRAWN:
        count, cpus, wanted, each = (drawn.randint(*bounds) for bounds in ((1, 3), (2, 8), (1, 4), (1, 3)))
        ways = [way for way in itertools.product(range(cpus // each + 1), repeat=count) if sum(way)]
        if wanted > cpus or not ways:
            continue
        way = drawn.choice(ways)
        there = nodes(count, cpus)
        said = answer(asks("train", 1, wanted, there, kind="Job"), asks("web", sum(way), each, there, gpus=0))
        names = [f"n{place}" for place in range(count)]
        bound = [pod(each, place=name) for name, held in zip(names, way, strict=True) for _ in range(held)]
        first, *others = [node(name, cpus) for name in names]
        asked.append((said, Case(node=first, others=others, bound=bound, pod=pod(wanted, 1))))

    decisions = rig.decide([case for _, case in asked])

    found = {(said.value, fate(decision)) for (said, _), decision in zip(asked, decisions, strict=True)}
    assert found == {("yes", "runs"), ("no", "waits"), ("unknown", "runs"), ("unknown", "waits")}
