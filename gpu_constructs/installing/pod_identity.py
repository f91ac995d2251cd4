"""The role that a service account assumes through EKS Pod Identity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.installing import eks_resources
from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.context import stack_place
from gpu_constructs.installing.eks_resources import set_logical_id
from gpu_facts.refusals import has_token

POD_IDENTITY = "pods.eks.amazonaws.com"


def session_tag_conditions(
    scope: Construct, *, cluster_name: str, namespace: str, service_account: str
) -> dict[str, str]:
    """Return the session tags with which EKS identifies the pods of one service account of one cluster.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/pod-id-abac.html
    """
    place = stack_place(scope)
    where = f"{place.partition}:eks:{place.region}:{place.account}"
    return {
        "aws:RequestTag/eks-cluster-arn": f"arn:{where}:cluster/{cluster_name}",
        "aws:RequestTag/kubernetes-namespace": namespace,
        "aws:RequestTag/kubernetes-service-account": service_account,
    }


def trust(scope: Construct, *, cluster_name: str, namespace: str, service_account: str) -> dict[str, Any]:
    """Return a trust policy for the pods of one service account of one cluster, by the tags of their session.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html
    """
    session = session_tag_conditions(
        scope, cluster_name=cluster_name, namespace=namespace, service_account=service_account
    )
    return policy_document(
        [
            {
                "Effect": "Allow",
                "Principal": {"Service": POD_IDENTITY},
                "Action": ["sts:AssumeRole", "sts:TagSession"],
                "Condition": {"StringEquals": session},
            }
        ]
    )


def policy_document(statements: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return statements as an IAM policy document."""
    return {"Version": "2012-10-17", "Statement": list(statements)}


def string_equals(scope: Construct, id: str, tags: Mapping[str, object]) -> object:
    """Return a ``StringEquals`` block whose keys may contain the cluster's name.

    CloudFormation doesn't accept a token as a key, so a key that is known only at deployment needs a `CfnJson`.
    """
    if any(has_token(key) for key in tags):
        return cdk.CfnJson(scope, id, value=dict(tags))
    return dict(tags)


class PodIdentity(Construct):
    """A role, and the association through which the pods of one service account assume it.

    Args:
        cluster: The cluster.
        namespace: Namespace of the service account.
        service_account: Its name. It need not exist yet.
        policies: Inline policies by name.
        managed_policy_arns: Managed policies.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: ClusterRef,
        namespace: str,
        service_account: str,
        policies: dict[str, dict[str, Any]] | None = None,
        managed_policy_arns: Sequence[str] = (),
    ) -> None:
        super().__init__(scope, id)
        inline = [{"policyName": name, "policyDocument": document} for name, document in (policies or {}).items()]
        self.role = iam.CfnRole(
            self,
            "Role",
            assume_role_policy_document=trust(
                self, cluster_name=cluster.name_token, namespace=namespace, service_account=service_account
            ),
            policies=inline or None,
            managed_policy_arns=list(managed_policy_arns) or None,
        )
        keep_role(self.role, cluster, namespace=namespace, service_account=service_account)
        self.association = pod_identity_association(
            self, cluster, namespace=namespace, service_account=service_account, role_arn=self.role.attr_arn
        )


def keep_role(role: iam.CfnRole, cluster: ClusterRef, *, namespace: str, service_account: str) -> None:
    """Give a role a logical id that doesn't depend on the construct's path.

    Pods use the temporary credentials of a role until they expire. If another construct id replaced the role, the
    deployment would delete the old one, and running pods would lose access before that.
    """
    set_logical_id(role, cluster, "PodIdentityRole", service_account, namespace)


def pod_identity_association(
    scope: Construct,
    cluster: ClusterRef,
    *,
    namespace: str,
    service_account: str,
    role_arn: str,
    target_role_arn: str | None = None,
) -> eks_resources.CfnPodIdentityAssociation:
    """Give the pods of a service account a role. EKS accepts one association for each service account."""
    association = eks_resources.CfnPodIdentityAssociation(
        scope,
        "Resource",
        cluster_name=cluster.name_token,
        namespace=namespace,
        service_account=service_account,
        role_arn=role_arn,
        target_role_arn=target_role_arn,
    )
    set_logical_id(association, cluster, "PodIdentity", service_account, namespace)
    return association
