"""Failure: a custom resource of each handler and each release fails once; the creation is rolled back and repeated."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpu_rehearsal.assemblies import Assembly
from gpu_rehearsal.cloudformation.events import Event
from gpu_rehearsal.cloudformation.template import references
from gpu_rehearsal.cluster.control_plane import rbac_uses
from gpu_rehearsal.report import Line, Outcome
from gpu_rehearsal.scenarios.destroy import nothing_left, retained_resources
from gpu_rehearsal.stage import Stage

SCENARIO = "Failure"
# What CloudFormation says instead of the answer of the handler, which did its work: there is something to roll back.
REASON = "Received response status [FAILED] from custom resource. Message returned: failed by the rehearsal"
_RELEASE = "Custom::AWSCDK-EKS-HelmChart"


def to_fail(template: Mapping[str, Any]) -> dict[str, str]:
    """Return the type of one custom resource of each handler and of each release, by logical id, as they are needed.

    Of the resources of a handler it is the one that needs most others, so that most is there to roll back.
    """
    resources = template["Resources"]
    deep = {name: len(_needed(name, resources)) for name in resources}
    found: dict[str, str] = {}
    for name in sorted(resources, key=lambda each: (deep[each], each)):
        properties = resources[name].get("Properties", {})
        if "ServiceToken" in properties:
            release = name if resources[name]["Type"] == _RELEASE else ""
            found[json.dumps([properties["ServiceToken"], release])] = name
    return {name: str(resources[name]["Type"]) for name in sorted(found.values(), key=lambda each: (deep[each], each))}


class Failures:
    """Creations that fail, before the one that doesn't.

    Args:
        before: What was in the account before the stacks.
        most: How many for each stack, those that fail last; `None` for all.

    Attributes:
        calls: How many calls the API server had answered when the last creation that failed was rolled back.
    """

    def __init__(self, stage: Stage, before: Mapping[str, str], *, most: int | None) -> None:
        self._stage, self._most = stage, most
        self._before, self.calls = before, 0
        self._failed: dict[str, list[str]] = {}

    def create_with_failures(self, assembly: Assembly) -> Iterator[Line]:
        """Create a stack as often as there is something to fail, and report on each rollback."""
        names = to_fail(assembly.template)
        known = dict(self._before)
        for name in list(names)[len(names) - self._most if self._most is not None else 0 :]:
            promise = f"{assembly.stack}: {names[name]} {name} fails: "
            events = self._stage.deploy(assembly, fails={name: REASON})
            if why := _why_not_failed(name, events):
                yield Line(scenario=SCENARIO, promise=f"{promise}it is reached", outcome=why[0], text=why[1])
                if why[0] is Outcome.FAILED:
                    return
                known |= retained_resources(self._stage.stacks[assembly.stack].delete(), assembly.template["Resources"])
                continue
            yield _rolled_back(promise, self._stage.stacks[assembly.stack].status, events)
            kept = retained_resources(events, assembly.template["Resources"])
            known |= kept
            yield from nothing_left(self._stage, SCENARIO, promise, known, kept)
            self._failed.setdefault(assembly.stack, []).append(name)
            self.calls = len(list(rbac_uses(self._stage.plane.audit)))

    def check_recovery(self) -> Iterator[Line]:
        """Report whether what failed once is there after the last creation."""
        for stack, names in self._failed.items():
            missing = sorted(set(names) - self._stage.stacks[stack].resources.keys())
            yield Line(
                scenario=SCENARIO,
                promise=f"{stack}: what failed before is created by the next creation",
                outcome=Outcome.FAILED if missing else Outcome.HELD,
                text=f"not created: {', '.join(missing)}" if missing else "",
            )


def _why_not_failed(name: str, events: Sequence[Event]) -> tuple[Outcome, str] | None:
    """Return why a resource didn't fail as it should: it isn't played, or something else failed before."""
    forward = [each for each in events if each.phase == "create"]
    if any(each.logical_id == name and each.failed and REASON in each.reason for each in forward):
        return None
    unplayed = next((each for each in forward if each.logical_id == name and each.status == "NOT_PLAYED"), None)
    if unplayed:
        return Outcome.NOT_PLAYED, unplayed.reason
    return Outcome.FAILED, "; ".join(f"{each.logical_id}: {each.reason}" for each in events if each.failed)


def _rolled_back(promise: str, status: str, events: Sequence[Event]) -> Line:
    back = [each for each in events if each.phase == "rollback"]
    failed = [f"{each.logical_id}: {each.reason}" for each in back if each.failed]
    gone = sum(each.status == "DELETE_COMPLETE" for each in back)
    held = status == "ROLLBACK_COMPLETE"
    kept = ", ".join(sorted(each.type for each in back if each.status == "DELETE_SKIPPED"))
    said = f"{gone} resources are deleted" + (f"; its DeletionPolicy keeps {kept}" if kept else "")
    return Line(
        scenario=SCENARIO,
        promise=f"{promise}rollback completes",
        outcome=Outcome.HELD if held else Outcome.FAILED,
        text=said if held else "; ".join((status, *failed)),
    )


def _needed(name: str, resources: Mapping[str, Any], seen: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return all resources that one needs, directly or not."""
    found = resources[name]
    depends = found.get("DependsOn", [])
    direct = {*([depends] if isinstance(depends, str) else depends), *references(found.get("Properties", {}))}
    for each in (direct & resources.keys()) - seen:
        seen = _needed(each, resources, seen | {each})
    return seen
