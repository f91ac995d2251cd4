"""Pod Identity: which role the pods of a service account have.

Source: https://docs.aws.amazon.com/eks/latest/userguide/pod-identities.html
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from gpu_constructs.rehearsal.players.aws.api.operations import plays
from gpu_constructs.rehearsal.players.aws.api.refusals import AwsRefusal
from gpu_constructs.rehearsal.players.aws.api.requests import Request
from gpu_constructs.rehearsal.players.aws.eks.clusters import Cluster, Clusters


class Identities:
    """The associations of every cluster.

    Args:
        clusters: Where the service accounts are.
    """

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters
        self._associations: dict[str, dict[str, Any]] = {}

    @plays("eks", "CreatePodIdentityAssociation")
    def create(self, request: Request) -> Mapping[str, Any]:
        """Give the pods of a service account a role."""
        cluster = self._clusters.find(request.parameters["clusterName"], active=True)
        return {"association": self.add(cluster, request.parameters)}

    @plays("eks", "DescribePodIdentityAssociation")
    def describe(self, request: Request) -> Mapping[str, Any]:
        """Return one association."""
        return {"association": self._association(request)}

    @plays("eks", "ListPodIdentityAssociations")
    def listed(self, request: Request) -> Mapping[str, Any]:
        """Return the associations of a cluster, of a namespace or of a service account."""
        asked = request.parameters
        self._clusters.find(asked["clusterName"])
        named = [key for key in ("clusterName", "namespace", "serviceAccount") if asked.get(key)]
        found = [one for one in self._associations.values() if all(one[key] == asked[key] for key in named)]
        return {"associations": found}

    @plays("eks", "DeletePodIdentityAssociation")
    def delete(self, request: Request) -> Mapping[str, Any]:
        """Take the role away."""
        association = self._association(request)
        del self._associations[association["associationId"]]
        return {"association": association}

    def add(self, cluster: Cluster, asked: Mapping[str, Any], *, owner: str | None = None) -> dict[str, Any]:
        """Add an association, of somebody's or of an add-on.

        Args:
            cluster: Where the service account is.
            asked: What was asked for, by the names of the API.
            owner: ARN of the add-on that it belongs to.

        Raises:
            AwsRefusal: The service account has a role already.
        """
        namespace, account = str(asked["namespace"]), str(asked["serviceAccount"])
        if self.of(cluster, namespace, account):
            message = f"Association already exists: {cluster.name}, {namespace}/{account}"
            raise AwsRefusal("ResourceInUseException", message)
        identity = "a-" + hashlib.sha256(f"{cluster.arn}/{namespace}/{account}".encode()).hexdigest()[:17]
        now = datetime.now(timezone.utc)
        arn = f"{cluster.arn.replace(':cluster/', ':podidentityassociation/')}/{identity}"
        association = dict(asked) | {
            "clusterName": cluster.name,
            "associationId": identity,
            "associationArn": arn,
            "createdAt": now,
            "modifiedAt": now,
        }
        if owner:
            association["ownerArn"] = owner
        self._associations[identity] = association
        return association

    def of(self, cluster: Cluster, namespace: str, account: str) -> dict[str, Any] | None:
        """Return the association of a service account."""
        wanted = (cluster.name, namespace, account)
        for one in self._associations.values():
            if (one["clusterName"], one["namespace"], one["serviceAccount"]) == wanted:
                return one
        return None

    def session_tags(self, cluster: Cluster, namespace: str, account: str, pod: str) -> dict[str, str]:
        """Return the tags of the session that a pod gets.

        Source: https://docs.aws.amazon.com/eks/latest/userguide/pod-id-abac.html
        """
        return {
            "eks-cluster-arn": cluster.arn,
            "eks-cluster-name": cluster.name,
            "kubernetes-namespace": namespace,
            "kubernetes-service-account": account,
            "kubernetes-pod-name": pod,
            "kubernetes-pod-uid": str(uuid5(NAMESPACE_URL, f"{cluster.arn}/{namespace}/{pod}")),
        }

    def _association(self, request: Request) -> dict[str, Any]:
        found = self._associations.get(request.parameters["associationId"])
        if found is None or found["clusterName"] != request.parameters["clusterName"]:
            message = f"Association was not found: {request.parameters['associationId']}"
            raise AwsRefusal("ResourceNotFoundException", message)
        return found
