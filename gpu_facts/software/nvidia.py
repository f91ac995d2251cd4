"""DaemonSets of NVIDIA's other charts, rendered with Helm 4.2 from the tagged sources."""

from __future__ import annotations

from gpu_facts import charts, labels
from gpu_facts.software.model import (
    GPU,
    Container,
    KnownDaemonSet,
    KnownSoftware,
    Nodes,
    Switch,
    Tolerations,
    any_label,
    enabled,
    tolerates,
)
from gpu_facts.software.nvidia_nodes import (
    GPU_PRESENT,
    NVIDIA_CPU,
    NVIDIA_DEVICE,
    NVIDIA_DISPLAYS,
)

_NAMES = ("nameOverride", "fullnameOverride")

_DRA_SOURCE = (
    "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/v0.4.1/deployments/helm/dra-driver-nvidia-gpu"
)
DRA_DRIVER = KnownSoftware(
    name=charts.DRA_DRIVER,
    versions=("0.4.1",),
    daemon_sets=(
        KnownDaemonSet(
            name=f"{charts.DRA_DRIVER}-kubelet-plugin",
            tolerations=Tolerations.from_part("kubeletPlugin", GPU),
            nodes=Nodes.from_part(
                "kubeletPlugin", *any_label(NVIDIA_DEVICE, *NVIDIA_DISPLAYS, NVIDIA_CPU, GPU_PRESENT)
            ),
            containers=(
                *(
                    Container(
                        path=f"kubeletPlugin.containers.{part}.resources", switches=(enabled(f"resources.{part}"),)
                    )
                    for part in ("computeDomains", "gpus")
                ),
            ),
            inexact_paths=_NAMES,
            source=_DRA_SOURCE,
            as_of="2026-06-30",
        ),
    ),
    source=_DRA_SOURCE,
    as_of="2026-06-30",
)

_EXPORTER_SOURCE = "https://github.com/NVIDIA/dcgm-exporter/tree/4.5.3-4.8.2/deployment"
DCGM_EXPORTER = KnownSoftware(
    name=charts.DCGM_EXPORTER,
    versions=("4.8.2", "4.8.1", "4.8.0", "4.7.1", "4.7.0"),
    daemon_sets=(
        KnownDaemonSet(
            name=charts.DCGM_EXPORTER,
            tolerations=Tolerations.from_part("", tolerates(labels.CONTROL_PLANE, effect="NoSchedule")),
            nodes=Nodes.from_part(""),
            containers=(Container(requests={"cpu": "100m", "memory": "128Mi"}, path="resources"),),
            inexact_paths=_NAMES,
            source=_EXPORTER_SOURCE,
            as_of="2026-05-12",
        ),
    ),
    source=_EXPORTER_SOURCE,
    as_of="2026-05-12",
)

_KAI_SOURCE = (
    "https://github.com/kai-scheduler/KAI-Scheduler/tree/v0.17.0/pkg/operator/operands/numa_placement_exporter"
)
KAI_SCHEDULER = KnownSoftware(
    name=charts.KAI_SCHEDULER,
    versions=("0.17.0",),
    daemon_sets=(
        KnownDaemonSet(
            name="numa-placement-exporter",
            tolerations=Tolerations.from_part("numaPlacementExporter"),
            nodes=Nodes(
                selector={f"{labels.NODE_FEATURE}memory-numa": "true"}, affinity_path="numaPlacementExporter.affinity"
            ),
            containers=(Container(requests={"cpu": "50m", "memory": "64Mi"}, path="numaPlacementExporter.resources"),),
            # By default it exists if the scheduler's NUMA plugin is on, which is off by default.
            switches=(Switch(path=("numaPlacementExporter.enabled", "scheduler.plugins.numa.enabled"), default=False),),
            # A selector in the values replaces the operator's own instead of adding to it.
            inexact_paths=("numaPlacementExporter.nodeSelector",),
            source=_KAI_SOURCE,
            as_of="2026-08-03",
        ),
    ),
    source=_KAI_SOURCE,
    as_of="2026-08-03",
)


CHARTS = (DRA_DRIVER, DCGM_EXPORTER, KAI_SCHEDULER)
