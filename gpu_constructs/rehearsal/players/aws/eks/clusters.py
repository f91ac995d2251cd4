"""Clusters of EKS: made in the creating state, active once somebody serves their API.

Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_Cluster.html
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from ipaddress import ip_network
from threading import RLock
from typing import Any

from gpu_constructs.rehearsal.players.aws.api.operations import plays
from gpu_constructs.rehearsal.players.aws.api.refusals import AwsRefusal
from gpu_constructs.rehearsal.players.aws.api.requests import Request
from gpu_constructs.rehearsal.players.aws.region import Region

# Used unless the VPC has addresses of them.
# Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_KubernetesNetworkConfigRequest.html
SERVICE_CIDRS = ("10.100.0.0/16", "172.20.0.0/16")


@dataclass(kw_only=True)
class Cluster:
    """One cluster.

    Attributes:
        name: Its name.
        description: What was asked for, and what EKS adds, by the names of the API.
        creator: Access key of who created it.
    """

    name: str
    description: dict[str, Any]
    creator: str
    lock: RLock = field(default_factory=RLock)

    @property
    def arn(self) -> str:
        """ARN of the cluster."""
        return str(self.description["arn"])

    @property
    def is_active(self) -> bool:
        """Whether its API is served."""
        return self.description.get("endpoint") is not None


class Clusters:
    """The clusters of a region.

    Args:
        region: Where they are.
    """

    def __init__(self, region: Region) -> None:
        self._region = region
        self._clusters: dict[str, Cluster] = {}
        self._served: dict[str, tuple[str, bytes]] = {}
        self._lock = RLock()

    def find(self, name: str, *, active: bool = False) -> Cluster:
        """Return a cluster.

        Args:
            name: Its name.
            active: Whether it must be active.

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
        """Forget a cluster."""
        cluster = self.find(request.parameters["name"])
        del self._clusters[cluster.name]
        return {"cluster": cluster.description | {"status": "DELETING"}}

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


def _pairs(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
