"""DaemonSets of AWS's charts, rendered with Helm 4.2 from the tagged sources, and of the EKS add-ons built from them.

An add-on's configuration has the names of its chart's values, as the user guide shows for vpc-cni, the Pod Identity
agent and the storage drivers: https://docs.aws.amazon.com/eks/latest/userguide/eks-add-ons.html.
"""

from __future__ import annotations

from dataclasses import replace

from gpu_facts import charts, labels, resources
from gpu_facts.software.model import (
    CRITICAL_ADDONS,
    EVERYTHING,
    FOR_FIVE_MINUTES,
    LINUX,
    Container,
    KnownDaemonSet,
    KnownSoftware,
    Nodes,
    Switch,
    Toleration,
    Tolerations,
    exclude_compute_types,
    expression,
    term,
    tolerates,
)


def _types(families: str) -> tuple[str, ...]:
    pairs = (each.split(":") for each in families.split(";"))
    return tuple(f"{family.strip()}.{size}" for family, sizes in pairs for size in sizes.split())


def _without(types: tuple[str, ...], families: str) -> tuple[str, ...]:
    return tuple(each for each in types if each.split(".")[0] not in families.split())


# Chart aws-efa-k8s-device-plugin v0.5.30: https://github.com/aws/eks-charts (2026-08-03)
EFA_DEVICE_PLUGIN = _types(
    """
    c5n: 18xlarge 9xlarge metal; c6a: 48xlarge metal; c6gn: 16xlarge; c6i: 32xlarge metal; c6id: 32xlarge metal;
    c6in: 32xlarge metal; c7a: 48xlarge metal-48xl; c7g: 16xlarge metal; c7gd: 16xlarge metal; c7gn: 16xlarge metal;
    c7i: 48xlarge metal-48xl; c8a: 48xlarge metal-48xl; c8g: 24xlarge 48xlarge metal-24xl metal-48xl; c8gb: 16xlarge
    24xlarge 48xlarge metal-24xl metal-48xl; c8gd: 24xlarge 48xlarge metal-24xl metal-48xl; c8gn: 16xlarge 24xlarge
    48xlarge metal-24xl metal-48xl; c8i: 48xlarge 96xlarge metal-48xl metal-96xl; c8ib: 48xlarge 96xlarge metal-48xl
    metal-96xl; c8id: 48xlarge 96xlarge metal-48xl metal-96xl; c8in: 48xlarge 96xlarge metal-48xl metal-96xl; c9g:
    48xlarge metal-48xl; c9gd: 48xlarge metal-48xl; dl2q: 24xlarge; f2: 48xlarge; g4dn: 12xlarge 16xlarge 8xlarge
    metal; g5: 12xlarge 16xlarge 24xlarge 48xlarge 8xlarge; g6: 12xlarge 16xlarge 24xlarge 48xlarge 8xlarge; g6e:
    12xlarge 16xlarge 24xlarge 48xlarge 8xlarge; g7: 12xlarge 24xlarge 48xlarge 8xlarge; g7e: 12xlarge 24xlarge
    48xlarge 8xlarge; gr6: 8xlarge; hpc6a: 48xlarge; hpc6id: 32xlarge; hpc7a: 12xlarge 24xlarge 48xlarge 96xlarge;
    hpc7g: 16xlarge 4xlarge 8xlarge; hpc8a: 96xlarge; i3en: 12xlarge 24xlarge metal; i4g: 16xlarge; i4i: 32xlarge
    metal; i7i: 24xlarge 48xlarge metal-48xl; i7ie: 48xlarge metal-48xl; i8g: 48xlarge metal-48xl; i8ge: 48xlarge
    metal-48xl; im4gn: 16xlarge; inf1: 24xlarge; m5dn: 24xlarge metal; m5n: 24xlarge metal; m5zn: 12xlarge metal;
    m6a: 48xlarge metal; m6i: 32xlarge metal; m6id: 32xlarge metal; m6idn: 32xlarge metal; m6in: 32xlarge metal;
    m7a: 48xlarge metal-48xl; m7g: 16xlarge metal; m7gd: 16xlarge metal; m7i: 48xlarge metal-48xl; m8a: 48xlarge
    metal-48xl; m8azn: 24xlarge metal-24xl; m8g: 24xlarge 48xlarge metal-24xl metal-48xl; m8gb: 16xlarge 24xlarge
    48xlarge metal-24xl metal-48xl; m8gd: 24xlarge 48xlarge metal-24xl metal-48xl; m8gn: 16xlarge 24xlarge 48xlarge
    metal-24xl metal-48xl; m8i: 48xlarge 96xlarge metal-48xl metal-96xl; m8ib: 48xlarge 96xlarge metal-48xl
    metal-96xl; m8id: 48xlarge 96xlarge metal-48xl metal-96xl; m8idb: 48xlarge 96xlarge metal-48xl metal-96xl;
    m8idn: 48xlarge 96xlarge metal-48xl metal-96xl; m8in: 48xlarge 96xlarge metal-48xl metal-96xl; m9g: 48xlarge
    metal-48xl; m9gd: 48xlarge metal-48xl; p3dn: 24xlarge; p4d: 24xlarge; p4de: 24xlarge; p5: 48xlarge 4xlarge; p5e:
    48xlarge; p5en: 48xlarge; p6-b200: 48xlarge; p6-b300: 48xlarge; p6e-gb200: 36xlarge; p6e-gb300: 36xlarge; r5dn:
    24xlarge metal; r5n: 24xlarge metal; r6a: 48xlarge metal; r6i: 32xlarge metal; r6id: 32xlarge metal; r6idn:
    32xlarge metal; r6in: 32xlarge metal; r7a: 48xlarge metal-48xl; r7g: 16xlarge metal; r7gd: 16xlarge metal; r7i:
    48xlarge metal-48xl; r7iz: 32xlarge metal-32xl; r8a: 48xlarge metal-48xl; r8g: 24xlarge 48xlarge metal-24xl
    metal-48xl; r8gb: 16xlarge 24xlarge 48xlarge metal-24xl metal-48xl; r8gd: 24xlarge 48xlarge metal-24xl
    metal-48xl; r8gn: 16xlarge 24xlarge 48xlarge metal-24xl metal-48xl; r8i: 48xlarge 96xlarge metal-48xl
    metal-96xl; r8ib: 48xlarge 96xlarge metal-48xl metal-96xl; r8id: 48xlarge 96xlarge metal-48xl metal-96xl; r8idb:
    48xlarge 96xlarge metal-48xl metal-96xl; r8idn: 48xlarge 96xlarge metal-48xl metal-96xl; r8in: 48xlarge 96xlarge
    metal-48xl metal-96xl; trn1: 32xlarge; trn1n: 32xlarge; trn2: 3xlarge 48xlarge; trn2-ac: 24xlarge; trn2u:
    48xlarge; trn2u-ac: 24xlarge; u7i-12tb: 224xlarge; u7i-6tb: 112xlarge; u7i-8tb: 112xlarge; u7in-16tb: 224xlarge;
    u7in-24tb: 224xlarge; u7in-32tb: 224xlarge; vt1: 24xlarge; x2idn: 32xlarge metal; x2iedn: 32xlarge metal;
    x2iezn: 12xlarge metal; x8aedz: 24xlarge metal-24xl; x8g: 24xlarge 48xlarge metal-24xl metal-48xl; x8i: 48xlarge
    64xlarge 96xlarge metal-48xl metal-96xl
    """
)
# Chart aws-dranet 1.0.0: https://github.com/aws/eks-charts (2026-08-03)
DRANET = _without(
    EFA_DEVICE_PLUGIN, "c8ib c8in c9g c9gd g7 m8ib m8idb m8idn m8in m9g m9gd r8ib r8idb r8idn r8in"
) + _types(
    "dl1: 24xlarge; trn3: 48xlarge; trn3-dev0: 48xlarge; trn3-dev1: 48xlarge; trn3p: 48xlarge; trn3pd98: 48xlarge; "
    "trn3s: 48xlarge"
)
# The types with NVIDIA GPUs that eksctl's copy of the plugin selects: eksctl-io/eksctl 99984adb6
# pkg/addons/assets/efa-device-plugin.yaml (2026-08-21)
EKSCTL_EFA_DEVICE_PLUGIN = _types(
    """
    g4dn: 12xlarge 16xlarge 8xlarge metal; g5: 12xlarge 16xlarge 24xlarge 48xlarge 8xlarge; g6: 12xlarge 16xlarge
    24xlarge 48xlarge 8xlarge; g6e: 12xlarge 16xlarge 24xlarge 48xlarge 8xlarge; gr6: 8xlarge; p3dn: 24xlarge; p4d:
    24xlarge; p4de: 24xlarge; p5: 48xlarge; p5e: 48xlarge; p5en: 48xlarge
    """
)
# Chart eks-node-monitoring-agent v1.7.0: https://github.com/aws/eks-node-monitoring-agent (2026-08-04)
DCGM_SERVER = _types(
    """
    g3: 16xlarge 4xlarge 8xlarge; g3s: xlarge; g4dn: 12xlarge 16xlarge 2xlarge 4xlarge 8xlarge metal xlarge; g5:
    12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge xlarge; g5g: 16xlarge 2xlarge 4xlarge 8xlarge metal
    xlarge; g6: 12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge xlarge; g6e: 12xlarge 16xlarge 24xlarge
    2xlarge 48xlarge 4xlarge 8xlarge xlarge; g6f: 2xlarge 4xlarge large xlarge; g7: 12xlarge 24xlarge 2xlarge
    48xlarge 4xlarge 8xlarge; g7e: 12xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge; gr6: 4xlarge 8xlarge; gr6f:
    4xlarge; p2: 16xlarge 8xlarge xlarge; p3: 16xlarge 2xlarge 8xlarge; p3dn: 24xlarge; p4d: 24xlarge; p4de:
    24xlarge; p5: 48xlarge 4xlarge; p5e: 48xlarge; p5en: 48xlarge; p6-b200: 48xlarge; p6-b300: 48xlarge; p6e-gb200:
    36xlarge; p6e-gb300: 36xlarge
    """
)
DCGM_SERVER_1_6_6 = _without(DCGM_SERVER, "g7")
DCGM_SERVER_1_6_1 = _without(DCGM_SERVER, "g7 g7e")
# Chart amazon-cloudwatch-observability 6.4.0: https://github.com/aws-observability/helm-charts (2026-08-07)
_CLOUDWATCH_DCGM = _types(
    """
    g3: 16xlarge 4xlarge 8xlarge; g3s: xlarge; g4ad: 16xlarge 2xlarge 4xlarge 8xlarge xlarge; g4dn: 12xlarge
    16xlarge 2xlarge 4xlarge 8xlarge metal xlarge; g5: 12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge
    xlarge; g5g: 16xlarge 2xlarge 4xlarge 8xlarge metal xlarge; g6: 12xlarge 16xlarge 24xlarge 2xlarge 48xlarge
    4xlarge 8xlarge xlarge; g6e: 12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge xlarge; gr6: 4xlarge
    8xlarge; p2: 16xlarge 8xlarge xlarge; p3: 16xlarge 2xlarge 8xlarge; p3dn: 24xlarge; p4d: 24xlarge; p4de:
    24xlarge; p5: 48xlarge; p5e: 48xlarge; p5en: 48xlarge; p6-b200: 48xlarge; p6-b300: 48xlarge; p6e-gb200: 36xlarge
    """
)
CLOUDWATCH_DCGM = _CLOUDWATCH_DCGM + tuple(f"ml.{each}" for each in _without(_CLOUDWATCH_DCGM, "p6-b300"))
CLOUDWATCH_NEURON = _types(
    """
    inf1: 24xlarge 2xlarge 6xlarge xlarge; inf2: 24xlarge 48xlarge 8xlarge xlarge; ml: inf1.24xlarge inf1.2xlarge
    inf1.6xlarge inf1.xlarge inf2.24xlarge inf2.48xlarge inf2.8xlarge inf2.xlarge trn1.2xlarge trn1.32xlarge
    trn1n.32xlarge; trn1: 2xlarge 32xlarge; trn1n: 32xlarge; trn2: 3xlarge 48xlarge; trn2a: 48xlarge; trn2n:
    48xlarge; trn2u: 48xlarge
    """
)


