"""A workload of an add-on that stands in for the real one: its name, where it runs and what it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_constructs.rehearsal.players.cluster.client import Object

NAMESPACE = "kube-system"
NAME_LABEL = "app.kubernetes.io/name"
# Parts of a configuration that change where a workload runs or what it asks for.
_OF_PODS = ("affinity", "nodeSelector", "tolerations", "priorityClassName")


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """A DaemonSet, or a Deployment where it has replicas.

    Attributes:
        name: Its name.
        account: Its service account.
        at: Where the add-on's configuration speaks of it.
        requests: What its container asks for.
        pod: The rest of its pods' specification.
        replicas: How many; ``None`` for a DaemonSet.
        removes: Key of the taint that its pod takes off its node; empty where there is none.
    """

    name: str
    account: str
    at: tuple[str, ...] = ()
    requests: Mapping[str, str] = field(default_factory=dict)
    pod: Mapping[str, Any] = field(default_factory=dict)
    replicas: int | None = None
    removes: str = ""

    def manifests(self, addon: str, configuration: Mapping[str, Any]) -> list[Object]:
        """Render it, with its service account.

        Args:
            addon: Name of the add-on.
            configuration: What the add-on is told.
        """
        told: Any = configuration
        for part in self.at:
            told = told.get(part) or {}
        labels = {"rehearsal.gpu-constructs.io/stands-in-for": addon, NAME_LABEL: self.name}
        metadata = {"name": self.name, "namespace": NAMESPACE, "labels": labels}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata | {"name": self.account}}
        template = {"metadata": {"labels": labels}, "spec": self._pod(addon, told)}
        spec: Object = {"selector": {"matchLabels": labels}, "template": template}
        if self.replicas is None:
            return [account, {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec}]
        spec["replicas"] = told.get("replicaCount", self.replicas)
        return [account, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}]

    def _pod(self, addon: str, told: Mapping[str, Any]) -> Object:
        requests = ((told.get("resources") or {}).get("requests")) or self.requests
        container = {"name": addon, "image": f"stand-in/{addon}", "resources": {"requests": dict(requests)}}
        changed = {key: told[key] for key in _OF_PODS if key in told}
        return {"serviceAccountName": self.account, "containers": [container]} | dict(self.pod) | changed
