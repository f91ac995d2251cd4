"""Names and formats that Kubernetes fixes: labels, conditions, kinds, queued pods.

What Kueue compares in the pods of a group that it manages: an update that changes it is rejected.

Source: kubernetes-sigs/kueue v0.19.2 pkg/util/pod/pod.go, pkg/controller/jobframework/validation.go and
pkg/controller/jobs/leaderworkerset/leaderworkerset_webhook.go (2026-11)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from gpu_facts import labels
from gpu_facts.light import regex

# Optional DNS prefix, then at most 63 characters.
# Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/ (2026-08)
QUALIFIED_NAME = regex(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
LABEL_VALUE = regex(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
# Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
_DNS_LABEL = regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DNS_SUBDOMAIN = regex(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
# Source: kubernetes/kubernetes v1.36.3 staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go
_DATA_KEY = regex(r"(?!\.\.)(?!\.\Z)[-._a-zA-Z0-9]{1,253}")
# A node gives itself no label of these domains, but those of kubelet's own and a few by name.
# Source: kubernetes/kubernetes v1.36.1 staging/src/k8s.io/kubelet/pkg/apis/well_known_labels.go
RESTRICTED_DOMAINS: Final = ("kubernetes.io", "k8s.io")
KUBELET_DOMAINS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
KUBELET_LABELS: Final = (
    labels.HOSTNAME,
    labels.ARCH,
    labels.OS,
    labels.OLD_ARCH,
    labels.OLD_OS,
    labels.OLD_INSTANCE_TYPE,
    labels.ZONE,
    labels.REGION,
    labels.OLD_ZONE,
    labels.OLD_REGION,
)
# EC2's names of CPU architectures, and those in labels of nodes.
ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}
# Source: https://kubernetes.io/docs/tasks/administer-cluster/guaranteed-scheduling-critical-addon-pods/ (2026-08)
CLUSTER_CRITICAL: Final = "system-cluster-critical"
NODE_CRITICAL: Final = "system-node-critical"
KUBE_SYSTEM: Final = "kube-system"
# Kinds of the training operator's jobs.
# Source: kubeflow/training-operator v1.9 pkg/apis/kubeflow.org/v1/
TRAINING_JOBS: Final = ("MPIJob", "PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob")
# The name that one container of each part must have; of an MPIJob any will do.
# Source: kubeflow/training-operator v1.9.0 pkg/webhooks/, v1.7.0 pkg/apis/kubeflow.org/v1/*_validation.go
TRAINING_CONTAINERS: Final = {
    "PyTorchJob": "pytorch",
    "TFJob": "tensorflow",
    "XGBoostJob": "xgboost",
    "PaddleJob": "paddle",
    "JAXJob": "jax",
}
# Conditions of the node monitoring agent, and those of kubelet that it passes on.
# Source: aws/eks-node-monitoring-agent v1.7.0 pkg/conditions/conditions.go
NodeCondition = Literal[
    "AcceleratedHardwareReady",
    "ContainerRuntimeReady",
    "DiskPressure",
    "KernelReady",
    "MemoryPressure",
    "NetworkingReady",
    "Ready",
    "StorageReady",
]
# Kinds of the whole cluster, of Kubernetes and of what runs GPUs, which a namespace says nothing of.
# Source: https://kubernetes.io/docs/reference/kubernetes-api/, definitions of Karpenter, Kueue, GPU Operator (2026-11)
# fmt: off
CLUSTER_SCOPED: Final = frozenset({
    "AdmissionCheck", "APIService", "ClusterPolicy", "ClusterQueue", "ClusterRole", "ClusterRoleBinding", "Cohort",
    "CSIDriver", "CustomResourceDefinition", "DeviceClass", "EC2NodeClass", "FlowSchema", "IngressClass",
    "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration", "Namespace", "Node",
    "NodeClass", "NodeClaim", "NodeOverlay", "NodePool", "NVIDIADriver", "PersistentVolume", "PriorityClass",
    "PriorityLevelConfiguration", "ResourceFlavor", "ResourceSlice", "RuntimeClass", "StorageClass", "Topology",
    "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration",
    "VolumeAttributesClass", "VolumeSnapshotClass", "WorkloadPriorityClass",
})
_FIELDS = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "runtimeClassName",
    "priority",
    "topologySpreadConstraints",
    "overhead",
    "resourceClaims",
)

def is_under(key: str, domains: Iterable[str]) -> bool:
    """Whether the key of a label is of one of some domains, or of a part of one."""
    domain = key.rpartition("/")[0]
    return any(domain == each or domain.endswith(f".{each}") for each in domains)


def refuse_unless_object_name(who: object, argument: str, name: object, *, fix: str = "") -> None:
    """Refuse what cannot be both the name of an object and a label value.

    Args:
        who: Who asks.
        argument: What the name is called.
        name: The name.
        fix: What to write instead of what is no string.

    Raises:
        TypeError: ``name`` is no string.
        ValueError: ``name`` is no DNS label.
    """
    if not isinstance(name, str):
        raise _no_string(who, argument, name, fix)
    if not _DNS_LABEL.fullmatch(name):
        raise ValueError(
            f"{who}: {argument} must be 1 to 63 lower-case letters, digits and '-', beginning and ending with a "
            f"letter or digit, got {name!r}"
        )


def checked_labels(who: object, labels: object) -> dict[str, str]:
    """Return labels of an object as a dict.

    Raises:
        TypeError: ``labels`` is no mapping.
        ValueError: Kubernetes takes no such key or value.
    """
    if not isinstance(labels, Mapping):
        raise TypeError(f"{who}: labels must map keys to values, got {labels!r}")
    for key, value in labels.items():
        if not isinstance(key, str) or not QUALIFIED_NAME.fullmatch(key):
            raise ValueError(
                f"{who}: labels must have qualified names as keys, got {key!r}; write one such as 'example.com/team'"
            )
        if not isinstance(value, str) or not LABEL_VALUE.fullmatch(value):
            raise ValueError(f"{who}: label {key!r} must be at most 63 letters, digits, '-', '_' or '.', got {value!r}")
    return dict(labels)


def refuse_unless_dotted_name(who: object, argument: str, name: object, *, fix: str = "") -> None:
    """Refuse what cannot be the name of a claim, a Secret or a ConfigMap, which may have dots and be long.

    Args:
        who: Who asks.
        argument: What the name is called.
        name: The name.
        fix: What to write instead of what is no string.

    Raises:
        TypeError: ``name`` is no string.
        ValueError: ``name`` is no DNS subdomain.
    """
    if not isinstance(name, str):
        raise _no_string(who, argument, name, fix)
    if not _DNS_SUBDOMAIN.fullmatch(name):
        raise ValueError(
            f"{who}: {argument} must be 1 to 253 lower-case letters, digits, '-' and '.', each part beginning and "
            f"ending with a letter or digit, got {name!r}"
        )


def _no_string(who: object, argument: str, given: object, fix: str) -> TypeError:
    advice = f"; {fix}" if fix else ""
    return TypeError(f"{who}: {argument} must be a string, got {given!r}{advice}")


def refuse_unless_data_key(who: object, argument: str, key: object) -> None:
    """Refuse what cannot be a key of a Secret or a ConfigMap.

    Raises:
        TypeError: ``key`` is no string.
        ValueError: ``key`` is none.
    """
    if not isinstance(key, str):
        raise TypeError(f"{who}: {argument} must be a string, got {key!r}")
    if not _DATA_KEY.fullmatch(key):
        raise ValueError(
            f"{who}: {argument} must be 1 to 253 letters, digits, '-', '_' and '.', not beginning with '..', got "
            f"{key!r}"
        )


# fmt: on


def queued_pod(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a pod's specification that Kueue keeps, by field."""
    found = {field: spec.get(field) for field in _FIELDS}
    for containers in ("containers", "initContainers"):
        listed = spec.get(containers)
        listed = listed if isinstance(listed, list) else []
        found[containers] = [_container(each) for each in listed if isinstance(each, Mapping)]
    found["resources"] = _requests(spec)
    return found


def _container(container: Mapping[str, Any]) -> dict[str, Any]:
    return {"requests": _requests(container), "ports": container.get("ports")}


def _requests(value: Mapping[str, Any]) -> Any:
    """Return what is requested; Kueue counts a limit without a request as one."""
    resources = value.get("resources")
    if not isinstance(resources, Mapping):
        return resources
    limits, requests = resources.get("limits"), resources.get("requests")
    if not isinstance(limits, Mapping) or not isinstance(requests, Mapping | None):
        return requests
    return {**limits, **(requests or {})}
