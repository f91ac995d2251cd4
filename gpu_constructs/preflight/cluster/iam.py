"""What a role of the input may do, as far as its policies are literal.

An allowed action counts whatever its resources and conditions are: they can only narrow it. Sources:
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_action.html,
https://docs.aws.amazon.com/eks/latest/userguide/pod-identities.html (2026-08)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.cluster import Autoscaler, Cluster
from gpu_constructs.preflight.reading.cloudformation import Resource
from gpu_constructs.preflight.reading.unknown import Unknown, dig, items, known_text, mapping, mappings

_ROLE = "AWS::IAM::Role"
_POLICIES = ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::IAM::RolePolicy")
# AWS's policies for nodes and clusters; none of them lets an autoscaler do its work.
# Source: https://docs.aws.amazon.com/aws-managed-policy/latest/reference/ (2026-08)
_HARMLESS = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKSWorkerNodeMinimalPolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryReadOnly",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",
    "CloudWatchAgentServerPolicy",
    "AmazonEBSCSIDriverPolicy",
)
_ANNOTATION = "eks.amazonaws.com/role-arn"


def role_of(reference: Any, resources: Mapping[str, Resource]) -> Resource | None:
    """Return the role that a name, an ARN or an expression means, when it is in the input."""
    if isinstance(reference, Unknown):
        found = resources.get(reference.resource or "")
        if found is not None and found.type == "AWS::IAM::InstanceProfile":
            return role_of(next(iter(items(found.properties.get("Roles"))), None), resources)
        return found if found is not None and found.type == _ROLE else _named(_last(str(reference)), resources)
    text = known_text(reference)
    return _named(_last(text), resources) if text else None


def _last(text: str) -> str:
    return text.rpartition("/")[2]


def _named(name: str, resources: Mapping[str, Resource]) -> Resource | None:
    roles = (each for each in resources.values() if each.type == _ROLE)
    return next((each for each in roles if name and _name(each.properties.get("RoleName")) == name), None)


def _name(value: Any) -> str | None:
    return value.expression if isinstance(value, Unknown) else known_text(value)


def allows(role: Resource, action: str, resources: Mapping[str, Resource]) -> Answer:
    """Say whether a role's policies allow an action on anything at all; unknown where one cannot be read."""
    answers = {_document_allows(each, action) for each in _documents(role, resources)}
    if Answer.YES in answers:
        return Answer.YES
    return Answer.UNKNOWN if Answer.UNKNOWN in answers else Answer.NO


def _documents(role: Resource, resources: Mapping[str, Resource]) -> Iterable[Any]:
    for each in items(role.properties.get("Policies")):
        yield dig(each, "PolicyDocument") if isinstance(each, dict) else Unknown("${policy}")
    if isinstance(role.properties.get("Policies"), Unknown):
        yield role.properties["Policies"]
    arns = role.properties.get("ManagedPolicyArns")
    for arn in items(arns) if not isinstance(arns, Unknown) else [arns]:
        yield _managed(arn, resources)
    for each in resources.values():
        if each.type in _POLICIES and _is_of(each, role, resources):
            yield each.properties.get("PolicyDocument")


def _managed(arn: Any, resources: Mapping[str, Resource]) -> Any:
    found = resources.get(arn.resource or "") if isinstance(arn, Unknown) else None
    if found is not None:
        return found.properties.get("PolicyDocument")
    return {} if _last(str(arn)) in _HARMLESS else Unknown(str(arn))


def _is_of(policy: Resource, role: Resource, resources: Mapping[str, Resource]) -> bool:
    named = [*items(policy.properties.get("Roles")), policy.properties.get("RoleName")]
    return any(role_of(each, resources) is role for each in named if each is not None)


def _document_allows(document: Any, action: str) -> Answer:
    if not isinstance(document, dict):
        return Answer.UNKNOWN
    statement = document.get("Statement")
    listed = statement if isinstance(statement, list) else [] if statement is None else [statement]
    answers = {_statement_allows(each, action) for each in listed}
    return next((each for each in (Answer.YES, Answer.UNKNOWN) if each in answers), Answer.NO)


def _statement_allows(statement: Any, action: str) -> Answer:
    if not isinstance(statement, dict) or isinstance(statement.get("Effect"), Unknown):
        return Answer.UNKNOWN
    if statement.get("Effect") != "Allow":
        return Answer.NO
    if "NotAction" in statement:
        return Answer.UNKNOWN
    listed = statement.get("Action")
    patterns = listed if isinstance(listed, list) else [listed]
    if any(isinstance(each, str) and fnmatchcase(action.lower(), _pattern(each)) for each in patterns):
        return Answer.YES
    return Answer.NO if all(isinstance(each, str) for each in patterns) else Answer.UNKNOWN


def _pattern(text: str) -> str:
    return text.lower().replace("[", "[[]")


def identity(autoscaler: Autoscaler, cluster: Cluster) -> Any:
    """Return the role that a controller's pods act as; ``None`` where nothing gives them one.

    It is what a Pod Identity association or an annotation of the service account says, as text or `Unknown`.
    """
    namespace, name = autoscaler.service_account
    for each in associations(cluster):
        said = each.properties.get("Namespace"), each.properties.get("ServiceAccount")
        if all(isinstance(one, Unknown) or one == wanted for one, wanted in zip(said, (namespace, name), strict=True)):
            return each.properties.get("RoleArn") or Unknown("${role}")
    for account in cluster.of_kind("ServiceAccount"):
        if (account.namespace, account.name) == (namespace, name) and _ANNOTATION in account.annotations:
            return account.annotations[_ANNOTATION]
    return _of_chart(autoscaler, cluster)


def _of_chart(autoscaler: Autoscaler, cluster: Cluster) -> Any:
    for chart in cluster.charts:
        if chart.origin == autoscaler.origin:
            accounts = (dig(chart.values, *path) for path in (("serviceAccount",), ("rbac", "serviceAccount")))
            found = (mapping(mapping(each).get("annotations")).get(_ANNOTATION) for each in accounts)
            return next((each for each in found if each is not None), None)
    return None


def associations(cluster: Cluster) -> list[Resource]:
    """Return the Pod Identity associations of a cluster; those of an unknown cluster included."""
    found = cluster.resources_of("AWS::EKS::PodIdentityAssociation")
    own = cluster.resource.key if cluster.resource else None
    return [each for each in found if _belongs(each.properties.get("ClusterName"), own, cluster.name)]


def _belongs(reference: Any, key: str | None, name: str) -> bool:
    if isinstance(reference, Unknown):
        return reference.resource in (None, key) or key is None
    return reference == name or key is None


def trusted_accounts(role: Resource) -> tuple[str, ...]:
    """Return the service accounts that a role's trust policy names, as ``namespace:name``."""
    prefix, found = "system:serviceaccount:", []
    for statement in mappings(dig(role.properties, "AssumeRolePolicyDocument", "Statement")):
        for pairs in mapping(statement.get("Condition")).values():
            for key, value in mapping(pairs).items():
                values = value if isinstance(value, list) else [value]
                if str(key).endswith(":sub"):
                    found += [str(each).removeprefix(prefix) for each in values if str(each).startswith(prefix)]
    return tuple(found)
