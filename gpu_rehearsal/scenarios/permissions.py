"""Permissions and Network: every call was allowed, and every instance became a node that the API server reaches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from gpu_rehearsal.cluster.control_plane import rbac_uses
from gpu_rehearsal.report import Line, Outcome
from gpu_rehearsal.stage import Stage

SCENARIO = "Permissions"
_ACCOUNT = "system:serviceaccount:"
_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


def check_roles(stage: Stage) -> Iterator[Line]:
    """Check every call of AWS that was made in all scenarios before."""
    calls = [each for each in stage.aws.calls if each.principal]
    for role in sorted({each.principal for each in calls}):
        own = [each for each in calls if each.principal == role]
        refused = sorted({f"{each.action} ({each.message})" for each in own if not each.allowed})
        yield Line(
            scenario=SCENARIO,
            promise=f"role {role.rpartition('/')[2]} may do what it does",
            outcome=Outcome.FAILED if refused else Outcome.HELD,
            text="; ".join(refused) or f"{len({each.action for each in own})} actions",
        )


def check_service_accounts(stage: Stage, *, since: int = 0) -> Iterator[Line]:
    """Check the calls of the API server in all scenarios before.

    Args:
        since: How many calls are left out: those of creations that were rolled back. While a release is removed, its
            pods lose their permissions before they end.
    """
    controllers = _controllers(stage)
    by_user = defaultdict(list)
    for use in list(rbac_uses(stage.plane.audit))[since:]:
        if use.user.startswith(_ACCOUNT) and use.user not in controllers:
            by_user[use.user].append(use)
    for user, own in sorted(by_user.items()):
        refused = sorted({f"{each.verb} {each.resource or each.path}" for each in own if each.decision != "allow"})
        yield Line(
            scenario=SCENARIO,
            promise=f"account {user.removeprefix(_ACCOUNT).replace(':', '/')} may do what it does",
            outcome=Outcome.FAILED if refused else Outcome.HELD,
            text="; ".join(refused) or f"{len({(each.verb, each.resource) for each in own})} kinds of call",
        )


def _controllers(stage: Stage) -> set[str]:
    """Return the accounts of Kubernetes' own controllers, which no stack configures.

    Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/#controller-roles
    """
    return {
        f"{_ACCOUNT}{subject['namespace']}:{subject['name']}"
        for each in stage.client.list(_BINDINGS)
        if each["roleRef"]["name"].startswith("system:controller:")
        for subject in each.get("subjects", ())
        if subject["kind"] == "ServiceAccount"
    }


NETWORK = "Network"
_NOT_CHECKED = (
    "network ACLs, DNS options of the VPC, policies of endpoints, transit gateways, peering and firewalls "
    "aren't checked"
)


def network(stage: Stage) -> Iterator[Line]:
    """Report on the instances of all scenarios before; nothing if there were none."""
    kubelets, never = stage.nodes.kubelets, stage.nodes.never
    if not kubelets and not never:
        return
    yield _line("every instance that starts becomes a node", len(kubelets), never.values())
    if kubelets:
        unreached = [why for why in kubelets.values() if why]
        yield _line("the API server reaches the kubelet of every node (port 10250)", len(kubelets), unreached)
    yield Line(
        scenario=NETWORK, promise="the rest of the network is open", outcome=Outcome.NOT_PLAYED, text=_NOT_CHECKED
    )


def _line(promise: str, count: int, faults: Iterable[str]) -> Line:
    said = "; ".join(sorted(set(faults)))
    return Line(
        scenario=NETWORK,
        promise=promise,
        outcome=Outcome.FAILED if said else Outcome.HELD,
        text=said or f"{count} of {count}",
    )
