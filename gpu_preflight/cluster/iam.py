"""Roles of the input: which actions their policies allow, who may assume them, and which are for nodes and functions.

An allowed action counts for any resources and conditions, because they can only narrow it. Sources:
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_action.html,
https://docs.aws.amazon.com/eks/latest/userguide/pod-identities.html,
https://docs.aws.amazon.com/eks/latest/userguide/associate-service-account-role.html,
https://docs.aws.amazon.com/eks/latest/userguide/pod-id-association.html (2026-11)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from gpu_facts.iam_policies import ACTIONS_OF_AWS
from gpu_facts.light import regex
from gpu_preflight.cluster.references import referred, refers
from gpu_preflight.model.answer import Answer, all_yes, any_yes, yes_if
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.pod import Workload
from gpu_preflight.model.software import Autoscaler
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.unknown import Unknown, dig, is_expression, items, known_text, mapping, mappings, may_equal

_ROLE = "AWS::IAM::Role"
_POLICIES = ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::IAM::RolePolicy")
# A policy that a role has only under a condition.
_MAYBE = regex(r'\$\{Fn::If \["[^"]*","([^"]*)"\]\}')
_WILDCARDS = frozenset("*?[")
# A slash, except the one between stack and resource of an expression.
_SLASH = regex(r"/(?![^{}]*\})")
ROLE_ANNOTATION = "eks.amazonaws.com/role-arn"
POD_IDENTITY = "pods.eks.amazonaws.com"
POD_IDENTITY_ACTIONS = ("sts:AssumeRole", "sts:TagSession")
WEB_IDENTITY_ACTION = "sts:AssumeRoleWithWebIdentity"
# Default audience that EKS' webhook sets in a token, unless the service account names another.
AUDIENCE = "sts.amazonaws.com"
_ACCOUNT = "system:serviceaccount:"
_TEXT_CONDITIONS = ("StringEquals", "StringLike")
_REQUEST_TAG = "aws:requesttag/"
# Kind in ACK and in Crossplane.
_ASSOCIATION = "PodIdentityAssociation"
# Every namespace has it. Pods that name no service account use it.
_EVERYWHERE = "default"
# Values of Cluster Autoscaler's chart that set credentials for its pods, or variables that may contain some.
# Source: kubernetes/autoscaler charts/cluster-autoscaler/values.yaml (read 2026-11-23)
_CREDENTIALS = ("awsAccessKeyID", "envFromConfigMap", "envFromSecret", "extraEnv", "extraEnvConfigMaps")
_FUNCTION = "AWS::Lambda::Function"
# The CDK's provider framework calls the function that this variable names.
_HANDLER = "USER_ON_EVENT_FUNCTION_ARN"


def resolve_role(reference: Any, resources: Mapping[str, Resource]) -> Resource | None:
    """Return the role that a name, an ARN or an expression refers to, if it is in the input."""
    if isinstance(reference, Unknown):
        found = resources.get(reference.resource or "")
        if found is not None and found.type == "AWS::IAM::InstanceProfile":
            return resolve_role(next(iter(items(found.properties.get("Roles"))), None), resources)
        return found if found is not None and found.type == _ROLE else _named(_last(str(reference)), resources)
    text = known_text(reference)
    return _named(_last(text), resources) if text else None


def _last(text: str) -> str:
    return _SLASH.split(text)[-1]


def _named(name: str, resources: Mapping[str, Resource]) -> Resource | None:
    roles = (each for each in resources.values() if each.type == _ROLE)
    return next((each for each in roles if name and _name(each.properties.get("RoleName")) == name), None)


def _name(value: Any) -> str | None:
    return value.expression if isinstance(value, Unknown) else known_text(value)


def allows(role: Resource, action: str, resources: Mapping[str, Resource]) -> Answer:
    """Return whether a role's policies allow an action on any resource; unknown if a policy can't be read."""
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
        if each.type in _POLICIES and _is_attached(each, role, resources):
            yield each.properties.get("PolicyDocument")


def inline_policies(role: Resource, resources: Mapping[str, Resource]) -> Iterator[tuple[Any, bool]]:
    """Yield each inline policy of a role of the input, and whether the role certainly has it."""
    for each in items(role.properties.get("Policies")):
        if isinstance(each, dict):
            yield each.get("PolicyDocument"), True
    for each in resources.values():
        if each.type in ("AWS::IAM::Policy", "AWS::IAM::RolePolicy") and _is_attached(each, role, resources):
            yield each.properties.get("PolicyDocument"), not each.conditional


def _managed(arn: Any, resources: Mapping[str, Resource]) -> Any:
    found = resources.get(arn.resource or "") if isinstance(arn, Unknown) else None
    if found is not None:
        return found.properties.get("PolicyDocument")
    named = _MAYBE.fullmatch(str(arn))
    actions = ACTIONS_OF_AWS.get(_last(named[1] if named else str(arn)))
    allowed = {"Effect": "Allow", "Action": [*(actions or ())], "Resource": "*"}
    return Unknown(str(arn)) if actions is None else {"Statement": [allowed]}


def _is_attached(policy: Resource, role: Resource, resources: Mapping[str, Resource]) -> bool:
    named = [*items(policy.properties.get("Roles")), policy.properties.get("RoleName")]
    return any(resolve_role(each, resources) is role for each in named if each is not None)


def _is_included(action: str, pattern: str) -> bool:
    """Whether a pattern includes an action. Most name one action, and then no regular expression is compiled."""
    return action == pattern or (not _WILDCARDS.isdisjoint(pattern) and fnmatchcase(action, pattern))


def _document_allows(document: Any, action: str) -> Answer:
    if not isinstance(document, dict):
        return Answer.UNKNOWN
    answers = {_statement_allows(each, action) for each in statements(document)}
    return next((each for each in (Answer.YES, Answer.UNKNOWN) if each in answers), Answer.NO)


def _statement_allows(statement: Any, action: str) -> Answer:
    if not isinstance(statement, dict) or isinstance(statement.get("Effect"), Unknown):
        return Answer.UNKNOWN
    if statement.get("Effect") != "Allow":
        return Answer.NO
    if "NotAction" in statement:
        return Answer.UNKNOWN
    patterns = listed(statement.get("Action"))
    if any(isinstance(each, str) and _is_included(action.lower(), _pattern(each)) for each in patterns):
        return Answer.YES
    return Answer.NO if all(isinstance(each, str) for each in patterns) else Answer.UNKNOWN


def _pattern(text: str) -> str:
    return text.lower().replace("[", "[[]")


def identity(autoscaler: Autoscaler, cluster: Cluster) -> Any:
    """Return the role that a controller's pods use; ``None`` if nothing sets one.

    A Pod Identity association or an annotation of the service account sets it, as text or `Unknown`.
    """
    namespace, name = autoscaler.service_account
    for each in associations(cluster):
        subject = each.properties.get("Namespace"), each.properties.get("ServiceAccount")
        if all(may_equal(str(one), wanted) for one, wanted in zip(subject, (namespace, name), strict=True)):
            return each.properties.get("RoleArn") or Unknown("${role}")
    for account in cluster.objects_of_kind("ServiceAccount"):
        if (account.namespace, account.name) == (namespace, name) and ROLE_ANNOTATION in account.annotations:
            return account.annotations[ROLE_ANNOTATION]
    return _chart_role(autoscaler, cluster)


def _chart_role(autoscaler: Autoscaler, cluster: Cluster) -> Any:
    for chart in cluster.charts:
        if chart.origin == autoscaler.origin:
            accounts = (dig(chart.values, *path) for path in (("serviceAccount",), ("rbac", "serviceAccount")))
            found = (mapping(mapping(each).get("annotations")).get(ROLE_ANNOTATION) for each in accounts)
            return next((each for each in found if each is not None), None)
    return None


def has_credentials(autoscaler: Autoscaler, cluster: Cluster) -> bool:
    """Whether the pods of an autoscaler may have a role, or access keys of a user."""
    charts = [each for each in cluster.charts if each.origin == autoscaler.origin]
    keys = "AWS_ACCESS_KEY_ID" in autoscaler.flags or any(
        dig(each.values, key) for each in charts for key in _CREDENTIALS
    )
    return keys or identity(autoscaler, cluster) is not None


def associations(cluster: Cluster) -> list[Resource]:
    """Return the Pod Identity associations of a cluster, including associations of an unknown cluster."""
    found = cluster.resources_of_type("AWS::EKS::PodIdentityAssociation")
    own = cluster.resource.key if cluster.resource else None
    return [each for each in found if _belongs(each.properties.get("ClusterName"), own, cluster.name)]


def _belongs(reference: Any, key: str | None, name: str) -> bool:
    if isinstance(reference, Unknown):
        return reference.resource in (None, key) or key is None
    return reference == name or key is None


def is_associated(account: tuple[str, str], cluster: Cluster) -> Answer:
    """Return whether a service account, by namespace and name, has a role by Pod Identity."""
    return any_yes(_matches_account(each, account) for each in associations(cluster))


def certain_associations(account: tuple[str, str], cluster: Cluster) -> list[Resource]:
    """Return the Pod Identity associations that certainly set the role of a service account, by namespace and name."""
    return [each for each in associations(cluster) if _matches_account(each, account) is Answer.YES]


def _matches_account(association: Resource, account: tuple[str, str]) -> Answer:
    subject = tuple(str(association.properties.get(key)) for key in ("Namespace", "ServiceAccount"))
    if not all(map(may_equal, subject, account)):
        return Answer.NO
    return Answer.UNKNOWN if association.conditional or subject != account else Answer.YES


def pod_service_account(workload: Workload) -> tuple[str, str] | None:
    """Return the service account of a workload's pods, by namespace and name; ``None`` if it isn't known."""
    name = workload.pod.service_account or _EVERYWHERE
    return None if isinstance(name, Unknown) else (workload.namespace, str(name))


def has_role(account: tuple[str, str], cluster: Cluster) -> Answer:
    """Return whether a service account, by namespace and name, has a role by Pod Identity or IRSA."""
    written = [each for each in cluster.objects_of_kind("ServiceAccount") if (each.namespace, each.name) == account]
    if any(each.annotations.get(ROLE_ANNOTATION) for each in written):
        return Answer.YES
    # An account that is created elsewhere may be annotated there. Operators create associations from objects of that
    # kind.
    seen = bool(written) or account[1] == _EVERYWHERE
    hidden = not seen or not cluster.sees_objects or bool(cluster.objects_of_kind(_ASSOCIATION))
    return any_yes((is_associated(account, cluster), Answer.UNKNOWN if hidden else Answer.NO))


def may_pass(role: Resource, other: Any, resources: Mapping[str, Resource]) -> Answer:
    """Return whether a role's policies allow it to pass a role, as a name or a reference, to instances."""
    answers = {_covers(each, other, resources) for each in allowed_resources(role, "iam:PassRole", resources)}
    return next((each for each in (Answer.YES, Answer.UNKNOWN) if each in answers), Answer.NO)


