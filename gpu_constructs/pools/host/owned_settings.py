"""What users leave to their NodeShape: settings by which autoscalers judge a node, or that this library writes."""

from __future__ import annotations

from collections.abc import Mapping

_CLUSTER = "the cluster of the pool"
_KUBELET = "NodeShape(kubelet=Kubelet(...))"
_LABELS, _TAINTS = "NodeShape(labels=...)", "NodeShape(taints=...)"

# Fields of a NodeConfig by where they stand; nodeadm ignores others.
# Source: awslabs/amazon-eks-ami 81fec2e (2026-07-23) nodeadm/crds/node.eks.aws_nodeconfigs.yaml
KNOWN: Mapping[tuple[str, ...], tuple[str, ...]] = {
    (): ("cluster", "containerd", "featureGates", "instance", "kubelet"),
    ("containerd",): ("baseRuntimeSpec", "config"),
    ("featureGates",): ("InstanceIdNodeName", "FastImagePull"),
    ("instance",): ("environment", "localStorage", "network"),
    ("instance", "localStorage"): ("strategy", "mountPath", "disabledMounts"),
    ("instance", "network"): ("domains", "nameservers"),
    ("kubelet",): ("config", "flags", "maxPodsExpression"),
}
NODEADMS: Mapping[tuple[str, ...], str] = {
    ("cluster",): _CLUSTER,
    ("featureGates", "FastImagePull"): "NodeShape(soci=True)",
    ("instance", "localStorage", "strategy"): "NodeShape(raid0=...)",
    ("kubelet", "maxPodsExpression"): _KUBELET,
    ("kubelet", "config", "maxPods"): _KUBELET,
    ("kubelet", "config", "kubeReserved"): _KUBELET,
    ("kubelet", "config", "systemReserved"): _KUBELET,
    ("kubelet", "config", "maxParallelImagePulls"): _KUBELET,
    ("kubelet", "config", "registerWithTaints"): _TAINTS,
}
FLAGS: Mapping[str, str] = {
    "--node-labels": _LABELS,
    "--register-with-taints": _TAINTS,
    "--max-pods": _KUBELET,
    "--kube-reserved": _KUBELET,
    "--system-reserved": _KUBELET,
}
BOTTLEROCKETS: Mapping[tuple[str, ...], str] = {
    ("kubernetes", "cluster-name"): _CLUSTER,
    ("kubernetes", "api-server"): _CLUSTER,
    ("kubernetes", "cluster-certificate"): _CLUSTER,
    ("kubernetes", "cluster-dns-ip"): _CLUSTER,
    ("kubernetes", "node-labels"): _LABELS,
    ("kubernetes", "node-taints"): _TAINTS,
    ("kubernetes", "max-pods"): _KUBELET,
    ("kubernetes", "kube-reserved"): _KUBELET,
    ("kubernetes", "system-reserved"): _KUBELET,
    ("kubernetes", "max-parallel-image-pulls"): _KUBELET,
    ("kubelet-device-plugins", "nvidia"): "NodeShape(sharing=..., device_manager=...)",
    ("kernel", "sysctl", "vm.nr_hugepages"): "NodeShape(efa=True)",
    ("container-runtime", "snapshotter"): "NodeShape(soci=True)",
    ("container-runtime-plugins", "soci-snapshotter"): "NodeShape(soci=True)",
    ("bootstrap-commands", "000-mount-instance-storage"): "NodeShape(raid0=...)",
}
