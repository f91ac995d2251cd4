"""Names and formats that Kubernetes defines, removed APIs, and the support periods of EKS for minor versions.

Sources of the fields that Kueue compares in the pods of a group: kubernetes-sigs/kueue v0.19.2 pkg/util/pod/pod.go,
pkg/controller/jobframework/validation.go and pkg/controller/jobs/leaderworkerset/leaderworkerset_webhook.go (2026-11).

Sources of removed API versions: https://kubernetes.io/docs/reference/using-api/deprecation-guide/,
https://karpenter.sh/docs/upgrading/upgrade-guide/, https://karpenter.sh/docs/upgrading/compatibility/,
https://keda.sh/docs/2.0/migration/ (2026-11).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from gpu_facts import labels
from gpu_facts.light import dataclass, regex

# Optional DNS prefix, then at most 63 characters.
# Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/ (2026-08)
QUALIFIED_NAME = regex(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
LABEL_VALUE = regex(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
# Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
_DNS_LABEL = regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DNS_SUBDOMAIN = regex(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
# Source: kubernetes/kubernetes v1.36.3 staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go
_DATA_KEY = regex(r"(?!\.\.)(?!\.\Z)[-._a-zA-Z0-9]{1,253}")
# A node sets no label of these domains on itself, except the kubelet's own domains and a few labels by name.
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
# EC2's names of CPU architectures, and their names in node labels.
ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}
# Source: https://kubernetes.io/docs/tasks/administer-cluster/guaranteed-scheduling-critical-addon-pods/ (2026-08)
CLUSTER_CRITICAL: Final = "system-cluster-critical"
NODE_CRITICAL: Final = "system-node-critical"
KUBE_SYSTEM: Final = "kube-system"
# Kinds of the training operator's jobs.
# Source: kubeflow/training-operator v1.9 pkg/apis/kubeflow.org/v1/
TRAINING_JOBS: Final = ("MPIJob", "PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob")
# The name that one container of each role must have. For an MPIJob any name works.
# Source: kubeflow/training-operator v1.9.0 pkg/webhooks/, v1.7.0 pkg/apis/kubeflow.org/v1/*_validation.go
TRAINING_CONTAINERS: Final = {
    "PyTorchJob": "pytorch",
    "TFJob": "tensorflow",
    "XGBoostJob": "xgboost",
    "PaddleJob": "paddle",
    "JAXJob": "jax",
}
# Conditions of the node monitoring agent, and the kubelet's conditions that it passes on.
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
# Cluster-scoped kinds of Kubernetes and of GPU components. A namespace doesn't apply to them.
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
_PLATFORM_VERSIONS = "https://docs.aws.amazon.com/eks/latest/userguide/platform-versions.html"
_QUOTED = f"{_PLATFORM_VERSIONS}; eks:DescribeClusterVersions as somebody quoted it on 2026-07-28"
_COUNTED = f"{_PLATFORM_VERSIONS}; not stated, but 14 and 26 months after EKS opened it"
# Max number of minor versions that kubelet and kube-proxy may be behind the API server. Neither may be ahead of it.
# Source: https://kubernetes.io/releases/version-skew-policy/ (2026-11-22)
OLDEST_KUBELET = 3
# Min version of Karpenter for Kubernetes 1.31, 1.32, ..., by the number of the minor version.
# Source: https://karpenter.sh/v1.15/upgrading/compatibility/ (2026-11-21)
LEAST_KARPENTER = {31: (1, 0), 32: (1, 2), 33: (1, 5), 34: (1, 6), 35: (1, 9), 36: (1, 13), 37: (1, 15)}
# Additional price of an hour in extended support, US dollars for each cluster.
# Source: https://aws.amazon.com/eks/pricing/, as texts of 2026 quote it (2026-11-21)
EXTENDED_SUPPORT_USD_PER_HOUR = 0.5
# The last version whose extended support has ended, on 2026-07-23 (same source).
_SUPPORT_ENDED = (1, 30)
_FIRST_ON_EKS = (1, 10)
_APPS = ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
_RBAC = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")

def is_under(key: str, domains: Iterable[str]) -> bool:
    """Whether the key of a label is in one of some domains, or in a subdomain of one."""
    domain = key.rpartition("/")[0]
    return any(domain == each or domain.endswith(f".{each}") for each in domains)


def refuse_unless_object_name(who: object, argument: str, name: object, *, fix: str = "") -> None:
    """Reject a name that can't be both the name of an object and a label value.

    Args:
        who: Name of the construct in messages.
        argument: Name of the argument.
        name: The name.
        fix: Suggested value for a value that isn't a string.

    Raises:
        TypeError: ``name`` isn't a string.
        ValueError: ``name`` isn't a DNS label.
    """
    if not isinstance(name, str):
        raise _no_string(who, argument, name, fix)
    if not _DNS_LABEL.fullmatch(name):
        raise ValueError(
            f"{who}: {argument} must be 1 to 63 lower-case letters, digits and '-', beginning and ending with a "
            f"letter or digit, got {name!r}; rename it"
        )


def checked_labels(who: object, labels: object) -> dict[str, str]:
    """Return labels of an object as a dict.

    Raises:
        TypeError: ``labels`` isn't a mapping.
        ValueError: Kubernetes doesn't accept a key or a value.
    """
    if not isinstance(labels, Mapping):
        raise TypeError(f"{who}: labels must map keys to values, got {labels!r}; write {{'example.com/team': 'a'}}")
    for key, value in labels.items():
        if not isinstance(key, str) or not QUALIFIED_NAME.fullmatch(key):
            raise ValueError(
                f"{who}: labels must have qualified names as keys, got {key!r}; write one such as 'example.com/team'"
            )
        if not isinstance(value, str) or not LABEL_VALUE.fullmatch(value):
            raise ValueError(
                f"{who}: label {key!r} must be at most 63 letters, digits, '-', '_' or '.', got {value!r}; shorten it"
            )
    return dict(labels)


def refuse_unless_dotted_name(who: object, argument: str, name: object, *, fix: str = "") -> None:
    """Reject an invalid name of a claim, a Secret or a ConfigMap, which may have dots and be long.

    Args:
        who: Name of the construct in messages.
        argument: Name of the argument.
        name: The name.
        fix: Suggested value for a value that isn't a string.

    Raises:
        TypeError: ``name`` isn't a string.
        ValueError: ``name`` isn't a DNS subdomain.
    """
    if not isinstance(name, str):
        raise _no_string(who, argument, name, fix)
    if not _DNS_SUBDOMAIN.fullmatch(name):
        raise ValueError(
            f"{who}: {argument} must be 1 to 253 lower-case letters, digits, '-' and '.', each part beginning and "
            f"ending with a letter or digit, got {name!r}; rename it"
        )


def _no_string(who: object, argument: str, given: object, fix: str) -> TypeError:
    advice = f"; {fix}" if fix else ""
    return TypeError(f"{who}: {argument} must be a string, got {given!r}{advice}")


def refuse_unless_data_key(who: object, argument: str, key: object) -> None:
    """Reject an invalid key of a Secret or a ConfigMap.

    Raises:
        TypeError: ``key`` isn't a string.
        ValueError: ``key`` is invalid.
    """
    if not isinstance(key, str):
        raise TypeError(f"{who}: {argument} must be a string, got {key!r}")
    if not _DATA_KEY.fullmatch(key):
        raise ValueError(
            f"{who}: {argument} must be 1 to 253 letters, digits, '-', '_' and '.', not beginning with '..', got "
            f"{key!r}; rename it"
        )


# fmt: on


def queued_pod(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a pod's specification that Kueue stores, by name."""
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
    """Return the requests. Kueue counts a limit without a request as a request."""
    resources = value.get("resources")
    if not isinstance(resources, Mapping):
        return resources
    limits, requests = resources.get("limits"), resources.get("requests")
    if not isinstance(limits, Mapping) or not isinstance(requests, Mapping | None):
        return requests
    return {**limits, **(requests or {})}


