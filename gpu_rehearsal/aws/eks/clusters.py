"""Clusters of EKS, and the tags of everything that belongs to EKS.

Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_Cluster.html
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
from gpu_rehearsal.aws.region import Region

# Used unless the VPC has addresses of them.
# Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_KubernetesNetworkConfigRequest.html
SERVICE_CIDRS = ("10.100.0.0/16", "172.20.0.0/16")


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
    return {
        "id": str(uuid.uuid4()),
        "status": "Successful",
        "type": kind,
        "params": [],
        "errors": [],
        "createdAt": now,
    }


def _pairs(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


_ARNS = ("arn", "nodegroupArn", "addonArn", "accessEntryArn", "associationArn")


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
