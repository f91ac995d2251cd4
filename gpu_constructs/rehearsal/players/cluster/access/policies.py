"""Access policies of EKS, as rights of groups in the cluster.

EKS asks an authorizer of its own; here each policy is a group that the user is in, with roles bound to it.
Source: https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html
"""

from __future__ import annotations

from collections.abc import Iterable

from gpu_constructs.rehearsal.players.cluster.client import Client, Object
from gpu_constructs.rehearsal.players.cluster.process import wait_until

_READ_ALL = "eks-admin-view"
# Cluster roles that mean what the policies do; the first four are Kubernetes' own.
_ROLES = {
    "AmazonEKSClusterAdminPolicy": "cluster-admin",
    "AmazonEKSAdminPolicy": "admin",
    "AmazonEKSEditPolicy": "edit",
    "AmazonEKSViewPolicy": "view",
    "AmazonEKSAdminViewPolicy": _READ_ALL,
}
_RBAC = "rbac.authorization.k8s.io"


class AccessPolicies:
    """The policies that users of one cluster have.

    Args:
        client: An administrator of the cluster.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._bound: set[str] = set()

    def groups(self, associated: Iterable[Object]) -> list[str]:
        """Return the groups whose rights are those of some policies, once the server knows them.

        Args:
            associated: Policies with their scopes, as ListAssociatedAccessPolicies tells.

        Raises:
            LookupError: What a policy or scope means is not known.
        """
        return [self._group(each["policyArn"].rpartition("/")[2], each["accessScope"]) for each in associated]

    def _group(self, policy: str, scope: Object) -> str:
        if policy not in _ROLES:
            raise LookupError(f"access policy {policy} is not known")
        namespaces = [""] if scope["type"] == "cluster" else list(scope["namespaces"])
        patterns = [each for each in namespaces if "*" in each]
        if patterns:
            raise LookupError(f"access scope of {policy}: patterns of namespaces are not known, got {patterns}")
        group = ":".join(["eks-access-policy", policy, *filter(None, namespaces)])
        if group not in self._bound:
            for each in namespaces:
                self._bind(group, _ROLES[policy], each)
            self._bound.add(group)
        return group

    def _bind(self, group: str, role: str, namespace: str) -> None:
        if role == _READ_ALL:
            self._client.apply(_read_all())
        kind = "RoleBinding" if namespace else "ClusterRoleBinding"
        self._client.apply(
            {
                "apiVersion": f"{_RBAC}/v1",
                "kind": kind,
                "metadata": {"name": group} | ({"namespace": namespace} if namespace else {}),
                "subjects": [{"kind": "Group", "name": group, "apiGroup": _RBAC}],
                "roleRef": {"kind": "ClusterRole", "name": role, "apiGroup": _RBAC},
            }
        )
        wait_until(lambda: self._knows(group, namespace), f"the rights of {group}")

    def _knows(self, group: str, namespace: str) -> bool:
        """Whether the server's authorizer has heard of a binding; every policy lets read pods."""
        asked = {"verb": "get", "resource": "pods", "namespace": namespace}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": "probe", "groups": [group], "resourceAttributes": asked},
        }
        return bool(self._client.create(review)["status"]["allowed"])


def _read_all() -> Object:
    read = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
    return {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": _READ_ALL}, "rules": [read]}
