"""Workloads whose pods share a claim: one node takes all of them, and the claim has its GPUs once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.preflight.scheduling.test_in_a_cluster import NO, UNKNOWN, YES, answers, deployment, group

CLASS = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu.nvidia.com"}, "spec": {}}


def claim(name: str, count: int, kind: str = "ResourceClaim") -> dict[str, Any]:
    """A claim of GPUs, or a template of one."""
    exactly = {"deviceClassName": "gpu.nvidia.com", "count": count}
    spec: dict[str, Any] = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    whole = {"spec": spec} if kind == "ResourceClaimTemplate" else spec
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": whole}


def claiming(name: str, of: str, replicas: int = 1, cpu: int = 1, kind: str = "ResourceClaim") -> dict[str, Any]:
    """Pods that claim GPUs."""
    field = "resourceClaimName" if kind == "ResourceClaim" else "resourceClaimTemplateName"
    resources = {"claims": [{"name": "gpu"}], "requests": {"cpu": cpu}}
    containers = [{"name": "main", "image": "busybox", "resources": resources}]
    return deployment(name, replicas, {"resourceClaims": [{"name": "gpu", field: of}], "containers": containers})


def own(name: str, replicas: int = 1) -> dict[str, Any]:
    """Pods that claim GPUs of their own."""
    return claiming(name, "own", replicas, kind="ResourceClaimTemplate")


OWN = claim("own", 1, "ResourceClaimTemplate")


@pytest.mark.parametrize(("shared", "mine", "expected"), [(2, 2, YES), (3, 1, YES), (3, 2, NO), (4, 1, NO)])
def test_a_shared_claim_has_its_gpus_once(tmp_path: Path, shared: int, mine: int, expected: Any) -> None:
    there = [group("a", "a", 1, kind="g6.12xlarge")]
    both = [claiming("chat", "team"), claiming("batch", "team", 2)]

    found = answers(tmp_path, there, CLASS, claim("team", shared), OWN, *both, own("other", mine))

    assert (found["chat"], found["batch"]) == (YES, YES)
    assert found["other"] is expected


@pytest.mark.parametrize(("cpu", "expected"), [(1, YES), (2, NO)])
def test_one_node_takes_all_pods_of_a_claim(tmp_path: Path, cpu: int, expected: Any) -> None:
    there = [group("a", "a", 2)]

    found = answers(
        tmp_path, there, CLASS, claim("team", 1), claiming("chat", "team", 1, cpu), claiming("batch", "team", 1, cpu)
    )

    assert found == {"chat": expected, "batch": expected}


def test_pods_that_share_nothing_have_nodes_of_their_own(tmp_path: Path) -> None:
    claims = [claim(name, 1) for name in ("one", "two")]
    pods = [claiming("chat", "one", 2), claiming("batch", "two", 2)]

    assert answers(tmp_path, [group("a", "a", 2)], CLASS, *claims, *pods) == {"chat": YES, "batch": YES}
    assert answers(tmp_path, [group("a", "a", 1)], CLASS, *claims, *pods) == {"chat": YES, "batch": NO}


def test_a_job_that_shares_a_claim_of_a_service_may_wait(tmp_path: Path) -> None:
    job = claiming("train", "team", 1, 2)
    template = job["spec"]["template"]
    template["spec"]["restartPolicy"] = "Never"
    job |= {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": template}}

    found = answers(tmp_path, [group("a", "a", 2)], CLASS, claim("team", 1), claiming("chat", "team", 1, 2), job)

    assert found == {"chat": YES, "train": UNKNOWN}
