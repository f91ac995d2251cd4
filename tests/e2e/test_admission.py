"""The six pods and the taints of GPU pools, on the real API server, controller manager and scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpu_preflight.case import Case as Judged
from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.label_values import LabelValues
from gpu_preflight.reading.inputs import read_input
from gpu_rehearsal.cluster.control_plane import ControlPlane, control_plane
from gpu_rehearsal.processes import wait_until
from tests import behind_taints
from tests.behind_taints import CLAIMED, DAEMON, DEVICE_CLASS, POOL_OF, RUNS
from tests.e2e.case import Case
from tests.e2e.rig import UNDISTURBED, Rig
from tools import build_e2e_tools

PODS = [each for each in RUNS if each != DAEMON]
CONTROLLERS = ("serviceaccount-controller", "daemonset-controller")
# The words by which the scheduler refuses a node for its taint.
UNTOLERATED = "untolerated taint"


@pytest.fixture(scope="module")
def pools(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A node of each pool, as preflight expects it."""
    [cluster] = clusters(read_input([str(behind_taints.synthesized(tmp_path_factory.mktemp("cdk.out")))]))
    case = Judged(cluster)
    return {each: node_of(case, pool) for each in set(POOL_OF.values()) for pool in cluster.pools if is_of(pool, each)}


def is_of(pool: Pool, name: str) -> bool:
    return name in pool.name.lower()


def node_of(case: Judged, pool: Pool) -> dict[str, Any]:
    [node] = case.nodes(pool)
    has = {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in node.least.items()}
    known = {key: each for key, each in node.labels.items() if isinstance(each, LabelValues)}
    labels = {key: next(iter(each.values)) for key, each in known.items() if each.values}
    taints = [{"key": each.key, "value": each.value or "", "effect": each.effect} for each in node.taints]
    metadata = {"name": "node", "labels": labels}
    return {"metadata": metadata, "spec": {"taints": taints}, "status": {"allocatable": has, "capacity": has}}


@pytest.mark.parametrize("name", PODS)
def test_the_scheduler_says_the_same(rig: Rig, pools: dict[str, Any], name: str) -> None:
    pod = {key: each for key, each in behind_taints.manifest(name).items() if key in ("metadata", "spec")}
    rig.client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default-0"}})
    rig.client.apply(DEVICE_CLASS)
    rig.client.apply({**CLAIMED, "metadata": {"name": "gpu", "namespace": "default-0"}})

    [decision] = rig.decide([Case(node=pools[POOL_OF[name]], pod=pod)])

    assert not decision.refused
    assert decision.scheduled is RUNS[name], decision
    assert RUNS[name] or UNTOLERATED in decision.message


@pytest.fixture(scope="module")
def controlled() -> Iterator[ControlPlane]:
    folder = build_e2e_tools.folder_of_tools()
    if folder is None:
        pytest.skip(build_e2e_tools.MISSING)
    with control_plane(folder, controllers=CONTROLLERS, scheduler=UNDISTURBED) as running:
        yield running


@pytest.mark.parametrize("tolerating", [False, True])
def test_the_daemon_set_controller_says_the_same(
    controlled: ControlPlane, pools: dict[str, Any], tolerating: bool
) -> None:
    client = controlled.client
    client.apply({"apiVersion": "v1", "kind": "Node", **pools[POOL_OF[DAEMON]]})
    daemon = behind_taints.manifest(DAEMON, tolerating=tolerating)
    daemon["metadata"]["name"] = f"daemon-{tolerating}".lower()
    client.create(daemon)
    path = client.object_path(daemon)

    wait_until(lambda: client.get(path).get("status", {}).get("observedGeneration") == 1, "the controller to look")

    assert client.get(path)["status"]["desiredNumberScheduled"] == int(tolerating or RUNS[DAEMON])
