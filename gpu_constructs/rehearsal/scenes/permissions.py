"""Permissions: what every role and every service account asked was allowed, and what they have too much is listed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gpu_constructs.rehearsal.players.cluster.access.audit import rbac_uses
from gpu_constructs.rehearsal.players.cluster.access.rules import rules_of_accounts, unused
from gpu_constructs.rehearsal.report import Line, Outcome
from gpu_constructs.rehearsal.stage import Stage

SCENE = "Permissions"
_ACCOUNT = "system:serviceaccount:"
# Of Kubernetes itself, which no stack says anything of.
_OWN = "system:"


def permissions(stage: Stage) -> Iterator[Line]:
    """Judge every call that was made in all scenes before."""
    yield from _of_roles(stage)
    yield from _of_accounts(stage)


def _of_roles(stage: Stage) -> Iterator[Line]:
    calls = [each for each in stage.aws.calls if each.principal]
    for role in sorted({each.principal for each in calls}):
        own = [each for each in calls if each.principal == role]
        refused = sorted({f"{each.action} ({each.message})" for each in own if not each.allowed})
        used = {name for each in own for name in each.statements}
        idle = [each.name for each in stage.aws.statements(role) if each.name not in used] if "role/" in role else []
        yield Line(
            scene=SCENE,
            promise=f"role {_short(role)} may do what it does",
            outcome=Outcome.FAILED if refused else Outcome.HELD,
            text="; ".join(refused) or f"{len({each.action for each in own})} actions",
        )
        if idle:
            yield Line(
                scene=SCENE,
                promise=f"role {_short(role)}",
                outcome=Outcome.NOT_USED,
                text=", ".join(sorted(_short(each) for each in idle)),
            )


def _of_accounts(stage: Stage) -> Iterator[Line]:
    controllers = _controllers(stage)
    uses = [
        each for each in rbac_uses(stage.plane.audit) if each.user.startswith(_ACCOUNT) and each.user not in controllers
    ]
    by_user = defaultdict(list)
    for use in uses:
        by_user[use.user].append(use)
    rules = [each for each in rules_of_accounts(stage.client) if not each.role.partition(" ")[2].startswith(_OWN)]
    for user, own in sorted(by_user.items()):
        refused = sorted({f"{each.verb} {each.resource or each.path}" for each in own if each.decision != "allow"})
        yield Line(
            scene=SCENE,
            promise=f"account {_account(user)} may do what it does",
            outcome=Outcome.FAILED if refused else Outcome.HELD,
            text="; ".join(refused) or f"{len({(each.verb, each.resource) for each in own})} kinds of call",
        )
    idle = unused(rules, uses)
    for user in sorted({each.user for each in idle} & by_user.keys()):
        said = sorted({f"{each.verb} {each.resource or each.path}" for each in idle if each.user == user})
        yield Line(
            scene=SCENE,
            promise=f"account {_account(user)}",
            outcome=Outcome.NOT_USED,
            text=", ".join(said),
        )


def _controllers(stage: Stage) -> set[str]:
    """Return the accounts of Kubernetes' own controllers, which no stack says anything of.

    Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/#controller-roles
    """
    rules = rules_of_accounts(stage.client)
    return {each.user for each in rules if each.role.startswith("ClusterRole system:controller:")}


def _account(user: str) -> str:
    return user.removeprefix(_ACCOUNT).replace(":", "/")


def _short(arn: str) -> str:
    """Return the last part of an ARN, which names a role or policy."""
    return arn.rpartition("/")[2]