_ANY_ARCHITECTURE = expression(labels.ARCH, "In", ["amd64", "arm64"])
_ON_LINUX = expression(labels.OS, "In", ["linux"])
_CLOUD_NODES = term(_ON_LINUX, _ANY_ARCHITECTURE, exclude_compute_types("fargate", "hybrid", "auto"))
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


def _efa_nodes(types: tuple[str, ...]) -> Nodes:
    """Return the nodes of types with EFA, except nodes of Auto Mode and nodes with other labels."""
    return Nodes(
        affinity=(term(expression(labels.INSTANCE_TYPE, "In", types), exclude_compute_types("auto")),),
        selector_path="nodeSelector",
        labels_path="supportedInstanceLabels",
    )


EFA = KnownDaemonSet(
    name=charts.EFA_DEVICE_PLUGIN,
    tolerations=Tolerations(default=(CRITICAL_ADDONS,), path="tolerations", added=True),
    nodes=_efa_nodes(EFA_DEVICE_PLUGIN),
    containers=(Container(requests={"cpu": "10m", "memory": "20Mi"}, path="resources"),),
    advertises=(resources.EFA,),
    inexact_paths=_NAMES,
    source=f"{_EKS_CHARTS}/{charts.EFA_DEVICE_PLUGIN}",
    as_of=_EKS_CHARTS_AS_OF,
)
_DRANET = replace(
    EFA,
    name=charts.DRANET,
    nodes=_efa_nodes(DRANET),
    containers=(Container(requests={"cpu": "100m", "memory": "50Mi"}, path="resources"),),
    advertises=(),
    source=f"{_EKS_CHARTS}/{charts.DRANET}",
)
_FLUENT_BIT = KnownDaemonSet(
    name="aws-for-fluent-bit",
    tolerations=Tolerations.from_part(""),
    nodes=Nodes.from_part(""),
    containers=(Container(requests={"cpu": "50m", "memory": "50Mi"}, path="resources"),),
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
    name=charts.AWS_NODE,
    tolerations=Tolerations.from_part("", EVERYTHING),
    nodes=Nodes.from_part("", _CLOUD_NODES),
    containers=(
        Container(requests={"cpu": "25m"}, path="resources"),
        Container(requests={"cpu": "25m"}, path="resources", replacing_path="nodeAgent.resources"),
    ),
    inexact_paths=(*_NAMES, "nodeAgent.enabled"),
    source="https://github.com/aws/amazon-vpc-cni-k8s/tree/v1.23.0/charts/aws-vpc-cni",
    as_of="2026-08-20",
)
_VPC_CNI_VERSIONS = ("1.23.0", "1.22.4", "1.22.3", "1.22.2", "1.22.1", "1.21.2", "1.21.1")