@dataclass(frozen=True, kw_only=True, slots=True)
class Support:
    """Support period of EKS for a minor version. Support ends at midnight UTC, at the start of the day.

    Attributes:
        standard_ends: Day on which standard support ends, ISO 8601.
        extended_ends: Day on which extended support ends.
        source: Place where they were read.
        as_of: Day on which they were read.
    """

    standard_ends: str
    extended_ends: str
    source: str = "https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html"
    as_of: str = "2026-11-21"


SUPPORT = {
    "1.31": Support(standard_ends="2025-11-26", extended_ends="2026-11-26"),
    "1.32": Support(standard_ends="2026-03-23", extended_ends="2027-03-23"),
    "1.33": Support(standard_ends="2026-07-29", extended_ends="2027-07-29"),
    "1.34": Support(standard_ends="2026-12-02", extended_ends="2027-12-02", source=_PLATFORM_VERSIONS),
    "1.35": Support(standard_ends="2027-03-27", extended_ends="2028-03-27", source=_PLATFORM_VERSIONS),
    "1.36": Support(standard_ends="2027-08-02", extended_ends="2028-08-02", source=_QUOTED),
    "1.37": Support(standard_ends="2027-12-02", extended_ends="2028-12-02", source=_COUNTED),
}


def is_ended(minor: str) -> bool:
    """Whether EKS no longer runs a minor version. False for a text that isn't a version."""
    numbers = minor.split(".")
    if len(numbers) != 2 or not all(each.isdecimal() and each.isascii() for each in numbers):
        return False
    return _FIRST_ON_EKS <= (int(numbers[0]), int(numbers[1])) <= _SUPPORT_ENDED


