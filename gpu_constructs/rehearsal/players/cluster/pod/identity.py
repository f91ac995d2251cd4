"""Whose rights a pod has, at AWS and in the cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from gpu_constructs.rehearsal.players.cluster.client import Client, Object
from gpu_constructs.rehearsal.players.cluster.cloud import Cloud
from gpu_constructs.rehearsal.players.cluster.ports import LOOPBACK

# Source: https://docs.aws.amazon.com/eks/latest/userguide/associate-service-account-role.html
_ROLE_OF_ACCOUNT = "eks.amazonaws.com/role-arn"
_TOKEN_SECONDS = 24 * 3600


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """Who a pod is at AWS.

    Attributes:
        role: ARN of its role; empty for nobody.
        tags: Tags of its session.
    """

    role: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


def identity_of(pod: Object, *, account: Object, cloud: Cloud, cluster: str, node_role: str) -> Identity:
    """Return who calls AWS for a pod.

    Credentials come into a pod when it is made: an association that is made later is for later pods
    (https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html). Only a pod on the network of its host
    reaches the credentials of its node, where the metadata service answers one hop away.

    Args:
        pod: The pod.
        account: Its service account.
        cloud: AWS.
        cluster: Name of the cluster.
        node_role: Role of its node.
    """
    annotated = account["metadata"].get("annotations", {}).get(_ROLE_OF_ACCOUNT)
    if annotated:
        return Identity(role=str(annotated))
    where = {"namespace": pod["metadata"]["namespace"], "serviceAccount": account["metadata"]["name"]}
    eks = cloud.client("eks")
    for each in eks.list_pod_identity_associations(clusterName=cluster, **where)["associations"]:
        found = eks.describe_pod_identity_association(clusterName=cluster, associationId=each["associationId"])
        if _is_before(found["association"]["createdAt"], pod):
            return _associated(found["association"], pod, eks.describe_cluster(name=cluster)["cluster"]["arn"])
    return Identity(role=node_role if pod["spec"].get("hostNetwork") else "")


def _associated(association: Mapping[str, Any], pod: Object, cluster: str) -> Identity:
    """Render the session: https://docs.aws.amazon.com/eks/latest/userguide/pod-id-abac.html."""
    metadata = pod["metadata"]
    tags = {
        "eks-cluster-arn": cluster,
        "eks-cluster-name": cluster.rpartition("/")[2],
        "kubernetes-namespace": metadata["namespace"],
        "kubernetes-service-account": pod["spec"]["serviceAccountName"],
        "kubernetes-pod-name": metadata["name"],
        "kubernetes-pod-uid": metadata["uid"],
    }
    return Identity(role=str(association["roleArn"]), tags={} if association.get("disableSessionTags") else tags)


def _is_before(made: datetime, pod: Object) -> bool:
    # The server cuts the times of objects down to seconds.
    return (
        int(made.timestamp())
        <= datetime.fromisoformat(pod["metadata"]["creationTimestamp"].replace("Z", "+00:00")).timestamp()
    )


def has_token(pod: Object, container: Object) -> bool:
    """Whether a container finds the token of its service account: the server has mounted it then."""
    with_token = {
        volume["name"]
        for volume in pod["spec"].get("volumes", ())
        for source in volume.get("projected", {}).get("sources", ())
        if "serviceAccountToken" in source
    }
    return any(each["name"] in with_token for each in container.get("volumeMounts", ()))


def write_kubeconfig(pod: Object, kubelet: Client, folder: Path) -> Path:
    """Ask for a token that is bound to a pod, and write down how its program reaches the server with it.

    Source: https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-request-v1/
    """
    metadata = pod["metadata"]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
    asked = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": _TOKEN_SECONDS, "boundObjectRef": bound},
    }
    account = f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{pod['spec']['serviceAccountName']}"
    token = kubelet.post(f"{account}/token", asked)["status"]["token"]
    server = {"server": f"https://{LOOPBACK}:{kubelet.port}", "certificate-authority": str(kubelet.certificate)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "cluster", "cluster": server}],
        "users": [{"name": "account", "user": {"token": token}}],
        "contexts": [
            {"name": "pod", "context": {"cluster": "cluster", "user": "account", "namespace": metadata["namespace"]}}
        ],
        "current-context": "pod",
    }
    file = folder / "kubeconfig"
    file.write_text(json.dumps(config))
    file.chmod(0o600)
    return file
