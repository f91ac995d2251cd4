"""DaemonSets of AWS's charts, rendered with Helm 4.2 from the tagged sources, and of the EKS add-ons built from them.

An add-on's configuration has the names of its chart's values, as the user guide shows for vpc-cni, the Pod Identity
agent and the storage drivers: https://docs.aws.amazon.com/eks/latest/userguide/eks-add-ons.html.
"""

from __future__ import annotations

from dataclasses import replace

from gpu_constructs.facts.software.instance_lists import (
    DCGM_SERVER,
    DCGM_SERVER_1_6_1,
    DCGM_SERVER_1_6_6,
    DRANET,
    EFA_DEVICE_PLUGIN,
)
from gpu_constructs.facts.software.model import Container, KnownDaemonSet, KnownSoftware, Switch
from gpu_constructs.facts.software.terms import (
    CRITICAL_ADDONS,
    EVERYTHING,
    FOR_FIVE_MINUTES,
    LINUX,
    expression,
    not_on,
    term,
    tolerates,
)

_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_ANY_ARCHITECTURE = expression("kubernetes.io/arch", "In", ["amd64", "arm64"])
_ON_LINUX = expression("kubernetes.io/os", "In", ["linux"])
_NAMES = ("nameOverride", "fullnameOverride")


def _chart(daemon_set: KnownDaemonSet, *versions: str, name: str = "") -> KnownSoftware:
    return KnownSoftware(
        name=name or daemon_set.name,
        versions=versions,
        daemon_sets=(daemon_set,),
        source=daemon_set.source,
        as_of=daemon_set.as_of,
    )


_EKS_CHARTS = "https://github.com/aws/eks-charts/tree/master/stable"
_EKS_CHARTS_AS_OF = "2026-08-03"

EFA = KnownDaemonSet(
    name="aws-efa-k8s-device-plugin",
    tolerations=(CRITICAL_ADDONS,),
    node_affinity=(term(expression(_INSTANCE_TYPE, "In", EFA_DEVICE_PLUGIN), not_on("auto")),),
    containers=(Container(requests={"cpu": "10m", "memory": "20Mi"}, path="resources"),),
    advertises=("vpc.amazonaws.com/efa",),
    tolerations_path="tolerations",
    tolerations_added=True,
    selector_path="nodeSelector",
    labels_path="supportedInstanceLabels",
    inexact_paths=_NAMES,
    source=f"{_EKS_CHARTS}/aws-efa-k8s-device-plugin",
    as_of=_EKS_CHARTS_AS_OF,
)
_DRANET = replace(
    EFA,
    name="aws-dranet",
    node_affinity=(term(expression(_INSTANCE_TYPE, "In", DRANET), not_on("auto")),),
    containers=(Container(requests={"cpu": "100m", "memory": "50Mi"}, path="resources"),),
    advertises=(),
    source=f"{_EKS_CHARTS}/aws-dranet",
)
_FLUENT_BIT = KnownDaemonSet(
    name="aws-for-fluent-bit",
    containers=(Container(requests={"cpu": "50m", "memory": "50Mi"}, path="resources"),),
    tolerations_path="tolerations",
    selector_path="nodeSelector",
    affinity_path="affinity",
    inexact_paths=_NAMES,
    source=f"{_EKS_CHARTS}/aws-for-fluent-bit",
    as_of=_EKS_CHARTS_AS_OF,
)
_CLOUDWATCH_METRICS = replace(
    _FLUENT_BIT,
    name="aws-cloudwatch-metrics",
    containers=(Container(requests={"cpu": "200m", "memory": "200Mi"}, path="resources"),),
    source=f"{_EKS_CHARTS}/aws-cloudwatch-metrics",
)

