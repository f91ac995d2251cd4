"""Permissions for ``gpu-constructs doctor``, which explains why pods of a cluster don't run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.installing.cluster_ref import AnyCluster, ClusterRef, cluster_ref
from gpu_constructs.installing.context import owning_stack, stack_place
from gpu_constructs.installing.delivery import apply_manifests
from gpu_constructs.installing.eks_resources import set_logical_id
from gpu_constructs.installing.pod_identity import policy_document
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.teams.access import (
    AccessEntry,
    access_entry,
    bound_role,
    principal_name,
    refuse_duplicates,
    refuse_unless_principals,
    warn_of_identity_center,
)
from gpu_facts.doctor_reads import DOCTOR_ROLE, iam_statements, rbac_rules
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import has_token

_GROUP = "gpu-constructs:doctors"


@named_arguments
class DoctorAccess(Construct):
    """Access of people and programs that run ``gpu-constructs doctor`` against a cluster: reads only, no Secrets.

    Each principal has an access entry with the group ``gpu-constructs:doctors``. The group may list the resources that
    doctor reads, in every namespace, and get pods, and three ConfigMaps by name. A principal who is also a viewer,
    operator or team member keeps one access entry with all rights.

    The IAM policy allows the calls of AWS that doctor makes. It is limited to the cluster, its node groups and two
    quotas where the action takes an ARN, and otherwise to the cluster's Region. Roles that this app creates have the
    policy. Attach it to other principals yourself: ``access.policy.attach_to_role(role)``.

    ``gpu-constructs doctor --print-policy rbac`` and ``iam`` print the same permissions for a cluster without this
    construct. The ConfigMaps of a plan (``--against``) aren't included: grant them with a Role in their namespace.

    Args:
        cluster: Cluster that is read. It needs a kubectl provider, and authentication mode ``API`` or
            ``API_AND_CONFIG_MAP``, which a `GpuCluster` has.
        principals: IAM users and roles by literal ARN, or roles. Administrators of the cluster have every right in it
            already. Name all principals here: a cluster has one such construct.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: No principal is named, an ARN isn't of an IAM user or role, a principal occurs twice or administers
            the cluster, or the cluster already has a `DoctorAccess`.

    Attributes:
        group: Group of the principals in the cluster, for your own role bindings.
        policy: The IAM policy.
    """

    def __init__(
        self, scope: Construct, id: str, *, cluster: AnyCluster, principals: Sequence[str | iam.IRole]
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        people = _principals(who, principals)
        why = "its ClusterRole and its group are for all principals of the cluster; name them all in one"
        ref.claim(who, "DoctorAccess", why=why)

        self.group: str = _GROUP
        apply_manifests(self, "Role", cluster=ref, manifests=bound_role(DOCTOR_ROLE, _GROUP, rbac_rules()))
        warn_of_identity_center(self, tuple(people))
        for arn, role in people.items():
            self._entry(ref, arn, role).add_group(_GROUP)
        place = stack_place(self)
        statements = iam_statements(
            cluster=ref.name, partition=place.partition, region=place.region, account=place.account
        )
        self.policy = iam.ManagedPolicy(
            self,
            "Policy",
            description="Reads of gpu-constructs doctor for one cluster",
            document=iam.PolicyDocument.from_json(policy_document(statements)),
            roles=[role for role in people.values() if isinstance(role, iam.Role)],
        )
        set_logical_id(self.policy.node.default_child, ref, "ManagedPolicy", DOCTOR_ROLE)

    def _entry(self, cluster: ClusterRef, arn: str, role: iam.IRole | None) -> AccessEntry:
        if role is None or not has_token(principal_name(arn)):
            return access_entry(PathOf(self), "principals", cluster, arn)
        # In this stack, because the cluster's stack may be deployed before the role's stack. No other construct accepts
        # a role without a literal ARN.
        path, stack = role.node.path, owning_stack(cast("Construct", role))
        return AccessEntry(self, f"Access-{path}", cluster=cluster, principal_arn=arn, of_stack=stack.node.path)


def _principals(who: object, given: object) -> dict[str, iam.IRole | None]:
    """Return the role of each ARN, or ``None`` for an ARN that was given as text.

    Raises:
        TypeError: The value isn't a list of ARNs and roles.
        ValueError: It is empty, an ARN isn't of an IAM user or role, or a principal occurs twice.
    """
    example = "write ['arn:aws:iam::111122223333:role/OnCall']"
    if not isinstance(given, (list, tuple)):
        raise TypeError(f"{who}: principals must be a list of ARNs or roles, got {given!r}; {example}")
    if not given:
        raise ValueError(f"{who}: principals must name at least one user or role, got none; {example}")
    for each in given:
        if not isinstance(each, str) and not hasattr(each, "role_arn"):
            raise TypeError(f"{who}: principals must be ARNs or iam.IRole, got {each!r}; {example}")
    pairs = [(each, None) if isinstance(each, str) else (each.role_arn, each) for each in given]
    refuse_unless_principals(who, "principals", tuple(arn for arn, role in pairs if role is None))
    refuse_duplicates(who, "principals", tuple(arn for arn, _ in pairs))
    return dict(pairs)
