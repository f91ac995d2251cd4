"""DaemonSets of Node Feature Discovery, which is part of NVIDIA's charts."""

from __future__ import annotations

from gpu_facts.software.model import (
    Container,
    KnownDaemonSet,
    Nodes,
    Switch,
    Tolerations,
)

# Requests of Node Feature Discovery's worker and topology updater from 0.16. Older versions have none.
_WORKER = {"cpu": "5m", "memory": "64Mi"}
_UPDATER = {"cpu": "50m", "memory": "40Mi"}


def node_feature_discovery(
    chart: str,
    part: str,
    tolerations: Tolerations,
    switch: Switch,
    *,
    asks: bool = True,
    source: str,
    as_of: str,
) -> tuple[KnownDaemonSet, KnownDaemonSet]:
    """Return the DaemonSets of Node Feature Discovery inside another chart. The second is off by default.

    Source: kubernetes-sigs/node-feature-discovery deployment/helm/node-feature-discovery, as it is packed into the
    charts of each row: v0.12.1, v0.15.3, v0.16.3, v0.16.6, v0.17.2, v0.17.3, v0.18.2, v0.18.3 and v0.19.0
    """
    updater_switch = f"{part}.topologyUpdater.enable"
    worker = KnownDaemonSet(
        name=f"{chart}-node-feature-discovery-worker",
        tolerations=tolerations,
        nodes=Nodes.from_part(f"{part}.worker"),
        containers=(Container(requests=_WORKER if asks else {}, path=f"{part}.worker.resources"),),
        switches=(switch, Switch(path=f"{part}.worker.enable")),
        source=source,
        as_of=as_of,
    )
    updater = KnownDaemonSet(
        name=f"{chart}-node-feature-discovery-topology-updater",
        tolerations=Tolerations.from_part(f"{part}.topologyUpdater"),
        nodes=Nodes.from_part(f"{part}.topologyUpdater"),
        containers=(Container(requests=_UPDATER if asks else {}, path=f"{part}.topologyUpdater.resources"),),
        switches=(switch, Switch(path=updater_switch, default=False)),
        source=source,
        as_of=as_of,
    )
    return worker, updater
