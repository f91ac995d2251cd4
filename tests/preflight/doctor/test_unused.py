"""For each node with idle GPUs, the answer without a pod names what keeps the node."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from gpu_preflight.doctor.live import Live
from gpu_preflight.doctor.unused import unused_gpus
from tests.preflight.doctor.clusters import NEW_NODE, cluster, node

_NODE = "ip-10-0-1-21.us-west-2.compute.internal"
_OTHER = "ip-10-0-2-22.us-west-2.compute.internal"
_NOON = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)


def _pod(name: str, namespace: str = "default", **changes: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": {"app": name}, **changes.pop("metadata", {})}
    owners = [{"apiVersion": "apps/v1", "kind": changes.pop("owner", "ReplicaSet"), "name": "x", "controller": True}]
    metadata |= {"ownerReferences": owners} if owners[0]["kind"] else {}
    spec = {"nodeName": _NODE, "containers": [{"name": "app", "image": "app:1"}], **changes.pop("spec", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def _event(reason: str, message: str, kind: str = "Node", name: str = _NODE) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e.1", "namespace": "default", "creationTimestamp": "2026-11-20T11:50:00Z"},
        "reason": reason,
        "message": message,
        "reportingComponent": "karpenter",
        "involvedObject": {"kind": kind, "name": name},
    }


def _budget(namespace: str = "default", allowed: int = 0, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": namespace},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed},
    }


def _live(base: str, *objects: dict[str, Any], **metadata: Any) -> Live:
    """Return a cluster whose first GPU node has no GPU pod, with objects added and its metadata changed."""
    live = cluster(base, *objects, without=("serve-6d5f8b7c9-aaaaa",), at=_NOON)
    node = live.object("Node", _NODE)
    assert node is not None
    dict(node.content)["metadata"].update(metadata)
    return live


def _why(live: Live, node: str = _NODE) -> str:
    return next(each.why for each in unused_gpus(live) if each.node == node)


_HELD = {"deletionTimestamp": "2026-11-20T11:00:00Z", "finalizers": ["karpenter.sh/termination"]}


@pytest.mark.parametrize(
    ("objects", "metadata", "why"),
    [
        ([], {}, ""),
        (
            [_pod("web", metadata={"annotations": {"karpenter.sh/do-not-disrupt": "true"}})],
            {},
            "Pod default/web has",
        ),
        ([], {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, f"Node {_NODE} has the annotation"),
        (
            [_pod("web"), _budget(app="web")],
            {},
            "PodDisruptionBudget default/keep allows no eviction of Pod",
        ),
        ([_pod("web"), _budget(app="web", allowed=1)], {}, ""),
        ([_pod("web"), _budget(app="other")], {}, ""),
        ([_pod("web", owner="DaemonSet"), _budget(app="web")], {}, ""),
        ([_event("DisruptionBlocked", "Node is nominated for a pending pod")], {}, "reports: Node is nominated"),
        (
            [_event("Unconsolidatable", "Can't replace with a cheaper node")],
            {},
            "reports: Can't replace with a",
        ),
        (
            [_event("FailedDraining", "Failed to drain node, 1 pods are waiting")],
            _HELD,
            "its drain hangs",
        ),
        ([_pod("web", metadata={"deletionTimestamp": "2026-11-20T11:01:00Z"})], _HELD, "for Pod default/web, which"),
        ([], _HELD, "the finalizer karpenter.sh/termination holds it since 2026-11-20T11:00:00Z"),
        (
            [_pod("train", spec={"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]})],
            {},
            None,
        ),
    ],
)
def test_what_keeps_a_node_of_karpenter(
    objects: list[dict[str, Any]], metadata: dict[str, Any], why: str | None
) -> None:
    live = _live("karpenter", *objects, **metadata)

    if why is None:
        assert _NODE not in [each.node for each in unused_gpus(live)]
    else:
        assert why in _why(live) if why else not _why(live), _why(live)


@pytest.mark.parametrize(
    ("disruption", "why"),
    [
        ({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "1m"}, "removes empty nodes only"),
        (
            {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "Never"},
            "consolidateAfter Never",
        ),
        ({"consolidateAfter": "1m", "budgets": [{"nodes": "0"}]}, "a disruption budget of NodePool gpu allows 0 nodes"),
        ({"consolidateAfter": "1m", "budgets": [{"nodes": "0", "reasons": ["Drifted"]}]}, ""),
        ({"consolidateAfter": "1m", "budgets": [{"nodes": "10%"}]}, ""),
    ],
)
def test_what_the_node_pool_forbids(disruption: dict[str, Any], why: str) -> None:
    live = _live("karpenter", _pod("web"))
    pool = live.object("NodePool", "gpu")
    assert pool is not None
    dict(pool.content)["spec"]["disruption"] = disruption

    assert why in _why(live) if why else not _why(live), _why(live)


_MEMORY = {"volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}]}
_DISK = {"volumes": [{"name": "scratch", "emptyDir": {}}]}
_NOT_SAFE = {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}
_SAFE = {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}}


@pytest.mark.parametrize(
    ("objects", "metadata", "why"),
    [
        ([], {}, ""),
        ([_pod("web", metadata=_NOT_SAFE)], {}, "Pod default/web has the annotation"),
        ([_pod("web", spec=_DISK)], {}, "Pod default/web has local storage in volume scratch"),
        ([_pod("web", spec=_DISK, metadata=_SAFE)], {}, ""),
        ([_pod("web", spec=_MEMORY)], {}, ""),
        ([_pod("web", owner="")], {}, "Pod default/web has no controller"),
        ([_pod("dns", "kube-system")], {}, "Pod kube-system/dns is in kube-system without a PodDisruptionBudget"),
        ([_pod("dns", "kube-system"), _budget("kube-system", 1, app="dns")], {}, ""),
        ([], {"annotations": {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}}, "scale-down-disabled"),
        ([], {"creationTimestamp": "2026-11-20T11:55:00Z"}, "younger than 10 minutes"),
    ],
)
def test_what_keeps_a_node_of_cluster_autoscaler(
    objects: list[dict[str, Any]], metadata: dict[str, Any], why: str
) -> None:
    live = _live("managed", *objects, **metadata)

    assert why in _why(live) if why else not _why(live), _why(live)


def test_the_min_of_the_node_group_keeps_a_node() -> None:
    live = _live("managed")
    live.dump.aws["nodegroup"][0][1]["scalingConfig"] |= {"minSize": 2}

    assert "node group gpu has its min of 2 nodes" in _why(live)


def test_a_failed_update_of_the_node_group_is_named() -> None:
    live = _live("managed")
    errors = [{"errorCode": "PodEvictionFailure", "errorMessage": "Reached max retries"}]
    live.dump.aws["update"] = [("update.json", {"id": "0a1b", "status": "Failed", "errors": errors})]

    assert "PodEvictionFailure" in _why(live)


def test_a_node_that_is_not_ready_has_no_other_reason() -> None:
    live = _live("karpenter", _event("Unconsolidatable", "Can't replace with a cheaper node"))
    node = live.object("Node", _NODE)
    assert node is not None
    node.content["status"]["conditions"][-1] |= {"status": "Unknown", "reason": "NodeStatusUnknown"}

    assert _why(live) == "Ready is Unknown: NodeStatusUnknown"


def test_a_node_whose_gpus_are_in_use_is_not_listed() -> None:
    assert _OTHER not in [each.node for each in unused_gpus(_live("karpenter"))]


def test_without_cluster_autoscaler_in_the_dump_it_keeps_no_node() -> None:
    young = {"creationTimestamp": "2026-11-20T11:55:00Z"}
    live = _live("managed", _pod("web", spec=_DISK), _budget(app="web"), **young)
    assert "Cluster Autoscaler waits" in _why(live)
    live = cluster(
        "managed",
        _pod("web", spec=_DISK),
        _budget(app="web"),
        without=("serve-6d5f8b7c9-aaaaa", *_AUTOSCALER),
        at=_NOON,
    )
    node = live.object("Node", _NODE)
    assert node is not None
    dict(node.content)["metadata"].update(young)
    assert _why(live) == "D1: PodDisruptionBudget default/keep allows no eviction of Pod default/web"


_AUTOSCALER = ("cluster-autoscaler", "cluster-autoscaler-status")


def test_an_update_of_one_of_several_node_groups_is_not_called_that_of_the_node() -> None:
    live = _live("managed")
    update = {"id": "0a1b", "errors": [{"errorCode": "PodEvictionFailure"}]}
    live.dump.aws["update"] = [("update.json", update), ("odd.json", "text")]
    assert "the update 0a1b of a node group can't" in _why(live)
    for each in live.nodes:
        if each.labels.get("eks.amazonaws.com/nodegroup") != "gpu":
            dict(each.content)["metadata"]["labels"].pop("eks.amazonaws.com/nodegroup", None)
    assert "the update 0a1b of its node group can't" in _why(live)


def test_only_a_node_with_a_fault_needs_a_repair() -> None:
    live = _live("managed")
    name = next(each for each in live.nodes if each.name == _NODE).labels["eks.amazonaws.com/nodegroup"]
    group = {"nodegroupName": name, "clusterName": "c", "nodeRepairConfig": {"enabled": False}}
    live.dump.aws["nodegroup"] = [("group.json", group)]
    assert "H6" not in _why(live)
    broken = {"type": "AcceleratedHardwareReady", "status": "False", "reason": "NvidiaXID79Error"}
    next(each for each in live.nodes if each.name == _NODE).content["status"]["conditions"].append(broken)
    assert "H6: node group" in _why(live)


def test_gpus_that_a_dra_driver_publishes_are_not_unusable() -> None:
    room = {"cpu": "4", "pods": "58"}
    own = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}}
    own["spec"] = {"nodeName": NEW_NODE, "driver": "gpu.nvidia.com"}
    live = cluster("karpenter", node(allocatable=room))
    assert [each.unusable for each in unused_gpus(live) if each.node == NEW_NODE] == [1]
    live = cluster("karpenter", node(allocatable=room), own)
    assert not [each for each in unused_gpus(live) if each.node == NEW_NODE]