_VPC_CNI = KnownDaemonSet(
    name="aws-node",
    tolerations=(EVERYTHING,),
    node_affinity=(term(_ON_LINUX, _ANY_ARCHITECTURE, not_on("fargate", "hybrid", "auto")),),
    containers=(
        Container(requests={"cpu": "25m"}, path="resources"),
        Container(requests={"cpu": "25m"}, path="resources", replacing_path="nodeAgent.resources"),
    ),
    tolerations_path="tolerations",
    selector_path="nodeSelector",
    affinity_path="affinity",
    inexact_paths=(*_NAMES, "nodeAgent.enabled"),
    source="https://github.com/aws/amazon-vpc-cni-k8s/tree/v1.23.0/charts/aws-vpc-cni",
    as_of="2026-08-20",
)
_VPC_CNI_VERSIONS = ("1.23.0", "1.22.4", "1.22.3", "1.22.2", "1.22.1", "1.21.2", "1.21.1")

# What the plain DaemonSet of a cluster looks like. The architectures that newer ones name were not read; every
# node of EKS has an image of it.
_KUBE_PROXY = KnownDaemonSet(
    name="kube-proxy",
    tolerations=(EVERYTHING,),
    node_affinity=(term(_ON_LINUX, not_on("fargate")),),
    containers=(Container(requests={"cpu": "100m"}, path="resources"),),
    source="https://github.com/eksctl-io/eksctl/blob/main/pkg/addons/default/testdata/sample-1.23.json",
    as_of="2026-08-21",
)

_POD_IDENTITY = KnownDaemonSet(
    name="eks-pod-identity-agent",
    tolerations=(EVERYTHING,),
    node_affinity=(term(_ON_LINUX, _ANY_ARCHITECTURE, not_on("fargate", "hybrid", "auto")),),
    containers=(Container(path="resources"),),
    switches=(Switch(path="daemonsets.cloud.create"),),
    tolerations_path="tolerations",
    selector_path="nodeSelector",
    affinity_path="affinity",
    inexact_paths=(*_NAMES, "daemonsets.cloud.affinity", "daemonsets.cloud.nameSuffix"),
    source="https://github.com/aws/eks-pod-identity-agent/tree/v0.1.37/charts/eks-pod-identity-agent",
    as_of="2026-03-17",
)

_DRIVER_REQUESTS = {"cpu": "10m", "memory": "40Mi"}
_SIDECAR_REQUESTS = {"cpu": "10m", "memory": "32Mi"}
_SIDECARS = ("nodeDriverRegistrar", "livenessProbe")


def _storage_driver(name: str, *compute_types: str, source: str, as_of: str) -> KnownDaemonSet:
    """Return the DaemonSet of a storage driver of a chart that tolerates everything unless told otherwise."""
    sidecars = (Container(requests=_SIDECAR_REQUESTS, path=f"sidecars.{each}.resources") for each in _SIDECARS)
    return KnownDaemonSet(
        name=name,
        tolerations=(EVERYTHING,),
        node_selector=LINUX,
        node_affinity=(term(not_on(*compute_types)),),
        containers=(Container(requests=_DRIVER_REQUESTS, path="node.resources"), *sidecars),
        tolerations_path="node.tolerations",
        tolerate_all_path="node.tolerateAllTaints",
        selector_path="node.nodeSelector",
        affinity_path="node.affinity",
        source=source,
        as_of=as_of,
    )


# With `node.tolerateAllTaints` off, what `node.tolerations` holds by default is left out here: it is NoExecute only.
_EBS = replace(
    _storage_driver(
        "ebs-csi-node",
        "fargate",
        "auto",
        "hybrid",
        source="https://github.com/kubernetes-sigs/aws-ebs-csi-driver/tree/v1.64.0/charts/aws-ebs-csi-driver",
        as_of="2026-08-19",
    ),
    containers=(
        Container(requests=_DRIVER_REQUESTS, path="node.resources"),
        *(Container(requests=_SIDECAR_REQUESTS, replacing_path=f"sidecars.{each}.resources") for each in _SIDECARS),
    ),
    tolerations_unless_all=tuple(
        tolerates(key)
        for key in (
            "ebs.csi.aws.com/agent-not-ready",
            "ToBeDeletedByClusterAutoscaler",
            "karpenter.sh/disrupted",
            "karpenter.sh/disruption",
        )
    ),
    switches=(Switch(path="node.enableLinux"),),
)
_EBS_VERSIONS = ("64.0", "63.1", "63.0", "62.0", "61.1", "60.1", "60.0", "59.0", "58.0", "57.1")

