"""Clusters of EKS, their tags, and access entries: which role is whom in a cluster, and what its access policies allow.

Sources: https://docs.aws.amazon.com/eks/latest/APIReference/API_Cluster.html,
https://docs.aws.amazon.com/eks/latest/userguide/access-entries.html
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

from gpu_rehearsal.aws.api import AwsRefusal, Request, Unplayed, plays
from gpu_rehearsal.aws.region import Principals, Region

# Used unless the VPC has addresses of them.
# Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_KubernetesNetworkConfigRequest.html
SERVICE_CIDRS = ("10.100.0.0/16", "172.20.0.0/16")
_ARNS = ("arn", "nodegroupArn", "addonArn", "accessEntryArn", "associationArn")
CLUSTER_ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
# Source: https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html (2026-11)
POLICIES = (
    "AmazonEKSAdminPolicy",
    "AmazonEKSClusterAdminPolicy",
    "AmazonEKSAdminViewPolicy",
    "AmazonEKSEditPolicy",
    "AmazonEKSViewPolicy",
    "AmazonEKSSecretReaderPolicy",
    "AmazonEKSAutoNodePolicy",
    "AmazonEKSBlockStoragePolicy",
    "AmazonEKSLoadBalancingPolicy",
    "AmazonEKSNetworkingPolicy",
    "AmazonEKSComputePolicy",
)
# What a type of entry makes of a node's role; a person's role has what its entry says.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html (2026-11)
NODES = {
    "EC2_LINUX": ("system:node:{{EC2PrivateDNSName}}", ["system:nodes"]),
    "EC2": ("system:node:{{EC2PrivateDNSName}}", ["system:nodes"]),
}


@dataclass(kw_only=True)
class Cluster:
    """One cluster.

    Attributes:
        description: What was asked for, and what EKS adds, by the names of the API.
        creator: Access key of who created it.
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
        """Whether its API is served."""
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
            AwsRefusal: There is none, or it is not active yet.
        """
        if name not in self._clusters:
            raise AwsRefusal("ResourceNotFoundException", f"No cluster found for name: {name}.")
        cluster = self._clusters[name]
        if active and not cluster.is_active:
            raise AwsRefusal("ResourceInUseException", f"Cluster '{name}' is not in ACTIVE status")
        return cluster

    def serve(self, name: str, endpoint: str, certificate_authority: bytes) -> None:
        """Say where the API of a cluster is, before or after it is made."""
        with self._lock:
            self._served[name] = (endpoint, certificate_authority)
            if name in self._clusters:
                self._activate(self._clusters[name])

    @plays("eks", "CreateCluster")
    def create(self, request: Request) -> Mapping[str, Any]:
        """Make a cluster, and the security group that it shares with its nodes."""
        asked, name = request.parameters, str(request.parameters["name"])
        if not asked.get("version"):
            raise AwsRefusal("InvalidParameterException", f"{name}: a default version is not played; ask for one")
        with self._lock:
            if name in self._clusters:
                raise AwsRefusal("ResourceInUseException", f"Cluster already exists with name: {name}")
            cluster = Cluster(name=name, description=self._describe(name, asked), creator=request.access_key)
            self._clusters[name] = cluster
            if name in self._served:
                self._activate(cluster)
        return {"cluster": cluster.description}

    @plays("eks", "DescribeCluster")
    def describe(self, request: Request) -> Mapping[str, Any]:
        """Return what a cluster is."""
        return {"cluster": self.find(request.parameters["name"]).description}

    @plays("eks", "ListClusters")
    def names(self, _: Request) -> Mapping[str, Any]:
        """Return the names of all clusters."""
        return {"clusters": sorted(self._clusters)}

    @plays("eks", "DeleteCluster")
    def delete(self, request: Request) -> Mapping[str, Any]:
        """Delete a cluster and its security group."""
        cluster = self.find(request.parameters["name"])
        group = cluster.description["resourcesVpcConfig"]["clusterSecurityGroupId"]
        self._region.service("ec2").delete_security_group(GroupId=group)
        del self._clusters[cluster.name]
        return {"cluster": cluster.description | {"status": "DELETING"}}

    @plays("eks", "UpdateClusterVersion")
    def update_version(self, _: Request) -> Mapping[str, Any]:
        """Reject another version: the control plane is a real one, and it keeps its version."""
        raise Unplayed("another version of Kubernetes for a control plane that runs")

    @plays("eks", "UpdateClusterConfig")
    def update(self, request: Request) -> Mapping[str, Any]:
        """Change one setting of a cluster.

        Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateClusterConfig.html (2026-11)
        """
        cluster = self.find(request.parameters["name"], active=True)
        others = ("name", "clientRequestToken")
        asked = {key: each for key, each in request.parameters.items() if each is not None and key not in others}
        if len(asked) != 1:
            raise AwsRefusal("InvalidParameterException", "Only one type of update can be allowed.")
        [(setting, changed)] = asked.items()
        if setting in ("deletionProtection", "upgradePolicy", "zonalShiftConfig"):
            cluster.description[setting] = changed
            return {"update": done("ConfigUpdate")}
        now = dict(cluster.description.get(setting, {}))
        if setting not in ("accessConfig", "logging", "resourcesVpcConfig"):
            raise Unplayed(f"a change of {setting} of a cluster")
        if {*changed.get("subnetIds", ())} - {*now.get("subnetIds", ())}:
            raise Unplayed("a change of the subnets of a cluster")
        cluster.description[setting] = now | dict(changed)
        return {"update": done("ConfigUpdate")}

    def described(self) -> Iterable[dict[str, Any]]:
        """Return the description of each."""
        return [each.description for each in self._clusters.values()]

    def _describe(self, name: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        arn = self._region.arn("eks", f"cluster/{name}")
        identity = hashlib.sha256(arn.encode()).hexdigest()[:32].upper()
        network = self._network(name, identity, asked["resourcesVpcConfig"])
        services = {"serviceIpv4Cidr": self._service_cidr(network["vpcId"]), "ipFamily": "ipv4"}
        access = {"authenticationMode": "CONFIG_MAP", "bootstrapClusterCreatorAdminPermissions": True}
        return dict(asked) | {
            "arn": arn,
            "createdAt": datetime.now(timezone.utc),
            "status": "CREATING",
            "platformVersion": "eks.1",
            "identity": {"oidc": {"issuer": f"https://oidc.eks.{self._region.name}.amazonaws.com/id/{identity}"}},
            "resourcesVpcConfig": network,
            "kubernetesNetworkConfig": services | dict(asked.get("kubernetesNetworkConfig", {})),
            "accessConfig": access | dict(asked.get("accessConfig", {})),
            "tags": dict(asked.get("tags", {})),
        }

    def _network(self, name: str, identity: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the VPC configuration of a cluster, with a security group made for it.

        Source: https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
        """
        subnets = self._region.service("ec2").describe_subnets(SubnetIds=list(asked["subnetIds"]))["Subnets"]
        zones = {subnet["AvailabilityZone"] for subnet in subnets}
        if len(zones) < 2:
            raise AwsRefusal(
                "InvalidParameterException",
                f"Subnets specified must be in at least two different AZs, got {sorted(zones)}",
            )
        vpc = subnets[0]["VpcId"]
        defaults = {"endpointPublicAccess": True, "endpointPrivateAccess": False, "publicAccessCidrs": ["0.0.0.0/0"]}
        made = {"vpcId": vpc, "clusterSecurityGroupId": self._security_group(name, identity, vpc)}
        return defaults | dict(asked) | made

    def _security_group(self, name: str, identity: str, vpc: str) -> str:
        """Make the group by which control plane and nodes reach each other.

        Source: https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html
        """
        ec2 = self._region.service("ec2")
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
        found = self._region.service("ec2").describe_vpcs(VpcIds=[vpc])["Vpcs"][0]["CidrBlock"]
        free = (cidr for cidr in SERVICE_CIDRS if not ip_network(cidr).overlaps(ip_network(found)))
        return next(free, SERVICE_CIDRS[0])

    def _activate(self, cluster: Cluster) -> None:
        endpoint, authority = self._served[cluster.name]
        cluster.description |= {
            "status": "ACTIVE",
            "endpoint": endpoint,
            "certificateAuthority": {"data": base64.b64encode(authority).decode()},
        }


