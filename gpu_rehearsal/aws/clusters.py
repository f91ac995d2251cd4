"""Clusters of EKS, their tags, add-ons and Pod Identity associations, as the API returns them.

Sources: https://docs.aws.amazon.com/eks/latest/APIReference/API_Cluster.html,
https://docs.aws.amazon.com/eks/latest/APIReference/API_Addon.html,
https://docs.aws.amazon.com/eks/latest/userguide/pod-identities.html
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from ipaddress import ip_network
from threading import RLock
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from gpu_rehearsal.aws.api import AwsError, NotSimulated, Request, simulates
from gpu_rehearsal.aws.region import Region

# Default Service CIDR blocks. EKS uses one that doesn't overlap with the VPC.
# Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_KubernetesNetworkConfigRequest.html
_SERVICE_CIDRS = ("10.100.0.0/16", "172.20.0.0/16")
_ARNS = ("arn", "nodegroupArn", "addonArn", "accessEntryArn", "associationArn")


@dataclass(kw_only=True)
class Cluster:
    """A cluster.

    Attributes:
        description: Requested parameters and fields that EKS adds, by the names of the API.
        creator: Access key of its creator.
    """

    name: str
    description: dict[str, Any]
    creator: str

    @property
    def arn(self) -> str:
        """ARN of the cluster."""
        return str(self.description["arn"])

    @property
    def is_active(self) -> bool:
        """Whether its API server has an address."""
        return self.description.get("endpoint") is not None


class Clusters:
    """The clusters of a region."""

    def __init__(self, region: Region) -> None:
        self._region = region
        self._clusters: dict[str, Cluster] = {}
        self._served: dict[str, tuple[str, bytes]] = {}
        self._lock = RLock()

    def find(self, name: str, *, active: bool = False) -> Cluster:
        """Return a cluster.

        Raises:
            AwsError: It doesn't exist, or isn't active yet.
        """
        if name not in self._clusters:
            raise AwsError("ResourceNotFoundException", f"No cluster found for name: {name}.")
        cluster = self._clusters[name]
        if active and not cluster.is_active:
            raise AwsError("ResourceInUseException", f"Cluster '{name}' is not in ACTIVE status")
        return cluster

    def serve(self, name: str, endpoint: str, certificate_authority: bytes) -> None:
        """Set the API server of a cluster, before or after its creation."""
        with self._lock:
            self._served[name] = (endpoint, certificate_authority)
            if name in self._clusters:
                self._activate(self._clusters[name])

    @simulates("eks", "CreateCluster")
    def create(self, request: Request) -> Mapping[str, Any]:
        """Create a cluster, and the security group that it shares with its nodes."""
        parameters, name = request.parameters, str(request.parameters["name"])
        if not parameters.get("version"):
            raise AwsError("InvalidParameterException", f"{name}: a default version isn't simulated; set the version")
        with self._lock:
            if name in self._clusters:
                raise AwsError("ResourceInUseException", f"Cluster already exists with name: {name}")
            cluster = Cluster(name=name, description=self._describe(name, parameters), creator=request.access_key)
            self._clusters[name] = cluster
            if name in self._served:
                self._activate(cluster)
        return {"cluster": cluster.description}

    @simulates("eks", "DescribeCluster")
    def describe(self, request: Request) -> Mapping[str, Any]:
        """Return the description of a cluster."""
        return {"cluster": self.find(request.parameters["name"]).description}

    @simulates("eks", "ListClusters")
    def names(self, _: Request) -> Mapping[str, Any]:
        """Return the names of all clusters."""
        return {"clusters": sorted(self._clusters)}

    @simulates("eks", "DeleteCluster")
    def delete(self, request: Request) -> Mapping[str, Any]:
        """Delete a cluster and its security group."""
        cluster = self.find(request.parameters["name"])
        group = cluster.description["resourcesVpcConfig"]["clusterSecurityGroupId"]
        self._region.moto_client("ec2").delete_security_group(GroupId=group)
        del self._clusters[cluster.name]
        return {"cluster": cluster.description | {"status": "DELETING"}}

    @simulates("eks", "UpdateClusterVersion")
    def update_version(self, _: Request) -> Mapping[str, Any]:
        """Reject another version: the control plane is real, so its version can't change."""
        raise NotSimulated("another version of Kubernetes for a control plane that runs")

    @simulates("eks", "UpdateClusterConfig")
    def update(self, request: Request) -> Mapping[str, Any]:
        """Change one setting of a cluster.

        Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateClusterConfig.html (2026-11)
        """
        cluster = self.find(request.parameters["name"], active=True)
        others = ("name", "clientRequestToken")
        parameters = {key: each for key, each in request.parameters.items() if each is not None and key not in others}
        if len(parameters) != 1:
            raise AwsError("InvalidParameterException", "Only one type of update can be allowed.")
        [(setting, changed)] = parameters.items()
        if setting in ("deletionProtection", "upgradePolicy", "zonalShiftConfig"):
            cluster.description[setting] = changed
            return {"update": completed_update("ConfigUpdate")}
        now = dict(cluster.description.get(setting, {}))
        if setting not in ("accessConfig", "logging", "resourcesVpcConfig"):
            raise NotSimulated(f"a change of {setting} of a cluster")
        if {*changed.get("subnetIds", ())} - {*now.get("subnetIds", ())}:
            raise NotSimulated("a change of the subnets of a cluster")
        cluster.description[setting] = now | dict(changed)
        return {"update": completed_update("ConfigUpdate")}

    def descriptions(self) -> Iterable[dict[str, Any]]:
        """Return the description of each."""
        return [each.description for each in self._clusters.values()]

    def _describe(self, name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        arn = self._region.arn("eks", f"cluster/{name}")
        identity = hashlib.sha256(arn.encode()).hexdigest()[:32].upper()
        network = self._network(name, identity, parameters["resourcesVpcConfig"])
        services = {"serviceIpv4Cidr": self._service_cidr(network["vpcId"]), "ipFamily": "ipv4"}
        access = {"authenticationMode": "CONFIG_MAP", "bootstrapClusterCreatorAdminPermissions": True}
        return dict(parameters) | {
            "arn": arn,
            "createdAt": datetime.now(timezone.utc),
            "status": "CREATING",
            "platformVersion": "eks.1",
            "identity": {"oidc": {"issuer": f"https://oidc.eks.{self._region.name}.amazonaws.com/id/{identity}"}},
            "resourcesVpcConfig": network,
            "kubernetesNetworkConfig": services | dict(parameters.get("kubernetesNetworkConfig", {})),
            "accessConfig": access | dict(parameters.get("accessConfig", {})),
            "tags": dict(parameters.get("tags", {})),
        }

    def _network(self, name: str, identity: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the VPC configuration of a cluster, with a new security group.

        Source: https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
        """
        subnets = self._region.moto_client("ec2").describe_subnets(SubnetIds=list(parameters["subnetIds"]))["Subnets"]
        zones = {subnet["AvailabilityZone"] for subnet in subnets}
        if len(zones) < 2:
            raise AwsError(
                "InvalidParameterException",
                f"Subnets specified must be in at least two different AZs, got {sorted(zones)}",
            )
        vpc = subnets[0]["VpcId"]
        defaults = {"endpointPublicAccess": True, "endpointPrivateAccess": False, "publicAccessCidrs": ["0.0.0.0/0"]}
        made = {"vpcId": vpc, "clusterSecurityGroupId": self._security_group(name, identity, vpc)}
        return defaults | dict(parameters) | made

    def _security_group(self, name: str, identity: str, vpc: str) -> str:
        """Create the security group that connects control plane and nodes.

        Source: https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html
        """
        ec2 = self._region.moto_client("ec2")
        group_name = f"eks-cluster-sg-{name}-{identity[:10].lower()}"
        tags = {"Name": group_name, f"kubernetes.io/cluster/{name}": "owned", "aws:eks:cluster-name": name}
        group = ec2.create_security_group(
            GroupName=group_name,
            Description="EKS created security group applied to ENI that is attached to EKS Control Plane master nodes",
            VpcId=vpc,
            TagSpecifications=[{"ResourceType": "security-group", "Tags": _pairs(tags)}],
        )["GroupId"]
        itself = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=itself)
        return str(group)

    def _service_cidr(self, vpc: str) -> str:
        found = self._region.moto_client("ec2").describe_vpcs(VpcIds=[vpc])["Vpcs"][0]["CidrBlock"]
        free = (cidr for cidr in _SERVICE_CIDRS if not ip_network(cidr).overlaps(ip_network(found)))
        return next(free, _SERVICE_CIDRS[0])

    def _activate(self, cluster: Cluster) -> None:
        endpoint, authority = self._served[cluster.name]
        cluster.description |= {
            "status": "ACTIVE",
            "endpoint": endpoint,
            "certificateAuthority": {"data": base64.b64encode(authority).decode()},
        }


def completed_update(kind: str) -> dict[str, Any]:
    """Return the description of an update that is complete."""
    now = datetime.now(timezone.utc)
    return {"id": str(uuid.uuid4()), "status": "Successful", "type": kind, "params": [], "errors": [], "createdAt": now}


def _pairs(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


class Tags:
    """Changes tags in descriptions of clusters, node groups, add-ons, access entries and associations."""

    def __init__(self, *descriptions: Callable[[], Iterable[dict[str, Any]]]) -> None:
        self._described = descriptions

    @simulates("eks", "TagResource")
    def tag(self, request: Request) -> Mapping[str, Any]:
        """Set tags."""
        found = self._find(request)
        found["tags"] = {**(found.get("tags") or {}), **request.parameters["tags"]}
        return {}

    @simulates("eks", "UntagResource")
    def untag(self, request: Request) -> Mapping[str, Any]:
        """Remove tags."""
        found, gone = self._find(request), request.parameters["tagKeys"]
        found["tags"] = {key: value for key, value in (found.get("tags") or {}).items() if key not in gone}
        return {}

    def _find(self, request: Request) -> dict[str, Any]:
        arn = request.parameters["resourceArn"]
        for descriptions in self._described:
            for each in descriptions():
                if arn == next((each[name] for name in _ARNS if name in each), None):
                    return each
        raise AwsError("NotFoundException", f"Resource was not found: {arn}")


class Identities:
    """The Pod Identity associations of all clusters."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters
        self._associations: dict[str, dict[str, Any]] = {}

    @simulates("eks", "CreatePodIdentityAssociation")
    def create(self, request: Request) -> Mapping[str, Any]:
        """Create an association of a role with a service account."""
        cluster = self._clusters.find(request.parameters["clusterName"], active=True)
        return {"association": self.add(cluster, request.parameters)}

    @simulates("eks", "DescribePodIdentityAssociation")
    def describe(self, request: Request) -> Mapping[str, Any]:
        """Return one association."""
        return {"association": self._association(request)}

    @simulates("eks", "ListPodIdentityAssociations")
    def listed(self, request: Request) -> Mapping[str, Any]:
        """Return the associations of a cluster, of a namespace or of a service account."""
        parameters = request.parameters
        self._clusters.find(parameters["clusterName"])
        named = [key for key in ("clusterName", "namespace", "serviceAccount") if parameters.get(key)]
        found = [one for one in self._associations.values() if all(one[key] == parameters[key] for key in named)]
        return {"associations": found}

    @simulates("eks", "DeletePodIdentityAssociation")
    def delete(self, request: Request) -> Mapping[str, Any]:
        """Delete an association."""
        association = self._association(request)
        del self._associations[association["associationId"]]
        return {"association": association}

    @simulates("eks", "UpdatePodIdentityAssociation")
    def update(self, request: Request) -> Mapping[str, Any]:
        """Change the role of a service account."""
        association = self._association(request)
        association |= {
            key: request.parameters[key]
            for key in ("roleArn", "targetRoleArn", "disableSessionTags")
            if request.parameters.get(key) is not None
        }
        return {"association": association}

    def descriptions(self) -> Iterable[dict[str, Any]]:
        """Return the description of each."""
        return self._associations.values()

    def remove_owned(self, owner: str) -> None:
        """Remove the associations of an add-on."""
        self._associations = {key: one for key, one in self._associations.items() if one.get("ownerArn") != owner}

    def add(self, cluster: Cluster, parameters: Mapping[str, Any], *, owner: str | None = None) -> dict[str, Any]:
        """Add an association, on its own or owned by an add-on.

        Args:
            cluster: Cluster of the service account.
            parameters: Requested parameters, by the names of the API.
            owner: ARN of the add-on that owns it.

        Raises:
            AwsError: The service account already has a role.
        """
        namespace, account = str(parameters["namespace"]), str(parameters["serviceAccount"])
        if self.find_association(cluster, namespace, account):
            message = f"Association already exists: {cluster.name}, {namespace}/{account}"
            raise AwsError("ResourceInUseException", message)
        identity = "a-" + hashlib.sha256(f"{cluster.arn}/{namespace}/{account}".encode()).hexdigest()[:17]
        now = datetime.now(timezone.utc)
        arn = f"{cluster.arn.replace(':cluster/', ':podidentityassociation/')}/{identity}"
        association = dict(parameters) | {
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
        """Return the session tags of a pod.

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
            raise AwsError("ResourceNotFoundException", message)
        return found


# Default namespace of an add-on's service accounts.
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
    """The add-ons of all clusters."""

    def __init__(self, clusters: Clusters, identities: Identities) -> None:
        self._clusters, self._identities = clusters, identities
        self._addons: dict[tuple[str, str], dict[str, Any]] = {}

    @simulates("eks", "CreateAddon")
    def create(self, request: Request) -> Mapping[str, Any]:
        """Install an add-on, and create the associations of its service accounts."""
        parameters, name = request.parameters, str(request.parameters["addonName"])
        cluster = self._clusters.find(parameters["clusterName"], active=True)
        if (cluster.name, name) in self._addons:
            raise AwsError("ResourceInUseException", "Addon already exists.")
        arn = f"{cluster.arn.replace(':cluster/', ':addon/')}/{name}"
        owned = self._create_associations(cluster, name, parameters, arn)
        now = datetime.now(timezone.utc)
        self._addons[cluster.name, name] = dict(parameters) | {
            "addonArn": arn,
            "status": "ACTIVE",
            "health": {"issues": []},
            "podIdentityAssociations": owned,
            "createdAt": now,
            "modifiedAt": now,
        }
        return {"addon": self._addons[cluster.name, name]}

    @simulates("eks", "DescribeAddon")
    def describe(self, request: Request) -> Mapping[str, Any]:
        """Return one add-on."""
        return {"addon": self._addon(request)}

    @simulates("eks", "ListAddons")
    def names(self, request: Request) -> Mapping[str, Any]:
        """Return the names of a cluster's add-ons."""
        cluster = self._clusters.find(request.parameters["clusterName"])
        return {"addons": sorted(name for where, name in self._addons if where == cluster.name)}

    @simulates("eks", "UpdateAddon")
    def update(self, request: Request) -> Mapping[str, Any]:
        """Change version, configuration and roles of an add-on."""
        addon, parameters = self._addon(request), request.parameters
        named = ("addonVersion", "configurationValues", "serviceAccountRoleArn")
        addon |= {key: parameters[key] for key in named if parameters.get(key)}
        if parameters.get("podIdentityAssociations") is not None:
            self._identities.remove_owned(addon["addonArn"])
            cluster = self._clusters.find(addon["clusterName"])
            given = {"namespaceConfig": addon.get("namespaceConfig", {}), **parameters}
            addon["podIdentityAssociations"] = self._create_associations(
                cluster, addon["addonName"], given, addon["addonArn"]
            )
        return {"update": completed_update("AddonUpdate")}

    @simulates("eks", "DeleteAddon")
    def delete(self, request: Request) -> Mapping[str, Any]:
        """Remove an add-on and its associations."""
        addon = self._addon(request)
        self._identities.remove_owned(addon["addonArn"])
        del self._addons[addon["clusterName"], addon["addonName"]]
        return {"addon": addon | {"status": "DELETING"}}

    def descriptions(self) -> Iterable[dict[str, Any]]:
        """Return the description of each."""
        return self._addons.values()

    def _create_associations(self, cluster: Cluster, name: str, parameters: Mapping[str, Any], arn: str) -> list[str]:
        """Create the associations of an add-on's service accounts, and return their ARNs."""
        return [
            self._identities.add(cluster, {**each, "namespace": _namespace(name, parameters)}, owner=arn)[
                "associationArn"
            ]
            for each in parameters.get("podIdentityAssociations", ())
        ]

    def _addon(self, request: Request) -> dict[str, Any]:
        key = (request.parameters["clusterName"], request.parameters["addonName"])
        self._clusters.find(key[0])
        if key not in self._addons:
            raise AwsError("ResourceNotFoundException", f"No addon: {key[1]} found in cluster: {key[0]}")
        return self._addons[key]


def _namespace(name: str, parameters: Mapping[str, Any]) -> str:
    namespace = parameters.get("namespaceConfig", {}).get("namespace") or NAMESPACES.get(name)
    if namespace is None:
        raise NotSimulated(f"the namespace of a service account of the add-on {name}")
    return str(namespace)