# The DaemonSet of a cluster with default settings. The architectures in newer ones were not read. Every EKS node has an
# image of it.
_KUBE_PROXY = KnownDaemonSet(
    name=charts.KUBE_PROXY,
    tolerations=Tolerations(default=(EVERYTHING,)),
    nodes=Nodes(affinity=(term(_ON_LINUX, exclude_compute_types("fargate")),)),
    containers=(Container(requests={"cpu": "100m"}, path="resources"),),
    source="https://github.com/eksctl-io/eksctl/blob/main/pkg/addons/default/testdata/sample-1.23.json",
    as_of="2026-08-21",
)

_POD_IDENTITY = KnownDaemonSet(
    name=charts.POD_IDENTITY_AGENT,
    tolerations=Tolerations.from_part("", EVERYTHING),
    nodes=Nodes.from_part("", _CLOUD_NODES),
    containers=(Container(path="resources"),),
    switches=(Switch(path="daemonsets.cloud.create"),),
    inexact_paths=(*_NAMES, "daemonsets.cloud.affinity", "daemonsets.cloud.nameSuffix"),
    source="https://github.com/aws/eks-pod-identity-agent/tree/v0.1.37/charts/eks-pod-identity-agent",
    as_of="2026-03-17",
)

_DRIVER_REQUESTS = {"cpu": "10m", "memory": "40Mi"}
_SIDECAR_REQUESTS = {"cpu": "10m", "memory": "32Mi"}
_SIDECARS = ("nodeDriverRegistrar", "livenessProbe")


