"""Whose rights a pod has, at AWS and in the cluster."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

from botocore.exceptions import ClientError
from moto.core.exceptions import ServiceException

from gpu_rehearsal.cluster.client import Client, Object
from gpu_rehearsal.cluster.instances import Node
from gpu_rehearsal.cluster.pod_status import has_host_network, is_ready, owner
from gpu_rehearsal.credentials import Cloud, Credentials
from gpu_rehearsal.processes import LOOPBACK

# Source: https://docs.aws.amazon.com/eks/latest/userguide/associate-service-account-role.html
_ROLE_OF_ACCOUNT = "eks.amazonaws.com/role-arn"
_TOKEN_SECONDS = 24 * 3600
_SYSTEM, _AGENT = "kube-system", "eks-pod-identity-agent"
# How long a pod whose credentials were rejected waits; SDKs and restarts of containers try again in their own time.
RETRY_SECONDS = 20.0


class NoCredentials(Exception):
    """Why nothing answers a pod that requests credentials."""


class PodCredentials:
    """The AWS credentials of the pods of a cluster. A pod requests them once, and again after a rejection."""

    def __init__(
        self,
        cloud: Cloud,
        client: Client,
        *,
        cluster: str,
        pace: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cloud, self._client, self._cluster = cloud, client, cluster
        self._pace, self._clock = pace, clock
        self._requested: dict[str, tuple[float, Credentials | Exception | None]] = {}

    def lacks(self, pod: Object, node: Node) -> str:
        """Return why a pod can't call AWS; empty if it can, or has nothing to call it for."""
        found = self._found(pod, node)
        return f"AWS credentials of service account {_account(pod)}: {found}" if isinstance(found, Exception) else ""

    def lacks_agent(self, pod: Object, node: Node) -> str:
        """Return why nothing answers a pod's request for credentials; empty if an answer came, be it a rejection."""
        return self.lacks(pod, node) if isinstance(self._found(pod, node), NoCredentials) else ""

    def without_role(self, pod: Object, node: Node) -> str:
        """Return that a pod has no role of its own; empty if it has one, or reaches that of its node."""
        if self._found(pod, node) is not None or has_host_network(pod):
            return ""
        return f"service account {_account(pod)} has no Pod Identity association older than the pod"

    def _found(self, pod: Object, node: Node) -> Credentials | Exception | None:
        uid = pod["metadata"]["uid"]
        at, found = self._requested.get(uid, (float("-inf"), NoCredentials()))
        if isinstance(found, Exception) and self._clock() - at >= RETRY_SECONDS * self._pace:
            try:
                found = self._request(pod, node)
            except (ServiceException, ClientError, NoCredentials) as error:
                found = error
            self._requested[uid] = (self._clock(), found)
        return found

    def credentials(self, pod: Object, node: Node) -> Credentials | None:
        """Return the credentials of a pod, ``None`` if it has none. Calls with rejected ones fail with the reason.

        Only a pod on the network of its host reaches the credentials of its node, where the metadata service answers
        one hop away.
        """
        found = self._found(pod, node)
        if isinstance(found, Exception):
            return self._cloud.rejected(self.lacks(pod, node))
        return self._node_credentials(node) if found is None and has_host_network(pod) else found

    def _request(self, pod: Object, node: Node) -> Credentials | None:
        found = self._service_account_credentials(pod, node)
        if call := _FIRST_CALLS.get(_account(pod)):
            call(self._cloud, found or self._node_credentials(node), node)
        return found

    def _node_credentials(self, node: Node) -> Credentials:
        return self._cloud.assume(node.instance.role, service="ec2.amazonaws.com", source=node.instance.source)

    def _service_account_credentials(self, pod: Object, node: Node) -> Credentials | None:
        """Return the credentials of a pod's service account.

        The webhook of EKS decides when the pod is created: an association that is created later is for later pods
        (https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html).
        """
        namespace, name = _account(pod).split("/")
        # Webhooks of EKS put the variables into a pod, so it is not the kubelet who reads the account.
        account = self._client.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}")
        if annotated := account["metadata"].get("annotations", {}).get(_ROLE_OF_ACCOUNT):
            # The trust of a web identity isn't checked.
            return self._cloud.credentials(str(annotated))
        if not any(_is_before(each, pod) for each in self._association_times(namespace, name)):
            return None
        self._check_agent(node)
        return self._cloud.pod_credentials(
            self._cluster,
            namespace=namespace,
            service_account=name,
            pod=pod["metadata"]["name"],
            node_role=node.instance.role,
            source=node.instance.source,
        )

    def _association_times(self, namespace: str, name: str) -> Iterator[datetime]:
        eks = self._cloud.client("eks")
        where = {"namespace": namespace, "serviceAccount": name}
        for each in eks.list_pod_identity_associations(clusterName=self._cluster, **where)["associations"]:
            found = eks.describe_pod_identity_association(
                clusterName=self._cluster, associationId=each["associationId"]
            )
            yield found["association"]["createdAt"]

    def _check_agent(self, node: Node) -> None:
        """Reject a request that no agent answers: it is a DaemonSet on the network of the host.

        Source: https://docs.aws.amazon.com/eks/latest/userguide/pod-id-agent-setup.html (2026-11)
        """
        on_node = f"spec.nodeName={node.name}"
        pods = self._client.list(f"/api/v1/namespaces/{_SYSTEM}/pods", fieldSelector=on_node)
        if not any(owner(each, "DaemonSet") == _AGENT and is_ready(each) for each in pods):
            raise NoCredentials(f"no ready pod of {_AGENT} on node {node.name}")


def _account(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['spec'].get('serviceAccountName', 'default')}"


def _is_before(made: datetime, pod: Object) -> bool:
    # The server cuts the times of objects down to seconds.
    return (
        int(made.timestamp())
        <= datetime.fromisoformat(pod["metadata"]["creationTimestamp"].replace("Z", "+00:00")).timestamp()
    )


def _assign_address(cloud: Cloud, credentials: Credentials, node: Node) -> None:
    interface = node.instance.said["NetworkInterfaces"][0]["NetworkInterfaceId"]
    ec2 = cloud.client("ec2", credentials=credentials)
    ec2.assign_private_ip_addresses(NetworkInterfaceId=interface, SecondaryPrivateIpAddressCount=1)


def _create_volume(cloud: Cloud, credentials: Credentials, node: Node) -> None:
    tags = [{"Key": "ebs.csi.aws.com/cluster", "Value": "true"}, {"Key": "CSIVolumeName", "Value": "pvc-rehearsal"}]
    ec2 = cloud.client("ec2", credentials=credentials)
    tagged = [{"ResourceType": "volume", "Tags": tags}]
    try:
        ec2.create_volume(AvailabilityZone=node.instance.zone, Size=1, TagSpecifications=tagged, DryRun=True)
    except ClientError as error:
        if error.response["Error"]["Code"] != "DryRunOperation":
            raise


# The call without which the pods of an account are of no use, tried before they start.
# Sources: https://docs.aws.amazon.com/eks/latest/userguide/cni-iam-role.html,
# https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/v1.64.0/docs/example-iam-policy.json (2026-11)
_FIRST_CALLS: Mapping[str, Callable[[Cloud, Credentials, Node], None]] = {
    f"{_SYSTEM}/aws-node": _assign_address,
    f"{_SYSTEM}/ebs-csi-controller-sa": _create_volume,
}


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