_FSX = replace(
    _storage_driver(
        "fsx-csi-node",
        "fargate",
        source="https://github.com/kubernetes-sigs/aws-fsx-csi-driver/tree/v1.9.0/charts/aws-fsx-csi-driver",
        as_of="2026-04-21",
    ),
    tolerations_unless_all=(tolerates("fsx.csi.aws.com/agent-not-ready"),),
)

_MOUNTPOINT = replace(
    _storage_driver(
        "s3-csi-node",
        "fargate",
        "hybrid",
        source="https://github.com/awslabs/mountpoint-s3-csi-driver/tree/v2.7.0/charts/aws-mountpoint-s3-csi-driver",
        as_of="2026-08-08",
    ),
    containers=(
        Container(requests=_DRIVER_REQUESTS, path="node.resources"),
        *(
            Container(requests=_DRIVER_REQUESTS, path="node.resources", replacing_path=f"sidecars.{each}.resources")
            for each in _SIDECARS
        ),
    ),
    tolerations_unless_all=(CRITICAL_ADDONS, tolerates("s3.csi.aws.com/agent-not-ready"), FOR_FIVE_MINUTES),
    inexact_paths=("node.defaultTolerations",),
)
_MOUNTPOINT_VERSIONS = ("2.7.0", "2.6.0", "2.5.0", "2.4.1", "2.4.0", "2.3.0", "2.2.2", "2.2.1")
# Before 2.0 it did not tolerate the taints of GPU nodes.
_MOUNTPOINT_1 = replace(
    _MOUNTPOINT,
    tolerations=(CRITICAL_ADDONS, FOR_FIVE_MINUTES),
    tolerations_path="",
    tolerate_all_path="",
    tolerations_unless_all=(),
    inexact_paths=("node.tolerateAllTaints", "node.defaultTolerations", "node.tolerations"),
    source="https://github.com/awslabs/mountpoint-s3-csi-driver/tree/v1.15.0/charts/aws-mountpoint-s3-csi-driver",
)

_EFS = KnownDaemonSet(
    name="efs-csi-node",
    tolerations=(EVERYTHING,),
    node_selector=LINUX,
    node_affinity=(term(not_on("fargate", "hybrid")),),
    containers=(
        Container(path="node.resources"),
        *(Container(path=f"sidecars.{each}.resources") for each in _SIDECARS),
    ),
    tolerations_path="node.tolerations",
    selector_path="node.nodeSelector",
    affinity_path="node.affinity",
    source="https://github.com/kubernetes-sigs/aws-efs-csi-driver/tree/v3.4.1/charts/aws-efs-csi-driver",
    as_of="2026-07-24",
)

_MONITORING_SOURCE = "https://github.com/aws/eks-node-monitoring-agent/tree/v1.7.0/charts"
_MONITORED = (
    not_on("fargate", "auto", "hybrid"),
    expression("sagemaker.amazonaws.com/compute-type", "NotIn", ["hyperpod"]),
)
_MONITORING_AGENT = KnownDaemonSet(
    name="eks-node-monitoring-agent",
    tolerations=(EVERYTHING,),
    node_selector=LINUX,
    node_affinity=(term(*_MONITORED, _ANY_ARCHITECTURE),),
    containers=(Container(requests={"cpu": "10m", "memory": "30Mi"}, path="nodeAgent.resources"),),
    tolerations_path="nodeAgent.tolerations",
    selector_path="nodeAgent.nodeSelector",
    affinity_path="nodeAgent.affinity",
    source=_MONITORING_SOURCE,
    as_of="2026-08-04",
)


def _node_monitoring(dcgm_types: tuple[str, ...], *versions: str) -> KnownSoftware:
    types = expression(_INSTANCE_TYPE, "In", dcgm_types)
    dcgm = replace(
        _MONITORING_AGENT,
        name="dcgm-server",
        tolerations=(),
        node_affinity=(term(types, *_MONITORED, expression("kubernetes.io/arch", "In", ["amd64"])),),
        containers=(Container(path="dcgmAgent.resources"),),
        tolerations_path="dcgmAgent.tolerations",
        selector_path="dcgmAgent.nodeSelector",
        affinity_path="dcgmAgent.affinity",
    )
    both = (_MONITORING_AGENT, dcgm)
    return replace(_chart(_MONITORING_AGENT, *versions), daemon_sets=both)


