"""Who looks after a whole cluster, or only looks at it, beside who administers it."""

from __future__ import annotations

from collections.abc import Sequence

from constructs import Construct

from gpu_constructs.installing.claims import PathOf
from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.delivery import apply_manifests
from gpu_constructs.teams.access_entry import (
    access_entry,
    refuse_unless_principals,
    warn_of_identity_center,
)
from gpu_constructs.teams.rights import POLICIES, bound_role, operator_rules, viewer_rules
from gpu_facts.refusals import words

VIEWERS, OPERATORS = "gpu-constructs:viewers", "gpu-constructs:operators"
_VIEWER_ROLE, _OPERATOR_ROLE = "gpu-constructs-viewer", "gpu-constructs-operator"


def principals(who: object, argument: str, given: object) -> tuple[str, ...]:
    """Return people by their ARNs.

    Raises:
        TypeError: They are no list.
        ValueError: One is no IAM user or role, or is named twice.
    """
    arns = words(who, argument, given)
    refuse_unless_principals(who, argument, arns)
    return arns


def refuse_two_parts(who: object, **given: Sequence[str]) -> None:
    """Refuse somebody who is named in two ways: EKS takes one access entry, and the greater right has the lesser.

    Raises:
        ValueError: Somebody is.
    """
    named: dict[str, str] = {}
    for argument, arns in given.items():
        for arn in arns:
            other = named.setdefault(arn, argument)
            if other != argument:
                raise ValueError(f"{who}: {argument} must not name who is in {other}, got {arn!r}; leave one")


def let_in(scope: Construct, cluster: ClusterRef, *, viewers: Sequence[str], operators: Sequence[str]) -> None:
    """Let people look at a cluster, or look after it, and apply the roles that their groups have in it."""
    who = PathOf(scope)
    for argument, arns, groups in (("viewers", viewers, (VIEWERS,)), ("operators", operators, (VIEWERS, OPERATORS))):
        warn_of_identity_center(scope, tuple(arns))
        for arn in arns:
            entry = access_entry(who, argument, cluster, arn)
            for group in groups:
                entry.let(POLICIES["view"], group=group)
    if viewers or operators:
        role = bound_role(_VIEWER_ROLE, VIEWERS, viewer_rules())
        apply_manifests(scope, "ViewerRole", cluster=cluster, manifests=role)
    if operators:
        role = bound_role(_OPERATOR_ROLE, OPERATORS, operator_rules())
        apply_manifests(scope, "OperatorRole", cluster=cluster, manifests=role)
