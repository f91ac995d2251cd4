"""Add-ons of EKS, as the API knows them. Their workloads are nobody's here.

Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_Addon.html
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from gpu_constructs.rehearsal.players.aws.api.operations import plays
from gpu_constructs.rehearsal.players.aws.api.refusals import AwsRefusal, Unplayed
from gpu_constructs.rehearsal.players.aws.api.requests import Request
from gpu_constructs.rehearsal.players.aws.eks.clusters import Clusters
from gpu_constructs.rehearsal.players.aws.eks.identities import Identities

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
    """The add-ons of every cluster.

    Args:
        clusters: Where they are installed.
        identities: Where the roles of their pods are.
    """

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
        owned = [
            self._identities.add(cluster, {**each, "namespace": _namespace(name, asked)}, owner=arn)["associationArn"]
            for each in asked.get("podIdentityAssociations", ())
        ]
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

    @plays("eks", "DeleteAddon")
    def delete(self, request: Request) -> Mapping[str, Any]:
        """Remove an add-on."""
        addon = self._addon(request)
        del self._addons[addon["clusterName"], addon["addonName"]]
        return {"addon": addon | {"status": "DELETING"}}

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