_NODE_MONITORING = (
    _node_monitoring(DCGM_SERVER, "1.7.0", "1.6.7"),
    _node_monitoring(DCGM_SERVER_1_6_6, "1.6.6", "1.6.5", "1.6.4", "1.6.3", "1.6.2"),
    _node_monitoring(DCGM_SERVER_1_6_1, "1.6.1"),
)

# In queue mode a Deployment reads the events of a queue, and no DaemonSet those of its own node.
_TERMINATION_HANDLER = KnownDaemonSet(
    name="aws-node-termination-handler",
    tolerations=(EVERYTHING,),
    node_selector=LINUX,
    node_affinity=(term(not_on("fargate")),),
    containers=(Container(path="resources"),),
    switches=(Switch(path="enableSqsTerminationDraining", on=False, default=False),),
    tolerations_path="daemonsetTolerations,tolerations",
    selector_path="daemonsetNodeSelector,nodeSelector,linuxNodeSelector",
    affinity_path="daemonsetAffinity",
    inexact_paths=(*_NAMES, "targetNodeOs"),
    source="https://github.com/aws/aws-node-termination-handler/tree/v1.25.6/config/helm/aws-node-termination-handler",
    as_of="2026-04-02",
)

CHARTS = (
    _chart(EFA, "0.5.30"),
    _chart(_DRANET, "1.0.0"),
    _chart(_FLUENT_BIT, "0.2.0"),
    _chart(_CLOUDWATCH_METRICS, "0.0.11"),
    _chart(_VPC_CNI, *_VPC_CNI_VERSIONS, name="aws-vpc-cni"),
    _chart(_POD_IDENTITY, "1.2.0"),
    _chart(_EBS, *(f"2.{each}" for each in _EBS_VERSIONS), name="aws-ebs-csi-driver"),
    _chart(_FSX, "1.17.0", "1.16.0", "1.15.0", "1.14.0", name="aws-fsx-csi-driver"),
    _chart(_MOUNTPOINT, *_MOUNTPOINT_VERSIONS, name="aws-mountpoint-s3-csi-driver"),
    _chart(_MOUNTPOINT_1, "1.15.0", name="aws-mountpoint-s3-csi-driver"),
    _chart(_EFS, "4.4.1", "4.4.0", "4.3.0", "4.2.0", "4.1.0", "4.0.1", "4.0.0", name="aws-efs-csi-driver"),
    *_NODE_MONITORING,
    _chart(_TERMINATION_HANDLER, "0.27.6", "0.27.5", "0.27.4", "0.27.3", "0.27.2", "0.27.1", "0.27.0", "0.26.0"),
)
ADDONS = (
    _chart(_VPC_CNI, *_VPC_CNI_VERSIONS, name="vpc-cni"),
    _chart(_KUBE_PROXY, "1.23.1"),
    # The add-on's versions are not the chart's, which has not changed since the first of these.
    _chart(_POD_IDENTITY, name="eks-pod-identity-agent"),
    _chart(_EBS, *(f"1.{each}" for each in _EBS_VERSIONS), name="aws-ebs-csi-driver"),
    _chart(_FSX, "1.9.0", "1.8.0", "1.7.0", name="aws-fsx-csi-driver"),
    _chart(_MOUNTPOINT, *_MOUNTPOINT_VERSIONS, name="aws-mountpoint-s3-csi-driver"),
    _chart(_MOUNTPOINT_1, "1.15.0", name="aws-mountpoint-s3-csi-driver"),
    _chart(_EFS, "3.4.1", "3.4.0", "3.3.0", "3.2.0", "3.1.0", "3.0.1", "3.0.0", name="aws-efs-csi-driver"),
    *_NODE_MONITORING,
)