def allowed_resources(role: Resource, action: str, resources: Mapping[str, Resource]) -> list[Any]:
    """Return the resources on which a role's policies allow an action; `Unknown` for a policy that can't be read."""
    return [each for one in _documents(role, resources) for each in _grants(one, action)]


def _grants(document: Any, action: str) -> Iterable[Any]:
    """Yield the resources of the statements of a policy that allow an action."""
    if not isinstance(document, dict):
        yield Unknown("${policy}")
        return
    for each in statements(document):
        answer = _statement_allows(each, action)
        if answer is Answer.UNKNOWN or (answer is Answer.YES and "NotResource" in each):
            yield Unknown("${statement}")
        elif answer is Answer.YES:
            yield from listed(each.get("Resource"))


def _covers(granted: Any, role: Any, resources: Mapping[str, Resource]) -> Answer:
    """Return whether a resource of a statement is a role, or matches it."""
    own, found, text = resolve_role(role, resources), resolve_role(granted, resources), _last(str(granted))
    if found is not None and own is not None:
        return yes_if(found is own)
    if text == "*":
        return Answer.YES
    named = found.properties.get("RoleName", Unknown("${name}")) if found is not None else text
    wanted = own.properties.get("RoleName", Unknown("${name}")) if own is not None else role
    return _matches(_last(str(named)), _last(str(wanted)))


