"""Simulated AWS for tests of nodes: moto's EC2 and IAM in this process, and an EKS with fixed answers."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import yaml
from moto import mock_aws

from gpu_rehearsal.credentials import Credentials, Source

CLUSTER = "training"
ZONE = "us-east-1a"


class NotFound(Exception):
    """EKS has no such access entry."""


class Eks:
    """The EKS calls of the nodes of a cluster.

    Attributes:
        cluster: The cluster.
        entries: Types of access entries, by role.
        associations: Pod identity associations.
        addons: Configurations of add-ons, by name.
    """

    class exceptions:
        """Errors of the client."""

        ResourceNotFoundException = NotFound

    def __init__(self) -> None:
        authority = {"data": "Y2E="}
        self.cluster = {
            "arn": f"arn:aws:eks:us-east-1:123456789012:cluster/{CLUSTER}",
            "endpoint": "https://api",
            "certificateAuthority": authority,
            "version": "1.36",
        }
        self.entries: dict[str, dict[str, Any]] = {}
        self.associations: list[dict[str, Any]] = []
        self.addons: dict[str, str] = {}

    def describe_cluster(self, *, name: str) -> dict[str, Any]:
        """The cluster."""
        assert name == CLUSTER
        return {"cluster": self.cluster}

    def describe_access_entry(self, *, clusterName: str, principalArn: str) -> dict[str, Any]:
        """The entry of a role."""
        assert clusterName == CLUSTER
        if principalArn not in self.entries:
            raise NotFound(principalArn)
        return {"accessEntry": self.entries[principalArn]}

    def list_associated_access_policies(self, *, clusterName: str, principalArn: str) -> dict[str, Any]:
        """The policies of that entry."""
        entry = self.describe_access_entry(clusterName=clusterName, principalArn=principalArn)["accessEntry"]
        return {"associatedAccessPolicies": entry.get("policies", [])}

    def list_addons(self, *, clusterName: str) -> dict[str, Any]:
        """Names of add-ons."""
        return {"addons": sorted(self.addons)}

    def describe_addon(self, *, clusterName: str, addonName: str) -> dict[str, Any]:
        """One of them."""
        return {"addon": {"addonName": addonName, "configurationValues": self.addons[addonName]}}

    def list_pod_identity_associations(
        self, *, clusterName: str, namespace: str, serviceAccount: str
    ) -> dict[str, Any]:
        """Associations of an account."""
        wanted = {"namespace": namespace, "serviceAccount": serviceAccount}
        return {"associations": [each for each in self.associations if wanted.items() <= each.items()]}

    def describe_pod_identity_association(self, *, clusterName: str, associationId: str) -> dict[str, Any]:
        """One of them."""
        return {"association": next(each for each in self.associations if each["associationId"] == associationId)}


class PlayedCloud:
    """AWS without a server.

    Attributes:
        unreached: Why no source reaches AWS. If it is empty, each source reaches it.
    """

    endpoint = "http://127.0.0.1:1"
    region = "us-east-1"
    administrator = "arn:aws:iam::123456789012:role/administrator"

    def __init__(self) -> None:
        self.eks, self.unreached = Eks(), ""
        iam = self.client("iam")
        self.role = str(iam.create_role(RoleName="nodes", AssumeRolePolicyDocument="{}")["Role"]["Arn"])
        iam.create_instance_profile(InstanceProfileName="nodes")
        iam.add_role_to_instance_profile(InstanceProfileName="nodes", RoleName="nodes")
        self.eks.entries[self.role] = {"type": "EC2_LINUX"}

    def client(self, service: str, *, role: str = "", credentials: Credentials | None = None) -> Any:
        """A client of moto's EC2 or IAM, or the EKS of this module."""
        return self.eks if service == "eks" else boto3.client(service, region_name=self.region)

    def credentials(self, role: str = "") -> Credentials:
        """A key that contains the name of its role."""
        return Credentials(role=role, access_key=f"AKIA{role.rpartition('/')[2]}")

    def rejected(self, why: str) -> Credentials:
        """A key without a role."""
        return Credentials(role="", access_key="REJECTED")

    def unreachable(self, source: Source, cluster: str, *services: str) -> str:
        """Why no source reaches AWS, or an empty text."""
        return self.unreached

    def unreachable_kubelet(self, node: Source, cluster: str) -> str:
        """An empty text: the API server reaches each kubelet."""
        return ""

    def assume(self, role: str, *, service: str, source: Source | None = None) -> Credentials:
        """The credentials of the role, for any service and source."""
        return self.credentials(role)

    def pod_credentials(
        self, cluster: str, *, namespace: str, service_account: str, pod: str, node_role: str, source: Source
    ) -> Credentials | None:
        """The role of the association."""
        found = self.eks.list_pod_identity_associations(
            clusterName=cluster, namespace=namespace, serviceAccount=service_account
        )["associations"]
        return self.credentials(found[0]["roleArn"]) if found else None

    def resolve_role(self, access_key: str) -> str:
        """The role of a key."""
        return f"arn:aws:iam::123456789012:role/{access_key.removeprefix('AKIA')}"

    def run(self, user_data: str, *, instance_type: str = "g6.xlarge", profile: str = "nodes") -> str:
        """Run an instance, and return its id."""
        disk = {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 100}}
        made = self.client("ec2").run_instances(
            ImageId=self.client("ec2").describe_images()["Images"][0]["ImageId"],
            InstanceType=instance_type,
            MinCount=1,
            MaxCount=1,
            UserData=user_data,
            Placement={"AvailabilityZone": ZONE},
            BlockDeviceMappings=[disk],
            **({"IamInstanceProfile": {"Name": profile}} if profile else {}),
        )
        return str(made["Instances"][0]["InstanceId"])

    def terminate(self, instance: str) -> None:
        """Terminate an instance."""
        self.client("ec2").terminate_instances(InstanceIds=[instance])


@contextmanager
def played_cloud() -> Iterator[PlayedCloud]:
    """Simulated AWS, deleted at the end of the block."""
    with mock_aws():
        yield PlayedCloud()


def node_config(*, endpoint: str = "https://api", authority: str = "Y2E=", **kubelet: Any) -> str:
    """User data of a node of the cluster."""
    cluster = {"name": CLUSTER, "apiServerEndpoint": endpoint, "certificateAuthority": authority, "cidr": "10.0.0.0/16"}
    spec = {"cluster": cluster, "kubelet": kubelet}
    return multipart(yaml.safe_dump({"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}))


def multipart(*configs: str) -> str:
    """User data with some NodeConfigs."""
    parts = "".join(f"--//\nContent-Type: application/node.eks.aws\n\n{each}\n" for each in configs)
    return f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="//"\n\n{parts}--//--\n'


def encoded(user_data: str) -> str:
    """User data as EC2 keeps it."""
    return base64.b64encode(user_data.encode()).decode()
