"""Servers: pods that stay until they are taken away, as hardship must find somebody whom it meets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gpu_constructs.rehearsal.players.cluster.client import Client, Object
from gpu_constructs.rehearsal.players.cluster.pod.status import is_ready
from gpu_constructs.rehearsal.pools import Asked
from gpu_constructs.rehearsal.scenes.waiting import wait_for
from gpu_constructs.rehearsal.scenes.witnesses import claims_of, nodes_of, said_of
from gpu_constructs.rehearsal.stage import Stage

_LABEL = "rehearsal.gpu-constructs.io/server"
_PODS = "/api/v1/namespaces/default/pods"
GONE_SECONDS = 120.0


class Servers:
    """Pods of one Deployment, each with one device of a pool.

    Args:
        stage: Where.
        pool: The pool.
        name: Name of the Deployment.
    """

    def __init__(self, stage: Stage, pool: Asked, name: str) -> None:
        self.pool, self.name = pool, name
        self._stage, self._client = stage, stage.client
        self._path = f"/apis/apps/v1/namespaces/default/deployments/{name}"

    @property
    def pods(self) -> list[Object]:
        """Those that shall go on: who is being ended counts no more."""
        found = self._client.list(_PODS, labelSelector=f"{_LABEL}={self.name}")
        return [each for each in found if "deletionTimestamp" not in each["metadata"]]

    @property
    def ready(self) -> list[Object]:
        """Those that serve."""
        return [each for each in self.pods if is_ready(each)]

    @property
    def waiting(self) -> list[Object]:
        """Those that do not."""
        return [each for each in self.pods if not is_ready(each)]

    @property
    def nodes(self) -> list[Object]:
        """Nodes of the pool."""
        return nodes_of(self._client, self.pool)

    def node_of(self, pod: Object) -> Object:
        """Return the node on which a pod runs."""
        return self._client.get(f"/api/v1/nodes/{pod['spec']['nodeName']}")

    def ask_for(self, count: int) -> None:
        """Have so many of them."""
        self._client.patch(self._path, {"spec": {"replicas": count}})

    def come(self, count: int, seconds: float) -> bool:
        """Wait until so many serve, and return whether they came."""
        return wait_for(lambda: len(self.ready) >= count or None, seconds) is not None

    def said(self) -> str:
        """Return what is said of the first that does not serve."""
        return next((said_of(self._stage, self.pool, each) for each in self.waiting), "every pod serves")


@contextmanager
def servers(stage: Stage, pool: Asked, name: str, *, count: int = 1) -> Iterator[Servers]:
    """Have servers on a pool; afterwards they are gone, and their nodes too.

    Args:
        stage: Where.
        pool: The pool.
        name: Name of their Deployment.
        count: How many.
    """
    made = Servers(stage, pool, name)
    deployment = _deployment(pool, name, count)
    stage.client.create(deployment)
    try:
        yield made
    finally:
        stage.client.delete(stage.client.path_of(deployment))
        for claim in claims_of(stage.client, pool):
            stage.client.delete(f"/apis/karpenter.sh/v1/nodeclaims/{claim['metadata']['name']}")
        wait_for(lambda: not (made.nodes or claims_of(stage.client, pool)) or None, GONE_SECONDS)


def device_count(client: Client, node: Object, resource: str) -> int:
    """Return how many devices of a kind a node has."""
    found = client.get(f"/api/v1/nodes/{node['metadata']['name']}")
    return int(found["status"].get("allocatable", {}).get(resource, 0))


def _deployment(pool: Asked, name: str, count: int) -> Object:
    labels = {_LABEL: name}
    pod = {
        "nodeSelector": pool.selector,
        "tolerations": pool.tolerations,
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "rehearsal", "resources": {"limits": {pool.resource: "1"}}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
