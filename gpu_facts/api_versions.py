"""API versions and kinds of Kubernetes and its projects that are gone, and what came instead.

Sources: https://kubernetes.io/docs/reference/using-api/deprecation-guide/,
https://karpenter.sh/docs/upgrading/upgrade-guide/, https://karpenter.sh/docs/upgrading/compatibility/,
https://keda.sh/docs/2.0/migration/ (2026-11)
"""

from __future__ import annotations

from gpu_facts.light import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Gone:
    """An API version that is served no more.

    Attributes:
        since: Version that does not serve it: of Kubernetes, or of the program whose API it was.
        until: Newest Kubernetes for which a version that serves it was made.
        of: That program.
        now: API version and kind that came instead; empty where nothing did.
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


_APPS = ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
_RBAC = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
# By API version and kind. Versions of the HorizontalPodAutoscaler are told by a rule of their own.
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