def _matches(pattern: str, name: str) -> Answer:
    start = min(pattern.find(sign) % (len(pattern) + 1) for sign in "*?")
    if start < len(pattern):
        return Answer.UNKNOWN if may_equal(f"{pattern[:start]}${{}}", name) else Answer.NO
    return Answer.YES if pattern == name else Answer.UNKNOWN if may_equal(pattern, name) else Answer.NO


def listed(value: Any) -> list[Any]:
    """Return a value of a policy as a list. A policy may have one value or a list."""
    return value if isinstance(value, list) else [] if value is None else [value]


def statements(document: Any) -> list[Any]:
    """Return the statements of a policy, including unknown ones."""
    return listed(mapping(document).get("Statement"))


def trusted_accounts(role: Resource) -> tuple[str, ...]:
    """Return the service accounts that a role's trust policy names, as ``namespace:name``."""
    found = [str(each) for each in _conditions(role, ":sub")]
    return tuple(each.removeprefix(_ACCOUNT) for each in found if each.startswith(_ACCOUNT))


def trusted_audiences(role: Resource) -> tuple[str, ...]:
    """Return the audiences of tokens that a role's trust policy names."""
    return tuple(str(each) for each in _conditions(role, ":aud"))


def _conditions(role: Resource, ending: str) -> Iterator[Any]:
    for statement in statements(role.properties.get("AssumeRolePolicyDocument")):
        for pairs in mapping(mapping(statement).get("Condition")).values():
            for key, value in mapping(pairs).items():
                if str(key).endswith(ending):
                    yield from listed(value)


