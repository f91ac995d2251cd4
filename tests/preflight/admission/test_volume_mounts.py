"""Mounts of containers are checked as the API server does, and unknown volumes get no finding."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.admission.controllers import not_mounted
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.pod import Workload, read_pod
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import Unknown


def workload(*mounts: Any, volumes: Any = (), kind: str = "Job", **spec: Any) -> Workload:
    """A workload whose container has such mounts."""
    container = {"name": "main", "image": "example.com/main:1", "volumeMounts": list(mounts)}
    pod = {"containers": [container], "volumes": volumes if isinstance(volumes, Unknown) else list(volumes)}
    origin = Origin("file.yaml", f"{kind} ml/train")
    owner = Object({"kind": kind, "spec": {"template": {"spec": pod}} | spec}, origin)
    return Workload(
        name=f"{kind} ml/train",
        namespace="ml",
        origin=origin,
        pod=read_pod(pod),
        labels={},
        annotations={},
        replicas=1,
        together=False,
        owner=owner,
    )


def said(made: Workload) -> list[tuple[Answer, str]]:
    return [(each.answer, each.text.removeprefix("the API server rejects it: ")) for each in not_mounted(made)]


def mount(name: Any = "data", path: Any = "/data", **more: Any) -> dict[str, Any]:
    return {"name": name, "mountPath": path, **more}


DATA = {"name": "data", "emptyDir": {}}


def test_a_mount_with_its_volume_is_taken() -> None:
    assert said(workload(mount(), volumes=[DATA])) == []


def test_a_mount_without_its_volume_is_refused() -> None:
    [(answer, text)] = said(workload(mount("dta"), volumes=[DATA]))

    assert answer is Answer.NO
    assert text == "container main mounts volume dta, which the pod doesn't have; did you mean 'data'?"


def test_a_volume_that_is_missing_twice_is_reported_once() -> None:
    assert len(said(workload(mount("a", "/a"), mount("a", "/b")))) == 1


@pytest.mark.parametrize("kind", ["PyTorchJob", "RayCluster", "Workflow"])
def test_an_operator_may_add_volumes(kind: str) -> None:
    [(answer, _)] = said(workload(mount(), kind=kind))

    assert answer is Answer.UNKNOWN


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("StatefulSet", {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}),
        ("LeaderWorkerSet", {"leaderWorkerTemplate": {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}}),
    ],
)
def test_a_template_of_claims_makes_a_volume(kind: str, spec: dict[str, Any]) -> None:
    assert said(workload(mount(), kind=kind, **spec)) == []
    assert said(workload(mount("other"), kind=kind, **spec))


@pytest.mark.parametrize(
    "volumes",
    [Unknown("volumes"), [{"name": Unknown("name"), "emptyDir": {}}], [Unknown("volume")], [{"name": "${NAME}"}]],
)
def test_nothing_is_said_of_volumes_that_are_not_known(volumes: Any) -> None:
    assert said(workload(mount(), volumes=volumes)) == []


@pytest.mark.parametrize("name", [Unknown("name"), "${NAME}"])
def test_nothing_is_said_of_a_mount_that_is_not_known(name: Any) -> None:
    assert said(workload(mount(name), volumes=[DATA])) == []


def test_two_mounts_on_one_path_are_refused_in_every_workload() -> None:
    [(answer, text)] = said(workload(mount(), mount(), volumes=[DATA], kind="PyTorchJob"))

    assert (answer, text) == (Answer.NO, "container main mounts two volumes at /data")


def test_paths_that_are_not_known_are_not_the_same() -> None:
    assert said(workload(mount(path=Unknown("a")), mount(path=Unknown("a")), volumes=[DATA])) == []


@pytest.mark.parametrize("path", ["/a", "../a", "a/../b", ".."])
def test_a_path_that_leaves_the_volume_is_refused(path: str) -> None:
    [(answer, text)] = said(workload(mount(subPath=path), volumes=[DATA]))

    assert (answer, text) == (Answer.NO, f"container main has subPath {path}, which must be relative and without '..'")


@pytest.mark.parametrize("path", ["a", "a/b", "a..b", "..a", ""])
def test_a_path_inside_the_volume_is_taken(path: str) -> None:
    assert said(workload(mount(subPath=path), volumes=[DATA])) == []


def test_two_volumes_of_one_name_are_refused() -> None:
    assert said(workload(mount(), volumes=[DATA, DATA])) == [(Answer.NO, "two volumes have the name data")]
