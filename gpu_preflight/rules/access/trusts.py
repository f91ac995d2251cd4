"""Roles of pods that AWS does not let them take, or that may not do what they are for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_preflight.case import Case
from gpu_preflight.cluster.iam import (
    AUDIENCE,
    POD_IDENTITY,
    POD_IDENTITY_ACTIONS,
    ROLE_ANNOTATION,
    WEB_IDENTITY_ACTION,
    associations,
    identity,
    is_associated,
    may_pass,
    refused_tags,
    role_of,
    trusted_accounts,
    trusted_audiences,
    trusts,
)
from gpu_preflight.cluster.references import setting
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import is_expression, mappings, may_equal
from gpu_preflight.rules.rule import Problem, rule

_IRSA = "https://docs.aws.amazon.com/eks/latest/userguide/associate-service-account-role.html"
_AUDIENCE_ANNOTATION = "eks.amazonaws.com/audience"


@rule("GPU340", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/pod-id-association.html")
def role_that_pod_identity_cannot_assume(case: Case) -> Iterator[Problem]:
    """Role that EKS Pod Identity cannot assume.

    EKS assumes the role for the pod and tags the session; without both actions, or if a condition names another service
    account, the pod gets no credentials.

    Fix: Let pods.eks.amazonaws.com take sts:AssumeRole and sts:TagSession in the role's trust policy, and correct the
    tags in its conditions.
    """
    cluster = case.cluster
    given = [(each, each.properties) for each in associations(cluster)]
    # An add-on names accounts of its own namespace.
    for addon in cluster.addons:
        given += [(addon.resource, one) for one in mappings(addon.resource.properties.get("PodIdentityAssociations"))]
    for each, said in given:
        role = role_of(said.get("RoleArn"), cluster.resources)
        actions = POD_IDENTITY_ACTIONS if role else ()
        account = "/".join(str(said[key]) for key in ("Namespace", "ServiceAccount") if key in said)
        refused = [one for one in actions if role and trusts(role, "Service", one, POD_IDENTITY) is Answer.NO]
        if role and refused:
            text = f"lets {POD_IDENTITY} take no {' and no '.join(refused)}"
            yield Problem(each, f"role {role.path} of service account {account} {text}")
        elif role and (unmet := refused_tags(role, _session_tags(said, cluster))):
            text = f"trusts {POD_IDENTITY} only for {', '.join(unmet)}"
            yield Problem(each, f"role {role.path} of service account {account} {text}")


def _session_tags(said: Mapping[str, Any], cluster: Cluster) -> dict[str, str]:
    """Return the tags of the sessions of an association that are known."""
    tags = {
        "kubernetes-namespace": said.get("Namespace"),
        "kubernetes-service-account": said.get("ServiceAccount"),
        "eks-cluster-name": setting(cluster, "Name"),
    }
    return {key: value for key, value in tags.items() if isinstance(value, str)}


@rule("GPU341", "error", source=_IRSA)
def role_that_a_service_account_cannot_assume(case: Case) -> Iterator[Problem]:
    """Role that a service account cannot assume.

    STS refuses the account's token, and no call of its pods to AWS succeeds.

    Fix: Let the cluster's OIDC provider take sts:AssumeRoleWithWebIdentity, for audience sts.amazonaws.com and this
    service account.
    """
    cluster = case.cluster
    autoscalers = {each.service_account for each in cluster.autoscalers}
    for account in cluster.of_kind("ServiceAccount"):
        role = role_of(account.annotations.get(ROLE_ANNOTATION), cluster.resources)
        associated = is_associated((account.namespace, account.name), cluster)
        if role is not None and associated is Answer.NO:
            # What autoscalers are trusted with is said of them.
            known = (account.namespace, account.name) in autoscalers
            for why in _refusals(role, account, asks_who=not known):
                yield Problem(account, f"service account {account.namespace}/{account.name}: role {role.path} {why}")


def _refusals(role: Resource, account: Object, *, asks_who: bool) -> Iterator[str]:
    if trusts(role, "Federated", WEB_IDENTITY_ACTION) is Answer.NO:
        yield f"lets no identity provider take {WEB_IDENTITY_ACTION}"
        return
    wanted = account.annotations.get(_AUDIENCE_ANNOTATION, AUDIENCE)
    audiences = trusted_audiences(role)
    if audiences and not any(_matches(each, str(wanted)) for each in audiences):
        yield f"trusts tokens for {', '.join(audiences)}, the account's are for {wanted}"
    named = trusted_accounts(role)
    if asks_who and named and not any(_matches(each, f"{account.namespace}:{account.name}") for each in named):
        yield f"trusts {', '.join(named)}"


def _matches(pattern: str, text: str) -> bool:
    return "*" in pattern or "?" in pattern or is_expression(text) or may_equal(pattern, text)


@rule(
    "GPU342", "error", source="aws/karpenter-provider-aws v1.14.1 website/content/en/docs/reference/cloudformation.md"
)
def karpenter_that_may_not_pass_the_role_of_its_nodes(case: Case) -> Iterator[Problem]:
    """Karpenter that may not pass the role of its nodes.

    EC2 refuses each launch with an instance profile of a role that the controller may not pass.

    Fix: Allow iam:PassRole on the node role in the policy of Karpenter's role.
    """
    cluster = case.cluster
    for each in cluster.autoscalers:
        role = role_of(identity(each, cluster), cluster.resources) if each.kind == "karpenter" else None
        for node_class in cluster.of_kind("EC2NodeClass") if role else ():
            wanted: Any = node_class.spec.get("role")
            if role and wanted and may_pass(role, wanted, cluster.resources) is Answer.NO:
                text = f"Karpenter: its role may not pass role {wanted} of EC2NodeClass {node_class.name}"
                yield Problem(each, text)
