"""The workloads of EKS add-ons: others by their names stand in for them, where EKS says that an add-on is installed."""

from __future__ import annotations

import json

from gpu_constructs.rehearsal.players.cluster.addon.table import WORKLOADS
from gpu_constructs.rehearsal.players.cluster.addon.workload import NAME_LABEL, NAMESPACE, Workload
from gpu_constructs.rehearsal.players.cluster.client import NOT_FOUND, Client, Refused
from gpu_constructs.rehearsal.players.cluster.cloud import Cloud
from gpu_constructs.rehearsal.players.cluster.loop import Loop
from gpu_constructs.rehearsal.players.cluster.pod.status import is_ready


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
        for name in self._installed:
            for workload in WORKLOADS[name]:
                if workload.removes:
                    self._open_nodes(workload)

    def _install(self, name: str, configuration: str) -> None:
        if name not in WORKLOADS:
            self.not_played.add(name)
        elif self._installed.get(name) != configuration:
            for workload in WORKLOADS[name]:
                for manifest in workload.manifests(name, json.loads(configuration)):
                    self._client.apply(manifest)
            self._installed[name] = configuration

    def _open_nodes(self, workload: Workload) -> None:
        """Take the startup taint of a driver off the nodes that its pods are ready on, as those do with their rights.

        Source: kubernetes-sigs/aws-ebs-csi-driver v1.64.0 pkg/driver/node.go ``removeNotReadyTaint``
        """
        pods = self._client.list(f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector=f"{NAME_LABEL}={workload.name}")
        for node in {each["spec"].get("nodeName", "") for each in pods if is_ready(each)}:
            found = self._client.find(f"/api/v1/nodes/{node}")
            taints = found["spec"].get("taints", []) if found is not None else []
            left = [each for each in taints if each["key"] != workload.removes]
            if len(left) < len(taints):
                try:
                    self._client.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": left}})
                except Refused as refused:
                    # The node went meanwhile.
                    if refused.status != NOT_FOUND:
                        raise

    def _remove(self, name: str) -> None:
        for workload in WORKLOADS[name]:
            plural = "daemonsets" if workload.replicas is None else "deployments"
            self._client.delete(f"/apis/apps/v1/namespaces/{NAMESPACE}/{plural}/{workload.name}")
        del self._installed[name]