def how_support_ended(minor: str) -> str:
    """Return a clause that states when EKS ended its support of a minor version, or an empty string if it didn't."""
    if support := SUPPORT.get(minor):
        return f"EKS ended its standard support on {support.standard_ends}, "
    return "EKS ended its support, " if is_ended(minor) else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gone:
    """An API version that is no longer served.

    Attributes:
        since: First version that doesn't serve it: of Kubernetes, or of the program that defines the API.
        until: Newest Kubernetes that a version with this API supports.
        of: The program that defines the API.
        now: API version and kind that replace it, or empty if nothing does.
    """

    since: str
    until: str
    of: str = "Kubernetes"
    now: str = ""


def _kubernetes_removals(version: str, since: str, now: str, *kinds: str) -> dict[tuple[str, str], Gone]:
    until = f"1.{int(since.partition('.')[2]) - 1}"
    return {(version, kind): Gone(since=since, until=until, now=f"{now} {kind}" if now else "") for kind in kinds}


def _karpenter_removal(since: str, until: str, now: str) -> Gone:
    return Gone(since=since, until=until, of="Karpenter", now=now)


# By API version and kind. A separate rule checks the versions of the HorizontalPodAutoscaler.
GONE: dict[tuple[str, str], Gone] = {
    **_kubernetes_removals("extensions/v1beta1", "1.16", "apps/v1", *_APPS),
    **_kubernetes_removals("apps/v1beta1", "1.16", "apps/v1", *_APPS),
    **_kubernetes_removals("apps/v1beta2", "1.16", "apps/v1", *_APPS),
    **_kubernetes_removals("extensions/v1beta1", "1.16", "networking.k8s.io/v1", "NetworkPolicy"),
    **_kubernetes_removals("extensions/v1beta1", "1.22", "networking.k8s.io/v1", "Ingress"),
    **_kubernetes_removals("networking.k8s.io/v1beta1", "1.22", "networking.k8s.io/v1", "Ingress", "IngressClass"),
    **_kubernetes_removals("batch/v2alpha1", "1.21", "batch/v1", "CronJob"),
    **_kubernetes_removals("batch/v1beta1", "1.25", "batch/v1", "CronJob"),
    **_kubernetes_removals("policy/v1beta1", "1.25", "policy/v1", "PodDisruptionBudget"),
    **_kubernetes_removals("policy/v1beta1", "1.25", "", "PodSecurityPolicy"),
    **_kubernetes_removals("rbac.authorization.k8s.io/v1beta1", "1.22", "rbac.authorization.k8s.io/v1", *_RBAC),
    **_kubernetes_removals("scheduling.k8s.io/v1beta1", "1.22", "scheduling.k8s.io/v1", "PriorityClass"),
    **_kubernetes_removals("storage.k8s.io/v1beta1", "1.22", "storage.k8s.io/v1", "CSIDriver", "StorageClass"),
    **_kubernetes_removals("storage.k8s.io/v1beta1", "1.27", "storage.k8s.io/v1", "CSIStorageCapacity"),
    **_kubernetes_removals("node.k8s.io/v1beta1", "1.25", "node.k8s.io/v1", "RuntimeClass"),
    **_kubernetes_removals(
        "apiextensions.k8s.io/v1beta1", "1.22", "apiextensions.k8s.io/v1", "CustomResourceDefinition"
    ),
    **_kubernetes_removals("apiregistration.k8s.io/v1beta1", "1.22", "apiregistration.k8s.io/v1", "APIService"),
    **_kubernetes_removals("coordination.k8s.io/v1beta1", "1.22", "coordination.k8s.io/v1", "Lease"),
    ("karpenter.sh/v1alpha5", "Provisioner"): _karpenter_removal("0.33", "1.28", "karpenter.sh/v1 NodePool"),
    ("karpenter.sh/v1alpha5", "Machine"): _karpenter_removal("0.33", "1.28", "karpenter.sh/v1 NodeClaim"),
    ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate"): _karpenter_removal(
        "0.33", "1.28", "karpenter.k8s.aws/v1 EC2NodeClass"
    ),
    ("karpenter.sh/v1beta1", "NodePool"): _karpenter_removal("1.1", "1.31", "karpenter.sh/v1 NodePool"),
    ("karpenter.sh/v1beta1", "NodeClaim"): _karpenter_removal("1.1", "1.31", "karpenter.sh/v1 NodeClaim"),
    ("karpenter.k8s.aws/v1beta1", "EC2NodeClass"): _karpenter_removal(
        "1.1", "1.31", "karpenter.k8s.aws/v1 EC2NodeClass"
    ),
    ("keda.k8s.io/v1alpha1", "ScaledObject"): Gone(
        since="2.0", until="1.19", of="KEDA", now="keda.sh/v1alpha1 ScaledObject"
    ),
}