def refused_tags(role: Resource, tags: Mapping[str, str]) -> tuple[str, ...]:
    """Return the conditions of a role's trust policy that prevent EKS Pod Identity from assuming it for a pod.

    Empty if a statement allows it.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/pod-id-abac.html (2026-11-24)

    Args:
        role: The role.
        tags: Tags of the session, as far as they are known.
    """
    found: list[str] = []
    for statement in statements(role.properties.get("AssumeRolePolicyDocument")):
        if _statement_trusts(statement, "Service", POD_IDENTITY_ACTIONS[0], POD_IDENTITY) is Answer.NO:
            continue
        unmet = list(_unmet(statement, tags))
        if not unmet:
            return ()
        found += unmet
    return tuple(found)


def _unmet(statement: Any, tags: Mapping[str, str]) -> Iterator[str]:
    conditions = mapping(mapping(statement).get("Condition"))
    for key, value in (pair for each in _TEXT_CONDITIONS for pair in mapping(conditions.get(each)).items()):
        tag = str(key).lower().removeprefix(_REQUEST_TAG)
        allowed = [str(each) for each in listed(value)]
        if tag in tags and not any("*" in each or "?" in each or may_equal(each, tags[tag]) for each in allowed):
            yield f"{tag}={' or '.join(allowed)}"


def trusts(role: Resource, kind: str, action: str, principal: str = "") -> Answer:
    """Return whether a role's trust policy allows an action for a principal.

    Args:
        role: The role.
        kind: Kind of principal, ``Service`` or ``Federated``.
        action: The action.
        principal: The principal. Default: any of the kind.
    """
    document = role.properties.get("AssumeRolePolicyDocument")
    if not isinstance(document, dict):
        return Answer.UNKNOWN
    return any_yes(_statement_trusts(each, kind, action, principal) for each in statements(document))


def _statement_trusts(statement: Any, kind: str, action: str, principal: str) -> Answer:
    if not isinstance(statement, dict) or "NotAction" in statement or "NotPrincipal" in statement:
        return Answer.UNKNOWN
    return all_yes(
        (_value_matches(statement.get("Effect"), "Allow"), _acts(statement, action), _names(statement, kind, principal))
    )


def _acts(statement: dict[str, Any], action: str) -> Answer:
    return any_yes(
        Answer.UNKNOWN if isinstance(each, Unknown) else yes_if(_is_included(action.lower(), str(each).lower()))
        for each in listed(statement.get("Action"))
    )


def _names(statement: dict[str, Any], kind: str, principal: str) -> Answer:
    named = statement.get("Principal")
    if named == "*" or isinstance(named, Unknown):
        return Answer.UNKNOWN
    return any_yes(_value_matches(each, principal) for each in listed(mapping(named).get(kind)))


def _value_matches(value: Any, wanted: str) -> Answer:
    if wanted and (isinstance(value, Unknown) or is_expression(str(value))):
        return Answer.UNKNOWN
    return yes_if(not wanted or value == wanted)


