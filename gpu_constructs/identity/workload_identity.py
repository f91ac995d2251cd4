"""IAM permissions of the pods of a service account."""

from __future__ import annotations

from typing import cast

import jsii
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.installing.cluster_ref import AnyCluster, ClusterRef, cluster_ref
from gpu_constructs.installing.delivery import apply_manifests
from gpu_constructs.installing.pod_identity import (
    POD_IDENTITY,
    keep_role,
    pod_identity_association,
    session_tag_conditions,
)
from gpu_constructs.installing.registry import PathOf
from gpu_facts.kubernetes import refuse_unless_object_name
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_bool, refuse_unless_role

# Every namespace has it, and every pod without a service account name runs as it.
_OF_EVERYBODY = "default"
# A role of Pod Identity assumes a target role for its pod, and passes on the pod's tags.
_TAKE = ["sts:AssumeRole", "sts:TagSession"]


@named_arguments
@jsii.implements(iam.IGrantable)
class WorkloadIdentity(Construct):
    """A role for the pods of one service account, through EKS Pod Identity: ``bucket.grant_read(identity)``.

    Only these pods can assume the role: its trust policy names cluster, namespace and service account. A pod gets
    credentials only if the association exists when the pod starts. So CloudFormation creates the service account after
    the association and all grants. The cluster needs the add-on ``eks-pod-identity-agent``, which a `GpuCluster` has.

    An association can take seconds to work, so a program that calls AWS in its first second should retry. Credentials
    last 6 hours, with a target role 59 minutes, and a changed role applies after that. The pod's SDK must support Pod
    Identity. Pods can't read the region from the metadata service, so set ``AWS_REGION``. If they use a proxy, set
    ``NO_PROXY`` to ``169.254.170.23`` and ``[fd00:ec2::23]``.

    Sources: https://docs.aws.amazon.com/eks/latest/userguide/pod-identities.html,
    https://docs.aws.amazon.com/eks/latest/userguide/pod-id-minimum-sdk.html,
    https://docs.aws.amazon.com/eks/latest/userguide/pod-id-assign-target-role.html (2026-11)

    Args:
        cluster: Cluster of the pods. It needs a kubectl provider if this construct creates the service account.
        service_account: Name of the service account, which pods state as ``serviceAccountName``.
        namespace: Existing namespace of the pods.
        create_service_account: Whether to create the service account. If not, it must exist, and pods that use it must
            depend on this construct.
        target_role: Role that pods act as, usually of another account. EKS assumes it through the construct's role,
            which then has no other permission. It must trust the construct's role, see ``docs/how-to/storage.md``.
            Grants apply to the target role. Default: pods act as the construct's role.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A name is invalid, this library already gave the service account a role, or the service account is
            ``default`` and shall be created.

    Attributes:
        role: The role that EKS assumes for the pods, in the account of the cluster.
        association: The Pod Identity association of role and service account.
        target_role: The role that pods act as, if it is another one.
        service_account: Name of the service account.
        namespace: Its namespace.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        service_account: str,
        namespace: str = "default",
        create_service_account: bool = True,
        target_role: iam.IRole | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        refuse_unless_bool(who, "create_service_account", create_service_account)
        ref = cluster_ref(who, cluster, kubectl=create_service_account)
        refuse_unless_object_name(who, "service_account", service_account)
        refuse_unless_object_name(who, "namespace", namespace)
        refuse_unless_role(who, "target_role", target_role)
        if create_service_account and service_account == _OF_EVERYBODY:
            raise ValueError(
                f"{who}: service_account must not be {_OF_EVERYBODY!r}, which Kubernetes creates in every namespace, "
                f"got {_OF_EVERYBODY!r}; use a service account for this workload only"
            )
        ref.claim(
            who,
            service_account_claim(namespace, service_account),
            why="EKS allows one association for a service account",
        )

        self.service_account, self.namespace = service_account, namespace
        self.target_role = target_role
        session = session_tag_conditions(
            self, cluster_name=ref.name_token, namespace=namespace, service_account=service_account
        )
        trusted = iam.ServicePrincipal(POD_IDENTITY).with_conditions({"StringEquals": session}).with_session_tags()
        self.role = iam.Role(self, "Role", assumed_by=trusted)
        resource = cast("iam.CfnRole", self.role.node.default_child)
        keep_role(resource, ref, namespace=namespace, service_account=service_account)
        if target_role is not None:
            self.role.add_to_policy(iam.PolicyStatement(actions=_TAKE, resources=[target_role.role_arn]))
        self.association = pod_identity_association(
            self,
            ref,
            namespace=namespace,
            service_account=service_account,
            role_arn=self.role.role_arn,
            target_role_arn=target_role.role_arn if target_role is not None else None,
        )
        if create_service_account:
            self._make_service_account(ref)

    @property
    def grant_principal(self) -> iam.IPrincipal:
        """The role that pods act as, for every ``grant`` method of the CDK."""
        acts_as = self.target_role if self.target_role is not None else self.role
        return acts_as.grant_principal

    def _make_service_account(self, cluster: ClusterRef) -> None:
        # Pod Identity needs no annotation on it.
        metadata = {"name": self.service_account, "namespace": self.namespace}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
        made = apply_manifests(self, "ServiceAccount", cluster=cluster, manifests=[account])
        # Also after policies that are granted later in the app.
        made.node.add_dependency(self.role, self.association)


def service_account_claim(namespace: str, service_account: str) -> str:
    """Return the key under which a cluster registers the role of a service account."""
    return f"role of service account {namespace}/{service_account}"