def done(kind: str) -> dict[str, Any]:
    """Return the description of an update that is complete."""
    now = datetime.now(timezone.utc)
    return {"id": str(uuid.uuid4()), "status": "Successful", "type": kind, "params": [], "errors": [], "createdAt": now}


def _pairs(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


class Tags:
    """Changes tags in descriptions of clusters, node groups, add-ons, access entries and associations."""

    def __init__(self, *described: Callable[[], Iterable[dict[str, Any]]]) -> None:
        self._described = described

    @plays("eks", "TagResource")
    def tag(self, request: Request) -> Mapping[str, Any]:
        """Set tags."""
        found = self._find(request)
        found["tags"] = {**(found.get("tags") or {}), **request.parameters["tags"]}
        return {}

    @plays("eks", "UntagResource")
    def untag(self, request: Request) -> Mapping[str, Any]:
        """Remove tags."""
        found, gone = self._find(request), request.parameters["tagKeys"]
        found["tags"] = {key: value for key, value in (found.get("tags") or {}).items() if key not in gone}
        return {}

    def _find(self, request: Request) -> dict[str, Any]:
        arn = request.parameters["resourceArn"]
        for described in self._described:
            for each in described():
                if arn == next((each[name] for name in _ARNS if name in each), None):
                    return each
        raise AwsRefusal("NotFoundException", f"Resource was not found: {arn}")


class Access:
    """The access entries of every cluster."""

    def __init__(self, region: Region, clusters: Clusters, principals: Principals) -> None:
        self._region, self._clusters, self._principals = region, clusters, principals
        self._entries: dict[tuple[str, str], dict[str, Any]] = {}
        self._policies: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}

    @plays("eks", "CreateAccessEntry")
    def create(self, request: Request) -> Mapping[str, Any]:
        """Let a role in."""
        asked = request.parameters
        cluster = self._clusters.find(asked["clusterName"], active=True)
        self._require_api_mode(cluster)
        principal = str(asked["principalArn"])
        if (cluster.name, principal) in self._known(cluster):
            message = "The specified access entry resource is already in use on this cluster."
            raise AwsRefusal("ResourceInUseException", message)
        return {"accessEntry": self._add(cluster, principal, asked)}

    @plays("eks", "DescribeAccessEntry")
    def describe(self, request: Request) -> Mapping[str, Any]:
        """Return one entry."""
        return {"accessEntry": self._entry(request)}

    @plays("eks", "ListAccessEntries")
    def listed(self, request: Request) -> Mapping[str, Any]:
        """Return the principals of a cluster's entries, or of those with a policy."""
        cluster, policy = (
            self._clusters.find(request.parameters["clusterName"]),
            request.parameters.get("associatedPolicyArn"),
        )
        names = [principal for name, principal in self._known(cluster) if name == cluster.name]
        if policy:
            names = [each for each in names if policy in self._policies.get((cluster.name, each), {})]
        return {"accessEntries": sorted(names)}

    @plays("eks", "UpdateAccessEntry")
    def update(self, request: Request) -> Mapping[str, Any]:
        """Change the groups and the user name of a role."""
        entry, asked = self._entry(request), request.parameters
        _check_groups(asked)
        entry |= {key: asked[key] for key in ("kubernetesGroups", "username") if asked.get(key) is not None}
        return {"accessEntry": entry}

    @plays("eks", "DeleteAccessEntry")
    def delete(self, request: Request) -> Mapping[str, Any]:
        """Keep a role out again."""
        entry = self._entry(request)
        key = (entry["clusterName"], entry["principalArn"])
        del self._entries[key]
        self._policies.pop(key, None)
        return {}

    @plays("eks", "AssociateAccessPolicy")
    def associate(self, request: Request) -> Mapping[str, Any]:
        """Give a role one of EKS's policies."""
        asked, entry = request.parameters, self._entry(request)
        policy = str(asked["policyArn"])
        if policy.partition("cluster-access-policy/")[2] not in POLICIES:
            raise AwsRefusal("InvalidParameterException", f"The policyArn parameter format is not valid: {policy}")
        if entry["type"] in NODES and entry["type"] != "EC2":
            message = f"Access policies cannot be associated with an entry of type {entry['type']}"
            raise AwsRefusal("InvalidRequestException", message)
        key = (entry["clusterName"], entry["principalArn"])
        associated = _associated(policy, dict(asked["accessScope"]))
        self._policies.setdefault(key, {})[policy] = associated
        return {"clusterName": key[0], "principalArn": key[1], "associatedAccessPolicy": associated}

    @plays("eks", "DisassociateAccessPolicy")
    def disassociate(self, request: Request) -> Mapping[str, Any]:
        """Take it away."""
        entry = self._entry(request)
        self._policies.get((entry["clusterName"], entry["principalArn"]), {}).pop(request.parameters["policyArn"], None)
        return {}

    @plays("eks", "ListAssociatedAccessPolicies")
    def associated(self, request: Request) -> Mapping[str, Any]:
        """Return the policies of a role in a cluster."""
        entry = self._entry(request)
        key = (entry["clusterName"], entry["principalArn"])
        policies = list(self._policies.get(key, {}).values())
        return {"clusterName": key[0], "principalArn": key[1], "associatedAccessPolicies": policies}

    def add_nodes(self, cluster: Cluster, role: str) -> None:
        """Let the role of a managed group in, as EKS does by itself.

        Source: https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html
        """
        takes_entries = cluster.description["accessConfig"]["authenticationMode"] != "CONFIG_MAP"
        if takes_entries and (cluster.name, role) not in self._known(cluster):
            self._add(cluster, role, {"type": "EC2_LINUX"})

    def described(self) -> Iterable[dict[str, Any]]:
        """Return the description of each."""
        return self._entries.values()

    def _add(self, cluster: Cluster, principal: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        self._check_role(principal)
        kind = str(asked.get("type") or "STANDARD")
        if kind in NODES and (asked.get("kubernetesGroups") or asked.get("username")):
            raise AwsRefusal(
                "InvalidRequestException", f"An entry of type {kind} has no username and no groups of yours"
            )
        _check_groups(asked)
        username, groups = NODES.get(kind, (_username(principal), []))
        now = datetime.now(timezone.utc)
        entry = {
            "clusterName": cluster.name,
            "principalArn": principal,
            "accessEntryArn": f"{cluster.arn.replace(':cluster/', ':access-entry/')}/role/{_name(principal)}",
            "type": kind,
            "username": asked.get("username") or username,
            "kubernetesGroups": list(asked.get("kubernetesGroups") or groups),
            "tags": dict(asked.get("tags", {})),
            "createdAt": now,
            "modifiedAt": now,
        }
        self._entries[cluster.name, principal] = entry
        return entry

    def _known(self, cluster: Cluster) -> dict[tuple[str, str], dict[str, Any]]:
        """Return all entries, with that of a cluster's creator, which EKS makes with the cluster."""
        access, key = cluster.description["accessConfig"], "bootstrapped"
        if access["bootstrapClusterCreatorAdminPermissions"] and key not in access:
            access[key] = True
            principal = self._principals.resolve_role(cluster.creator) or self._principals.administrator
            now = datetime.now(timezone.utc)
            self._entries[cluster.name, principal] = {
                "clusterName": cluster.name,
                "principalArn": principal,
                "type": "STANDARD",
                "username": _username(principal),
                "kubernetesGroups": [],
                "createdAt": now,
                "modifiedAt": now,
            }
            self._policies[cluster.name, principal] = {CLUSTER_ADMIN: _associated(CLUSTER_ADMIN, {"type": "cluster"})}
        return self._entries

    def _entry(self, request: Request) -> dict[str, Any]:
        cluster = self._clusters.find(request.parameters["clusterName"])
        found = self._known(cluster).get((cluster.name, request.parameters["principalArn"]))
        if found is None:
            message = f"The specified principalArn could not be found: {request.parameters['principalArn']}"
            raise AwsRefusal("ResourceNotFoundException", message)
        return found

    def _check_role(self, principal: str) -> None:
        """Refuse a role or user that is not there, as EKS does."""
        if principal == self._principals.administrator:
            return
        iam = self._region.service("iam")
        try:
            if ":user/" in principal:
                found = iam.get_user(UserName=_name(principal))["User"]["Arn"]
            else:
                found = iam.get_role(RoleName=_name(principal))["Role"]["Arn"]
        except iam.exceptions.NoSuchEntityException:
            found = ""
        if found != principal:
            message = f"The specified principalArn is invalid: invalid principal. {principal}"
            raise AwsRefusal("InvalidParameterException", message)

    @staticmethod
    def _require_api_mode(cluster: Cluster) -> None:
        if cluster.description["accessConfig"]["authenticationMode"] == "CONFIG_MAP":
            message = "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP]"
            raise AwsRefusal("InvalidRequestException", message)


def _check_groups(asked: Mapping[str, Any]) -> None:
    if any(group.startswith("system:") for group in asked.get("kubernetesGroups") or ()):
        message = "The kubernetes group name must not begin with 'system:'"
        raise AwsRefusal("InvalidParameterException", message)


def _username(principal: str) -> str:
    """Return whom EKS calls a role in a cluster: its session, whose name the role does not know."""
    return f"arn:aws:sts::{principal.split(':')[4]}:assumed-role/{_name(principal)}/{{{{SessionName}}}}"


def _name(principal: str) -> str:
    return principal.rpartition("/")[2]


def _associated(policy: str, scope: dict[str, Any]) -> dict[str, Any]:
    now = datetime.now(timezone.utc)
    return {"policyArn": policy, "accessScope": scope, "associatedAt": now, "modifiedAt": now}