def custom_resource_functions(service_token: object, resources: Mapping[str, Resource]) -> list[Resource]:
    """Return the function that CloudFormation calls for a custom resource, and then the function that does the work.

    Empty if the first function isn't in the input. Only the first function if it does the work itself.
    """
    provider = referred(service_token, resources)
    if provider is None or provider.type != _FUNCTION:
        return []
    handler = referred(dig(provider.properties, "Environment", "Variables", _HANDLER), resources)
    return [provider, handler] if handler is not None else [provider]


def node_role(pool: Pool, resources: Mapping[str, Resource]) -> Resource | None:
    """Return the role of a pool's nodes; ``None`` if it isn't in the input."""
    reference = _reference(pool, resources)
    role = referred(reference, resources) or _role_by_name(reference, resources)
    return role if role is not None and role.type == "AWS::IAM::Role" else None


def _role_by_name(reference: Any, resources: Mapping[str, Resource]) -> Resource | None:
    """Return the role for a literal name or ARN, as in node classes."""
    name = reference.rpartition("/")[2] if isinstance(reference, str) else None
    roles = (each for each in resources.values() if each.type == "AWS::IAM::Role")
    return next((each for each in roles if name and each.properties.get("RoleName") == name), None)


def _reference(pool: Pool, resources: Mapping[str, Resource]) -> Any:
    if pool.kind == "managed":
        return pool.properties.get("NodeRole")
    if pool.kind != "self-managed":
        return pool.launch.role
    given = pool.launch.profile
    named = mapping(given).get("Arn") or mapping(given).get("Name") or given
    profile = referred(named, resources)
    return next(iter(items(profile.properties.get("Roles"))), None) if profile else None


def policy_names(role: Resource) -> tuple[str, ...] | None:
    """Return the names of AWS managed policies of a role; ``None`` if one of its policies isn't known."""
    listed = role.properties.get("ManagedPolicyArns") or []
    if not isinstance(listed, list):
        return None
    texts = [str(each) for each in listed]
    return tuple(each.rpartition("/")[2] for each in texts) if all(":policy/" in each for each in texts) else None


def own_actions(role: Resource, resources: Mapping[str, Resource]) -> list[str] | None:
    """Return the actions that a role's custom policies allow; ``None`` if they aren't known."""
    documents = _own_policies(role, resources)
    if any(not isinstance(each, dict) for each in documents):
        return None
    found: list[str] = []
    for statement in (one for each in documents for one in _statements(each)):
        actions = statement.get("Action")
        found += [str(each) for each in (actions if isinstance(actions, list) else [actions])]
    return found


def _own_policies(role: Resource, resources: Mapping[str, Resource]) -> list[Any]:
    found = [each.get("PolicyDocument") for each in mappings(role.properties.get("Policies"))]
    for each in resources.values():
        holders = [*items(each.properties.get("Roles")), each.properties.get("RoleName")]
        if each.type in _POLICIES and any(refers(holder, role) for holder in holders):
            found.append(each.properties.get("PolicyDocument"))
    return found


def _statements(document: Any) -> list[dict[str, Any]]:
    statements = mapping(document).get("Statement")
    return mappings(statements if isinstance(statements, list) else [statements])


def trusted_services(role: Resource) -> list[str] | None:
    """Return the services that may assume a role; ``None`` if they aren't known."""
    document = role.properties.get("AssumeRolePolicyDocument")
    if not isinstance(document, dict):
        return None
    found: list[str] = []
    for statement in _statements(document):
        principal = statement.get("Principal")
        if isinstance(principal, Unknown) or principal == "*":
            return None
        services = mapping(principal).get("Service")
        found += [str(each) for each in (services if isinstance(services, list) else [services]) if each is not None]
    return found


def is_of_services(role: Resource) -> bool:
    """Whether only services may assume a role."""
    document = role.properties.get("AssumeRolePolicyDocument")
    principals = [each.get("Principal") for each in _statements(document)] if isinstance(document, dict) else []
    return bool(principals) and all(isinstance(each, dict) and set(each) == {"Service"} for each in principals)


def wrong_type_fix(entry: Resource, wanted: str) -> str:
    """Return how an access entry gets another type.

    CloudFormation creates the new entry before it deletes the old one, and EKS rejects two entries of a principal.
    """
    return (
        f"Set Type: {wanted} in access entry {entry.path}. If it is deployed, delete it first: its type can't change."
    )
