"""The workloads of EKS add-ons: others by their names stand in for them, where EKS says that an add-on is installed."""

from __future__ import annotations

import json

from gpu_constructs.rehearsal.players.cluster.addon.table import WORKLOADS
from gpu_constructs.rehearsal.players.cluster.addon.workload import NAMESPACE
from gpu_constructs.rehearsal.players.cluster.client import Client
from gpu_constructs.rehearsal.players.cluster.cloud import Cloud
from gpu_constructs.rehearsal.players.cluster.loop import Loop


class Addons:
    """The add-ons of one cluster.

    Attributes:
        not_played: Add-ons whose workloads are not known here.

    Args:
        cloud: AWS.
        client: An administrator of the cluster.
        cluster: Its name.
    """

    def __init__(self, cloud: Cloud, client: Client, *, cluster: str) -> None:
        self._eks, self._client, self._cluster = cloud.client("eks"), client, cluster
        self.not_played: set[str] = set()
        self._installed: dict[str, str] = {}
        self.loop = Loop("add-ons", self.step, seconds=1.0)

    def __enter__(self) -> Addons:
        self.loop.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.stop()

    def step(self) -> None:
        """Bring the workloads to what EKS says now."""
        try:
            names = self._eks.list_addons(clusterName=self._cluster)["addons"]
        except self._eks.exceptions.ResourceNotFoundException:
            # There is no cluster yet, or none any more.
            return
        for name in names:
            told = self._eks.describe_addon(clusterName=self._cluster, addonName=name)["addon"]
            self._install(name, told.get("configurationValues") or "{}")
        for name in self._installed.keys() - set(names):
            self._remove(name)

    def _install(self, name: str, configuration: str) -> None:
        if name not in WORKLOADS:
            self.not_played.add(name)
        elif self._installed.get(name) != configuration:
            for workload in WORKLOADS[name]:
                for manifest in workload.manifests(name, json.loads(configuration)):
                    self._client.apply(manifest)
            self._installed[name] = configuration

    def _remove(self, name: str) -> None:
        for workload in WORKLOADS[name]:
            plural = "daemonsets" if workload.replicas is None else "deployments"
            self._client.delete(f"/apis/apps/v1/namespaces/{NAMESPACE}/{plural}/{workload.name}")
        del self._installed[name]
