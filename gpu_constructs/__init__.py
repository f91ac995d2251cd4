"""GPU clusters on EKS as code.

Names are loaded when they are first used, so that the values and the catalogue never load the CDK.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gpu_constructs._version import __version__ as __version__

if TYPE_CHECKING:
    from gpu_constructs.autoscaling.auto_mode_node_pool import AutoModeNodePool
    from gpu_constructs.autoscaling.cluster_autoscaler import ClusterAutoscaler
    from gpu_constructs.autoscaling.karpenter import Karpenter
    from gpu_constructs.autoscaling.karpenter_node_pool import KarpenterNodePool
    from gpu_constructs.cluster.auto_mode import AutoMode
    from gpu_constructs.cluster.gpu_cluster import GpuCluster
    from gpu_constructs.cluster.network import gpu_vpc
    from gpu_constructs.cluster.private_endpoints import PrivateEndpoints
    from gpu_constructs.cluster.system_nodes import SystemNodes
    from gpu_constructs.cluster.volume_key import grant_volume_key
    from gpu_constructs.devices.device_plugin import DevicePlugin
    from gpu_constructs.devices.dra_driver import DraDriver
    from gpu_constructs.devices.efa_device_plugin import EfaDevicePlugin
    from gpu_constructs.devices.gpu_operator import GpuOperator
    from gpu_constructs.devices.shared_gpu_claim import SharedGpuClaim
    from gpu_constructs.facts.hardware.capability import find_instance_types
    from gpu_constructs.facts.hardware.catalogue import InstanceType, catalogue, instance_type
    from gpu_constructs.metrics.dcgm_exporter import DcgmExporter
    from gpu_constructs.metrics.managed_prometheus import ManagedPrometheus
    from gpu_constructs.metrics.prometheus_stack import PrometheusStack
    from gpu_constructs.nodes.bootstrap import Bootstrap
    from gpu_constructs.nodes.managed_node_group import ManagedNodeGroup
    from gpu_constructs.nodes.node_termination_handler import NodeTerminationHandler
    from gpu_constructs.nodes.self_managed_node_group import SelfManagedNodeGroup
    from gpu_constructs.nodes.zonal_node_groups import ZonalNodeGroups
    from gpu_constructs.pod_scaling.gpu_horizontal_autoscaler import GpuHorizontalAutoscaler
    from gpu_constructs.pod_scaling.keda import Keda
    from gpu_constructs.pod_scaling.prometheus_adapter import PrometheusAdapter
    from gpu_constructs.pod_scaling.rightsizing import CpuMemoryRightsizing, VerticalPodAutoscaler
    from gpu_constructs.pod_scaling.signals import Demand, GpuMemory, GpuUtilization, SqsQueue
    from gpu_constructs.pools.capacity import Capacity, CapacityBlock, OnDemand, Reservation, Spot
    from gpu_constructs.pools.custom_image import CustomImage
    from gpu_constructs.pools.disk import Disk
    from gpu_constructs.pools.disruption import Budget, Disruption
    from gpu_constructs.pools.gpu_claim import GpuClaim
    from gpu_constructs.pools.kubelet import Kubelet
    from gpu_constructs.pools.node_repair import NodeRepair, RepairOverride
    from gpu_constructs.pools.node_shape import NodeShape
    from gpu_constructs.pools.pool import Pool
    from gpu_constructs.pools.scaling_options import ScalingOptions
    from gpu_constructs.pools.sharing import Exclusive, Mig, Mps, Sharing, TimeSlicing
    from gpu_constructs.pools.taint import GPU_TAINT, Taint
    from gpu_constructs.queueing.gpu_queues import GpuQueues
    from gpu_constructs.queueing.kai import KaiQueues, KaiScheduler
    from gpu_constructs.queueing.kueue import Kueue
    from gpu_constructs.queueing.operators import Dynamo, JobSets, KubeRay, LeaderWorkerSets
    from gpu_constructs.queueing.team_queue import TeamQueue
    from gpu_constructs.synth_check import check_gpus
    from gpu_constructs.workloads.gpu_deployment import GpuDeployment
    from gpu_constructs.workloads.gpu_job import GpuJob
    from gpu_constructs.workloads.gpu_pod import GpuPod
    from gpu_constructs.workloads.kai_queue import KaiQueue
    from gpu_constructs.workloads.mpi_operator import MpiOperator
    from gpu_constructs.workloads.nccl_test import NcclTest
    from gpu_constructs.workloads.smoke_test import GpuSmokeTest

__all__ = [
    "GPU_TAINT",
    "AutoMode",
    "AutoModeNodePool",
    "Bootstrap",
    "Budget",
    "Capacity",
    "CapacityBlock",
    "ClusterAutoscaler",
    "CpuMemoryRightsizing",
    "CustomImage",
    "DcgmExporter",
    "Demand",
    "DevicePlugin",
    "Disk",
    "Disruption",
    "DraDriver",
    "Dynamo",
    "EfaDevicePlugin",
    "Exclusive",
    "GpuClaim",
    "GpuCluster",
    "GpuDeployment",
    "GpuHorizontalAutoscaler",
    "GpuJob",
    "GpuMemory",
    "GpuOperator",
    "GpuPod",
    "GpuQueues",
    "GpuSmokeTest",
    "GpuUtilization",
    "InstanceType",
    "JobSets",
    "KaiQueue",
    "KaiQueues",
    "KaiScheduler",
    "Karpenter",
    "KarpenterNodePool",
    "Keda",
    "KubeRay",
    "Kubelet",
    "Kueue",
    "LeaderWorkerSets",
    "ManagedNodeGroup",
    "ManagedPrometheus",
    "Mig",
    "MpiOperator",
    "Mps",
    "NcclTest",
    "NodeRepair",
    "NodeShape",
    "NodeTerminationHandler",
    "OnDemand",
    "Pool",
    "PrivateEndpoints",
    "PrometheusAdapter",
    "PrometheusStack",
    "RepairOverride",
    "Reservation",
    "ScalingOptions",
    "SelfManagedNodeGroup",
    "SharedGpuClaim",
    "Sharing",
    "Spot",
    "SqsQueue",
    "SystemNodes",
    "Taint",
    "TeamQueue",
    "TimeSlicing",
    "VerticalPodAutoscaler",
    "ZonalNodeGroups",
    "catalogue",
    "check_gpus",
    "find_instance_types",
    "gpu_vpc",
    "grant_volume_key",
    "instance_type",
]

_MODULES = {
    "AutoMode": "cluster.auto_mode",
    "AutoModeNodePool": "autoscaling.auto_mode_node_pool",
    "Bootstrap": "nodes.bootstrap",
    "Budget": "pools.disruption",
    "Capacity": "pools.capacity",
    "CapacityBlock": "pools.capacity",
    "ClusterAutoscaler": "autoscaling.cluster_autoscaler",
    "CpuMemoryRightsizing": "pod_scaling.rightsizing",
    "CustomImage": "pools.custom_image",
    "DcgmExporter": "metrics.dcgm_exporter",
    "Demand": "pod_scaling.signals",
    "DevicePlugin": "devices.device_plugin",
    "Disk": "pools.disk",
    "Disruption": "pools.disruption",
    "DraDriver": "devices.dra_driver",
    "Dynamo": "queueing.operators",
    "EfaDevicePlugin": "devices.efa_device_plugin",
    "Exclusive": "pools.sharing",
    "GPU_TAINT": "pools.taint",
    "GpuClaim": "pools.gpu_claim",
    "GpuCluster": "cluster.gpu_cluster",
    "GpuDeployment": "workloads.gpu_deployment",
    "GpuHorizontalAutoscaler": "pod_scaling.gpu_horizontal_autoscaler",
    "GpuJob": "workloads.gpu_job",
    "GpuMemory": "pod_scaling.signals",
    "GpuOperator": "devices.gpu_operator",
    "GpuPod": "workloads.gpu_pod",
    "GpuQueues": "queueing.gpu_queues",
    "GpuSmokeTest": "workloads.smoke_test",
    "GpuUtilization": "pod_scaling.signals",
    "InstanceType": "facts.hardware.catalogue",
    "JobSets": "queueing.operators",
    "KaiQueue": "workloads.kai_queue",
    "KaiQueues": "queueing.kai",
    "KaiScheduler": "queueing.kai",
    "Karpenter": "autoscaling.karpenter",
    "KarpenterNodePool": "autoscaling.karpenter_node_pool",
    "Keda": "pod_scaling.keda",
    "KubeRay": "queueing.operators",
    "Kubelet": "pools.kubelet",
    "Kueue": "queueing.kueue",
    "LeaderWorkerSets": "queueing.operators",
    "ManagedNodeGroup": "nodes.managed_node_group",
    "ManagedPrometheus": "metrics.managed_prometheus",
    "Mig": "pools.sharing",
    "MpiOperator": "workloads.mpi_operator",
    "Mps": "pools.sharing",
    "NcclTest": "workloads.nccl_test",
    "NodeRepair": "pools.node_repair",
    "NodeShape": "pools.node_shape",
    "NodeTerminationHandler": "nodes.node_termination_handler",
    "OnDemand": "pools.capacity",
    "Pool": "pools.pool",
    "PrivateEndpoints": "cluster.private_endpoints",
    "PrometheusAdapter": "pod_scaling.prometheus_adapter",
    "PrometheusStack": "metrics.prometheus_stack",
    "RepairOverride": "pools.node_repair",
    "Reservation": "pools.capacity",
    "ScalingOptions": "pools.scaling_options",
    "SelfManagedNodeGroup": "nodes.self_managed_node_group",
    "SharedGpuClaim": "devices.shared_gpu_claim",
    "Sharing": "pools.sharing",
    "Spot": "pools.capacity",
    "SqsQueue": "pod_scaling.signals",
    "SystemNodes": "cluster.system_nodes",
    "Taint": "pools.taint",
    "TeamQueue": "queueing.team_queue",
    "TimeSlicing": "pools.sharing",
    "VerticalPodAutoscaler": "pod_scaling.rightsizing",
    "ZonalNodeGroups": "nodes.zonal_node_groups",
    "catalogue": "facts.hardware.catalogue",
    "check_gpus": "synth_check",
    "find_instance_types": "facts.hardware.capability",
    "gpu_vpc": "cluster.network",
    "grant_volume_key": "cluster.volume_key",
    "instance_type": "facts.hardware.catalogue",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
