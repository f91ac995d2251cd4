"""Access of roles and nodes to a cluster: access entries, and the user data with which nodes join.

Sources: https://docs.aws.amazon.com/eks/latest/userguide/access-entries.html,
https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html#launch-template-user-data,
https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/, https://bottlerocket.dev/en/os/latest/api/settings/kubernetes/
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from email import message_from_string
from email.message import Message
from email.mime.multipart import MIMEMultipart
from email.mime.nonmultipart import MIMENonMultipart
from typing import Any

import tomli_w
import yaml

from gpu_facts.merging import merged
from gpu_rehearsal.aws.api import AwsError, Request, simulates
from gpu_rehearsal.aws.clusters import Cluster, Clusters
from gpu_rehearsal.aws.region import Principals, Region

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

_CLUSTER_ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
# Source: https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html (2026-11)
_POLICY_NAMES = (
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
# User name and groups of a node's role, by type of entry. Entries of other roles set their own.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html (2026-11)
_NODE_USERS = {
    "EC2_LINUX": ("system:node:{{EC2PrivateDNSName}}", ["system:nodes"]),
    "EC2": ("system:node:{{EC2PrivateDNSName}}", ["system:nodes"]),
}


class Access:
    """The access entries of every cluster."""

    def __init__(self, region: Region, clusters: Clusters, principals: Principals) -> None:
        self._region, self._clusters, self._principals = region, clusters, principals
        self._entries: dict[tuple[str, str], dict[str, Any]] = {}
        self._policies: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}

    @simulates("eks", "CreateAccessEntry")
    def create(self, request: Request) -> Mapping[str, Any]:
        """Create an access entry of a role or user."""
        parameters = request.parameters
        cluster = self._clusters.find(parameters["clusterName"], active=True)
        self._require_api_mode(cluster)
        principal = str(parameters["principalArn"])
        if (cluster.name, principal) in self._all_entries(cluster):
            message = "The specified access entry resource is already in use on this cluster."
            raise AwsError("ResourceInUseException", message)
        return {"accessEntry": self._add(cluster, principal, parameters)}

    @simulates("eks", "DescribeAccessEntry")
    def describe(self, request: Request) -> Mapping[str, Any]:
        """Return one entry."""
        return {"accessEntry": self._entry(request)}

    @simulates("eks", "ListAccessEntries")
    def listed(self, request: Request) -> Mapping[str, Any]:
        """Return the principals of a cluster's entries, or of the entries with a policy."""
        cluster, policy = (
            self._clusters.find(request.parameters["clusterName"]),
            request.parameters.get("associatedPolicyArn"),
        )
        names = [principal for name, principal in self._all_entries(cluster) if name == cluster.name]
        if policy:
            names = [each for each in names if policy in self._policies.get((cluster.name, each), {})]
        return {"accessEntries": sorted(names)}

    @simulates("eks", "UpdateAccessEntry")
    def update(self, request: Request) -> Mapping[str, Any]:
        """Change the groups and the user name of a role."""
        entry, parameters = self._entry(request), request.parameters
        _check_groups(parameters)
        entry |= {key: parameters[key] for key in ("kubernetesGroups", "username") if parameters.get(key) is not None}
        return {"accessEntry": entry}

    @simulates("eks", "DeleteAccessEntry")
    def delete(self, request: Request) -> Mapping[str, Any]:
        """Delete an access entry."""
        entry = self._entry(request)
        key = (entry["clusterName"], entry["principalArn"])
        del self._entries[key]
        self._policies.pop(key, None)
        return {}

    @simulates("eks", "AssociateAccessPolicy")
    def associate(self, request: Request) -> Mapping[str, Any]:
        """Associate an access policy of EKS with an entry."""
        parameters, entry = request.parameters, self._entry(request)
        policy = str(parameters["policyArn"])
        if policy.partition("cluster-access-policy/")[2] not in _POLICY_NAMES:
            raise AwsError("InvalidParameterException", f"The policyArn parameter format is not valid: {policy}")
        if entry["type"] in _NODE_USERS and entry["type"] != "EC2":
            message = f"Access policies cannot be associated with an entry of type {entry['type']}"
            raise AwsError("InvalidRequestException", message)
        key = (entry["clusterName"], entry["principalArn"])
        associated = _associated(policy, dict(parameters["accessScope"]))
        self._policies.setdefault(key, {})[policy] = associated
        return {"clusterName": key[0], "principalArn": key[1], "associatedAccessPolicy": associated}

    @simulates("eks", "DisassociateAccessPolicy")
    def disassociate(self, request: Request) -> Mapping[str, Any]:
        """Remove an access policy from an entry."""
        entry = self._entry(request)
        self._policies.get((entry["clusterName"], entry["principalArn"]), {}).pop(request.parameters["policyArn"], None)
        return {}

    @simulates("eks", "ListAssociatedAccessPolicies")
    def associated(self, request: Request) -> Mapping[str, Any]:
        """Return the access policies of a role in a cluster."""
        entry = self._entry(request)
        key = (entry["clusterName"], entry["principalArn"])
        policies = list(self._policies.get(key, {}).values())
        return {"clusterName": key[0], "principalArn": key[1], "associatedAccessPolicies": policies}

    def add_nodes(self, cluster: Cluster, role: str) -> None:
        """Create the access entry of a node role, as EKS does for a managed node group.

        Source: https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html
        """
        takes_entries = cluster.description["accessConfig"]["authenticationMode"] != "CONFIG_MAP"
        if takes_entries and (cluster.name, role) not in self._all_entries(cluster):
            self._add(cluster, role, {"type": "EC2_LINUX"})

    def descriptions(self) -> Iterable[dict[str, Any]]:
        """Return the description of each."""
        return self._entries.values()

    def _add(self, cluster: Cluster, principal: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        self._check_role(principal)
        kind = str(parameters.get("type") or "STANDARD")
        if kind in _NODE_USERS and (parameters.get("kubernetesGroups") or parameters.get("username")):
            raise AwsError(
                "InvalidRequestException", f"An access entry of type {kind} can't have a username or kubernetesGroups"
            )
        _check_groups(parameters)
        username, groups = _NODE_USERS.get(kind, (_username(principal), []))
        now = datetime.now(timezone.utc)
        entry = {
            "clusterName": cluster.name,
            "principalArn": principal,
            "accessEntryArn": f"{cluster.arn.replace(':cluster/', ':access-entry/')}/role/{_name(principal)}",
            "type": kind,
            "username": parameters.get("username") or username,
            "kubernetesGroups": list(parameters.get("kubernetesGroups") or groups),
            "tags": dict(parameters.get("tags", {})),
            "createdAt": now,
            "modifiedAt": now,
        }
        self._entries[cluster.name, principal] = entry
        return entry

    def _all_entries(self, cluster: Cluster) -> dict[tuple[str, str], dict[str, Any]]:
        """Return all entries. EKS creates the entry of a cluster's creator with the cluster."""
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
            self._policies[cluster.name, principal] = {_CLUSTER_ADMIN: _associated(_CLUSTER_ADMIN, {"type": "cluster"})}
        return self._entries

    def _entry(self, request: Request) -> dict[str, Any]:
        cluster = self._clusters.find(request.parameters["clusterName"])
        found = self._all_entries(cluster).get((cluster.name, request.parameters["principalArn"]))
        if found is None:
            message = f"The specified principalArn could not be found: {request.parameters['principalArn']}"
            raise AwsError("ResourceNotFoundException", message)
        return found

    def _check_role(self, principal: str) -> None:
        """Reject a role or user that doesn't exist, as EKS does."""
        if principal == self._principals.administrator:
            return
        iam = self._region.moto_client("iam")
        try:
            if ":user/" in principal:
                found = iam.get_user(UserName=_name(principal))["User"]["Arn"]
            else:
                found = iam.get_role(RoleName=_name(principal))["Role"]["Arn"]
        except iam.exceptions.NoSuchEntityException:
            found = ""
        if found != principal:
            message = f"The specified principalArn is invalid: invalid principal. {principal}"
            raise AwsError("InvalidParameterException", message)

    @staticmethod
    def _require_api_mode(cluster: Cluster) -> None:
        if cluster.description["accessConfig"]["authenticationMode"] == "CONFIG_MAP":
            message = "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP]"
            raise AwsError("InvalidRequestException", message)


def _check_groups(parameters: Mapping[str, Any]) -> None:
    if any(group.startswith("system:") for group in parameters.get("kubernetesGroups") or ()):
        message = "The kubernetes group name must not begin with 'system:'"
        raise AwsError("InvalidParameterException", message)


def _username(principal: str) -> str:
    """Return EKS' default user name of a role: its session, with a placeholder for the session name."""
    return f"arn:aws:sts::{principal.split(':')[4]}:assumed-role/{_name(principal)}/{{{{SessionName}}}}"


def _name(principal: str) -> str:
    return principal.rpartition("/")[2]


def _associated(policy: str, scope: dict[str, Any]) -> dict[str, Any]:
    now = datetime.now(timezone.utc)
    return {"policyArn": policy, "accessScope": scope, "associatedAt": now, "modifiedAt": now}


NODE_CONFIG = "application/node.eks.aws"


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeBootstrap:
    """The settings with which EKS makes a node join a cluster.

    Attributes:
        cluster: Name of the cluster.
        endpoint: Address of its API server.
        certificate_authority: PEM in base64.
        service_cidr: CIDR block of Services.
        dns_ip: Address of the cluster's DNS.
        max_pods: Max number of pods of the node.
        labels: Labels that its kubelet sets.
        taints: Key, value and effect of each taint.
    """

    cluster: str
    endpoint: str
    certificate_authority: str
    service_cidr: str
    dns_ip: str
    max_pods: int
    labels: Mapping[str, str]
    taints: tuple[tuple[str, str, str], ...]


def nodeadm(own: str, bootstrap: NodeBootstrap) -> str:
    """Return user data of AL2023: EKS' NodeConfig, then the parts of the template, which override it in nodeadm.

    Source: https://github.com/awslabs/amazon-eks-ami/issues/1988 (a template that EKS made, 2024-10)

    Args:
        own: User data of the template; empty for none.
        bootstrap: EKS' settings.

    Raises:
        AwsError: The template's user data isn't in MIME multipart format.
    """
    merged = MIMEMultipart(boundary="//")
    merged.attach(_part(NODE_CONFIG, yaml.safe_dump(_node_config(bootstrap), sort_keys=False)))
    for part in _parts(own):
        merged.attach(part)
    return merged.as_string()


def bottlerocket(own: str, bootstrap: NodeBootstrap) -> str:
    """Return user data of Bottlerocket: the template's settings, overridden by EKS' settings.

    Args:
        own: User data of the template; empty for none.
        bootstrap: EKS' settings.

    Raises:
        AwsError: The template's user data isn't TOML.
    """
    try:
        settings = tomllib.loads(own)
    except tomllib.TOMLDecodeError as error:
        raise AwsError(
            "Ec2LaunchTemplateInvalidConfiguration", f"User data was not in the TOML format: {error}"
        ) from error
    taints: dict[str, list[str]] = {}
    for key, value, effect in bootstrap.taints:
        taints.setdefault(key, []).append(f"{value}:{effect}")
    joins = {
        "cluster-name": bootstrap.cluster,
        "api-server": bootstrap.endpoint,
        "cluster-certificate": bootstrap.certificate_authority,
        "cluster-dns-ip": bootstrap.dns_ip,
        "node-labels": dict(bootstrap.labels),
    } | ({"node-taints": taints} if taints else {})
    defaults = {"settings": {"kubernetes": {"max-pods": bootstrap.max_pods}}}
    return tomli_w.dumps(merged(merged(defaults, settings), {"settings": {"kubernetes": joins}}))


def _node_config(bootstrap: NodeBootstrap) -> dict[str, Any]:
    labels = ",".join(f"{key}={value}" for key, value in bootstrap.labels.items())
    taints = ",".join(f"{key}={value}:{effect}" for key, value, effect in bootstrap.taints)
    flags = [f"--node-labels={labels}"] + ([f"--register-with-taints={taints}"] if taints else [])
    cluster = {
        "name": bootstrap.cluster,
        "apiServerEndpoint": bootstrap.endpoint,
        "certificateAuthority": bootstrap.certificate_authority,
        "cidr": bootstrap.service_cidr,
    }
    config = {"maxPods": bootstrap.max_pods, "clusterDNS": [bootstrap.dns_ip]}
    spec = {"cluster": cluster, "kubelet": {"config": config, "flags": flags}}
    return {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}


def _part(kind: str, text: str) -> Message:
    main, _, sub = kind.partition("/")
    part = MIMENonMultipart(main, sub)
    part.set_payload(text)
    return part


def _parts(own: str) -> Iterator[Message]:
    if not own.strip():
        return
    message = message_from_string(own)
    if not message.is_multipart():
        raise AwsError("Ec2LaunchTemplateInvalidConfiguration", "User data was not in the MIME multipart format.")
    yield from (part for part in message.walk() if not part.is_multipart())
