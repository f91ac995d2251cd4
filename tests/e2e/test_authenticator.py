"""The real API server grants access to a token of AWS, within its access entries and policies."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from gpu_rehearsal.cluster.client import ApiError, Client, Object
from gpu_rehearsal.cluster.control_plane import ControlPlane, control_plane, rbac_uses
from gpu_rehearsal.cluster.identities import Authenticator
from tests.rehearsal.cluster.cloud import CLUSTER, PlayedCloud, played_cloud
from tools import build_e2e_tools

# Fills the roles view, edit and admin.
AGGREGATION = ("clusterrole-aggregation-controller",)
POLICY = "arn:aws:eks::aws:cluster-access-policy/"
ROLE = "arn:aws:iam::123456789012:role/"


@pytest.fixture(scope="module")
def cloud() -> Iterator[PlayedCloud]:
    with played_cloud() as made:
        yield made


@pytest.fixture(scope="module")
def who(cloud: PlayedCloud) -> Iterator[Authenticator]:
    with Authenticator(cloud, cluster=CLUSTER) as running:
        yield running


@pytest.fixture(scope="module")
def plane(who: Authenticator) -> Iterator[ControlPlane]:
    folder = build_e2e_tools.folder_of_tools()
    if folder is None:
        pytest.skip(build_e2e_tools.MISSING)
    with control_plane(folder, controllers=AGGREGATION, authenticator=who.address, audit=True) as running:
        who.client = running.client
        yield running


def entry(role: str, *policies: Object, groups: tuple[str, ...] = ()) -> Object:
    username = f"arn:aws:sts::123456789012:assumed-role/{role}/{{{{SessionName}}}}"
    return {"type": "STANDARD", "username": username, "kubernetesGroups": list(groups), "policies": list(policies)}


def policy(name: str, *namespaces: str) -> Object:
    scope = {"type": "namespace", "namespaces": list(namespaces)} if namespaces else {"type": "cluster"}
    return {"policyArn": POLICY + name, "accessScope": scope}


def token(role: str, *, cluster: str = CLUSTER) -> str:
    request = AWSRequest("GET", "http://sts/?Action=GetCallerIdentity", headers={"x-k8s-aws-id": cluster})
    SigV4QueryAuth(Credentials(f"AKIA{role}", "rehearsal"), "sts", "us-east-1", expires=60).add_auth(request)
    return "k8s-aws-v1." + base64.urlsafe_b64encode(request.url.encode()).decode().rstrip("=")


def as_role(plane: ControlPlane, role: str, **of: str) -> Client:
    return Client(plane.client.port, token(role, **of), plane.client.certificate)


def test_an_administrator_may_do_all(plane: ControlPlane, cloud: PlayedCloud, who: Authenticator) -> None:
    cloud.eks.entries[f"{ROLE}deployer"] = entry("deployer", policy("AmazonEKSClusterAdminPolicy"))

    client = as_role(plane, "deployer")
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})

    assert who.logins[-1].username == "arn:aws:sts::123456789012:assumed-role/deployer/rehearsal"
    [use] = [each for each in rbac_uses(plane.audit) if each.user == who.logins[-1].username and each.verb == "create"]
    assert (use.resource, use.name, use.decision) == ("namespaces", "team", "allow")
    assert "cluster-admin" in use.reason


def test_a_policy_of_a_namespace_ends_there(plane: ControlPlane, cloud: PlayedCloud) -> None:
    cloud.eks.entries[f"{ROLE}viewer"] = entry("viewer", policy("AmazonEKSViewPolicy", "default"))

    client = as_role(plane, "viewer")

    assert client.list("/api/v1/namespaces/default/pods") == []
    with pytest.raises(ApiError, match="403"):
        client.list("/api/v1/namespaces/kube-system/pods")


@pytest.mark.parametrize(
    ("role", "cluster", "said", "reason"),
    [
        ("nobody", CLUSTER, None, "has no access entry"),
        ("worker", CLUSTER, {"type": "EC2_LINUX"}, "which is for nodes"),
        ("abroad", "other", entry("abroad"), "was not signed for cluster training"),
        ("strange", CLUSTER, entry("strange", policy("AmazonEKSNewPolicy")), "AmazonEKSNewPolicy isn't supported"),
        ("wild", CLUSTER, entry("wild", policy("AmazonEKSViewPolicy", "team-*")), "patterns of namespaces"),
    ],
)
def test_others_stay_outside(
    plane: ControlPlane,
    cloud: PlayedCloud,
    who: Authenticator,
    role: str,
    cluster: str,
    said: Object | None,
    reason: str,
) -> None:
    if said is not None:
        cloud.eks.entries[ROLE + role] = said

    with pytest.raises(ApiError, match="401"):
        as_role(plane, role, cluster=cluster).get("/api/v1/namespaces")

    assert reason in who.logins[-1].failure