def _storage_driver(
    name: str, *compute_types: str, unless_all: tuple[Toleration, ...], source: str, as_of: str
) -> KnownDaemonSet:
    """Return the DaemonSet of a storage driver whose chart tolerates everything by default."""
    sidecars = (Container(requests=_SIDECAR_REQUESTS, path=f"sidecars.{each}.resources") for each in _SIDECARS)
    return KnownDaemonSet(
        name=name,
        tolerations=replace(
            Tolerations.from_part("node", EVERYTHING), all_path="node.tolerateAllTaints", unless_all=unless_all
        ),
        nodes=Nodes.from_part("node", term(exclude_compute_types(*compute_types)), selector=LINUX),
        containers=(Container(requests=_DRIVER_REQUESTS, path="node.resources"), *sidecars),
        source=source,
        as_of=as_of,
    )


# With `node.tolerateAllTaints` off, the default of `node.tolerations` is left out here, because it is only NoExecute.
_EBS = replace(
    _storage_driver(
        charts.EBS_NODE,
        "fargate",
        "auto",
        "hybrid",
        unless_all=tuple(
            tolerates(key)
            for key in (
                labels.EBS_NOT_READY,
                "ToBeDeletedByClusterAutoscaler",
                f"{labels.KARPENTER_DOMAIN}/disrupted",
                f"{labels.KARPENTER_DOMAIN}/disruption",
            )
        ),
        source="https://github.com/kubernetes-sigs/aws-ebs-csi-driver/tree/v1.64.0/charts/aws-ebs-csi-driver",
        as_of="2026-08-19",
    ),
    containers=(
        Container(requests=_DRIVER_REQUESTS, path="node.resources"),
        *(Container(requests=_SIDECAR_REQUESTS, replacing_path=f"sidecars.{each}.resources") for each in _SIDECARS),
    ),
    switches=(Switch(path="node.enableLinux"),),
)
_EBS_VERSIONS = ("64.0", "63.1", "63.0", "62.0", "61.1", "60.1", "60.0", "59.0", "58.0", "57.1")

