"""Add-ons of EKS and Pod Identity associations, as the API returns them.

Sources: https://docs.aws.amazon.com/eks/latest/APIReference/API_Addon.html,
https://docs.aws.amazon.com/eks/latest/userguide/pod-identities.html
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from gpu_rehearsal.aws.api import AwsRefusal, Request, Unplayed, plays
from gpu_rehearsal.aws.eks.clusters import Cluster, Clusters, done


class Identities:
    """The associations of every cluster."""

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

    @plays("eks", "UpdatePodIdentityAssociation")
    def update(self, request: Request) -> Mapping[str, Any]:
        """Give a service account another role."""
        association = self._association(request)
        association |= {
            key: request.parameters[key]
            for key in ("roleArn", "targetRoleArn", "disableSessionTags")
            if request.parameters.get(key) is not None
        }
        return {"association": association}

    def described(self) -> Iterable[dict[str, Any]]:
        """Return the description of each."""
        return self._associations.values()

    def remove_owned(self, owner: str) -> None:
        """Remove the associations of an add-on."""
        self._associations = {key: one for key, one in self._associations.items() if one.get("ownerArn") != owner}

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
        if self.find_association(cluster, namespace, account):
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

    def find_association(self, cluster: Cluster, namespace: str, account: str) -> dict[str, Any] | None:
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


# Where an add-on's service accounts are, when it is not told.
# Source: aws eks describe-addon-versions, https://docs.aws.amazon.com/eks/latest/userguide/workloads-add-ons-available-eks.html
NAMESPACES = {
    "vpc-cni": "kube-system",
    "aws-ebs-csi-driver": "kube-system",
    "aws-efs-csi-driver": "kube-system",
    "aws-fsx-csi-driver": "kube-system",
    "aws-mountpoint-s3-csi-driver": "kube-system",
    "amazon-cloudwatch-observability": "amazon-cloudwatch",
    "external-dns": "external-dns",
}


class Addons:
    """The add-ons of every cluster."""

    def __init__(self, clusters: Clusters, identities: Identities) -> None:
        self._clusters, self._identities = clusters, identities
        self._addons: dict[tuple[str, str], dict[str, Any]] = {}

    @plays("eks", "CreateAddon")
    def create(self, request: Request) -> Mapping[str, Any]:
        """Install an add-on, and give its service accounts their roles."""
        asked, name = request.parameters, str(request.parameters["addonName"])
        cluster = self._clusters.find(asked["clusterName"], active=True)
        if (cluster.name, name) in self._addons:
            raise AwsRefusal("ResourceInUseException", "Addon already exists.")
        arn = f"{cluster.arn.replace(':cluster/', ':addon/')}/{name}"
        owned = self._own(cluster, name, asked, arn)
        now = datetime.now(timezone.utc)
        self._addons[cluster.name, name] = dict(asked) | {
            "addonArn": arn,
            "status": "ACTIVE",
            "health": {"issues": []},
            "podIdentityAssociations": owned,
            "createdAt": now,
            "modifiedAt": now,
        }
        return {"addon": self._addons[cluster.name, name]}

    @plays("eks", "DescribeAddon")
    def describe(self, request: Request) -> Mapping[str, Any]:
        """Return one add-on."""
        return {"addon": self._addon(request)}

    @plays("eks", "ListAddons")
    def names(self, request: Request) -> Mapping[str, Any]:
        """Return the names of a cluster's add-ons."""
        cluster = self._clusters.find(request.parameters["clusterName"])
        return {"addons": sorted(name for where, name in self._addons if where == cluster.name)}

    @plays("eks", "UpdateAddon")
    def update(self, request: Request) -> Mapping[str, Any]:
        """Change version, configuration and roles of an add-on."""
        addon, asked = self._addon(request), request.parameters
        named = ("addonVersion", "configurationValues", "serviceAccountRoleArn")
        addon |= {key: asked[key] for key in named if asked.get(key)}
        if asked.get("podIdentityAssociations") is not None:
            self._identities.remove_owned(addon["addonArn"])
            cluster = self._clusters.find(addon["clusterName"])
            given = {"namespaceConfig": addon.get("namespaceConfig", {}), **asked}
            addon["podIdentityAssociations"] = self._own(cluster, addon["addonName"], given, addon["addonArn"])
        return {"update": done("AddonUpdate")}

    @plays("eks", "DeleteAddon")
    def delete(self, request: Request) -> Mapping[str, Any]:
        """Remove an add-on and its associations."""
        addon = self._addon(request)
        self._identities.remove_owned(addon["addonArn"])
        del self._addons[addon["clusterName"], addon["addonName"]]
        return {"addon": addon | {"status": "DELETING"}}

    def described(self) -> Iterable[dict[str, Any]]:
        """Return the description of each."""
        return self._addons.values()

    def _own(self, cluster: Cluster, name: str, asked: Mapping[str, Any], arn: str) -> list[str]:
        """Give the service accounts of an add-on their roles, and return the associations."""
        return [
            self._identities.add(cluster, {**each, "namespace": _namespace(name, asked)}, owner=arn)["associationArn"]
            for each in asked.get("podIdentityAssociations", ())
        ]

    def _addon(self, request: Request) -> dict[str, Any]:
        key = (request.parameters["clusterName"], request.parameters["addonName"])
        self._clusters.find(key[0])
        if key not in self._addons:
            raise AwsRefusal("ResourceNotFoundException", f"No addon: {key[1]} found in cluster: {key[0]}")
        return self._addons[key]


def _namespace(name: str, asked: Mapping[str, Any]) -> str:
    told = asked.get("namespaceConfig", {}).get("namespace") or NAMESPACES.get(name)
    if told is None:
        raise Unplayed(f"the namespace of the add-on {name}, which has a service account with a role,")
    return str(told)
