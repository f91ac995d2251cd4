"""What the pods of a service account may do in AWS."""

from __future__ import annotations

from typing import cast

import jsii
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.installing.cluster_ref import AnyCluster, ClusterRef, cluster_ref
from gpu_constructs.installing.delivery import apply_chart
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

# Every namespace has it, and every pod that names none runs as it.
_OF_EVERYBODY = "default"
# A role of Pod Identity takes a target role as the pod it is taken for, whose tags it hands on.
_TAKE = ["sts:AssumeRole", "sts:TagSession"]


@named_arguments
@jsii.implements(iam.IGrantable)
class WorkloadIdentity(Construct):
    """A role for the pods of one service account, through EKS Pod Identity: ``bucket.grant_read(identity)``.

    Nobody else takes the role: its trust names cluster, namespace and service account. A pod gets credentials only if
    the association is there when it starts, so the service account that is made here comes after it and after all that
    is granted. The cluster needs the add-on ``eks-pod-identity-agent``, which a `GpuCluster` has.

    Sources: https://docs.aws.amazon.com/eks/latest/userguide/pod-identities.html,
    https://docs.aws.amazon.com/eks/latest/userguide/pod-id-assign-target-role.html (2026-11)

    Args:
        cluster: Cluster of the pods; needs a kubectl provider where the service account is made.
        service_account: Name of the service account, which pods state as ``serviceAccountName``.
        namespace: Existing namespace, the pods' own.
        create_service_account: Make the service account. If not, it exists, and pods that use it have to depend on
            this construct.
        target_role: Role, mostly of another account, that pods act as: EKS takes it by way of ours, which is all that
            ours may do then. It has to trust ours, see ``docs/storage.md``; what is granted is granted to it.
            Default: pods act as our role.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A name is none, the service account has a role from this library, or ``default`` shall be made.

    Attributes:
        role: The role that EKS takes for the pods, in the account of the cluster.
        association: What gives it to the service account.
        target_role: The role that pods act as, where it is another one.
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
                f"{who}: service_account must not be {_OF_EVERYBODY!r}, which Kubernetes makes in every namespace, got "
                "it; name one of the workload's own"
            )
        ref.claim(
            who,
            service_account_claim(namespace, service_account),
            why="EKS takes one association for a service account",
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
        """The role that pods act as, for every ``grant`` of the CDK."""
        acts_as = self.target_role if self.target_role is not None else self.role
        return acts_as.grant_principal

    def _make_service_account(self, cluster: ClusterRef) -> None:
        # Not above: it loads cdk8s, which takes a second.
        from gpu_constructs.identity.service_account_manifest import service_account_chart

        chart = service_account_chart(name=self.service_account, namespace=self.namespace)
        made = apply_chart(self, "ServiceAccount", cluster=cluster, chart=chart)
        # Also after policies that are granted later.
        made.node.add_dependency(self.role, self.association)


def service_account_claim(namespace: str, service_account: str) -> str:
    """Return what an identity claims of its cluster."""
    return f"role of service account {namespace}/{service_account}"