_FSX = _storage_driver(
    charts.FSX_NODE,
    "fargate",
    unless_all=(tolerates(labels.FSX_NOT_READY),),
    source="https://github.com/kubernetes-sigs/aws-fsx-csi-driver/tree/v1.9.0/charts/aws-fsx-csi-driver",
    as_of="2026-04-21",
)

_MOUNTPOINT = replace(
    _storage_driver(
        charts.S3_NODE,
        "fargate",
        "hybrid",
        unless_all=(CRITICAL_ADDONS, tolerates(labels.S3_NOT_READY), FOR_FIVE_MINUTES),
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
    inexact_paths=("node.defaultTolerations",),
)
_MOUNTPOINT_VERSIONS = ("2.7.0", "2.6.0", "2.5.0", "2.4.1", "2.4.0", "2.3.0", "2.2.2", "2.2.1")
# Before 2.0 it didn't tolerate the taints of GPU nodes.
_MOUNTPOINT_1 = replace(
    _MOUNTPOINT,
    tolerations=Tolerations(default=(CRITICAL_ADDONS, FOR_FIVE_MINUTES)),
    inexact_paths=("node.tolerateAllTaints", "node.defaultTolerations", "node.tolerations"),
    source="https://github.com/awslabs/mountpoint-s3-csi-driver/tree/v1.15.0/charts/aws-mountpoint-s3-csi-driver",
)

_EFS = KnownDaemonSet(
    name=charts.EFS_NODE,
    tolerations=Tolerations.from_part("node", EVERYTHING),
    nodes=Nodes.from_part("node", term(exclude_compute_types("fargate", "hybrid")), selector=LINUX),
    containers=(
        Container(path="node.resources"),
        *(Container(path=f"sidecars.{each}.resources") for each in _SIDECARS),
    ),
    source="https://github.com/kubernetes-sigs/aws-efs-csi-driver/tree/v3.4.1/charts/aws-efs-csi-driver",
    as_of="2026-07-24",
)

_MONITORING_SOURCE = "https://github.com/aws/eks-node-monitoring-agent/tree/v1.7.0/charts"
_MONITORED = (
    exclude_compute_types("fargate", "auto", "hybrid"),
    expression("sagemaker.amazonaws.com/compute-type", "NotIn", ["hyperpod"]),
)
_MONITORING_AGENT = KnownDaemonSet(
    name=charts.NODE_MONITORING_AGENT,
    tolerations=Tolerations.from_part("nodeAgent", EVERYTHING),
    nodes=Nodes.from_part("nodeAgent", term(*_MONITORED, _ANY_ARCHITECTURE), selector=LINUX),
    containers=(Container(requests={"cpu": "10m", "memory": "30Mi"}, path="nodeAgent.resources"),),
    source=_MONITORING_SOURCE,
    as_of="2026-08-04",
)


def _node_monitoring(dcgm_types: tuple[str, ...], *versions: str) -> KnownSoftware:
    types = expression(labels.INSTANCE_TYPE, "In", dcgm_types)
    dcgm = replace(
        _MONITORING_AGENT,
        name=charts.DCGM_SERVER,
        tolerations=Tolerations.from_part("dcgmAgent"),
        nodes=Nodes.from_part(
            "dcgmAgent", term(types, *_MONITORED, expression(labels.ARCH, "In", ["amd64"])), selector=LINUX
        ),
        containers=(Container(path="dcgmAgent.resources"),),
    )
    both = (_MONITORING_AGENT, dcgm)
    return replace(_chart(_MONITORING_AGENT, *versions), daemon_sets=both)


_NODE_MONITORING = (
    _node_monitoring(DCGM_SERVER, "1.7.0", "1.6.7"),
    _node_monitoring(DCGM_SERVER_1_6_6, "1.6.6", "1.6.5", "1.6.4", "1.6.3", "1.6.2"),
    _node_monitoring(DCGM_SERVER_1_6_1, "1.6.1"),
)

# In queue mode a Deployment reads the events of a queue, and a DaemonSet doesn't read the events of its node.
_TERMINATION_HANDLER = KnownDaemonSet(
    name=charts.NODE_TERMINATION_HANDLER,
    tolerations=Tolerations(
        default=(EVERYTHING,), path="daemonsetTolerations", replacing_path=("linuxTolerations", "tolerations")
    ),
    nodes=Nodes(
        selector=LINUX,
        selector_path="daemonsetNodeSelector",
        replacing_selector_path=("linuxNodeSelector", "nodeSelector"),
        affinity=(term(exclude_compute_types("fargate")),),
        affinity_path="daemonsetAffinity",
        replacing_affinity_path=("linuxAffinity", "affinity"),
    ),
    containers=(Container(path="resources"),),
    switches=(Switch(path="enableSqsTerminationDraining", on=False, default=False),),
    inexact_paths=(*_NAMES, "targetNodeOs"),
    source="https://github.com/aws/aws-node-termination-handler/tree/v1.25.6/config/helm/aws-node-termination-handler",
    as_of="2026-04-02",
)

CHARTS = (
    _chart(EFA, "0.5.30"),
    _chart(_DRANET, "1.0.0"),
    _chart(_FLUENT_BIT, "0.2.0"),
    _chart(_CLOUDWATCH_METRICS, "0.0.11"),
    _chart(_VPC_CNI, *_VPC_CNI_VERSIONS, name=charts.VPC_CNI_CHART),
    _chart(_POD_IDENTITY, "1.2.0"),
    _chart(_EBS, *(f"2.{each}" for each in _EBS_VERSIONS), name=charts.EBS_CSI_DRIVER),
    _chart(_FSX, "1.17.0", "1.16.0", "1.15.0", "1.14.0", name=charts.FSX_CSI_DRIVER),
    _chart(_MOUNTPOINT, *_MOUNTPOINT_VERSIONS, name=charts.S3_CSI_DRIVER),
    _chart(_MOUNTPOINT_1, "1.15.0", name=charts.S3_CSI_DRIVER),
    _chart(_EFS, "4.4.1", "4.4.0", "4.3.0", "4.2.0", "4.1.0", "4.0.1", "4.0.0", name=charts.EFS_CSI_DRIVER),
    *_NODE_MONITORING,
    _chart(_TERMINATION_HANDLER, "0.27.6", "0.27.5", "0.27.4", "0.27.3", "0.27.2", "0.27.1", "0.27.0", "0.26.0"),
)
ADDONS = (
    _chart(_VPC_CNI, *_VPC_CNI_VERSIONS, name=charts.VPC_CNI),
    _chart(_KUBE_PROXY, "1.23.1"),
    # The add-on's versions differ from the chart's, which has not changed since the first of these.
    _chart(_POD_IDENTITY, name=charts.POD_IDENTITY_AGENT),
    _chart(_EBS, *(f"1.{each}" for each in _EBS_VERSIONS), name=charts.EBS_CSI_DRIVER),
    _chart(_FSX, "1.9.0", "1.8.0", "1.7.0", name=charts.FSX_CSI_DRIVER),
    _chart(_MOUNTPOINT, *_MOUNTPOINT_VERSIONS, name=charts.S3_CSI_DRIVER),
    _chart(_MOUNTPOINT_1, "1.15.0", name=charts.S3_CSI_DRIVER),
    _chart(_EFS, "3.4.1", "3.4.0", "3.3.0", "3.2.0", "3.1.0", "3.0.1", "3.0.0", name=charts.EFS_CSI_DRIVER),
    *_NODE_MONITORING,
)
