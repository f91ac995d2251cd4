"""An instance is a healthy node, still starting or failed. EKS needs this before a node group is active."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from gpu_rehearsal.cluster.client import Client, Object
from gpu_rehearsal.cluster.instances import Instance, Node
from gpu_rehearsal.cluster.nodes import UNHEALTHY_SECONDS, Nodes
from tests.rehearsal.cluster.cloud import CLUSTER, played_cloud

WAITS = {"metadata": {"ownerReferences": [{"kind": "DaemonSet", "name": "aws-node"}]}, "status": {}}
WHY = "to perform: ec2:AssignPrivateIpAddresses"


class Server:
    """A server with a DaemonSet of the network, or without, and its pod.

    Attributes:
        has_network: Whether the DaemonSet is there.
    """

    has_network = True

    def find(self, path: str) -> Object | None:
        """Return the DaemonSet."""
        assert path.endswith("/daemonsets/aws-node")
        return {} if self.has_network else None

    def list(self, path: str, **_: str) -> list[Object]:
        """Return its pod, which waits."""
        state = {"waiting": {"reason": "ContainerCreating", "message": WHY}}
        return [{**WAITS, "status": {"containerStatuses": [{"state": state}]}}]


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    """Nodes, one of which is not ready since second 0."""
    with played_cloud() as cloud:
        found = Nodes(cloud, cast("Client", Server()), cluster=CLUSTER, network="aws-node", clock=lambda: 1.0)
        found.joined["node-1"] = Node("node-1", cast("Instance", SimpleNamespace(id="i-1")), cast("Client", None), 0.0)
        yield found


def test_an_instance_that_boots_has_no_outcome(nodes: Nodes) -> None:
    assert nodes.outcome("i-2") is None


def test_an_instance_that_never_joins(nodes: Nodes) -> None:
    nodes.never["i-2"] = "no route"

    assert nodes.outcome("i-2") == "no route"


def test_a_node_that_is_ready(nodes: Nodes) -> None:
    nodes.joined["node-1"].ready = True

    assert nodes.outcome("i-1") == ""


def test_a_node_waits_for_its_network_and_is_unhealthy_after_a_while(nodes: Nodes) -> None:
    assert nodes.outcome("i-1") is None

    nodes.joined["node-1"].since = 1.0 - UNHEALTHY_SECONDS

    assert nodes.outcome("i-1") == f"node node-1 isn't ready: no ready pod of aws-node; {WHY}"


def test_a_network_that_is_not_there_may_come_later(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "has_network", False)

    assert nodes.outcome("i-1") == ""
